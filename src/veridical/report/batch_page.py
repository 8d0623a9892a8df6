"""Render the HTML page of a batch.

The page shows proportions with intervals (for all cases and by group), plots, failed rows and the worst cases.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from veridical.io.files import write_whole
from veridical.metrics.measure import Measured
from veridical.records.strings import shorten, visible
from veridical.records.types import Checked
from veridical.report.html import case_sections
from veridical.report.pages import render, render_page
from veridical.report.tables import Table
from veridical.workflows.batch.summary import BatchReport, GroupShares, WorstRow, worst_cases

GROUPS_IN_TABLE = 50
GROUPS_IN_PLOT = 20


def write_batch_page(folder: Path, report: BatchReport) -> Path:
    """Write the page `report.html` into the folder of a finished batch, and return the path of the page.

    The page shows the summary `report`, and in full the flagged cases with the highest scores.
    """
    rows = {(row.file, row.line): row for row in (*report.worst, *report.worst_omitted)}
    page = folder / "report.html"
    write_whole(page, render_batch(report, worst_cases(folder, list(rows.values()))), follow_link=False)
    return page


def render_batch(report: BatchReport, worst: Sequence[Checked] = ()) -> str:
    """Render the report of a batch as one HTML document, which has no script and loads nothing.

    Args:
        report: The summary of the batch.
        worst: The results of the cases to show in full, usually those with the highest scores.
    """
    tables = [_shares_table(report)]
    if report.kinds:
        tables.append(_kinds_table(report))
    for about, rows in (("hallucination", report.worst), ("omission", report.worst_omitted)):
        if rows:
            tables.append(_worst_table(f"The highest scores of {about}", rows))
    if report.failures:
        tables.append(_failures_table(report))
    styles, values = case_sections(worst)
    styles.append(render("batch.css"))
    return render_page("batch.html", *styles, title="Batch report", tables=tables, plots=_plots(report), **values)


def _shares_table(report: BatchReport) -> Table:
    total = report.total
    groups = report.groups[:GROUPS_IN_TABLE]
    grouped = bool(report.groups)
    lines = [
        [
            *(["all" if shares.group is None else visible(shares.group)] if grouped else []),
            *(f"{count:,}" for count in (shares.rows, shares.flagged, shares.unjudged, shares.no_claim)),
            *(_percent(measured) for measured in (shares.hallucinated, shares.omitted)),
            *("–" if mean is None else f"{mean:.3f}" for mean in (shares.mean_hallucination, shares.mean_omission)),
        ]
        for shares in (total, *groups)
    ]
    head = [*(["group"] if grouped else []), "rows judged", "flagged", "not judged as a whole", "no claim"]
    head += ["hallucinated", "omitted", "mean score", "mean score of omission"]
    hidden = len(report.groups) - len(groups)
    foot = f"{report.rows:,} rows, of which {report.failed:,} failed; detectors: {', '.join(report.detectors)}. "
    foot += (
        f"Shares of the rows that were judged, with {report.level:.0%} intervals (Wilson); rows count as independent"
    )
    if report.repeated_ids:
        foot += f". {report.repeated_ids:,} rows have the id of an earlier row; only their numbers distinguish them"
    if hidden or report.other_groups:
        foot += f". {hidden:,} smaller groups are in report.json; {report.other_groups:,} rows are in none that is kept"
    return Table("Shares", head, lines, visible(foot))


def _kinds_table(report: BatchReport) -> Table:
    flagged = report.total.flagged
    lines = [[visible(kind), f"{rows:,}", f"{100 * rows / flagged:.1f} %"] for kind, rows in report.kinds.items()]
    foot = "A row counts once for each kind of error among its flagged spans; a kind is given only if it is clear"
    return Table("Kinds of error", ["kind", "rows", "of the flagged rows"], lines, foot)


def _percent(measured: Measured | None) -> str:
    if measured is None or measured.value is None or measured.low is None or measured.high is None:
        return "–"
    return f"{100 * measured.value:.1f} % ({100 * measured.low:.1f}–{100 * measured.high:.1f})"


def _worst_table(title: str, rows: Sequence[WorstRow]) -> Table:
    grouped = any(row.scores.group is not None for row in rows)
    lines = [
        [
            f"{row.scores.row:,}",
            visible(shorten(row.scores.id, 60)),
            *([visible(shorten(row.scores.group or "–", 40))] if grouped else []),
            *("–" if score is None else f"{score:.3f}" for score in (row.scores.hallucination, row.scores.omission)),
            f"{row.scores.flagged}",
            f"{row.scores.left_out}",
            f"{row.file}, line {row.line}",
        ]
        for row in rows
    ]
    head = ["row", "id", *(["group"] if grouped else []), "hallucination", "omission", "flagged spans", "left out"]
    return Table(title, [*head, "result"], lines, "These cases are shown in full below")


def _failures_table(report: BatchReport) -> Table:
    lines = [
        [f"{row.row:,}", visible(shorten(row.file, 60)), f"{row.place:,}", visible(shorten(row.reason, 200))]
        for row in report.failures
    ]
    foot = f"{len(lines)} of {report.failed:,}; all are in failed.jsonl"
    return Table("Rows that failed", ["row", "file", "line or row in it", "reason"], lines, foot)


def _plots(report: BatchReport) -> list[dict[str, Any]]:
    """Prepare the plots for `batch.html`: columns for counts of scores, and lines for shares of groups."""
    plots = [
        ("Response-level scores of hallucination", _columns(report.scores), []),
        ("Scores of omission", _columns(report.omission_scores), []),
        ("Share hallucinated, by group", [], _lines(report.groups, "hallucinated")),
        ("Share omitted, by group", [], _lines(report.groups, "omitted")),
    ]
    return [{"caption": caption, "columns": c, "lines": lines} for caption, c, lines in plots if c or lines]


def _columns(counts: Sequence[int]) -> list[tuple[int, float]]:
    """Return the count of each bin and its height relative to the largest bin, or [] if all counts are 0."""
    most = max(counts, default=0)
    return [(count, count / most) for count in counts] if most else []


def _lines(groups: Sequence[GroupShares], name: str) -> list[tuple[str, Measured]]:
    """Return the names of the largest groups with their shares."""
    measured = [(shares.group or "", getattr(shares, name)) for shares in groups]
    return [(shorten(group, 30), share) for group, share in measured if share is not None][:GROUPS_IN_PLOT]
