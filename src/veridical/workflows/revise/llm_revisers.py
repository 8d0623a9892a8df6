"""Revise with a chat model, which gets critiques of single claims or first criticises the whole text itself.

The method follows George and Stuhlmüller 2023, §4. The model writes the whole corrected text, and a diff turns the text
into edits. `Factored` undoes edits outside the criticised sentences, so that the model cannot spoil correct text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from veridical.detectors.claims.cited_claims import ResponseCitations
from veridical.detectors.claims.claim_checker import Question
from veridical.detectors.claims.llm_checker import LLMChecker, chat_messages
from veridical.detectors.claims.source_chunks import format_sources
from veridical.llm.prompts import fill, prompt
from veridical.llm.protocol import ChatModel, Failure, Message, Reply, Request
from veridical.llm.reply_parser import strip_reasoning
from veridical.records.types import Case, Claim, Edit, Usage
from veridical.text.diff import diff
from veridical.text.segment import has_words
from veridical.workflows.revise.rule_revisers import Draft, RevisionTask, overlapping_sentences
from veridical.workflows.revise.statements import Statement


@dataclass(frozen=True, slots=True)
class _Critique:
    """The critique of a statement.

    Attributes:
        statement: The statement.
        text: The critique.
        suggestion: The critic's revised claim, if it gives one.
        dismissed: Whether the critic finds the statement supported after all.
        unread: Whether the critic's reply was unreadable. If so, `text` contains the detector's reasons instead.
    """

    statement: Statement
    text: str
    suggestion: str | None = None
    dismissed: bool = False
    unread: bool = False

    def touched_by(self, edit: Edit, text: str) -> bool:
        """Tell whether an edit of `text` touches a sentence of the statement."""
        sentences = overlapping_sentences(text, self.statement.span)
        return any(
            edit.span.overlaps(s) or (not len(edit.span) and s.start <= edit.span.start <= s.end) for s in sentences
        )


class Factored:
    """Reviser that criticises each unsupported claim separately, and then asks a chat model for a corrected text.

    This is Algorithm 1 of George and Stuhlmüller 2023. The model gets the critiques of all claims together.

    Args:
        model: The chat model that writes the corrected text. If the case has a prompt, the model is asked in a
            follow-up turn after the response (A.3.2). Otherwise, the model gets the sources and the response.
        critic: The chat model that writes a critique of every unsupported claim. The critic compares the claim with the
            sources that the claim cites, or with all sources (A.3.1). A claim that the critic finds supported is kept.
            Default: the detector's reasons against a claim serve as its critique, and `model` writes a critique if
            there are no reasons.
        undo_unprompted: If true, edits of the model outside the criticised sentences are undone.
        suggest: If true, `model` gets the critic's rewording of each claim, too. In the paper (A.3.2), it gets only the
            critiques.
    """

    rewrites = True

    def __init__(
        self, model: ChatModel, *, critic: ChatModel | None = None, undo_unprompted: bool = True, suggest: bool = True
    ) -> None:
        self.model = model
        self.critic = critic
        self.undo_unprompted = undo_unprompted
        self.suggest = suggest
        self.name = f"factored:{model.name}" + (f"+{critic.name}" if critic else "")

    def draft(self, tasks: Sequence[RevisionTask]) -> list[Draft]:
        """Propose edits, and return them as one draft for each task, in the same order.

        All tasks are sent to the chat models together, first for the critiques that are needed and then for corrected
        texts.
        """
        critiques, usages = self._critiques(tasks)
        feedback = []
        for task_critiques in critiques:
            points = []
            for critique in (c for c in task_critiques if not c.dismissed):
                suggestion = f" It could say: {critique.suggestion}" if critique.suggestion and self.suggest else ""
                points.append(f"- On “{' '.join(critique.statement.text.split())}”: {critique.text}{suggestion}")
            feedback.append("\n".join(points))
        to_revise = [i for i, text in enumerate(feedback) if text]
        replies = _ask_for_revisions(self.model, [tasks[i].case for i in to_revise], [feedback[i] for i in to_revise])
        answers = dict(zip(to_revise, replies, strict=True))
        drafts = []
        for i, task in enumerate(tasks):
            n = len(critiques[i])
            unread, dismissed = sum(c.unread for c in critiques[i]), sum(c.dismissed for c in critiques[i])
            notes = [f"{unread} of {n} critiques could not be read"] if unread else []
            notes += [f"{dismissed} of {n} claims are supported after all, says the critic"] if dismissed else []
            if i in answers:
                standing = [c for c in critiques[i] if not c.dismissed] if self.undo_unprompted else None
                draft = _draft(task.case, answers[i], feedback[i], standing)
            else:
                draft = Draft((), "the critic finds every claim supported")
            usage = Usage.total([usages[i], draft.usage])
            drafts.append(replace(draft, notes=(*notes, *draft.notes), usage=usage))
        return drafts

    def _critiques(self, tasks: Sequence[RevisionTask]) -> tuple[list[list[_Critique]], list[Usage | None]]:
        """Collect the critiques of each task's unsupported statements, and the calls and tokens that they cost."""
        questions: dict[tuple[int, Statement], Question] = {}
        for i, task in enumerate(tasks):
            citations = ResponseCitations.of_case(task.case) if task.case.sources else None
            for statement in task.unsupported:
                if self.critic is not None or not statement.reasons:
                    cited = citations.cited_by(Claim(statement.text, (statement.span,))) if citations else ()
                    sources = tuple(source for source in cited if has_words(source.text)) or task.case.sources
                    questions[i, statement] = Question(task.case.id, statement.text, sources)
        checker = LLMChecker(self.critic or self.model, method="critique")
        results = dict(zip(questions, checker.check(list(questions.values())), strict=True))
        critiques: list[list[_Critique]] = [[] for _ in tasks]
        for i, task in enumerate(tasks):
            for statement in task.unsupported:
                result = results.get((i, statement))
                if result is None or result.score is None:  # not asked, or not readable: use the detector's reasons
                    critique = _Critique(statement, statement.critique, unread=result is not None)
                else:
                    text = result.reason or statement.critique
                    critique = _Critique(statement, text, result.correction, dismissed=result.score == 0.0)
                critiques[i].append(critique)
        usages = [Usage.total(r.usage for (j, _), r in results.items() if j == i) for i in range(len(tasks))]
        return critiques, usages


