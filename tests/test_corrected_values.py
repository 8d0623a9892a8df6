"""Corrections of values: the corrected sentence says what the source says, and nothing of the old value is left."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from veridical.detectors import load_detector
from veridical.detectors.explanation import explained
from veridical.detectors.overlap.detector import Overlap
from veridical.records.spans import Span
from veridical.records.types import Case, Edit, Judgement, Source, Thresholds
from veridical.text.quantities import PATTERN, fold, implies, keys
from veridical.workflows.revise import Delete, revise
from veridical.workflows.revise.acceptance import Candidate, accept

ONES = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen".split()  # noqa: SIM905
TENS = {20: "twenty", 30: "thirty", 40: "forty", 50: "fifty", 60: "sixty", 70: "seventy", 80: "eighty", 90: "ninety"}
FORMS: list[list[Callable[[int, int], str]]] = [  # each list has forms of the same value
    [lambda a, b: f"€{a}.{b}", lambda a, b: f"{a} euros and {b} cents", lambda a, b: f"EUR {a}.{b}"],
    [lambda a, b: f"${a}.{b}", lambda a, b: f"{a} dollars and {b} cents", lambda a, b: f"{a} dollars, {b} cents"],
    [lambda a, b: f"£{a}.{b}", lambda a, b: f"{a} pounds and {b} pence"],
    [lambda a, b: f"{a * 100:,} owls", lambda a, b: f"{worded(a)} hundred owls" if a % 10 else f"{a * 100} owls"],
    [lambda a, b: f"{a} hours and {b % 60} minutes", lambda a, b: f"{a} h {b % 60} min"],
    [lambda a, b: f"{a}.{b % 10} million owls", lambda a, b: f"{a},{b % 10}00,000 owls"],
    [lambda a, b: f"{worded(b)} owls", lambda a, b: f"{b} owls"],
    [lambda a, b: f"{b}%", lambda a, b: f"{b} percent", lambda a, b: f"{worded(b)} per cent"],
    [lambda a, b: f"{a % 28 + 1} May 19{b}", lambda a, b: f"May {a % 28 + 1}, 19{b}"],
    [lambda a, b: f"-{b} °C", lambda a, b: f"minus {b} degrees Celsius"],
    [lambda a, b: f"{a} km", lambda a, b: f"{a},000 m"],
]
SENTENCES = ["The total was {} in the year.", "In all, {} were counted there.", "The report gives {} for the north."]


def worded(n: int) -> str:
    if n < len(ONES):
        return ONES[n]
    return f"{n - 10 and ONES[n - 10]}teen" if n < 20 else TENS[n // 10 * 10] + (f"-{ONES[n % 10]}" if n % 10 else "")


class Explained:
    """`overlap:values` with explanations, which have the corrections."""

    name, info = "explained", Overlap.info

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        judgements = load_detector("overlap:values").judge(cases)
        return [explained(case, each) for case, each in zip(cases, judgements, strict=True)]


def test_a_thousand_corrections_say_what_the_source_says() -> None:
    drawn = random.Random(7)
    cases = []
    for i in range(1000):
        forms, sentence = drawn.choice(FORMS), drawn.choice(SENTENCES)
        right, wrong = (drawn.choice(forms)(drawn.randint(2, 9), drawn.randint(20, 99)) for _ in range(2))
        cases.append(Case(str(i), sentence.format(wrong), (Source("s", sentence.format(right)),)))
    changed = 0
    for case, revised in zip(cases, revise(cases, Explained(), Delete()), strict=True):
        source, text = fold(case.sources[0].text), fold(revised.revision.text)
        if not revised.changed:
            continue
        changed += 1
        theirs = [match[0] for match in re.finditer(PATTERN, source)]
        ours = [match[0] for match in re.finditer(PATTERN, text)]
        assert len(ours) == len(theirs), revised.revision.text
        for one, other in zip(ours, theirs, strict=True):
            assert set(keys(one)) & set(implies(other)), revised.revision.text
    assert changed > 900


@pytest.mark.parametrize(
    ("response", "old", "new"),
    [
        ("It costs 5 euros and 60 cents.", "5", "5.50"),
        ("It costs 5 euros and 60 cents.", "60 cents", "€5.50"),
        ("It has sixteen hundred rooms.", "sixteen", "1,500"),
    ],
)
def test_an_edit_that_leaves_words_of_the_old_value_is_not_kept(response: str, old: str, new: str) -> None:
    case = Case("1", response, (Source("s", "It costs €5.50. It has 1,500 rooms."),))
    start = response.index(old)
    edits = (Edit(Span(start, start + len(old)), new, "the source has it"),)
    after = replace(case, response=response.replace(old, new, 1))
    before, now = Judgement("1", "x", 0.9), Judgement("1", "x", 0.1)
    (result,) = accept([Candidate(case, before, edits, after, now)], Overlap(), Thresholds())
    assert result.problem is not None
    assert "with words of the old value" in result.problem
