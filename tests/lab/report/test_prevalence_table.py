"""The tables of a study: intervals, missing values, what an audit adjusts, and what could not be judged."""

from dataclasses import replace

from veridical.metrics.measure import Measured
from veridical_lab.report.prevalence_table import prevalence_tables
from veridical_lab.tasks.papers import StudyRow
from veridical_lab.tasks.prevalence import Prevalence

JUDGED = Prevalence(3, 9, Measured(1.5, 1.0, 2.0), Measured(0.25, 0.125, 0.5))


def test_intervals_and_what_is_missing() -> None:
    unknown = Prevalence(0, 0, None, None, unjudged=2)
    table, other = prevalence_tables(
        [
            StudyRow("a\x1b[2J", None, "j", JUDGED),
            StudyRow("a\x1b[2J", "c", "j", unknown),
            StudyRow("b", None, "j", JUDGED),
        ]
    )
    assert table.title == "Hallucinations in summaries by a␛[2J"
    assert table.lines[0] == ["–", "j", "3 (9)", "1.50 (1.00–2.00)", "25.0 % (12.5–50.0)"]
    assert table.lines[1] == ["c", "j", "0 (0)", "–", "–"]
    assert table.foot == "up to 2 summaries could not be judged and do not count"
    assert (len(other.lines), other.foot) == (1, "")


def test_adjusted_figures_have_columns_where_there_was_an_audit() -> None:
    audited = replace(JUDGED, per_summary_adjusted=Measured(1.0), share_adjusted=Measured(0.2))
    (table,) = prevalence_tables([StudyRow("a", None, "j", audited), StudyRow("a", "c", "mean", JUDGED)])
    assert table.head.count("adjusted") == 2
    assert table.lines[0][3:] == ["1.50 (1.00–2.00)", "1.00", "25.0 % (12.5–50.0)", "20.0 %"]
    assert table.lines[1][3:] == ["1.50 (1.00–2.00)", "–", "25.0 % (12.5–50.0)", "–"]
