"""The generator: a chat model, or a guarded local model, verbalises exactly the arguments that a case gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from veridical.core.detector import Detector
from veridical.core.errors import CannotJudgeError
from veridical.core.segment import has_words, sentences
from veridical.core.types import Case, Checked, Outcome
from veridical.llm.prompts import fill, prompt
from veridical.llm.protocol import ChatModel, Failure, Message, Request
from veridical.models.template import render_chat
from veridical.revise import Revised, Reviser, revise
from veridical_lab.models.tuned import reads_bare_tasks
from veridical_lab.revise.omissions import put_in
from veridical_lab.tasks.perspectives.task_format import (
    INTRODUCTION,
    VALUE_ENDS,
    Passages,
    perspectives_of,
    read_target,
    read_value,
    target_so_far,
    task_input,
)

if TYPE_CHECKING:
    from veridical_lab.guard import Guard

__all__ = ["UNREAD", "Answer", "answer_cases", "answer_request", "guarded_passages", "revise_answer"]

UNREAD = ("malformed", "empty")
"""The kinds of failures after which a model may be asked passage by passage."""

SIDES = {"pro": "in favour", "support": "in favour", "con": "against", "undermine": "against"}


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer with several perspectives.

    Attributes:
        introduction: A sentence that leads from the question to the perspectives; it is not checked.
        checked: The passages as the response of a case, and what detectors find in them; after revision, if any.
        revised: How the passages were revised.
    """

    introduction: str
    checked: Checked
    revised: tuple[Revised, ...] = ()

    @property
    def text(self) -> str:
        """The whole answer."""
        return f"{self.introduction}\n\n{self.checked.case.response}"

    @property
    def outcome(self) -> Outcome:
        """What was decided on it."""
        return self.checked.outcome


def answer_request(case: Case, *, temperature: float = 0.0, seed: int | None = None, max_tokens: int = 1024) -> Request:
    """The request for an answer from the sources of `case`, each with a perspective; the response is ignored."""
    template = prompt("perspectives_answer", "veridical_lab.tasks")
    case = replace(case, response="")
    keys = ", ".join(f'"{name}"' for name in perspectives_of(case))
    text = fill(template, task=task_input(case), keys=keys)
    return Request(
        (Message("user", text),),
        temperature=temperature,
        max_tokens=max_tokens,
        seed=seed,
        stage="answer",
        prompt=template.hash,
    )


def answer_cases(
    model: ChatModel,
    cases: Sequence[Case],
    *,
    temperature: float = 0.0,
    seed: int | None = None,
    max_tokens: int = 1024,
) -> list[tuple[Passages, Case] | Failure]:
    """For each case what `model` writes, and the case with its passages as the response; or why there is none.

    Where an answer cannot be read, a model that goes on from a given text (`Request.prefill`) is asked again, passage
    by passage: the keys of the JSON object are given, and it writes the values.

    Args:
        model: The chat model.
        cases: Cases whose sources have perspectives, as `retrieve` makes them.
        temperature: 0 = greedy; Chang et al. 2024, §4.1, also sample at 0.7.
        seed: For sampling.
        max_tokens: The most tokens of an answer, and of each passage where these are written apart; one that is cut
            counts as none.
    """
    requests = [answer_request(case, temperature=temperature, seed=seed, max_tokens=max_tokens) for case in cases]
    if reads_bare_tasks(model):
        bare = [(Message("user", task_input(replace(case, response=""))),) for case in cases]
        requests = [replace(r, messages=messages, prompt="") for r, messages in zip(requests, bare, strict=True)]
    results: list[tuple[Passages, Case] | Failure] = []
    for case, request, outcome in zip(cases, requests, model.chat(requests) if requests else [], strict=True):
        if isinstance(outcome, Failure):
            results.append(outcome)
            continue
        passages = read_target(outcome.text, list(perspectives_of(case)))
        if outcome.finish == "length":
            passages = f"it breaks off after {max_tokens} tokens"
        if isinstance(passages, str):
            results.append(Failure(f"the answer cannot be read: {passages}", "malformed", False, outcome.usage))
        else:
            results.append((passages, _written(case, passages, request)))
    unread = [i for i, result in enumerate(results) if isinstance(result, Failure) and result.kind in UNREAD]
    again = _by_passages(model, [cases[i] for i in unread], [requests[i] for i in unread])
    for i, written in zip(unread, again, strict=True):
        if written is not None:
            results[i] = (written, _written(cases[i], written, requests[i]))
    return results


