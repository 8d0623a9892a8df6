"""Detectors in the loop: what has something to say of a text while it is being written.

A probe on the writing model and the likelihood of what it draws are free; anything else reads the text so far, as a
stream or sentence by sentence.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from veridical.core.detector import Detector
from veridical.core.errors import InputError
from veridical.core.segment import sentences
from veridical.core.spans import Span, trimmed
from veridical.core.types import Case, Verdict
from veridical.detectors.local.logprob import Logprob
from veridical.detectors.local.probe import Head, Probe
from veridical.detectors.local.probe_streaming import Watch
from veridical.guard.generation import Writer
from veridical.models.artifact import check_base
from veridical.models.load import LocalModel
from veridical.models.probe_heads import Live
from veridical.models.sublayers import tapped

if TYPE_CHECKING:
    import torch

__all__ = ["JudgeOnline", "LikelihoodOnline", "Online", "ProbeOnline", "StreamOnline", "online_of"]


class Online(Protocol):
    """A detector in the loop; made for one text, used by one `Writer`."""

    def attached(self, writer: Writer) -> AbstractContextManager[object]:
        """What lasts as long as the text is written."""
        ...

    def read(self, writer: Writer, *, final: bool) -> list[Verdict]:
        """The verdicts on `writer.text` that are new since the last call; `final` says that the text ends here."""
        ...

    def rewind(self, writer: Writer) -> None:
        """Forgets what stood behind the end of `writer`, which was cut back."""
        ...


def online_of(detector: Detector, case: Case, model: LocalModel) -> Online:
    """The cheapest way to have `detector` read along while `model` writes a response to `case`."""
    if isinstance(detector, Probe) and _fits(detector, model):
        return ProbeOnline(detector.heads)
    if isinstance(detector, Logprob) and _place(detector.model) == _place(model.name):
        return LikelihoodOnline(detector.score)
    streams = hasattr(detector, "stream") and not (isinstance(detector, Probe) and detector.base().kind != "causal")
    return StreamOnline(detector, case) if streams else JudgeOnline(detector, case)


def _fits(probe: Probe, model: LocalModel) -> bool:
    try:
        check_base(probe.artifact.base, model)
    except InputError:
        return False
    return True


def _place(name: str | Path) -> str:
    folder = Path(name).expanduser()
    return str(folder.resolve()) if folder.is_dir() else str(name)


class _Told:
    """Which tokens a verdict was given on; groups of tokens that share characters get the highest of their scores."""

    def __init__(self) -> None:
        self.scores: list[float | None] = []
        self._told = 0

    def verdicts(self, writer: Writer) -> list[Verdict]:
        """A verdict for each new group of tokens with known characters and scores."""
        found = []
        while self._told < len(writer.spans):
            span, first = writer.spans[self._told], self._told
            while self._told < len(writer.spans) and (self._told == first or writer.spans[self._told] is span):
                self._told += 1
            scores = [score for score in self.scores[first : self._told] if score is not None]
            if span and scores and (part := trimmed(span, writer.text)):
                found.append(Verdict(part, max(scores)))
        return found

    def cut(self, writer: Writer) -> None:
        """Forgets what stood behind the end of `writer`."""
        del self.scores[len(writer.ids) :]
        self._told = min(self._told, len(writer.spans))


class _Rewindable(Watch):
    """A `Watch` that can go back to where it was."""

    def state(self) -> Mapping[str, Live]:
        """The running numbers as they are: steps replace the arrays in them, so that a shallow copy keeps them."""
        return {objective: copy(live) for objective, live in self._live.items()}

    def back(self, state: Mapping[str, Live]) -> None:
        """Goes on from `state`."""
        self._live = {objective: copy(live) for objective, live in state.items()}


class ProbeOnline:
    """Probes on the writing model: they judge the states of its own passes. One more pass at the very end of a text."""

    def __init__(self, heads: Mapping[str, Head]) -> None:
        self.heads = heads
        self.objective = "token" if "token" in heads else "response"
        self._told = _Told()
        self._states: list[Mapping[str, Live]] = []  # before each token
        self._held: dict[int, torch.Tensor] = {}

    @property
    def scores(self) -> Sequence[float | None]:
        """That of each token read so far: of the token, or of the response up to it."""
        return self._told.scores

    @contextmanager
    def attached(self, writer: Writer) -> Iterator[None]:
        """While it lasts, the model's states are read."""
        watch = _Rewindable(self.heads, device=writer.model.device)
        self._watch = watch

        def take(sublayer: int, output: torch.Tensor) -> None:
            rows = output.reshape(-1, output.shape[-1])[max(0, len(self.scores) - writer.reading) :]
            self._held[sublayer] = rows.detach().clone()  # the block may add to its output in place

        writer.listeners.append(self._judge)
        try:
            with tapped(writer.model, watch.sublayers, take):
                yield
        finally:
            writer.listeners.remove(self._judge)

    def _judge(self) -> None:
        import torch

        with torch.inference_mode():
            states = torch.stack([self._held[sublayer] for sublayer in self._watch.sublayers])
            for t in range(states.shape[1]):
                self._states.append(self._watch.state())
                self._told.scores.append(float(self._watch.step(states[:, t : t + 1])[self.objective][0]))

    def read(self, writer: Writer, *, final: bool) -> list[Verdict]:
        """See `Online`."""
        if len(self.scores) < len(writer.ids):
            writer.advance()
        return self._told.verdicts(writer)

    def rewind(self, writer: Writer) -> None:
        """See `Online`."""
        count = len(writer.ids)
        if count < len(self._states):
            self._watch.back(self._states[count])
            del self._states[count:]
        self._told.cut(writer)


