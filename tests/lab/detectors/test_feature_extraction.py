import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.lab.detectors.feature_examples import by_name
from veridical.inference.local_model import LocalModel
from veridical.models.load import load
from veridical.records.spans import Span
from veridical.records.types import Case, Source
from veridical.text.segment import words
from veridical_lab.detectors.features.extraction import FeatureExtractor, FeatureSettings
from veridical_lab.detectors.features.statistics import WordStatistics, count_words
from veridical_lab.detectors.features.tagger import RuleTagger
from veridical_lab.detectors.local.forced_decoding import decode_cases
from veridical_lab.models.masked import mask_in_turn
from veridical_lab.models.runner import RequestedOutputs
from veridical_lab.models.testing import tiny

PIECES = ("The", "river", "May", "2021", "5", "km", "Anna", "Berg", "said", ",", ".", "in", "£3", "third")
STATISTICS = count_words(["the river rose in may", "the cat sat on the mat", "a river is long"], min_pairs=1)
CASE = Case(
    "1",
    "The river rose 5 km in May 2021, Anna Berg said.",
    (Source("a", "In May 2021 the river rose by 3 km. Berg was there."),),
)


def extractor(statistics: WordStatistics = STATISTICS, model: LocalModel | None = None, **changes: object):
    return FeatureExtractor(FeatureSettings(**changes), RuleTagger(), statistics, model)  # type: ignore[arg-type]


def rows(case: Case = CASE, **changes: object) -> dict[str, dict[str, float]]:
    """The features of each word by name, by word."""
    one = extractor(**changes)
    (found,) = one.extract([case])
    assert found.problem is None
    names = one.settings.names
    spans = words(case.response)
    return {span.of(case.response): by_name(names, row) for span, row in zip(spans, found.values, strict=True)}


def test_words_and_values_against_the_source() -> None:
    found = rows()
    unsupported = {word for word, row in found.items() if row["unsupported"] == 1.0}
    assert unsupported == {"5", "km", "Anna", "said"}
    assert [found[word]["unsupported_name"] for word in ("Anna", "Berg", "said")] == [1.0, 0.0, 0.0]
    assert [found[word]["unsupported_number"] for word in ("5", "2021", "said")] == [1.0, 0.0, 0.0]
    assert found["river"]["source_count"] == pytest.approx(math.log(2))
    assert [found[word]["unsupported_pair"] for word in ("river", "rose", "5", "2021")] == [0.0, 0.0, 1.0, 0.0]
    assert found["rose"]["unsupported_after"] == pytest.approx(2 / 3)  # 5, km, May 2021
    assert found["May"]["unsupported_before"] == pytest.approx(2 / 3)
    assert found["said"]["entity=none"] == found["said"]["pos=VERB"] == 1.0


def test_statistics_of_a_word() -> None:
    found = rows(sources=False)
    assert found["river"]["idf"] == pytest.approx(0.0)
    assert found["said"]["idf"] == pytest.approx(math.log10(3))
    assert found["said"]["tf_idf"] == pytest.approx(math.log10(3) / 11)
    numbers = STATISTICS.numbers([span.of(CASE.response).lower() for span in words(CASE.response)])
    others = np.delete(numbers, 1)
    assert found["river"]["ppmi"] == pytest.approx(STATISTICS.ppmi(np.full(10, numbers[1]), others).mean())
    assert "unsupported" not in found["river"]


def test_a_phrase_has_the_mean_over_its_words() -> None:
    one = extractor()
    start = CASE.response.index("5 km")
    (every,), (phrase,) = one.extract([CASE]), one.extract([CASE], [[Span(start, start + 4)]])
    assert phrase.values[0] == pytest.approx(every.values[3:5].mean(axis=0))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=9))
def test_left_context_alone_decides(parts: list[str]) -> None:
    """In the online setting a word's features are those of the response that ends with it."""
    case = replace(CASE, response=" ".join(parts))
    spans = words(case.response)
    if not spans:
        return
    one = extractor(context="left")
    (whole,) = one.extract([case])
    for span, row in zip(spans, whole.values, strict=True):
        (cut,) = one.extract([replace(case, response=case.response[: span.end])])
        assert cut.values[-1] == pytest.approx(row, nan_ok=True)


def test_the_next_word_counts_otherwise() -> None:
    cut = replace(CASE, response=CASE.response[: CASE.response.index(" km")])
    assert rows()["5"] != rows(cut)["5"]
    left = rows(context="left")
    assert "unsupported_after" not in left["5"]
    assert left["5"] == pytest.approx(rows(cut, context="left")["5"], nan_ok=True)


def test_a_number_online_is_no_quantity_yet() -> None:
    """The source has "3 km": 3 is in it, and 3 miles are not."""
    case = replace(CASE, response="It rose 3 miles.")
    assert rows(case)["3"]["unsupported"] == 1.0
    assert rows(case, context="left")["3"]["unsupported"] == 0.0
    assert rows(case, context="left")["miles"]["unsupported"] == 1.0


