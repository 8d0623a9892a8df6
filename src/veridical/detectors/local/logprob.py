"""How likely a local language model finds the response, given its sources: the length-normalised log-probability.

After Seq-Logprob, the model-uncertainty baseline of Chwang et al. 2024 (section 5.2). The response is not generated but
read (forced decoding). It works without sources, too; then it says how likely the text is in itself. With an
encoder-decoder that was trained to summarise it is what Yuan et al. 2021 call BARTScore.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from veridical.core.detector import DetectorContext, DetectorInfo
from veridical.core.errors import CannotJudgeError, InputError, UnknownNameError
from veridical.core.segment import words
from veridical.core.spans import Span, complement
from veridical.core.spec import Spec
from veridical.core.types import Case, Judgement, Level, Verdict
from veridical.models.artifact import identity
from veridical.models.encode import Encoded, default_template, encode
from veridical.models.load import DTYPES, FORCED, LocalModel, load
from veridical.models.runner import Result, Runner, Want
from veridical.models.template import get_template

__all__ = ["SCORES", "UNITS", "Logprob"]

SCORES = ("logprob", "entropy", "rank")
UNITS = ("word", "token")
_OPTIONS = ("device", "dtype", "max_tokens", "max_windows", "revision", "score", "template", "unit")


class Logprob:
    """How improbable a local language model finds the response and each word of it, given the sources.

    `model` is a folder in Hugging Face format (or a hub name), a decoder or an encoder-decoder; it loads on first use.
    `template` None is "general", and "bare" (the source alone) for an encoder-decoder. `hallucination` is
    1 - exp(mean log p) over the response's tokens: 1 - the geometric mean of their probabilities. A token's score is
    1 - p; with `score` "entropy" the entropy of what the model expected there, as a share of the highest possible;
    with "rank" 1 - 1/rank. (The response's score is their mean then.) A word's score is the highest of its tokens';
    `unit="token"` gives a verdict to each token instead. Of several windows over long sources the one that supports a
    token best counts.

    These are likelihoods, not probabilities of hallucination: fit the threshold on labelled validation data.
    """

    info = DetectorInfo((Level.RESPONSE, Level.SPAN))

    def __init__(
        self,
        model: str | Path,
        *,
        template: str | None = None,
        score: str = "logprob",
        unit: str = "word",
        device: str = "auto",
        dtype: str = "auto",
        revision: str | None = None,
        max_tokens: int | None = None,
        max_windows: int | None = None,
        name: str | None = None,
    ) -> None:
        for kind, value, known in (("score", score, SCORES), ("unit", unit, UNITS), ("dtype", dtype, DTYPES)):
            if value not in known:
                raise UnknownNameError(f"{kind} of logprob", value, known)
        if template is not None:
            get_template(template)
        self.model = model
        self.template = template
        self.score = score
        self.unit = unit
        self.device = device
        self.dtype = dtype
        self.revision = revision
        self.max_tokens = max_tokens
        self.max_windows = max_windows
        self.name = name or f"logprob:{model}"

    @classmethod
    def from_spec(cls, spec: Spec, context: DetectorContext) -> Logprob:
        """The detector for `logprob:PATH[,OPTION=VALUE,…]`, such as "logprob:models/reader,score=rank"."""
        if spec.accept(_OPTIONS, values=1).value is None:
            raise InputError("logprob needs a model", hint="logprob:FOLDER[,template=NAME,score=rank,unit=token,…]")
        numbers = {name: spec.whole(name) for name in ("max_tokens", "max_windows")}
        return cls(spec.values[0], name=str(spec), **{**spec.options, **numbers})  # type: ignore[arg-type]

    def fingerprint(self) -> dict[str, Any]:
        """What its scores depend on: its options and the identity of its model, which this loads."""
        model = self._load()
        options = {name: getattr(self, name) for name in ("score", "unit", "max_tokens", "max_windows")}
        return options | {"template": self.template or default_template(model)} | identity(model)

    def _load(self) -> LocalModel:
        return load(self.model, revision=self.revision, device=self.device, dtype=self.dtype, kinds=FORCED)

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        """One judgement a case; all windows of all cases are batched together."""
        wordy = [bool(words(case.response)) for case in cases]
        if not any(wordy):
            return [_nothing(case, self.name, "the response has no words") for case in cases]
        model = self._load()
        sequences: list[Encoded] = []
        plans: list[slice | str] = []
        for case, there in zip(cases, wordy, strict=True):
            plans.append(self._plan(model, case, sequences) if there else "the response has no words")
        want = Want(self.score == "logprob", self.score == "entropy", self.score == "rank")
        results = list(Runner(model).run(sequences, want))
        size = model.model.get_output_embeddings().weight.shape[0]
        judgements = []
        for case, plan in zip(cases, plans, strict=True):
            if isinstance(plan, str):
                judgements.append(_nothing(case, self.name, plan))
            else:
                judgements.append(self._judgement(case, sequences[plan], results[plan], size))
        return judgements

    def _plan(self, model: LocalModel, case: Case, sequences: list[Encoded]) -> slice | str:
        """Where in `sequences` the case's windows were put, or why it has none."""
        try:
            made = encode(model, case, self.template, max_tokens=self.max_tokens, max_windows=self.max_windows)
        except CannotJudgeError as error:
            return str(error)
        if not made[0].spans:
            return "the tokenizer has no token for anything in the response"
        at = len(sequences)
        sequences += made
        return slice(at, len(sequences))

    def _judgement(self, case: Case, windows: Sequence[Encoded], results: Sequence[Result], size: int) -> Judgement:
        failed = [result.failed for result in results if result.failed]
        if failed:
            return _nothing(case, self.name, *dict.fromkeys(failed))
        values = self._best([getattr(result, self.score) for result in results])
        known = np.array([all(i >= e.scored_from for e in windows) for i in range(len(values))])
        notes = tuple(
            dict.fromkeys(note for e, r in zip(windows, results, strict=True) for note in (*e.notes, *r.notes))
        )
        if not known.any():
            return _nothing(case, self.name, "nothing comes before the only token of the response", *notes)
        scores = self._scores(values, size)
        if self.score == "logprob":
            whole = -math.expm1(float(values[known].mean()))
        else:
            whole = float(scores[known].mean())
        spans = [span and _trimmed(span, case.response) for span in windows[0].spans]
        parts = _groups(spans) if self.unit == "token" else words(case.response)
        verdicts, judged = _verdicts(case, parts, spans, scores, known)
        if not known.all():
            notes = (*notes, "nothing comes before the first token of the response: it was not judged")
        return Judgement(case.id, self.name, whole, verdicts=verdicts, judged=judged, notes=notes)

    def _best(self, values: Sequence[np.ndarray]) -> np.ndarray:
        """Of several windows, for each token the value of the one that supports it best."""
        stacked = np.stack(values).astype(np.float64)
        return np.minimum(stacked.max(0), 0.0) if self.score == "logprob" else stacked.min(0)

    def _scores(self, values: np.ndarray, size: int) -> np.ndarray:
        """Scores in [0, 1] of tokens, from log p, entropy in nats over `size` tokens, or rank."""
        if self.score == "logprob":
            return -np.expm1(values)
        if self.score == "entropy":
            return np.clip(values / math.log(max(size, 2)), 0.0, 1.0)
        return 1.0 - 1.0 / np.maximum(values, 1.0)


def _nothing(case: Case, by: str, *notes: str) -> Judgement:
    return Judgement(case.id, by, judged=(), notes=notes)


def _trimmed(span: Span, text: str) -> Span | None:
    """The span without the white space around it; None if there is nothing else."""
    inner = span.of(text)
    start = span.start + len(inner) - len(inner.lstrip())
    end = span.end - (len(inner) - len(inner.rstrip()))
    return Span(start, end) if start < end else None


def _groups(spans: Sequence[Span | None]) -> list[Span]:
    """One span for each token, or for the tokens that share a character together."""
    groups: list[Span] = []
    for span in sorted(span for span in spans if span):
        if groups and groups[-1].overlaps(span):
            groups[-1] = Span(groups[-1].start, max(groups[-1].end, span.end))
        else:
            groups.append(span)
    return groups


def _verdicts(
    case: Case, parts: Sequence[Span], spans: Sequence[Span | None], scores: np.ndarray, known: np.ndarray
) -> tuple[tuple[Verdict, ...], tuple[Span, ...] | None]:
    """For each part (words or tokens, in order) the highest score of its tokens; and what was judged, None = all."""
    verdicts, unknown = [], []
    places = sorted((span.start, span.end, i) for i, span in enumerate(spans) if span)
    first = 0
    for part in parts:
        while first < len(places) and places[first][1] <= part.start:
            first += 1
        found = []
        for start, end, i in places[first:]:
            if start >= part.end:
                break
            if end > part.start:
                found.append(i)
        if found and known[found].all():
            verdicts.append(Verdict(part, float(scores[found].max())))
        else:
            unknown.append(part)
    return tuple(verdicts), tuple(complement(unknown, len(case.response))) if unknown else None
