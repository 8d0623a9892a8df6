"""Asking a chat model whether sources back a claim, and reading what it answers (C §2.2, A.1.2, A.1.3).

The document comes first in every prompt. A model is asked once a claim and window of the sources; any window that
supports a claim supports it. A reply that is not plainly an answer is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import Literal

from veridical.core.errors import InputError
from veridical.core.quotes import find_quote
from veridical.core.segment import words
from veridical.core.types import DEFAULT_THRESHOLD, Evidence, Source, Usage
from veridical.detectors.claims.claim_checker import Finding, Question
from veridical.detectors.claims.source_chunks import windows
from veridical.llm.prompts import PromptTemplate, fill, prompt
from veridical.llm.protocol import ChatModel, Failure, Message, Reply, Request
from veridical.llm.reply_parser import labelled, numbered, quotes, strip_reasoning, yes_no, yes_no_mass

__all__ = ["WAYS", "ModelChecker", "Shot", "quoted", "read_cot", "read_yes_no", "turns"]

WAYS = ("yes_no", "cot")
_SHOWN = 5  # quotes named in one reason


@dataclass(frozen=True, slots=True)
class Shot:
    """A worked example for a prompt: a document, a claim (or a whole response) about it, and the right answer."""

    document: str
    claim: str
    supported: bool
    reasoning: str = ""


def turns(
    head: PromptTemplate, tail: PromptTemplate, shots: Sequence[tuple[str, str, str]], whole: str, **asked: str
) -> tuple[Message, ...]:
    """The messages that ask `tail` about the document `whole`; `shots`: (document, claim, answer) of worked examples.

    The document comes first, and its fence depends on nothing else, so that a server's prefix cache serves every claim.
    """
    (place,) = asked
    made = []
    for text, claim, answer in shots:
        made += [Message("user", _asked(head, tail, text, {place: claim})), Message("assistant", answer)]
    return (*made, Message("user", _asked(head, tail, whole, asked)))


def _asked(head: PromptTemplate, tail: PromptTemplate, whole: str, asked: dict[str, str]) -> str:
    return f"{fill(head, document=whole)}\n\n{fill(tail, **asked)}"


def read_yes_no(reply: Reply, label: str, least_mass: float) -> Finding:
    """P(supported) from the reply's first token, renormalised over Yes and No (C §2.2); else from its one word, 0 or 1.

    Without a score: neither word is said plainly, or the two share less than `least_mass` of the token's probability.
    """
    masses = yes_no_mass(reply)
    if masses is not None and sum(masses) > 0:
        if sum(masses) < least_mass:
            return Finding(None, f"Yes and No have a probability of only {sum(masses):.2g} together", usage=reply.usage)
        return Finding(masses[1] / sum(masses), usage=reply.usage)
    return _plain(reply, labelled(reply.text, label) or reply.text, label)


def _plain(reply: Reply, answer: str, label: str) -> Finding:
    said = yes_no(answer)
    if said is None:
        return Finding(
            None, f"no plain Yes or No in the reply: {_short(strip_reasoning(reply.text))}", usage=reply.usage
        )
    return Finding(0.0 if said else 1.0, usage=reply.usage, bare=True)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return f"“{line[:60]}…”" if len(line) > 61 else f"“{line}”" if line else "it is empty"


def read_cot(reply: Reply, label: str, claim: str, sources: Sequence[Source]) -> Finding:
    """0 or 1 from the answer on the reply's last line, with the quotes before it as evidence (C A.1.3).

    A quote of three words or more that stands neither in a source nor in the claim is named in `reason` and counted.
    """
    lines = [line for line in strip_reasoning(reply.text).splitlines() if line.strip()]
    answer = labelled(reply.text, label)
    if reply.finish == "length":
        return Finding(None, "the reply was cut short", usage=reply.usage)
    if answer is None or labelled(lines[-1], label) is None:
        why = f"no plain line “{label}: Yes or No” ends the reply: {_short(lines[-1] if lines else '')}"
        return Finding(None, why, usage=reply.usage)
    found = _plain(reply, answer, label)
    if found.score is None:
        return found
    told = " ".join(" ".join(lines[:-1]).split())
    told = re.sub(r"^[*_#> ]*reasoning[*_ ]*:[*_ ]*", "", told, flags=re.IGNORECASE)
    evidence, strange = quoted(quotes(told), claim, sources)
    if strange:
        told = f"quotes what is in no source: {', '.join(f'“{quote}”' for quote in strange[:_SHOWN])}. {told}".strip()
    return replace(found, reason=told or None, evidence=evidence, bare=False, strange=len(strange))


_ELLIPSIS = re.compile(r"\s*[\[(]?(?:…|\.{3,})[\])]?\s*")


def quoted(said: Sequence[str], claim: str, sources: Sequence[Source]) -> tuple[tuple[Evidence, ...], list[str]]:
    """Where the quotes stand in the sources, and those that stand nowhere."""
    evidence: dict[Evidence, None] = {}
    strange: list[str] = []
    for part in (part for quote in said for part in _ELLIPSIS.split(quote) if words(part)):
        places = (
            Evidence(s.id, span)
            for s in sources
            if (span := find_quote(s.text, part.strip(), min_similarity=_QUOTE_SIMILARITY))
        )
        place = next(places, None)
        if place is not None:
            evidence.setdefault(place)
        elif len(words(part)) >= 3 and find_quote(claim, part.strip(), min_similarity=_QUOTE_SIMILARITY) is None:
            strange.append(part)
    return tuple(evidence), strange


_QUOTE_SIMILARITY = 0.95


class ModelChecker:
    """Asks a chat model whether the sources back a claim.

    `way` is "yes_no", the probability of the word Yes (C A.1.2), or "cot", reasoning with quotes and then 0 or 1
    (C A.1.3). `window` is how many characters of the sources go into one prompt (None = all; a window that the model
    says is too long is halved). `claims_per_call` above 1 asks for several claims of the same sources at once, each
    answered 0 or 1: cheaper, and less exact. `least_mass` is the probability that Yes and No must have together.
    """

    reads_citations = True

    def __init__(
        self,
        model: ChatModel,
        *,
        way: Literal["yes_no", "cot"] = "yes_no",
        shots: Sequence[Shot] = (),
        window: int | None = None,
        claims_per_call: int = 1,
        least_mass: float = 0.5,
        head: str = "verify_document",
    ) -> None:
        if way not in WAYS:
            raise InputError(f"the way of checking is {way!r}", hint="yes_no or cot")
        if claims_per_call < 1 or (window is not None and window < 1):
            raise InputError(f"claims_per_call is {claims_per_call} and window is {window}", hint="both are at least 1")
        if claims_per_call > 1 and (way == "cot" or shots):
            raise InputError(
                "several claims per call take neither reasoning nor shots", hint="use yes_no without shots"
            )
        self.model = model
        self.way = way
        self.shots = tuple(shots)
        self.window = window
        self.claims_per_call = claims_per_call
        self.least_mass = least_mass
        self.head = head
        more = [("claims_per_call", claims_per_call, 1), ("window", window, None)]
        self.name = f"{way}{f'+{len(self.shots)}' if shots else ''}:{model.name}" + "".join(
            f",{option}={value}" for option, value, usual in more if value != usual
        )

    @cached_property
    def prompts(self) -> tuple[PromptTemplate, PromptTemplate]:
        """The prompt that holds the document, and the one that asks."""
        asking = "verify_many" if self.claims_per_call > 1 else f"verify_{self.way}"
        return prompt(self.head), prompt(asking)

    def check(self, questions: Sequence[Question]) -> list[Finding]:
        """One finding a claim; all requests go to the model in one call, and again those whose window was too long."""
        tasks = [
            _Task(indices, text)
            for indices in self._batches(questions)
            for text in windows(questions[indices[0]].sources, self.window)
        ]
        answers: dict[int, list[Finding]] = {i: [] for i in range(len(questions))}
        while tasks:
            replies = self.model.chat([self._request(task, questions) for task in tasks])
            again: list[_Task] = []
            for task, reply in zip(tasks, replies, strict=True):
                halves = _halves(task, reply)
                again += halves
                spent = reply.usage if halves else None
                found = [] if halves else self._read(task, reply, questions)
                for i, finding in zip(task.indices, found, strict=False):
                    answers[i].append(finding)
                if spent is not None:  # the call that was refused may have cost something
                    answers[task.indices[0]].append(Finding(None, usage=spent, reason=_REFUSED))
            tasks = again
        return [_any_window(answers[i]) for i in range(len(questions))]

    def _batches(self, questions: Sequence[Question]) -> Iterator[tuple[int, ...]]:
        """Indices of questions that share a call: of one case, about the same sources, next to each other."""
        for _, group in groupby(range(len(questions)), key=lambda i: (questions[i].case_id, questions[i].sources)):
            same = list(group)
            for at in range(0, len(same), self.claims_per_call):
                yield tuple(same[at : at + self.claims_per_call])

    def _request(self, task: _Task, questions: Sequence[Question]) -> Request:
        head, tail = self.prompts
        several, reasoned = self.claims_per_call > 1, self.way == "cot"
        if several:
            lines = (" ".join(questions[i].claim.split()) for i in task.indices)
            listing = "\n".join(f"{n}. {line}" for n, line in enumerate(lines, 1))
            messages = turns(head, tail, (), task.text, claims=listing)
        else:
            shots = [(shot.document, shot.claim, _answer(shot, reasoned)) for shot in self.shots]
            messages = turns(head, tail, shots, task.text, claim=questions[task.indices[0]].claim)
        return Request(
            messages,
            max_tokens=1024 if reasoned else 16 + 8 * (several and len(task.indices)),
            top_logprobs=None if reasoned or several else 10,
            stage="check",
            prompt=f"{head.hash}+{tail.hash}",
        )

    def _read(self, task: _Task, reply: Reply | Failure, questions: Sequence[Question]) -> list[Finding]:
        if isinstance(reply, Failure):
            rest = [Finding(None, reply.reason) for _ in task.indices[1:]]
            return [Finding(None, reply.reason, usage=reply.usage), *rest]
        question = questions[task.indices[0]]
        if self.claims_per_call > 1:
            return _read_many(reply, len(task.indices))
        if self.way == "cot":
            return [read_cot(reply, "Supported", question.claim, question.sources)]
        return [read_yes_no(reply, "Supported", self.least_mass)]


@dataclass(frozen=True, slots=True)
class _Task:
    """One call: the questions it answers, by index, and the window of their sources."""

    indices: tuple[int, ...]
    text: str
    halved: int = 0


_REFUSED = "longer than the model's context"
_HALVINGS = 6


def _halves(task: _Task, reply: Reply | Failure) -> list[_Task]:
    """The task in two windows where the model said that it is too long; [] where it did not, or after many halvings."""
    if not isinstance(reply, Failure) or reply.kind != "context" or task.halved >= _HALVINGS:
        return []
    parts = windows([Source("", task.text)], len(task.text) // 2 + 1)
    return [replace(task, text=text, halved=task.halved + 1) for text in parts] if len(parts) > 1 else []


def _answer(shot: Shot, reasoned: bool) -> str:
    word = "Yes" if shot.supported else "No"
    return f"Reasoning: {shot.reasoning}\nSupported: {word}" if reasoned else word


def _read_many(reply: Reply, n: int) -> list[Finding]:
    lines = numbered(reply.text)
    if reply.finish == "length" and lines:
        lines.pop(max(lines))  # the last line may be half a line
    found = []
    for i in range(1, n + 1):
        said = yes_no(lines[i]) if i in lines else None
        why = None if said is not None else f"no plain Yes or No for claim {i} in the reply: {_short(lines.get(i, ''))}"
        score = None if said is None else 0.0 if said else 1.0
        found.append(Finding(score, why, usage=reply.usage if i == 1 else None, bare=said is not None))
    return found


def _any_window(found: Sequence[Finding]) -> Finding:
    """One finding from those of all windows: the best supported one.

    A window that could not be read might have supported the claim: then only a plain yes of another one counts.
    """
    usage = Usage.total(finding.usage for finding in found)
    read = [finding for finding in found if finding.score is not None]
    lost = [finding for finding in found if finding.score is None and finding.reason != _REFUSED]
    best = min(read, key=lambda finding: finding.score or 0.0, default=None)
    if best is None or (lost and (best.score or 0.0) >= DEFAULT_THRESHOLD):
        why = lost[0].reason if lost else _REFUSED
        return Finding(None, why if len(found) == 1 else f"{len(lost)} of {len(found)} windows: {why}", usage=usage)
    evidence = tuple(dict.fromkeys(e for finding in read for e in finding.evidence))
    return replace(best, usage=usage, evidence=evidence)
