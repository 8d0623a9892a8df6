"""Splits by document, and the fingerprint of a set."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veridical.datasets.split import FRACTIONS, content_hash, split_by_document
from veridical.records.errors import InputError
from veridical.records.types import Case, Example, Judgement


def example(name: str, document: str | None, response: str = "a") -> Example:
    return Example(Case(name, response), Judgement(name, "human:a", 0.0), document)


MANY = [example(f"{d}/{i}", f"d{d}") for d in range(600) for i in range(3)]


@given(st.lists(st.one_of(st.none(), st.sampled_from("abcdef")), max_size=30), st.integers())
def test_a_document_lies_in_one_split_and_nothing_is_lost(documents: list[str | None], seed: int) -> None:
    examples = [example(str(i), d) for i, d in enumerate(documents)]
    parts = split_by_document(examples, seed=seed)
    assert list(parts) == list(FRACTIONS)
    homes = [{e.document for e in part if e.document} for part in parts.values()]
    assert sum(len(h) for h in homes) == len(set().union(*homes))
    assert sorted(e.case.id for part in parts.values() for e in part) == sorted(e.case.id for e in examples)
    assert all([int(e.case.id) for e in part] == sorted(int(e.case.id) for e in part) for part in parts.values())


def test_shares_are_about_right_and_hang_on_the_seed() -> None:
    parts = split_by_document(MANY, seed=1)
    for name, share in FRACTIONS.items():
        assert abs(len(parts[name]) / len(MANY) - share) < 0.06  # four standard deviations of 600 documents
    assert parts != split_by_document(MANY, seed=2)


def test_a_document_stays_where_it_is() -> None:
    shuffled = random.Random(0).sample(MANY, 500)
    home = {e.document: name for name, part in split_by_document(MANY, seed=3).items() for e in part}
    for name, part in split_by_document(shuffled, seed=3).items():
        assert all(home[e.document] == name for e in part)
    # pinned: a change of the rule would move everybody's documents
    assert [home[f"d{i}"] for i in range(8)] == PINNED


PINNED = ["train", "test", "train", "train", "test", "train", "train", "train"]


def test_a_document_and_a_case_of_one_name_are_two() -> None:
    parts = [
        split_by_document([example("x", None), example("y", "x")], {"a": 0.5, "b": 0.5}, seed=s) for s in range(20)
    ]
    assert any(len(p["a"]) == 1 for p in parts)


def test_an_empty_share_gets_nothing() -> None:
    parts = split_by_document(MANY, {"a": 0.0, "b": 1.0, "c": 0.0})
    assert [len(p) for p in parts.values()] == [0, len(MANY), 0]


@pytest.mark.parametrize("fractions", [{}, {"a": 0.5}, {"a": 1.5, "b": -0.5}, {"a": float("nan")}])
def test_fractions_must_sum_to_one(fractions: dict[str, float]) -> None:
    with pytest.raises(InputError, match="sum to 1"):
        split_by_document([], fractions)


def test_the_hash_is_of_the_content_not_of_the_order() -> None:
    some = MANY[:50]
    assert content_hash(some) == content_hash(iter(some[::-1]))
    assert len(content_hash([])) == 64
    others = [some[1:], [*some, some[0]], [*some[1:], example("0/0", "d0", "b")], [*some[1:], example("0/0", "d1")]]
    assert len({content_hash(other) for other in [some, *others]}) == 5
