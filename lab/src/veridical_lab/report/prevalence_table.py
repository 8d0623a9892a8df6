"""Show a study of cited summaries as tables, one for each generator."""

from __future__ import annotations

from collections.abc import Sequence

from veridical.metrics.measure import Measured
from veridical.records.strings import visible
from veridical.report.tables import Table
from veridical_lab.tasks.papers import MEAN, StudyRow


def prevalence_tables(rows: Sequence[StudyRow]) -> list[Table]:
    """Make tables of hallucinations per summary, and of the proportion of summaries with any, with 95 % intervals.

    A table has a line for each critic and judge, and then the means. If there was an audit, more columns have the
    figures adjusted by the audit.
    """
    tables = []
    for generator in dict.fromkeys(row.generator for row in rows):
        of_generator = [row for row in rows if row.generator == generator]
        audited = any(row.prevalence.per_summary_adjusted is not None for row in of_generator)
        lines = []
        for row in of_generator:
            p = row.prevalence
            each, share = [_interval(p.per_summary)], [_interval(p.share, percent=True)]
            if audited:
                each.append(_interval(p.per_summary_adjusted))
                share.append(_interval(p.share_adjusted, percent=True))
            cells = [row.critic or "–", row.judge, f"{p.summaries} ({p.claims})", *each, *share]
            lines.append([visible(cell) for cell in cells])
        adjusted = ["adjusted"] * audited
        head = ["Revised by", "Counted by", "Summaries (claims)", "Per summary", *adjusted, "With any", *adjusted]
        unjudged = max((row.prevalence.unjudged for row in of_generator if row.judge != MEAN), default=0)
        foot = f"up to {unjudged} summaries could not be judged and do not count" if unjudged else ""
        tables.append(Table(f"Hallucinations in summaries by {visible(generator)}", head, lines, foot))
    return tables


def _interval(measured: Measured | None, *, percent: bool = False) -> str:
    if measured is None or measured.value is None:
        return "–"
    scale, digits, unit = (100, 1, " %") if percent else (1, 2, "")
    value = f"{scale * measured.value:.{digits}f}{unit}"
    if measured.low is None or measured.high is None:
        return value
    return f"{value} ({scale * measured.low:.{digits}f}–{scale * measured.high:.{digits}f})"
