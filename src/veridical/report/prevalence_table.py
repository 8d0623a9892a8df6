"""A study of cited summaries as a table: one line per generator, critic and judge, then the means."""

from __future__ import annotations

from collections.abc import Sequence

from veridical.core.text import visible
from veridical.metrics.measure import Measured
from veridical.report.tables import Table
from veridical.tasks.papers import MEAN, StudyRow

__all__ = ["prevalence_table"]


def prevalence_table(rows: Sequence[StudyRow]) -> Table:
    """The hallucinations per summary and the share of summaries with any, with 95 % intervals."""
    lines = []
    for row in rows:
        p = row.prevalence
        cells = [row.generator, row.critic or "–", row.judge, f"{p.summaries} ({p.claims})"]
        cells += [_interval(p.per_summary), _interval(p.per_summary_adjusted)]
        cells += [_interval(p.share, percent=True), _interval(p.share_adjusted, percent=True)]
        lines.append([visible(cell) for cell in cells])
    head = [
        "Summary",
        "Critique",
        "Judge",
        "Summaries (claims)",
        "Hallucinations each",
        "adjusted",
        "With any",
        "adjusted",
    ]
    unjudged = max((row.prevalence.unjudged for row in rows if row.judge != MEAN), default=0)
    foot = f"up to {unjudged} summaries could not be judged and do not count" if unjudged else ""
    return Table("", head, lines, foot)


def _interval(measured: Measured | None, *, percent: bool = False) -> str:
    if measured is None or measured.value is None:
        return "–"
    scale, digits, unit = (100, 1, " %") if percent else (1, 2, "")
    value = f"{scale * measured.value:.{digits}f}{unit}"
    if measured.low is None or measured.high is None:
        return value
    return f"{value} ({scale * measured.low:.{digits}f}–{scale * measured.high:.{digits}f})"
