"""The detector that chooses the next round: a feature classifier trained on the rounds so far, scored fairly.

Annotated items are scored by classifiers that have not seen their documents (cross-fitting), so that the rates which
equation (9) needs are honest; the pool is scored by all of them together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from veridical.calibration.fitting import CalibrationOptions, fit_scale
from veridical.core.errors import InputError
from veridical.core.types import Example
from veridical.datasets.split import split_by_document
from veridical.metrics import UndefinedMetricError
from veridical_lab.annotate.balance import Annotated
from veridical_lab.annotate.items import place_of, says_hallucinated
from veridical_lab.detectors.features.extraction import FeatureExtractor
from veridical_lab.training.features import FeatureOptions, FeatureTable, Inputs, fit_classifier, make_extractor

__all__ = ["PoolScores", "Scorer", "item_weights", "score_pool"]

Floats = NDArray[np.float64]
_FOLDS = 5


@dataclass(frozen=True, slots=True, eq=False)
class PoolScores:
    """What a round's detector says.

    Attributes:
        pool: The score of each item of the pool. *Shape:* (pool,)
        annotated: Scores of annotated items, by classifiers that have not seen their documents.
    """

    pool: Floats
    annotated: Annotated


def item_weights(labelled: Sequence[Example]) -> Floats:
    """How many items of the pool each annotated one stands for, from the groups `share` and `round`, on average 1 in
    each round. *Shape:* (labelled,)
    """
    groups = [dict(item.group) for item in labelled]
    weights = np.array([1.0 / float(group.get("share", 1.0)) for group in groups])
    rounds = np.array([group.get("round", "") for group in groups])
    for name in set(rounds.tolist()):
        weights[rounds == name] /= weights[rounds == name].mean()
    return weights


class Scorer:
    """Extracts features of items once and trains on those that are annotated.

    Args:
        items: All items, whose texts also give the word statistics.
        options: What is trained; by default logistic regression on all features.
    """

    def __init__(self, items: Sequence[Example], options: FeatureOptions | None = None) -> None:
        self.options = options or FeatureOptions(unit="phrase")
        self._extractor: FeatureExtractor = make_extractor(items, self.options, Inputs())
        self._rows: dict[str, Floats] = {}

    def rows(self, items: Sequence[Example]) -> Floats:
        """The features of items. *Shape:* (items, features)"""
        new = [item for item in items if item.case.id not in self._rows]
        extracted = self._extractor.extract([item.case for item in new], [[place_of(item).span] for item in new])
        for item, found in zip(new, extracted, strict=True):
            if found.problem is not None:
                raise InputError(f"item {item.case.id!r} has no features: {found.problem}")
            self._rows[item.case.id] = found.values[0]
        return np.stack([self._rows[item.case.id] for item in items])

    def table(self, items: Sequence[Example]) -> FeatureTable:
        """Features and labels of annotated items."""
        labels = np.array([bool(says_hallucinated(item.gold)) for item in items])
        names = self._extractor.settings.names
        return FeatureTable(names, self.rows(items), labels, np.arange(len(items)), {})


def score_pool(
    scorer: Scorer,
    labelled: Sequence[Example],
    pool: Sequence[Example],
    *,
    seed: int = 0,
) -> PoolScores:
    """Train on annotated items and score the pool; 0.5 for all where held-out scores are no better than chance.

    Args:
        scorer: Their features.
        labelled: Annotated items of all rounds; their gold is the label.
        pool: Items to score.
        seed: The random seed of the folds by document.

    Raises:
        InputError: Unless both labels are there in several documents.
    """
    names = [str(i) for i in range(_FOLDS)]
    parts = split_by_document(labelled, dict.fromkeys(names, 1 / _FOLDS), seed=seed)
    index = {item.case.id: i for i, item in enumerate(labelled)}
    distances = np.full(len(labelled), np.nan)
    of_pool = np.zeros(len(pool))
    pool_rows = scorer.rows(pool) if pool else np.zeros((0, 0))
    fitted = 0
    for fold, name in enumerate(names):
        held_out = parts[name]
        valid = parts[names[(fold + 1) % _FOLDS]]
        train = [item for other in names if other not in (name, names[(fold + 1) % _FOLDS]) for item in parts[other]]
        tables = scorer.table(train) if train else None, scorer.table(valid) if valid else None
        if not held_out or any(table is None or len(set(table.labels.tolist())) < 2 for table in tables):
            continue
        classifier, _ = fit_classifier(tables[0], tables[1], scorer.options)  # type: ignore[arg-type]
        distances[[index[item.case.id] for item in held_out]] = classifier.decide(scorer.rows(held_out))
        of_pool += classifier.decide(pool_rows) if pool else 0.0
        fitted += 1
    known = ~np.isnan(distances)
    labels = np.array([bool(says_hallucinated(item.gold)) for item in labelled])
    if not fitted or len(set(labels[known].tolist())) < 2:
        raise InputError(
            f"{len(labelled)} annotated items, {int(labels.sum())} of them hallucinated, are too few to train on",
            hint="annotate more at random first, so that both labels are there in several documents",
        )
    weights = item_weights(labelled)[known].tolist()
    try:
        scale = fit_scale(labels[known], distances[known], CalibrationOptions("f1", "platt"))
    except UndefinedMetricError:  # it ranks no better than chance: it knows nothing yet, and the round is random
        alike = Annotated(labels[known].tolist(), [0.5] * int(known.sum()), weights)
        return PoolScores(np.full(len(pool), 0.5), alike)
    annotated = Annotated(labels[known].tolist(), scale.apply(distances[known].tolist()), weights)
    return PoolScores(np.array(scale.apply((of_pool / fitted).tolist())), annotated)
