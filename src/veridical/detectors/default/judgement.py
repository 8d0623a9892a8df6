"""Build the judgement of the default detector from the encoder's logits for a case."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from veridical.detectors.default.fitted import Fitted
from veridical.detectors.default.localization import replacement
from veridical.detectors.default.regressions import sentence_rows, source_rows, word_table
from veridical.detectors.default.rules import COPIED
from veridical.detectors.default.second_reader import combined, log_odds_of
from veridical.detectors.discrepancies.discrepancy import with_verdicts
from veridical.detectors.discrepancies.finding import discrepancies
from veridical.detectors.discrepancies.values import ambiguous_dates
from veridical.detectors.scope import limits_of
from veridical.detectors.tokens.scoring import ScoredResponse
from veridical.records.judging import NO_CLAIM
from veridical.records.perspectives import by_perspective
from veridical.records.spans import Span, complement
from veridical.records.strings import shorten
from veridical.records.types import Case, Judgement, Level, Omission, Source, SourceSpan, Verdict
from veridical.text.lexical import word_count
from veridical.text.segment import has_words, word_forms

_ANSWER = 2 / 3  # weight of the answer in a statement, read as a short answer
_QUOTED = 120  # characters of a source in a reason


@dataclass(frozen=True, slots=True)
class _OfResponse:
    """The verdicts and notes on a response, from which its judgement is built.

    `judged` is None if all of the response was judged. `trained_on` names the kinds of `scope.Limit` that do not matter
    here, because the detector was trained on such cases.
    """

    verdicts: tuple[Verdict, ...] = ()
    sentences: tuple[Verdict, ...] = ()
    judged: tuple[Span, ...] | None = None
    notes: tuple[str, ...] = ()
    trained_on: tuple[str, ...] = ("table", "empty source")


def judgement_of(
    case: Case,
    scored: ScoredResponse | None,
    covered: Sequence[tuple[Source, list[Omission]]],
    fitted: Fitted,
    *,
    name: str,
    without: frozenset[str] = frozenset(),
) -> Judgement:
    """Build the judgement of a case from the encoder's logits.

    Args:
        case: The case.
        scored: The logits of the response. None if the sources have no words.
        covered: Pairs of a source with `must_cover` and its sentences, each scored by how likely the response omits it.
        fitted: The regressions and calibration curves.
        name: The name of the detector.
        without: The names of rules that are switched off.
    """
    found = _of_response(case, scored, fitted, without)
    if scored is not None and (wrong := discrepancies(case, without)):
        flagged = fitted.thresholds[Level.RESPONSE]
        verdicts, sentences = with_verdicts(case.response, wrong, found.verdicts, found.sentences, flagged)
        notes = tuple(note for note in found.notes if note != NO_CLAIM)
        found = replace(found, verdicts=verdicts, sentences=sentences, notes=notes)
    hallucination = max((sentence.score for sentence in found.sentences), default=None)
    of_perspectives = [
        float(np.mean([each.score for of_source in group for each in of_source])) for group in by_perspective(covered)
    ]
    skipped = [s.id for s in case.sources if s.must_cover and s.id not in {source.id for source, _ in covered}]
    judgement = Judgement(
        case.id,
        name,
        hallucination,
        max(of_perspectives, default=None),
        found.verdicts,
        tuple(each for _, of_source in covered for each in of_source),
        () if hallucination is None else found.judged,
        (
            *found.notes,
            *(ambiguous_dates(case) if found.sentences else ()),
            *(f"source {id!r} has no words; its coverage was not judged" for id in skipped),
        ),
        judged_sources=tuple(SourceSpan(s.id, Span(0, len(s.text))) for s, _ in covered) if skipped else None,
        sentences=found.sentences,
        no_claim=NO_CLAIM in found.notes,
    )
    if hallucination is None and not covered:
        return judgement
    limits = [limit for limit in limits_of(case, fitted.languages) if limit.kind not in found.trained_on]
    judgement = replace(judgement, notes=(*judgement.notes, *(limit.note for limit in limits)))
    return _less_sure(judgement, fitted) if any(limit.lowers_confidence for limit in limits) else judgement


def coverage_case(case: Case, source: Source) -> Case:
    """Build the case that measures how well the response covers `source`.

    The roles are exchanged: the source becomes the response, and the response becomes its only source.
    """
    return Case(f"{case.id}/{source.id}", source.text, (Source("response", case.response),))


def omissions_of(
    case: Case, source: Source, scored: ScoredResponse | None, fitted: Fitted, *, without: frozenset[str] = frozenset()
) -> list[Omission]:
    """Score, for each sentence of `source`, how likely the response omits it.

    If the response has no words, there is a single omission: the complete source, with score 1.

    Args:
        case: The case.
        source: The source that the response must cover.
        scored: The logits of the sentences of this source, which takes the place of the response (`coverage_case`).
            None if the response has no words.
        fitted: The regressions and calibration curves.
        without: The names of rules that are switched off.
    """
    if scored is None:
        return [Omission(source.id, Span(0, len(source.text)), 1.0)]
    reverse = coverage_case(case, source)
    rows = source_rows(scored, word_table(reverse, scored, without), len(word_forms(case.response)))
    probabilities = fitted.levels[Level.SOURCE].probabilities(rows).tolist()
    return [
        Omission(source.id, scored.span_of(units), probability)
        for units, probability in zip(scored.units_of_parts(), probabilities, strict=True)
        if len(units)
    ]


def _of_response(case: Case, scored: ScoredResponse | None, fitted: Fitted, without: frozenset[str]) -> _OfResponse:
    if scored is None:
        return _OfResponse(notes=("no sources to compare with" if not case.sources else "the sources have no words",))
    if not scored.units and has_words(case.response):
        return _OfResponse(notes=(NO_CLAIM,))
    if scored.problem or not np.isfinite(scored.logits).any():
        problem = (scored.problem or "the response has no words").removeprefix(f"case {case.id!r}: ")
        return _OfResponse(notes=(problem,))
    table = word_table(case, scored, without)
    is_read = np.isfinite(scored.logits)
    probabilities = fitted.levels[Level.SPAN].probabilities(table.rows[is_read])
    words = [unit for unit, read in zip(scored.units, is_read, strict=True) if read]
    verdicts = tuple(Verdict(word, float(p)) for word, p in zip(words, probabilities, strict=True))
    rows = sentence_rows(scored, table, word_count(source.text for source in case.sources))
    of_sentences = fitted.levels[Level.RESPONSE].probabilities(rows).tolist()
    of_answer = fitted.short_answer_probability(scored)
    found = _OfResponse(notes=scored.notes)
    if of_answer is not None:
        of_sentences = [of_answer] * len(scored.parts)
        verdicts = _answered_elsewhere(case, scored, of_answer, verdicts, fitted)
        found = replace(found, trained_on=(*found.trained_on, "one-word response"))
    elif scored.answer is not None and scored.whole > COPIED:
        of_sentences, verdicts = _with_answer(case, *scored.answer, of_sentences, verdicts, fitted)
    sentences = tuple(
        Verdict(scored.span_of(units), probability)
        for units, probability in zip(scored.units_of_parts(), of_sentences, strict=True)
        if len(units)
    )
    found = replace(found, verdicts=verdicts, sentences=sentences)
    if is_read.all():
        return found
    unread = [unit for unit, read in zip(scored.units, is_read, strict=True) if not read]
    note = "the encoder has no token for a part of the response: it was not judged"
    return replace(found, judged=tuple(complement(unread, len(case.response))), notes=(*found.notes, note))


def _with_answer(
    case: Case,
    span: Span,
    answer: ScoredResponse,
    of_sentences: list[float],
    verdicts: tuple[Verdict, ...],
    fitted: Fitted,
) -> tuple[list[float], tuple[Verdict, ...]]:
    """Combine the scores of a statement and of its words with the score of the part that answers the question."""
    of_answer = fitted.short_answer_probability(answer)
    if of_answer is None:
        return of_sentences, verdicts
    threshold = fitted.thresholds[Level.RESPONSE]
    reading = log_odds_of(of_answer, threshold)
    of_sentences = [combined(score, reading, threshold, _ANSWER) for score in of_sentences]
    highest = max(of_sentences)
    if highest < threshold:
        return of_sentences, verdicts
    raised = tuple(
        replace(word, score=max(word.score, highest)) if span.contains(word.span) else word for word in verdicts
    )
    return of_sentences, _answered_elsewhere(case, answer, highest, raised, fitted, span)


def _answered_elsewhere(
    case: Case,
    answer: ScoredResponse,
    score: float,
    verdicts: tuple[Verdict, ...],
    fitted: Fitted,
    span: Span | None = None,
) -> tuple[Verdict, ...]:
    """Explain a flagged answer by the source sentence that is closer to the question.

    The sentence becomes the evidence for the words of the answer. If it clearly has the right answer, that answer
    becomes the correction. `span` is the part of the response that answers the question. Default: the whole response.
    """
    closest = answer.closest
    if closest is None or score < fitted.thresholds[Level.RESPONSE]:
        return verdicts
    span = span or Span(0, len(case.response))
    sentence = closest.span.of(case.source(closest.source_id).text)
    reason = f"the question is closer to “{shorten(sentence, _QUOTED)}”"
    correction = replacement(span.of(case.response), sentence, case.question or "")
    return tuple(
        replace(word, evidence=(closest,), reason=reason, correction=correction) if span.contains(word.span) else word
        for word in verdicts
    )


def _less_sure(judgement: Judgement, fitted: Fitted) -> Judgement:
    """Move all scores halfway to their thresholds."""
    response, span, coverage, source = (_halfway(fitted.thresholds[level]) for level in Level)
    return replace(
        judgement,
        hallucination=response(judgement.hallucination),
        omission=coverage(judgement.omission),
        verdicts=tuple(replace(verdict, score=span(verdict.score)) for verdict in judgement.verdicts),
        sentences=tuple(replace(sentence, score=response(sentence.score)) for sentence in judgement.sentences),
        omissions=tuple(replace(each, score=source(each.score)) for each in judgement.omissions),
    )


def _halfway(threshold: float) -> Callable[[Any], Any]:
    """Return a function that moves a score halfway to the threshold, which does not change any decision."""
    return lambda score: None if score is None else (score + threshold) / 2
