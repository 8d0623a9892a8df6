"""Whether a revised text is better than the text before it: the rule by which a revision is kept (C §4)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from veridical.core.decide import decide, omitted, unjudged
from veridical.core.detector import Detector
from veridical.core.edits import carry
from veridical.core.segment import words
from veridical.core.spans import Span, length
from veridical.core.stopwords import STOP_WORDS
from veridical.core.text import shorten
from veridical.core.types import Case, Edit, Judgement, Source, Thresholds, Usage
from veridical.revise.statements import Unit, statements_of

__all__ = ["Trial", "weigh"]

_ROUNDING = 1e-9  # scores that are this close are the same score


@dataclass(frozen=True, slots=True)
class Trial:
    """A text before and after edits, both judged."""

    before: Case
    old: Judgement
    edits: tuple[Edit, ...]
    after: Case
    new: Judgement


def weigh(trials: Sequence[Trial], detector: Detector, thresholds: Thresholds) -> list[tuple[str | None, Usage | None]]:
    """For each trial why its edits are not kept, None where they are, and what finding that out cost.

    Kept is what was judged at least as far as the text before, whose hallucination score is lower, and which loses no
    supported claim and no covered source. Of equal scores (a product of claims is 1 as long as one is surely wrong)
    that with the lower sum over unsupported claims is lower. A supported claim that no edit touches is not lost; one
    that an edit touches is not if its words still stand there and nothing there is unsupported, or else if `detector`
    finds it supported by the new text. A source is covered while a smaller share of its words than the threshold of
    coverage is left out.
    """
    reasons = [_unjudged(t) or _no_lower(t, thresholds) or _uncovered(t, thresholds) for t in trials]
    doubts = [
        list(_doubtful(trial, thresholds)) if reason is None else []
        for trial, reason in zip(trials, reasons, strict=True)
    ]
    asked = [
        Case(f"{trial.before.id}#{i}", unit.text, (Source("revision", trial.after.response),))
        for trial, units in zip(trials, doubts, strict=True)
        for i, unit in enumerate(units)
    ]
    answers = iter(detector.judge(asked) if asked else ())
    spent: list[Usage | None] = []
    for k, units in enumerate(doubts):
        found = [(unit, next(answers)) for unit in units]
        lost = [unit for unit, answer in found if not _supported(answer, thresholds)]
        spent.append(Usage.total(answer.usage for _, answer in found))
        if lost:
            more = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
            reasons[k] = f"a supported claim would be lost: “{shorten(lost[0].text, 120)}”{more}"
    return list(zip(reasons, spent, strict=True))


def _unjudged(trial: Trial) -> str | None:
    if trial.new.hallucination is None and not trial.new.verdicts:
        return f"the revised text could not be judged: {'; '.join(trial.new.notes) or 'no score'}"
    grown = length(unjudged(trial.after, trial.new)) - length(unjudged(trial.before, trial.old))
    return f"{grown} more characters of the revised text could not be judged" if grown > 0 else None


def _no_lower(trial: Trial, thresholds: Thresholds) -> str | None:
    old, new = (_score(c, j) for c, j in ((trial.before, trial.old), (trial.after, trial.new)))
    if new < old - _ROUNDING:
        return None
    if new <= old + _ROUNDING:
        less, more = (
            sum(unit.score for unit in statements_of(c, j) if unit.score >= thresholds.span)
            for c, j in ((trial.after, trial.new), (trial.before, trial.old))
        )
        if less < more - _ROUNDING:
            return None
    return f"the hallucination score does not fall: {old:.3f} before, {new:.3f} after"


def _score(case: Case, judgement: Judgement) -> float:
    if judgement.hallucination is not None:
        return judgement.hallucination
    return max((verdict.score for verdict in judgement.verdicts), default=0.0)


def _uncovered(trial: Trial, thresholds: Thresholds) -> str | None:
    """The source with `must_cover` that was covered and is not any more."""
    if not any(source.must_cover for source in trial.before.sources):
        return None
    old, new = trial.old.omission, trial.new.omission
    if old is not None and new is None:
        return "whether the revised text covers its sources could not be judged"
    if old is not None and new is not None and old < thresholds.coverage <= new:
        return f"a source that was covered would be left out: omission {old:.3f} before, {new:.3f} after"
    left = [_left_out(case, judgement, thresholds) for case, judgement in
            ((trial.before, trial.old), (trial.after, trial.new))]  # fmt: skip
    lost = next(
        (s.id for s in trial.before.sources if left[0].get(s.id, 0) < thresholds.coverage <= left[1].get(s.id, 0)), None
    )
    return None if lost is None else f"source {lost!r} was covered and would be left out"


def _left_out(case: Case, judgement: Judgement, thresholds: Thresholds) -> dict[str, float]:
    """The share of the words of each source to cover that is left out, by its id."""
    spans: dict[str, list[Span]] = {}
    for omission in omitted(judgement, decide(case, judgement, thresholds)):
        spans.setdefault(omission.source_id, []).append(omission.span)
    shares = {}
    for id, places in spans.items():
        found = [
            word for word in words(case.source(id).text) if word.of(case.source(id).text).casefold() not in STOP_WORDS
        ]
        out = sum(any(word.overlaps(place) for place in places) for word in found)
        shares[id] = out / len(found) if found else 1.0
    return shares


def _doubtful(trial: Trial, thresholds: Thresholds) -> Iterator[Unit]:
    """The supported claims that an edit touches and of which words are gone or new words are unsupported."""
    flagged = [unit.span for unit in statements_of(trial.after, trial.new) if unit.score >= thresholds.span]
    for unit in statements_of(trial.before, trial.old):
        if unit.score >= thresholds.span or not any(_inside(edit.span, unit.span) for edit in trial.edits):
            continue
        place = carry(unit.span, trial.edits)
        left = {word.of(trial.after.response).casefold() for word in _words_in(trial.after.response, place)}
        wanted = {word.of(unit.text).casefold() for word in words(unit.text)} - STOP_WORDS
        if not wanted <= left or any(span.overlaps(place) for span in flagged):
            yield unit


def _inside(edit: Span, place: Span) -> bool:
    return edit.start < place.end and (edit.end > place.start)


def _words_in(text: str, place: Span) -> list[Span]:
    return [word.shift(place.start) for word in words(place.of(text))]


def _supported(judgement: Judgement, thresholds: Thresholds) -> bool:
    scores = [verdict.score for verdict in judgement.verdicts]
    score, limit = judgement.hallucination, thresholds.response
    if score is None:
        score, limit = max(scores, default=None), thresholds.span
    return score is not None and judgement.judged != () and score < limit
