"""Records of JSON in any text, and their paths."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from veridical.io.json_positions import path_of
from veridical.records.spans import Span
from veridical.text.json_records import json_records, records_of

ORDERS = {"shop": "A", "orders": [{"id": f"A-{i}", "status": "pending", "tags": ["x"]} for i in range(9)], "open": True}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=30,
)


def records_in(text: str) -> list[str]:
    return [record.of(text) for records in json_records(text).values() for record in records]


def test_a_large_object_is_its_records() -> None:
    for indent in (None, 1):
        text = json.dumps(ORDERS, indent=indent)
        first, *orders, last = records_in(f"Found:\n{text}\nThat is all.")
        assert (first, last) == ('"shop": "A"', '"open": true')
        assert [json.loads(order)["id"] for order in orders] == [f"A-{i}" for i in range(9)]


def test_a_small_object_is_one_record_and_a_log_has_one_per_line() -> None:
    assert records_in('{"a": {"b": 1}}') == ['{"a": {"b": 1}}']
    assert records_in('{"a": 1}\n{"b": 2}\nplain {x}\n') == ['{"a": 1}', '{"b": 2}']


def test_other_texts_have_no_records() -> None:
    for text in ("[1] Smith 2020", "{not: json}", "It is {so}.", "[", "{" * 5000, "[1, 2]"):
        assert json_records(text) == {}


@given(VALUES, st.sampled_from([None, 2]), st.integers(0, 40))
def test_records_lie_in_order_and_leave_out_keys_only(value: Any, indent: int | None, whole: int) -> None:
    text = json.dumps({"v": value}, indent=indent)
    records = records_of(text, Span(0, len(text)), whole)
    assert all(one.end <= other.start for one, other in pairwise(records))
    assert all(0 <= record.start < record.end <= len(text) for record in records)
    outside = list(text)
    for record in records:
        outside[record.start : record.end] = [""] * len(record)
    assert not {"true", "null"} & set("".join(outside).split())


@given(VALUES, st.integers(0, 60), st.integers(0, 60))
def test_paths_never_fail(value: Any, start: int, length: int) -> None:
    text = json.dumps(value)
    path_of(text, Span(min(start, len(text)), min(start + length, len(text))))
    path_of(text[:-1], Span(0, 0))


def test_the_path_of_each_record() -> None:
    text = json.dumps(ORDERS)
    _, *orders, _ = records_of(text, Span(0, len(text)))
    assert [path_of(text, order) for order in orders] == [f"orders[{i}]" for i in range(9)]
