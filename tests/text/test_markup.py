"""Markup is no content, and what is left of a text stays where it was."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veridical.detectors import load_detector
from veridical.records.decide import Outcome, outcome
from veridical.records.types import Case, Source
from veridical.text.framing import without_framing
from veridical.text.markup import list_numbers, without_markup
from veridical.text.segment import words


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Run it:\n```python\nprint(3)\n```\nDone.", "Run it print 3 Done"),
        ("~~~ bash\nls\n~~~", "ls"),
        ('It is <b>red</b>, <a href="https://a.org/new">old</a>.<br/>Big &amp; wide&nbsp;&#8212; Caf&eacute;.', None),
        ("<!-- a note --> It is red.", "It is red"),
        ("Rain < 5 mm and wind > 3 m/s, a<b.", "Rain 5 mm and wind 3 m s a b"),
        (r"So \(\frac{1}{2} \times \text{mass}\) and \begin{align}x\end{align}.", "So 1 2 mass and x"),
        (r"It is in C:\Users\ann.", "It is in C Users ann"),
        ("See [the page](https://a.org/red_old?x=3 'Title here') or ![map](img/map.png).", "See the page or map"),
        ("See <https://a.org/new>, www.a.org/old and https://b.org/x_(y).", "See and"),
        ("See [the page][1].\n\n[1]: https://a.org/new", "See the page 1"),
        ("[Ann](a friend) came.", "Ann a friend came"),
        ("It is red.[^1]\n\n[^1]: Ling 2009, page 4", "It is red 1"),
        ("It is red.\n\n## Sources\n- Ling 2009\n- https://a.org/new", "It is red"),
        ("It is red.\n\n**References:**\n1. Ling, K. (2009). Red.\n2. report.pdf", "It is red"),
        ("Eat well.\n\nSources:\n- spinach\n- lentils", "Eat well Sources spinach lentils"),
        ("They strike: 1. low pay 2. long hours", "They strike low pay long hours"),
        (
            "They strike over (1) low pay, (2) long hours and (3) noise.",
            "They strike over low pay long hours and noise",
        ),
        ("It grew by 1. That is 2. Then", "It grew by 1 That is 2 Then"),
        ("Version 1. It has 5. Sheep.", "Version 1 It has 5 Sheep"),
    ],
)
def test_what_is_left(text: str, wanted: str | None) -> None:
    plain = without_markup(text)
    left = [span.of(plain) for span in words(plain)]
    assert left == (wanted or "It is red old Big wide Caf eacute").split()


@given(
    st.lists(st.sampled_from([*"ab1 \n[]()<>&;\\{}`:/#.-*^", "1. ", "2. ", "<b>", "https://", "[^1]: ", "## Sources"]))
)
def test_words_stay_where_they_are(pieces: list[str]) -> None:
    text = "".join(pieces)
    plain = without_markup(text)
    assert len(plain) == len(text)
    assert all(a in (b, " ") for a, b in zip(plain, text, strict=True))
    assert [i for i, c in enumerate(plain) if c == "\n"] == [i for i, c in enumerate(text) if c == "\n"]


def test_the_numbers_of_lists() -> None:
    text = "1. Red\n2) Old\n(3) Big: 1. a 2. b, 5. c\n1889 was wet. 1. x"
    assert [span.of(text) for span in list_numbers(text)] == ["1.", "2)", "(3)", "1.", "2."]


ANSWERS = [
    "It is red.[^1]\n\n[^1]: Ling 2009, page 4",
    "## The colour\n\nIt is red.",
    "**Colour:**\n\n- It is <b>red</b>.\n\n## Sources\n- [Ling](https://a.org/new) 2009",
    "It is red. I don't know.",
]


@pytest.mark.parametrize("text", ANSWERS)
@pytest.mark.parametrize("spec", ["verify", "verify:overlap", "verify:citations=all", "default"])
def test_an_answer_with_markup_is_judged_whole(text: str, spec: str) -> None:
    case = Case("1", text, (Source("a", "It is red.", citation="Ling 2009"),))
    (judgement,) = load_detector(spec).judge([case])
    assert judgement.judged is None
    assert outcome(case, judgement) is not Outcome.UNJUDGED
    assert all("red" in verdict.span.of(text) for verdict in judgement.verdicts if verdict.claim and not verdict.label)


def test_both_lists_of_what_is_no_content_agree() -> None:
    text = "See [it](https://a.org/b). 1. low pay 2. long hours"
    assert [s.of(text) for s in words(without_framing(text, ()))] == ["See", "it", "low", "pay", "long", "hours"]
