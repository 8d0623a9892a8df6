"""Show what went wrong in the cases of a run, as tables for people."""

from __future__ import annotations

from veridical.report.rate import percent
from veridical.report.tables import Table
from veridical.workflows.causes.summary import CauseReport

_SAYS = {
    "retriever": "the passages lack the answer",
    "documents": "passages contradict each other",
    "prompt": "the answer is there and was not given",
    "model": "the passages say otherwise, or nothing",
    "nothing": "supported answers",
    "unknown": "not judged",
}


def cause_tables(report: CauseReport) -> list[Table]:
    """Make two tables that count the cases of a run: by the part of the system to fix, and by the cause of failure."""
    mend = [[each.mend, _SAYS[each.mend], f"{each.cases:,}", percent(each.share)] for each in report.to_mend]
    causes = [[str(each.causes[0].value), each.mend, f"{each.cases:,}", percent(each.share)] for each in report.causes]
    foot = f"{report.cases:,} cases, with {report.level:.0%} intervals (Wilson); cases count as independent."
    if report.failed:
        foot += f" {report.failed:,} rows could not be read or judged and are not counted."
    return [
        Table("What to mend", ["mend", "because", "n", "share"], mend, foot),
        Table("Causes", ["cause", "mend", "n", "share"], causes, "docs/causes.md shows how often each cause is right."),
    ]
