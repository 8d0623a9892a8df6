"""The change as people see it: nothing lost, nothing acted on, each edit beside its critique."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from tests.report.conftest import HOSTILE
from tests.report.test_html import Page
from veridical.records.edits import apply
from veridical.records.errors import SpanError
from veridical.records.spans import Span
from veridical.records.strings import visible
from veridical.records.types import Case, Edit, Judgement, Revision, Thresholds
from veridical.report.revision import diff_parts, print_revisions, render_revisions
from veridical.text.diff import diff
from veridical.workflows.revise import Revised, Round

DONE = "nothing is unsupported any more"


def failed(reason: str, *notes: str) -> Round:
    return Round((), "", None, False, reason, notes=notes)


def revised(before: str, after: str, *rounds: Round, why: str = "the source says 330", reason: str = DONE) -> Revised:
    edits = diff(before, after, because=why)
    judgement = Judgement("1", "x", 0.2) if edits else None
    revision = Revision("1", edits, after)
    return Revised(Case("1", before), revision, Judgement("1", "x", 0.9), judgement, Thresholds(), rounds, reason)


def printed(change: Revised, *, colour: bool = False, width: int = 100) -> str:
    out = StringIO()
    print_revisions(
        [change], Console(file=out, width=width, force_terminal=colour, color_system="truecolor" if colour else None)
    )
    return out.getvalue()


TOWER = revised("It is 300 m tall. It is in Paris, they say.", "It is 330 m tall. It is in Paris.")


def test_the_terminal_shows_what_goes_what_comes_and_why() -> None:
    text = printed(TOWER)
    assert "It is [-300-]{+330+} m tall. It is in Paris[-, they say-]." in text
    assert "1. “300” becomes “330”" in text
    assert "2. leave out “, they say”" in text
    assert text.count("the source says 330") == 2
    assert "hallucination 0.90 → 0.20" in text
    assert "\x1b" not in text
    assert "\x1b[" in printed(TOWER, colour=True)


def test_what_was_not_changed_says_why() -> None:
    attempt = failed("it was worse", "2 edits undone")
    change = revised("All is well.", "All is well.", attempt, reason="it was worse")
    text = printed(change)
    assert "NOT REVISED" in text
    assert "An attempt was not kept: it was worse" in text
    assert "Note: 2 edits undone" in text
    assert "Ended" not in text


def test_a_marked_text_does_not_look_judged() -> None:
    edits = (Edit(Span(5, 5), " [?]", "x"),)
    change = Revised(
        Case("1", "Tall."), Revision("1", edits, "Tall. [?]"), Judgement("1", "x", 0.9), None, Thresholds(), (), DONE
    )
    assert "hallucination 0.90, not judged again" in printed(change)


@given(st.text(max_size=60), st.text(max_size=60))
def test_both_texts_can_be_read_off_the_parts(before: str, after: str) -> None:
    edits = diff(before, after)
    parts = diff_parts(before, edits)
    assert apply(before, edits) == after
    for kinds, text in ((("kept", "gone"), before), (("kept", "new"), after)):
        read = "".join(part.text for part in parts if part.kind in kinds)
        # a line break of two characters that an edit parts is shown as two signs
        assert read.replace("␍", "") == visible(text).replace("␍", "")


def test_the_page_has_every_word_and_both_ways_of_links() -> None:
    page = Page(render_revisions([TOWER]))
    [text] = page.texts
    assert text == "It is 300330 m tall. It is in Paris, they say."
    ids = page.ids()
    assert len(ids) == len(set(ids))
    assert {link.removeprefix("#") for link in page.links() if link.startswith("#")} <= set(ids)
    assert [tag for tag, _ in page.tags if tag in ("ins", "del")].count("ins") == 3  # legend, diff, list


def test_hostile_texts_stay_texts() -> None:
    change = Revised(
        Case(HOSTILE, HOSTILE, question=HOSTILE),
        Revision(HOSTILE, (Edit(Span(0, 5), HOSTILE, HOSTILE),), HOSTILE + HOSTILE[5:]),
        Judgement(HOSTILE, "x", 0.9),
        None,
        Thresholds(),
        (failed(HOSTILE, HOSTILE),),
        HOSTILE,
    )
    html = render_revisions([change], title=HOSTILE)
    page = Page(html)
    assert not {tag for tag, _ in page.tags} & {"script", "img", "iframe", "object"}
    assert not [key for _, held in page.tags for key in held if key.startswith("on")]
    assert "{{ 7 * 7 }}" in html
    style = html.partition("<style>")[2].partition("</style>")[0]
    assert f"'sha256-{b64encode(sha256(style.encode()).digest()).decode()}'" in html
    for out in (html, printed(change), printed(change, colour=True)):
        bare = re.sub(r"\x1b\[[0-9;]*m", "", out)
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202e\x9b\ud800]", bare)


def test_edits_that_do_not_fit_are_refused() -> None:
    revision = Revision("1", (Edit(Span(1, 9), "", ""),), "a")
    wrong = Revised(Case("1", "ab"), revision, Judgement("1", "x"), None, Thresholds(), (), DONE)
    with pytest.raises(SpanError):
        render_revisions([wrong])


def test_a_long_response_is_cut_in_the_terminal_only() -> None:
    long = "Word " * 1000
    change = revised(f"{long}300.", f"{long}330.")
    assert len(printed(change)) < 3000
    assert len(Page(render_revisions([change])).texts[0]) > 5000
