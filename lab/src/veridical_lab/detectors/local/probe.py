"""Judge responses with probes on the hidden states of a local language model, afterwards or while the model writes.

A probe is a small classifier that reads hidden states. This follows CH-Wang et al. 2024. `veridical train probe` writes
the probes and their settings to a folder (the artifact). You can score any response, because the base model reads it
(teacher forcing). If the base model itself writes the response, use `attach` to watch its forward passes, or `stream`
to run them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from veridical.inference.artifact import DETECTOR, Artifact, load_artifact
from veridical.inference.local_model import LocalModel
from veridical.inference.template import get_template
from veridical.metrics.arrays import Floats
from veridical.models.base_model import load_base
from veridical.records.detector import DetectorContext, DetectorInfo
from veridical.records.errors import DataError, InputError, UnknownNameError
from veridical.records.judging import not_judged
from veridical.records.spans import Span
from veridical.records.spec import Spec
from veridical.records.types import Case, Judgement, Level
from veridical.text.segment import words
from veridical_lab.detectors.local.forced_decoding import NO_WORDS, decode_cases
from veridical_lab.detectors.local.probe_settings import ProbeSettings
from veridical_lab.detectors.local.probe_streaming import ProbeSession
from veridical_lab.detectors.local.word_scores import SCORED_UNITS, word_verdicts
from veridical_lab.models.encode import encode
from veridical_lab.models.monitor import ProbeMonitor
from veridical_lab.models.probe_heads import Head, from_tensors
from veridical_lab.models.runner import RequestedOutputs
from veridical_lab.models.saving import tensors_digest

_OPTIONS = ("device", "dtype", "max_windows", "model", "unit")


def load_heads(artifact: Artifact, settings: ProbeSettings, path: Path) -> dict[str, Head]:
    """Load the probes of an artifact, by objective ("token", "response").

    Args:
        artifact: The artifact, with the weights.
        settings: The settings of the artifact.
        path: The folder of the artifact, for error messages.

    Raises:
        DataError: Weights are missing, have the wrong shape or are not finite.
    """
    heads = {}
    for objective, about in settings.heads.items():
        tensors = {
            name.removeprefix(f"{objective}."): array
            for name, array in artifact.tensors.items()
            if name.startswith(f"{objective}.")
        }
        try:
            probes = from_tensors(about.kind, objective, tuple(about.sublayers), tensors, about.mix_bias)
            width = probes.width
        except (InputError, TypeError, IndexError) as error:
            problem = error.message if isinstance(error, InputError) else f"unexpected tensors {', '.join(tensors)}"
            raise DataError(f"the {objective}-level probes: {problem}", path=path) from None
        if width != artifact.base.width or probes.sublayers[-1] >= 2 * artifact.base.layers:
            raise DataError(
                f"the {objective}-level probes need states of width {width} and sublayer {probes.sublayers[-1]}; "
                f"the base model has {artifact.base.layers} layers of width {artifact.base.width}",
                path=path,
            )
        if not all(np.isfinite(array).all() for array in tensors.values()):
            raise DataError(f"the {objective}-level probes hold numbers that are not finite", path=path)
        heads[objective] = Head(probes, about.threshold, about.calibration)
    return heads


@dataclass(eq=False)
class Probe:
    """Judges by probes on a local language model's hidden states, trained on your labels (`veridical train probe`).

    A word gets the highest score of its tokens. `hallucination` is the score of the response-level probes, or of the
    worst token if there are only token-level probes. If long sources are read in several windows, each token gets its
    score from the window that supports it best.

    The model reads the sources as part of the prompt. A case without sources is judged by the model's states alone.

    Args:
        path: The folder that `veridical train probe` wrote.
        model: Where the base model is now. Its architecture, tokenizer and weights must be those used in training.
            Otherwise, an error names the first difference. Default: its folder at training.
        unit: Give a verdict to each "word" or each "token".
        device: As in `models.load`.
        dtype: As in `models.load`. Default: the precision at training.
        max_windows: Read at most this many windows of long sources. Default: all.
        name: The detector's name. Default: "probe:PATH".
    """

    info = DetectorInfo((Level.RESPONSE, Level.SPAN), needs_sources=False)

    path: str | Path
    _: KW_ONLY
    model: str | Path | None = None
    unit: str = "word"
    device: str = "auto"
    dtype: str | None = None
    max_windows: int | None = None
    name: str = ""

    def __post_init__(self) -> None:
        if self.unit not in SCORED_UNITS:
            raise UnknownNameError("unit of probe", self.unit, SCORED_UNITS)
        self.name = self.name or f"probe:{self.path}"

    @classmethod
    def from_spec(cls, spec: Spec, context: DetectorContext) -> Probe:
        """Build the detector from `probe:FOLDER[,OPTION=VALUE,…]`."""
        if spec.accept(_OPTIONS, values=1).value is None:
            raise InputError("probe needs a trained probe", hint="probe:FOLDER, as `veridical train probe` wrote it")
        options: dict[str, Any] = {**spec.options, "max_windows": spec.whole("max_windows")}
        probe = cls(spec.values[0], name=str(spec), **options)
        if "token" not in probe.heads:
            probe.info = DetectorInfo((Level.RESPONSE,), needs_sources=False)
        return probe

    @cached_property
    def _loaded(self) -> tuple[Artifact, ProbeSettings, dict[str, Head]]:
        folder = Path(self.path)
        artifact = load_artifact(folder, "probe")
        settings = ProbeSettings.from_json(artifact.settings, folder / DETECTOR)
        template = get_template(settings.template)
        if settings.template_digest not in (None, template.digest):
            raise InputError(
                f"the template {template.name!r} is not the one that the probe in {folder} was trained with",
                hint="train the probe again, or use the Veridical that trained it",
            )
        return artifact, settings, load_heads(artifact, settings, folder)

    @property
    def artifact(self) -> Artifact:
        """The artifact. It is loaded when you first use it.

        Raises:
            DataError: The artifact is damaged.
        """
        return self._loaded[0]

    @property
    def settings(self) -> ProbeSettings:
        """How cases are presented to the base model, and the probes without their weights."""
        return self._loaded[1]

    @property
    def heads(self) -> dict[str, Head]:
        """The probes by objective."""
        return self._loaded[2]

    @property
    def thresholds(self) -> dict[Level, float]:
        """The thresholds of the response-level and the token-level probes, fitted on validation data.

        Without response-level probes, a response gets the score of its worst token, so the threshold of tokens applies.
        """
        fitted = {Level.RESPONSE if name == "response" else Level.SPAN: h.threshold for name, h in self.heads.items()}
        return {Level.RESPONSE: next(iter(fitted.values())), **fitted}

    @property
    def sublayers(self) -> tuple[int, ...]:
        """All sublayers whose states are read."""
        return tuple(sorted({s for head in self.heads.values() for s in head.probes.sublayers}))

    def base(self) -> LocalModel:
        """Load the base model.

        Raises:
            InputError: The probes were trained on another model. The message names the difference.
        """
        return load_base(
            self.artifact.base,
            f"the probe in {Path(self.path)}",
            model=self.model,
            device=self.device,
            dtype=self.dtype,
        )

    def fingerprint(self) -> dict[str, Any]:
        """Return everything the scores depend on: the artifact (whose model `judge` compares) and the options."""
        about = {"settings": self.artifact.settings, "base": asdict(self.artifact.base)}
        digest = tensors_digest(self.artifact.tensors, json.dumps(about, sort_keys=True))
        return {"probe": digest[:16], "unit": self.unit, "max_windows": self.max_windows}

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        """Judge each case. The windows of all cases are batched together."""
        if not any(words(case.response) for case in cases):
            return [not_judged(case, self.name, NO_WORDS) for case in cases]
        decoded = decode_cases(
            self.base(),
            cases,
            RequestedOutputs(logprobs=False, sublayers=self.sublayers),
            self.settings.template,
            max_tokens=self.settings.max_tokens,
            max_windows=self.max_windows or self.settings.max_windows,
        )
        judgements = []
        for case, outputs in zip(cases, decoded, strict=True):
            if outputs.problems:
                judgements.append(not_judged(case, self.name, *outputs.problems))
                continue
            scores = {  # (windows, tokens)
                objective: np.stack([head.score(result.hidden) for result in outputs.results])
                for objective, head in self.heads.items()
            }
            tokens = scores["token"].min(0) if "token" in scores else None
            response = float(scores["response"][:, -1].min()) if "response" in scores else None
            spans, notes = outputs.windows[0].spans, outputs.notes
            judgements.append(
                judgement_of(case, self.name, spans, tokens=tokens, response=response, unit=self.unit, notes=notes)
            )
        return judgements

    def judge_generated(
        self, case: Case, prompt: Sequence[int], ids: Sequence[int], scores: Mapping[str, Sequence[Any]]
    ) -> Judgement | None:
        """Judge a response from the scores taken while the base model wrote it, without another pass.

        Return None if `judge` would read other tokens than were generated.

        Args:
            case: The case with the response.
            prompt: The tokens before the response.
            ids: The generated tokens: those of the response, perhaps followed by more.
            scores: The score of each generated token, by objective (`ProbeMonitor.history`).
        """
        if not words(case.response):
            return None
        settings, most = self.settings, self.max_windows or self.settings.max_windows
        windows = encode(self.base(), case, settings.template, max_tokens=settings.max_tokens, max_windows=most)
        spans, count = windows[0].spans, len(windows[0].ids) - len(prompt)
        others = windows[0].ids != (*prompt, *ids[:count]) or windows[0].response_start != len(prompt)
        if len(windows) > 1 or others or not spans or count > min(map(len, scores.values())):
            return None
        of_response = {name: np.array(each[:count], dtype=np.float64).ravel() for name, each in scores.items()}
        response = float(of_response["response"][-1]) if "response" in of_response else None
        tokens, notes = of_response.get("token"), windows[0].notes
        return judgement_of(case, self.name, spans, tokens=tokens, response=response, unit=self.unit, notes=notes)

    def stream(self, case: Case, *, unit: str = "token", prompt_ids: Sequence[int] | None = None) -> ProbeSession:
        """Start a session that judges a response to `case` while it is generated.

        The `response` of the case is ignored.

        If your prompt is not the one that the template makes, pass its tokens as `prompt_ids`.
        """
        return ProbeSession(self.base(), self.heads, self.settings, case, unit=unit, prompt_ids=prompt_ids)

    @contextmanager
    def attach(self, *, batch: int = 1) -> Iterator[ProbeMonitor]:
        """While the context lasts, score the tokens of every forward pass of the base model.

            with probe.attach() as monitor:
                model.generate(**prompt, stopping_criteria=[monitor.stop_above(0.9)])
            monitor.scores["token"]

        The first pass is taken as the prompt and is not judged. `batch` says how many responses are generated side by
        side.
        """
        model = self.base()
        monitor = ProbeMonitor(self.heads, batch=batch, device=model.device)
        with monitor.attached(model):
            yield monitor


def judgement_of(
    case: Case,
    by: str,
    spans: Sequence[Span | None],
    *,
    tokens: Floats | None,
    response: float | None,
    unit: str = "word",
    notes: tuple[str, ...] = (),
) -> Judgement:
    """Turn the scores of tokens and response into a judgement.

    Args:
        case: The case with the response.
        by: The name of the detector.
        spans: The characters of each token. *Shape:* (tokens,)
        tokens: The score of each token. None if only the response is scored. *Shape:* (tokens,)
        response: The score of the response. Default: the highest score of a verdict.
        unit: Give a verdict to each "word" or each "token".
        notes: Notes for the judgement.
    """
    if tokens is None:
        return Judgement(case.id, by, response, notes=notes)
    verdicts, judged = word_verdicts(case.response, spans, tokens, unit=unit)
    if response is None and verdicts:
        response = max(verdict.score for verdict in verdicts)
    if judged is not None:
        notes = (*notes, "the tokenizer has no token for a part of the response: it was not judged")
    return Judgement(case.id, by, response, verdicts=verdicts, judged=judged, notes=notes)