class SelfCorrection:
    """Reviser that asks a chat model for a critique of the whole text (A.4.1), and then for a corrected text (A.5).

    This is the baseline of George and Stuhlmüller 2023, §4.1. It does not use the detector's findings. The reason of
    every edit is the whole critique.
    """

    rewrites = True

    def __init__(self, model: ChatModel) -> None:
        self.model = model
        self.name = f"self:{model.name}"

    def draft(self, tasks: Sequence[RevisionTask]) -> list[Draft]:
        """Propose edits, and return them as one draft for each task, in the same order.

        All tasks are sent to the chat model together, first for critiques and then for corrected texts.
        """
        prompts = prompt("revise_document"), prompt("revise_feedback")
        requests = [
            Request(
                chat_messages(prompts, format_sources(task.case.sources), response=task.case.response),
                max_tokens=1024,
                stage="critique",
                prompt="+".join(p.hash for p in prompts),
            )
            for task in tasks
        ]
        outcomes = self.model.chat(requests) if requests else []
        feedback = [_text_after(o, "Feedback") if isinstance(o, Reply) else None for o in outcomes]
        to_revise = [(i, text) for i, text in enumerate(feedback) if text]
        cases = [tasks[i].case for i, _ in to_revise]
        replies = iter(_ask_for_revisions(self.model, cases, [text for _, text in to_revise]))
        drafts = []
        for task, outcome, text in zip(tasks, outcomes, feedback, strict=True):
            if text:
                draft = _draft(task.case, next(replies), text, None)
                drafts.append(replace(draft, usage=Usage.total([outcome.usage, draft.usage])))
            else:
                problem = outcome.reason if isinstance(outcome, Failure) else "the reply holds no feedback"
                drafts.append(Draft((), f"no critique: {problem}", usage=outcome.usage))
        return drafts


_Answer = tuple[Reply | Failure, Usage]


def _ask_for_revisions(model: ChatModel, cases: Sequence[Case], feedback: Sequence[str]) -> list[_Answer]:
    """Ask for revisions, and return each outcome with its usage. If a request is too long, send it without sources."""
    pairs = list(zip(cases, feedback, strict=True))
    outcomes = model.chat([_revision_request(case, text) for case, text in pairs]) if pairs else []
    usages = [[outcome.usage] for outcome in outcomes]
    long = [i for i, o in enumerate(outcomes) if isinstance(o, Failure) and o.kind == "context" and cases[i].sources]
    again = model.chat([_revision_request(*pairs[i], with_sources=False) for i in long]) if long else []
    for i, outcome in zip(long, again, strict=True):
        outcomes[i] = outcome
        usages[i].append(outcome.usage)
    return [(outcome, Usage.total(each) or Usage()) for outcome, each in zip(outcomes, usages, strict=True)]


