"""Compare what a restaurant description says with the given attributes, such as area[riverside].

Fixed rules on the words of English restaurant descriptions (the E2E set) do this, with no training and no model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from veridical.records.detector import DetectorInfo
from veridical.records.errors import InputError
from veridical.records.types import Case, Evidence, Judgement, Omission, SourceSpan, Span, Verdict
from veridical.text.segment import words
from veridical_lab.datasets.e2e_slots import Slot, Stated, Unplaced, meaning, place_slots, slot_of, stated_values


@dataclass(frozen=True, slots=True)
class Slots:
    """Finds attributes that a restaurant description (E2E) gets wrong, invents or leaves out, by fixed rules.

    Each source is one attribute, written "name[value]". A value that the response states but no attribute has gets a
    verdict with score 1 at its place in the response. An attribute that the response should cover but does not state
    gets an omission with score 1. Vague mentions ("affordable") are not judged, and text about other things ("friendly
    staff") gets no verdict.
    """

    name: str = "slots"
    info: ClassVar[DetectorInfo] = DetectorInfo()

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        """Judge each case. Scores are 0 or 1."""
        return [self._one(case) for case in cases]

    def _one(self, case: Case) -> Judgement:
        if not words(case.response):
            return self._not_judged(case, "the response has no words")
        if not case.sources:
            return self._not_judged(case, "there are no attributes")
        try:
            slots = [slot_of(source) for source in case.sources]
        except InputError as error:
            return self._not_judged(case, f"{error.message}; attributes are written name[value]")
        statements = stated_values(case.response, slots)
        verdicts = _added(case, slots, statements)
        omissions = _left_out(case, slots, statements)
        return Judgement(
            case.id,
            self.name,
            float(bool(verdicts)),
            max((o.score for o in omissions), default=None),
            tuple(verdicts),
            tuple(omissions),
            judged_sources=tuple(SourceSpan(o.source_id, o.span) for o in omissions),
        )

    def _not_judged(self, case: Case, why: str) -> Judgement:
        return Judgement(case.id, self.name, judged=(), judged_sources=(), notes=(why,))


def _added(case: Case, slots: Sequence[Slot], statements: Sequence[Stated]) -> list[Verdict]:
    """Give a verdict to each value that the response states but no attribute has."""
    given_meanings = {(name, meaning((name, value))) for name, value in slots}
    verdicts = []
    for statement in sorted(statements, key=lambda s: s.span):
        if (statement.name, statement.meaning) in given_meanings:
            continue
        others = [source for source, (name, _) in zip(case.sources, slots, strict=True) if name == statement.name]
        verdicts.append(
            Verdict(
                statement.span,
                1.0,
                f"{statement.name}[{statement.meaning}]",
                evidence=tuple(Evidence(source.id, Span(0, len(source.text))) for source in others),
                reason=f"given is {', '.join(s.text for s in others)}" if others else f"no {statement.name} is given",
            )
        )
    return verdicts


def _left_out(case: Case, slots: Sequence[Slot], statements: Sequence[Stated]) -> list[Omission]:
    """Give an omission with score 0 or 1 to each attribute to cover, except those that are only mentioned vaguely."""
    stated_meanings = {(statement.name, statement.meaning) for statement in statements}
    omissions = []
    for source, slot, places in zip(case.sources, slots, place_slots(case.response, slots), strict=True):
        missing = isinstance(places, Unplaced) and (slot[0], meaning(slot)) not in stated_meanings
        vague = places == Unplaced("a vague mention")
        if source.must_cover and not (missing and vague):
            omissions.append(Omission(source.id, Span(0, len(source.text)), float(missing)))
    return omissions
