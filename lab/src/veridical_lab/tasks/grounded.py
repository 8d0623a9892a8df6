"""Generate texts from sources with a model: summaries, dialogue, and descriptions of data.

The tasks are those of CH-Wang et al. 2024, §3. Prompts are named templates (`inference/template.py`), so that detectors
can read a response after the same prompt that produced it. A response has no labels until people or a detector label
it, under their own names.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from veridical.inference.local_model import LocalModel
from veridical.inference.template import Template, get_template, render
from veridical.models.generation import generate
from veridical.models.sampling import Sampler
from veridical.records.decide import decide, flagged
from veridical.records.detector import Detector
from veridical.records.errors import CannotJudgeError, InputError, UnknownNameError
from veridical.records.judging import judge
from veridical.records.types import Case, Example, Judgement, Thresholds
from veridical.text.segment import sentences
from veridical_lab.models.encode import Encoded, encode

UNLABELLED = "nobody"  # the annotator's name in the gold of an unlabelled response


@dataclass(frozen=True, slots=True)
class GroundedTask:
    """A task, with its default template and the end of a response.

    A response ends after this many `sentences`, or at a line break if the number is None.
    """

    name: str
    template: str
    sentences: int | None
    max_tokens: int

    def ends(self, text: str) -> bool:
        """Return whether the text so far contains the whole response."""
        if self.sentences is None:
            return "\n" in text
        return len(sentences(text)) > self.sentences

    def cut(self, text: str) -> str:
        """Cut a text at the end of the response, and remove white space around the response."""
        if self.sentences is None:
            return text.partition("\n")[0].strip()
        first = sentences(text)[: self.sentences]
        return text[first[0].start : first[-1].end] if first else ""


TASKS = {
    task.name: task
    for task in (
        GroundedTask("summarise", "tldr", sentences=3, max_tokens=128),
        GroundedTask("dialogue", "dialogue", sentences=None, max_tokens=64),
        GroundedTask("data-to-text", "data-to-text", sentences=None, max_tokens=96),
    )
}


def find_task(name: str) -> GroundedTask:
    """Look up the task called `name`.

    Raises:
        UnknownNameError: There is no such task. The message suggests the closest names.
    """
    if name not in TASKS:
        raise UnknownNameError("task", name, TASKS)
    return TASKS[name]


def inputs_of(examples: Iterable[Example], template: str, *, sample: int | None = None, seed: int = 0) -> list[Example]:
    """Make inputs from examples: their cases with a prompt instead of a response, without duplicate prompts.

    If several examples have the same prompt, only the first example is used (E2E has about eight references for each
    set of attributes). Groups and annotations are dropped, because they are about the old response.

    Args:
        examples: The labelled examples.
        template: The name of a prompt template.
        sample: The number of inputs to draw. They keep their order. Default: all inputs.
        seed: The random seed of the sample.

    Raises:
        InputError: The sample is below 1, the template is "chat" or "raw", or no example has a source.
    """
    if sample is not None and sample < 1:
        raise InputError(f"the sample is {sample}", hint="1 or more")
    if template in ("chat", "raw"):
        raise InputError(f"no prompt can be made with the template {template!r}", hint="a template of this program")
    by_prompt: dict[str, Example] = {}
    for example in examples:
        case = replace(example.case, response="")
        prompt = render(case, template).text
        if case.sources and prompt not in by_prompt:
            gold = _unlabelled(case, "not written yet")
            by_prompt[prompt] = replace(example, case=replace(case, prompt=prompt), gold=gold, group=(), annotations=())
    if not by_prompt:
        raise InputError("no example has a source", hint="there is nothing to write from")
    inputs = list(by_prompt.values())
    if sample is None or sample >= len(inputs):
        return inputs
    return [inputs[i] for i in sorted(random.Random(f"{seed}\0sample").sample(range(len(inputs)), sample))]


def _unlabelled(case: Case, note: str) -> Judgement:
    return Judgement(case.id, UNLABELLED, judged=(), notes=(note,))


@dataclass(frozen=True, slots=True)
class Writing:
    """Options for writing responses. CH-Wang et al. 2024, §3.1, sample from the two likeliest tokens at temperature 1.

    If `template` or `max_tokens` is None, that of the task is used. A prompt has at most `max_prompt` tokens, or as
    many as the model can read if `max_prompt` is None. If `shorten` is set, sources that do not fit are truncated in
    prompt and case. Otherwise, the input is skipped.
    """

    task: GroundedTask
    template: str | None = None
    top_k: int = 2
    temperature: float = 1.0
    max_tokens: int | None = None
    max_prompt: int | None = None
    seed: int = 0
    shorten: bool = False

    @property
    def prompt(self) -> str:
        """The name of the template."""
        return self.template or self.task.template

    @property
    def tokens(self) -> int:
        """The maximum number of tokens of a response."""
        return self.max_tokens or self.task.max_tokens

    def id_of(self, given: Example, writer: str) -> str:
        """Return the id for the response to an input by the model called `writer`."""
        return f"{given.case.id}/{writer}/{self.seed}"

    def groups(self, writer: str) -> dict[str, str]:
        """Return the groups for responses by the model called `writer`."""
        drawn = f"k={self.top_k}, temperature={self.temperature:g}"
        return {"task": self.task.name, "model": writer, "prompt": self.prompt, "drawn": drawn}


def write(model: LocalModel, given: Sequence[Example], writing: Writing, *, name: str = "model") -> list[Example | str]:
    """Generate responses to inputs in one batch.

    The result for each input is an example, or the reason why there is no response. The case keeps the prompt, and its
    gold judges nothing. `name` is the model's name in ids and groups.
    """
    outcomes: list[Example | str] = []
    ready: list[tuple[int, Example, list[int]]] = []
    for i, example in enumerate(given):
        try:
            shown, ids = _read(model, example, writing)
            ready.append((i, shown, ids))
            outcomes.append("not written")
        except CannotJudgeError as error:
            outcomes.append(error.message)
    sampler = Sampler(
        [f"{writing.seed}\0{given[i].case.id}" for i, _, _ in ready],
        temperature=writing.temperature,
        top_k=writing.top_k,
        device=model.device,
    )
    continued = generate(
        model,
        [ids for _, _, ids in ready],
        sampler,
        max_tokens=writing.tokens,
        is_complete=lambda text: writing.task.ends(text.lstrip(" ")),
    )
    for (i, shown, _), text in zip(ready, continued, strict=True):
        response = writing.task.cut(text.text.lstrip(" "))
        if not response:
            outcomes[i] = "the response is empty"
            continue
        case = replace(shown.case, id=writing.id_of(shown, name), response=response)
        cut = "" if text.finish == "stop" else f"; it breaks off after {writing.tokens} tokens"
        gold = _unlabelled(case, f"written by {name}, not labelled{cut}")
        outcomes[i] = replace(shown, case=case, gold=gold, group=tuple(sorted(writing.groups(name).items())))
    return outcomes


def _read(model: LocalModel, example: Example, writing: Writing) -> tuple[Example, list[int]]:
    """Encode an input for the model. Return the input, shortened if necessary, and its tokens."""
    limit = model.max_positions - writing.tokens
    limit = limit if writing.max_prompt is None else min(limit, writing.max_prompt)
    template = get_template(writing.prompt)
    # tokens begin with the space before a word, so the model itself must write the space before the response
    open_ended = replace(template, text=re.sub(r"(?<! ) +\{response\}$", "{response}", template.text))
    windows = _encoded(model, example.case, open_ended, limit)
    if (len(windows) > 1 or windows[0].notes) and writing.shorten:
        ends: dict[str, int] = {}  # where the window ends in each source; sources outside of it are left out
        for _, source_id, span in windows[0].source_spans:
            ends[source_id] = max(ends.get(source_id, 0), span.end)
        sources = tuple(replace(s, text=s.text[: ends[s.id]]) for s in example.case.sources if s.id in ends)
        case = replace(example.case, sources=sources)
        example = replace(example, case=replace(case, prompt=render(case, template).text))
        windows = _encoded(model, example.case, open_ended, limit)
    if len(windows) > 1 or windows[0].notes:
        raise CannotJudgeError("the prompt does not fit into the model")
    return example, list(windows[0].ids[: windows[0].response_start])


def _encoded(model: LocalModel, case: Case, template: Template, limit: int) -> list[Encoded]:
    if limit < 1:
        raise InputError(f"{model.name} reads {model.max_positions} tokens at once", hint="a smaller --max-tokens")
    return encode(model, case, template, max_tokens=limit, max_windows=1)


def label_responses(examples: Sequence[Example], detector: Detector, thresholds: Thresholds) -> Iterator[Example]:
    """Label examples with the spans that a detector flags at `thresholds`, under the detector's name."""
    judgements = judge(detector, [example.case for example in examples])
    for example, judgement in zip(examples, judgements, strict=True):
        marks = tuple(replace(v, score=1.0) for v in flagged(judgement, decide(example.case, judgement, thresholds)))
        score = judgement.hallucination
        wrong = bool(marks) if judgement.verdicts or score is None else score >= thresholds.response
        is_scored = judgement.verdicts or score is not None
        notes = (*judgement.notes, f"labelled by a detector at {thresholds.span:g}, not by people")
        gold = replace(
            judgement,
            hallucination=float(wrong) if is_scored else None,
            verdicts=marks,
            notes=notes,
            omission=None,
            omissions=(),
            usage=None,
        )
        yield replace(example, gold=gold)
