"""What the HTML page shows, worked out from checked cases: pieces of text with their classes, anchors and links.

The template only writes down what is here. Anchors: `c1` a case, `c1-d1` a detector in it, `c1-d1-f1` a finding in
the response and `c1-d1-n1` its note, `c1-d1-v1` another verdict, `c1-s1` a source, `c1-s1-e1` evidence and
`c1-s1-o1` an omission in it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from veridical.core.spans import Span, length
from veridical.core.text import shorten, visible
from veridical.core.types import Case, Checked, Evidence, Omission, Outcome, Source, Usage, Verdict
from veridical.report.findings import Finding, Reading, number, readings, thresholds_text, wording
from veridical.report.html_segments import FEW, Mark, Piece, pieces
from veridical.report.segments import passages

__all__ = ["CaseView", "case_view"]

LONG_SOURCE = 1600  # characters; a longer source is first shown as the passages that are marked


@dataclass(frozen=True, slots=True)
class Place:
    """A passage of a source: where the page has it and its words."""

    anchor: str
    name: str
    words: str
    weight: str


@dataclass(frozen=True, slots=True)
class Note:
    """One finding, omission or supported verdict, as it stands in a list."""

    id: str
    back: str | None
    words: str
    score: float
    number: str
    label: str = ""
    claim: str = ""
    reason: str = ""
    correction: str | None = None
    places: tuple[Place, ...] = ()
    where: str = ""


@dataclass(frozen=True, slots=True)
class DetectorView:
    """What one detector says of a case."""

    id: str
    by: str
    outcome: Outcome
    wording: str
    threshold: str
    hallucination: float | None
    omission: float | None
    coverage_unknown: bool
    unjudged: int
    same: str  # what all findings say alike, where each only adds its words
    same_omission: str
    pieces: tuple[Piece, ...]
    findings: tuple[Note, ...]
    omissions: tuple[Note, ...]
    supported: tuple[Note, ...]
    notes: tuple[str, ...]
    usage: str
    reason: str
    provenance: str


@dataclass(frozen=True, slots=True)
class SourceView:
    """One source with everything that points at it; where it is long `pieces` are passages and `whole` is all of it."""

    id: str
    name: str
    citation: str
    must_cover: bool
    omitted: int
    size: int
    pieces: tuple[Piece, ...]
    whole: str | None


@dataclass(frozen=True, slots=True)
class CaseView:
    """One case of the page. `sides` are its sources by perspective (None for those without one)."""

    id: str
    name: str
    question: str
    history: tuple[tuple[str, str], ...]
    outcome: Outcome
    wording: str
    limit_only: bool
    start: str
    hallucination: float | None
    omission: float | None
    flagged: int
    omitted: int
    detectors: tuple[DetectorView, ...]
    sides: tuple[tuple[str | None, tuple[SourceView, ...]], ...]


@dataclass(slots=True)
class _Pointers:
    """What points at the sources of one case, gathered while its detectors are read."""

    anchors: dict[tuple[str, Span], str] = field(default_factory=dict)
    users: defaultdict[tuple[str, Span], list[tuple[str, str]]] = field(default_factory=lambda: defaultdict(list))
    omissions: defaultdict[str, list[Mark]] = field(default_factory=lambda: defaultdict(list))
    sources: dict[str, str] = field(default_factory=dict)

    def anchor(self, evidence: Evidence) -> str:
        """The anchor of the place that `evidence` names, the same for everyone who names it."""
        place = (evidence.source_id, evidence.span)
        return self.anchors.setdefault(place, f"{self.sources[evidence.source_id]}-e{len(self.anchors) + 1}")


def case_view(checked: Checked, i: int) -> CaseView:
    """The view of the `i`-th case of a page (from 1)."""
    case, id = checked.case, f"c{i}"
    pointers = _Pointers(sources={source.id: f"{id}-s{k}" for k, source in enumerate(case.sources, 1)})
    read = readings(checked)
    detectors = tuple(_detector(case, r, f"{id}-d{k}", pointers) for k, r in enumerate(read, 1))
    flagged = sum(len(r.findings) for r in read)
    omitted = sum(len(r.omissions) for r in read)
    return CaseView(
        id=id,
        name=visible(case.id),
        question=visible(case.question or ""),
        history=tuple((visible(turn.speaker), visible(turn.text)) for turn in case.history),
        outcome=checked.outcome,
        wording=wording(checked.outcome),
        limit_only=checked.outcome is not Outcome.FLAGGED and bool(flagged or omitted),
        start=visible(shorten(case.response, 90)),
        hallucination=_highest(r.judgement.hallucination for r in read),
        omission=_highest(r.judgement.omission for r in read),
        flagged=flagged,
        omitted=omitted,
        detectors=detectors,
        sides=tuple(_sides(case, pointers)),
    )


def _highest(scores: Iterable[float | None]) -> float | None:
    return max((score for score in scores if score is not None), default=None)


def _detector(case: Case, reading: Reading, id: str, pointers: _Pointers) -> DetectorView:
    judgement = reading.judgement
    flagged = set(reading.decision.verdicts)
    others = sorted((v for i, v in enumerate(judgement.verdicts) if i not in flagged), key=lambda v: v.span)
    marks = [_finding_mark(case, f, id, k, reading, pointers) for k, f in enumerate(reading.findings, 1)]
    marks += [_verdict_mark(case, v, id, k, judgement.by, pointers) for k, v in enumerate(others, 1)]
    marks += [Mark(span, "", "unjudged", hover="not judged", spoken="not judged") for span in reading.unjudged]
    found = [_finding_note(case, f, id, k, reading, pointers) for k, f in enumerate(reading.findings, 1)]
    missing = [_omission_note(case, o, id, k, reading, pointers) for k, o in enumerate(reading.omissions, 1)]
    found, same = _said_once(found)
    missing, same_omission = _said_once(missing)
    return DetectorView(
        id=id,
        by=visible(judgement.by),
        outcome=reading.decision.outcome,
        wording=wording(reading.decision.outcome),
        threshold=thresholds_text(reading.decision.thresholds, judgement),
        hallucination=judgement.hallucination,
        omission=judgement.omission,
        coverage_unknown=reading.coverage_unknown,
        unjudged=length(reading.unjudged),
        same=same,
        same_omission=same_omission,
        pieces=pieces(case.response, marks),
        findings=tuple(found),
        omissions=tuple(missing),
        supported=tuple(
            _note(
                case, (v,), v.span, f"{id}-w{k}", f"{id}-v{k}", reading.decision.thresholds.span, v.evidence, pointers
            )
            for k, v in enumerate(others, 1)
        ),
        notes=tuple(visible(note) for note in judgement.notes),
        usage=_usage(judgement.usage),
        reason=visible(judgement.reason or ""),
        provenance=visible("; ".join(f"{key} {value}" for key, value in judgement.provenance)),
    )


def _said_once(notes: list[Note]) -> tuple[list[Note], str]:
    """`notes` without their label and reason, and these, where there are several and all say only the same."""
    sayings = {(n.label, n.reason) for n in notes}
    if len(notes) < 2 or len(sayings) > 1 or any(n.claim or n.places or n.correction is not None for n in notes):
        return notes, ""
    label, reason = sayings.pop()
    return [replace(n, label="", reason="") for n in notes], " · ".join(part for part in (label, reason) if part)


def _usage(usage: Usage | None) -> str:
    if usage is None:
        return ""
    cost = f", cost {usage.cost:.4f}" if usage.cost is not None else ""
    return f"{usage.calls} calls, {usage.prompt_tokens} tokens in, {usage.completion_tokens} out{cost}"


def _hover(by: str, verdict: Verdict) -> str:
    said = [f"{by}: {number(verdict.score)}", verdict.label, verdict.claim and f"Claim: {verdict.claim.text}"]
    said += [verdict.reason, verdict.correction and f"Instead: {verdict.correction}"]
    return visible(" · ".join(part for part in said if part))


def _finding_mark(case: Case, finding: Finding, id: str, k: int, reading: Reading, pointers: _Pointers) -> Mark:
    anchor = f"{id}-f{k}"
    by = reading.judgement.by
    for evidence in finding.evidence:
        pointers.anchor(evidence)
        pointers.users[evidence.source_id, evidence.span].append((anchor, _who(case, finding.span, by)))
    target = pointers.anchor(finding.evidence[0]) if finding.evidence else None
    hover = "\n".join(dict.fromkeys(_hover(by, verdict) for verdict in finding.verdicts[:FEW]))
    return Mark(finding.span, anchor, "flag", target, hover, "flagged", ((f"{id}-n{k}", str(k)),))


def _verdict_mark(case: Case, verdict: Verdict, id: str, k: int, by: str, pointers: _Pointers) -> Mark:
    anchor = f"{id}-v{k}"
    heaviest = sorted(verdict.evidence, key=lambda e: -e.weight)
    for evidence in heaviest:
        pointers.anchor(evidence)
        pointers.users[evidence.source_id, evidence.span].append((anchor, _who(case, verdict.span, by)))
    target = pointers.anchor(heaviest[0]) if heaviest else None
    return Mark(verdict.span, anchor, "backed" if heaviest else "low", target, _hover(by, verdict))


def _who(case: Case, span: Span, by: str) -> str:
    return visible(f"“{shorten(span.of(case.response), 80)}” ({by})")


def _finding_note(case: Case, finding: Finding, id: str, k: int, reading: Reading, pointers: _Pointers) -> Note:
    return _note(
        case,
        finding.verdicts,
        finding.span,
        f"{id}-n{k}",
        f"{id}-f{k}",
        reading.decision.thresholds.span,
        finding.evidence,
        pointers,
    )


def _note(
    case: Case,
    verdicts: Sequence[Verdict],
    span: Span,
    id: str,
    back: str,
    threshold: float,
    evidence: Sequence[Evidence],
    pointers: _Pointers,
) -> Note:
    first = verdicts[0]
    score = max(verdict.score for verdict in verdicts)
    return Note(
        id=id,
        back=back,
        words=visible(shorten(span.of(case.response), 300)),
        score=score,
        number=number(score, threshold),
        label=visible(first.label or ""),
        claim=visible(first.claim.text) if first.claim else "",
        reason=visible(first.reason or ""),
        correction=None if first.correction is None else visible(first.correction),
        places=tuple(_place(case, e, pointers) for e in evidence),
    )


def _place(case: Case, evidence: Evidence, pointers: _Pointers) -> Place:
    source = case.source(evidence.source_id)
    words = visible(shorten(evidence.span.of(source.text), 160))
    weight = "" if evidence.weight == 1.0 else number(evidence.weight)
    return Place(pointers.anchor(evidence), visible(source.id), words, weight)


def _omission_note(case: Case, omission: Omission, id: str, k: int, reading: Reading, pointers: _Pointers) -> Note:
    source = case.source(omission.source_id)
    note = f"{id}-m{k}"
    anchor = f"{pointers.sources[source.id]}-o{len(pointers.omissions[source.id]) + 1}"
    said = [f"{reading.judgement.by}: left out, {number(omission.score)}", omission.reason]
    hover = visible(" · ".join(part for part in said if part))
    pointers.omissions[source.id].append(Mark(omission.span, anchor, "omit", note, hover, "left out"))
    return Note(
        id=note,
        back=anchor,
        words=visible(shorten(omission.span.of(source.text), 300)),
        score=omission.score,
        number=number(omission.score, reading.decision.thresholds.source),
        reason=visible(omission.reason or ""),
        where=visible(source.id),
    )


def _sides(case: Case, pointers: _Pointers) -> Iterator[tuple[str | None, tuple[SourceView, ...]]]:
    """The sources by perspective, each perspective where its first source stands."""
    by_side: dict[str | None, list[SourceView]] = {}
    evidence: defaultdict[str, list[tuple[Span, str]]] = defaultdict(list)
    for (source_id, span), anchor in pointers.anchors.items():
        evidence[source_id].append((span, anchor))
    for source in case.sources:
        marks = [_evidence_mark(source, span, anchor, pointers) for span, anchor in evidence[source.id]]
        view = _source(source, marks, pointers.omissions[source.id], pointers.sources[source.id])
        by_side.setdefault(source.perspective, []).append(view)
    for side, views in by_side.items():
        yield (None if side is None else visible(side)), tuple(views)


def _evidence_mark(source: Source, span: Span, anchor: str, pointers: _Pointers) -> Mark:
    users = pointers.users[source.id, span]
    hover = "evidence for " + ", ".join(who for _, who in users[:FEW])
    refs = tuple((back, f"↩{k}") for k, (back, _) in enumerate(users[:FEW], 1)) if len(users) > 1 else ()
    return Mark(span, anchor, "proof", users[0][0] if users else None, hover, refs=refs)


def _source(source: Source, proofs: list[Mark], omissions: list[Mark], id: str) -> SourceView:
    marks = [*omissions, *proofs]
    windows = None
    if len(source.text) > LONG_SOURCE:
        windows = passages(source.text, [mark.span for mark in marks])
        if length(windows) > 0.7 * len(source.text):
            windows = None
    return SourceView(
        id=id,
        name=visible(source.id),
        citation=visible(source.citation or ""),
        must_cover=source.must_cover,
        omitted=len(omissions),
        size=len(source.text),
        pieces=pieces(source.text, marks, windows),
        whole=None if windows is None else visible(source.text),
    )
