"""What of a case is outside of what a detector was trained on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from veridical.datasets import read
from veridical.detectors.scope import form_of, limits_of
from veridical.records.types import Case, Source

ENGLISH = "The tower was built in 1889 and it is 330 m tall."
GERMAN = "Der Turm wurde im Jahr 1889 gebaut und ist 330 m hoch."
TABLE = "name: Oslo; people: 709,037\nname: Bergen; people: 285,601\nname: Trondheim; people: 210,496"
CODE = "def area(width, height):\n    size = width * height\n    return size\n\nprint(area(2, 3))"


def kinds(response: str, *sources: str, languages: Sequence[str] = ("en",)) -> list[str]:
    case = Case("1", response, tuple(Source(str(i), text) for i, text in enumerate(sources)))
    return [limit.kind for limit in limits_of(case, languages)]


def test_an_ordinary_case_has_no_limits() -> None:
    assert kinds(ENGLISH, ENGLISH, "It stands in Paris, by the river.") == []


@pytest.mark.parametrize(
    ("response", "sources", "expected"),
    [
        (GERMAN, [GERMAN], ["language"]),
        (GERMAN, [], ["language"]),
        ("Paris.", [GERMAN], ["language", "one-word response"]),
        (ENGLISH, [ENGLISH, GERMAN], ["languages differ"]),
        (CODE, [ENGLISH], ["code"]),
        (ENGLISH, [CODE], ["code"]),
        (ENGLISH, [TABLE], ["table"]),
        (ENGLISH, [ENGLISH, ENGLISH, TABLE], []),  # most sources are sentences
        (ENGLISH.upper(), [ENGLISH], ["capitals"]),
        ("1889", [ENGLISH], ["one-word response"]),
        (ENGLISH, ["Paris"], ["one-word sources"]),
        (ENGLISH, [" "], ["empty source"]),
        (ENGLISH, [ENGLISH, ""], ["empty source"]),
    ],
)
def test_what_is_unusual_is_named(response: str, sources: list[str], expected: list[str]) -> None:
    assert kinds(response, *sources) == expected


def test_notes_say_which_text_and_what_it_means() -> None:
    (limit,) = limits_of(Case("1", GERMAN, (Source("a", GERMAN),)))
    assert limit.note == "the response looks German; this detector was trained on English, its scores mean less"
    (limit,) = limits_of(Case("1", ENGLISH, (Source("a", ENGLISH), Source("b", GERMAN))))
    assert limit.note.startswith("the response looks English and 1 of 2 sources German;")
    (limit,) = limits_of(Case("1", ENGLISH, (Source("a", TABLE), Source("b", TABLE))))
    assert limit.note.startswith("2 of 2 sources look like a table;")


def test_an_empty_source_among_others_is_no_reason_for_doubt() -> None:
    some = limits_of(Case("1", ENGLISH, (Source("a", ENGLISH), Source("b", "…"))))
    every = limits_of(Case("1", ENGLISH, (Source("a", ""), Source("b", "…"))))
    assert [limit.lowers_confidence for limit in (*some, *every)] == [False, True]


def test_the_languages_of_the_detector_count() -> None:
    assert kinds(GERMAN, GERMAN, languages=["de"]) == []
    assert kinds(ENGLISH, ENGLISH, languages=["de"]) == ["language"]
    assert kinds(GERMAN, ENGLISH, languages=["de"]) == ["languages differ"]
    assert kinds(GERMAN, ENGLISH, languages=["en", "de"]) == []
    (limit,) = limits_of(Case("1", GERMAN, (Source("a", GERMAN),)), ["en", "fr"])
    assert (
        limit.note == "the response looks German; this detector was trained on 2 other languages, its scores mean less"
    )


@pytest.mark.parametrize(
    ("text", "form"),
    [
        (CODE, "code"),
        ("for (int i = 0; i < n; i++) {\n    total += prices[i];\n}", "code"),
        ("SELECT name, height\nFROM towers\nWHERE height > 300;", "code"),
        ("Call it so:\n```\nveridical check answer.txt\nveridical bench overlap\n```", "code"),
        ("| city | people |\n|---|---|\n| Oslo | 709,037 |", "table"),
        ("city,country,people\nOslo,Norway,709037\nRome,Italy,2748109", "table"),
        ("city      country     people\nOslo      Norway      709,037", "table"),
        ("1999 12 15 3\n2000 14 11 9\n2001 3 22 10", "table"),
        ("{'city': 'Oslo', 'people': 709037}", "table"),
        ("name[Cotto], eatType[coffee shop], area[riverside]", "table"),
        ("<table><tr><td>Oslo</td><td>709,037</td></tr></table>", "table"),
        ("Oslo\nCountry: Norway\nPeople: 709,037\nFounded: 1040", "table"),
        ("Anna: Are you coming?\nBerg: yes, later\nAnna: good\nBerg: see you", None),  # speakers
        ("He bought apples, pears, plums, and figs; he sold none.", None),
        ("If you want to come, write to us:\nwe reply within a day.", None),
        ("", None),
    ],
)
def test_forms(text: str, form: str | None) -> None:
    assert form_of(text) == form


@pytest.mark.parametrize(
    "text", ["a" * 100_000, "a, b: " * 20_000, "x[" * 50_000, "<" * 100_000, "\t \n" * 50_000, "(=" * 50_000]
)
def test_long_and_odd_texts_take_no_time(text: str) -> None:
    limits_of(Case("1", text, (Source("a", text),)))  # pytest's time limit is the assertion
    form_of(text)


def test_english_sets_are_left_alone_and_tables_found(shared_data: Path) -> None:
    """Of xsum_token's three articles in Welsh, and their summaries, this is the only set with another language."""
    for name in ("begin", "conv_fever", "summedits"):
        cases = [example.case for example in read(f"{name}:{shared_data / name}")]
        found = Counter(limit.kind for case in cases for limit in limits_of(case))
        assert found["language"] + found["languages differ"] + found["code"] + found["table"] < 0.005 * len(cases), name
    cases = [example.case for example in read(f"e2e:{shared_data / 'e2e'}")][:500]
    assert all("table" in [limit.kind for limit in limits_of(case)] for case in cases)
