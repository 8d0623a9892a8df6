"""Comparisons: which test, on which units, with which correction."""

from collections.abc import Sequence

import numpy as np
import pytest

from veridical.metrics.tokens import white_space_tokens
from veridical.records.decide import merge
from veridical.records.errors import UnknownNameError
from veridical.records.types import Case, Example, Judgement, Omission, Source, SourceSpan, Span, Verdict
from veridical_lab.bench.compare import DEFAULT_METRICS, DetectorComparison, compare_detectors, compare_pair, correct
from veridical_lab.bench.evaluation import Evaluation
from veridical_lab.bench.settings import BenchSettings, Loaded
from veridical_lab.metrics.spans import f1_sp

SETTINGS = BenchSettings([], [])
TEXT = "alpha beta gamma delta"
WORDS = [Span(*unit) for unit in white_space_tokens(TEXT).tolist()]
SOURCE = Source("s", TEXT, must_cover=True)


def evaluation(name: str, examples: Sequence[Example], judgements: Sequence[Judgement]) -> Evaluation:
    data = Loaded("set", "all", list(examples), [], "0" * 64, ("response", "span", "coverage", "pair"), 0)
    thresholds = dict.fromkeys(("response", "span", "coverage", "source"), 0.5)
    return Evaluation(name, ("response", "span", "coverage", "source"), data, judgements, thresholds, "default")


def verdicts(*scores: float) -> tuple[Verdict, ...]:
    return tuple(Verdict(span, score) for span, score in zip(WORDS, scores, strict=True))


def omissions(*scores: float) -> tuple[Omission, ...]:
    return tuple(Omission("s", span, score) for span, score in zip(WORDS, scores, strict=True))


