from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from tests.example_records import checked_at
from tests.report.conftest import HOSTILE, clear, hostile, silent, tower
from veridical.records.types import Case, Checked, Evidence, Judgement, Omission, Outcome, Source, Span, Verdict
from veridical.report.terminal import print_report


def shown(*checked: Checked, width: int = 100, **options: Any) -> str:
    file = io.StringIO()
    print_report(checked, Console(file=file, width=width, _environ={}, **options))
    return file.getvalue()


def coloured(*checked: Checked) -> str:
    return shown(*checked, force_terminal=True, color_system="truecolor")


def test_marks_scores_sources_and_legend_in_plain_text() -> None:
    text = shown(tower())
    assert "The tower is [-300-] m tall and was built in 1889. [-Many visit-] it" in text
    assert "[-The tower is 300 m tall-] and was built in 1889. Many visit it[? , they say. ?]" in text
    assert "source con  (perspective against)  0.75" in text
    assert "[!It costs too much.!] …" in text
    assert "It draws tourists" not in text  # covered: below the threshold
    for words in ("FLAGGED", "hallucination 0.40  omission 0.75", "omission not judged", "intrinsic", "330 m tall"):
        assert words in text
    assert "Note: One reply could not be read." in text
    assert "Marks: [-flagged: not backed by the sources-]" in text


@pytest.mark.parametrize("options", [{}, {"force_terminal": True, "no_color": True, "color_system": "truecolor"}])
def test_no_escape_codes_without_colour(options: dict[str, Any], cases: list[Checked]) -> None:
    text = shown(*cases, **options)
    assert "\x1b" not in text
    assert "[-300-]" in text
    assert all(line == line.rstrip() for line in text.split("\n"))


def test_colour_marks_are_underlined_too_and_need_no_brackets() -> None:
    text = coloured(tower())
    assert "\x1b[1;4;31m300\x1b[0m" in text
    assert "[-" not in text


@pytest.mark.parametrize("colour", [False, True])
def test_hostile_text_is_only_shown(colour: bool) -> None:
    text = coloured(hostile()) if colour else shown(hostile(), width=2000)
    for acting in ("\x1b[2J", "\x1b]0;", "\x07", "\u202e", "\x9b", "\ud800"):
        assert acting not in text
    assert "␛[2J" in text
    assert "⟨U+202E⟩" in text
    text.encode()
    if not colour:
        assert "[-[red]bold[-]/red] <script>" in text
        assert ":smile:" in text
        assert "{{ 7 * 7 }}" in text


def test_not_judged_never_looks_clear() -> None:
    text = shown(silent())
    assert "NOT FULLY JUDGED" in text
    assert "[? Nobody knows. ?]" in text
    assert "Not judged: 13 of 13 characters" in text
    assert "whether the sources that had to be covered" in text
    assert "clear" not in text.lower()
    quiet = checked_at(Case("q", "Yes."), (Judgement("q", "mute"),), (0.5,), Outcome.UNJUDGED)
    assert "gave no score" in shown(quiet)
    assert "not judged" in shown(checked_at(Case("q", "Yes."), (), (), Outcome.UNJUDGED)).lower()


@pytest.mark.parametrize(("heat", "text"), [(False, "It is [-red-]."), (True, "It is [red{9}].")])
def test_the_end_of_a_file_is_no_empty_line(heat: bool, text: str) -> None:
    judgement = Judgement("a", "x", verdicts=(Verdict(Span(6, 9), 0.9),))
    file = io.StringIO()
    checked = checked_at(Case("a", "It is red.\n\n"), (judgement,), (0.5,), Outcome.FLAGGED)
    print_report([checked], Console(file=file, width=100, _environ={}), heat=heat)
    lines = [line.strip() for line in file.getvalue().splitlines()]
    assert lines[lines.index(text) :][:3] == [text, "", "Flagged in the response"]


def test_the_end_of_a_file_is_no_empty_line_where_it_is_not_judged() -> None:
    case = Case("a", "It is red.\n")
    assert "[? It is red. ?]\n" in shown(checked_at(case, (Judgement("a", "x", judged=()),), (0.5,), Outcome.UNJUDGED))


def test_a_clear_case_is_short_and_has_no_legend() -> None:
    text = shown(clear())
    assert "CLEAR" in text
    assert "It is red." in text
    assert "Marks:" not in text


def test_long_texts_are_cut_to_what_is_marked() -> None:
    long = "This sentence fills the page. " * 20_000
    middle = len(long) // 2
    start = long.index("This", middle)
    source = Source("s", long, must_cover=True)
    judgement = Judgement(
        "long",
        "overlap",
        verdicts=(Verdict(Span(start, start + 4), 1.0),),
        omissions=(Omission("s", Span(start, start + 29), 1.0),),
        notes=tuple(str(i) for i in range(500)),
    )
    text = shown(checked_at(Case("long", long, (source,)), (judgement,), (0.5,), Outcome.FLAGGED))
    assert len(text) < 4000
    assert "… [-This-] sentence fills the page. …" in text
    assert "… [!This sentence fills the page.!] …" in text
    assert "and 480 more" in text
    everything = Judgement("long", "overlap", verdicts=(Verdict(Span(0, len(long)), 1.0),))
    assert len(shown(checked_at(Case("long", long), (everything,), (0.5,), Outcome.FLAGGED))) < 4000


def test_an_old_encoding_does_not_fail() -> None:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding="ascii", newline="")
    print_report([tower(), hostile()], Console(file=file, width=100, _environ={}))
    file.flush()
    assert b"[-300-]" in raw.getvalue()


def test_a_narrow_console_loses_no_word() -> None:
    words = "".join(shown(tower(), width=24).split())
    assert "Thetoweris[-300-]mtallandwasbuiltin1889.[-Manyvisit-]it,theysay." in words
    assert HOSTILE.split()[0] in shown(hostile(), width=24).replace("[-", "").replace("-]", "")


def test_the_reason_is_no_note_and_where_a_judgement_comes_from_is_shown() -> None:
    judgement = Judgement("x", "judge:cot", 0.0, reason="It says so.", provenance=(("prompt judge_cot", "0123abcd"),))
    text = shown(checked_at(Case("x", "Yes."), (judgement,), (0.5,), Outcome.CLEAR))
    assert "Reason: It says so." in text
    assert "prompt judge_cot 0123abcd" in text
    assert "Note" not in text


def test_adjacent_words_with_one_correction_are_shown_as_one() -> None:
    case = Case("c", "It is two hundred m tall.", (Source("a", "It is 330 m tall."),))
    same: dict[str, Any] = {
        "label": "contradiction",
        "reason": "the source has 330",
        "correction": "330",
        "kind": "value",
    }
    same["evidence"] = (Evidence("a", Span(0, 17)),)
    verdicts = (Verdict(Span(6, 9), 0.8, **same), Verdict(Span(10, 17), 0.9, **same))
    text = shown(checked_at(case, (Judgement("c", "x", verdicts=verdicts),), (0.5,), Outcome.FLAGGED))
    assert "1. “two hundred”  0.90  contradiction · value\n" in text
    assert "instead: 330\n" in text
    assert "source a: “It is 330 m tall.”" in text
    assert text.count("instead:") == 1
