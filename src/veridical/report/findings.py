"""List the findings in one case for other programs. A finding is a flagged span, an omission or a whole response."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO

from veridical.records.spans import Span
from veridical.records.strings import shorten, visible
from veridical.records.types import Case, Checked, Evidence, Outcome
from veridical.report.judgement_view import JudgementView, judgement_views, number

HALLUCINATION = "hallucination"
OMISSION = "omission"
_WORDS = 120  # characters of a span that a message shows


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding in a case, for other programs: a flagged span, an omission, or a response flagged as a whole.

    Attributes:
        kind: `HALLUCINATION` (unsupported text) or `OMISSION` (a source passage that the response omits).
        detector: The name of the detector.
        score: The score in [0, 1], where 1 means hallucinated or omitted.
        message: The finding in one line, with control characters made visible, so that you can display it anywhere.
        span: The flagged characters of the response, or of the source `source_id`. None for the whole response.
        source_id: The id of the source with the omitted span. None if the span is in the response.
        evidence: The source passages that support or contradict a flagged span.
    """

    kind: str  # HALLUCINATION or OMISSION
    detector: str
    score: float
    message: str
    span: Span | None = None
    source_id: str | None = None
    evidence: tuple[Evidence, ...] = ()


def findings(checked: Checked) -> list[Finding]:
    """List the findings that led to the outcome "flagged", in the order of the detectors.

    If no score reaches its threshold, so that only `flag_over` flagged the case, the only finding is the highest
    hallucination or omission score of the whole response. For any other outcome, the list is empty.
    """
    if checked.outcome is not Outcome.FLAGGED:
        return []
    above_thresholds = [finding for view in judgement_views(checked) for finding in _of_view(checked.case, view)]
    if above_thresholds:
        return above_thresholds
    # no score reaches a threshold, so `flag_over` has flagged the case: report the highest score
    scores = [
        (score, kind, judgement.by)
        for judgement in checked.judgements
        for score, kind in ((judgement.hallucination, HALLUCINATION), (judgement.omission, OMISSION))
        if score is not None
    ]
    return [_whole(kind, by, score) for score, kind, by in sorted(scores)[-1:]]


def _of_view(case: Case, view: JudgementView) -> Iterator[Finding]:
    by, thresholds = view.judgement.by, view.decision.thresholds
    for span in view.flagged:
        reason = f": {shorten(span.label_and_reason, 300)}" if span.label_and_reason else ""
        words = f"{_quoted(case.response, span.span)} is not backed by the sources{reason}"
        if (correction := span.verdicts[0].correction) is not None:
            words += f"; instead: {shorten(correction, _WORDS) or '(leave out)'}"
        line = _message(words, by, span.score, thresholds.span)
        yield Finding(HALLUCINATION, by, span.score, line, span.span, evidence=span.evidence)
    for omission in view.omissions:
        source = case.source(omission.source_id)
        reason = f": {shorten(omission.reason, 300)}" if omission.reason else ""
        name = shorten(source.name_at(omission.span), 80)
        words = f"left out: {_quoted(source.text, omission.span)} of source {name}{reason}"
        line = _message(words, by, omission.score, thresholds.source)
        yield Finding(OMISSION, by, omission.score, line, omission.span, omission.source_id)
    if view.judgement.hallucination is not None and view.decision.hallucination and not view.flagged:
        yield _whole(HALLUCINATION, by, view.judgement.hallucination)
    if view.judgement.omission is not None and view.decision.omission and not view.omissions:
        yield _whole(OMISSION, by, view.judgement.omission)


def _whole(kind: str, by: str, score: float) -> Finding:
    backed = "the response as a whole is not backed by the sources"
    words = backed if kind == HALLUCINATION else "the response leaves out what it has to cover"
    return Finding(kind, by, score, _message(words, by, score))


def _message(words: str, by: str, score: float, threshold: float | None = None) -> str:
    return visible(f"{words} ({shorten(by, 80)}, score {number(score, threshold)})")


def _quoted(text: str, span: Span) -> str:
    return f"“{shorten(span.of(text), _WORDS)}”"


def unjudged_reasons(checked: Checked) -> list[str]:
    """Return the reasons why a case, or a part of it, was not judged: one line for each note of a detector."""
    notes = [f"{shorten(j.by, 80)}: {shorten(note, 300)}" for j in checked.judgements for note in j.notes]
    return [visible(note) for note in notes] or ["no detector judged all of it"]


def reasons(checked: Checked) -> list[str]:
    """Return the reasons why a case is flagged or was not judged, one line each. For a clear case, there are none."""
    if checked.outcome is Outcome.UNJUDGED:
        return unjudged_reasons(checked)
    return [finding.message for finding in findings(checked)]


def as_text(checked: Checked, *, legend: bool = True) -> str:
    """Render one case as the terminal shows it, without colours: its texts with marks, scores and reasons.

    If `legend` is true, the meaning of the marks follows.
    """
    from rich.console import Console

    from veridical.report.terminal import print_report

    file = StringIO()
    print_report([checked], Console(file=file, width=120, color_system=None), legend=legend)
    return file.getvalue().rstrip()


def as_html(checked: Checked) -> str:
    """Render one case as an HTML element for a notebook, with the same content as in a terminal, in colours."""
    from rich.console import Console

    from veridical.report.terminal import print_report

    colours = {"force_terminal": True, "color_system": "truecolor", "no_color": False}
    console = Console(file=StringIO(), width=120, record=True, **colours)  # type: ignore[arg-type]
    print_report([checked], console)
    return console.export_html(inline_styles=True, code_format='<pre style="white-space: pre-wrap">{code}</pre>')
