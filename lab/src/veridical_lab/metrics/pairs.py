"""Score pairs of a right and a hallucinated response to the same input, as in BUMP and HaluEval.

The case ids of a pair are the same up to the last slash. The part after the slash is also the example's group
"version".
"""

from __future__ import annotations

import hashlib

import numpy as np

from veridical.metrics.arrays import Floats
from veridical.records.types import Example


def pair_name(example: Example) -> str | None:
    """Return the name of the example's pair, or None if the example belongs to no pair.

    >>> from veridical.records.types import Case, Judgement
    >>> case = Case("qa/7/right", "In Rome")
    >>> pair_name(Example(case, Judgement(case.id, "human:a"), group=(("version", "right"),)))
    'qa/7'
    """
    version = dict(example.group).get("version")
    name, slash, last = example.case.id.rpartition("/")
    return name if slash and last == version else None


def pair_number(name: str) -> int:
    """Hash the name of a pair to a number below 2**48, which a float can hold exactly."""
    return int.from_bytes(hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=6).digest(), "big")


def pair_outcomes(rows: Floats) -> Floats:
    """Compute the two terms that each row adds to the sums of pair accuracy.

    The rows have the columns pair, label and score. Each hallucinated response is compared with each right response of
    its pair. A comparison counts 1 if the hallucinated response has the higher score, 0.5 for a tie, and 0 otherwise.
    For a hallucinated response, the terms are the sum of its outcomes and the number of its comparisons. For a right
    response, both terms are 0. The result has *shape* (rows, 2).

    >>> pair_outcomes(np.array([[7, 0, 0.2], [7, 1, 0.9], [8, 1, 0.5], [8, 0, 0.5], [9, 1, 0.4]])).tolist()
    [[0.0, 0.0], [1.0, 1.0], [0.5, 1.0], [0.0, 0.0], [0.0, 0.0]]
    """
    terms = np.zeros((len(rows), 2))
    right: dict[float, list[float]] = {}
    for pair, label, score in rows.tolist():
        if not label:
            right.setdefault(pair, []).append(score)
    for i, (pair, label, score) in enumerate(rows.tolist()):
        others = right.get(pair, ()) if label else ()
        terms[i] = sum((score > other) + (score == other) / 2 for other in others), len(others)
    return terms
