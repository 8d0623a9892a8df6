"""Show revisions to people as a diff with the critique of each edit, in a terminal or as an HTML page.

As in the other reports, texts are never read as markup, control characters are shown as symbols, and the page has no
script and loads nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from veridical.records.edits import check_edits
from veridical.records.strings import shorten, visible
from veridical.records.types import Edit
from veridical.report.judgement_view import number
from veridical.report.pages import render, render_page
from veridical.report.terminal import LONG_PIECE, MANY, Printer
from veridical.workflows.revise import Revised

if TYPE_CHECKING:
    from rich.console import Console

LONG_KEPT = 400  # characters; of longer unchanged text, a terminal shows only the beginning and the end


@dataclass(frozen=True, slots=True)
class DiffPart:
    """A part of the diff between a response and its revision.

    Attributes:
        kind: "kept" (unchanged text), "gone" (removed by an edit) or "new" (inserted by an edit).
        text: The characters, with control characters made visible.
        n: The number of the edit, from 1. 0 for unchanged text.
        last: True for the last part of an edit, after which the page shows the number of the edit.
    """

    kind: str
    text: str
    n: int = 0
    last: bool = False


def diff_parts(text: str, edits: Sequence[Edit]) -> list[DiffPart]:
    """Split a text into the parts of a diff: the text that is kept, and the removed and new text of each edit.

    Control characters are made visible, so all parts are safe to show.
    """
    check_edits(text, edits)
    parts: list[DiffPart] = []
    end = 0  # of the last edit
    for n, edit in enumerate(edits, 1):
        parts.append(DiffPart("kept", visible(text, end, edit.span.start)))
        gone, new = visible(text, edit.span.start, edit.span.end), visible(edit.replacement)
        parts += [DiffPart("gone", gone, n, last=not new), DiffPart("new", new, n, last=True)]
        end = edit.span.end
    parts.append(DiffPart("kept", visible(text, end)))
    return [part for part in parts if part.text]


def print_revisions(results: Iterable[Revised], console: Console) -> None:
    """Print each result to `console`, with scores, the diff, the critique of each edit, and why the revision ended."""
    from rich.text import Text

    page = Printer(console)
    for result in results:
        edits = result.revision.edits
        heading, style = ("REVISED", "bold green") if edits else ("NOT REVISED", "bold yellow")
        page.line((visible(shorten(result.case.id, 200)), "bold"), "  ", (heading, style), f"  {_scores(result)}")
        text = Text()
        for part in diff_parts(result.case.response, edits):
            before, after, colour = _SIGNS[part.kind]
            words = part.text
            if part.kind == "kept" and len(words) > LONG_KEPT:
                words = f"{words[: LONG_KEPT // 2]} … {words[-LONG_KEPT // 2 :]}"
            # colour does not show a change of white space alone
            signs = page.plain or not words.strip()
            text.append(page.encodable(before + words + after if signs else words), "" if page.plain else colour)
        page.line(text, indent=4)
        for n, edit in enumerate(edits[:MANY], 1):
            gone, new = (
                visible(shorten(words, 240)) for words in (edit.span.of(result.case.response), edit.replacement)
            )
            change: list[str | tuple[str, str]] = [(f"“{gone}”", "red"), " becomes ", (f"“{new}”", "green")]
            if not new:
                change = ["leave out ", (f"“{gone}”", "red")]
            elif not gone:
                change = ["add ", (f"“{new}”", "green")]
            page.line(f"{n}. ", *change, indent=4)
            page.line((visible(shorten(edit.because, LONG_PIECE)), "dim"), indent=7)
        if len(edits) > MANY:
            page.line(f"… and {len(edits) - MANY} more edits", indent=4)
        for line in _remarks(result):
            page.line((visible(shorten(line, LONG_PIECE)), "yellow"), indent=4)
        page.console.print()


_SIGNS = {"gone": ("[-", "-]", "red strike"), "new": ("{+", "+}", "green"), "kept": ("", "", "")}


def _scores(result: Revised) -> str:
    """Write the hallucination scores before and after the revision as text."""
    before = result.before.hallucination
    text = f"hallucination {'not scored' if before is None else number(before)}"
    if not result.revision.edits:
        return text
    if result.after is None:
        return f"{text}, not judged again"
    after = result.after.hallucination
    return f"{text} → {'not scored' if after is None else number(after)}"


def _remarks(result: Revised) -> list[str]:
    """List why attempts were not kept, the notes of all attempts, and why the revision ended. No line occurs twice."""
    lines = [f"An attempt was not kept: {attempt.reason}" for attempt in result.rounds if not attempt.kept]
    lines += [f"Note: {note}" for attempt in result.rounds for note in attempt.notes]
    if all(attempt.reason != result.reason for attempt in result.rounds if not attempt.kept):
        lines.append(f"Ended: {result.reason}")
    return list(dict.fromkeys(lines))


def _view(result: Revised, anchor: str) -> dict[str, Any]:
    """Prepare one result for the page. `edits` are triples of removed text, new text and reason."""
    text, edits = result.case.response, result.revision.edits
    return {
        "id": anchor,
        "name": visible(result.case.id),
        "question": visible(result.case.question or ""),
        "scores": _scores(result),
        "parts": diff_parts(text, edits),
        "edits": [
            (visible(shorten(e.span.of(text), 300)), visible(shorten(e.replacement, 300)), visible(e.because))
            for e in edits
        ],
        "remarks": [visible(line) for line in _remarks(result)],
    }


def render_revisions(results: Sequence[Revised], *, title: str = "Veridical revisions") -> str:
    """Render revisions as one HTML document, each with its diff, the critiques, and why the revision ended.

    The document has no script, and you can read it without a network.

    Raises:
        SpanError: Some edits do not fit their response.
    """
    return render_page(
        "revisions.html",
        render("revision.css"),
        title=title,
        revisions=[_view(result, f"r{i}") for i, result in enumerate(results, 1)],
        revised=sum(bool(result.revision.edits) for result in results),
    )
