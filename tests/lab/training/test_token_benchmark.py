from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.lab.detectors.feature_examples import examples, phrases
from tests.lab.files import saved
from tests.lab.training.hades_files import write_hades
from veridical.cli import main
from veridical.metrics.ranking import roc_auc
from veridical.records.detector import DetectorInfo, JudgesSpans, fingerprint_of
from veridical.records.errors import DataError, InputError, UnknownNameError
from veridical.records.types import Case, Example, Judgement, Verdict
from veridical.text.segment import words
from veridical_lab.models.testing import tiny
from veridical_lab.training.features import save_features
from veridical_lab.training.token_benchmark import (
    TABLE_METRICS,
    RunOptions,
    benchmark_rows,
    cut_behind_phrase,
    cut_context,
    read_benchmark,
)
from veridical_lab.training.token_methods import TOKEN_METHODS, FeatureMethod, load_method

FEW = RunOptions(resamples=20)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_hades(tmp_path_factory.mktemp("hades"), 150)


class Oracle:
    """Knows from training what is hallucinated: numbers; it scores words, and keeps what it was given."""

    info = DetectorInfo(needs_sources=False)
    name = "oracle"
    seen: list[str]

    def __init__(self) -> None:
        self.seen = []

    def fit(self, train: Sequence[Example], validation: Sequence[Example]) -> Oracle:
        self.seen = [e.case.response for e in (*train, *validation)]
        return self

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        self.seen += [case.response for case in cases]
        made = []
        for case in cases:
            verdicts = [Verdict(s, 0.9 * s.of(case.response).isdigit()) for s in words(case.response)]
            made.append(Judgement(case.id, self.name, verdicts=tuple(verdicts)))
        return made


def test_features_are_trained_and_measured_in_both_settings(folder: Path) -> None:
    data = read_benchmark(f"hades:{folder}")
    assert (len(data.train), len(data.validation), len(data.test), data.notes) == (150, 30, 30, ())
    methods = [load_method(spec) for spec in ("features:lr", "features:svm", "majority")]
    rows = list(benchmark_rows(data, methods, FEW))
    expected = [(method.name, f"setting={setting}") for setting in ("offline", "online") for method in methods]
    assert [(row.detector, row.group) for row in rows] == expected
    for row in rows:
        assert list(row.metrics) == list(TABLE_METRICS)
        assert (row.n, row.not_judged, row.split) == (30, 0, "test")
        assert len({row.run_id for row in rows}) == len(rows)
    auc = {row.detector: row.metrics["roc_auc"].value for row in rows}
    assert auc["majority"] == 0.5
    assert auc["features:lr"] > 0.7
    assert auc["features:svm"] > 0.7
    assert rows[0].threshold_from.startswith("balanced_accuracy on 30 validation phrases")
    assert rows[0].metrics["accuracy"].low is not None


def test_the_figures_are_those_of_the_phrases(folder: Path) -> None:
    """Against figures made by hand: of a method that scores words, its word in the phrase counts."""
    data = read_benchmark(f"hades:{folder}")
    (row,) = benchmark_rows(data, [Oracle()], RunOptions(settings=("offline",), resamples=20))
    gold = [bool(e.gold.hallucination) for e in data.test]
    flagged = [e.gold.judged[0].of(e.case.response).isdigit() for e in data.test]  # type: ignore[index]
    tp, tn = (sum(a == b == side for a, b in zip(gold, flagged, strict=True)) for side in (True, False))
    positives, negatives = sum(gold), len(gold) - sum(gold)
    assert row.metrics["accuracy"].value == pytest.approx((tp + tn) / len(gold))
    assert row.metrics["g_mean"].value == pytest.approx((tp / positives * tn / negatives) ** 0.5)
    assert row.metrics["precision"].value == pytest.approx(tp / sum(flagged))
    assert row.metrics["negative_recall"].value == pytest.approx(tn / negatives)
    brier = sum((0.9 * f - g) ** 2 for f, g in zip(flagged, gold, strict=True)) / len(gold)
    assert row.metrics["brier"].value == pytest.approx(brier)


def test_online_nothing_after_the_phrase_is_seen(folder: Path) -> None:
    data = read_benchmark(f"hades:{folder}")
    method = Oracle()
    list(benchmark_rows(data, [method], RunOptions(settings=("online",), resamples=20)))
    ends = {e.case.response[: e.gold.judged[0].end] for e in (*data.train, *data.validation, *data.test)}  # type: ignore[index]
    assert set(method.seen) == ends
    for example in data.test:
        assert cut_behind_phrase(example).gold == example.gold


def test_unlabelled_test_lines_are_not_measured(tmp_path: Path) -> None:
    data = read_benchmark(f"hades:{write_hades(tmp_path, 100, labelled_test=False)}")
    assert data.about == "validation"
    assert len(data.test) == 20
    assert len(data.train) + len(data.validation) == 100
    assert not {e.document for e in data.train} & {e.document for e in data.validation}
    assert "no test phrase has a label" in data.notes[0]


