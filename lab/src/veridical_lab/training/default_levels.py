"""Compute the inputs of the default detector's regressions, and fit a regression for each level."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridical.detectors.default.regressions import COLUMNS, SIGNS, LevelModel, sentence_rows, source_rows, word_table
from veridical.detectors.default.rules import score
from veridical.detectors.tokens.scoring import PairScorer, ScoredResponse
from veridical.inference.heads import LinearClassifier
from veridical.metrics import UndefinedMetricError
from veridical.metrics.arrays import Floats
from veridical.metrics.calibrators import Platt, fit_platt
from veridical.metrics.ranking import roc_auc
from veridical.metrics.thresholding import threshold_for_balanced_accuracy, threshold_for_f1
from veridical.records.errors import InputError, MissingExtraError
from veridical.records.types import DEFAULT_THRESHOLD, GOLD_THRESHOLD, Example, Level
from veridical.text.segment import words
from veridical_lab.metrics.unit_labels import unit_labels
from veridical_lab.training.token_evaluation import contradiction_pair, response_target

SWAPPED = "_swapped"
"""Sets with this suffix contain coverage examples: the sources to cover are the responses, and vice versa."""
FALSE_ALARMS = 0.15
"""The highest proportion of supported responses that may be flagged, averaged over the validation sets.

From .15 to .25, the mean balanced accuracy stays within .005, so the bound that disturbs users least is taken.
"""
PENALTY = 0.01
"""The weight of the L2 penalty of a regression, relative to the mean loss."""
IN_PLACE = "answers_in_place_"
"""Sets with this prefix contain short answers whose source is only the sentences around them.

These answers get a separate calibration curve (`fit_short_answers`).
"""
_UNCERTAIN = ("answers_", "answer_statements", "exchanged_", "relations")
"""Sets with these prefixes are ignored when the threshold is fitted.

