"""Check each sentence of a response against the sources with a cross-encoder, as a published method does.

A form (`forms.Form`) describes a method: which texts it compares, and how it computes scores from the probabilities.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from veridical.detectors.claims.aggregate import aggregate_claims
from veridical.detectors.claims.claim_checker import ClaimResult
from veridical.detectors.claims.claims import Claims
from veridical.detectors.entailment.artifact import KIND, load_layer
from veridical.detectors.entailment.comparison import Compared, compare
from veridical.detectors.entailment.forms import CHOICES, FORMS, Floats, Form, sentence_scores
from veridical.detectors.entailment.scorers import ClassifierScorer, PairScorer, ScorerOptions, open_scorer
from veridical.inference.artifact import described_kind
from veridical.inference.checkpoint import checkpoint_folder
from veridical.inference.heads import LogisticLayer
from veridical.records.detector import DetectorContext, DetectorInfo, digest_of
from veridical.records.errors import InputError, UnknownNameError
from veridical.records.judging import not_judged
from veridical.records.spans import Span
from veridical.records.spec import Spec
from veridical.records.types import DEFAULT_THRESHOLD, Case, Evidence, Judgement, Level, SourceSpan

CONTRADICTION, UNSUPPORTED = "contradiction", "unsupported"
_REASONS = {CONTRADICTION: "a source contradicts it", UNSUPPORTED: "no source entails it"}
_FORM_OPTIONS = ("form", "premise", "hypothesis", "words", "contradiction", "response")
_SCORER_OPTIONS = ("labels", "device", "dtype", "onnx", "max_tokens", "batch_tokens")


class Entailment:
    """Finds sentences that no source entails, with a cross-encoder (SummaC, MiniCheck, HHEM, AlignScore, NLI).

    Each sentence of the response has a verdict, with the part of the sources that supports it best as evidence. If the
    model has a class for contradiction, the label distinguishes sentences that a source contradicts from those that no
    source supports.

    Args:
        scorer: The scorer for pairs of texts (`scorers.open_scorer`).
        form: The published method, by its name in `forms.FORMS` or as a `Form`: which texts are compared, and how the
            scores are computed.
        layer: The trained layer of SummaC Conv, for a form with bins.
        name: The detector's name.
    """

    info = DetectorInfo((Level.RESPONSE, Level.SPAN))

    def __init__(
        self,
        scorer: PairScorer,
        form: Form | str = "nli",
        *,
        layer: LogisticLayer | None = None,
        name: str = "entailment",
    ) -> None:
        if isinstance(form, str):
            if form not in FORMS:
                raise UnknownNameError("form of entailment", form, FORMS)
            form = FORMS[form]
        if form.bins and layer is None:
            raise InputError(
                "summac-conv needs a trained layer", hint="veridical train summac writes one; then entailment:FOLDER"
            )
        self.scorer = scorer
        self.form = form
        self.layer = layer
        self.name = name
        if form.contradiction and not scorer.has_contradiction:
            raise InputError(f"{name} has no class for contradiction", hint="contradiction=no, or another checkpoint")
        if isinstance(scorer, ClassifierScorer):
            scorer.joined = form.joined

    @classmethod
    def from_spec(cls, spec: Spec, context: DetectorContext) -> Entailment:
        """Make the detector for `entailment:FOLDER[,OPTION=VALUE,…]`.

        FOLDER is a sequence classifier in Hugging Face format or its hub name, a classifier of `veridical train
        tokens`, or a folder that `veridical train summac` wrote.

        Options:
            form: A published form, which sets the next five options. Default: the form that the model's classes
                suggest.
            premise: The text that each hypothesis is compared with: "sentence", "chunk" or "document". Chunks are whole
                sentences.
            hypothesis: The text to check: "sentence" for each sentence of the response, or "response" for all of it at
                once.
            words: At most this many words are in a chunk (tokens, in the form minicheck), or fewer if the model reads
                fewer.
            contradiction: "yes": subtract the highest P(contradiction) from the highest P(entailment).
            response: "mean" or "worst": how the response's score is computed from the sentences' scores.
            labels, device, dtype, onnx, max_tokens, batch_tokens: As in `ScorerOptions`.
            model: Where the model is now, for a trained layer or a classifier on a frozen backbone.
        """
        if spec.accept((*_FORM_OPTIONS, *_SCORER_OPTIONS, "model"), values=1).value is None:
            raise InputError(f"{spec.name} needs a model", hint=f"{spec.name}:FOLDER or {spec.name}:OWNER/NAME")
        form = spec.options.get("form", "nli")
        if form not in FORMS:
            raise UnknownNameError("form of entailment", form, FORMS)
        place = checkpoint_folder(spec.values[0])
        whole = {name: spec.whole(name) for name in ("max_tokens", "batch_tokens") if name in spec.options}
        given = {name: spec.options[name] for name in ("labels", "device", "dtype", "onnx") if name in spec.options}
        options = ScorerOptions(**given, **whole, answers=FORMS[form].answers)  # type: ignore[arg-type]
        model = spec.options.get("model")
        if described_kind(place) != KIND:
            scorer = open_scorer(place, options, model=model)
            return cls(scorer, _form(spec, scorer), name=str(spec))
        for name in (*_FORM_OPTIONS, "labels"):
            if name in spec.options:
                raise InputError(f"{name} is fixed by the training in {place}", hint=f"leave out {name}=")
        trained = load_layer(place)
        if model is None and not Path(trained.base.name).is_dir():
            raise InputError(
                f"the model of {place} is not in {trained.base.name!r} any more",
                hint=f"say where it is: {spec.name}:{place},model=FOLDER",
            )
        scorer = open_scorer(Path(model or trained.base.name), replace(options, labels=trained.labels or None))
        scorer.expected = trained.base
        return cls(scorer, trained.form, layer=trained.layer, name=str(spec))

    def fingerprint(self) -> dict[str, Any]:
        """Return everything that the scores depend on: the form, the model, and the layer."""
        layer = None if self.layer is None else digest_of([self.layer.weight.tolist(), self.layer.bias])
        return {"form": asdict(self.form), "layer": layer, **self.scorer.fingerprint()}

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        """Judge each case. All pairs of a source part and a text to check are scored in one call for all cases."""
        return [self._judgement(compared) for compared in compare(self.scorer, self.form, cases)]

    def _judgement(self, compared: Compared) -> Judgement:
        matrix, case = compared.matrix, compared.case
        if matrix is None:
            return not_judged(case, self.name, compared.problem or "there is nothing to compare")
        is_read = matrix.is_read
        results: list[ClaimResult] = []
        whole = None
        if is_read.any():
            contradiction = None if matrix.contradiction is None else matrix.contradiction[is_read]
            scores, whole = sentence_scores(matrix.entailment[is_read], contradiction, self.form, self.layer)
            next_score = iter(scores.tolist())
        for i, claim in enumerate(compared.hypotheses):
            if not is_read[i]:
                results.append(ClaimResult(None, "the model has no token for it"))
                continue
            row = None if matrix.contradiction is None else matrix.contradiction[i]
            result = _result(next(next_score), matrix.entailment[i], row, compared.premises)
            read = int(matrix.read[i].min())
            unread = (Span(read, len(claim.text)),) if read < len(claim.text) else ()
            results.append(replace(result, unjudged=unread))
        pairs = list(zip(compared.hypotheses, results, strict=True))
        judgement = aggregate_claims(case, self.name, pairs, Claims(compared.hypotheses))
        cut = int((~matrix.whole).any(axis=0).sum())
        note = f"{cut} of {len(compared.premises)} premises are too long for the model: their ends were not read"
        return replace(judgement, hallucination=whole, notes=(*judgement.notes, *([note] if cut else [])))


def _form(spec: Spec, scorer: PairScorer) -> Form:
    """Choose the form that the spec names or the model's classes suggest, and apply the options of the spec."""
    usual = scorer.usual_form if isinstance(scorer, ClassifierScorer) else "nli"
    form = FORMS[spec.options.get("form", usual)]
    changes: dict[str, Any] = {
        name: spec.choice(name, getattr(form, name), CHOICES[name]) for name in ("premise", "hypothesis", "response")
    }
    return replace(
        form,
        **changes,
        words=spec.whole("words", form.words) or form.words,
        contradiction=spec.flag("contradiction", form.contradiction),
    )


def _result(
    score: float, entailment: Floats, contradiction: Floats | None, premises: Sequence[SourceSpan]
) -> ClaimResult:
    """Return the result for one hypothesis, with the premise that entails or contradicts it as evidence."""
    best, weight = int(entailment.argmax()), float(entailment.max())
    label = UNSUPPORTED if score >= DEFAULT_THRESHOLD else None
    if contradiction is not None and contradiction.max() > max(weight, 0.5):
        best, weight, label = int(contradiction.argmax()), float(contradiction.max()), CONTRADICTION
    evidence = Evidence(premises[best].source_id, premises[best].span, min(weight, 1.0))
    return ClaimResult(score, label and _REASONS[label], (evidence,), label=label)
