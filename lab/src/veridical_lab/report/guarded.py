"""Show guarded generation in a terminal: the final text with marks, the interventions, and the cost."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from veridical.records.decide import decide
from veridical.records.strings import shorten, visible
from veridical.records.types import Checked
from veridical.report.judgement_view import number
from veridical.report.terminal import LONG_PIECE, MANY, Printer
from veridical_lab.guard import Guarded, Intervention

if TYPE_CHECKING:
    from rich.console import Console


def print_guarded(results: Iterable[Guarded], console: Console) -> None:
    """Print each text as `veridical check` shows it, then the interventions, why the text ends, and its cost."""
    page = Printer(console)
    for result in results:
        decision = decide(result.case, result.judgement, result.thresholds)
        page.case(Checked(result.case, (result.judgement,), (decision,), result.outcome))
        for n, intervention in enumerate(result.interventions[:MANY], 1):
            page.line(f"{n}. ", *_intervention(result.text, intervention), indent=4)
        if len(result.interventions) > MANY:
            page.line(f"… and {len(result.interventions) - MANY} more interventions", indent=4)
        page.line(f"Ended: {visible(result.reason)}", indent=4)
        cost = f"{result.tokens_drawn} tokens drawn, {result.forward_passes} passes, {result.seconds:.1f} s"
        page.line(cost, indent=4)
        for note in result.notes:
            page.line((f"Note: {visible(shorten(note, LONG_PIECE))}", "yellow"), indent=4)
        if result.unguarded is not None:
            score = _score(result.unguarded.judgement.hallucination)
            page.line(("Unguarded", "bold"), f"  hallucination {score}", indent=4)
            page.line(visible(shorten(result.unguarded.case.response, LONG_PIECE)), indent=6)
        console.print()
    page.legend()


def _intervention(text: str, intervention: Intervention) -> list[str | tuple[str, str]]:
    span = intervention.span
    parts: list[str | tuple[str, str]] = [intervention.action, " ", (_quote(intervention.rejected), "red")]
    parts.append(f" {_score(intervention.score)}")
    if span is None:
        return [*parts, ", in a part that was thrown away"]
    if intervention.action == "not chosen":
        return parts
    if len(span):
        parts += [", replaced by ", (_quote(span.of(text)), "green")]
    return [*parts, f" (character {span.start})"]


def _quote(text: str) -> str:
    return f"“{visible(shorten(text.strip(), 240))}”"


def _score(score: float | None) -> str:
    return "not scored" if score is None else number(score)