Their errors are so hard to detect that the threshold would become too low and flag supported responses.
"""
_ROUNDS = 8
"""The number of times that the highest row of each item is chosen again while the regression is fitted."""


@dataclass(slots=True)
class LevelRows:
    """Labelled items of one level, each with the name of its data set.

    If an item has several rows, the row with the highest score is used.
    """

    rows: list[Floats] = field(default_factory=list)
    labels: list[bool] = field(default_factory=list)
    sets: list[str] = field(default_factory=list)

    def add(self, name: str, items: Iterable[Floats], labels: Iterable[bool]) -> None:
        """Add items of the set `name`, each an array *(rows, columns)*."""
        added = list(items)
        self.rows += added
        self.labels += [bool(label) for label in labels]
        self.sets += [name] * len(added)

    def of(self, wanted: Callable[[str], bool]) -> LevelRows:
        """Return the items of the wanted sets."""
        kept = [i for i, name in enumerate(self.sets) if wanted(name)]
        return LevelRows([self.rows[i] for i in kept], [self.labels[i] for i in kept], [self.sets[i] for i in kept])


def level_rows(
    scorer: PairScorer, data: Mapping[str, list[Example]], *, progress: Callable[[str], None] = lambda line: None
) -> tuple[dict[Level, LevelRows], LevelRows]:
    """Compute, from labelled examples by set, the inputs of the regressions and of the contradiction curve.

    Sets called `…_swapped` give the rows for sources to cover. The second result is the input of the curve: the
    encoder's contradiction logit of each wrong response that is known to contradict the sources or not to.
    """
    by_level, kinds = {level: LevelRows() for level in COLUMNS}, LevelRows()
    for name, examples in data.items():
        scored = score(scorer, [e.case for e in examples], of_sources=name.endswith(SWAPPED))
        for example, one in zip(examples, scored, strict=True):
            if not one.problem and np.isfinite(one.logits).any():
                _add(by_level, name, example, one)
                if (contradiction := contradiction_pair(example, one, one.contradictions)) is not None:
                    kinds.add(name, [np.array([[contradiction[1]]])], [contradiction[0]])
        progress(f"{name}: {len(examples)} examples scored")
    return by_level, kinds


def _add(by_level: Mapping[Level, LevelRows], name: str, example: Example, scored: ScoredResponse) -> None:
    case, target = example.case, response_target(example)
    table = word_table(case, scored)
    if np.isfinite(target):
        label = [target >= GOLD_THRESHOLD]
        source_words = sum(len(words(source.text)) for source in case.sources)
        if not name.endswith(SWAPPED):
            by_level[Level.RESPONSE].add(name, [sentence_rows(scored, table, source_words)], label)
        elif len(scored.parts) == 1:
            by_level[Level.SOURCE].add(name, [source_rows(scored, table, source_words)], label)
    labels, is_scored = unit_labels(example, scored.units)
    is_scored &= np.isfinite(scored.logits)
    if example.gold.verdicts and is_scored.any():
        by_level[Level.SPAN].add(name, table.rows[is_scored, None], labels[is_scored] >= GOLD_THRESHOLD)


def fit_levels(
    rows: Mapping[Level, LevelRows],
    *,
    fitted_on: Callable[[str], bool] = lambda name: True,
) -> tuple[dict[Level, LevelModel], dict[str, dict[str, Any]]]:
    """Fit a regression for each level (`fit_level`), and measure its ROC AUC on each set.

    Args:
        rows: The labelled items of each level.
        fitted_on: Decides by name whether to fit on a set. A level without any such set is fitted on all sets.

    Raises:
        InputError: A level has no labels.
        MissingExtraError: SciPy is not installed.
    """
    models, figures = {}, {}
    for level, items in rows.items():
        items = items.of(lambda name: not name.startswith(IN_PLACE)) if level is Level.RESPONSE else items
        if not items.rows:
            raise InputError(f"no labels of the level {level}", hint="give data that have them")
        chosen = items.of(fitted_on)
        models[level] = fitted = fit_level(level, chosen if chosen.rows else items)
        scores = np.array([fitted.probabilities(item).max() for item in items.rows])
        labels, sets = np.array(items.labels), np.array(items.sets)
        figures[level.value] = {
            name: _auc(labels[sets == name], scores[sets == name]) for name in dict.fromkeys(items.sets)
        }
    return models, figures


def fit_contradiction(rows: LevelRows) -> tuple[Platt | None, dict[str, float | None]]:
    """Fit the curve that turns the encoder's logit into the probability that an error is a contradiction.

    Every set has the same weight. Return the curve (None if all rows are of one kind) and the ROC AUC of each set.
    """
    if len(set(rows.labels)) < 2:
        return None, {}
    table, labels, sets = np.concatenate(rows.rows), np.array(rows.labels), np.array(rows.sets)
    names, of_set, counts = np.unique(sets, return_inverse=True, return_counts=True)
    curve = fit_platt(labels, table[:, 0], len(labels) / len(names) / counts[of_set])
    return curve, {name: _auc(labels[sets == name], table[sets == name, 0]) for name in names.tolist()}


def fit_short_answers(items: LevelRows, threshold: float) -> tuple[Platt | None, dict[str, float | None]]:
    """Fit the curve that turns the logit of a short answer in its context into a probability, and measure its ROC AUC.

    The logit with the best balanced accuracy is mapped to the probability `threshold`, the threshold of the response
    level. The curve is None unless there are right and wrong answers of this kind (`IN_PLACE`).
    """
    chosen = [i for i, name in enumerate(items.sets) if name.startswith(IN_PLACE)]
    labels = np.array([items.labels[i] for i in chosen])
    if len(set(labels.tolist())) < 2:
        return None, {}
    logits = np.array([items.rows[i][:, COLUMNS[Level.RESPONSE].index("sentence")].max() for i in chosen])
    slope = fit_platt(labels, logits).slope
    best = threshold_for_balanced_accuracy(labels, Platt(1.0, 0.0).apply(logits))
    intercept = math.log(threshold / (1 - threshold)) - slope * math.log(best / (1 - best))
    return Platt(slope, intercept), {"all": _auc(labels, logits)}


def fit_level(level: Level, items: LevelRows) -> LevelModel:
    """Fit a logistic regression on the highest row of each item, and fit its threshold.

    For responses, it is the lowest threshold that flags at most the proportion `FALSE_ALARMS` of the supported ones,
    averaged over the sets. For words, it has the best F1, and for source sentences the best balanced accuracy.

    The highest row depends on the regression, so choosing rows and fitting alternate, as in multiple-instance learning
    (Andrews et al. 2002). If a column is known to speak for or against an error, its weight never has the opposite sign
    (`regressions.SIGNS`). Every set has the same weight.
    """
    try:
        from scipy.optimize import minimize  # type: ignore[import-untyped]
    except ImportError:
        raise MissingExtraError("fitting the default detector", "stats") from None
    labels, sets = np.array(items.labels), np.array(items.sets)
    _, of_set, counts = np.unique(sets, return_inverse=True, return_counts=True)
    weight = 1.0 / counts[of_set]
    weight /= weight.sum()
    table, ends = np.concatenate(items.rows), np.cumsum([len(item) for item in items.rows])
    starts = np.r_[0, ends[:-1]]
    empty = LinearClassifier.standardising(table)
    standardised, y = empty.standardise(table), labels.astype(np.float64)
    ranges = {1: (0.0, None), -1: (None, 0.0), 0: (None, None)}
    bounds = [*(ranges[SIGNS.get(name, 0)] for name in COLUMNS[level]), (None, None)]
    parameters = np.array([max(0, SIGNS.get(name, 0)) for name in COLUMNS[level]] + [0.0])
    for _ in range(_ROUNDS):
        logits = standardised @ parameters[:-1]
        x = standardised[[start + int(np.argmax(logits[start:end])) for start, end in zip(starts, ends, strict=True)]]

        def loss(candidate: Floats, x: Floats = x) -> tuple[float, Floats]:
            weights, logits = candidate[:-1], x @ candidate[:-1] + candidate[-1]
            each = np.logaddexp(0.0, logits) - y * logits
            slope = weight * (np.exp(-np.logaddexp(0.0, -logits)) - y)
            gradient = np.concatenate([x.T @ slope + 2 * PENALTY * weights, [slope.sum()]])
            return float(weight @ each + PENALTY * weights @ weights), gradient

        parameters = minimize(loss, parameters, jac=True, bounds=bounds, method="L-BFGS-B").x
        if (ends - starts == 1).all():
            break
    fitted = LevelModel(LinearClassifier(empty.mean, empty.scale, parameters[:-1], parameters[-1:]), DEFAULT_THRESHOLD)
    scores = np.array([fitted.probabilities(item).max() for item in items.rows])
    counted = [name for name in np.unique(sets) if not str(name).startswith(_UNCERTAIN)] or list(np.unique(sets))
    balanced = weight * np.isin(sets, counted)
    if level is not Level.SPAN:  # equal weight for both classes of each set: the mean balanced accuracy over the sets
        for name in counted:
            for one in (True, False):
                members = (sets == name) & (labels == one)
                balanced[members] = 1.0 / max(1, members.sum())
    right = np.flatnonzero(~labels & (balanced > 0))
    if level is Level.RESPONSE and len(right):
        right = right[np.argsort(-scores[right])]
        flagged = np.cumsum(balanced[right]) / balanced[right].sum()
        first = right[np.searchsorted(flagged, FALSE_ALARMS, side="right")]  # the first item that must not be flagged
        return LevelModel(fitted.classifier, float(np.nextafter(scores[first], 1.0)))
    threshold = threshold_for_f1 if level is Level.SPAN else threshold_for_balanced_accuracy
    return LevelModel(fitted.classifier, threshold(labels, scores, balanced))


def _auc(labels: NDArray[np.bool_], scores: Floats) -> float | None:
    try:
        return round(float(roc_auc(labels, scores)), 4)
    except UndefinedMetricError:
        return None
