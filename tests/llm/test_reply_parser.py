"""Replies are hostile: readers give what plainly stands there, or nothing."""

from __future__ import annotations

import json
import re
from math import exp, inf, log, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veridical.llm.protocol import Reply, TokenLogprob
from veridical.llm.reply_parser import (
    json_object,
    labelled,
    listed,
    numbered,
    quotes,
    strip_reasoning,
    yes_no,
    yes_no_mass,
)
from veridical.llm.scripted import yes_no_reply

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
PIECES = [
    *('{"a": "Yes"}', '{"a": ', "{", "}", '"', "```json\n", "\n", "1. ", "Yes", "No", " or ", "Supported: ", "“", "”"),
    *("<think>", "</think>", "\\", "\ud800", "NaN", "[" * 50, "- ", "**", "\u2028", "9" * 5000),
]
HOSTILE = st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=12).map("".join)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        ('```json\n{"a": 1}\n```', {"a": 1}),
        ('Sure! {"a": {"b": [1]}} Hope it helps {really}.', {"a": {"b": [1]}}),
        ('The set {1, 2}: {"a": 1}', {"a": 1}),
        ('{"a": 1} and again {"a": 1}', {"a": 1}),
        ('{"a": "two\nlines"}', {"a": "two\nlines"}),
        ('<think>{"a": 0}</think>{"a": 1}', {"a": 1}),
        ("{}", {}),
        ("", None),
        ("none", None),
        ('{"a": 1} {"a": 2}', None),
        ('{"a": {"supported": "Yes"}', None),
        ('{"quote": "he said "{"supported": 1}" }', None),
        ("{'a': {\"supported\": 1}}", None),
        ('{a: {"supported": 1}}', None),
        ('{"a": 1, "a": 2}', None),
        ('{"a": NaN}', None),
        ('{"a": "\\ud800"}', None),
        ('<think>{"a": 1}', None),
        ('{"a":' * 100_000, None),
        ('{"a": ' + "9" * 10_000 + "}", None),
        ("__import__('os')", None),
    ],
)
def test_json_object(text: str, value: object) -> None:
    assert json_object(text) == value


@given(st.dictionaries(st.text(), JSON, max_size=3), st.text(st.characters(exclude_characters="{<")))
def test_an_object_is_found_whatever_is_around_it(value: dict[str, object], around: str) -> None:
    try:
        written = json.dumps(value, ensure_ascii=False)
        written.encode()
    except UnicodeEncodeError:
        assert json_object(written) is None
        return
    assert json_object(f"{around}{written}{around}") == value


@given(st.dictionaries(st.text(min_size=1), JSON, min_size=1, max_size=3), st.data())
def test_a_broken_object_is_never_read_in_part(value: dict[str, object], data: st.DataObject) -> None:
    written = json.dumps(value)
    assert json_object(written[: data.draw(st.integers(0, len(written) - 1))]) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Yes", True),
        ("yes.", True),
        ("  **No**", False),
        ("Answer: Yes", True),
        ("Supported: no", False),
        ('"Yes"', True),
        ("Yes, the source says that there is no doubt.", True),
        ("No. The source does not say so.", False),
        ("No. Nothing says yes to it.", False),
        ("<think>Yes. No.</think>\nNo", False),
        ("Maybe", None),
        ("Yes or no", None),
        ("Yes/No", None),
        ("No. Yes.", None),
        ("No, wait, yes it does", None),
        ("Yes\nNo", None),
        ("Да", None),
        ("Yesterday", None),
        ("Nobody", None),
        ("No-one knows", None),
        ("No. 5 is right", None),
        ("I think yes", None),
        ("", None),
    ],
)
def test_yes_no(text: str, value: bool | None) -> None:
    assert yes_no(text) is value


def reply(*tokens: TokenLogprob | str) -> Reply:
    made = tuple(TokenLogprob(t, -0.1) if isinstance(t, str) else t for t in tokens)
    return Reply("".join(t.token for t in made) or "?", made)


def top(*pairs: tuple[str, float]) -> TokenLogprob:
    return TokenLogprob(*pairs[0], pairs)


@given(st.floats(0.001, 0.999), st.floats(0.001, 1.0))
def test_the_probabilities_are_those_that_were_meant(probability: float, mass: float) -> None:
    meant = (probability * mass, (1 - probability) * mass)
    assert yes_no_mass(yes_no_reply(probability, mass=mass)) == pytest.approx(meant)


def test_variants_add_up_and_the_chosen_token_counts_once() -> None:
    token = TokenLogprob(
        " yes", log(0.2), (("Yes", log(0.4)), (" yes", log(0.2)), ("NO", log(0.2)), ("Maybe", log(0.1)))
    )
    assert yes_no_mass(reply(token)) == pytest.approx((0.6, 0.2))
    sampled = TokenLogprob("No", log(0.1), (("Yes", log(0.3)),))
    assert yes_no_mass(reply(sampled)) == pytest.approx((0.3, 0.1))


