"""Token and span classifiers trained on your labels, with or without sources, offline and online.

The classifiers follow Liu et al. 2022, §4.2 and §5. With sources, they work like LettuceDetect (Kovács and Recski
2025).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from veridical.detectors.explanation import likely_label
from veridical.detectors.tokens.artifact import BACKBONE, ONNX, TokenScale, TokenSettings, load_tokens
from veridical.detectors.tokens.scoring import PairScorer, ScoredResponse
from veridical.inference.artifact import DETECTOR, Artifact
from veridical.inference.heads import PairHead
from veridical.inference.local_model import READERS, LocalModel
from veridical.inference.onnx_runtime import PRECISIONS, described, load_onnx, parts_of
from veridical.inference.pair_runner import Engine, PairRunner
from veridical.inference.pairs import PairEncoder
from veridical.inference.template import get_template
from veridical.metrics.calibrators import Platt
from veridical.records.detector import DetectorContext, DetectorInfo, digest_of
from veridical.records.errors import InputError
from veridical.records.judging import not_judged
from veridical.records.spans import Span, complement
from veridical.records.spec import Spec
from veridical.records.types import Case, Judgement, Level, Verdict

if TYPE_CHECKING:
    from veridical.detectors.tokens.streaming import TokenSession

_OPTIONS = ("batch_tokens", "device", "dtype", "evidence", "labels", "max_tokens", "model", "onnx", "template")


class Tokens:
    """Classifies tokens or spans by the hidden states of an encoder or decoder (`veridical train tokens`).

    The model encodes the sources and the response as one sequence, a window. The hidden states of the tokens of a word
    are pooled and then scored. If the sources do not fit into one window, there are several, and the window that
    supports the word best counts.

    The score of the response comes from a head of its own or from its worst word, whichever ranked responses better on
    validation data. All scores are calibrated probabilities. Some classifiers are also trained to label flagged words
    as contradiction or absence.

    Args:
        path: A folder that `veridical train tokens` wrote, or a plain token classification checkpoint with two labels.
        model: Where the backbone is now, for a classifier on a frozen backbone. Default: where it was at training.
        device: As in `models.load`.
        dtype: As in `models.load`; "auto": bf16 if the processor computes in it.
        onnx: "fp32" or "int8": run the ONNX file that `veridical export` wrote, without torch and without the
            backbone's weights, which may be absent. Default: use torch.
        evidence: How to read sources that do not fit into one window: only the sentences that share the most words with
            the response and its question ("relevant"), or everything in several windows ("all"). Default: as trained.
        max_tokens: At most this many tokens are in a window. Default: as trained.
        template: The prompt template for a plain checkpoint. Default: the sources alone.
        labels: What the two labels of a plain checkpoint mean, separated by "|". Default: as in its configuration.
        batch_tokens: At most this many tokens are in a batch, including padding.
        name: The detector's name. Default: "tokens:PATH".
    """

    info = DetectorInfo((Level.RESPONSE, Level.SPAN), needs_sources=False)

    def __init__(
        self,
        path: str | Path,
        *,
        model: str | Path | None = None,
        device: str = "auto",
        dtype: str = "auto",
        onnx: str | None = None,
        evidence: str | None = None,
        max_tokens: int | None = None,
        template: str | None = None,
        labels: str | None = None,
        batch_tokens: int | None = None,
        name: str | None = None,
    ) -> None:
        self.path = Path(path)
        self.model = model
        self.device = device
        self.dtype = dtype
        self.onnx = onnx
        self.changes: dict[str, Any] = {"evidence": evidence, "max_tokens": max_tokens, "template": template}
        self.labels = labels
        self.batch_tokens = batch_tokens
        self.name = name or f"tokens:{path}"

    @classmethod
    def from_spec(cls, spec: Spec, context: DetectorContext) -> Tokens:
        """Make the detector for `tokens:FOLDER[,OPTION=VALUE,…]`.

        The options are the keyword arguments of the class, except `name`.
        """
        if spec.accept(_OPTIONS, values=1).value is None:
            raise InputError("tokens needs a trained classifier", hint="tokens:FOLDER, from `veridical train tokens`")
        options: dict[str, Any] = {
            **spec.options,
            **{name: spec.whole(name) for name in ("batch_tokens", "max_tokens")},
        }
        tokens = cls(spec.values[0], name=str(spec), **options)
        tokens.settings  # noqa: B018 - check that the folder holds a classifier before judging anything
        return tokens

    @cached_property
    def _loaded(self) -> tuple[Artifact | None, TokenSettings, PairHead]:
        artifact: Artifact | None = None
        if (self.path / DETECTOR).is_file() or not (self.path / "config.json").is_file():
            artifact, settings, head = load_tokens(self.path)
            for name, value in (("template", self.changes["template"]), ("labels", self.labels)):
                if value is not None:
                    raise InputError(f"{name} of {self.path} is fixed by its training", hint=f"leave out {name}=")
        else:
            if self.changes["template"] is not None:
                get_template(self.changes["template"])
            from veridical.detectors.tokens.checkpoint import load_checkpoint

            settings, head = load_checkpoint(self.path, self.labels)
        changes = {name: value for name, value in self.changes.items() if value is not None}
        return artifact, replace(settings, pairs=replace(settings.pairs, **changes)), head

    @property
    def settings(self) -> TokenSettings:
        """The settings for encoding and scoring cases. Reading them raises `DataError` if the folder is damaged."""
        return self._loaded[1]

    @property
    def thresholds(self) -> dict[Level, float]:
        """The lowest score that is flagged, for responses and for words, fitted on validation data."""
        return {Level.RESPONSE: self.settings.response.threshold, Level.SPAN: self.settings.span.threshold}

    def backbone(self) -> LocalModel:
        """Load the backbone: the encoder or decoder whose hidden states the classifier uses.

        Raises:
            InputError: The classifier was trained on another backbone. The message names the difference.
        """
        from veridical.models.base_model import load_base
        from veridical.models.load import load

        artifact = self._loaded[0]
        if artifact is None:
            return load(self.path, device=self.device, dtype=self.dtype, kinds=READERS)
        place = self.model
        if self.settings.backbone:
            if self.model is not None:
                raise InputError(f"{self.path} has a backbone of its own", hint="leave out model=")
            place = self.path / BACKBONE
            exports = [name for name in PRECISIONS if parts_of(self.path / ONNX, name)]
            if exports and not any((self.path / BACKBONE).glob("*.safetensors")):
                raise InputError(
                    f"{self.path} has no weights for torch, only an ONNX file ({', '.join(exports)})",
                    hint=f"tokens:{self.path},onnx={exports[-1]}",
                )
        return load_base(
            artifact.base,
            f"the classifier in {self.path}",
            model=place,
            device=self.device,
            dtype=self.dtype,
        )

    @cached_property
    def scorer(self) -> PairScorer:
        """The scorer that computes the logits of units (words, tokens or spans), with the model loaded.

        With `onnx`, neither torch nor transformers is imported.
        """
        artifact, settings, head = self._loaded
        engine: Engine
        if self.onnx is not None:
            place: str | Path = self.path
            if artifact is not None:
                place = self.path / BACKBONE if settings.backbone else self.model or artifact.base.name
            weights = None if artifact is None else artifact.base.weights
            engine = load_onnx(self.path / ONNX, place, weights, self.onnx)
        else:
            from veridical.models.torch_engine import TorchEngine

            engine = TorchEngine(self.backbone())
        runner = PairRunner(engine, settings.mode, settings.attention, max_batch_tokens=self.batch_tokens)
        return PairScorer(runner, PairEncoder(engine.model, settings.pairs), head)

    def fingerprint(self) -> dict[str, Any]:
        """Return everything that the scores depend on: the settings, the head and the backbone."""
        artifact, settings, head = self._loaded
        if artifact is None:
            from veridical.models.base_model import base_of

            base = base_of(self.backbone())
        else:
            base = artifact.base
        digest = hashlib.sha256(digest_of([asdict(settings), base.weights, base.config]).encode())
        for name, tensor in sorted(head.tensors.items()):
            digest.update(name.encode() + np.ascontiguousarray(tensor).tobytes())
        onnx = None if self.onnx is None else f"{self.onnx}/{described(self.path / ONNX, self.onnx).sha256[:16]}"
        return {"tokens": digest.hexdigest()[:16], "mode": settings.mode, "onnx": onnx}

    def score_units(
        self, cases: Sequence[Case], units: Sequence[Sequence[Span] | None] | None = None
    ) -> list[ScoredResponse]:
        """Compute the logits of the units of each response. A unit is a word, a token or a span that gets one logit.

        If you pass spans, each span is pooled as one unit, so that a marked phrase is judged as one (Liu et al. 2022,
        §3.1). Otherwise the units are words or tokens, depending on how the classifier was trained.

        Args:
            cases: The cases to score.
            units: The spans to score in each response. None, also as the entry of one response, for words or tokens.
        """
        return self.scorer.score(cases, units)

    def judge_spans(self, cases: Sequence[Case], spans: Sequence[Sequence[Span]]) -> list[Judgement]:
        """Judge each case, with one verdict for each span of the response that you pass.

        The hidden states of all tokens in a span are pooled, so that the span has a single score. A span without tokens
        has no verdict.

        Args:
            cases: The cases to judge.
            spans: For each case, the spans of its response.
        """
        return [
            self.judgement(case, scored) for case, scored in zip(cases, self.score_units(cases, spans), strict=True)
        ]

    def stream(self, case: Case) -> TokenSession:
        """Start a session that judges a response to `case` while it is generated.

        Call `feed` of the session with each new text, and `finish` at the end. Both return the new verdicts. The case's
        own `response` is ignored.
        """
        from veridical.detectors.tokens.streaming import TokenSession

        return TokenSession(self.scorer, lambda part, scored: self.judgement(part, scored).verdicts, case)

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        """Judge each case. The encoded input sequences of all cases are batched together by length."""
        return [self.judgement(case, scored) for case, scored in zip(cases, self.score_units(cases), strict=True)]

    def judgement(self, case: Case, scored: ScoredResponse) -> Judgement:
        """Convert the logits of a response, from `score_units`, into the judgement of its case."""
        if scored.problem:
            return not_judged(case, self.name, scored.problem)
        is_read = np.isfinite(scored.logits)
        probabilities = probabilities_of(self.settings.span, scored.logits[is_read])
        spans = [unit for unit, read in zip(scored.units, is_read, strict=True) if read]
        verdicts = tuple(Verdict(s, float(p)) for s, p in zip(spans, probabilities, strict=True))
        if labels := self._labels(scored):
            verdicts = tuple(
                replace(verdict, label=labels[part]) if verdict.score >= self.settings.span.threshold else verdict
                for verdict, part in zip(verdicts, scored.part_of[is_read].tolist(), strict=True)
            )
        whole = scored.whole
        if self.settings.response_by == "worst" and is_read.any():
            whole = float(scored.logits[is_read].max())
        response = float(probabilities_of(self.settings.response, np.array([whole]))[0])
        notes, judged = scored.notes, None
        if not is_read.all():
            unread = [unit for unit, read in zip(scored.units, is_read, strict=True) if not read]
            judged = tuple(complement(unread, len(case.response)))
            notes = (*notes, "the tokenizer has no token for a part of the response: it was not judged")
        return Judgement(case.id, self.name, response, verdicts=verdicts, judged=judged, notes=notes)

    def _labels(self, scored: ScoredResponse) -> list[str | None]:
        """Return the label of each part of a response, contradiction or absence.

        The list is empty if the classifier cannot distinguish the two.
        """
        scale = self.settings.contradiction
        if scale is None:
            return []
        return [likely_label(float(p)) for p in probabilities_of(scale, scored.contradictions)]


def probabilities_of(scale: TokenScale, logits: np.ndarray) -> np.ndarray:
    """Convert logits into calibrated probabilities in [0, 1], by the slope and intercept of `scale`."""
    return Platt(scale.slope, scale.intercept).apply(logits)
