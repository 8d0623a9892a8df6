"""What the sources have of each word of a response by its form: numbers beside the states of a token classifier."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from veridical.core.names import is_name
from veridical.core.segment import word_forms
from veridical.core.spans import Span
from veridical.core.types import Case
from veridical.detectors.overlap.matching import WORDS, Profile, word_support

__all__ = ["FEATURES", "lexical_features"]

FEATURES = (
    "content",  # no stop word, or part of a value
    "in_source",  # content word whose stem or value a source has
    "missing",  # content word whose stem or value no source has
    "exact",  # the same form in a source, whatever its case
    "value",  # a number, date or measure
    "value_missing",
    "name",  # by its capitals
    "name_missing",
    "pair_before",  # a source has it after the same word
    "pair_after",  # a source has it before the same word
    "run",  # the longest run of words around it that a source has, of 6 at most, as a share of 6
    "missing_of_response",  # share of the response's content words that are missing
)
_LONGEST_RUN = 6


@lru_cache(maxsize=64)
def _read(texts: tuple[str, ...]) -> tuple[list[Profile], set[str], set[tuple[str, str]], set[int]]:
    """The profiles of some sources, their forms, their pairs of words, and the hashes of runs of 3 to 6 words."""
    forms: set[str] = set()
    pairs: set[tuple[str, str]] = set()
    runs: set[int] = set()
    for text in texts:
        sequence = [form.lower() for form in word_forms(text)]
        forms.update(sequence)
        pairs.update(pairwise(sequence))
        for size in range(3, _LONGEST_RUN + 1):
            runs.update(map(hash, zip(*(sequence[at:] for at in range(size)), strict=False)))
    return [Profile(text, WORDS["values"]) for text in texts], forms, pairs, runs


def lexical_features(case: Case, units: Sequence[Span]) -> NDArray[np.float32]:
    """`FEATURES` of each unit of the response, (units, features); all 0 without sources.

    Args:
        case: The case.
        units: Words of the response, in order.
    """
    table = np.zeros((len(units), len(FEATURES)), dtype=np.float32)
    texts = tuple(source.text for source in case.sources)
    if not any(texts):
        return table
    profiles, forms, pairs, runs = _read(texts)
    response = Profile(case.response, WORDS["values"])
    support = word_support(response, units, profiles)
    content, found, value = np.array(support, dtype=bool).reshape(-1, 3).T
    missing = content & ~found
    names = np.array([is_name(case.response, unit) for unit in units], dtype=bool)
    sequence = [unit.of(case.response).lower() for unit in units]
    known = np.array([form in forms for form in sequence], dtype=bool)
    columns = [content, found, missing, known, value, value & missing, names, names & missing]
    table[:, :8] = np.column_stack(columns)
    run = (table[:, 3] > 0).astype(np.int64)
    for i, pair in enumerate(pairwise(sequence)):
        if pair in pairs:
            table[i + 1, 8] = table[i, 9] = 1.0
            run[i : i + 2] = 2
    for size in range(3, _LONGEST_RUN + 1):
        for i in range(len(sequence) - size + 1):
            if hash(tuple(sequence[i : i + size])) in runs:
                run[i : i + size] = size
    table[:, 10] = run / _LONGEST_RUN
    table[:, 11] = missing.sum() / max(content.sum(), 1)
    return table
