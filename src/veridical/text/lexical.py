"""Compute lexical features: whether, and in which form, each word of a response occurs in the sources.

Models can use these features as inputs in addition to their hidden states.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from veridical.records.spans import Span
from veridical.records.types import Case
from veridical.text.matching import WORDS, Profile, word_support
from veridical.text.names import is_name
from veridical.text.recent import Recent
from veridical.text.segment import word_forms

FEATURES = (
    "content",  # not a stop word, or part of a value
    "in_source",  # content word whose stem or value a source has
    "missing",  # content word whose stem or value no source has
    "exact",  # the same form is in a source, in any case
    "value",  # a number, date or measure
    "value_missing",
    "name",  # by its capitals
    "name_missing",
    "pair_before",  # a source has it after the same word
    "pair_after",  # a source has it before the same word
    "run",  # length of the longest run of words around it that a source has, up to 6, divided by 6
    "missing_of_response",  # share of the response's content words that are missing
)
_LONGEST_RUN = 6
_KEPT = 2_000_000  # characters of sources whose analysis is cached, some 45 MB: twice a batch, or the longest case
_BASE = np.uint64(0x9E3779B97F4A7C15)  # base of the polynomial hash of a run of words, modulo 2 ** 64


@dataclass(frozen=True, slots=True, eq=False)
class _SourceWords:
    """The analysed words of one source.

    Attributes:
        profile: The words and values of the source, by the keys that they imply.
        numbers: An integer id for each distinct form.
        count: The number of words.
        runs: For each n from 2 to 6, the sorted hashes of all n-grams of words.
    """

    profile: Profile
    numbers: dict[str, int]
    count: int
    runs: tuple[NDArray[np.uint64], ...]

    @classmethod
    def of(cls, text: str) -> _SourceWords:
        numbers: dict[str, int] = {}
        sequence = [numbers.setdefault(form.lower(), len(numbers)) for form in word_forms(text)]
        runs = tuple(np.sort(hashes) for hashes in _hashes(sequence))
        return cls(Profile(text, WORDS["values"]), numbers, len(sequence), runs)


_read: Recent[str, _SourceWords] = Recent(_KEPT)


def _hashes(numbers: Sequence[int]) -> Iterator[NDArray[np.uint64]]:
    """Yield the hashes of all n-grams for each n from 2 to `_LONGEST_RUN`, in the order of their first words."""
    ids = np.array(numbers, dtype=np.uint64) + np.uint64(1)
    hashes = ids
    for size in range(2, _LONGEST_RUN + 1):
        hashes = hashes[:-1] * _BASE + ids[size - 1 :]
        yield hashes


def _source(text: str) -> _SourceWords:
    return _read.get(text, len(text), lambda: _SourceWords.of(text))


def source_profile(text: str) -> Profile:
    """Return the words and values of a source with their counts (`Profile`). Recent results are cached."""
    return _source(text).profile


def word_count(texts: Iterable[str]) -> int:
    """Return the total number of words in some sources. The results for recent sources are cached."""
    return sum(_source(text).count for text in texts)


def lexical_features(case: Case, units: Sequence[Span]) -> NDArray[np.float32]:
    """Compute for each word of a response whether, and in which form, it occurs in the sources.

    Args:
        case: The case with the response and its sources.
        units: The spans of the words of the response, in order.

    Returns:
        The features named in `FEATURES` for each word. They are all 0 if there are no sources. *Shape:* (units,
        features)
    """
    table = np.zeros((len(units), len(FEATURES)), dtype=np.float32)
    sources = [_source(source.text) for source in case.sources]
    if not any(source.text for source in case.sources):
        return table
    response = Profile(case.response, WORDS["values"])
    support = word_support(response, units, [source.profile for source in sources])
    content, supported, value = np.array(support, dtype=bool).reshape(-1, 3).T
    missing = content & ~supported
    names = np.array([is_name(case.response, unit) for unit in units], dtype=bool)
    sequence = [unit.of(case.response).lower() for unit in units]
    exact = np.array([any(form in source.numbers for source in sources) for form in sequence], dtype=bool)
    columns = [content, supported, missing, exact, value, value & missing, names, names & missing]
    table[:, :8] = np.column_stack(columns)
    run = exact.astype(np.int64)
    for size, places in enumerate(_shared_runs(sequence, sources), 2):
        for i in places:
            run[i : i + size] = size
        if size == 2:
            table[places + 1, 8] = table[places, 9] = 1.0
    table[:, 10] = run / _LONGEST_RUN
    table[:, 11] = missing.sum() / max(content.sum(), 1)
    return table


def _shared_runs(sequence: Sequence[str], sources: Sequence[_SourceWords]) -> list[NDArray[np.int64]]:
    """Find the positions in `sequence` of the n-grams that a source also has, for each n from 2 to `_LONGEST_RUN`."""
    shared_by_size = [np.zeros(max(0, len(sequence) - size), dtype=bool) for size in range(1, _LONGEST_RUN)]
    for source in sources:
        unknown = len(source.numbers)  # the id of every word that the source lacks
        hashes = _hashes([source.numbers.get(form, unknown) for form in sequence])
        for shared, response_runs, source_runs in zip(shared_by_size, hashes, source.runs, strict=True):
            if len(source_runs):
                shared |= (
                    source_runs[np.minimum(np.searchsorted(source_runs, response_runs), len(source_runs) - 1)]
                    == response_runs
                )
    return [np.flatnonzero(shared) for shared in shared_by_size]
