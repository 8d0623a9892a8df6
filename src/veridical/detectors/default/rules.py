"""The rules of the default detector as one table, and the function that applies them before and after the encoder.

To measure the effect of a rule, switch it off with `default:without=NAME`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice

import numpy as np
from numpy.typing import NDArray

from veridical.detectors.default.absences import answers, lacking, matter_of_absence
from veridical.detectors.default.copies import is_copied
from veridical.detectors.default.localization import Location, location_of
from veridical.detectors.default.misplaced import misplaced
from veridical.detectors.default.rewriting import in_forms_of_response, without_unsupported_context
from veridical.detectors.default.short_answers import answer_in, in_its_places, with_question, without_question
from veridical.detectors.default.totals import computed_amounts
from veridical.detectors.discrepancies import finding
from veridical.detectors.discrepancies.discrepancy import Discrepancy
from veridical.detectors.discrepancies.finding import discrepancies
from veridical.detectors.discrepancies.rates import same_rates
from veridical.detectors.discrepancies.references import known_in_other_forms
from veridical.detectors.discrepancies.values import lowered_values
from veridical.detectors.discrepancies.yes_no import confirmed
from veridical.detectors.tokens.scoring import PairScorer, ScoredResponse
from veridical.inference.sentence_encoder import SentenceEncoder
from veridical.records.spans import Span
from veridical.records.types import Case
from veridical.text.framing import is_refusal, may_frame, without_framing
from veridical.text.lexical import FEATURES, lexical_features
from veridical.text.mentions import Mention
from veridical.text.segment import sentence_at

COPIED = -6.0
"""Upper bound of the logit of a sentence that a source has word for word (`is_copied`)."""
DENIED = 6.0
"""Lower bound of the logit of a sentence that wrongly denies that the sources say something."""
MOST = 256
"""The maximum number of sentences of a source to cover that the encoder reads.

The encoder reads those that share the most words with the response.
"""
UNREAD = 3.5
"""The logit that is assumed for sentences that the encoder does not read.

If the encoder does read such sentences, their mean logit is about this high (3.1 to 3.9 in nine sources of some 560
sentences).
"""
_MISSING, _VALUE, _NAME, _IN_SOURCE = map(FEATURES.index, ("missing", "value_missing", "name_missing", "in_source"))


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of the default detector, which changes the input or the logits of the encoder.

    The attributes from `rewrite` to `misplaced` are functions. Exactly one of them is set, and it defines what the rule
    does.

    Attributes:
        name: The name in `default:without=NAME`.
        about: A description of the text that the rule applies to.
        rewrite: Changes the case before it is encoded. It may put text before the response, but the response keeps its
            length.
        places: Finds the source passages that could support the response. The response is encoded with each passage
            alone, and the logits for the passage that supports it best are used. If there are no such passages, it is
            encoded with the complete sources.
        locate: Compares the source passages that contain a short answer with its question. Needs the sentence encoder.
        answer: Finds the words of the response that answer the question. They are also encoded by themselves, as a
            short answer.
        adjust: Limits the logits of sentences. Its arguments are the case as encoded, the logits, and whether the
            response is a source whose coverage is scored.
        supported: Finds words that the sources support. Their logits become at most `COPIED`.
        contradicted: Finds discrepancies between the response and the sources. The logits of their words and sentences
            become at least `DENIED`.
        misplaced: Finds values and names to treat as missing from the sources.
        of_sources: If true, the rule also applies when coverage is scored, where a source takes the place of the
            response.
    """

    name: str
    about: str
    rewrite: Callable[[Case], Case] | None = None
    places: Callable[[Case], Sequence[Case]] | None = None
    locate: Callable[[SentenceEncoder, Case], Location | None] | None = None
    answer: Callable[[Case], Span | None] | None = None
    adjust: Callable[[Case, ScoredResponse, bool], ScoredResponse] | None = None
    supported: Callable[[Case], Iterable[Span]] | None = None
    contradicted: Callable[[Case], Iterable[Discrepancy]] | None = None
    misplaced: Callable[[Case], Iterable[Mention]] | None = None
    of_sources: bool = False


def _without_framing(case: Case) -> Case:
    """Blank out the text that makes no claim. A refusal makes a claim only if the sources answer the question."""
    refusals = may_frame(case.response) and case.question is not None and answers(case.sources, case.question)
    return replace(case, response=without_framing(case.response, case.sources, with_refusals=refusals))


def _with_copies(case: Case, scored: ScoredResponse, of_sources: bool) -> ScoredResponse:
    """Lower the logits of sentences that a source contains word for word.

    Such sentences are supported. Unless the response is a source to cover, the copy must be a whole sentence or
    clause that the source does not deny (`is_copied`).
    """
    copied = []
    ends = [0, *(unit.end for unit in scored.units)]
    starts = [*(unit.start for unit in scored.units), len(case.response)]
    for part, units in enumerate(scored.units_of_parts()):
        # signs around the first and the last word belong to the sentence
        sentence = case.response[ends[units[0]] : starts[units[-1] + 1]] if len(units) else ""
        if any(is_copied(sentence, source.text, whole=not of_sources) for source in case.sources):
            copied.append((part, units))
    return _bounded(scored, copied, np.minimum, COPIED) if copied else scored