def cases(n: int, seed: int = 0) -> tuple[list[Example], dict[str, list[Judgement]]]:
    """Pairs of a right and an edited response, with judgements by a good and a poor detector."""
    random = np.random.default_rng(seed)
    examples: list[Example] = []
    judgements: dict[str, list[Judgement]] = {"good": [], "poor": []}
    for i in range(n):
        version = ("right", "edited")[i % 2]
        wrong = (random.random(4) < 0.5) * (i % 2)
        id = f"{i // 2}/{version}"
        gold = Judgement(id, "human:a", float(wrong.any()), float(wrong.any()), verdicts(*wrong), omissions(*wrong))
        examples.append(Example(Case(id, TEXT, (SOURCE,)), gold, str(i // 2), (("version", version),)))
        for name, noise in (("good", 0.3), ("poor", 2.0)):
            s = np.clip(wrong * 0.6 + 0.2 + noise * (random.random(4) - 0.5), 0, 1).tolist()
            judgements[name].append(Judgement(id, name, max(s), max(s), verdicts(*s), omissions(*s)))
    return examples, judgements


@pytest.mark.parametrize("name", DEFAULT_METRICS)
def test_every_default_metric_has_a_test(name: str) -> None:
    examples, judgements = cases(120)
    good, poor = (evaluation(by, examples, judgements[by]) for by in ("good", "poor"))
    found = compare_pair(good, poor, name, SETTINGS)
    assert found.note is None
    assert found.value_a > found.value_b
    assert 0 < found.p < 0.05
    assert found.difference == found.value_b - found.value_a
    assert found.low <= found.difference <= found.high < 0
    same = compare_pair(good, good, name, SETTINGS)
    assert (same.p, same.difference, same.low, same.high) == (1.0, 0.0, 0.0, 0.0)
    expected = "Hanley-McNeil" if "auc" in name else "paired permutation, 9,999 draws" if name == "f1_sp" else "exact"
    assert expected in found.test


def test_the_permutation_test_of_span_f1_is_exact_for_few_cases() -> None:
    examples, judgements = cases(8)
    found = compare_pair(*(evaluation(by, examples, judgements[by]) for by in ("good", "poor")), "f1_sp_char", SETTINGS)
    assert found.test == "exact paired permutation"

    def value(chosen: Sequence[Judgement]) -> float:
        gold, marked = (
            [[v.span for v in j.verdicts if v.score >= 0.5] for j in js] for js in ([e.gold for e in examples], chosen)
        )
        return f1_sp(*([[joined(spans) for spans in side] for side in (gold, marked)]))

    def joined(spans: list[Span]) -> list[Span]:
        return merge(TEXT, spans)

    a, b = judgements["good"], judgements["poor"]
    observed = abs(value(a) - value(b))
    extreme = 0
    for bits in range(2**8):
        one = [b[i] if bits >> i & 1 else a[i] for i in range(8)]
        two = [a[i] if bits >> i & 1 else b[i] for i in range(8)]
        extreme += abs(value(one) - value(two)) >= observed - 1e-12
    assert found.p == pytest.approx(extreme / 2**8)


def test_any_metric_of_sums_can_be_tested_and_no_other() -> None:
    examples, judgements = cases(60)
    good, poor = (evaluation(by, examples, judgements[by]) for by in ("good", "poor"))
    for name in ("brier", "char_f1", "omission_f1", "balanced_accuracy", "negative_f1"):
        assert compare_pair(good, poor, name, SETTINGS).p is not None
    with pytest.raises(UnknownNameError, match="metric with a test"):
        list(compare_detectors(BenchSettings(["overlap", "coin"], ["jsonl:x"], ["pr_auc"])))


def test_words_are_compared_that_both_judged() -> None:
    labels = (0.0, 1.0, 0.0, 1.0)
    examples = [Example(Case(str(i), TEXT), Judgement(str(i), "human:a", 1.0, None, verdicts(*labels))) for i in "abcd"]
    first, last = (Span(WORDS[1].start, len(TEXT)),), (Span(0, WORDS[2].end),)  # all but the first, all but the last
    scores = (0.1, 0.9, 0.2, 0.8)
    both = [
        [Judgement(e.case.id, "x", 0.9, None, verdicts(*scores), judged=judged) for e in examples]
        for judged in (first, last)
    ]
    found = compare_pair(
        evaluation("a", examples, both[0]), evaluation("b", examples, both[1]), "word_roc_auc", SETTINGS
    )
    assert (found.value_a, found.value_b, found.p, found.n) == (1.0, 1.0, 1.0, 4)
    # another number of words judged by each: no case is dropped
    fewer = [Judgement(e.case.id, "x", 0.9, None, verdicts(*scores), judged=(WORDS[1], WORDS[2])) for e in examples]
    found = compare_pair(evaluation("a", examples, fewer), evaluation("b", examples, both[1]), "word_roc_auc", SETTINGS)
    assert (found.value_a, found.value_b, found.n) == (1.0, 1.0, 4)
    # what only one of them judged counts for neither
    none = [Judgement(e.case.id, "x", 0.9, None, verdicts(*scores), judged=(WORDS[0],)) for e in examples]
    found = compare_pair(evaluation("a", examples, none), evaluation("b", examples, both[0]), "word_roc_auc", SETTINGS)
    assert (found.n, found.p) == (0, None)


def test_source_words_are_compared_that_both_judged() -> None:
    gold = Judgement("1", "human:a", None, 1.0, (), omissions(0.0, 1.0, 0.0, 1.0))
    example = Example(Case("1", "other", (SOURCE,)), gold)
    scores = omissions(0.1, 0.9, 0.2, 0.8)
    sides = [
        Judgement("1", "x", None, 0.9, (), scores, judged_sources=(SourceSpan("s", judged),))
        for judged in (Span(WORDS[1].start, len(TEXT)), Span(0, WORDS[2].end))
    ]
    a, b = (evaluation(name, [example], [side]) for name, side in zip("ab", sides, strict=True))
    found = compare_pair(a, b, "source_word_roc_auc", SETTINGS)
    assert (found.value_a, found.value_b, found.n) == (1.0, 1.0, 1)


def test_areas_of_omissions_are_corrected_with_those_of_hallucinations() -> None:
    def of(metric: str, p: float | None) -> DetectorComparison:
        return DetectorComparison("a", "b", metric, "t", 0.5, 0.5, p, None, 9, "d", "all", "0", "")

    fixed = correct([of("roc_auc", 0.01), of("coverage_roc_auc", 0.02), of("f1", 0.04), of("roc_auc", None)])
    assert [c.p_bonferroni for c in fixed] == [0.02, 0.04, 0.04, None]
