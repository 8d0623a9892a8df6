"""The default detector, which combines word overlap with a small cross-encoder that comes with the package.

The encoder runs on onnxruntime alone. It reads each sentence of the response together with the source sentences that
share the most words with it. To measure coverage, the roles are exchanged: the encoder reads each sentence of a source,
and the response takes the place of the sources (after Chang et al. 2024, §3).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from veridical.detectors.default.localization import AnswerCurve, replacement
from veridical.detectors.default.regressions import LevelModel, level_models, sentence_rows, source_rows, word_table
from veridical.detectors.default.rules import COPIED, DENIED, RULES, score
from veridical.detectors.default.second_reader import best_weight, combined, log_odds_of, with_reader
from veridical.detectors.discrepancies.discrepancy import with_verdicts
from veridical.detectors.discrepancies.finding import discrepancies
from veridical.detectors.discrepancies.values import ambiguous_dates
from veridical.detectors.explanation import explained
from veridical.detectors.scope import Limit, limits_of
from veridical.detectors.tokens.artifact import BACKBONE, ONNX, load_tokens
from veridical.detectors.tokens.scoring import PairScorer, ScoredResponse
from veridical.inference.artifact import DETECTOR, description
from veridical.inference.onnx_runtime import load_onnx
from veridical.inference.pair_runner import PairRunner
from veridical.inference.pairs import PairEncoder
from veridical.inference.sentence_encoder import SentenceEncoder
from veridical.metrics.calibrators import Isotonic, Platt, calibrator
from veridical.records.detector import Detector, DetectorContext, DetectorInfo, fingerprint_of, info_of
from veridical.records.errors import DataError, InputError, UnknownNameError
from veridical.records.judging import NO_CLAIM, thresholds_in_force
from veridical.records.perspectives import by_perspective
from veridical.records.spans import Span, complement
from veridical.records.spec import Spec, parse_spec
from veridical.records.strings import shorten
from veridical.records.types import Case, Example, Judgement, Level, Omission, Source, SourceSpan, Verdict
from veridical.text.languages import LANGUAGES
from veridical.text.lexical import word_count
from veridical.text.segment import has_words, word_forms

if TYPE_CHECKING:
    from veridical.detectors.tokens.detector import Tokens

__all__ = [
    "ENCODER",
    "KIND",
    "LOCATED",
    "OTHER_LANGUAGES",
    "PACKAGED",
    "Default",
    "coverage_case",
]

KIND = "default"
PACKAGED = Path(__file__).parent / "model"
ENCODER = "encoder"
OTHER_LANGUAGES = "languages"
"""The subfolder with the detector for cases that are not in English."""
LOCATED = "located short answer"
_ANSWER = 2 / 3  # weight of the answer in a statement, read as a short answer
_QUOTED = 120  # characters of a source in a reason
_BATCH = 64  # cases to score at a time while the weight of a reader is fitted
_PRECISIONS = ("int8", "fp32", "torch")
_LANGUAGE = ("language", "languages differ")
_Result = TypeVar("_Result")


class Default:
    """Scores words, sentences and coverage with a small encoder and word overlap; comes with the package.

    Each word of the response has a verdict. The scores of words and of the response are calibrated probabilities, and
    flagged words and omissions are explained (`detectors.explanation`). A sentence that is copied word for word from a
    source, as a whole sentence or clause, counts as supported.

    If a source has `must_cover` set, each of its sentences has an omission score. `omission` is the mean over the
    sentences of the worst perspective.

    Cases in other languages than English have an encoder and regressions of their own, in a detector of the same form.
    Its encoder also compares the places of a short answer in the sources with the question. You can train both
    encoders again, with `veridical train default` and `veridical train languages`.

    Args:
        path: A folder that `veridical train default` wrote. Default: the folder in the package.
        precision: The form of the encoder: "int8" or "fp32" (ONNX), or "torch" for the encoder's own weights, if the
            folder has them.
        reader: Another detector, such as "hf:NAME", whose sentence scores are combined with the detector's own scores.
            Default: the encoder alone.
        weight: The weight of the reader in the combined score, from 0 to 1. Default: 0.5.
        without: The names of rules to leave out, joined by "+" in a spec. Default: none.
        thresholds: Thresholds to use in place of the fitted ones. All scores are shifted with them, so that the
            decisions stay the same. Default: the fitted thresholds.
        name: The detector's name. Default: "default" or "default:PATH".
    """

    info = DetectorInfo()

    explains = True

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        precision: str = "int8",
        reader: Detector | None = None,
        weight: float | None = None,
        without: Collection[str] = (),
        thresholds: Mapping[Level, float] | None = None,
        name: str | None = None,
    ) -> None:
        if precision not in _PRECISIONS:
            raise InputError(f"precision is {precision!r}", hint=f"one of {', '.join(_PRECISIONS)}")
        if weight is not None and (reader is None or not 0.0 <= weight <= 1.0):
            raise InputError(f"the weight of the reader is {weight}", hint="from 0 to 1, and only with reader=")
        for each in without:
            if each not in RULES:
                raise UnknownNameError("rule", each, RULES)
        if reader is not None:
            self.info = replace(self.info, needs_chat_model=info_of(reader).needs_chat_model)
        self.reader = reader
        self.weight = weight
        self.without = frozenset(without)
        self._given = thresholds
        self.path = PACKAGED if path is None else Path(path)
        self.precision = precision
        self.name = name or ("default" if path is None else f"default:{path}")

    @classmethod
    def from_spec(cls, spec: Spec, context: DetectorContext) -> Default:
        """Make the detector for `default[:FOLDER][,OPTION=VALUE]`."""
        spec.accept(("precision", "reader", "weight", "without"), values=1)
        precision = spec.options.get("precision", "int8")
        if spec.value is None and not {"reader", "weight", "without"} & spec.options.keys():
            detector = _packaged(PACKAGED, precision, str(spec), os.getpid())
        else:
            reader = context.load(spec.options["reader"]) if "reader" in spec.options else None
            weight = spec.number("weight", 0.0) if "weight" in spec.options else None
            without = spec.options["without"].split("+") if "without" in spec.options else ()
            detector = cls(
                spec.value, precision=precision, reader=reader, weight=weight, without=without, name=str(spec)
            )
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
    def _fitted(self) -> dict[Level, LevelModel]:
        return level_models(self._document, self.path / DETECTOR)

    @cached_property
    def _levels(self) -> dict[Level, LevelModel]:
        if self._given is None:
            return self._fitted
        return {level: model.with_threshold(self._given[level]) for level, model in self._fitted.items()}

    @cached_property
    def _contradiction(self) -> Platt | Isotonic | None:
        return self._curve("contradiction")

    @cached_property
    def _short_answer(self) -> Platt | Isotonic | None:
        return self._curve("short answer")

    @cached_property
    def _located(self) -> AnswerCurve | None:
        """The curve of short answers whose places the sentence encoder has compared with the question."""
        numbers = self._document.get(LOCATED)
        try:
            return None if numbers is None else AnswerCurve.read(numbers)
        except (KeyError, TypeError, ValueError) as error:
            message = f"the calibration {LOCATED!r} is damaged"
            raise DataError(message, path=self.path / DETECTOR, hint="copy or train it again") from error

    @cached_property
    def _languages(self) -> tuple[str, ...]:
        """The languages that the detector was trained on."""
        languages = self._document.get("languages", ["en"])
        if not isinstance(languages, list) or not languages or not LANGUAGES.keys() >= set(map(str, languages)):
            raise DataError(
                "the list of languages is damaged", path=self.path / DETECTOR, hint="copy or train it again"
            )
        return tuple(languages)

    @cached_property
    def _other_languages(self) -> Default | None:
        """The detector for cases that are not in English, if the folder has one."""
        folder = self.path / OTHER_LANGUAGES
        if not (folder / DETECTOR).is_file():
            return None
        return Default(
            folder,
            reader=self.reader,
            weight=self.weight,
            without=self.without,
            thresholds=self.thresholds,
            name=self.name,
        )

    @cached_property
    def sentence_encoder(self) -> SentenceEncoder | None:
        """The encoder that compares the places of a short answer with its question: that for other languages."""
        if self._located is None:
            return None
        if self._other_languages is None and self._languages == ("en",):  # its own encoder was not trained for this
            raise DataError(
                f"there is no folder {OTHER_LANGUAGES!r} in it", path=self.path, hint="copy or train it again"
            )
        return SentenceEncoder(lambda: (self._other_languages or self).scorer.runner)

    def _curve(self, name: str) -> Platt | Isotonic | None:
        parameters = self._document.get(name)
        try:
            return None if parameters is None else calibrator(parameters)
        except (InputError, TypeError, ValueError) as error:
            message = f"the calibration {name!r} is damaged"
            raise DataError(message, path=self.path / DETECTOR, hint="copy or train it again") from error

    @cached_property
    def scorer(self) -> PairScorer:
        """The scorer for words and sentences. With the precision "int8" or "fp32", it needs only onnxruntime."""
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
        """The thresholds fitted on validation data, or those given."""
        thresholds = {level: model.threshold for level, model in self._levels.items()}
        self._contradiction, self._short_answer, self._located, self._languages  # noqa: B018 - report a damaged file before judging anything
        return {**thresholds, Level.COVERAGE: thresholds[Level.SOURCE]}

    def fingerprint(self) -> dict[str, Any]:
        """Identify everything that the scores depend on: the regressions and the encoder."""
        encoder = self._encoder().fingerprint()
        digest = hashlib.sha256((self.path / DETECTOR).read_bytes()).hexdigest()[:16]
        own: dict[str, Any] = {"default": digest, "encoder": encoder}
        if self._other_languages is not None:
            own[OTHER_LANGUAGES] = self._other_languages.fingerprint()
        if self.without:
            own["without"] = sorted(self.without)
        return (
            own
            if self.reader is None
            else {**own, "reader": fingerprint_of(self.reader), "weight": self._reader_weight}
        )

    @property
    def _reader_weight(self) -> float:
        return 0.5 if self.weight is None else self.weight

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        """Judge each case. The responses of all cases are batched together, and so are the sources to cover."""
        return self._by_language(cases, Default._judge)

    def _by_language(
        self, cases: Sequence[Case], method: Callable[[Default, Sequence[Case]], Sequence[_Result]]
    ) -> list[_Result]:
        """Return the results of a method for all cases. It is called for cases in English and for all others."""
        others = self._other_languages
        is_other = [others is not None and any(each.kind in _LANGUAGE for each in limits_of(case)) for case in cases]
        results: dict[int, _Result] = {}
        for detector, wanted in ((self, False), (others, True)):
            chosen = [i for i, other in enumerate(is_other) if other == wanted]
            if detector is not None and chosen:
                results |= zip(chosen, method(detector, [cases[i] for i in chosen]), strict=True)
        return [results[i] for i in range(len(cases))]

    def _judge(self, cases: Sequence[Case]) -> list[Judgement]:
        of_response, judgements = self._scored(cases)
        if self.reader is not None:
            judgements = self._with_reader(cases, of_response, judgements, self._reader_weight)
        thresholds = thresholds_in_force(self)
        return [
            explained(case, judgement, thresholds, contradicted=self._contradicted(of_response.get(i)))
            for i, (case, judgement) in enumerate(zip(cases, judgements, strict=True))
        ]

    def fit_options(self, examples: Sequence[Example]) -> Default:
        """Return a detector whose reader has the weight that ranks the responses of `examples` best.

        The detector is returned unchanged if it has no reader, if you chose the weight yourself, or if all examples
        have the same label.
        """
        if self.reader is None or self.weight is not None:
            return self
        scored: list[tuple[Judgement, Judgement]] = []
        for start in range(0, len(examples), _BATCH):
            cases = [example.case for example in examples[start : start + _BATCH]]
            scored += self._by_language(cases, Default._alone_and_read)
        weight = best_weight(examples, scored)
        if weight is None:
            return self
        spec = parse_spec(self.name)
        name = str(replace(spec, options={**spec.options, "weight": f"{weight:g}"}))
        fitted = Default(
            self.path, precision=self.precision, reader=self.reader, weight=weight, without=self.without, name=name
        )
        fitted.scorer = self.scorer
        return fitted

    def _alone_and_read(self, cases: Sequence[Case]) -> list[tuple[Judgement, Judgement]]:
        """Return the judgement of each case without the reader, and with the reader alone."""
        of_response, own = self._scored(cases)
        return list(zip(own, self._with_reader(cases, of_response, own, 1.0), strict=True))

    def _scored(self, cases: Sequence[Case]) -> tuple[dict[int, ScoredResponse], list[Judgement]]:
        """Return the encoder's logits of responses by the index of the case, and each case's judgement from them."""
        coverage = [(i, source) for i, case in enumerate(cases) for source in _to_cover(case)]
        readable = [coverage_case(cases[i], source) for i, source in coverage if has_words(cases[i].response)]
        of_response = self._read(cases)
        covered = iter(score(self.scorer, readable, of_sources=True, without=self.without))
        omissions: dict[int, list[tuple[Source, list[Omission]]]] = {}
        for i, source in coverage:
            scored = next(covered) if has_words(cases[i].response) else None
            omissions.setdefault(i, []).append((source, self._omissions(cases[i], source, scored)))
        return of_response, [
            self._judgement(case, of_response.get(i), omissions.get(i, [])) for i, case in enumerate(cases)
        ]

    def _with_reader(
        self,
        cases: Sequence[Case],
        of_response: Mapping[int, ScoredResponse],
        judgements: Sequence[Judgement],
        weight: float,
    ) -> list[Judgement]:
        assert self.reader is not None
        undecided = [_undecided(of_response.get(i)) for i in range(len(cases))]
        threshold = self.thresholds[Level.RESPONSE]
        return with_reader(cases, judgements, undecided, self.reader, threshold=threshold, weight=weight)

    def contradicted(self, cases: Sequence[Case]) -> list[list[tuple[Span, float]]]:
        """Return the probability that the sources contradict each sentence of a response.

        The probability assumes that the sentence is unsupported. The result is empty for a case without sources, and
        for every case if the detector was not trained to tell contradiction from absence.
        """
        return self._by_language(cases, Default._sentences_contradicted)

    def _sentences_contradicted(self, cases: Sequence[Case]) -> list[list[tuple[Span, float]]]:
        of_response = self._read(cases)
        return [self._contradicted(of_response.get(i)) for i in range(len(cases))]

    def _read(self, cases: Sequence[Case]) -> dict[int, ScoredResponse]:
        """Score the responses of cases whose sources have words; return the logits by the index of the case."""
        to_read = [i for i, case in enumerate(cases) if any(has_words(source.text) for source in case.sources)]
        scored = score(
            self.scorer,
            [cases[i] for i in to_read],
            without=self.without,
            sentence_encoder=self.sentence_encoder,
        )
        return dict(zip(to_read, scored, strict=True))

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
        limits: Sequence[Limit] = limits_of(case, self._languages)
        trained_on: tuple[str, ...] = ("table", "empty source")
        if scored is None:
            notes.append("no sources to compare with" if not case.sources else "the sources have no words")
        elif not scored.units and has_words(case.response):
            notes.append(NO_CLAIM)
        elif scored.problem or not np.isfinite(scored.logits).any():
            notes.append((scored.problem or "the response has no words").removeprefix(f"case {case.id!r}: "))
        else:
            table = word_table(case, scored, self.without)
            is_read = np.isfinite(scored.logits)
            probabilities = self._levels[Level.SPAN].probabilities(table.rows[is_read])
            words = [unit for unit, read in zip(scored.units, is_read, strict=True) if read]
            verdicts = tuple(Verdict(word, float(p)) for word, p in zip(words, probabilities, strict=True))
            rows = sentence_rows(scored, table, word_count(source.text for source in case.sources))
            of_sentences = self._levels[Level.RESPONSE].probabilities(rows).tolist()
            of_answer = self._short_answer_probability(scored)
            if of_answer is not None:
                of_sentences = [of_answer] * len(scored.parts)
                verdicts = self._answered_elsewhere(case, scored, of_answer, verdicts)
                trained_on = (*trained_on, "one-word response")
            elif scored.answer is not None and scored.whole > COPIED:
                of_sentences, verdicts = self._with_answer(case, *scored.answer, of_sentences, verdicts)
            sentences = tuple(
                Verdict(_span_of(scored, units), probability)
                for units, probability in zip(scored.units_of_parts(), of_sentences, strict=True)
                if len(units)
            )
            notes += scored.notes
            if not is_read.all():
                unread = [unit for unit, read in zip(scored.units, is_read, strict=True) if not read]
                judged = tuple(complement(unread, len(case.response)))
                notes.append("the encoder has no token for a part of the response: it was not judged")
        if scored is not None and (found := discrepancies(case, self.without)):
            flagged = self._levels[Level.RESPONSE].threshold
            verdicts, sentences = with_verdicts(case.response, found, verdicts, sentences, flagged)
            notes = [note for note in notes if note != NO_CLAIM]
        notes += ambiguous_dates(case) if sentences else ()
        if sentences:
            hallucination = max(sentence.score for sentence in sentences)
        skipped = [s.id for s in case.sources if s.must_cover and s.id not in {source.id for source, _ in covered}]
        notes += [f"source {id!r} has no words; its coverage was not judged" for id in skipped]
        means = [
            float(np.mean([each.score for of_source in group for each in of_source]))
            for group in by_perspective(covered)
        ]
        omission = max(means) if means else None
        omissions = tuple(each for _, of_source in covered for each in of_source)
        if hallucination is not None or covered:
            limits = [limit for limit in limits if limit.kind not in trained_on]
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
            no_claim=NO_CLAIM in notes,
        )

    def _short_answer_probability(self, scored: ScoredResponse) -> float | None:
        """Return the probability that a short answer is wrong. None if it was not read in its places.

        It is also None if the question has several sentences and the places were not compared with it: the curve was
        fitted on questions that share a part with their answer.
        """
        if not scored.in_place or (scored.location is None and len(scored.parts) > 1):
            return None
        logit = float(scored.parts[scored.part_of.max()])
        if scored.location is not None and self._located is not None and logit > COPIED:
            probability = self._located.probability(logit, scored.location)
        elif self._short_answer is None:
            return None
        else:
            probability = float(self._short_answer.apply([logit])[0])
        fitted, used = (levels[Level.RESPONSE].threshold for levels in (self._fitted, self._levels))
        return probability if fitted == used else combined(used, log_odds_of(probability, fitted), used, 1.0)

    def _with_answer(
        self,
        case: Case,
        span: Span,
        answer: ScoredResponse,
        of_sentences: list[float],
        verdicts: tuple[Verdict, ...],
    ) -> tuple[list[float], tuple[Verdict, ...]]:
        """Return the scores of a statement and of its words, combined with the score of its part that answers."""
        of_answer = self._short_answer_probability(answer)
        if of_answer is None:
            return of_sentences, verdicts
        threshold = self._levels[Level.RESPONSE].threshold
        reading = log_odds_of(of_answer, threshold)
        of_sentences = [combined(score, reading, threshold, _ANSWER) for score in of_sentences]
        highest = max(of_sentences)
        if highest < threshold:
            return of_sentences, verdicts
        raised = tuple(
            replace(word, score=max(word.score, highest)) if span.contains(word.span) else word for word in verdicts
        )
        return of_sentences, self._answered_elsewhere(case, answer, highest, raised, span)

    def _answered_elsewhere(
        self,
        case: Case,
        answer: ScoredResponse,
        score: float,
        verdicts: tuple[Verdict, ...],
        span: Span | None = None,
    ) -> tuple[Verdict, ...]:
        """Add the sentence that is closer to the question to the words of an answer that is flagged.

        If this sentence clearly has the right answer, it becomes the correction. `span` is the part of the response
        that answers. Default: all of it.
        """
        closest = answer.closest
        if closest is None or score < self._levels[Level.RESPONSE].threshold:
            return verdicts
        span = span or Span(0, len(case.response))
        sentence = closest.span.of(case.source(closest.source_id).text)
        reason = f"the question is closer to “{shorten(sentence, _QUOTED)}”"
        correction = replacement(span.of(case.response), sentence, case.question or "")
        return tuple(
            replace(word, evidence=(closest,), reason=reason, correction=correction)
            if span.contains(word.span)
            else word
            for word in verdicts
        )

    def _omissions(self, case: Case, source: Source, scored: ScoredResponse | None) -> list[Omission]:
        """Score each sentence of `source` as left out; a response without words leaves out all of it."""
        if scored is None:
            return [Omission(source.id, Span(0, len(source.text)), 1.0)]
        reverse = coverage_case(case, source)
        rows = source_rows(scored, word_table(reverse, scored, self.without), len(word_forms(case.response)))
        probabilities = self._levels[Level.SOURCE].probabilities(rows).tolist()
        return [
            Omission(source.id, _span_of(scored, units), probability)
            for units, probability in zip(scored.units_of_parts(), probabilities, strict=True)
            if len(units)
        ]


def _span_of(scored: ScoredResponse, units: NDArray[np.int64]) -> Span:
    """Return the span from the first to the last of `units`."""
    return Span(scored.units[units[0]].start, scored.units[units[-1]].end)


def _undecided(scored: ScoredResponse | None) -> list[Span]:
    """Return the sentences whose logits no rule has bounded (`rules.COPIED`, `rules.DENIED`)."""
    if scored is None or scored.problem:
        return []
    return [
        _span_of(scored, units)
        for units, logit in zip(scored.units_of_parts(), scored.parts, strict=True)
        if len(units) and COPIED < logit < DENIED
    ]


@cache
def _packaged(path: Path, precision: str, name: str, process: int) -> Default:
    """Return the detector in the package, loaded once per process: otherwise each `veridical.check` would load it."""
    return Default(path, precision=precision, name=name)


def _halfway(threshold: float) -> Callable[[Any], Any]:
    """Return a function that moves a score halfway to the threshold: less sure, with the same decision."""
    return lambda score: None if score is None else (score + threshold) / 2


def coverage_case(case: Case, source: Source) -> Case:
    """Return a case in which the roles are exchanged: `source` is the response, and the response is its only source."""
    return Case(f"{case.id}/{source.id}", source.text, (Source("response", case.response),))


def _to_cover(case: Case) -> list[Source]:
    return [source for source in case.sources if source.must_cover and has_words(source.text)]
