"""What the sources have of each word of a response by its form: numbers beside the states of a token classifier."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from veridical.core.names import is_name
from veridical.core.recent import Recent
from veridical.core.segment import word_forms
from veridical.core.spans import Span
from veridical.core.types import Case
from veridical.detectors.overlap.matching import WORDS, Profile, word_support

__all__ = ["FEATURES", "lexical_features", "source_profile", "word_count"]

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
_KEPT = 2_000_000  # characters of sources that are kept analysed, some 45 MB: twice a batch, or the longest case
_BASE = np.uint64(0x9E3779B97F4A7C15)  # of the hash of a run of words, modulo 2 ** 64


@dataclass(frozen=True, slots=True, eq=False)
class _SourceWords:
    """What is looked up in one source.

    Attributes:
        profile: Its words and values by what they imply.
        numbers: The number of each different form.
        count: How many words it has.
        runs: The hashes of all runs of 2, 3, 4, 5 and 6 words, sorted.
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
    """The hashes of the runs of 2, of 3, … of `_LONGEST_RUN` words, by the first of them."""
    ids = np.array(numbers, dtype=np.uint64) + np.uint64(1)
    hashes = ids
    for size in range(2, _LONGEST_RUN + 1):
        hashes = hashes[:-1] * _BASE + ids[size - 1 :]
        yield hashes


def _source(text: str) -> _SourceWords:
    return _read.get(text, len(text), lambda: _SourceWords.of(text))


def source_profile(text: str) -> Profile:
    """The words and values of a source; of a text that was looked up lately they are known."""
    return _source(text).profile


def word_count(texts: Iterable[str]) -> int:
    """How many words some sources have together; for a text that was looked up lately it is known."""
    return sum(_source(text).count for text in texts)


def lexical_features(case: Case, units: Sequence[Span]) -> NDArray[np.float32]:
    """`FEATURES` of each unit of the response, (units, features); all 0 without sources.

    Args:
        case: The case.
        units: Words of the response, in order.
    """
    table = np.zeros((len(units), len(FEATURES)), dtype=np.float32)
    sources = [_source(source.text) for source in case.sources]
    if not any(source.text for source in case.sources):
        return table
    response = Profile(case.response, WORDS["values"])
    support = word_support(response, units, [source.profile for source in sources])
    content, found, value = np.array(support, dtype=bool).reshape(-1, 3).T
    missing = content & ~found
    names = np.array([is_name(case.response, unit) for unit in units], dtype=bool)
    sequence = [unit.of(case.response).lower() for unit in units]
    known = np.array([any(form in source.numbers for source in sources) for form in sequence], dtype=bool)
    columns = [content, found, missing, known, value, value & missing, names, names & missing]
    table[:, :8] = np.column_stack(columns)
    run = known.astype(np.int64)
    for size, places in enumerate(_shared_runs(sequence, sources), 2):
        for i in places:
            run[i : i + size] = size
        if size == 2:
            table[places + 1, 8] = table[places, 9] = 1.0
    table[:, 10] = run / _LONGEST_RUN
    table[:, 11] = missing.sum() / max(content.sum(), 1)
    return table


def _shared_runs(sequence: Sequence[str], sources: Sequence[_SourceWords]) -> list[NDArray[np.int64]]:
    """Where runs of 2, of 3, … words begin in `sequence` that a source has, too."""
    found = [np.zeros(max(0, len(sequence) - size), dtype=bool) for size in range(1, _LONGEST_RUN)]
    for source in sources:
        strange = len(source.numbers)  # a word that it does not have
        hashes = _hashes([source.numbers.get(form, strange) for form in sequence])
        for shared, own, theirs in zip(found, hashes, source.runs, strict=True):
            if len(theirs):
                shared |= theirs[np.minimum(np.searchsorted(theirs, own), len(theirs) - 1)] == own
    return [np.flatnonzero(shared) for shared in found]
