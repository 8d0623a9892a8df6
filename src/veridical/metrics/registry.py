"""Every metric under its name: what a case adds to it, and what all rows come to.

`METRICS` is the table; `word_roc_auc` and `source_word_roc_auc` make the two that a list of stop words belongs to,
with other stop words than NLTK's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from veridical.core.errors import UnknownNameError
from veridical.core.stopwords import STOP_WORDS
from veridical.core.types import Example, Judgement
from veridical.metrics import UndefinedMetricError, calibration, ranking, response, spans
from veridical.metrics.alignment import Characters, characters, response_pair
from veridical.metrics.arrays import Bools, Floats
from veridical.metrics.confusion import Confusion
from veridical.metrics.coverage import coverage_pair, omitted_sources, source_words
from veridical.metrics.measure import Metric, Project, Statistic
from veridical.metrics.tokens import runs, white_space_tokens, word_units

__all__ = ["METRICS", "metric", "source_word_roc_auc", "word_roc_auc"]

# --- what a case adds ---------------------------------------------------------------------------------------------


def _decision(example: Example, judgement: Judgement, threshold: float) -> Floats | None:
    pair = response_pair(example, judgement)
    return None if pair is None else np.array([[pair[0], pair[1] >= threshold]], dtype=np.float64)


def _score(example: Example, judgement: Judgement, _: float) -> Floats | None:
    pair = response_pair(example, judgement)
    return None if pair is None else np.array([pair], dtype=np.float64)


def _counts(gold: Bools, predicted: Bools) -> Floats:
    counts = spans.character_counts(gold, predicted)
    return np.array([[counts.tp, counts.fp, counts.fn]])


def _of_characters(add: Callable[[Characters, float], Floats | None]) -> Project:
    """`add` as a projection that knows nothing of records."""

    def project(example: Example, judgement: Judgement, threshold: float) -> Floats | None:
        found = characters(example, judgement)
        return None if found is None else add(found, threshold)

    return project


@_of_characters
def _characters(found: Characters, threshold: float) -> Floats:
    return _counts(found.gold_mask(), found.predicted_mask(threshold))


@_of_characters
def _tokens(found: Characters, threshold: float) -> Floats | None:
    units = found.judged_units(white_space_tokens(found.text))
    gold, score = found.unit_scores(units)
    return _counts(gold, score >= threshold) if len(units) else None


@_of_characters
def _partial_tokens(found: Characters, threshold: float) -> Floats:
    units = found.judged_units(white_space_tokens(found.text))
    return spans.coverage_rows(*found.spans(threshold), units)


@_of_characters
def _partial_characters(found: Characters, threshold: float) -> Floats:
    return spans.coverage_rows(*found.spans(threshold))


@_of_characters
def _overlap(found: Characters, threshold: float) -> Floats:
    return spans.overlap_rows(*found.spans(threshold))


@_of_characters
def _exact(found: Characters, threshold: float) -> Floats:
    counts = spans.exact_counts(*found.spans(threshold))
    return np.array([[counts.tp, counts.fp, counts.fn]])


@_of_characters
def _mushroom_iou(found: Characters, threshold: float) -> Floats:
    hard = runs((found.gold > 0.5) & found.judged)  # above, not from: the task's own rule
    return np.array([[spans.mushroom_iou(hard, runs(found.predicted_mask(threshold)))]])


@_of_characters
def _mushroom_cor(found: Characters, _: float) -> Floats:
    return np.array([[spans.mushroom_cor(found.gold[found.judged], found.score[found.judged])]])


def _coverage(example: Example, judgement: Judgement, _: float) -> Floats | None:
    pair = coverage_pair(example, judgement)
    return None if pair is None else np.array([pair], dtype=np.float64)


def _omitted(example: Example, judgement: Judgement, threshold: float) -> Floats | None:
    pair = omitted_sources(example, judgement, threshold)
    return None if pair is None else _counts(*pair)


# --- what all rows come to ----------------------------------------------------------------------------------------


def _decided(of: Callable[[ArrayLike, ArrayLike, ArrayLike], float]) -> Statistic:
    return lambda rows, weight: of(rows[:, 0] > 0, rows[:, 1] > 0, weight)


def _scored(of: Callable[[ArrayLike, ArrayLike, ArrayLike], float]) -> Statistic:
    return lambda rows, weight: of(rows[:, 0] > 0, rows[:, 1], weight)


def _counted(of: Callable[[Confusion], float]) -> Statistic:
    return lambda rows, weight: of(Confusion(*(weight @ rows).tolist()))


def _mean(rows: Floats, weight: Floats) -> float:
    if not weight.any():
        raise UndefinedMetricError("a mean over no cases is not defined")
    return float(weight @ rows[:, 0] / weight.sum())


# --- the table ----------------------------------------------------------------------------------------------------

_D, _B, _A = "D §4.3", "B §5", "A §5.1"
_response = partial(Metric, level="response", project=_decision)
_probability = partial(Metric, level="response", project=_score, needs_threshold=False)
_token = partial(Metric, level="token", project=_tokens, source="Zhou et al. 2021")
_character = partial(Metric, level="character", project=_characters)
_of_spans = partial(Metric, level="span")


def _word_scores(is_stop_word: Callable[[str], bool] | None) -> Project:
    """(label, score) of each word of a response that is not a stop word."""

    @_of_characters
    def project(found: Characters, _: float) -> Floats | None:
        units = found.judged_units(word_units(found.text, is_stop_word=is_stop_word))
        return np.column_stack(found.unit_scores(units)) if len(units) else None

    return project


def word_roc_auc(
    is_stop_word: Callable[[str], bool] | None = STOP_WORDS.__contains__, *, name: str = "word_roc_auc"
) -> Metric:
    """ROC AUC over the words of responses that are not stop words (A §5.3; English ones of NLTK unless another
    list is given, None = no word is one).

    >>> word_roc_auc(lambda word: word in {"the", "of"}).level
    'token'
    """
    text = "Chance that a hallucinated word of a response scores above another word"
    value = _scored(ranking.roc_auc)
    return Metric(name, "token", text, "A §5.3", _word_scores(is_stop_word), value, needs_threshold=False)


def source_word_roc_auc(
    is_stop_word: Callable[[str], bool] | None = STOP_WORDS.__contains__, *, name: str = "source_word_roc_auc"
) -> Metric:
    """ROC AUC over the words of sources that must be covered and are not stop words; see `word_roc_auc`.

    >>> source_word_roc_auc().level
    'coverage'
    """

    def project(example: Example, judgement: Judgement, _: float) -> Floats | None:
        pair = source_words(example, judgement, is_stop_word=is_stop_word)
        return np.column_stack(pair) if pair is not None and pair[0].size else None

    text = "Chance that an omitted word of a source scores above another word"
    value = _scored(ranking.roc_auc)
    return Metric(name, "coverage", text, "A §5.3", project, value, needs_threshold=False)


_TABLE = [
    _response("accuracy", definition="Share of right decisions", source=_B, statistic=_decided(response.accuracy)),
    _response(
        "balanced_accuracy",
        definition="Mean of the recalls of both classes; 0.5 = a coin",
        source="Brodersen et al. 2010",
        statistic=_decided(response.balanced_accuracy),
    ),
    _response("precision", definition="tp / (tp + fp)", source=_D, statistic=_decided(response.precision)),
    _response("recall", definition="tp / (tp + fn)", source=_D, statistic=_decided(response.recall)),
    _response("f1", definition="F1-R: 2 tp / (2 tp + fp + fn)", source=_D, statistic=_decided(response.f1)),
    _response(
        "g_mean",
        definition="Geometric mean of the recalls of both classes",
        source=_B,
        statistic=_decided(response.g_mean),
    ),
    _probability(
        "brier",
        definition="Mean squared distance of score and label (what B prints as BSS)",
        source=_B,
        statistic=_scored(response.brier),
        higher_is_better=False,
    ),
    _probability(
        "bss",
        definition="1 - Brier / Brier of the base rate; 0 = the base rate, negative = worse",
        source="Brier 1950; not B's BSS",
        statistic=_scored(response.brier_skill),
        low=float("-inf"),
    ),
    _probability(
        "roc_auc",
        definition="Chance that a hallucinated response scores above another, ties half; 0.5 = no order",
        source=f"{_A}, {_B}",
        statistic=_scored(ranking.roc_auc),
    ),
    _probability(
        "pr_auc",
        definition="Average precision: area under precision-recall steps",
        source="Davis & Goadrich 2006",
        statistic=_scored(ranking.average_precision),
    ),
    _probability(
        "ece",
        definition="Mean gap of score and share of positives over 10 bins of equal width",
        source="Naeini et al. 2015",
        statistic=_scored(calibration.ece),
        higher_is_better=False,
    ),
    _token("token_precision", definition="Over white-space tokens", statistic=_counted(Confusion.precision)),
    _token("token_recall", definition="Over white-space tokens", statistic=_counted(Confusion.recall)),
    _token("token_f1", definition="Over white-space tokens", statistic=_counted(Confusion.f1)),
    word_roc_auc(),
    *(
        Metric(
            f"word_{name}",
            "token",
            f"{text}, over the words of word_roc_auc",
            source,
            _word_scores(STOP_WORDS.__contains__),
            _scored(value),
            higher_is_better=False,
            needs_threshold=False,
        )
        for name, text, source, value in (
            ("ece", "Mean gap of score and share of positives over 10 bins", "Naeini et al. 2015", calibration.ece),
            ("brier", "Mean squared distance of score and label", "Brier 1950", response.brier),
        )
    ),
    _character(
        "char_precision",
        definition="Over characters",
        source="Zhou et al. 2021, by character",
        statistic=_counted(Confusion.precision),
    ),
    _character(
        "char_recall",
        definition="Over characters",
        source="Zhou et al. 2021, by character",
        statistic=_counted(Confusion.recall),
    ),
    _character(
        "char_f1",
        definition="Over characters",
        source="Zhou et al. 2021, by character",
        statistic=_counted(Confusion.f1),
    ),
    _character(
        "char_iou",
        definition="Shared over marked characters, of all texts together",
        source="Jaccard 1912",
        statistic=_counted(Confusion.iou),
    ),
    _of_spans(
        "f1_sp",
        definition="F1-Sp: partial credit by white-space tokens; mean over spans",
        source=_D,
        project=_partial_tokens,
        statistic=spans.f1_of_coverages,
    ),
    _of_spans(
        "f1_sp_char",
        definition="F1-Sp: partial credit by characters; mean over spans",
        source=_D,
        project=_partial_characters,
        statistic=spans.f1_of_coverages,
    ),
    _of_spans(
        "span_exact_f1",
        definition="F1 of spans hit to the character",
        source="Tjong Kim Sang & De Meulder 2003",
        project=_exact,
        statistic=_counted(Confusion.f1),
    ),
    _of_spans(
        "span_overlap_f1",
        definition="F1 of spans that share a character with the other side",
        source="Breck et al. 2007",
        project=_overlap,
        statistic=spans.f1_of_coverages,
    ),
    _of_spans(
        "mushroom_iou",
        definition="Mean over responses of shared over marked characters; 1 where both mark nothing",
        source="SemEval-2025 task 3",
        project=_mushroom_iou,
        statistic=_mean,
    ),
    _of_spans(
        "mushroom_cor",
        definition="Mean over responses of Spearman's correlation of soft labels; constant: 1 if both, else 0",
        source="SemEval-2025 task 3",
        project=_mushroom_cor,
        statistic=_mean,
        low=-1.0,
        needs_threshold=False,
    ),
    Metric(
        "coverage_roc_auc",
        "coverage",
        "Chance that a response with an omission scores above another, ties half; 0.5 = no order",
        _A,
        _coverage,
        _scored(ranking.roc_auc),
        needs_threshold=False,
    ),
    Metric(
        "omission_recall",
        "coverage",
        "Share of omitted sources (arguments) that were found",
        "A §3 (errors by argument)",
        _omitted,
        _counted(Confusion.recall),
    ),
    Metric(
        "omission_f1",
        "coverage",
        "F1 over sources (arguments)",
        "A §3 (errors by argument)",
        _omitted,
        _counted(Confusion.f1),
    ),
    source_word_roc_auc(),
]

METRICS: dict[str, Metric] = {entry.name: entry for entry in _TABLE}


def metric(name: str) -> Metric:
    """The metric called `name`; `UnknownNameError` with near names otherwise.

    >>> metric("f1").definition
    'F1-R: 2 tp / (2 tp + fp + fn)'
    """
    if name not in METRICS:
        raise UnknownNameError("metric", name, METRICS)
    return METRICS[name]
