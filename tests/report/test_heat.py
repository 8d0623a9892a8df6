"""Words shaded by score: what each word's score is, and how terminal and page show it with and without colours."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from tests.report.conftest import hostile, tower
from veridical.cli import main
from veridical.records.decide import decide
from veridical.records.types import Case, Checked, Judgement, Outcome, Span, Verdict
from veridical.report.heat import SHADES, heat_view, word_scores
from veridical.report.html import render_html
from veridical.report.terminal import print_report
from veridical.text.segment import words

TEXT = "In 1999 it fell, they say. Or not."
JUDGEMENT = Judgement(
    "1",
    "someone",
    0.9,
    verdicts=(Verdict(Span(3, 7), 0.97), Verdict(Span(5, 9), 0.34), Verdict(Span(11, 15), 0.05)),
    judged=(Span(0, 25),),
)


def decided(judgement: Judgement) -> Checked:
    decision = decide(Case("1", TEXT), judgement)
    return Checked(Case("1", TEXT), (judgement,), (decision,), decision.outcome)


def case() -> Checked:
    return decided(JUDGEMENT)


def printed(*checked: Checked, heat: bool = True, colour: bool = False) -> str:
    file = io.StringIO()
    options = {"force_terminal": True, "color_system": "truecolor"} if colour else {}
    print_report(checked, Console(file=file, width=100, _environ={}, **options), heat=heat)  # type: ignore[arg-type]
    return file.getvalue()


def test_plain_text_has_tenths_behind_words() -> None:
    text = printed(case())
    assert "In [1999{9}] it{3} fell, they say. Or{?} not{?}." in text
    assert "{1} … {9}: score of the word before in tenths" in text
    assert "\x1b" not in text
    assert "[-1999-]" in printed(case(), heat=False)


def test_colours_go_by_score() -> None:
    text = printed(case(), colour=True)
    backgrounds = re.findall(r"48;2;(\d+;\d+;\d+)m(\w+)", text)
    assert [word for _, word in backgrounds] == ["1999", "it"]
    assert len({colour for colour, _ in backgrounds}) == 2
    assert "{9}" not in text
    assert text.count("48;2;") == 2 + SHADES - 1  # and a legend of all shades but the empty one


def test_a_judgement_without_scores_of_words_says_so() -> None:
    alone = decided(Judgement("1", "length", 0.9))
    assert heat_view(alone.case, alone.judgements[0], alone.decisions[0]) is None
    assert "No scores for words." in printed(alone)
    assert 'class="text response heat"' not in render_html([alone], heat=True)


def test_page() -> None:
    page = render_html([case()], heat=True)
    assert '<span class="heat-word heat-9 heat-flagged" title="0.97">1999</span>' in page
    assert '<span class="heat-word heat-3" title="0.34">it</span>' in page
    assert '<span class="heat-unjudged" title="not judged">Or</span>' in page
    assert "2 of 8 words were not judged" in page
    assert '<tr><td dir="auto">1999</td><td class="num">0.97</td></tr>' in page
    assert "<script" not in page
    assert "style=" not in page.replace("Content-Security-Policy", "")
    assert "heat" not in render_html([case()])


def test_hostile_texts_stay_text() -> None:
    page = render_html([hostile()], heat=True)
    assert "<script" not in page
    assert "<img" not in page
    assert "\x1b" not in printed(hostile())


TEXTS = st.text(alphabet="ab .\u00e9\u4e00", max_size=20)
MARKS = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20), st.floats(0, 1)), max_size=6)


@given(TEXTS, MARKS)
def test_each_word_has_its_highest_score(text: str, marks: list[tuple[int, int, float]]) -> None:
    size = len(text)
    spans = [(Span(*sorted((min(a, size), min(b, size)))), score) for a, b, score in marks]
    given = Case("1", text)
    verdicts = tuple(Verdict(span, score) for span, score in spans)
    scored = word_scores(given, Judgement("1", "h", verdicts=verdicts))
    assert [span for span, _ in scored] == words(text)
    for word, score in scored:
        assert score == max((s for span, s in spans if span.overlaps(word)), default=0.0)
    judged = tuple(span for span, _ in spans)
    for word, score in word_scores(given, Judgement("1", "h", judged=judged)):
        assert (score is None) == (not any(span.overlaps(word) for span in judged))
    judgement = Judgement("1", "h", verdicts=verdicts)
    view = heat_view(given, judgement, decide(given, judgement))
    if view is not None:
        assert len(view.words) == len(scored)


@pytest.mark.parametrize("option", [[], ["--heat"]])
def test_check_option(option: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.txt").write_text("It is 300 m tall.")
    (tmp_path / "s.txt").write_text("It is 330 m tall.")
    page = tmp_path / "r.html"
    texts = [str(tmp_path / "a.txt"), str(tmp_path / "s.txt")]
    assert main(["check", *texts, "-d", "overlap", "--html", str(page), *option]) == 1
    assert ("[300{9}]" in capsys.readouterr().out) == bool(option)
    assert ("heat-9" in page.read_text()) == bool(option)


def test_several_detectors() -> None:
    page = render_html([tower()], heat=True)
    assert page.count('class="text response heat"') == 2
    assert printed(tower()).count("[300{9}]") >= 1
    assert tower().outcome is Outcome.FLAGGED