def _written(case: Case, passages: Passages, request: Request) -> Case:
    return replace(case, response=passages.response, prompt=request.messages[-1].content)


def _by_passages(model: ChatModel, cases: Sequence[Case], requests: Sequence[Request]) -> list[Passages | None]:
    """The answers whose keys are given, one after the other; None where a value cannot be read.

    Of the introduction the first sentence counts; it is not checked.
    """
    names = [(INTRODUCTION, *perspectives_of(case)) for case in cases]
    fields: list[dict[str, str]] = [{} for _ in cases]
    going_on = list(range(len(cases)))
    while going_on:
        following = [names[i][len(fields[i])] for i in going_on]
        asked = [
            replace(requests[i], prefill=target_so_far(fields[i], name), stop=VALUE_ENDS)
            for i, name in zip(going_on, following, strict=True)
        ]
        for i, name, outcome in zip(going_on, following, model.chat(asked), strict=True):
            if isinstance(outcome, Failure):
                continue
            said = sentences(outcome.text)
            if name == INTRODUCTION and len(said) > 1:
                value = read_value(said[0].of(outcome.text))  # one sentence is asked for; small models go on and on
            else:
                value = None if outcome.finish == "length" else read_value(outcome.text)
            if value is not None:
                fields[i][name] = value
        # those with a value more that still lack one
        going_on = [
            i for i, name in zip(going_on, following, strict=True) if name in fields[i] and name != names[i][-1]
        ]
    return [
        Passages(of_case.pop(INTRODUCTION), of_case) if len(of_case) == len(wanted) else None
        for of_case, wanted in zip(fields, names, strict=True)
    ]


def revise_answer(
    case: Case, checker: Detector, reviser: Reviser, *, threshold: float | Mapping[str, float] | None = None
) -> tuple[Revised, Revised]:
    """How `reviser` changes what is unsupported in a written case, and what is then put in of what is left out.

    The second revision starts from the text of the first; its text is the final one. What is unsupported and left out
    `checker` says; `threshold` is as in `revise`.
    """
    (first,) = revise([case], checker, reviser, threshold=threshold)
    (second,) = put_in([replace(case, response=first.revision.text)], checker, threshold=threshold)
    return first, second


def guarded_passages(case: Case, guard: Guard) -> Passages:
    """An answer that a local model writes passage by passage with a detector in the loop.

    Each perspective has a prompt of its own, with its arguments as the sources, and the answer is plain text: what a
    detector monitors are sentences, not JSON. The introduction is ours.
    """
    passages = {}
    for name, arguments in perspectives_of(replace(case, response="")).items():
        listing = "\n".join(f"- {argument}" for argument in arguments)
        where = SIDES.get(name.casefold(), f"of the perspective “{name}”")
        text = (
            f"Question: {case.question}\n\nArguments {where}:\n{listing}\n\nState all of these arguments, and no "
            "others, in one short passage of text."
        )
        if getattr(guard.model.tokenizer, "chat_template", None):
            text, _ = render_chat(guard.model.tokenizer, [("user", text)])
        else:
            text += "\n\nPassage:"
        sources = tuple(source for source in case.sources if source.perspective == name)
        own = Case(f"{case.id}/{name}", "", sources, question=case.question, prompt=text)
        passages[name] = " ".join(guard.generate(own).text.split())
        if not has_words(passages[name]):
            raise CannotJudgeError(f"the model wrote no passage for {name!r}", hint="a larger model, or other sampling")
    return Passages(f"There are different views on the question “{case.question}”.", passages)
