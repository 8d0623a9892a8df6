"""Decide whether to keep a revision.

George and Stuhlmüller 2023, §4, keep every revision. Here, a revised text must be better than the text before it, and
must still contain the supported claims.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from veridical.records.decide import decide, omitted, unjudged
from veridical.records.detector import Detector
from veridical.records.edits import carrier
from veridical.records.judging import judge
from veridical.records.spans import Span, furthest_end, length, overlapping, union
from veridical.records.types import Case, Edit, Judgement, Source, Thresholds, Usage
from veridical.text.matching import WORDS, Profile, compiled
from veridical.text.quantities import fold, implies, is_value
from veridical.text.segment import sentences, words
from veridical.text.stemmer import stem
from veridical.text.stopwords import STOP_WORDS
from veridical.workflows.revise.statements import Statement, statements_of

_ROUNDING = 1e-9  # scores this close count as equal


@dataclass(frozen=True, slots=True)
class Candidate:
    """A proposed revision: a response before and after edits, with the judgements of both, for `accept` to decide on.

    Attributes:
        before: The case with the text before the edits.
        judgement_before: The judgement of this text.
        edits: The edits, with positions in the text before.
        after: The case with the edited text.
        judgement_after: The judgement of the edited text.
    """

    before: Case
    judgement_before: Judgement
    edits: tuple[Edit, ...]
    after: Case
    judgement_after: Judgement


@dataclass(frozen=True, slots=True)
class Acceptance:
    """The decision of `accept` on a proposed revision.

    Attributes:
        problem: Why the revision is rejected. None if it is accepted.
        usage: The calls to chat models and the tokens that the decision cost.
    """

    problem: str | None
    usage: Usage | None = None


def accept(candidates: Sequence[Candidate], detector: Detector, thresholds: Thresholds) -> list[Acceptance]:
    """Decide for each proposed revision whether the edited text is better than the text before, and should be kept.

    A better text meets six conditions:

    - It has no more unjudged characters than the text before.
    - No edit inserts a remark of the model ("I am sorry, but I cannot help."), even if the detector does not flag the
      remark. Therefore, each edited sentence with two or more content words must share one of these words with the
      sources or the text before.
    - No word of an old value is left beside the new value ("1,500 hundred", "5.50 euros and 60 cents").
    - The hallucination score is lower. If the score is the same, the sum of the scores of unsupported claims is lower.
      (A score that is a product over claims stays 1 as long as one claim is certainly wrong.)
    - Every supported claim is kept. A claim is kept if no edit touches it, if its content words are still there and
      none of them is flagged, or if `detector` finds that the new text supports the claim.
    - Every source that was covered is still covered: the proportion of its words that the text omits stays below the
      coverage threshold.
    """
    problems = [_problem(candidate, thresholds) for candidate in candidates]
    doubtful = [
        list(_doubtful(candidate, thresholds)) if problem is None else []
        for candidate, problem in zip(candidates, problems, strict=True)
    ]
    cases = [
        Case(f"{candidate.before.id}#{i}", statement.text, (Source("revision", candidate.after.response),))
        for candidate, statements in zip(candidates, doubtful, strict=True)
        for i, statement in enumerate(statements)
    ]
    answers = iter(judge(detector, cases))
    results = []
    for statements, problem in zip(doubtful, problems, strict=True):
        judgements = [next(answers) for _ in statements]
        lost = []
        for statement, judgement in zip(statements, judgements, strict=True):
            score, threshold = judgement.hallucination, thresholds.response
            if score is None:
                score = max((verdict.score for verdict in judgement.verdicts), default=None)
                threshold = thresholds.span
            if score is None or judgement.judged == () or score >= threshold:
                lost.append(statement.text)
        if lost:
            more = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
            problem = f"a supported claim would be lost: “{lost[0]}”{more}"
        results.append(Acceptance(problem, Usage.total(judgement.usage for judgement in judgements)))
    return results


def _problem(candidate: Candidate, thresholds: Thresholds) -> str | None:
    """Return why a candidate is not better or leaves out a covered source, or None if neither is the case."""
    before, after = candidate.judgement_before, candidate.judgement_after
    if after.hallucination is None and not after.verdicts:
        return f"the revised text could not be judged: {'; '.join(after.notes) or 'no score'}"
    more = length(unjudged(candidate.after, after)) - length(unjudged(candidate.before, before))
    if more > 0:
        return f"{more} more characters of the revised text could not be judged"
    invented = _invented_sentence(candidate)
    if invented is not None:
        return f"the corrected text would say “{invented}”, of which no word is in the text or its sources"
    misread = _misread_value(candidate)
    if misread is not None:
        return f"the corrected text would say “{misread}”, with words of the old value"
    old, new = (
        max((verdict.score for verdict in j.verdicts), default=0.0) if j.hallucination is None else j.hallucination
        for j in (before, after)
    )
    old_sum, new_sum = (
        sum(statement.score for statement in statements_of(c, j, thresholds) if statement.unsupported)
        for c, j in ((candidate.before, before), (candidate.after, after))
    )
    if new >= old - _ROUNDING and (new > old + _ROUNDING or new_sum >= old_sum - _ROUNDING):
        return f"the hallucination score does not fall: {old:.3f} before, {new:.3f} after"
    if not any(source.must_cover for source in candidate.before.sources):
        return None
    if before.omission is not None:
        if after.omission is None:
            return "whether the revised text covers its sources could not be judged"
        if before.omission < thresholds.coverage <= after.omission:
            scores = f"{before.omission:.3f} before, {after.omission:.3f} after"
            return f"a source that was covered would be left out: omission {scores}"
    left_out_before = shares_left_out(candidate.before, before, thresholds)
    left_out_after = shares_left_out(candidate.after, after, thresholds)
    for source in candidate.before.sources:
        if left_out_before.get(source.id, 0.0) < thresholds.coverage <= left_out_after.get(source.id, 0.0):
            return f"source {source.id!r} was covered and would be left out"
    return None


def _invented_sentence(candidate: Candidate) -> str | None:
    """Return an edited sentence that shares no content word with the text before or the sources, or None."""
    text, carry = candidate.after.response, carrier(candidate.edits)
    written = union(carry(edit.span) for edit in candidate.edits)
    known = _stems(candidate.before.response).union(*(_stems(source.text) for source in candidate.before.sources))
    for sentence in sentences(text):
        stems = _stems(sentence.of(text))
        if len(stems) > 1 and stems.isdisjoint(known) and overlapping(written, sentence):
            return sentence.of(text)
    return None


def _stems(text: str) -> set[str]:
    """Find the stems of the content words of a text."""
    lower = (word.of(text).casefold() for word in words(text))
    return {stem(word) for word in lower if word not in STOP_WORDS}


def _misread_value(candidate: Candidate) -> str | None:
    """Return a corrected value that has words of the old value beside it, such as "1,500 hundred", or None."""
    text, folded = candidate.after.response, fold(candidate.after.response)
    old_values = _values(fold(candidate.before.response))
    new_values = _values(folded)
    edited, carry = [edit.span for edit in candidate.edits], carrier(candidate.edits)
    for edit in candidate.edits:
        replaced = overlapping(old_values, edit.span)
        written = _values(fold(edit.replacement))
        if len(replaced) != 1 or not written:  # a rewritten phrase, or no value
            continue
        whole = Span(min(replaced[0].start, edit.span.start), max(replaced[0].end, edit.span.end))
        if not all(whole.contains(place) for place in overlapping(edited, whole)):
            continue  # more than the value is rewritten
        place = carry(whole)
        found = overlapping(new_values, place)
        numbers = [_numbers(value.of(folded)) for value in found[:1]]
        known = any(
            Profile(source.text, WORDS["values"]).matching_key(value.of(folded)) is not None
            for value in found
            for source in candidate.after.sources
        )
        differs = bool(numbers) and bool(numbers[0]) and numbers[0].isdisjoint(_numbers(fold(edit.replacement)))
        if len(found) > len(written) or (differs and not known):
            return place.of(text)
    return None


def _values(folded: str) -> list[Span]:
    """Find the values in a text that was normalised by `fold`."""
    tokens = [Span(*match.span()) for match in compiled(WORDS["values"].pattern(folded)).finditer(folded)]
    return [token for token in tokens if is_value(token.of(folded))]


def _numbers(value: str) -> set[str]:
    return {key for key in implies(value) if key.startswith("n:")}


def shares_left_out(case: Case, judgement: Judgement, thresholds: Thresholds) -> dict[str, float]:
    """Compute how much of each source the response omits, as the proportion of the source's content words.

    A content word counts as omitted if it lies in a flagged omission, which is a passage of the source whose omission
    score reaches its threshold. The result maps source ids to proportions in [0, 1]. It lacks the sources without a
    flagged omission.
    """
    by_source: dict[str, list[Span]] = {}
    for omission in omitted(judgement, decide(case, judgement, thresholds)):
        by_source.setdefault(omission.source_id, []).append(omission.span)
    shares = {}
    for id, spans in by_source.items():
        text, joined = case.source(id).text, union(spans)
        content = [word for word in words(text) if word.of(text).casefold() not in STOP_WORDS]
        left_out = sum(bool(overlapping(joined, word)) for word in content)
        shares[id] = left_out / len(content) if content else 1.0
    return shares


def left_out(case: Case, judgement: Judgement, thresholds: Thresholds) -> list[Source]:
    """Find the sources that the response should cover (`must_cover`) but omits.

    A source counts as omitted if the proportion of its content words that lie in passages flagged as omitted
    (`shares_left_out`) reaches the coverage threshold.
    """
    shares = shares_left_out(case, judgement, thresholds)
    least = max(thresholds.coverage, _ROUNDING)
    return [source for source in case.sources if source.must_cover and shares.get(source.id, 0.0) >= least]


def _doubtful(candidate: Candidate, thresholds: Thresholds) -> Iterator[Statement]:
    """Find supported claims that may be lost: an edit touches them, and some of their words are gone or flagged."""
    text = candidate.after.response
    after = statements_of(candidate.after, candidate.judgement_after, thresholds)
    flagged = union(statement.span for statement in after if statement.unsupported)
    edited_before, carry = furthest_end(edit.span for edit in candidate.edits), carrier(candidate.edits)
    for statement in statements_of(candidate.before, candidate.judgement_before, thresholds):
        span = statement.span
        if statement.unsupported or edited_before(span.end) <= span.start:
            continue
        moved = carry(span)
        new_words = {word.of(moved.of(text)).casefold() for word in words(moved.of(text))}
        old_words = {word.of(statement.text).casefold() for word in words(statement.text)} - STOP_WORDS
        if not old_words <= new_words or overlapping(flagged, moved):
            yield statement
