"""Compute the content of the HTML page from checked cases: segments of text with CSS classes, anchors and links.

The template only prints these values. It uses these anchors:

* `c1`: a case.
* `c1-d1`: a detector in this case.
* `c1-d1-f1` and `c1-d1-n1`: a flagged span of the response, and the note on it.
* `c1-d1-v1`: any other verdict.
* `c1-s1`: a source.
* `c1-s1-e1` and `c1-s1-o1`: evidence and an omission in this source.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from veridical.records.spans import Span, length
from veridical.records.strings import shorten, visible
from veridical.records.types import Case, Checked, Evidence, Omission, Outcome, Source, Verdict
from veridical.report.html_segments import FEW, HtmlSegment, Mark, html_segments
from veridical.report.judgement_view import (
    JudgementView,
    judgement_views,
    label_and_kind,
    number,
    outcome_text,
    thresholds_text,
)
from veridical.report.segments import passages

LONG_SOURCE = 1600  # characters; of a longer source only the marked passages are shown at first


@dataclass(frozen=True, slots=True)
class EvidenceView:
    """A source passage that a note on the HTML page cites as evidence.

    Attributes:
        anchor: The HTML id of the passage.
        name: The name of the source, with the page if it has pages.
        words: The text of the passage, shortened.
        weight: The weight of the evidence as text. "" if it is 1.
    """

    anchor: str
    name: str
    words: str
    weight: str


@dataclass(frozen=True, slots=True)
class Note:
    """An entry in one of the lists of the HTML page: a flagged span, an omission, or a span that is not flagged.

    Attributes:
        id: The HTML id of the entry.
        back: The anchor of the span in the text, for a link back.
        words: The text of the span, shortened.
        score: The score in [0, 1].
        number: The score as text.
        label: The label and the kind of error, such as "contradiction · value".
        claim: The claim that the span expresses. "" if there is none.
        reason: The reason for the score.
        correction: The text that should replace the span. None if there is no correction.
        evidence: The source passages that support or contradict the span.
        where: The name of the source that contains an omission. "" for a span of the response.
    """

    id: str
    back: str | None
    words: str
    score: float
    number: str
    label: str = ""
    claim: str = ""
    reason: str = ""
    correction: str | None = None
    evidence: tuple[EvidenceView, ...] = ()
    where: str = ""


@dataclass(frozen=True, slots=True)
class DetectorView:
    """The judgement of one detector on a case, ready for the HTML template.

    Attributes:
        id: The HTML id of the section.
        by: The name of the detector.
        outcome: The outcome of this judgement.
        outcome_text: The outcome as text.
        threshold: The thresholds as text.
        hallucination: The score of the whole response in [0, 1]. None if the response was not scored as a whole.
        omission: The score in [0, 1] for what the response omits. None if this was not scored.
        coverage_unknown: True if there are sources to cover, but the detector did not judge their coverage.
        unjudged: The number of characters of the response that were not judged.
        shared_reason: The label and the reason, if all flagged spans have the same. "" otherwise.
        shared_omission_reason: The reason, if all omissions have the same. "" otherwise.
        segments: The response with its marks.
        flagged: The entries of the flagged spans of the response.
        omissions: The entries of the source passages that are flagged as omitted.
        supported: The entries of the scored spans of the response that are not flagged.
        notes: The detector's remarks, for example why text was not judged.
        usage: The calls, tokens and cost as text. "" if no chat model was called.
        reason: The reason for the score of the whole response.
        provenance: How the judgement was made, as text.
    """

    id: str
    by: str
    outcome: Outcome
    outcome_text: str
    threshold: str
    hallucination: float | None
    omission: float | None
    coverage_unknown: bool
    unjudged: int
    shared_reason: str  # label and reason, if all flagged spans have the same
    shared_omission_reason: str
    segments: tuple[HtmlSegment, ...]
    flagged: tuple[Note, ...]
    omissions: tuple[Note, ...]
    supported: tuple[Note, ...]
    notes: tuple[str, ...]
    usage: str
    reason: str
    provenance: str


@dataclass(frozen=True, slots=True)
class SourceView:
    """One source of a case, ready for the HTML template.

    Attributes:
        id: The HTML id of the source.
        name: The id of the source in the case.
        citation: The mark by which the response cites the source, such as "[1]". "" if there is none.
        must_cover: True if the response should cover the source.
        omitted: The number of its passages that are flagged as omitted.
        size: The number of characters.
        segments: The text with its marks. For a long source, only the marked passages.
        full_text: The complete text of a long source. None if `segments` are already complete.
    """

    id: str
    name: str
    citation: str
    must_cover: bool
    omitted: int
    size: int
    segments: tuple[HtmlSegment, ...]
    full_text: str | None


@dataclass(frozen=True, slots=True)
class CaseView:
    """One case, ready for the HTML template.

    Attributes:
        id: The HTML id of the case, such as "c1".
        name: The id of the case.
        question: The question. "" if there is none.
        cause: Why the case failed, as (kind, reason). None if the cause was not requested.
        history: The earlier turns of the conversation, as (speaker, text).
        outcome: The outcome of all judgements together.
        outcome_text: The outcome as text.
        limit_only: True if spans are flagged although the outcome is not "flagged", because only scores of the whole
            response above `flag_over` count, or because not all was judged.
        start: The beginning of the response.
        hallucination: The highest score of a whole response among the detectors. None if there is none.
        omission: The highest omission score among the detectors. None if there is none.
        flagged: The number of flagged spans of the response, over all detectors.
        omitted: The number of source passages that are flagged as omitted, over all detectors.
        detectors: The judgements, one for each detector.
        perspectives: The sources, grouped by perspective as (perspective or None, sources).
    """

    id: str
    name: str
    question: str
    cause: tuple[str, str] | None  # kind and reason
    history: tuple[tuple[str, str], ...]
    outcome: Outcome
    outcome_text: str
    limit_only: bool
    start: str
    hallucination: float | None
    omission: float | None
    flagged: int
    omitted: int
    detectors: tuple[DetectorView, ...]
    perspectives: tuple[tuple[str | None, tuple[SourceView, ...]], ...]


def case_view(checked: Checked, i: int) -> CaseView:
    """Prepare a checked case for the HTML template. `i` is its number on the page, from 1."""
    cause = None if checked.cause is None else (visible(checked.cause.kind.value), visible(checked.cause.reason))
    case, builder = checked.case, _CaseBuilder(checked.case, f"c{i}")
    views = judgement_views(checked)
    detectors = tuple(builder.detector(view, f"c{i}-d{k}") for k, view in enumerate(views, 1))
    flagged = sum(len(view.flagged) for view in views)
    omitted = sum(len(view.omissions) for view in views)
    return CaseView(
        id=f"c{i}",
        name=visible(case.id),
        question=visible(case.question or ""),
        cause=cause,
        history=tuple((visible(turn.speaker), visible(turn.text)) for turn in case.history),
        outcome=checked.outcome,
        outcome_text=outcome_text(checked.outcome),
        limit_only=checked.outcome is not Outcome.FLAGGED and bool(flagged or omitted),
        start=visible(shorten(case.response, 90)),
        hallucination=_highest(view.judgement.hallucination for view in views),
        omission=_highest(view.judgement.omission for view in views),
        flagged=flagged,
        omitted=omitted,
        detectors=detectors,
        perspectives=tuple(builder.perspectives()),
    )


def _highest(scores: Iterable[float | None]) -> float | None:
    return max((score for score in scores if score is not None), default=None)


class _CaseBuilder:
    """Builds the views of one case.

    Build the detectors before the sources, because the detectors collect the evidence and omissions that the sources
    show.
    """

    def __init__(self, case: Case, id: str) -> None:
        self.case = case
        self.source_ids = {source.id: f"{id}-s{k}" for k, source in enumerate(case.sources, 1)}
        self.anchors: dict[tuple[str, Span], str] = {}  # of the source spans that are cited as evidence
        self.citing: defaultdict[tuple[str, Span], list[tuple[str, str]]] = defaultdict(list)  # anchor, description
        self.omission_marks: defaultdict[str, list[Mark]] = defaultdict(list)

    def detector(self, view: JudgementView, id: str) -> DetectorView:
        """Build the view of one detector. Flagged spans get numbers, and all other spans only get marks."""
        judgement, limits, by = view.judgement, view.decision.thresholds, view.judgement.by
        marks, flagged, supported = [], [], []
        for k, span in enumerate(view.flagged, 1):
            anchor, note = f"{id}-f{k}", f"{id}-n{k}"
            target = self.cite(span.evidence, anchor, span.span, by)
            hover = "\n".join(dict.fromkeys(_hover(by, verdict) for verdict in span.verdicts[:FEW]))
            marks.append(Mark(span.span, anchor, "flag", target, hover, "flagged", ((note, str(k)),)))
            flagged.append(self.note(span.verdicts, span.span, note, anchor, span.evidence, limits.span))
        above = set(view.decision.verdicts)
        others = [verdict for i, verdict in enumerate(judgement.verdicts) if i not in above]
        for k, verdict in enumerate(sorted(others, key=lambda v: v.span), 1):
            anchor = f"{id}-v{k}"
            target = self.cite(sorted(verdict.evidence, key=lambda e: -e.weight), anchor, verdict.span, by)
            marks.append(Mark(verdict.span, anchor, "backed" if target else "low", target, _hover(by, verdict)))
            note = f"{id}-w{k}"
            supported.append(self.note((verdict,), verdict.span, note, anchor, verdict.evidence, limits.span))
        marks += [Mark(span, "", "unjudged", hover="not judged", spoken="not judged") for span in view.unjudged]
        omissions = [self.omission_note(o, f"{id}-m{k}", by, limits.source) for k, o in enumerate(view.omissions, 1)]
        flagged, shared_reason = _without_shared_reason(flagged)
        omissions, shared_omission_reason = _without_shared_reason(omissions)
        usage = judgement.usage
        used = f"{usage.calls} calls, {usage.prompt_tokens} tokens in, {usage.completion_tokens} out" if usage else ""
        if usage is not None and usage.cost is not None:
            used += f", cost {usage.cost:.4f}"
        return DetectorView(
            id=id,
            by=visible(by),
            outcome=view.decision.outcome,
            outcome_text=outcome_text(view.decision.outcome),
            threshold=thresholds_text(limits, judgement),
            hallucination=judgement.hallucination,
            omission=judgement.omission,
            coverage_unknown=view.coverage_unknown,
            unjudged=length(view.unjudged),
            shared_reason=shared_reason,
            shared_omission_reason=shared_omission_reason,
            segments=html_segments(self.case.response, marks),
            flagged=tuple(flagged),
            omissions=tuple(omissions),
            supported=tuple(supported),
            notes=tuple(visible(note) for note in judgement.notes),
            usage=used,
            reason=visible(judgement.reason or ""),
            provenance=visible("; ".join(f"{key} {value}" for key, value in judgement.provenance)),
        )

    def cite(self, evidence: Sequence[Evidence], anchor: str, span: Span, by: str) -> str | None:
        """Record that a span of the response cites `evidence`. Return the anchor of the first piece, or None."""
        description = visible(f"“{shorten(span.of(self.case.response), 80)}” ({by})")
        for piece in evidence:
            self.anchor(piece)
            self.citing[piece.source_id, piece.span].append((anchor, description))
        return self.anchor(evidence[0]) if evidence else None

    def anchor(self, evidence: Evidence) -> str:
        """Return the anchor of a source span. Every citation of the span has the same anchor."""
        key = (evidence.source_id, evidence.span)
        return self.anchors.setdefault(key, f"{self.source_ids[evidence.source_id]}-e{len(self.anchors) + 1}")

    def note(
        self,
        verdicts: Sequence[Verdict],
        span: Span,
        id: str,
        back: str,
        evidence: Sequence[Evidence],
        threshold: float,
    ) -> Note:
        """Build the note on a span of the response."""
        first, score = verdicts[0], max(verdict.score for verdict in verdicts)
        views = []
        for piece in evidence:
            source = self.case.source(piece.source_id)
            words = visible(shorten(piece.span.of(source.text), 160))
            weight = "" if piece.weight == 1.0 else number(piece.weight)
            views.append(EvidenceView(self.anchor(piece), visible(source.name_at(piece.span)), words, weight))
        return Note(
            id=id,
            back=back,
            words=visible(shorten(span.of(self.case.response), 300)),
            score=score,
            number=number(score, threshold),
            label=visible(label_and_kind(first)),
            claim=visible(first.claim.text) if first.claim else "",
            reason=visible(first.reason or ""),
            correction=None if first.correction is None else visible(first.correction),
            evidence=tuple(views),
        )

    def omission_note(self, omission: Omission, id: str, by: str, threshold: float) -> Note:
        """Build the note on an omission, and mark the omission in its source."""
        source = self.case.source(omission.source_id)
        marks = self.omission_marks[source.id]
        anchor = f"{self.source_ids[source.id]}-o{len(marks) + 1}"
        parts = [f"{by}: left out, {number(omission.score)}", omission.reason]
        hover = visible(" · ".join(part for part in parts if part))
        marks.append(Mark(omission.span, anchor, "omit", id, hover, "left out"))
        return Note(
            id=id,
            back=anchor,
            words=visible(shorten(omission.span.of(source.text), 300)),
            score=omission.score,
            number=number(omission.score, threshold),
            reason=visible(omission.reason or ""),
            where=visible(source.name_at(omission.span)),
        )

    def perspectives(self) -> Iterator[tuple[str | None, tuple[SourceView, ...]]]:
        """Yield the sources by perspective, in the order of each perspective's first source."""
        by_perspective: dict[str | None, list[SourceView]] = {}
        for source in self.case.sources:
            by_perspective.setdefault(source.perspective, []).append(self.source(source))
        for perspective, views in by_perspective.items():
            yield (None if perspective is None else visible(perspective)), tuple(views)

    def source(self, source: Source) -> SourceView:
        """Build the view of a source, with its omissions and the passages that are cited as evidence."""
        omissions = self.omission_marks[source.id]
        marks = list(omissions)
        for (source_id, span), anchor in self.anchors.items():
            if source_id == source.id:
                citing = self.citing[source_id, span]
                hover = "evidence for " + ", ".join(description for _, description in citing[:FEW])
                refs = tuple((back, f"↩{k}") for k, (back, _) in enumerate(citing[:FEW], 1)) if len(citing) > 1 else ()
                marks.append(Mark(span, anchor, "proof", citing[0][0] if citing else None, hover, refs=refs))
        windows = None
        if len(source.text) > LONG_SOURCE:
            windows = passages(source.text, [mark.span for mark in marks])
            if length(windows) > 0.7 * len(source.text):
                windows = None
        return SourceView(
            id=self.source_ids[source.id],
            name=visible(source.id),
            citation=visible(source.citation or ""),
            must_cover=source.must_cover,
            omitted=len(omissions),
            size=len(source.text),
            segments=html_segments(source.text, marks, windows),
            full_text=None if windows is None else visible(source.text),
        )


def _hover(by: str, verdict: Verdict) -> str:
    parts = [
        f"{by}: {number(verdict.score)}",
        label_and_kind(verdict),
        verdict.claim and f"Claim: {verdict.claim.text}",
    ]
    parts += [verdict.reason, verdict.correction and f"Instead: {verdict.correction}"]
    return visible(" · ".join(part for part in parts if part))


def _without_shared_reason(notes: list[Note]) -> tuple[list[Note], str]:
    """Remove the label and the reason from several notes if all notes share both. Return the notes and the shared text.

    If any note has a claim, a correction or evidence, all notes stay unchanged.
    """
    reasons = {(n.label, n.reason) for n in notes}
    if len(notes) < 2 or len(reasons) > 1 or any(n.claim or n.evidence or n.correction is not None for n in notes):
        return notes, ""
    label, reason = reasons.pop()
    return [replace(n, label="", reason="") for n in notes], " · ".join(part for part in (label, reason) if part)
