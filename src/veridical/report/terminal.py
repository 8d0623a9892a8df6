"""Show checked cases in a terminal: marked words, omissions, scores, and spans that were not judged.

If there is no colour (no terminal, a dumb terminal, NO_COLOR), no escape codes are written, and brackets show the
marks. Texts are never read as markup, control characters are made visible, and long texts are cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from veridical.records.spans import Span
from veridical.records.strings import shorten, visible
from veridical.records.types import Case, Checked, Omission, Outcome, Source
from veridical.report.heat import heat_legend, heat_text, heat_view
from veridical.report.judgement_view import (
    FlaggedSpan,
    JudgementView,
    judgement_views,
    label_and_kind,
    number,
    outcome_text,
    thresholds_text,
)
from veridical.report.segments import passages, segment, within

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

T = TypeVar("T")

LONG_TEXT = 3000  # of a text with more characters, only passages are shown
LONG_PIECE = 600  # the most characters that are shown of one stretch under the same marks
MANY = 20  # the most flagged spans, passages or notes of one kind that are shown

_STYLES = {"flagged": "bold red underline", "omitted": "yellow underline", "unjudged": "dim italic"}
_BRACKETS = {"flagged": ("[-", "-]"), "omitted": ("[!", "!]"), "unjudged": ("[? ", " ?]")}
_OUTCOMES = {
    Outcome.CLEAR: "bold green",
    Outcome.FLAGGED: "bold red",
    Outcome.NO_CLAIM: "bold",
    Outcome.UNJUDGED: "bold yellow",
}


def print_report(checked: Iterable[Checked], console: Console, *, legend: bool = True, heat: bool = False) -> None:
    """Print checked cases to a terminal or file, with flagged words marked, and with a legend of the marks used.

    Colours and escape codes are used only if the console is a terminal that supports and allows them.

    Args:
        checked: The checked cases, which may be lazy.
        console: The console of `rich` to print to.
        legend: Whether to explain the marks at the end.
        heat: If true, words are shaded by their scores instead of marked, for judgements that score words.
    """
    page = Printer(console, heat=heat)
    for item in checked:
        page.case(item)
    if legend:
        page.legend()


class Printer:
    """Prints checked cases to one console, and keeps track of the marks that the legend has to explain.

    Attributes:
        console: The console of `rich`.
        heat: If true, words are shaded by their scores instead of marked.
        plain: True if the console shows no colours, so that brackets show the marks.
        used: The names of the marks that were used: "flagged", "omitted", "unjudged" or "heat".
    """

    def __init__(self, console: Console, *, heat: bool = False) -> None:
        self.console = console
        self.heat = heat
        self.plain = console.no_color or not console.is_terminal or console.color_system is None
        self.used: set[str] = set()

    def line(self, *parts: str | tuple[str, str] | Text, indent: int = 0) -> None:
        """Print one paragraph, wrapped to the width of the console and indented by `indent` spaces.

        Each part is a plain string, a pair (string, style), or a `Text` of `rich`.
        """
        from rich.text import Text

        text = Text()
        for part in parts:
            if isinstance(part, Text):
                text.append_text(part)
            else:
                words, style = part if isinstance(part, tuple) else (part, "")
                text.append(self.encodable(words), "" if self.plain else style)
        for row in text.wrap(self.console, max(20, self.console.width - indent)):
            row.rstrip()
            row.pad_left(indent)
            # a Text is never read as markup; soft_wrap keeps the console from wrapping or cutting it again
            self.console.print(row, soft_wrap=True, highlight=False)

    def encodable(self, words: str) -> str:
        """Replace characters that the console's encoding cannot represent by escapes such as "\\u2192"."""
        encoding = self.console.encoding
        return words if encoding.startswith("utf") else words.encode(encoding, "backslashreplace").decode(encoding)

    def case(self, item: Checked) -> None:
        """Print one checked case."""
        case = item.case
        heading = (visible(shorten(case.id, 200)), "bold")
        self.line(heading, "  ", (outcome_text(item.outcome).upper(), _OUTCOMES[item.outcome]))
        if case.question:
            self.line(("Question: ", "dim"), visible(shorten(case.question, LONG_PIECE)), indent=2)
        if item.cause is not None:
            words = (visible(item.cause.kind.value), "magenta")
            self.line(("Cause: ", "dim"), words, f"  {visible(shorten(item.cause.reason, LONG_PIECE))}", indent=2)
        if not item.judgements:
            self.line("No detector was asked: not judged.", indent=2)
        for view in judgement_views(item):
            self.console.print()
            self.judgement(case, view)
        self.console.print()

    def judgement(self, case: Case, view: JudgementView) -> None:
        """Print the judgement of one detector on a case."""
        self.scores(view)
        marks = [(span.span, "flagged") for span in view.flagged] + [(span, "unjudged") for span in view.unjudged]
        shaded = heat_view(case, view.judgement, view.decision) if self.heat else None
        if shaded is not None:
            self.used.add("heat")
        text = self.marked(case.response, marks) if shaded is None else heat_text(shaded, plain=self.plain)
        text.rstrip()
        self.line(text, indent=4)
        if self.heat and shaded is None:
            self.line(("No scores for words.", "dim"), indent=4)
        if view.flagged:
            self.console.print()
            self.flagged(case, view)
        if view.omissions:
            self.console.print()
            self.left_out(case, view)
        self.not_judged(case, view)

    def scores(self, view: JudgementView) -> None:
        """Print the detector, its decision, scores and thresholds in one line."""
        judgement, decision = view.judgement, view.decision
        scores = "  hallucination not scored"
        if judgement.hallucination is not None:
            whole_flagged = " (flagged)" if decision.hallucination and not decision.verdicts else ""
            scores = f"  hallucination {number(judgement.hallucination, decision.thresholds.response)}{whole_flagged}"
        if judgement.omission is not None:
            scores += f"  omission {number(judgement.omission)}"
        elif view.coverage_unknown:
            scores += "  omission not judged"
        limits = thresholds_text(decision.thresholds, judgement)
        self.line(
            (visible(shorten(judgement.by, 120)), "bold"),
            ("  " + outcome_text(decision.outcome).lower(), _OUTCOMES[decision.outcome]),
            scores,
            (f"  threshold{'s' * (',' in limits)} {limits}", "dim"),
            indent=2,
        )

    def marked(self, text: str, marks: Sequence[tuple[Span, str]], *, whole: bool = True) -> Text:
        """Render `text` with its marks, in colours or with brackets.

        If the text is long, or if `whole` is False, only the passages around the marks are rendered.

        Args:
            text: The text of a response or a source.
            marks: Pairs of a span and the name of its mark: "flagged", "omitted" or "unjudged".
            whole: If false, only passages are rendered even if the text is short.
        """
        from rich.text import Text

        result = Text()
        windows = [Span(0, len(text))]
        if not whole or len(text) > LONG_TEXT:
            windows = passages(text, [span for span, _ in marks]) or [Span(0, min(len(text), LONG_PIECE))]
        cuts = [edge for window in windows for edge in (window.start, window.end)]
        for part in within(text, segment(len(text), marks, cuts=cuts), windows[:MANY]):
            if part is None:
                result.append(self.encodable(" … " if result else "… "))
                continue
            words = visible(text, part.start, part.end)
            if part.end == len(text):
                words = words.rstrip("\n")  # of a file; empty lines would follow
            if len(words) > LONG_PIECE:
                words = f"{words[: LONG_PIECE // 2]} … {words[-LONG_PIECE // 2 :]}"
            mark = next((m for m in ("flagged", "omitted", "unjudged") if m in part.marks), None)
            if mark is None:
                result.append(self.encodable(words))
                continue
            self.used.add(mark)
            before, after = _BRACKETS[mark]
            # without colour, and around an empty place, only brackets show the mark
            bracketed = self.plain or part.start == part.end
            words = before + words + after if bracketed else words
            result.append(self.encodable(words), "" if self.plain else _STYLES[mark])
        if len(windows) > MANY:
            result.append(self.encodable(f"and {len(windows) - MANY} more passages"))
        return result

    def flagged(self, case: Case, view: JudgementView) -> None:
        """Print the list of flagged spans, with reasons, corrections and evidence.

        Spans that have only a label and a reason are joined in one paragraph per reason.
        """
        self.line(("Flagged in the response", "bold"), indent=4)
        threshold = view.decision.thresholds.span
        marking: dict[str, list[str]] = {}
        for span in (s for s in view.flagged if s.only_marks):
            words = f"{_words(case, span)} {number(span.score, threshold)}"
            marking.setdefault(span.label_and_reason, []).append(words)
        explained = [s for s in view.flagged if not s.only_marks]
        self._many(explained, lambda i, span: self.flagged_span(case, i, span, threshold))
        self._many(list(marking.items()), lambda _, item: self.marked_words(*item))

    def marked_words(self, reason: str, words: Sequence[str]) -> None:
        """Print flagged words with the same reason in one paragraph."""
        more = [f"… and {len(words) - MANY} more"] if len(words) > MANY else []
        reason = f"{visible(shorten(reason, LONG_PIECE))}: " if reason else ""
        self.line((reason, "dim"), " · ".join([*words[:MANY], *more]), indent=4)

    def flagged_span(self, case: Case, i: int, span: FlaggedSpan, threshold: float) -> None:
        """Print one flagged span in full, with the number `i`."""
        first = span.verdicts[0]
        label = f"  {visible(shorten(label_and_kind(first), 80))}".rstrip()
        score = f"  {number(span.score, threshold)}"
        self.line(f"{i}. ", (_words(case, span), "bold"), score, (label, "magenta"), indent=4)
        if first.claim is not None:
            self.line(("claim: ", "dim"), visible(shorten(first.claim.text, LONG_PIECE)), indent=7)
        if first.reason:
            self.line(visible(shorten(first.reason, LONG_PIECE)), indent=7)
        if first.correction is not None:
            words = visible(shorten(first.correction, LONG_PIECE)) or "(leave out)"
            self.line(("instead: ", "dim"), (words, "green"), indent=7)
        for evidence in span.evidence[:3]:
            source = case.source(evidence.source_id)
            name = _name(source, evidence.span)
            self.line((f"{name}: ", "dim"), _quote(source.text, evidence.span), indent=7)
        if len(span.evidence) > 3:
            self.line((f"… and {len(span.evidence) - 3} more places", "dim"), indent=7)

    def left_out(self, case: Case, view: JudgementView) -> None:
        """Print the source passages that are flagged as omitted, with each source's highest score and the reasons."""
        self.line(("Left out of the response", "bold"), indent=4)
        by_source: dict[str, list[Omission]] = {}
        for omission in view.omissions:
            by_source.setdefault(omission.source_id, []).append(omission)
        for id, omissions in list(by_source.items())[:MANY]:
            source = case.source(id)
            perspective = f"  (perspective {visible(shorten(source.perspective, 80))})" if source.perspective else ""
            worst = max(omission.score for omission in omissions)
            numbers = dict.fromkeys(source.page_of(omission.span) for omission in omissions)
            pages = f", page {', '.join(map(str, numbers))}" if source.pages else ""
            self.line(
                (_name(source) + pages, "bold"),
                (perspective, "cyan"),
                f"  {number(worst, view.decision.thresholds.source)}",
                indent=4,
            )
            self.line(self.marked(source.text, [(o.span, "omitted") for o in omissions], whole=False), indent=6)
            self.reasons(source, omissions)
        if len(by_source) > MANY:
            self.line(f"… and {len(by_source) - MANY} more sources", indent=4)

    def reasons(self, source: Source, omissions: Sequence[Omission]) -> None:
        """Print the reasons of omissions, each reason once."""
        by_reason: dict[str, list[Omission]] = {}
        for omission in omissions:
            by_reason.setdefault(omission.reason or "", []).append(omission)
        for reason, same in [item for item in by_reason.items() if item[0]][:MANY]:
            subject = _quote(source.text, same[0].span) if len(same) == 1 else f"{len(same)} passages"
            self.line((f"{subject}: {visible(shorten(reason, LONG_PIECE))}", "dim"), indent=6)

    def not_judged(self, case: Case, view: JudgementView) -> None:
        """Print the reason of a judgement, what it did not judge, its notes, and how it was made (provenance)."""
        if view.judgement.reason:
            self.line((f"Reason: {visible(shorten(view.judgement.reason, LONG_PIECE))}", ""), indent=4)
        notes = [f"Note: {visible(shorten(note, LONG_PIECE))}" for note in view.judgement.notes]
        if view.coverage_unknown:
            notes.insert(0, "Not judged: whether the sources that had to be covered are covered")
        if view.unjudged:
            size = sum(len(span) for span in view.unjudged)
            notes.insert(0, f"Not judged: {size} of {len(case.response)} characters of the response")
        elif view.decision.outcome is Outcome.UNJUDGED and not view.coverage_unknown:
            notes.insert(0, "Not judged: this detector gave no score")
        if notes:
            self.console.print()
            self._many(notes, lambda _, note: self.line((note, "yellow"), indent=4))
        if view.judgement.provenance:
            self.line((visible("; ".join(f"{k} {v}" for k, v in view.judgement.provenance)), "dim"), indent=4)

    def _many(self, items: Sequence[T], show: Callable[[int, T], None]) -> None:
        for i, item in enumerate(items[:MANY], 1):
            show(i, item)
        if len(items) > MANY:
            self.line((f"… and {len(items) - MANY} more", "dim"), indent=4)

    def legend(self) -> None:
        """Print the meaning of the marks that were used, if any."""
        if "heat" in self.used:
            self.line(heat_legend(plain=self.plain))
        words = {
            "flagged": "flagged: not backed by the sources",
            "omitted": "left out of the response",
            "unjudged": "not judged",
        }
        parts: list[str | tuple[str, str]] = []
        for mark in (m for m in words if m in self.used):
            before, after = _BRACKETS[mark]
            parts += [
                "   " if parts else "",
                (f"{before}{words[mark]}{after}" if self.plain else words[mark], _STYLES[mark]),
            ]
        if parts:
            self.line(("Marks: ", "dim"), *parts)


def _name(source: Source, span: Span | None = None) -> str:
    cited = f" {source.citation}" if source.citation else ""
    return visible(shorten(f"source {source.id if span is None else source.name_at(span)}{cited}", 120))


def _quote(text: str, span: Span) -> str:
    return f"“{visible(shorten(text[span.start : span.end], 240))}”"


def _words(case: Case, span: FlaggedSpan) -> str:
    return _quote(case.response, span.span) if len(span.span) else "(a place without words)"
