"""Revision by a chat model (C §4): from the critiques of single claims, or from its own critique of the whole text.

The model writes the corrected text in full; its difference to the text becomes edits. An edit that touches nothing
that was criticised has no reason and is undone, so that a model cannot spoil what was right.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from veridical.core.edits import diff
from veridical.core.segment import words
from veridical.core.spans import Span
from veridical.core.types import Case, Claim, Edit, Source, Usage
from veridical.detectors.claims.citations import ResponseCitations
from veridical.detectors.claims.llm_checker import turns
from veridical.detectors.claims.source_chunks import document
from veridical.llm.prompts import fill, prompt
from veridical.llm.protocol import ChatModel, Failure, Message, Reply, Request
from veridical.llm.reply_parser import labelled, strip_reasoning, yes_no
from veridical.revise.rule_revisers import Draft, Task, said_of, sentences_of
from veridical.revise.statements import Unit

__all__ = ["Factored", "SelfCorrection", "corrected"]


@dataclass(frozen=True, slots=True)
class _Critique:
    """What is said against a statement; `dismissed` where the critic finds it supported after all."""

    unit: Unit
    text: str
    instead: str | None = None
    dismissed: bool = False
    unread: bool = False


class Factored:
    """Asks `model` for a corrected text, given the critiques of all unsupported claims together (C Algorithm 1).

    A claim's critique is what the detector says against it; where it says nothing, `model` is asked for one against
    the sources that the claim cites, else all. With `critic`, that model writes every critique, and a claim that it
    finds supported is left as it is.
    """

    rewrites = True

    def __init__(self, model: ChatModel, *, critic: ChatModel | None = None) -> None:
        self.model = model
        self.critic = critic
        self.name = f"factored:{model.name}" + (f"+{critic.name}" if critic else "")

    def draft(self, tasks: Sequence[Task]) -> list[Draft]:
        """One draft a task; two calls to the model for all tasks together, critiques and revisions."""
        critiques, spent = self._critiques(tasks)
        told = [_listed(own) for own in critiques]
        asked = [i for i, text in enumerate(told) if text]
        replies = _revisions(self.model, [tasks[i].case for i in asked], [told[i] for i in asked])
        answers = dict(zip(asked, replies, strict=True))
        drafts = []
        for i, task in enumerate(tasks):
            notes = _notes(critiques[i])
            if i not in answers:
                drafts.append(Draft((), "the critic finds every claim supported", notes=notes, usage=spent[i]))
                continue
            made = _draft(task.case, answers[i], told[i], [c for c in critiques[i] if not c.dismissed])
            drafts.append(replace(made, notes=(*notes, *made.notes), usage=Usage.total([spent[i], made.usage])))
        return drafts

    def _critiques(self, tasks: Sequence[Task]) -> tuple[list[list[_Critique]], list[Usage | None]]:
        """The critiques of each task's unsupported statements, and what they cost."""
        places = [(i, unit) for i, task in enumerate(tasks) for unit in task.unsupported]
        asked = [(i, unit) for i, unit in places if self.critic is not None or not unit.reasons]
        requests = [_critique_request(tasks[i].case, unit) for i, unit in asked]
        outcomes = (self.critic or self.model).chat(requests) if requests else []
        found = dict(zip(asked, outcomes, strict=True))
        critiques: list[list[_Critique]] = [[] for _ in tasks]
        for i, unit in places:
            outcome = found.get((i, unit))
            critiques[i].append(_Critique(unit, said_of(unit)) if outcome is None else _critique(unit, outcome))
        spent = [Usage.total(o.usage for (j, _), o in found.items() if j == i) for i in range(len(tasks))]
        return critiques, spent