def test_cases_that_have_no_features() -> None:
    cases = [replace(CASE, response=""), replace(CASE, sources=()), CASE]
    found = extractor().extract(cases)
    assert [bool(each.problem) for each in found] == [True, True, False]
    assert extractor(sources=False).extract(cases)[1].problem is None


def test_a_phrase_without_a_word() -> None:
    (found,) = extractor().extract([CASE], [[Span(3, 4), Span(0, 3)]])
    assert np.isnan(found.values[0]).all()
    assert not np.isnan(found.values[1]).all()


@pytest.fixture(scope="module")
def causal(tmp_path_factory: pytest.TempPathFactory) -> LocalModel:
    return load(tiny("llama", tmp_path_factory.mktemp("causal")), dtype="fp32")


@pytest.fixture(scope="module")
def masked(tmp_path_factory: pytest.TempPathFactory) -> LocalModel:
    folder = tiny("modernbert", tmp_path_factory.mktemp("masked"), head="MaskedLM")
    return load(folder, dtype="fp32", kinds=("masked",))


def test_a_causal_model(causal: LocalModel) -> None:
    found = rows(model=causal, probability="causal", template="tldr")
    (decoded,) = decode_cases(causal, [CASE], RequestedOutputs(entropy=True, rank=True), "tldr")
    span = next(span for span in words(CASE.response) if span.of(CASE.response) == "river")
    inside = [i for i, s in enumerate(decoded.windows[0].spans) if s is not None and s.overlaps(span)]
    logprob, entropy = decoded.results[0].logprob[inside], decoded.results[0].entropy[inside]  # type: ignore[index]
    assert found["river"]["log_probability"] == pytest.approx(logprob.mean(), abs=1e-5)
    assert found["river"]["lowest_log_probability"] == pytest.approx(logprob.min(), abs=1e-5)
    assert found["river"]["probability"] == pytest.approx(np.exp(logprob).mean(), abs=1e-5)
    assert found["river"]["highest_entropy"] == pytest.approx(entropy.max(), abs=1e-5)
    alone = rows(model=causal, probability="causal", template="tldr", sources=False)
    gain = found["river"]["log_probability"] - alone["river"]["log_probability"]
    assert found["river"]["log_probability_gain"] == pytest.approx(gain, abs=1e-5)
    assert "log_probability_gain" not in alone["river"]


@pytest.mark.parametrize("kind", ["causal", "masked"])
def test_a_model_in_the_online_setting(kind: str, causal: LocalModel, masked: LocalModel) -> None:
    model = causal if kind == "causal" else masked
    cut = replace(CASE, response=CASE.response[: CASE.response.index(" in May")])
    settings = {"model": model, "probability": kind, "context": "left", "template": "tldr"}
    whole, part = rows(**settings), rows(cut, **settings)
    assert whole["km"] == pytest.approx(part["km"], abs=1e-4, nan_ok=True)
    both = {**settings, "context": "both"}
    assert rows(**both)["km"]["log_probability_after"] != pytest.approx(0.0)


def test_a_phrase_is_masked_as_a_whole(masked: LocalModel) -> None:
    start = CASE.response.index("river rose")
    span = Span(start, start + len("river rose"))
    one = extractor(model=masked, probability="masked", sources=False)
    (found,) = one.extract([CASE], [[span]])
    ((outputs,),) = mask_in_turn(masked, [CASE.response], [[span]])
    assert by_name(one.settings.names, found.values[0])["log_probability"] == pytest.approx(outputs.logprob.mean())


def test_scores_of_the_generator(causal: LocalModel) -> None:
    scores = {"1": [(Span(0, 3), -1.0), (Span(3, 6), -2.0), (Span(6, 9), -4.0)]}
    settings = FeatureSettings(sources=False, token_scores=True)
    one = FeatureExtractor(settings, RuleTagger(), STATISTICS, token_scores=scores)
    (found,) = one.extract([CASE])
    river = by_name(settings.names, found.values[1])
    assert (river["token_score"], river["lowest_token_score"]) == (-3.0, -4.0)
    assert river["relative_token_score"] == pytest.approx((-3.0 + 7 / 3) / np.std([1, 2, 4]))
    left = FeatureExtractor(replace(settings, context="left"), RuleTagger(), STATISTICS, token_scores=scores)
    (found_left,) = left.extract([CASE])
    assert by_name(left.settings.names, found_left.values[0])["relative_token_score"] == pytest.approx(0.0)
    assert math.isnan(by_name(settings.names, found.values[2])["token_score"])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.text(max_size=50), st.text(max_size=50), st.sampled_from(["both", "left"]))
def test_any_text(response: str, source: str, context: str) -> None:
    one = extractor(context=context)
    (found,) = one.extract([Case("1", response, (Source("a", source),))])
    assert found.values.shape == (len(words(response)), len(set(one.settings.names)))
    assert (found.problem is None) == bool(words(response))
