"""Places in JSON texts: every span of a string is found as it is written there, escapes and all."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veridical.io.json_positions import JsonString, find_value
from veridical.records.spans import Span

TEXTS = st.text(st.sampled_from('a"\\/\n\t\r\x00é\u2028😀{}[],:') | st.characters(exclude_categories=("Cs",)))


@settings(max_examples=50)
@given(text=TEXTS, other=TEXTS, ascii_only=st.booleans(), indent=st.sampled_from([None, 2]), edges=st.data())
def test_a_span_is_found_as_it_is_written(
    text: str, other: str, ascii_only: bool, indent: int | None, edges: st.DataObject
) -> None:
    document = {"id": other, "sources": [other, {"id": "b", "text": text}], "response": text}
    written = " " + json.dumps(document, ensure_ascii=ascii_only, indent=indent)
    start = edges.draw(st.integers(0, len(text)))
    end = edges.draw(st.integers(start, len(text)))
    for keys in (("response",), ("sources", 1, "text")):
        at = find_value(written, keys)
        assert at is not None
        string = JsonString.read(written, at)
        assert string.value == text
        assert json.loads(f'"{string.place(Span(start, end)).of(written)}"') == text[start:end]


@pytest.mark.parametrize(
    ("written", "keys"),
    [('{"a": 1}', ("b",)), ('{"a": []}', ("a", 0)), ("[1, 2]", (2,)), ("17", ("a",)), ('{"a": 1}', ("a", "b"))],
)
def test_what_is_not_there(written: str, keys: tuple[str | int, ...]) -> None:
    assert find_value(written, keys) is None


@pytest.mark.parametrize("written", ["", "{", '{"a', '{"a": ', "[1, 2", '{"b": nothing}'])
def test_what_is_not_json(written: str) -> None:
    with pytest.raises((ValueError, IndexError)):
        JsonString.read(written, find_value(written, ("a",)) or 0)


def test_what_is_not_a_string() -> None:
    with pytest.raises(ValueError, match="no JSON string"):
        JsonString.read("[1]", 0)