class SelfCorrection:
    """Asks `model` for a critique of the whole text, then for a text corrected by it: the baseline of C §4.1.

    It sees no claim of the detector. Every edit has the whole critique as its reason.
    """

    rewrites = True

    def __init__(self, model: ChatModel) -> None:
        self.model = model
        self.name = f"self:{model.name}"

    def draft(self, tasks: Sequence[Task]) -> list[Draft]:
        """One draft a task; two calls to the model for all tasks together."""
        head, tail = prompt("revise_document"), prompt("revise_feedback")
        requests = [
            Request(
                turns(head, tail, (), document(task.case.sources), response=task.case.response),
                max_tokens=1024,
                stage="critique",
                prompt=f"{head.hash}+{tail.hash}",
            )
            for task in tasks
        ]
        outcomes = self.model.chat(requests) if requests else []
        told = [_behind(o, "Feedback") if isinstance(o, Reply) else None for o in outcomes]
        asked = [i for i, text in enumerate(told) if text]
        replies = _revisions(self.model, [tasks[i].case for i in asked], [told[i] or "" for i in asked])
        answers = dict(zip(asked, replies, strict=True))
        drafts = []
        for i, (task, outcome) in enumerate(zip(tasks, outcomes, strict=True)):
            if i not in answers:
                why = outcome.reason if isinstance(outcome, Failure) else "the reply holds no feedback"
                drafts.append(Draft((), f"no critique: {why}", usage=outcome.usage))
                continue
            made = _draft(task.case, answers[i], told[i] or "", None)
            drafts.append(replace(made, usage=Usage.total([outcome.usage, made.usage])))
        return drafts


def _critique_request(case: Case, unit: Unit) -> Request:
    # the same head as verification, so that a server's prefix cache serves both
    head, tail = prompt("verify_document"), prompt("critique_claim")
    own = ResponseCitations.of_case(case).cited_by(Claim(unit.text, (unit.span,))) if case.sources else ()
    sources = [source for source in own if words(source.text)] or case.sources
    return Request(
        turns(head, tail, (), document(sources), claim=unit.text),
        max_tokens=1024,
        stage="critique",
        prompt=f"{head.hash}+{tail.hash}",
    )


_SUPPORTED = re.compile(r"^[ \t>*_#-]*supported[ \t*_]*[:=]", re.IGNORECASE | re.MULTILINE)
_CRITIQUE = re.compile(r"^[\s>*_#-]*critique[ \t*_]*[:=][ \t*_]*", re.IGNORECASE)


def _critique(unit: Unit, outcome: Reply | Failure) -> _Critique:
    """The critique in a reply; where none can be read, what the detector says stands in for it."""
    if isinstance(outcome, Failure) or outcome.finish == "length":
        return _Critique(unit, said_of(unit), unread=True)
    text = strip_reasoning(outcome.text)
    said = yes_no(labelled(text, "Supported") or "")
    place = _SUPPORTED.search(text)
    if said is None or place is None:
        return _Critique(unit, said_of(unit), unread=True)
    told = " ".join(_CRITIQUE.sub("", text[: place.start()]).split()).strip("*_ ")
    instead = labelled(text, "Revised")
    if instead is not None and re.fullmatch(r"\W*n/?a\W*", instead, re.IGNORECASE):
        instead = None
    return _Critique(unit, told or said_of(unit), instead, dismissed=said)


def _notes(critiques: Sequence[_Critique]) -> tuple[str, ...]:
    unread, dismissed = sum(c.unread for c in critiques), sum(c.dismissed for c in critiques)
    lines = [f"{unread} of {len(critiques)} critiques could not be read"] if unread else []
    lines += [f"{dismissed} of {len(critiques)} claims are supported after all, says the critic"] if dismissed else []
    return tuple(lines)


def _listed(critiques: Sequence[_Critique]) -> str:
    """The factored critique: one point a claim, "" where none is left."""
    points = []
    for critique in (c for c in critiques if not c.dismissed):
        instead = f" It could say: {critique.instead}" if critique.instead else ""
        points.append(f"- On “{' '.join(critique.unit.text.split())}”: {critique.text}{instead}")
    return "\n".join(points)