class LikelihoodOnline:
    """How improbable each token was when it was drawn, scored as `Logprob` does; known before the model reads it."""

    def __init__(self, score: str = "logprob") -> None:
        self.score = score
        self._told = _Told()

    @property
    def scores(self) -> Sequence[float | None]:
        """That of each token; None where one was not drawn but put back."""
        return self._told.scores

    def attached(self, writer: Writer) -> AbstractContextManager[object]:
        """See `Online`."""
        return nullcontext()

    def read(self, writer: Writer, *, final: bool) -> list[Verdict]:
        """See `Online`."""
        for token_i in range(len(self.scores), len(writer.ids)):
            logits = writer.logits_before(token_i)
            self._told.scores.append(None if logits is None else self._score(logits, writer.ids[token_i]))
        return self._told.verdicts(writer)

    def _score(self, logits: torch.Tensor, token: int) -> float:
        import torch

        if self.score == "rank":
            return 1.0 - 1.0 / (1 + int((logits > logits[token]).sum()))
        logprobs = logits.log_softmax(-1)
        if self.score == "entropy":
            share = float(torch.special.entr(logprobs.exp()).sum()) / math.log(max(len(logits), 2))
            return min(max(share, 0.0), 1.0)
        return -math.expm1(min(float(logprobs[token]), 0.0))

    def rewind(self, writer: Writer) -> None:
        """See `Online`."""
        self._told.cut(writer)


class StreamOnline:
    """A detector with `stream(case)`; after a cut, a new session reads the text that is left."""

    def __init__(self, detector: Any, case: Case) -> None:
        self._detector, self._case = detector, replace(case, response="")
        self._session: Any = None
        self._fed = 0
        self._sent = 0  # characters up to which verdicts were passed on

    def attached(self, writer: Writer) -> AbstractContextManager[object]:
        """See `Online`."""
        return nullcontext()

    def read(self, writer: Writer, *, final: bool) -> list[Verdict]:
        """See `Online`."""
        if self._session is None:
            self._session, self._fed = self._detector.stream(self._case), 0
        found = list(self._session.feed(writer.text[self._fed :]))
        self._fed = len(writer.text)
        if final:
            found += self._session.finish()
            self._session = None
        new = [verdict for verdict in found if verdict.span.end > self._sent]
        self._sent = max((verdict.span.end for verdict in new), default=self._sent)
        return new

    def rewind(self, writer: Writer) -> None:
        """See `Online`."""
        self._session = None
        self._sent = min(self._sent, len(writer.text))


class JudgeOnline:
    """Any detector, asked about the text so far whenever a sentence is complete: once the next one has begun.

    One that gives no verdicts flags the new sentences with its score of the text so far.
    """

    def __init__(self, detector: Detector, case: Case) -> None:
        self._detector, self._case = detector, case
        self._read = 0  # characters

    def attached(self, writer: Writer) -> AbstractContextManager[object]:
        """See `Online`."""
        return nullcontext()

    def read(self, writer: Writer, *, final: bool) -> list[Verdict]:
        """See `Online`."""
        new = [s for s in sentences(writer.text)[: None if final else -1] if s.end > self._read]
        if not new:
            return []
        read, self._read = self._read, new[-1].end
        (judgement,) = self._detector.judge([replace(self._case, response=writer.text[: self._read])])
        if judgement.verdicts or judgement.hallucination is None:
            return [verdict for verdict in judgement.verdicts if verdict.span.end > read]
        return [Verdict(Span(max(new[0].start, read), self._read), judgement.hallucination)]

    def rewind(self, writer: Writer) -> None:
        """See `Online`."""
        self._read = min(self._read, len(writer.text))
