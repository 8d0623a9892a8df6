"""Generate text with a local language model while a detector monitors it, and replace or cut off flagged text.

The strategies follow Liu et al. 2022, §1 (suppress tokens, guide beams) and CH-Wang et al. 2024, Limitations (backtrack
and regenerate, reject and resample, filter hypotheses). At the end, the detector judges the whole text once more.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from veridical.detectors import load_detector
from veridical.inference.local_model import LocalModel
from veridical.models.load import load
from veridical.models.sampling import Sampler
from veridical.records.decide import outcome
from veridical.records.detector import Detector, info_of
from veridical.records.errors import InputError
from veridical.records.judging import thresholds_in_force
from veridical.records.types import Case, Level
from veridical_lab.detectors.local.logprob import TOKEN_SCORES, Logprob
from veridical_lab.detectors.local.probe import Probe
from veridical_lab.guard.decoding_loop import BudgetUsage, DecodingLoop
from veridical_lab.guard.monitors import HiddenStateMonitor, Monitor, monitor_for
from veridical_lab.guard.rerank import judge_texts, rerank
from veridical_lab.guard.types import (
    STRATEGIES,
    UNITS,
    Guarded,
    GuardOptions,
    Intervention,
    Sampling,
    TokenBudget,
    Unguarded,
)
from veridical_lab.models.stepwise import Generation, TokenPrompt, prompt_of

__all__ = [
    "STRATEGIES",
    "UNITS",
    "Guard",
    "GuardOptions",
    "Guarded",
    "Intervention",
    "Monitor",
    "Sampling",
    "TokenBudget",
    "Unguarded",
    "guard",
]


def guard(
    case: Case,
    detector: str | Detector,
    model: LocalModel | str | Path | None = None,
    options: GuardOptions | None = None,
    *,
    monitor: Monitor | None = None,
    **overrides: Any,
) -> Guarded:
    """Generate a response to a case while a detector monitors the text. For many cases, use `Guard`.

    Args:
        case: The case with the prompt and the sources. The response in it is ignored.
        detector: A detector or its spec. "logprob", "entropy" and "rank" score each token by its probability when it
            was sampled.
        model: The model that generates. Default: the detector's own model.
        options: The strategy, the budget and how tokens are sampled.
        monitor: How the detector follows the text. Default: the cheapest way that works.
        overrides: Fields of `GuardOptions` that replace those of `options`.

    Raises:
        InputError: Options are out of range or do not go together.
        CannotJudgeError: The prompt cannot be made, or the model computes numbers that are not finite.
    """
    return Guard(detector, model, replace(options or GuardOptions(), **overrides)).generate(case, monitor)


class Guard:
    """Generates responses while a detector monitors the text. Loads model and detector only once for all cases.

    Args:
        detector: As in `guard`.
        model: As in `guard`.
        options: As in `guard`.
    """

    def __init__(
        self,
        detector: str | Detector,
        model: LocalModel | str | Path | None = None,
        options: GuardOptions | None = None,
    ) -> None:
        self.options = options or GuardOptions()
        self._detector: Detector | None = None
        self._likelihood = ""
        self._latest: Generation | None = None
        if isinstance(detector, str) and detector in TOKEN_SCORES:
            if model is None:
                raise InputError(
                    f"no model is named to generate, and {detector!r} has none of its own", hint="name a model"
                )
            self._likelihood = detector
        else:
            self._detector = load_detector(detector) if isinstance(detector, str) else detector
        if isinstance(model, LocalModel):
            self.model = model
        elif model is None:
            loaded = self._detector
            if isinstance(loaded, Probe) and loaded.base().kind == "causal":
                self.model = loaded.base()
            elif isinstance(loaded, Logprob):
                self.model = load(loaded.model, revision=loaded.revision, device=loaded.device, dtype=loaded.dtype)
            else:
                name = loaded.name if loaded else None
                raise InputError(f"no model is named to generate, and {name!r} has none", hint="name a model")
        elif isinstance(detector, str) and isinstance(self._detector, Probe) and self._detector.model is None:
            self._detector.model = model
            try:
                self.model = self._detector.base()
            except InputError:  # the probe belongs to another model than the one that generates
                self._detector.model = None
                self.model = load(model)
        else:
            self.model = load(model)

    def generate(self, case: Case, monitor: Monitor | None = None) -> Guarded:
        """Generate a response to `case`. See `guard`."""
        options = self.options
        detector, template = self._detector_for(case)
        thresholds = thresholds_in_force(detector, options.threshold)
        prompt = prompt_of(self.model, case, template, options.sampling.max_new_tokens)
        usage = BudgetUsage(options.budget, options.sampling)
        generation, sampler = self._start(prompt)
        if options.strategy == "rerank":
            text, reason, judgement, interventions = rerank(generation, usage, options, detector, case)
        else:
            monitor = monitor or monitor_for(detector, case, self.model)
            limit = thresholds.span if Level.SPAN in info_of(detector).levels else thresholds.response
            loop = DecodingLoop(generation, sampler, usage, options, monitor, limit)
            reason, text = loop.run(), loop.text
            if loop.exhausted:
                reason += f"; no intervention was left ({options.budget.interventions})"
            probe_judgement = None
            if isinstance(monitor, HiddenStateMonitor) and monitor.probe is detector:
                probe_judgement = monitor.judgement(replace(case, response=text), generation)
            (judgement,) = judge_texts(detector, case, [text]) if probe_judgement is None else [probe_judgement]
            interventions = loop.interventions()
        final = replace(case, response=text)
        result = Guarded(
            final,
            judgement,
            thresholds,
            outcome(final, judgement, thresholds),
            options.strategy,
            interventions,
            reason,
            usage.tokens,
            generation.passes,
            usage.seconds,
            notes=prompt.notes,
        )
        if not options.compare:
            return result
        generation, sampler = self._start(prompt)
        enough = TokenBudget(tokens=options.sampling.max_new_tokens + 1)
        loop = DecodingLoop(generation, sampler, BudgetUsage(enough, options.sampling), options)
        loop.run()
        if loop.text != text:  # an unchanged text has the same judgement
            final = replace(case, response=loop.text)
            (judgement,) = judge_texts(detector, case, [loop.text])
        return replace(result, unguarded=Unguarded(final, judgement))

    def _detector_for(self, case: Case) -> tuple[Detector, str]:
        """Return the detector to use, and the name of the prompt template."""
        template = self.options.template
        usual = "general" if case.prompt is None else "raw"
        if self._detector is None:
            model, template = self.model, template or usual
            options = {"device": str(model.device), "dtype": model.dtype_name, "revision": model.revision}
            return Logprob(model.name, template=template, score=self._likelihood, **options), template  # type: ignore[arg-type]
        if template is None and isinstance(self._detector, Logprob):
            return self._detector, self._detector.template or "general"
        if template is None and isinstance(self._detector, Probe):
            return self._detector, self._detector.settings.template
        return self._detector, template or usual

    def _start(self, prompt: TokenPrompt) -> tuple[Generation, Sampler]:
        sampling = self.options.sampling
        sampler = Sampler(
            [sampling.seed],
            temperature=sampling.temperature,
            top_k=sampling.top_k,
            top_p=sampling.top_p,
            device=self.model.device,
        )
        self._latest = Generation(self.model, prompt, after=self._latest)
        return self._latest, sampler