def _with_absences(case: Case, scored: ScoredResponse, of_sources: bool) -> ScoredResponse:
    """Lower or raise the logits of sentences that only say what the sources lack, if words are enough to decide.

    The logits become low if the statement is true, and high if a source sentence has what the sources are said to lack.
    Refusals also get high logits, because the rule `framing` leaves them in the response only if the sources answer the
    question.
    """
    true: list[tuple[int, NDArray[np.int64]]] = []
    false: list[tuple[int, NDArray[np.int64]]] = []
    for part, units in enumerate(scored.units_of_parts()):
        if not len(units):
            continue
        text = case.response[scored.units[units[0]].start : scored.units[units[-1]].end]
        matter = matter_of_absence(text, case.sources)
        lacks = False if is_refusal(text) else None if matter is None else lacking(case.sources, matter.of(text))
        if lacks is not None:
            (true if lacks else false).append((part, units))
    if false:
        scored = _bounded(scored, false, np.maximum, DENIED)
    if not true:
        return scored
    features = (lexical_features(case, scored.units) if scored.features is None else scored.features).copy()
    for _, units in true:
        for column in (_MISSING, _VALUE, _NAME):
            features[units, column] = 0.0
    return replace(_bounded(scored, true, np.minimum, COPIED), features=features)


def with_supported(case: Case, scored: ScoredResponse, supported: Iterable[Span]) -> ScoredResponse:
    """Lower the logits of words that the sources support, and of the sentences with these words.

    The logit of each word becomes at most `COPIED`. The logit of its sentence becomes at most the highest logit that
    the words of the sentence then have.

    Args:
        case: The case.
        scored: The logits of its response.
        supported: The spans of the response that the sources support.
    """
    spans = list(supported)
    if not spans:
        return scored
    starts = [unit.start for unit in scored.units]
    features = (lexical_features(case, scored.units) if scored.features is None else scored.features).copy()
    logits, parts = scored.logits.copy(), scored.parts.copy()
    for span in spans:
        units = np.arange(bisect_left(starts, span.start), bisect_left(starts, span.end))
        logits[units] = np.minimum(logits[units], COPIED)
        for column, value in ((_MISSING, 0.0), (_VALUE, 0.0), (_NAME, 0.0), (_IN_SOURCE, 1.0)):
            features[units, column] = value
    for part in {int(scored.part_of[i]) for i in np.flatnonzero(logits < scored.logits)} - {-1}:
        parts[part] = min(parts[part], np.nanmax(logits[scored.part_of == part]))
    return replace(scored, logits=logits, parts=parts, features=features, whole=float(parts.max()))


def _with_discrepancies(case: Case, scored: ScoredResponse, without: frozenset[str]) -> ScoredResponse:
    """Raise the logits of words in discrepancies, and of the sentences with these words.

    The response of `case` must be complete, including text that makes no claim.
    """
    denied = []
    starts = [unit.start for unit in scored.units]
    for discrepancy in () if scored.problem else discrepancies(case, without):
        around = sentence_at(case.response, discrepancy.span.start)
        first, last = bisect_left(starts, around.start), bisect_left(starts, around.end)
        end = min(last, bisect_left(starts, discrepancy.span.end))
        begin = bisect_right(scored.units, discrepancy.span.start, lo=first, hi=end, key=lambda unit: unit.end)
        inside = range(begin, end)
        parts = {int(scored.part_of[i]) for i in inside or range(first, last)} - {-1}
        denied += [(part, np.array(inside, dtype=np.int64)) for part in parts]
    return _bounded(scored, denied, np.maximum, DENIED) if denied else scored


def _bounded(
    scored: ScoredResponse, chosen: Sequence[tuple[int, NDArray[np.int64]]], bound: np.ufunc, limit: float
) -> ScoredResponse:
    """Bound the logits of the chosen parts and their units by `limit`, with `np.minimum` or `np.maximum`."""
    logits, parts = scored.logits.copy(), scored.parts.copy()
    for part, units in chosen:
        parts[part] = bound(parts[part], limit)
        logits[units] = bound(logits[units], limit)
    return replace(scored, logits=logits, parts=parts, whole=float(parts.max()))


RULES: Mapping[str, Rule] = {
    rule.name: rule
    for rule in (
        Rule("framing", "text that makes no claim, such as a greeting", rewrite=_without_framing),
        Rule("forms", "values and words of sources in another form", rewrite=in_forms_of_response, of_sources=True),
        Rule("context", "a wrong premise of the question or an earlier answer", rewrite=without_unsupported_context),
        Rule("places", "a short answer that may answer another question", places=in_its_places),
        Rule("location", "a short answer in a sentence that is not about its question", locate=location_of),
        Rule("answer", "a value or name that may answer another question than that of its statement", answer=answer_in),
        Rule("question", "a short answer without its question", rewrite=lambda case: with_question(case)[0]),
        Rule("copies", "a sentence that a source has word for word", adjust=_with_copies, of_sources=True),
        Rule("absences", "a statement that the sources lack something", adjust=_with_absences),
        Rule("totals", "a sum or difference of amounts of money", supported=computed_amounts),
        Rule("other_identifiers", "an identifier in another form", supported=known_in_other_forms),
        Rule("confirmed", "a statement that an answer or field with yes or no confirms", supported=confirmed),
        Rule("same_rates", "a rate in other words", supported=same_rates),
        Rule("falls", "a fall by a value that is negative in a source", supported=lowered_values),
        *(Rule(name, about, contradicted=find) for name, (find, about) in finding.RULES.items()),
        Rule("misplaced", "a value or name of another statement of a source", misplaced=misplaced, of_sources=True),
    )
}
"""All rules by name, in the order in which they are applied."""


