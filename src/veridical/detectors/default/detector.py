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

from veridical.detectors.default.fitted import Fitted
from veridical.detectors.default.judgement import coverage_case, judgement_of, omissions_of
from veridical.detectors.default.rules import COPIED, DENIED, RULES, score
from veridical.detectors.default.second_reader import best_weight, with_reader
from veridical.detectors.explanation import explained
from veridical.detectors.scope import limits_of
from veridical.detectors.tokens.artifact import BACKBONE, ONNX, load_tokens
from veridical.detectors.tokens.scoring import PairScorer, ScoredResponse
from veridical.inference.artifact import DETECTOR, description
from veridical.inference.onnx_runtime import load_onnx
from veridical.inference.pair_runner import PairRunner
from veridical.inference.pairs import PairEncoder
from veridical.inference.sentence_encoder import SentenceEncoder
from veridical.records.detector import Detector, DetectorContext, DetectorInfo, fingerprint_of, info_of
from veridical.records.errors import DataError, InputError, UnknownNameError
from veridical.records.judging import thresholds_in_force
from veridical.records.spans import Span
from veridical.records.spec import Spec, parse_spec
from veridical.records.types import Case, Example, Judgement, Level, Omission, Source
from veridical.text.segment import has_words

if TYPE_CHECKING:
    from veridical.detectors.tokens.detector import Tokens

KIND = "default"
PACKAGED = Path(__file__).parent / "model"
ENCODER = "encoder"
OTHER_LANGUAGES = "languages"
"""The subfolder with the detector for cases that are not in English."""
_BATCH = 64  # cases to score at a time while the weight of a reader is fitted
_PRECISIONS = ("int8", "fp32", "torch")
_LANGUAGE = ("language", "languages differ")
_Result = TypeVar("_Result")


