"""Revisions for people: the change as a diff with the critique behind each edit, in a terminal and as an HTML page.

Safe as the rest of the report: texts are never read as markup, every character that could act is shown as a sign, and
the page has no script and loads nothing.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Protocol

from veridical.core.edits import check_edits
from veridical.core.text import shorten, visible
from veridical.core.types import Case, Edit, Judgement, Revision
from veridical.report.findings import number
from veridical.report.html import page_environment
from veridical.report.terminal import LONG_PIECE, MANY, Printer

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["Attempt", "Change", "print_revisions", "render_revisions", "revision_fragment"]

LONG_KEPT = 400  # characters of unchanged text shown in one piece in a terminal


class Attempt(Protocol):
    """One round of a revision: whether it was kept, why or why not, and what else is to be said of it."""

    @property
    def kept(self) -> bool:
        """Whether its text stands."""
        ...

    @property
    def reason(self) -> str:
        """Why it was kept or not."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What else is to be said of it."""
        ...


class Change(Protocol):
    """What is shown of a revised case; `after` is None where the new text was not judged."""

    @property
    def case(self) -> Case:
        """The case as it was."""
        ...

    @property
    def revision(self) -> Revision:
        """The edits of its response, and the text that stands."""
        ...

    @property
    def before(self) -> Judgement:
        """The judgement of the response."""
        ...

    @property
    def after(self) -> Judgement | None:
        """The judgement of the text that stands."""
        ...

    @property
    def rounds(self) -> Sequence[Attempt]:
        """The attempts, in order."""
        ...

    @property
    def reason(self) -> str:
        """Why no more was changed."""
        ...


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of the diff: `kind` is "kept", "gone" or "new"; `n` is the number of its edit, from 1."""

    kind: str
    text: str
    n: int = 0
    last: bool = False


def parts_of(text: str, edits: Sequence[Edit]) -> list[Part]:
    """The diff in order: what of `text` stays, and for each edit what goes and what comes; made safe to show."""
    check_edits(text, edits)
    parts: list[Part] = []
    at = 0
    for n, edit in enumerate(edits, 1):
        parts.append(Part("kept", visible(text, at, edit.span.start)))
        gone, new = visible(text, edit.span.start, edit.span.end), visible(edit.replacement)
        parts += [Part("gone", gone, n, last=not new), Part("new", new, n, last=True)]
        at = edit.span.end
    parts.append(Part("kept", visible(text, at)))
    return [part for part in parts if part.text]


def print_revisions(changes: Iterable[Change], console: Console) -> None:
    """Print each change to `console`: its scores, the diff, each edit's critique, and why no more was changed."""
    page = Printer(console)
    for change in changes:
        _print_change(page, change)


_SIGNS = {"gone": ("[-", "-]", "red strike"), "new": ("{+", "+}", "green"), "kept": ("", "", "")}


def _print_change(page: Printer, change: Change) -> None:
    from rich.text import Text

    edits = change.revision.edits
    heading, style = ("REVISED", "bold green") if edits else ("NOT REVISED", "bold yellow")
    page.line((visible(shorten(change.case.id, 200)), "bold"), "  ", (heading, style), f"  {_scores(change)}")
    shown = Text()
    for part in parts_of(change.case.response, edits):
        before, after, colour = _SIGNS[part.kind]
        words = _cut(part.text) if part.kind == "kept" else part.text
        # a change of white space alone would not be seen by its colour
        signs = page.plain or not words.strip()
        shown.append(page._fit(before + words + after if signs else words), "" if page.plain else colour)
    page.line(shown, indent=4)
    for n, edit in enumerate(edits[:MANY], 1):
        page.line(f"{n}. ", *_said(change.case.response, edit), indent=4)
        page.line((visible(shorten(edit.because, LONG_PIECE)), "dim"), indent=7)
    if len(edits) > MANY:
        page.line(f"… and {len(edits) - MANY} more edits", indent=4)
    for line in _remarks(change):
        page.line((visible(shorten(line, LONG_PIECE)), "yellow"), indent=4)
    page.console.print()


def _said(text: str, edit: Edit) -> list[str | tuple[str, str]]:
    gone, new = (visible(shorten(words, 240)) for words in (edit.span.of(text), edit.replacement))
    if not new:
        return ["leave out ", (f"“{gone}”", "red")]
    if not gone:
        return ["add ", (f"“{new}”", "green")]
    return [(f"“{gone}”", "red"), " becomes ", (f"“{new}”", "green")]


def _cut(text: str) -> str:
    return text if len(text) <= LONG_KEPT else f"{text[: LONG_KEPT // 2]} … {text[-LONG_KEPT // 2 :]}"


def _scores(change: Change) -> str:
    """The hallucination scores before and after, in words where there are none."""
    old = change.before.hallucination
    shown = f"hallucination {'not scored' if old is None else number(old)}"
    if not change.revision.edits:
        return shown
    if change.after is None:
        return f"{shown}, not judged again"
    new = change.after.hallucination
    return f"{shown} → {'not scored' if new is None else number(new)}"


def _remarks(change: Change) -> list[str]:
    """Why attempts failed, what was noted on them, and why it ended, each once."""
    lines = [f"An attempt was not kept: {attempt.reason}" for attempt in change.rounds if not attempt.kept]
    lines += [f"Note: {note}" for attempt in change.rounds for note in attempt.notes]
    if all(attempt.reason != change.reason for attempt in change.rounds if not attempt.kept):
        lines.append(f"Ended: {change.reason}")
    return list(dict.fromkeys(lines))


def revision_fragment(change: Change, anchor: str = "r1") -> str:
    """One change as an HTML article, escaped, for a page that has the styles of `render_revisions`.

    `anchor` is the id that its anchors begin with; only letters, digits and "-" of it are kept.
    """
    safe = "".join(c for c in anchor if c.isascii() and (c.isalnum() or c == "-")) or "r"
    edits = change.revision.edits
    return page_environment().get_template("revision.html").render(
        id=safe,
        name=visible(change.case.id),
        question=visible(change.case.question or ""),
        changed=bool(edits),
        scores=_scores(change),
        parts=parts_of(change.case.response, edits),
        edits=[_view(change.case.response, edit) for edit in edits],
        remarks=[visible(line) for line in _remarks(change)],
    )  # fmt: skip


def _view(text: str, edit: Edit) -> dict[str, str]:
    return {
        "gone": visible(shorten(edit.span.of(text), 300)),
        "new": visible(shorten(edit.replacement, 300)),
        "because": visible(edit.because),
    }


def render_revisions(
    changes: Sequence[Change], *, title: str = "Veridical revisions", generated: str | None = None
) -> str:
    """The page of all changes: one HTML document without a script, readable without a network.

    Raises `SpanError` for edits that do not fit their response.
    """
    environment = page_environment()
    style = environment.get_template("report.css").render(cut=[]).strip()
    style += "\n" + environment.get_template("revision.css").render().strip()
    return environment.get_template("revisions.html").render(
        title=visible(title),
        generated=None if generated is None else visible(generated),
        style=style,
        style_hash=b64encode(sha256(style.encode()).digest()).decode(),
        articles=[revision_fragment(change, f"r{i}") for i, change in enumerate(changes, 1)],
        revised=sum(bool(change.revision.edits) for change in changes),
    )
