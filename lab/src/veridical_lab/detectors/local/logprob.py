"""Score a response by how probable a local language model finds it, given its sources.

The score is the mean log-probability of the tokens (Seq-Logprob), the model-uncertainty baseline of CH-Wang et al.
2024, §5.2. The model reads the response (teacher forcing) and generates nothing. Without sources, the score measures
how likely the text is by itself. With an encoder-decoder that was trained to summarise, this is BARTScore (Yuan et al.
2021).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from veridical.inference.local_model import FORCED, LocalModel
from veridical.inference.template import get_template
from veridical.models.base_model import identity
from veridical.models.load import DTYPES, load
from veridical.records.detector import DetectorContext, DetectorInfo
from veridical.records.errors import InputError, UnknownNameError
from veridical.records.judging import not_judged
from veridical.records.spec import Spec
from veridical.records.types import Case, Judgement, Level
from veridical.text.segment import words
from veridical_lab.detectors.local.forced_decoding import NO_WORDS, decode_cases
from veridical_lab.detectors.local.word_scores import SCORED_UNITS, word_verdicts
from veridical_lab.models.encode import default_template
from veridical_lab.models.runner import RequestedOutputs

TOKEN_SCORES = ("logprob", "entropy", "rank")
_OPTIONS = ("device", "dtype", "max_tokens", "max_windows", "revision", "score", "template", "unit")


@dataclass(eq=False)
class Logprob:
    """Scores how improbable a local language model finds the response and each of its words, given the sources.

    `hallucination` is 1 - exp(mean log p) over the response's tokens, which is 1 minus the geometric mean of their
    probabilities. For the scores "entropy" and "rank", it is the mean score of the tokens. A word gets the highest
    score of its tokens. If long sources are read in several windows, each token gets its score from the window that
    supports it best.

    The scores are not probabilities of hallucination, so fit the threshold on labelled validation data.

    Args:
        model: A folder in Hugging Face format, or a hub name, of a decoder or an encoder-decoder. The model is loaded
            on first use.
        template: The prompt (`inference.template`). Default: "general", or "bare" (the source alone) for an
            encoder-decoder.
        score: How to score a token. "logprob" is 1 - p. "entropy" is the entropy of the model's prediction, as a
            fraction of the highest possible entropy. "rank" is 1 - 1/rank, so 0 for the likeliest token.
        unit: Give a verdict to each "word" or each "token". Tokens that share a character share a verdict.
        device: As in `models.load`.
        dtype: As in `models.load`.
        revision: As in `models.load`.
        max_tokens: A sequence may have at most this many tokens. For an encoder-decoder, this limits the encoder's
            side.
        max_windows: Read at most this many windows of long sources. A note says if some were not read. Default: all.
        name: The detector's name. Default: "logprob:MODEL".
    """

    info = DetectorInfo((Level.RESPONSE, Level.SPAN), needs_sources=False)

    model: str | Path
    _: KW_ONLY
    template: str | None = None
    score: str = "logprob"
    unit: str = "word"
    device: str = "auto"
    dtype: str = "auto"
    revision: str | None = None
    max_tokens: int | None = None
    max_windows: int | None = None
    name: str = ""

    def __post_init__(self) -> None:
        allowed_by_kind = (
            ("score", self.score, TOKEN_SCORES),
            ("unit", self.unit, SCORED_UNITS),
            ("dtype", self.dtype, DTYPES),
        )
        for kind, value, allowed in allowed_by_kind:
            if value not in allowed:
                raise UnknownNameError(f"{kind} of logprob", value, allowed)
        if self.template is not None:
            get_template(self.template)
        self.name = self.name or f"logprob:{self.model}"

    @classmethod
    def from_spec(cls, spec: Spec, context: DetectorContext) -> Logprob:
        """Build the detector from `logprob:FOLDER[,OPTION=VALUE,…]`."""
        if spec.accept(_OPTIONS, values=1).value is None:
            raise InputError("logprob needs a model", hint="logprob:FOLDER[,template=NAME,score=rank,unit=token,…]")
        numbers = {name: spec.whole(name) for name in ("max_tokens", "max_windows")}
        return cls(spec.values[0], name=str(spec), **{**spec.options, **numbers})  # type: ignore[arg-type]

    def fingerprint(self) -> dict[str, Any]:
        """Return everything the scores depend on: the options and the model's identity.

        This loads the model.
        """
        model = self._load()
        options = {name: getattr(self, name) for name in ("score", "unit", "max_tokens", "max_windows")}
        return options | {"template": self.template or default_template(model)} | identity(model)

    def _load(self) -> LocalModel:
        return load(self.model, revision=self.revision, device=self.device, dtype=self.dtype, kinds=FORCED)

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        """Judge each case. The windows of all cases are batched together."""
        if not any(words(case.response) for case in cases):
            return [not_judged(case, self.name, NO_WORDS) for case in cases]
        model = self._load()
        want = RequestedOutputs(self.score == "logprob", self.score == "entropy", self.score == "rank")
        limits = {"max_tokens": self.max_tokens, "max_windows": self.max_windows}
        decoded = decode_cases(model, cases, want, self.template, **limits)
        vocabulary = model.model.get_output_embeddings().weight.shape[0]
        judgements = []
        for case, outputs in zip(cases, decoded, strict=True):
            if outputs.problems:
                judgements.append(not_judged(case, self.name, *outputs.problems))
                continue
            windows, notes = outputs.windows, outputs.notes
            stacked = np.stack([getattr(result, self.score) for result in outputs.results]).astype(np.float64)
            # over several windows, the best support of each token counts
            values = np.minimum(stacked.max(0), 0.0) if self.score == "logprob" else stacked.min(0)
            predicted = np.array([all(i >= window.scored_from for window in windows) for i in range(len(values))])
            if not predicted.any():
                reason = "nothing comes before the only token of the response"
                judgements.append(not_judged(case, self.name, reason, *notes))
                continue
            scores = token_scores(values, self.score, vocabulary)
            mean = -math.expm1(values[predicted].mean()) if self.score == "logprob" else float(scores[predicted].mean())
            verdicts, judged = word_verdicts(case.response, windows[0].spans, scores, unit=self.unit, known=predicted)
            if not predicted.all():
                notes = (*notes, "nothing comes before the first token of the response: it was not judged")
            judgements.append(Judgement(case.id, self.name, mean, verdicts=verdicts, judged=judged, notes=notes))
        return judgements


def token_scores(values: np.ndarray, score: str, vocabulary: int) -> np.ndarray:
    """Turn a model's predictions for tokens into scores in [0, 1].

    Args:
        values: The tokens' log-probabilities, entropies in nats, or ranks from 1. *Shape:* (tokens,)
        score: The kind of `values`, one of `TOKEN_SCORES`.
        vocabulary: The size of the model's vocabulary.
    """
    if score == "logprob":
        return -np.expm1(values)
    if score == "entropy":
        return np.clip(values / math.log(max(vocabulary, 2)), 0.0, 1.0)
    return 1.0 - 1.0 / np.maximum(values, 1.0)
