"""Write answers that state the arguments of a case, with a passage for each perspective.

The answer is written by a chat model, or by a local model with a detector in the loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from veridical.inference.chat_template import render_chat
from veridical.llm.prompts import fill, prompt
from veridical.llm.protocol import ChatModel, Failure, Message, Request
from veridical.records.detector import Detector
from veridical.records.edits import carry
from veridical.records.errors import CannotJudgeError
from veridical.records.types import Case, Checked, Outcome
from veridical.text.segment import has_words, sentences, words
from veridical.workflows.revise import Revised, Reviser, revise
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

UNREAD = ("malformed", "empty", "cut")
"""After failures of these kinds, a model may be asked for one passage at a time."""

_MOST_TOKENS = 1024
SIDES = {"pro": "in favour", "support": "in favour", "con": "against", "undermine": "against"}


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer with several perspectives.

    Attributes:
        introduction: A sentence that leads from the question to the perspectives. Detectors do not check it.
        checked: The passages as the response of a case, with the findings of detectors. After a revision, both are for
            the revised passages.
        revised: The revisions of the passages.
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
        """The outcome of the check."""
        return self.checked.outcome


def answer_tokens(case: Case) -> int:
    """Estimate the number of tokens of an answer that states all sources of a case: four for each word, plus 96.

    The estimate is at most 1024. It is used because a constant large enough for every answer would be too large for
    small models.
    """
    return min(_MOST_TOKENS, 96 + 4 * sum(len(words(source.text)) for source in case.sources))


def answer_request(
    case: Case, *, temperature: float = 0.0, seed: int | None = None, max_tokens: int | None = None
) -> Request:
    """Make the request for an answer from the sources of a case. Each source must have a perspective.

    The `response` of the case is ignored.
    """
    template = prompt("perspectives_answer", "veridical_lab.tasks")
    case = replace(case, response="")
    keys = ", ".join(f'"{name}"' for name in perspectives_of(case))
    text = fill(template, task=task_input(case), keys=keys)
    return Request(
        (Message("user", text),),
        temperature=temperature,
        max_tokens=answer_tokens(case) if max_tokens is None else max_tokens,
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
    max_tokens: int | None = None,
) -> list[tuple[Passages, Case] | Failure]:
    """Answer each case with a model. Return the passages and the case with them as response, or the failure.

    If an answer cannot be read and the model can continue a text (`Request.prefill`), the model is asked for one
    passage after the other. It is then given the keys of the JSON object and only writes the values.

    Args:
        model: The chat model.
        cases: The cases to answer. Their sources must have perspectives, as in the cases that `retrieve` makes.
        temperature: The sampling temperature. 0 always takes the likeliest token. Chang et al. 2024, §4.1, also sample
            at 0.7.
        seed: The seed for sampling.
        max_tokens: An answer, or each passage if passages are written one by one, may have at most this many tokens. A
            text that reaches the limit counts as a failure. Default: `answer_tokens`.
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
            passages = f"it breaks off after {request.max_tokens} tokens"
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
    """Write the values of each answer, key by key. None for an answer with a value that cannot be read.

    Only the first sentence of the introduction is used.
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
            spans = sentences(outcome.text)
            if name == INTRODUCTION and len(spans) > 1:
                value = read_value(spans[0].of(outcome.text))  # small models do not stop after one sentence
            else:
                value = None if outcome.finish == "length" else read_value(outcome.text)
            if value is not None:
                fields[i][name] = value
        # continue with the answers that have this value and lack further ones
        going_on = [
            i for i, name in zip(going_on, following, strict=True) if name in fields[i] and name != names[i][-1]
        ]
    return [
        Passages(of_case.pop(INTRODUCTION), of_case) if len(of_case) == len(keys) else None
        for of_case, keys in zip(fields, names, strict=True)
    ]


def revise_answer(
    passages: Passages,
    case: Case,
    checker: Detector,
    reviser: Reviser,
    *,
    threshold: float | Mapping[str, float] | None = None,
) -> tuple[Revised, Revised]:
    """Revise the unsupported parts of an answer, then insert the arguments that the answer leaves out.

    `case` has the answer as its response, and `passages` are the passages of the answer. Each argument is inserted into
    the passage on its perspective. `checker` finds both the unsupported parts and the omitted arguments, with
    `threshold` as in `revise`. The second revision starts from the text of the first one, and its text is the final
    one.
    """
    (first,) = revise([case], checker, reviser, threshold=threshold)
    places = {name: carry(span, first.revision.edits) for name, span in passages.spans.items()}
    revised = replace(case, response=first.revision.text)
    (second,) = put_in([revised], checker, passages=[places], threshold=threshold)
    return first, second


def guarded_passages(case: Case, guard: Guard) -> Passages:
    """Write an answer with a local model, one passage at a time, with a detector in the loop.

    Each perspective has its own prompt, with its arguments as the sources. Passages are plain text, so that the
    detector monitors sentences and not JSON. The introduction is a fixed sentence.
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
        passage_case = Case(f"{case.id}/{name}", "", sources, question=case.question, prompt=text)
        passages[name] = " ".join(guard.generate(passage_case).text.split())
        if not has_words(passages[name]):
            raise CannotJudgeError(f"the model wrote no passage for {name!r}", hint="a larger model, or other sampling")
    return Passages(f"There are different views on the question “{case.question}”.", passages)
