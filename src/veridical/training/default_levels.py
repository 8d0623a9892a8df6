"""The regressions of the default detector: what they read, and how they are fitted, a level at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridical.calibration.calibrators import Platt, fit_platt
from veridical.calibration.thresholding import threshold_for_balanced_accuracy, threshold_for_f1
from veridical.core.errors import InputError, MissingExtraError
from veridical.core.segment import words
from veridical.core.types import DEFAULT_THRESHOLD, GOLD_THRESHOLD, Example, Level
from veridical.detectors.default.combining import (
    COLUMNS,
    SIGNS,
    LevelModel,
    contradiction_logits,
    response_row,
    source_rows,
    word_table,
)
from veridical.detectors.default.detector import score
from veridical.detectors.features.linear import LinearClassifier
from veridical.detectors.tokens.detector import Tokens
from veridical.detectors.tokens.scoring import ScoredResponse
from veridical.metrics import UndefinedMetricError
from veridical.metrics.ranking import roc_auc
from veridical.metrics.tokens import unit_labels
from veridical.training.default_data import PAIRS
from veridical.training.token_evaluation import response_target, told_contradiction

__all__ = ["PENALTIES", "SWAPPED", "LevelRows", "fit_contradiction", "fit_level", "fit_levels", "level_rows"]

Floats = NDArray[np.float64]
SWAPPED = "_swapped"
"""How the name of a set ends whose responses are sources to cover, and the reverse."""
PENALTIES: Mapping[Level, float] = {Level.SPAN: 0.01, Level.RESPONSE: 0.3, Level.SOURCE: 0.01}
"""Of the squared weights of each level's regression, next to a mean loss; the weight of "encoder" is free of it."""
_PAIR_SHARE = 0.25


@dataclass(slots=True)
class LevelRows:
    """Rows of one level with their labels and sets."""

    rows: list[Floats] = field(default_factory=list)
    labels: list[NDArray[np.bool_]] = field(default_factory=list)
    sets: list[str] = field(default_factory=list)

    def add(self, name: str, rows: Floats, labels: Iterable[bool]) -> None:
        """Append rows *(n, columns)* of the set `name` with labels *(n,)*."""
        self.rows.append(rows)
        self.labels.append(np.fromiter(labels, dtype=bool))
        self.sets += [name] * len(rows)

    def arrays(self) -> tuple[Floats, NDArray[np.bool_], NDArray[np.str_]]:
        """All rows, labels and sets."""
        return np.concatenate(self.rows), np.concatenate(self.labels), np.array(self.sets)


def level_rows(
    encoder: Tokens, data: Mapping[str, list[Example]], *, progress: Callable[[str], None] = lambda line: None
) -> tuple[dict[Level, LevelRows], LevelRows]:
    """What the regressions read, of labelled examples by set; sets called `…_swapped` are of sources to cover.

    Next to that, of wrong responses of which it is known whether sources contradict them, what the encoder says of it.
    """
    found, kinds = {level: LevelRows() for level in COLUMNS}, LevelRows()
    for name, examples in data.items():
        scored = score(encoder, [e.case for e in examples], narrow=not name.endswith(SWAPPED))
        for example, one in zip(examples, scored, strict=True):
            if not one.problem and np.isfinite(one.logits).any():
                _add(found, name, example, one)
                if (told := told_contradiction(example, one, contradiction_logits(one))) is not None:
                    kinds.add(name, np.array([[told[1]]]), [told[0]])
        progress(f"{name}: {len(examples)} examples scored")
    return found, kinds


def _add(found: Mapping[Level, LevelRows], name: str, example: Example, scored: ScoredResponse) -> None:
    case, target = example.case, response_target(example)
    table = word_table(case, scored)
    if np.isfinite(target):
        label = [target >= GOLD_THRESHOLD]
        source_words = sum(len(words(source.text)) for source in case.sources)
        if not name.endswith(SWAPPED):
            found[Level.RESPONSE].add(name, response_row(case, scored, table, source_words)[None], label)
        elif len(scored.parts) == 1:
            found[Level.SOURCE].add(name, source_rows(scored, table, source_words), label)
    labels, known = unit_labels(example, scored.units)
    known &= np.isfinite(scored.logits)
    if example.gold.verdicts and known.any():
        found[Level.SPAN].add(name, table.rows[known], labels[known] >= GOLD_THRESHOLD)