def _revision_request(case: Case, feedback: str, *, with_sources: bool = True) -> Request:
    """Build a request: a follow-up turn after the response if the case has a prompt (A.3.2), else a single message."""
    if case.prompt is not None and with_sources:
        prompts = [prompt("revise_followup")]
        messages = [Message("user", case.prompt), Message("assistant", case.response)]
        messages.append(Message("user", fill(prompts[0], feedback=feedback)))
    else:
        prompts = [prompt("revise_document"), prompt("revise_text")]
        document = format_sources(case.sources) if with_sources and case.sources else _NO_SOURCES
        tail = fill(prompts[1], response=case.response, feedback=feedback)
        messages = [Message("user", f"{fill(prompts[0], document=document)}\n\n{tail}")]
    return Request(
        tuple(messages),
        max_tokens=min(8192, 256 + len(case.response.encode()) // 2),
        stage="revise",
        prompt="+".join(p.hash for p in prompts),
    )


_NO_SOURCES = "(not shown here; rely on what was found)"


def _draft(case: Case, answer: _Answer, feedback: str, critiques: Sequence[_Critique] | None) -> Draft:
    """Turn an answer into edits. If `critiques` are given, keep only the edits that touch a criticised sentence."""
    outcome, usage = answer
    if isinstance(outcome, Failure):
        return Draft((), f"no revision: {outcome.reason}", feedback, usage=usage)
    if outcome.finish == "length":
        return Draft((), "no revision: the corrected text was cut short", feedback, usage=usage)
    text = corrected_text(case.response, outcome)
    if text is None:
        return Draft((), "no revision: the reply holds no corrected text", feedback, usage=usage)
    edits = diff(case.response, text, because=feedback)
    if critiques is None:
        return Draft(edits, None if edits else "the model changes nothing", feedback, usage=usage)
    prompted = []
    for edit in edits:
        reasons = [critique.text for critique in critiques if critique.touched_by(edit, case.response)]
        if reasons:
            prompted.append(replace(edit, because="; ".join(dict.fromkeys(reasons))))
    undone = len(edits) - len(prompted)
    notes = (f"{undone} edits touch nothing that was criticised: undone",) if undone else ()
    problem = None if prompted else "the model changes nothing that was criticised"
    return Draft(tuple(prompted), problem, feedback, notes, usage)


_FENCE = re.compile(r"\A<<<(\w+ [0-9a-f]{12})\n(.*)\n\1>>>\Z", re.DOTALL)
_FENCE_LINE = re.compile(r"<<<\w+ [0-9a-f]{12}$|^\w+ [0-9a-f]{12}>>>", re.MULTILINE)
_REVISING = ("revise_document", "revise_text", "revise_followup")
_CODE = re.compile(r"\A(`{3,})\w*\n(.*)\n\1\Z", re.DOTALL)


def corrected_text(before: str, reply: Reply) -> str | None:
    r"""Extract the text after "Corrected text:" from a model's reply, with the surrounding white space of `before`.

    Return None if the reply has no such text or was cut off. Return None, too, if the text repeats instructions of the
    prompt, or lines that enclose a text in the prompt.

    Args:
        before: The text before the correction.
        reply: The reply of the chat model.

    >>> corrected_text("It is red.\n", Reply("Sure.\nCorrected text:\nIt is blue."))
    'It is blue.\n'
    """
    text = _text_after(reply, "Corrected text")
    if text is None or _repeats_prompt(text, before):
        return None
    leading = before[: len(before) - len(before.lstrip())]
    return leading + text + before[len(before.rstrip()) :]


def _repeats_prompt(text: str, before: str) -> bool:
    """Tell whether a text contains a fence or a line of the revision prompts that the text before lacks."""
    lines = (line for name in _REVISING for line in prompt(name).text.splitlines() if len(line) > 20)
    return bool(_FENCE_LINE.search(text) and not _FENCE_LINE.search(before)) or any(
        line in text and line not in before for line in lines
    )


def _text_after(reply: Reply, label: str) -> str | None:
    """Read the text after `label:`, without fences. Return None unless exactly one line begins with the label."""
    pattern = rf"^[ \t>*_#\"“]*{label}[ \t*_\"”]*:(?:[*_]*[\"”]?(?=\s))?"
    text = strip_reasoning(reply.text)
    lines = list(re.finditer(pattern, text, re.IGNORECASE | re.MULTILINE))
    if len(lines) != 1 or reply.finish == "length":
        return None
    text = text[lines[0].end() :].strip()
    for wrapping in (_CODE, _FENCE):
        wrapped = wrapping.match(text)
        text = wrapped[2].strip() if wrapped else text
    return text if has_words(text) else None
