"""The table of a study: intervals, missing values, and what could not be judged."""

from __future__ import annotations

from veridical.metrics.measure import Measured
from veridical.report.prevalence_table import prevalence_table
from veridical.tasks.papers import StudyRow
from veridical.tasks.prevalence import Prevalence


def test_intervals_and_what_is_missing() -> None:
    judged = Prevalence(3, 9, Measured(1.5, 1.0, 2.0), Measured(0.25, 0.125, 0.5))
    unknown = Prevalence(0, 0, None, None, unjudged=2)
    table = prevalence_table([StudyRow("a\x1b[2J", None, "j", judged), StudyRow("a", "c", "j", unknown)])
    assert table.lines[0] == ["a␛[2J", "–", "j", "3 (9)", "1.50 (1.00–2.00)", "–", "25.0 % (12.5–50.0)", "–"]
    assert table.lines[1] == ["a", "c", "j", "0 (0)", "–", "–", "–", "–"]
    assert table.foot == "up to 2 summaries could not be judged and do not count"
    assert prevalence_table([StudyRow("a", None, "j", judged)]).foot == ""
