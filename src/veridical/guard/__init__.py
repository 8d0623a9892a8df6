"""Decoding with a detector in the loop: a local language model writes, and what is flagged does not stand.

After Liu et al. 2022, section 1 (suppress tokens, guide beams) and Chwang et al. 2024, Limitations (backtrack and
regenerate, reject and sample again, filter hypotheses). The text that stands is judged again as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from veridical.core.decide import outcome
from veridical.core.detector import Detector, info_of
from veridical.core.errors import InputError, UnknownNameError
from veridical.core.judging import thresholds_in_force
from veridical.core.types import Case, Judgement, Level
from veridical.detectors import load_detector
from veridical.detectors.local.logprob import SCORES, Logprob
from veridical.detectors.local.probe import Probe
from veridical.guard.decoding_loop import UNITS, Course, Say, Spending
from veridical.guard.generation import Writer, prompt_of
from veridical.guard.monitors import Online, online_of
from veridical.guard.rerank import beam_texts, best_of, judge_all, sampled_texts
from veridical.guard.types import Budget, Guarded, Intervention, Sampling, Unguarded
from veridical.models.load import LocalModel, load

if TYPE_CHECKING:
    import torch

__all__ = [
    "STRATEGIES",
    "UNITS",
    "Budget",
    "Guarded",
    "Intervention",
    "Online",
    "Sampling",
    "Unguarded",
    "guard",
]

STRATEGIES = ("stop", "backtrack", "suppress", "rerank")


def guard(
    case: Case,
    detector: str | Detector,
    model: LocalModel | str | Path | None = None,
    *,
    strategy: str = "backtrack",
    unit: str = "word",
    threshold: float | Mapping[str, float] | None = None,
    samples: int = 4,
    beams: bool = False,
    template: str | None = None,
    sampling: Sampling | None = None,
    budget: Budget | None = None,
    online: Online | None = None,
    compare: bool = False,
    say: Say | None = None,
) -> Guarded:
    """A response to `case` that `model` writes while `detector` reads along; `case.response` is not read.

    `detector` is one of ours or its name; "logprob", "entropy" and "rank" are the likelihood of what the model draws.
    `model` may be left out where the detector has one of its own. `template` makes the prompt (default: the
    detector's, else "raw" where the case has a prompt, else "general"). `threshold` in [0, 1] is the score from which
    something is flagged (default: the detector's own, else 0.5).

    `strategy`: "stop" ends the text before what is flagged, "backtrack" goes back to the start of its `unit` ("token",
    "word" or "sentence") and draws another token there, "suppress" draws another token in place of the flagged one,
    "rerank" writes `samples` texts (or as many `beams`) and keeps that with the lowest score of the whole.

    `online` replaces the way in which the detector reads along. `compare` tells also what the model writes unguarded.
    `say` gets a line for each intervention. Raises `InputError` for what cannot be used, `CannotJudgeError` where the
    prompt cannot be made or the model's numbers are not finite.
    """
    sampling, budget = sampling or Sampling(), budget or Budget()
    _check(strategy, unit, samples, beams, sampling)
    used, writing = _parts(detector, model, template or ("general" if case.prompt is None else "raw"))
    limits = thresholds_in_force(used, threshold)
    limit = limits.span if Level.SPAN in info_of(used).levels else limits.response
    prompt = prompt_of(writing, case, template or _template(used, case), sampling.max_new_tokens)
    spending = Spending(budget, sampling)
    writer = Writer(writing, prompt)
    if strategy == "rerank":
        found = _reranked(writer, spending, sampling, used, case, samples, beams, say)
    else:
        course = Course(
            writer, online or online_of(used, case, writing), spending, sampling, _random(sampling),
            strategy=strategy, unit=unit, threshold=limit, say=say,
        )  # fmt: skip
        found = _guarded(course, used, case)
    text, reason, judgement, interventions = found
    spent = spending.tokens, writer.passes, spending.seconds
    after = replace(case, response=text)
    decided = outcome(after, judgement, limits)
    made = Guarded(after, judgement, limits, decided, strategy, interventions, reason, *spent, notes=prompt.notes)
    return replace(made, unguarded=_unguarded(made, used, Writer(writing, prompt), sampling)) if compare else made


Found = tuple[str, str, Judgement, tuple[Intervention, ...]]  # a text, why it ends, how it is judged, what was done


def _guarded(course: Course, detector: Detector, case: Case) -> Found:
    reason = course.run()
    if course.exhausted:
        reason += f"; no intervention was left ({course.spending.budget.interventions})"
    text = course.writer.text
    return text, reason, judge_all(detector, case, [text])[0], course.interventions()


def _reranked(
    writer: Writer,
    spending: Spending,
    sampling: Sampling,
    detector: Detector,
    case: Case,
    samples: int,
    beams: bool,
    say: Say | None,
) -> Found:
    count = min(samples, 1 + spending.budget.interventions)
    if beams:
        texts = beam_texts(writer, spending, sampling, count)
    else:
        texts = sampled_texts(writer, spending, sampling, _random(sampling), count)
    judgements = judge_all(detector, case, [text for text, _ in texts])
    best, interventions = best_of(texts, judgements, say)
    text, reason = texts[best]
    if len(texts) < samples:
        reason += f"; the budget allowed {len(texts)} of {samples} texts"
    return text, reason, judgements[best], interventions


def _unguarded(made: Guarded, detector: Detector, writer: Writer, sampling: Sampling) -> Unguarded:
    """What the model writes by itself, judged anew only where it is another text."""
    enough = Budget(tokens=sampling.max_new_tokens + 1)
    Course(writer, None, Spending(enough, sampling), sampling, _random(sampling)).run()
    if writer.text == made.text:
        return Unguarded(made.case, made.judgement)
    (judgement,) = judge_all(detector, made.case, [writer.text])
    return Unguarded(replace(made.case, response=writer.text), judgement)


def _random(sampling: Sampling) -> torch.Generator:
    import torch

    return torch.Generator().manual_seed(sampling.seed)


def _check(strategy: str, unit: str, samples: int, beams: bool, sampling: Sampling) -> None:
    if strategy not in STRATEGIES:
        raise UnknownNameError("strategy", strategy, STRATEGIES)
    if unit not in UNITS:
        raise UnknownNameError("unit to go back to", unit, UNITS)
    if strategy != "rerank":
        if beams:
            raise InputError(f"the strategy {strategy} has no beams", hint="beams go with the strategy rerank")
        return
    if samples < 2:
        raise InputError(f"{samples} samples to choose from", hint="at least 2")
    if not beams and sampling.temperature == 0:
        raise InputError(
            "at temperature 0 all samples are the same", hint="set a temperature such as 0.7, or take beams"
        )


def _parts(
    detector: str | Detector, model: LocalModel | str | Path | None, template: str
) -> tuple[Detector, LocalModel]:
    """The detector and the model that writes."""
    if isinstance(detector, str) and detector in SCORES:
        if model is None:
            raise InputError(f"no model is named to write, and {detector!r} is of that model", hint="name a model")
        if not isinstance(model, LocalModel):
            return Logprob(model, template=template, score=detector), load(model)
        dtype = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}[str(model.dtype).removeprefix("torch.")]
        made = Logprob(
            model.name,
            template=template,
            score=detector,
            device=str(model.device),
            dtype=dtype,
            revision=model.revision,
        )
        return made, model
    used = load_detector(detector) if isinstance(detector, str) else detector
    if isinstance(model, LocalModel):
        return used, model
    if model is None:
        return used, _own_model(used)
    if isinstance(detector, str) and isinstance(used, Probe) and used.model is None:
        used.model = model
        try:
            return used, used.base()
        except InputError:  # another model writes: the probe's own reads along
            used.model = None
    return used, load(model)


def _own_model(detector: Detector) -> LocalModel:
    if isinstance(detector, Probe) and detector.base().kind == "causal":
        return detector.base()
    if isinstance(detector, Logprob):
        return load(detector.model, revision=detector.revision, device=detector.device, dtype=detector.dtype)
    raise InputError(f"no model is named to write, and {detector.name!r} has none", hint="name a model")


def _template(detector: Detector, case: Case) -> str:
    """The prompt's form where none is named: the detector's own, else what the case calls for."""
    if isinstance(detector, Logprob):
        return detector.template or "general"
    if isinstance(detector, Probe):
        return detector.settings.template
    return "general" if case.prompt is None else "raw"
