"""Guarded writing in a terminal: the text that stands with its marks, what was done where, and what it cost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from veridical.core.decide import decide
from veridical.core.spans import Span
from veridical.core.text import shorten, visible
from veridical.core.types import Case, Checked, Judgement, Outcome, Thresholds
from veridical.report.findings import number
from veridical.report.terminal import LONG_PIECE, MANY, Printer

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["Deed", "Judged", "Writing", "print_guarded"]


class Deed(Protocol):
    """One intervention."""

    @property
    def span(self) -> Span | None:
        """What stands there now, None where that part was thrown away later."""
        ...

    @property
    def rejected(self) -> str:
        """What was flagged there."""
        ...

    @property
    def score(self) -> float | None:
        """Its score."""
        ...

    @property
    def action(self) -> str:
        """What was done."""
        ...


class Judged(Protocol):
    """A text and how it is judged."""

    @property
    def case(self) -> Case:
        """The case with the text as its response."""
        ...

    @property
    def judgement(self) -> Judgement:
        """That of the text."""
        ...


class Writing(Judged, Protocol):
    """What is shown of a guarded text."""

    @property
    def thresholds(self) -> Thresholds:
        """The thresholds in force."""
        ...

    @property
    def outcome(self) -> Outcome:
        """What the text comes to."""
        ...

    @property
    def interventions(self) -> Sequence[Deed]:
        """What was done, in order."""
        ...

    @property
    def reason(self) -> str:
        """Why the text ends."""
        ...

    @property
    def tokens_drawn(self) -> int:
        """Tokens drawn in all."""
        ...

    @property
    def forward_passes(self) -> int:
        """Passes of the writing model."""
        ...

    @property
    def seconds(self) -> float:
        """What it took."""
        ...

    @property
    def notes(self) -> Sequence[str]:
        """What else is to be said."""
        ...

    @property
    def unguarded(self) -> Judged | None:
        """The text without a guard, where it was asked for."""
        ...


def print_guarded(writings: Iterable[Writing], console: Console) -> None:
    """Print each text as `veridical check` shows it, then what was done, why it ends, what it cost."""
    page = Printer(console)
    for writing in writings:
        judgement = writing.judgement
        decision = decide(writing.case, judgement, writing.thresholds)
        page.case(Checked(writing.case, (judgement,), (decision,), writing.outcome))
        for n, deed in enumerate(writing.interventions[:MANY], 1):
            page.line(f"{n}. ", *_told(writing.case.response, deed), indent=4)
        if len(writing.interventions) > MANY:
            page.line(f"… and {len(writing.interventions) - MANY} more interventions", indent=4)
        page.line(f"Ended: {visible(writing.reason)}", indent=4)
        page.line(_cost(writing), indent=4)
        for note in writing.notes:
            page.line((f"Note: {visible(shorten(note, LONG_PIECE))}", "yellow"), indent=4)
        if writing.unguarded is not None:
            score = _number(writing.unguarded.judgement.hallucination)
            page.line(("Unguarded", "bold"), f"  hallucination {score}", indent=4)
            page.line(visible(shorten(writing.unguarded.case.response, LONG_PIECE)), indent=6)
        console.print()
    page.legend()


def _told(text: str, deed: Deed) -> list[str | tuple[str, str]]:
    shown: list[str | tuple[str, str]] = [deed.action, " ", (_quote(deed.rejected), "red"), f" {_number(deed.score)}"]
    if deed.span is None:
        return [*shown, ", in a part that was thrown away"]
    if deed.action == "not chosen":
        return shown
    if len(deed.span):
        shown += [", there stands now ", (_quote(deed.span.of(text)), "green")]
    return [*shown, f" (character {deed.span.start})"]


def _quote(text: str) -> str:
    return f"“{visible(shorten(text.strip(), 240))}”"


def _number(score: float | None) -> str:
    return "not scored" if score is None else number(score)


def _cost(writing: Writing) -> str:
    return f"{writing.tokens_drawn} tokens drawn, {writing.forward_passes} passes, {writing.seconds:.1f} s"
