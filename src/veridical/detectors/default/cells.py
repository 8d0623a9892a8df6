"""Compare the values of a response with the cells of tables and JSON that its sentences name by row and key.

"There are 31 blue helmets in Oslo." names the row of blue helmets and the column Oslo of a table; where that cell has
9, 31 is misread. A row is named by the texts in it, and a cell by its key: the head of its column, or its key in JSON.
Only clear cases count: one row is named better than all others, and none of the cells named in it has the value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from veridical.core.json_records import json_records
from veridical.core.quantities import fold, implies, is_value, keyed, keys
from veridical.core.segment import word_forms
from veridical.core.types import Case
from veridical.detectors.explanation.counterpart import in_name
from veridical.detectors.explanation.sentences import Mention, Sentence, index_of, word_pattern

__all__ = ["misread_cells"]

_LONGEST = 100_000  # characters of a source; JSON of services is smaller
_MOST = 2000  # rows that are compared with a sentence
_LONGEST_VALUE = 16  # characters of a cell that is an amount, with its unit
_AMOUNT = re.compile("[nq]:")
_DERIVED = re.compile(
    r"\b(?:more|less|fewer|than|total|altogether|together|sum|combined|average|mean|difference|increase\w*|"
    r"decrease\w*|rose|fell|both|each|per|about|around|over|under|least|most)\b",
    re.IGNORECASE,
)
_DIVIDERS = ("\t", "|", ";", ",")


@dataclass(frozen=True, slots=True)
class _Cell:
    """A cell: the stems of its key, and those of its text or what its one amount supports in another text.

    `others` is what dates, codes and the values in a text support: they are not compared, but a sentence may mean them.
    """

    key: frozenset[str]
    words: frozenset[str] = frozenset()
    values: frozenset[str] = frozenset()
    others: frozenset[str] = frozenset()


_Row = tuple[_Cell, ...]


def misread_cells(case: Case) -> Iterator[Mention]:
    """Yield the values of the response that are in another cell of a source than the one that the sentence names.

    >>> from veridical.core.types import Source
    >>> table = "item | Oslo | Bergen\\nhelmet | 9 | 31\\nglove | 75 | 60"
    >>> text = "There are 31 helmets in Oslo."
    >>> [mention.span.of(text) for mention in misread_cells(Case("1", text, (Source("s", table),)))]
    ['31']
    """
    tables = [rows for source in case.sources if (rows := _rows(source.text))]
    for sentence in index_of((case.response,)).sentences if tables else ():
        numbers = [mention for mention in sentence.mentions if _AMOUNT.match(mention.keys[0])]
        if not numbers or _DERIVED.search(sentence.span.of(sentence.text)):
            continue
        for rows in tables:
            row, cells = _named(rows, sentence)
            stated = frozenset[str]().union(*(cell.values for cell in cells), *(cell.others for cell in row))
            if not cells or any(not stated.isdisjoint(number.keys) for number in numbers):
                continue  # of several values, one may belong to a cell that is not named
            everywhere = frozenset[str]().union(*(cell.values for row in rows for cell in row))
            for number in numbers:
                if not everywhere.isdisjoint(number.keys) and not in_name(sentence, number):
                    yield number


def _named(rows: tuple[_Row, ...], sentence: Sentence) -> tuple[_Row, list[_Cell]]:
    """Return the one row that a sentence names best, and the cells with values in it that it names by their keys."""
    stems = sentence.positions.keys()
    named = [sum(bool(cell.words) and cell.words <= stems for cell in row) for row in rows]
    best = max(named)
    if named.count(best) > 1 or (best == 0 and len(rows) > 1):
        return (), []
    row = rows[named.index(best)]
    return row, [cell for cell in row if cell.values and cell.key and cell.key <= stems]


@lru_cache(maxsize=64)
def _rows(text: str) -> tuple[_Row, ...]:
    """Return the rows of the tables and the objects of the JSON in a text; an object has the texts around it, too."""
    if len(text) > _LONGEST:
        return ()
    found: list[_Row] = []
    for start in json_records(text):
        try:
            value, _ = json.JSONDecoder().raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        found += _objects(value, "", ())
    return tuple((found or list(_table(text)))[:_MOST])


def _objects(value: Any, name: str, around: tuple[_Cell, ...]) -> Iterator[_Row]:
    if isinstance(value, list):
        for item in value:
            yield from _objects(item, name, around)
    elif isinstance(value, dict):
        own = tuple(
            _cell(key, str(inner), name)
            for key, inner in value.items()
            if isinstance(inner, str | int | float) and not isinstance(inner, bool)
        )
        if any(cell.values for cell in own):
            yield (*around, *own)
        texts = (*around, *(cell for cell in own if cell.words))
        for key, inner in value.items():
            yield from _objects(inner, key, texts)


def _table(text: str) -> Iterator[_Row]:
    """Yield the rows of a table whose first line has the names of the columns."""
    lines = [line.strip().strip("|") for line in text.splitlines()]
    lines = [line for line in lines if line and not re.fullmatch(r"[\s|:+-]+", line)]
    for divider in _DIVIDERS:
        table = [[cell.strip() for cell in line.split(divider)] for line in lines]
        heads = next((i for i, row in enumerate(table) if len(row) > 2), None)
        if heads is None:
            continue
        names = table[heads]
        rows = [row for row in table[heads + 1 :] if len(row) == len(names)]
        if len(rows) > 1 and all(names) and len(set(names)) == len(names) and not any(map(_has_digit, names)):
            for row in rows:
                yield tuple(_cell(name, cell) for name, cell in zip(names, row, strict=True))
            return


def _has_digit(text: str) -> bool:
    return any(char.isdigit() for char in text)


def _cell(name: str, text: str, around: str = "") -> _Cell:
    """Return the cell of a key and a text; a key that is only a unit is named by the key `around` it."""
    *first, last = re.sub(r"[_\-]|(?<=[a-z])(?=[A-Z])", " ", name).split() or [""]
    if not _has_digit(text):
        return _Cell(_stems([*first, last]), words=_stems(word_forms(text)))
    folded = fold(f'"{last}": {text}')
    forms = word_pattern(folded).findall(folded)
    if any(keyed(form)[1] for form in forms):
        key = _stems(first or word_forms(around))
    else:
        key = _stems([*first, last])
    values = [form for form in forms if is_value(form)]
    implied = frozenset(key for value in values for key in implies(value))
    is_amount = len(values) == 1 and len(text) <= _LONGEST_VALUE and _AMOUNT.match(keys(values[0])[0]) is not None
    return _Cell(key, values=implied) if is_amount else _Cell(key, others=implied)


def _stems(words: Sequence[str]) -> frozenset[str]:
    return frozenset(key for word in words for key in keys(fold(word)))
