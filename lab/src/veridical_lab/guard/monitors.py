"""Monitor a text with a detector while the text is being generated.

A probe on the generating model and the likelihood of sampled tokens reuse the forward passes of generation. Any other
detector gets the text so far, as a stream or sentence by sentence.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from veridical.inference.local_model import LocalModel
from veridical.models.base_model import check_base
from veridical.records.detector import Detector, Streaming
from veridical.records.errors import CannotJudgeError, InputError
from veridical.records.judging import judge
from veridical.records.spans import Span, trimmed
from veridical.records.types import Case, Judgement, Verdict
from veridical.text.segment import sentences
from veridical_lab.detectors.local.logprob import Logprob
from veridical_lab.detectors.local.probe import Probe
from veridical_lab.models.monitor import ProbeMonitor
from veridical_lab.models.stepwise import Generation


class Monitor(Protocol):
    """Connects a detector to the decoding loop. Each monitor is made for one text and used with one `Generation`."""

    def attached(self, generation: Generation) -> AbstractContextManager[object]:
        """Return a context that stays open during generation. By default, it does nothing."""
        return nullcontext()

    def verdicts(self, generation: Generation, *, final: bool) -> list[Verdict]:
        """Judge `generation.text`, and return the verdicts that are new since the last call.

        Args:
            generation: The text so far.
            final: Whether the text ends here.
        """
        ...

    def rewind(self, generation: Generation) -> None:
        """Forget everything after the present end of `generation`, whose text was cut before this call."""
        ...


def monitor_for(detector: Detector, case: Case, model: LocalModel) -> Monitor:
    """Choose the cheapest monitor with which `detector` can follow a response to `case` that `model` generates."""
    if isinstance(detector, Probe):
        try:
            check_base(detector.artifact.base, model)
        except InputError:
            pass
        else:
            return HiddenStateMonitor(detector)
    if isinstance(detector, Logprob) and _place(detector.model) == _place(model.name):
        return LikelihoodMonitor(detector.score)
    streams = isinstance(detector, Streaming) and not (isinstance(detector, Probe) and detector.base().kind != "causal")
    return StreamMonitor(detector, case) if streams else SentenceMonitor(detector, case)


def _place(name: str | Path) -> str:
    folder = Path(name).expanduser()
    return str(folder.resolve()) if folder.exists() else str(name)


class _TokenMonitor(Monitor):
    """Turns token scores from a subclass into verdicts. Tokens of the same character get their highest score."""

    def __init__(self) -> None:
        self.scores: list[float | None] = []  # None: the token was put back, not sampled
        self._emitted = 0  # tokens that have had their verdict

    def rewind(self, generation: Generation) -> None:
        """See `Monitor`."""
        del self.scores[len(generation.ids) :]
        self._emitted = min(self._emitted, len(generation.spans))

    def _new_verdicts(self, generation: Generation) -> list[Verdict]:
        verdicts = []
        spans = generation.spans
        while self._emitted < len(spans):
            span, first = spans[self._emitted], self._emitted
            while self._emitted < len(spans) and (self._emitted == first or spans[self._emitted] is span):
                self._emitted += 1
            scores = [score for score in self.scores[first : self._emitted] if score is not None]
            if span and scores and (part := trimmed(span, generation.text)):
                verdicts.append(Verdict(part, max(scores)))
        return verdicts


class HiddenStateMonitor(_TokenMonitor):
    """Applies probes to the hidden states that the generating model computes in its forward passes.

    Only the end of the text needs one additional pass.
    """

    def __init__(self, probe: Probe) -> None:
        super().__init__()
        self.probe = probe
        self.objective = "token" if "token" in probe.heads else "response"
        self._monitor: ProbeMonitor

    @contextmanager
    def attached(self, generation: Generation) -> Iterator[None]:
        """See `Monitor`."""
        self._monitor = ProbeMonitor(self.probe.heads, device=generation.model.device, rewindable=True)
        with self._monitor.attached(generation.model, lambda: generation.pass_start):
            yield

    def verdicts(self, generation: Generation, *, final: bool) -> list[Verdict]:
        """See `Monitor`."""
        if len(self._monitor) < len(generation.ids):
            generation.advance()
        history = self._monitor.history[self.objective]
        self.scores += [float(score[0]) for score in history[len(self.scores) :]]
        return self._new_verdicts(generation)

    def rewind(self, generation: Generation) -> None:
        """See `Monitor`."""
        super().rewind(generation)
        self._monitor.rewind(len(generation.ids))

    def judgement(self, case: Case, generation: Generation) -> Judgement | None:
        """Judge the response of `case` from the scores that were computed during generation.

        Return None if the tokens of the response differ from those of `generation`.
        """
        try:
            return self.probe.judge_generated(case, generation.prompt, generation.ids, self._monitor.history)
        except CannotJudgeError:
            return None  # the caller then judges the text again, and that judgement reports the problem


class LikelihoodMonitor(_TokenMonitor):
    """Scores each sampled token by its improbability, as `Logprob` does, without any additional forward pass."""

    def __init__(self, score: str = "logprob") -> None:
        super().__init__()
        self.score = score

    def verdicts(self, generation: Generation, *, final: bool) -> list[Verdict]:
        """See `Monitor`."""
        import torch

        for token_i in range(len(self.scores), len(generation.ids)):
            logits = generation.logits_before(token_i)
            if logits is None:
                self.scores.append(None)
                continue
            token = generation.ids[token_i]
            if self.score == "rank":
                score = 1.0 - 1.0 / (1 + int((logits > logits[token]).sum()))
            elif self.score == "entropy":
                entropy = float(torch.special.entr(logits.log_softmax(-1).exp()).sum())
                score = min(max(entropy / math.log(max(len(logits), 2)), 0.0), 1.0)
            else:
                score = -math.expm1(min(float(logits.log_softmax(-1)[token]), 0.0))
            self.scores.append(score)
        return self._new_verdicts(generation)


class StreamMonitor(Monitor):
    """Feeds the text to a streaming detector (`stream(case)`).

    When the text is cut back, a new session starts with the remaining text.
    """

    def __init__(self, detector: Any, case: Case) -> None:
        self._detector, self._case = detector, replace(case, response="")
        self._session: Any = None
        self._fed = 0  # characters
        self._emitted = 0  # characters up to which verdicts were passed on

    def verdicts(self, generation: Generation, *, final: bool) -> list[Verdict]:
        """See `Monitor`."""
        if self._session is None:
            self._session, self._fed = self._detector.stream(self._case), 0
        verdicts = list(self._session.feed(generation.text[self._fed :]))
        self._fed = len(generation.text)
        if final:
            verdicts += self._session.finish()
            self._session = None
        new = [verdict for verdict in verdicts if verdict.span.end > self._emitted]
        self._emitted = max((verdict.span.end for verdict in new), default=self._emitted)
        return new

    def rewind(self, generation: Generation) -> None:
        """See `Monitor`."""
        self._session = None
        self._emitted = min(self._emitted, len(generation.text))


class SentenceMonitor(Monitor):
    """Judges the text so far with any detector whenever a sentence is complete, that is, when the next one has begun.

    If the detector gives no verdicts, the new sentences get the score of the whole text so far.
    """

    def __init__(self, detector: Detector, case: Case) -> None:
        self._detector, self._case = detector, case
        self._judged = 0  # characters

    def verdicts(self, generation: Generation, *, final: bool) -> list[Verdict]:
        """See `Monitor`."""
        new = [s for s in sentences(generation.text)[: None if final else -1] if s.end > self._judged]
        if not new:
            return []
        before, self._judged = self._judged, new[-1].end
        (judgement,) = judge(self._detector, [replace(self._case, response=generation.text[: self._judged])])
        if judgement.verdicts or judgement.hallucination is None:
            return [verdict for verdict in judgement.verdicts if verdict.span.end > before]
        return [Verdict(Span(max(new[0].start, before), self._judged), judgement.hallucination)]

    def rewind(self, generation: Generation) -> None:
        """See `Monitor`."""
        self._judged = min(self._judged, len(generation.text))
