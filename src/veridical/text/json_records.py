"""Split JSON inside a text into records that can be compared one by one, like sentences.

A record is an object, or a run of neighbouring members of a larger object that contain no objects themselves. Splitting
takes linear time for any text.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

from veridical.records.spans import Span

WHOLE = 300
"""JSON of up to this many characters is one record, whatever it contains."""

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s"{}\[\],:]+')
_OPENS = re.compile(r"[ \t]*[\[{]")


@dataclass(slots=True)
class _Container:
    """An open object or array: where it begins (with its key), and the records or plain members in it so far."""

    start: int
    members: list[tuple[bool, list[Span]]] = field(default_factory=list)  # whether it is plain, and its spans
    key: int | None = None  # the start of the key or value that was read last
    end: int = 0
    is_object: bool = True


def json_records(text: str) -> dict[int, list[Span]]:
    r"""Map the position at which each JSON value in `text` begins to the spans of its records.

    A record is an object, or some neighbouring members of a larger object. JSON is recognised on a line of its own, as
    in log files, if it contains an object. Of JSON that spans several lines, only the first in the text is parsed.

    >>> text = 'Found:\n[{"id": 1}, {"id": 2}]'
    >>> json_records(text) == {7: [Span(7, len(text))]}
    True
    """
    pieces: dict[int, list[Span]] = {}
    position = done = 0
    tried = False
    for line in text.splitlines(keepends=True) if "{" in text else ():
        if position >= done and _OPENS.match(line):
            start = position + len(line) - len(line.lstrip())
            end = start + len(line.strip())
            if text[end - 1] not in "}]" or not _is_json(text[start:end]):
                end = 0
                if not tried:  # once: a text of many lines that open something takes linear time
                    tried = True
                    end = _json_end(text, start)
            if "{" in text[start:end]:
                pieces[start] = records_of(text, Span(start, end))
                done = end
        position += len(line)
    return pieces


def records_of(text: str, span: Span, whole: int = WHOLE) -> list[Span]:
    """Split the JSON at `span` of `text` into records, in order.

    A record is an object, or a run of neighbouring members that contain no objects. JSON of at most `whole` characters
    is a single record.

    >>> text = '{"shop": "A", "orders": [{"id": 1, "of": ["x"]}, {"id": 2}], "open": true}'
    >>> [record.of(text) for record in records_of(text, Span(0, len(text)), whole=20)]
    ['"shop": "A"', '{"id": 1, "of": ["x"]}', '{"id": 2}', '"open": true']
    """
    stack = [_Container(span.start)]
    for match in _TOKEN.finditer(text, span.start, span.end):
        token, top = match[0], stack[-1]
        if token in "{[":
            start = match.start() if top.key is None else top.key
            stack.append(_Container(start, is_object=token == "{"))
        elif token in "}]":
            if len(stack) == 1:
                break
            closed = stack.pop()
            _finish(closed)
            parent = stack[-1]
            spans = _spans(closed, match.end(), whole)
            plain = not closed.is_object and all(is_plain for is_plain, _ in closed.members) and len(spans) == 1
            parent.members.append((plain and len(stack) > 1, spans))
            parent.key = None
        elif token == ",":
            _finish(top)
        elif token != ":":
            top.key = match.start() if top.key is None else top.key
            top.end = match.end()
    return [record for _, spans in stack[0].members for record in spans] or [span]


def _finish(container: _Container) -> None:
    """End the plain member that is being read, if there is one."""
    if container.key is not None:
        container.members.append((True, [Span(container.key, container.end)]))
        container.key = None


def _spans(closed: _Container, end: int, whole: int) -> list[Span]:
    """Split a closed container into records.

    A container that is small or has only plain members is one record. Otherwise, the records inside it are returned,
    together with the runs of plain members between them.
    """
    if end - closed.start <= whole or all(plain for plain, _ in closed.members):
        return [Span(closed.start, end)]
    records: list[Span] = []
    run = False
    for plain, spans in closed.members:
        if plain and run:
            records[-1] = Span(records[-1].start, spans[-1].end)
        else:
            records += spans
        run = plain
    return records


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _json_end(text: str, start: int) -> int:
    """Return where the JSON that begins at `start` ends, or 0 if no JSON begins there."""
    try:
        return json.JSONDecoder().raw_decode(text, start)[1]
    except (ValueError, RecursionError):
        return 0
