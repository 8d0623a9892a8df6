"""The default detector: word overlap combined with a small cross-encoder that comes with the package.

The encoder runs on onnxruntime alone. It reads each sentence of the response with the source sentences that share the
most words with it. For coverage the roles change: it reads each sentence of a source to cover with the response as its
source (after Chang et al. 2024, §3).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from veridical.calibration.calibrators import Isotonic, Platt, calibrator
from veridical.core.detector import DetectorContext, DetectorInfo
from veridical.core.errors import DataError, InputError
from veridical.core.judging import thresholds_in_force
from veridical.core.perspectives import by_perspective
from veridical.core.segment import has_words, word_forms
from veridical.core.spans import Span, complement
from veridical.core.spec import Spec
from veridical.core.types import Case, Judgement, Level, Omission, Source, SourceSpan, Verdict
from veridical.detectors.claims.unclaimed import may_frame, without_unclaimed
from veridical.detectors.default.combining import (
    LevelModel,
    level_models,
    sentence_rows,
    source_rows,
    with_absences,
    with_computed_amounts,
    with_copies,
    with_misread_cells,
    word_table,
)
from veridical.detectors.default.reading import (
    in_forms_of_response,
    with_question,
    without_question,
    without_unsupported_context,
)
from veridical.detectors.default.wording import answers
from veridical.detectors.explanation import explained
from veridical.detectors.scope import limits_of
from veridical.detectors.tokens.artifact import BACKBONE, ONNX, load_tokens
from veridical.detectors.tokens.lexical import word_count
from veridical.detectors.tokens.scoring import PairScorer, ScoredResponse
from veridical.models.artifact import DETECTOR, description
from veridical.models.onnx_runtime import load_onnx
from veridical.models.pair_runner import PairRunner
from veridical.models.pairs import PairEncoder

if TYPE_CHECKING:
    from veridical.detectors.tokens.detector import Tokens

__all__ = ["ENCODER", "KIND", "PACKAGED", "Default", "coverage_case", "score"]

KIND = "default"
PACKAGED = Path(__file__).parent / "model"
ENCODER = "encoder"
MOST = 256
"""How many sentences of a source to cover the encoder reads: those that share the most words with the response."""
UNREAD = 3.5
"""The logit of the sentences that are not read: about the mean logit that the encoder gives them when it does read them
(3.1 to 3.9 in nine sources of some 560 sentences)."""
_PRECISIONS = ("int8", "fp32", "torch")


class Default:
    """Scores words, sentences and coverage with a small encoder and word overlap; comes with the package.

    Each word of the response gets a verdict; its score, like that of the response, is a calibrated probability. Flagged
    words and omissions are explained (`detectors.explanation`). Each sentence of a source with `must_cover` gets an
    omission; `omission` is the mean over a perspective's sentences, and the worst perspective counts. A sentence that a
    source has word for word, as a whole sentence or clause, counts as supported. The detector was trained on English;
    `veridical train default` makes it again.

    Args:
        path: A folder that `veridical train default` wrote; None: the one in the package.
        precision: "int8" or "fp32" (ONNX), or "torch" for the encoder's own weights, if the folder has them.
        name: The detector's name; None: "default", or "default:PATH".
    """

    info = DetectorInfo()

    def __init__(self, path: str | Path | None = None, *, precision: str = "int8", name: str | None = None) -> None:
        if precision not in _PRECISIONS:
            raise InputError(f"precision is {precision!r}", hint=f"one of {', '.join(_PRECISIONS)}")
        self.path = PACKAGED if path is None else Path(path)
        self.precision = precision
        self.name = name or ("default" if path is None else f"default:{path}")

    @classmethod
    def from_spec(cls, spec: Spec, context: DetectorContext) -> Default:
        """Make the detector for `default[:FOLDER][,OPTION=VALUE]`."""
        spec.accept(("precision",), values=1)
        precision = spec.options.get("precision", "int8")
        if spec.value is None:
            detector = _packaged(PACKAGED, precision, str(spec), os.getpid())
        else:
            detector = cls(spec.value, precision=precision, name=str(spec))
        detector.thresholds  # noqa: B018 - check that the folder holds a detector before judging anything
        return detector

    @cached_property
    def _document(self) -> dict[str, Any]:
        if self.path == PACKAGED and not (PACKAGED / DETECTOR).is_file():
            raise DataError(
                "the default detector is not in this installation",
                path=PACKAGED,
                hint="overlap works without it; `veridical train default` makes one, for default:FOLDER",
            )
        return description(self.path, KIND)

    @cached_property
    def _levels(self) -> dict[Level, LevelModel]:
        return level_models(self._document, self.path / DETECTOR)

    @cached_property
    def _contradiction(self) -> Platt | Isotonic | None:
        parameters = self._document.get("contradiction")
        try:
            return None if parameters is None else calibrator(parameters)
        except (InputError, TypeError, ValueError) as error:
            message = "the calibration of contradictions is damaged"
            raise DataError(message, path=self.path / DETECTOR, hint="copy or train it again") from error

    @cached_property
    def scorer(self) -> PairScorer:
        """The scorer of words and sentences; in "int8" and "fp32" it needs onnxruntime only."""
        self._levels  # noqa: B018 - report a missing detector before a missing encoder
        if self.precision == "torch":
            return self._encoder().scorer
        folder = self.path / ENCODER
        artifact, settings, head = load_tokens(folder)
        engine = load_onnx(folder / ONNX, folder / BACKBONE, artifact.base.weights, self.precision)
        runner = PairRunner(engine, settings.mode, settings.attention)
        return PairScorer(runner, PairEncoder(engine.model, settings.pairs), head)

    def _encoder(self) -> Tokens:
        """Return the encoder as a detector of its own."""
        from veridical.detectors.tokens.detector import Tokens

        onnx = None if self.precision == "torch" else self.precision
        return Tokens(self.path / ENCODER, onnx=onnx, dtype="fp32", name=self.name)

    @property
    def thresholds(self) -> dict[Level, float]:
        """The thresholds fitted on validation data."""
        thresholds = {level: model.threshold for level, model in self._levels.items()}
        self._contradiction  # noqa: B018 - report a damaged calibration before judging anything
        return {**thresholds, Level.COVERAGE: thresholds[Level.SOURCE]}

    def fingerprint(self) -> dict[str, Any]:
        """Identify everything that the scores depend on: the regressions and the encoder."""
        encoder = self._encoder().fingerprint()
        digest = hashlib.sha256((self.path / DETECTOR).read_bytes()).hexdigest()[:16]
        return {"default": digest, "encoder": encoder}

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        """Judge each case. The responses of all cases are batched together, and so are the sources to cover."""
        coverage = [(i, source) for i, case in enumerate(cases) for source in _to_cover(case)]
        readable = [coverage_case(cases[i], source) for i, source in coverage if has_words(cases[i].response)]
        of_response = self._read(cases)
        covered = iter(score(self.scorer, readable, of_sources=True))
        omissions: dict[int, list[tuple[Source, list[Omission]]]] = {}
        for i, source in coverage:
            scored = next(covered) if has_words(cases[i].response) else None
            omissions.setdefault(i, []).append((source, self._omissions(cases[i], source, scored)))
        thresholds = thresholds_in_force(self)
        return [
            explained(
                case,
                self._judgement(case, of_response.get(i), omissions.get(i, [])),
                thresholds,
                contradicted=self._contradicted(of_response.get(i)),
            )
            for i, case in enumerate(cases)
        ]

    def contradicted(self, cases: Sequence[Case]) -> list[list[tuple[Span, float]]]:
        """Return, for each case, its response's sentences with the probability that the sources contradict them.

        Each probability holds given that the sentence is unsupported. A case without sources has no entries, and
        neither has any case if the detector was not trained to tell contradiction from absence.
        """
        of_response = self._read(cases)
        return [self._contradicted(of_response.get(i)) for i in range(len(cases))]

    def _read(self, cases: Sequence[Case]) -> dict[int, ScoredResponse]:
        """Score the responses of cases whose sources have words; return the logits by the index of the case."""
        to_read = [i for i, case in enumerate(cases) if any(has_words(source.text) for source in case.sources)]
        return dict(zip(to_read, score(self.scorer, [cases[i] for i in to_read]), strict=True))

    def _contradicted(self, scored: ScoredResponse | None) -> list[tuple[Span, float]]:
        if self._contradiction is None or scored is None or scored.problem:
            return []
        return [
            (_span_of(scored, units), float(probability))
            for units, logit in zip(scored.units_of_parts(), scored.contradictions, strict=True)
            if len(units) and np.isfinite(logit)
            for probability in self._contradiction.apply([logit])
        ]

    def _judgement(
        self, case: Case, scored: ScoredResponse | None, covered: Sequence[tuple[Source, list[Omission]]]
    ) -> Judgement:
        notes: list[str] = []
        hallucination: float | None = None
        verdicts: tuple[Verdict, ...] = ()
        sentences: tuple[Verdict, ...] = ()
        judged: tuple[Span, ...] | None = None
        if scored is None:
            notes.append("no sources to compare with" if not case.sources else "the sources have no words")
        elif not scored.units and has_words(case.response):
            notes.append("the response makes no claim")
        elif scored.problem or not np.isfinite(scored.logits).any():
            notes.append((scored.problem or "the response has no words").removeprefix(f"case {case.id!r}: "))
        else:
            table = word_table(case, scored)
            is_read = np.isfinite(scored.logits)
            probabilities = self._levels[Level.SPAN].probabilities(table.rows[is_read])
            words = [unit for unit, read in zip(scored.units, is_read, strict=True) if read]
            verdicts = tuple(Verdict(word, float(p)) for word, p in zip(words, probabilities, strict=True))
            rows = sentence_rows(scored, table, word_count(source.text for source in case.sources))
            of_sentences = self._levels[Level.RESPONSE].probabilities(rows).tolist()
            sentences = tuple(
                Verdict(_span_of(scored, units), probability)
                for units, probability in zip(scored.units_of_parts(), of_sentences, strict=True)
                if len(units)
            )
            hallucination = max(sentence.score for sentence in sentences)
            notes += scored.notes
            if not is_read.all():
                unread = [unit for unit, read in zip(scored.units, is_read, strict=True) if not read]
                judged = tuple(complement(unread, len(case.response)))
                notes.append("the encoder has no token for a part of the response: it was not judged")
        skipped = [s.id for s in case.sources if s.must_cover and s.id not in {source.id for source, _ in covered}]
        notes += [f"source {id!r} has no words; its coverage was not judged" for id in skipped]
        means = [
            float(np.mean([each.score for of_source in group for each in of_source]))
            for group in by_perspective(covered)
        ]
        omission = max(means) if means else None
        omissions = tuple(each for _, of_source in covered for each in of_source)
        if hallucination is not None or covered:
            # its training data had tables and records
            limits = [limit for limit in limits_of(case) if limit.kind not in ("table", "empty source")]
            notes += [limit.note for limit in limits]
            if any(limit.lowers_confidence for limit in limits):
                response, span, coverage, source = (_halfway(self.thresholds[level]) for level in Level)
                hallucination, omission = response(hallucination), coverage(omission)
                verdicts = tuple(replace(verdict, score=span(verdict.score)) for verdict in verdicts)
                sentences = tuple(replace(sentence, score=response(sentence.score)) for sentence in sentences)
                omissions = tuple(replace(each, score=source(each.score)) for each in omissions)
        return Judgement(
            case.id,
            self.name,
            hallucination,
            omission,
            verdicts,
            omissions,
            () if hallucination is None else judged,
            tuple(notes),
            judged_sources=tuple(SourceSpan(s.id, Span(0, len(s.text))) for s, _ in covered) if skipped else None,
            sentences=sentences,
        )

    def _omissions(self, case: Case, source: Source, scored: ScoredResponse | None) -> list[Omission]:
        """Score each sentence of `source` as left out; a response without words leaves out all of it."""
        if scored is None:
            return [Omission(source.id, Span(0, len(source.text)), 1.0)]
        reverse = coverage_case(case, source)
        rows = source_rows(scored, word_table(reverse, scored), len(word_forms(case.response)))
        probabilities = self._levels[Level.SOURCE].probabilities(rows).tolist()
        return [
            Omission(source.id, _span_of(scored, units), probability)
            for units, probability in zip(scored.units_of_parts(), probabilities, strict=True)
            if len(units)
        ]


def _span_of(scored: ScoredResponse, units: NDArray[np.int64]) -> Span:
    """Return the span from the first to the last of `units`."""
    return Span(scored.units[units[0]].start, scored.units[units[-1]].end)


def score(scorer: PairScorer, cases: Sequence[Case], *, of_sources: bool = False) -> list[ScoredResponse]:
    """Return the logits of each response, before the regressions: the encoder's logits, lowered for copied sentences.

    The encoder reads each sentence with as much of the sources as fits, and a short answer with its question. It skips
    text that makes no claim (`claims.unclaimed`). Questions and earlier answers that would be wrong evidence are left
    out, and values and words of the sources are read in the form that the response uses (`reading`).

    Args:
        scorer: Reads the cases.
        cases: The cases.
        of_sources: Whether the responses are sources to cover. These are read whole; of more than `MOST` sentences,
            only those that share the most words with the response are read.
    """
    if not of_sources:
        # a refusal makes a claim only if the sources answer the question
        refusals = [may_frame(c.response) and c.question is not None and answers(c.sources, c.question) for c in cases]
        cases = [
            replace(case, response=without_unclaimed(case.response, case.sources, with_refusals=refusal))
            for case, refusal in zip(cases, refusals, strict=True)
        ]
    as_given = cases
    cases = [in_forms_of_response(case) for case in cases]
    asked = [(case, 0) if of_sources else with_question(without_unsupported_context(case)) for case in cases]
    scored = scorer.score([case for case, _ in asked], most=MOST if of_sources else None)
    scored = [without_question(each, length) for each, (_, length) in zip(scored, asked, strict=True)]
    if of_sources:
        scored = [_filled(each) for each in scored]
    scored = [with_copies(case, each, whole=not of_sources) for case, each in zip(cases, scored, strict=True)]
    if of_sources:
        return scored
    scored = [with_absences(case, each) for case, each in zip(cases, scored, strict=True)]
    scored = [with_computed_amounts(case, each) for case, each in zip(as_given, scored, strict=True)]
    return [with_misread_cells(case, each) for case, each in zip(as_given, scored, strict=True)]


def _filled(scored: ScoredResponse) -> ScoredResponse:
    """Return `scored` with the logit `UNREAD` for the parts that were not read, and for their words."""
    unread = np.isnan(scored.parts)
    if not unread.any():
        return scored
    of_unread = unread[scored.part_of] & (scored.part_of >= 0)
    parts, logits = np.where(unread, UNREAD, scored.parts), np.where(of_unread, UNREAD, scored.logits)
    return replace(scored, logits=logits, parts=parts, whole=float(parts.max()))


@cache
def _packaged(path: Path, precision: str, name: str, process: int) -> Default:
    """Return the detector in the package, loaded once per process: otherwise each `veridical.check` would load it."""
    return Default(path, precision=precision, name=name)


def _halfway(threshold: float) -> Callable[[Any], Any]:
    """Return a function that moves a score halfway to the threshold: less sure, with the same decision."""
    return lambda score: None if score is None else (score + threshold) / 2


def coverage_case(case: Case, source: Source) -> Case:
    """Return a case with the roles changed: `source` is the response, and the response is its source."""
    return Case(f"{case.id}/{source.id}", source.text, (Source("response", case.response),))


def _to_cover(case: Case) -> list[Source]:
    return [source for source in case.sources if source.must_cover and has_words(source.text)]