def test_the_published_sample_lines(shared_data: Path) -> None:
    data = read_benchmark(f"hades:{shared_data / 'hades_samples'}")
    assert (len(data.train), len(data.test)) == (4, 4)
    assert len(data.notes) == 2
    rows = list(benchmark_rows(data, [load_method("features:lr")], FEW))
    assert len(rows) == 2
    assert all(row.metrics["accuracy"].value is not None for row in rows)
    assert rows[0].metrics["roc_auc"].value is None  # all four are of one class


def test_data_without_phrases(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no response with one labelled phrase"):
        read_benchmark(saved(tmp_path / "words.jsonl", examples()))


def test_data_without_splits_are_divided_by_document(tmp_path: Path) -> None:
    path = saved(tmp_path / "phrases.jsonl", phrases())
    data = read_benchmark(path)
    assert len(data.train) + len(data.validation) + len(data.test) == 120
    named = read_benchmark(path, validation=path, test=path)
    assert [len(part) for part in (named.train, named.validation, named.test)] == [120, 120, 120]


def test_methods_by_name(folder: Path, tmp_path: Path) -> None:
    method = load_method("features:svm,tagger=rules,context=left,sources=no,seed=3")
    assert isinstance(method, FeatureMethod)
    assert (method.options.classifier, method.options.features.context, method.sources) == ("svm", "left", False)
    assert method.name == "features:svm,tagger=rules,context=left,sources=no,seed=3"
    assert "features" in TOKEN_METHODS
    with pytest.raises(InputError, match="no classifier and no folder 'forest'"):
        load_method("features:forest")
    with pytest.raises(UnknownNameError, match="option of features 'colour'"):
        load_method("features:lr,colour=red")
    with pytest.raises(UnknownNameError, match="unknown detector"):
        load_method("feature")
    with pytest.raises(UnknownNameError, match="setting 'offlin'"):
        RunOptions(settings=("offlin",))
    data = read_benchmark(f"hades:{folder}")
    with pytest.raises(InputError, match="named twice"):
        list(benchmark_rows(data, [load_method("coin"), load_method("coin")], FEW))


def test_a_trained_folder_is_used_as_it_is(folder: Path, tmp_path: Path) -> None:
    data = read_benchmark(f"hades:{folder}")
    fitted = FeatureMethod("features").fit(data.train, data.validation)
    save_features(fitted.trained, tmp_path / "saved")
    ready = load_method(f"features:{tmp_path / 'saved'}")
    detector = ready.fit([], [])
    assert fingerprint_of(detector) == fingerprint_of(fitted)


def test_a_span_classifier_is_a_method(tmp_path: Path) -> None:
    data = phrases(150)
    spec = f"tokens:model={tiny('bert', tmp_path / 'bert')},pooling=max,epochs=6,learning_rate=0.001,sources=no"
    detector = load_method(spec).fit(data[:110], data[110:])
    assert isinstance(detector, JudgesSpans)
    spans = [list(example.gold.judged or ()) for example in data]
    judgements = detector.judge_spans([example.case for example in data], spans)
    assert [[verdict.span for verdict in judgement.verdicts] for judgement in judgements] == spans
    labels = [bool(example.gold.verdicts) for example in data]
    assert roc_auc(labels, [judgement.verdicts[0].score for judgement in judgements]) > 0.8
    with pytest.raises(InputError, match="model=FOLDER"):
        load_method("tokens")


def test_the_context_of_a_phrase_can_be_cut(folder: Path) -> None:
    data = read_benchmark(f"hades:{folder}")
    for example in data.test:
        (phrase,) = example.gold.judged or ()
        marked = phrase.of(example.case.response)
        for setting, most in (("offline@3", 6), ("online@3", 3), ("offline@1000", 10**6)):
            shown = cut_context(example, setting)
            (moved,) = shown.gold.judged or ()
            assert moved.of(shown.case.response) == marked
            assert len(words(shown.case.response)) - len(words(marked)) <= most
            assert shown.case.response in example.case.response
    rows = list(benchmark_rows(data, [load_method("length")], RunOptions(settings=["online@2"], resamples=20)))
    assert rows[0].group == "setting=online@2"
    with pytest.raises(InputError, match="names no number of words"):
        RunOptions(settings=["offline@x"])


def test_context_lengths_are_plotted(folder: Path, tmp_path: Path) -> None:
    """Every row of `bench tokens` has a group, and Figure 6 is a line by the length of the context."""
    rows = tmp_path / "rows.jsonl"
    settings = "offline@2,offline@8,offline,online@2,online"
    arguments = ["bench", "tokens", f"hades:{folder}", "--method", "features:lr,paper=yes", "--setting", settings]
    assert main([*arguments, "--resamples", "10", "--out", str(rows)]) == 0
    plot = tmp_path / "context.svg"
    assert main(["bench", "table", str(rows), "-f", "svg", "--metrics", "accuracy", "--out", str(plot)]) == 0
    svg = plot.read_text("utf-8")
    assert "words of context on each side" in svg
    assert "features:lr,paper=yes, offline" in svg
    assert main([*arguments[:5], "--setting", "offline", "--resamples", "10", "--out", str(rows)]) == 0
    assert main(["bench", "table", str(rows), "-f", "svg", "--metrics", "accuracy", "--out", str(plot)]) == 0
    assert "words of context" not in plot.read_text("utf-8")  # bars by setting