def misplaced_mentions(case: Case, without: Collection[str] = ()) -> Iterator[Mention]:
    """Yield the values and names of the response to treat as missing, because a source uses them in another statement.

    The rules named in `without` are switched off.
    """
    for rule in RULES.values():
        if rule.misplaced is not None and rule.name not in without:
            yield from rule.misplaced(case)


def score(
    scorer: PairScorer,
    cases: Sequence[Case],
    *,
    of_sources: bool = False,
    without: frozenset[str] = frozenset(),
    sentence_encoder: SentenceEncoder | None = None,
) -> list[ScoredResponse]:
    """Compute the encoder's logits for words and sentences of each response, with all rules but `misplaced` applied.

    Some rules change the case before it is encoded, and others change the logits. The encoder gets each sentence of the
    response with as much of the sources as fits.

    Args:
        scorer: The scorer that runs the encoder.
        cases: The cases to score.
        of_sources: If true, coverage is scored: the response of each case is a source with `must_cover`, and its only
            source is the original response. Only rules with `of_sources` apply. If such a source has more than `MOST`
            sentences, only those that share the most words with the response are encoded, and the others get the logit
            `UNREAD`.
        without: The names of rules that are switched off.
        sentence_encoder: The encoder for rules that `locate` short answers. Default: skip these rules.
    """
    rules = [rule for rule in RULES.values() if rule.name not in without and (rule.of_sources or not of_sources)]
    as_read = [[case] for case in cases]  # first the whole case, then its parts
    for rule in rules:
        if rule.rewrite is not None:
            as_read = [list(map(rule.rewrite, readings)) for readings in as_read]
        elif rule.places is not None:
            as_read = [[*readings, *rule.places(readings[0])] for readings in as_read]
    parts = [readings[1:] or readings for readings in as_read]
    scores = iter(scorer.score(list(chain.from_iterable(parts)), most=MOST if of_sources else None))
    in_statements = {} if of_sources else _of_answers(scorer, cases, rules, without, sentence_encoder)
    results = []
    for i, (case, (read, *_), readings) in enumerate(zip(cases, as_read, parts, strict=True)):
        before = len(read.response) - len(case.response)
        of_readings = [without_question(each, before) for each in islice(scores, len(readings))]
        result = min(of_readings, key=lambda each: (bool(each.problem), each.whole))
        result = replace(result, in_place=readings[0] is not read, answer=in_statements.get(i))
        if of_sources:
            result = _filled(result)
        read = replace(read, response=read.response[before:])
        for rule in rules:
            if rule.adjust is not None:
                result = rule.adjust(read, result, of_sources)
            elif rule.supported is not None and not result.problem:
                result = with_supported(case, result, rule.supported(case))
            elif rule.locate is not None and sentence_encoder is not None and result.in_place:
                location = rule.locate(sentence_encoder, case)
                if location is not None:
                    result = replace(result, location=location.log_probability, closest=location.closest)
        results.append(result if of_sources else _with_discrepancies(case, result, without))
    return results


def _of_answers(
    scorer: PairScorer,
    cases: Sequence[Case],
    rules: Sequence[Rule],
    without: frozenset[str],
    sentence_encoder: SentenceEncoder | None,
) -> dict[int, tuple[Span, ScoredResponse]]:
    """Find the part of each statement that answers its question, and score it as a short answer.

    Answers that no source has are left out. Return each answer by the index of its case.
    """
    found = [(i, rule.answer(case)) for rule in rules if rule.answer is not None for i, case in enumerate(cases)]
    spans = {i: span for i, span in found if span is not None}
    if not spans:
        return {}
    as_answers = [replace(cases[i], response=span.of(cases[i].response)) for i, span in spans.items()]
    scored = score(scorer, as_answers, without=without, sentence_encoder=sentence_encoder)
    pairs = zip(spans.items(), scored, strict=True)
    return {i: (span, answer) for (i, span), answer in pairs if answer.in_place and not answer.problem}


def _filled(scored: ScoredResponse) -> ScoredResponse:
    """Give the logit `UNREAD` to the parts that were not read, and to their words."""
    unread = np.isnan(scored.parts)
    if not unread.any():
        return scored
    of_unread = unread[scored.part_of] & (scored.part_of >= 0)
    parts, logits = np.where(unread, UNREAD, scored.parts), np.where(of_unread, UNREAD, scored.logits)
    return replace(scored, logits=logits, parts=parts, whole=float(parts.max()))
