"""Define the protocol of revisers, and the revisers that need no language model.

A reviser gets the statements that a detector finds unsupported, and proposes edits, each with a reason. The module
`acceptance` decides whether the edits are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from veridical.records.edits import apply
from veridical.records.spans import Span, overlapping, union
from veridical.records.types import Case, Edit, Usage
from veridical.text.segment import has_words, sentences
from veridical.workflows.revise.statements import Statement


@dataclass(frozen=True, slots=True)
class RevisionTask:
    """The input of a reviser: a case, and the statements of its response.

    Attributes:
        case: The case with the text to revise.
        unsupported: The statements that the detector flags.
        supported: The other statements, which should be kept.
    """

    case: Case
    unsupported: tuple[Statement, ...]
    supported: tuple[Statement, ...] = ()


@dataclass(frozen=True, slots=True)
class Draft:
    """The edits that a reviser proposes for one task, or the reason why it proposes none.

    Attributes:
        edits: The proposed edits, with positions in the response of the task.
        problem: Why there are no edits. None if there are some.
        critique: The criticism of the text on which the edits are based. "" if there is none.
        notes: Remarks, for example about claims that were not changed.
        usage: The calls to chat models and the tokens that the draft cost.
    """

    edits: tuple[Edit, ...] = ()
    problem: str | None = None
    critique: str = ""
    notes: tuple[str, ...] = ()
    usage: Usage | None = None


class Reviser(Protocol):
    """Proposes edits that correct the unsupported statements of responses. `revise` calls it once per round.

    Attributes:
        name: The name of the reviser, such as "delete".
        rewrites: False if the reviser only marks statements in the text. The marked text is then not judged again.
    """

    name: str
    rewrites: bool

    def draft(self, tasks: Sequence[RevisionTask]) -> list[Draft]:
        """Propose edits, and return them as one draft for each task, in the same order."""
        ...


class Delete:
    """Reviser without a model: corrects wrong values in unsupported sentences, or deletes the sentences.

    A sentence is corrected if the detector's findings have a correction for each flagged part of it. Otherwise, it is
    deleted, unless it also makes a supported claim. If nothing would be left of a response, the response is not
    changed.
    """

    name = "delete"
    rewrites = True

    def draft(self, tasks: Sequence[RevisionTask]) -> list[Draft]:
        """Propose corrections and deletions, and return them as one draft for each task, in the same order."""
        return [self._draft(task) for task in tasks]

    def _draft(self, task: RevisionTask) -> Draft:
        text = task.case.response
        deletions: dict[Span, list[str]] = {}
        corrections: dict[Span, tuple[str, list[str]]] = {}
        supported = union(statement.span for statement in task.supported)
        n_mixed = 0
        for statement in task.unsupported:
            around = overlapping_sentences(text, statement.span) or [statement.span]
            whole = Span(around[0].start, around[-1].end)
            if statement.corrections and all(new.strip() for _, new in statement.corrections):
                for span, new in statement.corrections:
                    corrections.setdefault(span, (new, []))[1].append(statement.critique)
            elif overlapping(supported, whole):
                n_mixed += 1
            else:
                deletions.setdefault(_with_white_space(text, whole), []).append(statement.critique)
        joined = union(deletions)  # adjacent deletions become one
        merged = {span: ("", list[str]()) for span in joined}
        for span, reasons in deletions.items():
            merged[overlapping(joined, span)[0]][1].extend(reasons)
        changed = bytearray(len(text))  # 1 for each character of an edit; a bytearray is quick to search
        for span in joined:
            changed[span.start : span.end] = b"\1" * len(span)
        for span, (new, reasons) in corrections.items():
            if changed.find(1, span.start, span.end) < 0:
                changed[span.start : span.end] = b"\1" * len(span)
                merged[span] = new, reasons
        edits = tuple(
            Edit(span, new, "; ".join(dict.fromkeys(reasons))) for span, (new, reasons) in sorted(merged.items())
        )
        notes = (f"{n_mixed} unsupported claims stay: their sentences make supported claims, too",) if n_mixed else ()
        if edits and not has_words(apply(text, edits)):
            return Draft((), "nothing would be left of the response", notes=notes)
        return Draft(edits, None if edits else "no sentence can be left out by itself", notes=notes)


def _with_white_space(text: str, span: Span) -> Span:
    """Extend `span` by the neighbouring white space that has to be deleted with it."""
    before, after = text[: span.start], text[span.end :]
    preceding = before[len(before.rstrip()) :]
    following = after[: len(after) - len(after.lstrip())]
    if not after.strip() or ("\n" in following and preceding and "\n" not in preceding):
        return Span(span.start - len(preceding), span.end)
    return Span(span.start, span.end + len(following))


class Flag:
    """Reviser without a model: adds `mark` after each sentence with an unsupported statement, and nothing else."""

    name = "flag"
    rewrites = False

    def __init__(self, mark: str = " [not backed by the sources]") -> None:
        self.mark = mark

    def draft(self, tasks: Sequence[RevisionTask]) -> list[Draft]:
        """Propose to insert `mark` after unsupported sentences, and return one draft for each task, in order."""
        drafts = []
        for task in tasks:
            by_end: dict[int, list[str]] = {}
            for statement in task.unsupported:
                last = [statement.span, *overlapping_sentences(task.case.response, statement.span)][-1]
                by_end.setdefault(last.end, []).append(statement.critique)
            edits = tuple(
                Edit(Span(end, end), self.mark, "; ".join(dict.fromkeys(reasons)))
                for end, reasons in sorted(by_end.items())
            )
            drafts.append(Draft(edits, None if edits else "nothing to mark"))
        return drafts


def overlapping_sentences(text: str, span: Span) -> list[Span]:
    """Return the sentences of `text` that share a character with `span`."""
    return list(overlapping(sentences(text), span))
