"""What revises: the protocol, and the revisers that need no language model.

A reviser sees the statements that a detector does not support and answers with edits, each with its reason. Whether
they are kept is not its business.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from veridical.core.edits import apply
from veridical.core.segment import sentences, words
from veridical.core.spans import Span, union
from veridical.core.types import Case, Edit, Usage
from veridical.revise.statements import Unit

__all__ = ["PLAIN", "Delete", "Draft", "Flag", "Reviser", "Task", "said_of", "sentences_of"]

PLAIN = "not backed by the sources"


@dataclass(frozen=True, slots=True)
class Task:
    """A case to revise: the statements of its response that are not supported, and those that are."""

    case: Case
    unsupported: tuple[Unit, ...]
    supported: tuple[Unit, ...] = ()


@dataclass(frozen=True, slots=True)
class Draft:
    """The edits proposed for a case; without any, `why` there are none. `critique` is what the reviser was told."""

    edits: tuple[Edit, ...] = ()
    why: str | None = None
    critique: str = ""
    notes: tuple[str, ...] = ()
    usage: Usage | None = None


class Reviser(Protocol):
    """What proposes edits. `rewrites`: what it proposes is to be better; else it only marks and is not judged again."""

    name: str
    rewrites: bool

    def draft(self, tasks: Sequence[Task]) -> list[Draft]:
        """One draft for each task, in the same order."""
        ...


class Delete:
    """Leaves out each sentence with an unsupported statement, or puts the detector's correction where it has one.

    A sentence that also makes a supported claim stays, and so does a response of which nothing would be left.
    """

    name = "delete"
    rewrites = True

    def draft(self, tasks: Sequence[Task]) -> list[Draft]:
        """One draft a task; no model, no cost."""
        return [_deleted(task) for task in tasks]


class Flag:
    """Writes `mark` behind each sentence with an unsupported statement and changes nothing else."""

    name = "flag"
    rewrites = False

    def __init__(self, mark: str = " [not backed by the sources]") -> None:
        self.mark = mark

    def draft(self, tasks: Sequence[Task]) -> list[Draft]:
        """One draft a task; no model, no cost."""
        return [self._flagged(task) for task in tasks]

    def _flagged(self, task: Task) -> Draft:
        text = task.case.response
        reasons: dict[Span, list[str]] = {}
        for unit in task.unsupported:
            place = sentences_of(text, unit.span)[-1:]
            for span in place or [unit.span]:
                reasons.setdefault(Span(span.end, span.end), []).append(said_of(unit))
        edits = [Edit(place, self.mark, "; ".join(dict.fromkeys(said))) for place, said in sorted(reasons.items())]
        return Draft(tuple(edits), None if edits else "nothing to mark")


def said_of(unit: Unit) -> str:
    """What is said against a statement, `PLAIN` where nothing is."""
    return "; ".join(unit.reasons) or PLAIN


def _deleted(task: Task) -> Draft:
    text = task.case.response
    kept = [unit.span for unit in task.supported]
    proposed: dict[Span, tuple[str, list[str]]] = {}
    stuck = 0
    for unit in task.unsupported:
        whole = sentences_of(text, unit.span) or [unit.span]
        place = Span(whole[0].start, whole[-1].end)
        if unit.correction is not None and unit.correction.strip():
            place, replacement = unit.span, unit.correction
        elif any(place.overlaps(span) for span in kept):
            stuck += 1
            continue
        else:
            place, replacement = _with_blank(text, place), ""
        proposed.setdefault(place, (replacement, []))[1].append(said_of(unit))
    edits = tuple(_apart(proposed))
    notes = (f"{stuck} unsupported claims stay: their sentences make supported claims, too",) if stuck else ()
    if edits and not words(apply(text, edits)):
        return Draft((), "nothing would be left of the response", notes=notes)
    return Draft(edits, None if edits else "no sentence can be left out by itself", notes=notes)


def sentences_of(text: str, span: Span) -> list[Span]:
    """The sentences of `text` that share a character with `span`."""
    return [s for s in sentences(text) if s.overlaps(span)]


def _with_blank(text: str, place: Span) -> Span:
    """`place` with the white space that would be one too many without it."""
    after = len(text[place.end :]) - len(text[place.end :].lstrip())
    before = len(text[: place.start]) - len(text[: place.start].rstrip())
    behind = text[place.end : place.end + after]
    ahead = text[place.start - before : place.start]
    if place.end + after == len(text) or ("\n" in behind and "\n" not in ahead and before):
        return Span(place.start - before, place.end)
    return Span(place.start, place.end + after)


def _apart(proposed: dict[Span, tuple[str, list[str]]]) -> list[Edit]:
    """Edits that do not overlap: deletions that meet are one, and swallow the corrections inside them."""
    gone = union(span for span, (replacement, _) in proposed.items() if not replacement)
    made: dict[Span, tuple[str, list[str]]] = {span: ("", []) for span in gone}
    for span, (replacement, reasons) in sorted(proposed.items()):
        home = next((other for other in made if other.overlaps(span) or other.contains(span)), None)
        made.setdefault(home or span, (replacement, []))[1].extend(reasons)
    return [Edit(span, new, "; ".join(dict.fromkeys(said))) for span, (new, said) in sorted(made.items())]
