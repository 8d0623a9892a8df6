"""Check the arguments of the numeric functions, and convert them to one-dimensional arrays."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veridical.metrics import UndefinedMetricError
from veridical.records.errors import InputError

Bools: TypeAlias = NDArray[np.bool_]
Floats: TypeAlias = NDArray[np.float64]


def as_labels(values: ArrayLike, what: str = "labels") -> Bools:
    """Convert `values` to a bool array of *shape* (n,). Error messages call the values `what`.

    Raises:
        InputError: The values are not one-dimensional, or contain something other than booleans, 0 and 1.

    >>> as_labels([0, 1])
    array([False,  True])
    """
    array = np.asarray(values)
    if array.ndim != 1:
        raise InputError(f"{what} have {array.ndim} dimensions", hint="give one value an item")
    if array.dtype == np.bool_:
        return array
    if array.size and not (np.issubdtype(array.dtype, np.number) and np.isin(array, (0, 1)).all()):
        raise InputError(f"{what} hold something other than true and false", hint="1 or True = hallucinated")
    return array.astype(np.bool_)


def as_scores(values: ArrayLike, what: str = "scores") -> Floats:
    """Convert `values` to a float array of *shape* (n,). Error messages call the values `what`.

    Raises:
        UndefinedMetricError: A value is NaN or infinite.

    >>> as_scores([0, 0.5])
    array([0. , 0.5])
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1:
        raise InputError(f"{what} have {array.ndim} dimensions", hint="give one value an item")
    bad = int(array.size - np.isfinite(array).sum())
    if bad:
        raise UndefinedMetricError(
            f"{bad} of {array.size} {what} are not finite numbers", hint="leave out what has no score"
        )
    return array


def as_probabilities(values: ArrayLike) -> Floats:
    """Convert `values` to a float array of probabilities, *shape* (n,).

    Raises:
        InputError: A value lies outside [0, 1].

    >>> as_probabilities([0, 1])
    array([0., 1.])
    """
    array = as_scores(values, "scores")
    if array.size and not (array.min() >= 0.0 and array.max() <= 1.0):
        raise InputError(f"scores run from {array.min():g} to {array.max():g}", hint="they lie in [0, 1]")
    return array


def as_weight(weight: ArrayLike | None, n: int) -> Floats:
    """Convert the weights of `n` items to an array of *shape* (n,). An item of weight 2 counts as two equal items.

    If `weight` is None, every item has the weight 1.

    Raises:
        InputError: A weight is negative, or the number of weights is not `n`.

    >>> as_weight(None, 2)
    array([1., 1.])
    """
    if weight is None:
        return np.ones(n)
    array = as_scores(weight, "weights")
    if array.size != n:
        raise InputError(f"{array.size} weights for {n} items")
    if array.size and array.min() < 0:
        raise InputError(f"a weight is {array.min():g}", hint="a weight says how often an item counts: 0 or more")
    return array


def labels_and_scores(
    labels: ArrayLike, scores: ArrayLike, weight: ArrayLike | None = None
) -> tuple[Bools, Floats, Floats]:
    """Convert the labels, scores and weights of items to three arrays of *shape* (n,), and check them.

    Raises:
        UndefinedMetricError: There are no items, or all weights are 0.

    >>> labels_and_scores([True], [0.5])
    (array([ True]), array([0.5]), array([1.]))
    """
    gold, score = as_labels(labels), as_scores(scores)
    if gold.size != score.size:
        raise InputError(f"{gold.size} labels for {score.size} scores")
    w = as_weight(weight, gold.size)
    if not w.any():
        raise UndefinedMetricError(f"there is nothing to measure ({gold.size} items, none with a weight)")
    return gold, score, w
