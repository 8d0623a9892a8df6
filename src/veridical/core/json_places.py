"""Where in a JSON text a value is, and which of its characters a span of a string there has.

For texts that were read as JSON before: what is not JSON raises `ValueError` or `IndexError`.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from json import JSONDecoder

from veridical.core.spans import Span

__all__ = ["JsonString", "find_value", "members"]

_DECODER = JSONDecoder()
_SPACE = re.compile(r"[ \t\n\r]*")
# one character of a string, written as more than one; those beyond U+FFFF as two halves
_ESCAPE = re.compile(r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)")


def members(text: str, at: int = 0) -> Iterator[tuple[str | int, int]]:
    """Each key, or index, of the object or array that begins at `at`, with where its value begins.

    >>> list(members('{"a": [1], "b": 2}')), list(members("[ 5,6]"))
    ([('a', 6), ('b', 16)], [(0, 2), (1, 4)])
    """
    is_object = text[at] == "{"
    at = _after_space(text, at + 1)
    index = 0
    while text[at] not in "]}":
        key: str | int = index
        if is_object:
            key, at = _DECODER.raw_decode(text, at)
            at = _after_space(text, _after_space(text, at) + 1)
        yield key, at
        at = _after_space(text, _DECODER.raw_decode(text, at)[1])
        if text[at] == ",":
            at = _after_space(text, at + 1)
        index += 1


def find_value(text: str, keys: tuple[str | int, ...], at: int = 0) -> int | None:
    """Where the value begins that `keys` lead to from the value at or after `at`; None where there is none.

    A string ends the search: it stands for what could be an object or a list of one.

    >>> find_value('{"sources": ["a", {"text": "b"}]}', ("sources", 1, "text")), find_value('["a"]', (0, "text"))
    (27, 1)
    """
    at = _after_space(text, at)
    for key in keys:
        if text[at] == '"':
            break
        found = next((place for name, place in members(text, at) if name == key), None) if text[at] in "[{" else None
        if found is None:
            return None
        at = found
    return at


@dataclass(frozen=True, slots=True)
class JsonString:
    """The string that begins at `at` in `text`: its `value`, and where each character of it is in `text`."""

    value: str
    at: int
    escapes: tuple[int, ...]  # which characters of the value are escaped
    extra: tuple[int, ...]  # how many characters of the text the escapes up to each take beyond one

    @classmethod
    def read(cls, text: str, at: int) -> JsonString:
        """The string at `at`; `ValueError` if something else is there."""
        value, end = _DECODER.raw_decode(text, at)
        if not isinstance(value, str):
            raise ValueError(f"no JSON string at {at}")
        found = [(match.start(), len(match[0]) - 1) for match in _ESCAPE.finditer(text, at + 1, end)]
        extra = tuple(accumulate(more for _, more in found))
        before = (0, *extra)
        return cls(value, at, tuple(start - at - 1 - b for (start, _), b in zip(found, before, strict=False)), extra)

    def place(self, span: Span) -> Span:
        """Where the characters of `span` (of the value) are in the text.

        >>> text = r'"a\\u00e9\\"b"'
        >>> JsonString.read(text, 0).place(Span(1, 3)).of(text)
        '\\\\u00e9\\\\"'
        """
        return Span(self._index(span.start), self._index(span.end))

    def _index(self, position: int) -> int:
        before = bisect_left(self.escapes, position)
        return self.at + 1 + position + (self.extra[before - 1] if before else 0)


def _after_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at