class Default:
    """Scores words, sentences and coverage with a small encoder and word overlap; comes with the package.

    Each word of the response has a verdict. The scores of words and of the response are calibrated probabilities, and
    flagged words and omissions are explained (`detectors.explanation`). A sentence counts as supported if a source has
    it word for word as a complete sentence or clause.

    If a source has `must_cover` set, each of its sentences has an omission score. `omission` is the mean score of the
    sentences of the worst perspective (`Source.perspective`). A source without a perspective is one of its own.

    Cases in other languages than English are scored by a second detector of the same class, with its own encoder and
    regressions. If the response is a short answer, such as "1931", this second encoder also compares the question with
    the source sentences in which the answer occurs. You can train both encoders again with `veridical train default`
    and `veridical train languages`.

    Args:
        path: A folder that `veridical train default` wrote. Default: the folder in the package.
        precision: The form of the encoder: "int8" or "fp32" (ONNX), or "torch" for the encoder's own weights, if the
            folder has them. The encoder for other languages is always in int8.
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
        """Make the detector for `default[:FOLDER][,OPTION=VALUE]`.

        Options:
            precision, reader, weight, without: As in `Default`.
        """
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
    def fitted(self) -> Fitted:
        """The regressions, calibration curves and thresholds, loaded from `detector.json`."""
        fitted = Fitted.read(self._document, self.path / DETECTOR)
        return fitted if self._given is None else fitted.with_thresholds(self._given)

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
        """The sentence encoder that compares a question with the source sentences in which a short answer occurs.

        It is the encoder of the detector for other languages than English. None if the detector was not fitted to use
        this comparison.

        Raises:
            DataError: The folder lacks this encoder, although the detector was fitted with it.
        """
        if self.fitted.located is None:
            return None
        if self._other_languages is None and self.fitted.languages == ("en",):
            raise DataError(
                f"there is no folder {OTHER_LANGUAGES!r} in it", path=self.path, hint="copy or train it again"
            )
        return SentenceEncoder(lambda: (self._other_languages or self).scorer.runner)

    @cached_property
    def scorer(self) -> PairScorer:
        """The scorer that computes the encoder's logits for words and sentences.

        It needs only onnxruntime, except with the precision "torch".
        """
        self.fitted  # noqa: B018 - report a missing detector before a missing encoder
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
        """The lowest score that is flagged at each level, such as responses or words, in [0, 1].

        These thresholds were fitted on validation data, or passed as `thresholds`.
        """
        return self.fitted.thresholds

    def fingerprint(self) -> dict[str, Any]:
        """Return everything that the scores depend on.

        This includes the regressions, the encoders, the rules that are switched off, and the reader with its weight.
        """
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
        """Judge each case. All responses are batched together, and so are all sources with `must_cover`."""
        return self._by_language(cases, Default._judge)

    def _by_language(
        self, cases: Sequence[Case], method: Callable[[Default, Sequence[Case]], Sequence[_Result]]
    ) -> list[_Result]:
        """Call a method for the cases in English and for all other cases, each with their own detector.

        The results are in the order of the cases.
        """
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
        thresholds, encoder = thresholds_in_force(self), self.sentence_encoder
        return [
            explained(
                case,
                judgement,
                thresholds,
                contradicted=self.fitted.contradicted(of_response.get(i)),
                most_similar=None if encoder is None else encoder.most_similar,
            )
            for i, (case, judgement) in enumerate(zip(cases, judgements, strict=True))
        ]

    def fit_options(self, examples: Sequence[Example]) -> Default:
        """Choose the weight of the reader that ranks `examples` best, and return a detector with that weight.

        The reader is the second detector, whose sentence scores are combined with the detector's own. The detector is
        returned unchanged if it has no reader, if you chose the weight yourself, or if all examples have the same
        label.
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
            self.path,
            precision=self.precision,
            reader=self.reader,
            weight=weight,
            without=self.without,
            thresholds=self._given,
            name=name,
        )
        fitted.scorer = self.scorer
        return fitted

    def _alone_and_read(self, cases: Sequence[Case]) -> list[tuple[Judgement, Judgement]]:
        """Judge each case twice, without the reader and with the reader alone."""
        of_response, own = self._scored(cases)
        return list(zip(own, self._with_reader(cases, of_response, own, 1.0), strict=True))

    def _scored(self, cases: Sequence[Case]) -> tuple[dict[int, ScoredResponse], list[Judgement]]:
        """Score the cases without the reader.

        Return the logits of each response by the index of its case, and the judgement of each case.
        """
        coverage = [(i, source) for i, case in enumerate(cases) for source in _to_cover(case)]
        readable = [coverage_case(cases[i], source) for i, source in coverage if has_words(cases[i].response)]
        of_response = self._read(cases)
        covered = iter(score(self.scorer, readable, of_sources=True, without=self.without))
        omissions: dict[int, list[tuple[Source, list[Omission]]]] = {}
        for i, source in coverage:
            scored = next(covered) if has_words(cases[i].response) else None
            of_source = omissions_of(cases[i], source, scored, self.fitted, without=self.without)
            omissions.setdefault(i, []).append((source, of_source))
        return of_response, [
            judgement_of(
                case, of_response.get(i), omissions.get(i, []), self.fitted, name=self.name, without=self.without
            )
            for i, case in enumerate(cases)
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
        """Return for each case the sentences of its response, each with the probability that the sources contradict it.

        The probability is conditional on the sentence being unsupported. The list is empty for a case without sources,
        and for every case if the detector was not trained to distinguish contradiction from absence.
        """
        return self._by_language(cases, Default._sentences_contradicted)

    def _sentences_contradicted(self, cases: Sequence[Case]) -> list[list[tuple[Span, float]]]:
        of_response = self._read(cases)
        return [self.fitted.contradicted(of_response.get(i)) for i in range(len(cases))]

    def _read(self, cases: Sequence[Case]) -> dict[int, ScoredResponse]:
        """Score the responses of cases whose sources have words, and return the logits by the index of the case."""
        to_read = [i for i, case in enumerate(cases) if any(has_words(source.text) for source in case.sources)]
        scored = score(
            self.scorer,
            [cases[i] for i in to_read],
            without=self.without,
            sentence_encoder=self.sentence_encoder,
        )
        return dict(zip(to_read, scored, strict=True))


def _undecided(scored: ScoredResponse | None) -> list[Span]:
    """Return the sentences that no rule has decided: their logits are between `rules.COPIED` and `rules.DENIED`."""
    if scored is None or scored.problem:
        return []
    return [
        scored.span_of(units)
        for units, logit in zip(scored.units_of_parts(), scored.parts, strict=True)
        if len(units) and COPIED < logit < DENIED
    ]


@cache
def _packaged(path: Path, precision: str, name: str, process: int) -> Default:
    """Return the detector in the package, which is loaded once per process.

    Otherwise each `veridical.check` would load it again.
    """
    return Default(path, precision=precision, name=name)


def _to_cover(case: Case) -> list[Source]:
    return [source for source in case.sources if source.must_cover and has_words(source.text)]