def _revisions(model: ChatModel, cases: Sequence[Case], told: Sequence[str]) -> list[tuple[Reply | Failure, Usage]]:
    """The outcomes, with all that each cost; sources that are too long for the model are left out at a second try."""
    requests = [_revision(case, feedback, case.sources) for case, feedback in zip(cases, told, strict=True)]
    outcomes = model.chat(requests) if requests else []
    spent = [[outcome.usage] for outcome in outcomes]
    long = [i for i, o in enumerate(outcomes) if isinstance(o, Failure) and o.kind == "context" and cases[i].sources]
    again = model.chat([_revision(cases[i], told[i], ()) for i in long]) if long else []
    for i, outcome in zip(long, again, strict=True):
        outcomes[i] = outcome
        spent[i].append(outcome.usage)
    return [(outcome, Usage.total(own) or Usage()) for outcome, own in zip(outcomes, spent, strict=True)]


def _revision(case: Case, feedback: str, sources: Sequence[Source]) -> Request:
    head, tail = prompt("revise_document"), prompt("revise_text")
    text = document(sources) if sources else "(not shown here; rely on what was found)"
    asked = f"{fill(head, document=text)}\n\n{fill(tail, response=case.response, feedback=feedback)}"
    return Request(
        (Message("user", asked),),
        max_tokens=min(8192, 256 + len(case.response.encode()) // 2),
        stage="revise",
        prompt=f"{head.hash}+{tail.hash}",
    )


def _draft(
    case: Case, answer: tuple[Reply | Failure, Usage], told: str, critiques: Sequence[_Critique] | None
) -> Draft:
    outcome, usage = answer
    if isinstance(outcome, Failure):
        return Draft((), f"no revision: {outcome.reason}", told, usage=usage)
    if outcome.finish == "length":
        return Draft((), "no revision: the corrected text was cut short", told, usage=usage)
    text = corrected(case.response, outcome)
    if text is None:
        return Draft((), "no revision: the reply holds no corrected text", told, usage=usage)
    edits = diff(case.response, text, because=told)
    if critiques is None:
        return Draft(edits, None if edits else "the model changes nothing", told, usage=usage)
    kept = [reasoned for edit in edits if (reasoned := _with_reason(case.response, edit, critiques))]
    undone = len(edits) - len(kept)
    notes = (f"{undone} edits touch nothing that was criticised: undone",) if undone else ()
    return Draft(tuple(kept), None if kept else "the model changes nothing that was criticised", told, notes, usage)


def _with_reason(text: str, edit: Edit, critiques: Sequence[_Critique]) -> Edit | None:
    """The edit with the critiques of the claims whose sentences it touches, None if it touches none."""
    reasons = [c.text for c in critiques if any(_touches(edit.span, s) for s in sentences_of(text, c.unit.span))]
    return replace(edit, because="; ".join(dict.fromkeys(reasons))) if reasons else None


def _touches(edit: Span, place: Span) -> bool:
    return edit.overlaps(place) or (not len(edit) and place.start <= edit.start <= place.end)


_FENCE = re.compile(r"\A<<<(\w+ [0-9a-f]{12})\n(.*)\n\1>>>\Z", re.DOTALL)
_CODE = re.compile(r"\A(`{3,})\w*\n(.*)\n\1\Z", re.DOTALL)


def corrected(before: str, reply: Reply) -> str | None:
    """The text behind "Corrected text:" in a reply, with the outer white space of the text `before`; None if none is.

    >>> corrected("It is red.\\n", Reply("Sure.\\nCorrected text:\\nIt is blue."))
    'It is blue.\\n'
    """
    text = _behind(reply, "Corrected text")
    if text is None:
        return None
    lead = before[: len(before) - len(before.lstrip())]
    return lead + text + before[len(before.rstrip()) :]


def _behind(reply: Reply, label: str) -> str | None:
    """All that stands behind the one line that begins with `label:`, without fences; None where there is none."""
    pattern = rf"^[ \t>*_#\"“]*{label}[ \t*_\"”]*:(?:[*_]*[\"”]?(?=\s))?"
    places = list(re.finditer(pattern, strip_reasoning(reply.text), re.IGNORECASE | re.MULTILINE))
    if len(places) != 1 or reply.finish == "length":
        return None
    text = strip_reasoning(reply.text)[places[0].end() :].strip()
    for wrapping in (_CODE, _FENCE):
        wrapped = wrapping.match(text)
        text = wrapped[2].strip() if wrapped else text
    return text if words(text) else None