def fit_levels(
    rows: Mapping[Level, LevelRows],
) -> tuple[dict[Level, LevelModel], dict[str, dict[str, Any]]]:
    """A regression for each level (`fit_level`), and the ROC AUC by level and set of what it was fitted on.

    Raises:
        InputError: If a level has no labels.
        MissingExtraError: Without scipy.
    """
    models, figures = {}, {}
    for level, of_level in rows.items():
        if not of_level.rows:
            raise InputError(f"no labels of the level {level}", hint="give data that have them")
        table, labels, sets = of_level.arrays()
        models[level] = fitted = fit_level(level, table, labels, sets)
        scores = fitted.probabilities(table)
        figures[level.value] = {
            name: _auc(labels[sets == name], scores[sets == name]) for name in dict.fromkeys(sets.tolist())
        }
    return models, figures


def fit_contradiction(rows: LevelRows) -> tuple[Platt | None, dict[str, float | None]]:
    """The curve from the encoder's logit to the probability that what is wrong is contradicted, each set with the same
    weight, and the ROC AUC of each set; no curve where the encoder says nothing of it, or all are of one kind."""
    if not rows.rows or len(np.unique(rows.arrays()[1])) < 2:
        return None, {}
    table, labels, sets = rows.arrays()
    names, of_set, counts = np.unique(sets, return_inverse=True, return_counts=True)
    curve = fit_platt(labels, table[:, 0], len(labels) / len(names) / counts[of_set])
    return curve, {name: _auc(labels[sets == name], table[sets == name, 0]) for name in names.tolist()}


def fit_level(level: Level, table: Floats, labels: NDArray[np.bool_], sets: NDArray[np.str_]) -> LevelModel:
    """A logistic regression on rows *(n, columns)*, and the threshold of the highest balanced accuracy, of words F1.

    What is known to speak for an error, or against one, never gets a weight of the other sign (`combining.SIGNS`).
    Every set has the same weight, pairs of texts a quarter of it; so have both classes in each set, but of words, which
    keep the shares that they have.

    Args:
        level: Whose columns the rows have.
        table: The rows.
        labels: Whether each is an error. *Shape:* (n,)
        sets: The set that each is of. *Shape:* (n,)
    """
    try:
        from scipy.optimize import minimize  # type: ignore[import-untyped]
    except ImportError:
        raise MissingExtraError("fitting the default detector", "stats") from None
    weight = np.zeros(len(labels))
    for name in np.unique(sets):
        of_set, share = sets == name, _PAIR_SHARE if name in PAIRS else 1.0
        for one in (True, False):
            here = of_set & (labels == one)
            if here.any():
                weight[here] = share / of_set.sum() if level is Level.SPAN else share / 2 / here.sum()
    weight /= weight.sum()
    penalty = np.array([0.0 if name == "encoder" else PENALTIES[level] for name in COLUMNS[level]])
    empty = LinearClassifier.standardising(table)
    x, y = empty.standardise(table), labels.astype(np.float64)

    def loss(parameters: Floats) -> tuple[float, Floats]:
        weights, logits = parameters[:-1], x @ parameters[:-1] + parameters[-1]
        each = np.logaddexp(0.0, logits) - y * logits
        slope = weight * (np.exp(-np.logaddexp(0.0, -logits)) - y)
        gradient = np.concatenate([x.T @ slope + 2 * penalty * weights, [slope.sum()]])
        return float(weight @ each + penalty @ weights**2), gradient

    ranges = {1: (0.0, None), -1: (None, 0.0), 0: (None, None)}
    bounds = [*(ranges[SIGNS.get(name, 0)] for name in COLUMNS[level]), (None, None)]
    found = minimize(loss, np.zeros(x.shape[1] + 1), jac=True, bounds=bounds, method="L-BFGS-B").x
    fitted = LinearClassifier(empty.mean, empty.scale, found[:-1], found[-1:])
    scores = LevelModel(fitted, DEFAULT_THRESHOLD).probabilities(table)
    threshold = threshold_for_f1 if level is Level.SPAN else threshold_for_balanced_accuracy
    return LevelModel(fitted, threshold(labels, scores, weight))


def _auc(labels: NDArray[np.bool_], scores: Floats) -> float | None:
    try:
        return round(float(roc_auc(labels, scores)), 4)
    except UndefinedMetricError:
        return None
