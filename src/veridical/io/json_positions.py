"""Find the position of a value in a JSON text, and map spans of a string value to spans of the JSON text.

Check first that the text is valid JSON. For other texts, most of these functions raise `ValueError` or `IndexError`.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from json import JSONDecoder

from veridical.records.spans import Span

_DECODER = JSONDecoder()
_SPACE = re.compile(r"[ \t\n\r]*")
_STRING_OR_KEY = re.compile(r'"(?:[^"\\]|\\.)*+"([ \t\n\r]*:)?')
# one escaped character of a string; a character beyond U+FFFF is escaped as a surrogate pair
_ESCAPE = re.compile(r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)")


def members(text: str, at: int = 0) -> Iterator[tuple[str | int, int]]:
    """Yield each key or index of the object or array at position `at`, together with the position of its value.

    >>> list(members('{"a": [1], "b": 2}')), list(members("[ 5,6]"))
    ([('a', 6), ('b', 16)], [(0, 2), (1, 4)])
    """
    is_object = text[at] == "{"
    at = after_space(text, at + 1)
    index = 0
    while text[at] not in "]}":
        key: str | int = index
        if is_object:
            key, at = _DECODER.raw_decode(text, at)
            at = after_space(text, after_space(text, at) + 1)
        yield key, at
        at = after_space(text, _DECODER.raw_decode(text, at)[1])
        if text[at] == ",":
            at = after_space(text, at + 1)
        index += 1


def find_value(text: str, keys: tuple[str | int, ...], at: int = 0) -> int | None:
    """Return the position in a JSON text of the value at the path `keys`, or None if there is no such value.

    A path is a sequence of object keys and array indices. It begins at the value at or after `at`. If it meets a string
    before its last key, the position of this string is returned, because a case may have a bare string where an object
    or a list is usual.

    >>> find_value('{"sources": ["a", {"text": "b"}]}', ("sources", 1, "text")), find_value('["a"]', (0, "text"))
    (27, 1)
    """
    at = after_space(text, at)
    for key in keys:
        if text[at] == '"':
            break
        inner = next((place for name, place in members(text, at) if name == key), None) if text[at] in "[{" else None
        if inner is None:
            return None
        at = inner
    return at


def find_string(text: str, value: str, at: int = 0) -> int | None:
    """Return the position of the only string that equals `value` inside the JSON value at or after `at`.

    The position is that of its opening quote. Return None if there is no such string, or more than one. Keys are not
    searched.

    >>> find_string('{"b": ["a", {"c": "b"}]}', "b"), find_string('["a", "a"]', "a")
    (18, None)
    """
    at = after_space(text, at)
    strings = _STRING_OR_KEY.finditer(text, at, _DECODER.raw_decode(text, at)[1])
    positions = [s.start() for s in strings if not s[1] and _DECODER.raw_decode(text, s.start())[0] == value]
    return positions[0] if len(positions) == 1 else None


def path_of(text: str, span: Span) -> str | None:
    """Return the path of the innermost object or array in a JSON text that contains `span`, such as "orders[1]".

    Return None if the text is not JSON, or if only the outermost value contains the span.

    >>> text = '{"orders": [{"id": 1}, {"id": 2, "of": {"n": 3}}]}'
    >>> path_of(text, Span(text.index('{"id": 2'), text.index("]"))), path_of(text, Span(0, len(text)))
    ('orders[1]', None)
    """
    path, at, start = "", after_space(text, 0), span.start
    try:
        if text[start] == '"':  # a key: what counts is its value
            colon = after_space(text, _DECODER.raw_decode(text, start)[1])
            start = after_space(text, colon + 1) if text[colon] == ":" else start
        while text[at : at + 1] in ("{", "["):
            before = [(key, place) for key, place in members(text, at) if place <= start]
            if not before or text[before[-1][1]] not in "{[" or span.end > _DECODER.raw_decode(text, before[-1][1])[1]:
                break
            key, at = before[-1]
            path += f"[{key}]" if isinstance(key, int) else f".{key}" if path else key
    except (ValueError, IndexError, RecursionError):
        return None
    return path or None


@dataclass(frozen=True, slots=True)
class JsonString:
    """A string inside a JSON text, with which you can map spans of its decoded value to the JSON text (`place`).

    Attributes:
        value: The decoded value of the string.
        at: The position of its opening quote in the JSON text.
        escapes: The indices in `value` of the characters that are escaped in the JSON text, ascending.
        extra: For each escape, the number of additional characters that it and all escapes before it take.
    """

    value: str
    at: int
    escapes: tuple[int, ...]  # the indices in `value` of the escaped characters, ascending
    extra: tuple[int, ...]  # for each escape, the additional characters that it and all escapes before it take

    @classmethod
    def read(cls, text: str, at: int) -> JsonString:
        """Parse the string at position `at` of a JSON text.

        Raises:
            ValueError: There is no string at this position.
        """
        value, end = _DECODER.raw_decode(text, at)
        if not isinstance(value, str):
            raise ValueError(f"no JSON string at {at}")
        matches = [(match.start(), len(match[0]) - 1) for match in _ESCAPE.finditer(text, at + 1, end)]
        extra = tuple(accumulate(more for _, more in matches))
        before = (0, *extra)
        return cls(value, at, tuple(start - at - 1 - b for (start, _), b in zip(matches, before, strict=False)), extra)

    def place(self, span: Span) -> Span:
        r"""Convert a span of the decoded value to the span of the JSON text that encodes it.

        >>> text = r'"a\u00e9\"b"'
        >>> JsonString.read(text, 0).place(Span(1, 3)).of(text)
        '\\u00e9\\"'
        """
        return Span(self._index(span.start), self._index(span.end))

    def _index(self, position: int) -> int:
        before = bisect_left(self.escapes, position)
        return self.at + 1 + position + (self.extra[before - 1] if before else 0)


def after_space(text: str, position: int) -> int:
    """Return the position of the first character of a JSON text, at or after `position`, that is not white space."""
    match = _SPACE.match(text, position)
    return match.end() if match else position