def test_alternatives_with_the_same_text_add_up() -> None:
    token = top(("No", log(0.50)), ("Yes", log(0.45)), ("Yes", log(0.01)))  # "▁Yes" and "Yes", decoded one by one
    assert yes_no_mass(reply(token)) == pytest.approx((0.46, 0.5))
    other_yes = TokenLogprob("Yes", log(0.01), (("No", log(0.50)), ("Yes", log(0.45))))
    assert yes_no_mass(reply(other_yes)) == pytest.approx((0.46, 0.5))


@pytest.mark.parametrize("word", ["Yes", "No"])
def test_without_alternatives_the_chosen_token_is_as_likely_as_it_says(word: str) -> None:
    for alone in (TokenLogprob(word, log(0.6)), top((word, log(0.6)))):
        assert yes_no_mass(reply(alone)) == pytest.approx((0.6, 0.4) if word == "Yes" else (0.4, 0.6))


def test_white_space_before_the_answer_is_passed_over() -> None:
    answer = reply("\n", " **", "— ", "Ġ", top(("▁Yes", log(0.3)), ("ĠNo", log(0.1))))
    assert yes_no_mass(answer) == pytest.approx((0.3, 0.1))


@pytest.mark.parametrize(
    "answer",
    [
        Reply("Yes"),
        Reply("Yes", ()),
        reply("Maybe", top(("Yes", -0.1))),
        reply(top(("The", -0.1), ("A", -0.2))),
        reply("<think>", "Yes"),
        reply(top(("Yes", -inf), ("No", -inf))),
        reply(top(("Yes", nan))),
    ],
)
def test_no_probability_where_none_was_given(answer: Reply) -> None:
    assert sum(yes_no_mass(answer) or ()) == 0


def test_labelled() -> None:
    assert labelled("Why: x\n- **Supported**: Maybe ", "supported") == "Maybe"
    assert labelled("The source says Supported: Yes", "Supported") is None
    assert labelled("Supported: Yes\nSupported: No", "Supported") is None
    assert labelled("Supported: Yes\nSupported: Yes", "Supported") == "Yes"
    assert labelled("Supported:", "Supported") is None


def test_lists() -> None:
    assert listed("- a\n* b\n• c") == ["a", "b", "c"]
    assert listed("1. a\n\n2. b\n\nNot this.\nNor this.") == ["a", "b"]
    assert listed("No list.\n2019 was good.") == []
    assert numbered("Here:\n1) Yes\n3: No\n3: No\n4. a\n4. b") == {1: "Yes", 3: "No"}


def test_quotes() -> None:
    assert quotes('„a“ «b» "c" “d “e”') == ["a", "b", "c", "e"]
    assert quotes('He said "it is') == []
    assert quotes('"" " "') == []


def test_thoughts_are_not_the_answer() -> None:
    assert strip_reasoning("<think>Yes.</think>No") == "No"
    assert strip_reasoning("<think>Yes. I wonder") == ""


@given(HOSTILE)
def test_nothing_raises_and_nothing_is_invented(text: str) -> None:
    found = json_object(text)
    assert found is None or isinstance(found, dict)
    assert yes_no(text) in (True, False, None)
    for quote in quotes(text):
        assert quote in text
    flat = " ".join(text.split())
    for item in [*listed(text), *numbered(text).values(), labelled(text, "Supported") or ""]:
        assert " ".join(item.split()) in flat
    tokens = tuple(TokenLogprob(piece, -1.0) for piece in text.split())
    chosen, other = exp(-1.0), 1 - exp(-1.0)
    assert yes_no_mass(Reply(text, tokens)) in (None, (0, 0), (chosen, other), (other, chosen))


ANSWERS = st.lists(
    st.sampled_from([*"!/&|_,:\n .a1", "no", "No", "yes", "and", "or", "wait", "nob", "\xa0", "é"]), max_size=12
)


@given(ANSWERS.map("".join))
def test_an_answer_wavers_where_the_other_word_could_be_one(rest: str) -> None:
    answer = r"(?:[.,!?:;\n]\W*)(?:no)(?!\w)\s*(?:[^\w\s]|\Z)"  # plain, and quadratic
    joined = r"(?:\b(?:and|or|but|actually|wait)\b|/|\||&)\W*(?:no)(?!\w)"
    wavers = re.search(f"{answer}|{joined}", " " + rest, re.IGNORECASE)
    assert yes_no("Answer: Yes " + rest) is (None if wavers else True)


MANY = 300_000  # a quadratic reader would take hours


@pytest.mark.parametrize("sign", ["!", "/", "\n", " .", "! no a ", "and no a "])
def test_a_long_answer_is_read_in_linear_time(sign: str) -> None:
    assert yes_no("Yes " + sign * MANY) is (None if sign.startswith("and") else True)


def test_a_long_line_and_many_objects_are_read_in_linear_time() -> None:
    assert labelled("Supported: a" + " *" * MANY + "b", "Supported") == "a" + " *" * MANY + "b"
    assert labelled("Supported: Yes" + " *" * MANY, "Supported") == "Yes"
    assert labelled("Supported: **", "Supported") is None
    assert json_object("".join(f'{{"a": {i}}}' for i in range(MANY))) is None
    assert json_object('{"a": 1e999}') is None
