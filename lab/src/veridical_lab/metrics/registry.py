"""All metrics by name (`METRICS`), for responses, pairs, tokens, characters, spans and coverage.

The word-level metrics ignore NLTK's stop words.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from veridical.metrics.alignment import Characters, characters, response_pair, word_scores
from veridical.metrics.arrays import Bools, Floats
from veridical.metrics.confusion import Confusion
from veridical.metrics.coverage import coverage_pair, source_scores, source_words
from veridical.metrics.measure import FunctionOfSums, Metric, Project
from veridical.metrics.registry import BRIER, ECE, ROC_AUC, decided, mean, score_row
from veridical.metrics.registry import METRICS as RESPONSE_METRICS
from veridical.metrics.tokens import runs, white_space_tokens
from veridical.records.types import Example, Judgement
from veridical.text.stopwords import STOP_WORDS
from veridical_lab.metrics import spans
from veridical_lab.metrics.pairs import pair_name, pair_number, pair_outcomes

# --- the rows of a case -------------------------------------------------------------------------------------------


def _counts(gold: Bools, predicted: Bools) -> Floats:
    counts = spans.character_counts(gold, predicted)
    return np.array([[counts.tp, counts.fp, counts.fn]])


def _of_characters(rows: Callable[[Characters, float], Floats | None]) -> Project:
    """Make a projection (from an example and its judgement to rows) from a function of aligned characters."""

    def project(example: Example, judgement: Judgement, threshold: float) -> Floats | None:
        aligned = characters(example, judgement)
        return None if aligned is None else rows(aligned, threshold)

    return project


def _of_tokens(rows: Callable[[Bools, Floats, float], Floats]) -> Project:
    """Make a projection from a function of the labels and scores of the white-space tokens, and of the threshold."""

    def of_aligned(aligned: Characters, threshold: float) -> Floats | None:
        units = aligned.judged_units(white_space_tokens(aligned.text))
        return rows(*aligned.unit_scores(units), threshold) if len(units) else None

    return _of_characters(of_aligned)


_tokens = _of_tokens(lambda gold, score, threshold: _counts(gold, score >= threshold))
_token_decisions = _of_tokens(lambda gold, score, threshold: np.column_stack([gold, score >= threshold]).astype(float))
_token_scores = _of_tokens(lambda gold, score, _: np.column_stack([gold, score]))


@_of_characters
def _character_scores(aligned: Characters, _: float) -> Floats:
    return np.column_stack([aligned.gold_mask(), aligned.score])[aligned.judged]


@_of_characters
def _partial_tokens(aligned: Characters, threshold: float) -> Floats:
    units = aligned.judged_units(white_space_tokens(aligned.text))
    return spans.coverage_rows(*aligned.spans(threshold), units)


@_of_characters
def _exact(aligned: Characters, threshold: float) -> Floats:
    counts = spans.exact_counts(*aligned.spans(threshold))
    return np.array([[counts.tp, counts.fp, counts.fn]])


@_of_characters
def _mushroom_iou(aligned: Characters, threshold: float) -> Floats:
    hard = runs((aligned.gold > 0.5) & aligned.judged)  # 0.5 itself is not positive: the task's own rule
    return np.array([[spans.mushroom_iou(hard, runs(aligned.predicted_mask(threshold)))]])


@_of_characters
def _mushroom_cor(aligned: Characters, _: float) -> Floats:
    return np.array([[spans.mushroom_cor(aligned.gold[aligned.judged], aligned.score[aligned.judged])]])


def _coverage(example: Example, judgement: Judgement, _: float) -> Floats | None:
    pair = coverage_pair(example, judgement)
    return None if pair is None else np.array([pair], dtype=np.float64)


def _omitted(example: Example, judgement: Judgement, threshold: float) -> Floats | None:
    pair = source_scores(example, judgement)
    return None if pair is None else _counts(pair[0], pair[1] >= threshold)


def _source_scores(example: Example, judgement: Judgement, _: float) -> Floats | None:
    pair = source_scores(example, judgement)
    return None if pair is None else np.column_stack(pair)


def _word_scores(example: Example, judgement: Judgement, _: float) -> Floats | None:
    pair = word_scores(example, judgement, is_stop_word=STOP_WORDS.__contains__)
    return None if pair is None else np.column_stack(pair)


def _source_word_scores(example: Example, judgement: Judgement, _: float) -> Floats | None:
    pair = source_words(example, judgement, is_stop_word=STOP_WORDS.__contains__)
    return np.column_stack(pair) if pair is not None and pair[0].size else None


def _pair_member(example: Example, judgement: Judgement, _: float) -> Floats | None:
    name, pair = pair_name(example), response_pair(example, judgement)
    return None if name is None or pair is None else np.array([[pair_number(name), *pair]], dtype=np.float64)


# --- the value of all rows ----------------------------------------------------------------------------------------


def _counted(formula: Callable[[Confusion], float]) -> FunctionOfSums:
    """Make a statistic that applies `formula` to the sums of (tp, fp, fn) rows."""
    return FunctionOfSums(lambda rows: rows, lambda sums: formula(Confusion(*sums.tolist())))


_MEAN = FunctionOfSums(lambda rows: np.column_stack([rows[:, 0], np.ones(len(rows))]), mean)
_F1_SP = FunctionOfSums(spans.coverage_terms, spans.f1_of_coverage_sums)
_PAIRS = FunctionOfSums(pair_outcomes, mean)

# --- the table ----------------------------------------------------------------------------------------------------

_CHANG, _CHWANG = "Chang et al. 2024, §5.1", "CH-Wang et al. 2024, §4.3"
_token = partial(Metric, level="token", project=_tokens, source="Zhou et al. 2021")
_character = partial(
    Metric,
    level="character",
    project=_of_characters(lambda aligned, threshold: _counts(aligned.gold_mask(), aligned.predicted_mask(threshold))),
    source="Zhou et al. 2021, by character",
)
_of_spans = partial(Metric, level="span")


_TABLE = [
    Metric(
        "pair_accuracy",
        "pair",
        "Proportion of pairs whose hallucinated member scores higher, ties half; 0.5 = no order",
        "Ma et al. 2023",
        _pair_member,
        _PAIRS,
        needs_threshold=False,
    ),
    _token("token_precision", definition="Over white-space tokens", statistic=_counted(Confusion.precision)),
    _token("token_recall", definition="Over white-space tokens", statistic=_counted(Confusion.recall)),
    _token("token_f1", definition="Over white-space tokens", statistic=_counted(Confusion.f1)),
    _token(
        "token_balanced_accuracy",
        definition="Mean of the recalls of both classes over white-space tokens; 0.5 = a coin",
        source="Brodersen et al. 2010",
        project=_token_decisions,
        statistic=decided(Confusion.balanced_accuracy),
    ),
    _token(
        "token_mcc",
        definition="Matthews correlation of label and decision over white-space tokens; 0 = a coin",
        source="Matthews 1975",
        project=_token_decisions,
        statistic=decided(Confusion.mcc),
        low=-1.0,
    ),
    Metric(
        "word_roc_auc",
        "token",
        "Chance that a hallucinated word of a response scores above another word",
        "Chang et al. 2024, §5.3",
        _word_scores,
        ROC_AUC,
        needs_threshold=False,
    ),
    *(
        Metric(
            f"word_{name}",
            "token",
            f"{text}, over the words of word_roc_auc",
            source,
            _word_scores,
            statistic,
            higher_is_better=False,
            needs_threshold=False,
        )
        for name, text, source, statistic in (
            ("ece", "Mean gap of score and proportion of positives over 10 bins", "Naeini et al. 2015", ECE),
            ("brier", "Mean squared distance of score and label", "Brier 1950", BRIER),
        )
    ),
    _character("char_precision", definition="Over characters", statistic=_counted(Confusion.precision)),
    _character("char_recall", definition="Over characters", statistic=_counted(Confusion.recall)),
    _character("char_f1", definition="Over characters", statistic=_counted(Confusion.f1)),
    _character(
        "char_iou",
        definition="Shared over marked characters, of all texts together",
        source="Jaccard 1912",
        statistic=_counted(Confusion.iou),
    ),
    _of_spans(
        "f1_sp",
        definition="F1-Sp: partial credit by white-space tokens; mean over spans",
        source=_CHWANG,
        project=_partial_tokens,
        statistic=_F1_SP,
    ),
    _of_spans(
        "f1_sp_char",
        definition="F1-Sp: partial credit by characters; mean over spans",
        source=_CHWANG,
        project=_of_characters(lambda aligned, threshold: spans.coverage_rows(*aligned.spans(threshold))),
        statistic=_F1_SP,
    ),
    _of_spans(
        "span_exact_f1",
        definition="F1 of spans hit to the character",
        source="Tjong Kim Sang and De Meulder 2003",
        project=_exact,
        statistic=_counted(Confusion.f1),
    ),
    _of_spans(
        "span_overlap_f1",
        definition="F1 of spans that share a character with the other side",
        source="Breck et al. 2007",
        project=_of_characters(lambda aligned, threshold: spans.overlap_rows(*aligned.spans(threshold))),
        statistic=_F1_SP,
    ),
    _of_spans(
        "mushroom_iou",
        definition="Mean over responses of shared over marked characters; 1 where both mark nothing",
        source="SemEval-2025 task 3",
        project=_mushroom_iou,
        statistic=_MEAN,
    ),
    _of_spans(
        "mushroom_cor",
        definition="Mean over responses of Spearman's correlation of soft labels; constant: 1 if both, else 0",
        source="SemEval-2025 task 3",
        project=_mushroom_cor,
        statistic=_MEAN,
        low=-1.0,
        needs_threshold=False,
    ),
    Metric(
        "coverage_roc_auc",
        "coverage",
        "Chance that a response with an omission scores above another, ties half; 0.5 = no order",
        _CHANG,
        _coverage,
        ROC_AUC,
        needs_threshold=False,
    ),
    Metric(
        "omission_recall",
        "source",
        "Proportion of omitted sources (arguments) that were found",
        "Chang et al. 2024, §3 (errors by argument)",
        _omitted,
        _counted(Confusion.recall),
    ),
    Metric(
        "omission_f1",
        "source",
        "F1 over sources (arguments)",
        "Chang et al. 2024, §3 (errors by argument)",
        _omitted,
        _counted(Confusion.f1),
    ),
    Metric(
        "source_word_roc_auc",
        "source",
        "Chance that an omitted word of a source scores above another word",
        "Chang et al. 2024, §5.3",
        _source_word_scores,
        ROC_AUC,
        needs_threshold=False,
    ),
]

METRICS: dict[str, Metric] = RESPONSE_METRICS | {entry.name: entry for entry in _TABLE}

# for each metric level, the projection to the (label, score) rows of its units, for fitting the threshold
LABELLED_SCORES: dict[str, Project] = {
    "response": score_row,
    "token": _token_scores,
    "character": _character_scores,
    "span": _token_scores,
    "coverage": _coverage,
    "source": _source_scores,
}
