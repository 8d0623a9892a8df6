"""Score items for the next round with feature classifiers that are trained on the rounds so far.

Each annotated item is scored by a classifier that has not seen the document of the item (cross-fitting), so that the
rates of equation (9) are not too optimistic. The items of the pool are scored by all these classifiers together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from veridical.datasets.split import split_by_document
from veridical.metrics import UndefinedMetricError
from veridical.metrics.arrays import Floats
from veridical.records.errors import InputError
from veridical.records.types import Example
from veridical.workflows.calibration import CalibrationOptions, fit_scale
from veridical_lab.annotate.balance import Annotated
from veridical_lab.annotate.items import item_place, says_hallucinated
from veridical_lab.detectors.features.extraction import FeatureExtractor
from veridical_lab.training.features import FeatureOptions, FeatureTable, Inputs, fit_classifier, make_extractor

_FOLDS = 5


@dataclass(frozen=True, slots=True, eq=False)
class PoolScores:
    """How the detector of a round scores the pool and the annotated items.

    Attributes:
        pool: The score of each item in the pool. *Shape:* (pool,)
        annotated: The labels and scores of the annotated items. By default, each score comes from a classifier that has
            not seen the document of the item.
    """

    pool: Floats
    annotated: Annotated


def item_weights(labelled: Sequence[Example]) -> Floats:
    """Compute how many items of the pool each annotated item stands for, *shape* (labelled,).

    The weight of an item is 1 divided by its group `share`, scaled so that the mean in each `round` is 1.
    """
    groups = [dict(item.group) for item in labelled]
    weights = np.array([1.0 / float(group.get("share", 1.0)) for group in groups])
    rounds = np.array([group.get("round", "") for group in groups])
    for name in set(rounds.tolist()):
        weights[rounds == name] /= weights[rounds == name].mean()
    return weights


class Scorer:
    """Extracts the features of each item only once, so that you can train classifiers on them again and again.

    Args:
        items: All items. Word statistics come from their texts.
    """

    def __init__(self, items: Sequence[Example]) -> None:
        self.options = FeatureOptions(unit="phrase")
        self._extractor: FeatureExtractor = make_extractor(items, self.options, Inputs())
        self._rows: dict[str, Floats] = {}

    def rows(self, items: Sequence[Example]) -> Floats:
        """Compute the features of items, or look up those that were computed before. *Shape:* (items, features)"""
        new = [item for item in items if item.case.id not in self._rows]
        extracted = self._extractor.extract([item.case for item in new], [[item_place(item).span] for item in new])
        for item, features in zip(new, extracted, strict=True):
            if features.problem is not None:
                raise InputError(f"item {item.case.id!r} has no features: {features.problem}")
            self._rows[item.case.id] = features.values[0]
        return np.stack([self._rows[item.case.id] for item in items])

    def table(self, items: Sequence[Example]) -> FeatureTable:
        """Make a table of the features and labels of annotated items."""
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
    """Train classifiers on annotated items, and score these items and the pool.

    If the scores of held-out items are no better than chance, all scores are 0.5.

    Args:
        scorer: Extracts the features of the items.
        labelled: The annotated items of all rounds, whose gold is the label.
        pool: The items to score.
        seed: The random seed by which the folds are drawn, by document.

    Raises:
        InputError: One of the two labels is missing, or there are too few documents.
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
    is_scored = ~np.isnan(distances)
    labels = np.array([bool(says_hallucinated(item.gold)) for item in labelled])
    if not fitted or len(set(labels[is_scored].tolist())) < 2:
        raise InputError(
            f"{len(labelled)} annotated items, {int(labels.sum())} of them hallucinated, are too few to train on",
            hint="annotate more at random first, so that both labels are there in several documents",
        )
    weights = item_weights(labelled)[is_scored].tolist()
    try:
        scale = fit_scale(labels[is_scored], distances[is_scored], CalibrationOptions("f1", "platt"))
    except UndefinedMetricError:  # the classifier ranks no better than chance yet, so the round is random
        alike = Annotated(labels[is_scored].tolist(), [0.5] * int(is_scored.sum()), weights)
        return PoolScores(np.full(len(pool), 0.5), alike)
    annotated = Annotated(labels[is_scored].tolist(), scale.apply(distances[is_scored].tolist()), weights)
    return PoolScores(np.array(scale.apply((of_pool / fitted).tolist())), annotated)
