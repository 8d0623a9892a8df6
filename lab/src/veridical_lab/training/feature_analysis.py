"""Analyse how word features relate to labels: averages by label and word type, and correlations.

This follows Liu et al. 2022, §3.4 (Table 1 and Figure 4) and appendix A (Table 4).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from veridical.datasets.split import content_hash
from veridical.records.errors import InputError, UnknownNameError
from veridical.records.types import Example
from veridical_lab.detectors.features.extraction import FeatureExtractor
from veridical_lab.detectors.features.tagger import ENTITIES, PARTS_OF_SPEECH
from veridical_lab.training.features import FeatureTable, feature_table

# the paper's four features, the support by sources and the generator's scores, as far as a data set has them
DEFAULT_FEATURES = ("probability", "log_probability", "entropy", "tf_idf", "ppmi", "unsupported", "token_score")
LABEL = "hallucinated"


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean and standard deviation of a feature over the words or phrases of one label. None if there are none."""

    mean: float | None
    deviation: float | None


@dataclass(frozen=True, slots=True)
class FeatureGroup:
    """The units (words or phrases) of one word type. A group is a line of Table 4 and a bar of Figure 4.

    Attributes:
        name: The name of the group, such as "all", "pos:NOUN" or "entity:person".
        hallucinated: The number of units that are labelled as hallucinated.
        other: The number of other units.
        features: The spread of each feature, first over the hallucinated units and then over the others.
    """

    name: str
    hallucinated: int
    other: int
    features: dict[str, list[Spread]]


@dataclass(frozen=True, slots=True)
class FeatureAnalysis:
    """How features relate to the labels of one data set.

    Attributes:
        data: The name of the data set.
        data_hash: The content hash of the examples.
        unit: What a label applies to: "word", "phrase" or "auto".
        units: The number of labelled units.
        features: The names of the features.
        groups: First all units, then the units of each part of speech and of each entity type that occurs.
        correlations: Pearson's correlation between every two columns, of which the first is the label and the others
            are the features. None if one of the two is constant. *Shape:* (1 + features, 1 + features)
        left_out: The number of responses that could not be used, by reason.
        tagger: The tagger of parts of speech and entity types.
        model: The name of the language model, or None if there is none.
        command: The command line.
        date: The date, as YYYY-MM-DD.
    """

    data: str
    data_hash: str
    unit: str
    units: int
    features: list[str]
    groups: list[FeatureGroup]
    correlations: list[list[float | None]]
    left_out: dict[str, int] = field(default_factory=dict)
    tagger: str = "rules"
    model: str | None = None
    command: str = ""
    date: str = ""


def analyse_features(
    extractor: FeatureExtractor,
    examples: Sequence[Example],
    *,
    data: str = "",
    unit: str = "auto",
    features: Sequence[str] | None = None,
    command: str = "",
) -> FeatureAnalysis:
    """Extract features from labelled examples, and count, average and correlate them.

    Args:
        extractor: The feature extractor.
        examples: The labelled cases.
        data: The name of the data set.
        unit: What a label applies to: "word", "phrase" or "auto" (see `training.features`).
        features: The names of the features. Default: all of `DEFAULT_FEATURES` that the data provide.
        command: The command line to record.

    Raises:
        InputError: All labels are of one class, or there are none.
        UnknownNameError: A feature is unknown.
    """
    table = feature_table(extractor, examples, unit)
    if len(set(table.labels.tolist())) < 2:
        reasons = "".join(f"; {count} left out: {reason}" for reason, count in table.left_out.items())
        raise InputError(
            f"the {len(table.labels)} labelled words or phrases are not of both classes{reasons}",
            hint="give data whose labels mark the hallucinated words",
        )
    numeric = [name for name in table.names if not name.startswith(("pos=", "entity="))]
    chosen = [name for name in DEFAULT_FEATURES if name in numeric] if features is None else list(features)
    for name in chosen:
        if name not in numeric:
            raise UnknownNameError("feature", name, numeric)
    columns = np.array([table.names.index(name) for name in chosen])
    values = table.values[:, columns]
    groups = [feature_group("all", np.ones(len(table.labels), dtype=bool), table, values, chosen)]
    for prefix, types in (("pos", PARTS_OF_SPEECH), ("entity", ENTITIES)):
        type_columns = [table.names.index(f"{prefix}={name}") for name in types]
        commonest = np.argmax(table.values[:, type_columns], axis=1)
        groups += [
            feature_group(f"{prefix}:{name}", commonest == i, table, values, chosen)
            for i, name in enumerate(types)
            if (commonest == i).any()
        ]
    return FeatureAnalysis(
        data=data,
        data_hash=content_hash(examples),
        unit=unit,
        units=len(table.labels),
        features=chosen,
        groups=groups,
        correlations=correlations(np.column_stack([table.labels.astype(np.float64), values])),
        left_out=table.left_out,
        tagger=extractor.tagger.identity(),
        model=None if extractor.model is None else extractor.model.name,
        command=command,
        date=datetime.now(UTC).date().isoformat(),
    )


def feature_group(
    name: str, inside: NDArray[np.bool_], table: FeatureTable, values: NDArray[np.float64], names: Sequence[str]
) -> FeatureGroup:
    """Make a group of the units that `inside` selects, with the spread of each column of `values` by label."""
    sides = [inside & table.labels, inside & ~table.labels]
    spreads = {}
    for i, feature in enumerate(names):
        by_label = [values[side, i][~np.isnan(values[side, i])] for side in sides]
        spreads[feature] = [
            Spread(float(each.mean()), float(each.std())) if len(each) else Spread(None, None) for each in by_label
        ]
    return FeatureGroup(name, int(sides[0].sum()), int(sides[1].sum()), spreads)


def correlations(rows: NDArray[np.float64]) -> list[list[float | None]]:
    """Compute Pearson's correlation between every two columns, over the rows that have both values.

    If one of the two is constant, the correlation is None.

    >>> correlations(np.array([[0.0, 1.0], [1.0, 3.0], [2.0, np.nan]]))
    [[1.0, 1.0], [1.0, 1.0]]
    """
    count = rows.shape[1]
    table: list[list[float | None]] = [[None] * count for _ in range(count)]
    for i in range(count):
        for j in range(i, count):
            both = rows[~np.isnan(rows[:, [i, j]]).any(axis=1)][:, [i, j]]
            if len(both) < 2 or (both.std(axis=0) < 1e-12).any():
                continue
            matrix = np.asarray(np.corrcoef(both.T))
            value = float(matrix[0, 1])
            table[i][j] = table[j][i] = max(-1.0, min(1.0, round(value, 12)))
    return table
