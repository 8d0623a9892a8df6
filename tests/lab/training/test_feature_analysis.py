import numpy as np
import pytest

from tests.lab.detectors.feature_examples import examples, phrases
from veridical.io.serialization import decode, encode
from veridical.records.errors import InputError, UnknownNameError
from veridical.records.types import Example, Judgement
from veridical_lab.detectors.features.extraction import FeatureSettings
from veridical_lab.report.feature_report import feature_plots, feature_tables
from veridical_lab.training.feature_analysis import FeatureAnalysis, analyse_features, correlations
from veridical_lab.training.features import FeatureOptions, Inputs, feature_table, make_extractor


def analysed(data: list[Example], **options: object) -> FeatureAnalysis:
    sources = bool(data[0].case.sources)
    extractor = make_extractor(data, FeatureOptions(features=FeatureSettings(sources=sources)), Inputs())
    return analyse_features(extractor, data, data="made up", **options)  # type: ignore[arg-type]


def test_means_are_those_of_the_units() -> None:
    data = examples()
    analysis = analysed(data)
    extractor = make_extractor(data, FeatureOptions(), Inputs())
    table = feature_table(extractor, data)
    assert analysis.units == len(table.labels)
    assert analysis.features == ["tf_idf", "ppmi", "unsupported"]
    every = analysis.groups[0]
    assert (every.hallucinated, every.other) == (int(table.labels.sum()), int((~table.labels).sum()))
    column = table.values[:, table.names.index("unsupported")]
    for spread, side in zip(every.features["unsupported"], (table.labels, ~table.labels), strict=True):
        assert spread.mean == pytest.approx(column[side].mean())
        assert spread.deviation == pytest.approx(column[side].std())


def test_word_types_part_the_units() -> None:
    analysis = analysed(examples())
    for prefix in ("pos:", "entity:"):
        of_kind = [group for group in analysis.groups if group.name.startswith(prefix)]
        assert sum(group.hallucinated + group.other for group in of_kind) == analysis.units
    by_name = {group.name: group for group in analysis.groups}
    assert by_name["entity:date"].other >= 48  # the years, all of them right


def test_correlations_are_pearsons() -> None:
    analysis = analysed(examples())
    assert analysis.correlations[0][0] == pytest.approx(1.0)
    data = examples()
    table = feature_table(make_extractor(data, FeatureOptions(), Inputs()), data)
    column = table.values[:, table.names.index("unsupported")]
    assert analysis.correlations[0][3] == pytest.approx(np.corrcoef(table.labels, column)[0, 1])
    assert analysis.correlations[3][0] == analysis.correlations[0][3]
    constant = correlations(np.array([[1.0, 2.0], [1.0, 3.0]]))
    assert constant == [[None, None], [None, pytest.approx(1.0)]]


def test_phrases_have_the_type_of_most_of_their_words() -> None:
    names = {group.name: group for group in analysed(phrases()).groups}
    assert names["entity:date"].hallucinated == 40  # the years
    assert names["entity:none"].other == 80


def test_there_and_back_and_shown() -> None:
    analysis = analysed(examples(), features=["idf", "length", "unsupported"])
    assert decode(encode(analysis)) == analysis
    wide, narrow = feature_tables(analysis), feature_tables(analysis, 80)
    assert (len(wide), len(narrow)) == (2, 4)
    assert wide[0].head[:5] == ["words", "n", "hallucinated", "idf H", "idf N"]
    assert [line[0] for line in wide[0].lines] == [group.name for group in analysis.groups]
    assert wide[-1].lines[0][:2] == ["hallucinated", "+1.00"]
    plots = feature_plots(analysis)
    assert set(plots) == {"correlations", "word-types"}
    assert all(svg.startswith("<svg") for svg in plots.values())
    assert "unsupported" in plots["correlations"]
    assert "part of speech" in plots["word-types"]


def test_bad_input() -> None:
    with pytest.raises(UnknownNameError, match="feature 'colour'"):
        analysed(examples(), features=["colour"])
    clean = [Example(e.case, Judgement(e.case.id, "human:a", 0.0)) for e in examples()]
    with pytest.raises(InputError, match="not of both classes"):
        analysed(clean)
