"""Show how often the answers of a run are wrong, as tables for people and for Prometheus' textfile collector."""

from __future__ import annotations

from veridical.metrics.measure import Measured
from veridical.report.tables import Table
from veridical.workflows.rate.estimate import RateReport


def percent(measured: Measured | None) -> str:
    """Format a proportion and its interval as "12 % (8 to 17)", or as "unknown" if there are no labels.

    >>> percent(Measured(0.12, 0.081, 0.17, 100)), percent(None)
    ('12 % (8 to 17)', 'unknown')
    """
    if measured is None or measured.value is None or measured.low is None or measured.high is None:
        return "unknown"
    digits = 0 if measured.high - measured.low >= 0.02 else 1
    value, low, high = (f"{100 * share:.{digits}f}" for share in (measured.value, measured.low, measured.high))
    return f"{value} % ({low} to {high})"


def rate_tables(report: RateReport) -> list[Table]:
    """Make tables that show how often answers are wrong, in the whole run and in its groups."""
    clear = report.rows - report.flagged - report.unjudged - report.no_claim
    lines = [["all answers", f"{report.rows:,}", str(report.labels), percent(report.wrong)]]
    for name, rows, measured in (
        ("flagged", report.flagged, report.flagged_wrong),
        ("clear", clear, report.clear_wrong),
    ):
        if measured is not None:
            lines.append([name, f"{rows:,}", str(measured.n), percent(measured)])
    skipped = "".join(f"; {count} left out: {reason}" for reason, count in report.skipped.items())
    raw = f"The detector flags {100 * report.flagged / report.rows:.3g} %"
    failed = f"; {report.failed:,} rows could not be read or judged and are not counted" if report.failed else ""
    foot = f"{raw}. Intervals of {100 * report.level:g} %{skipped}{failed}."
    tables = [Table("Wrong answers", ["answers", "n", "labels", "wrong"], lines, foot)]
    for column in dict.fromkeys(group.column for group in report.groups):
        body = [
            [
                *(g.group, f"{g.rows:,}", str(g.labels), f"{100 * g.flagged / g.rows:.3g} %", percent(g.wrong)),
                "too few labels" if g.p is None else f"{g.change or 'noise'} (p = {g.p:.2g})",
            ]
            for g in report.groups
            if g.column == column
        ]
        foot = "The last column compares each group with all other answers; p is corrected for the number of groups."
        head = [column, "n", "labels", "flagged", "wrong", "against the others"]
        tables.append(Table(f"By {column}", head, body, foot))
    return tables


def prometheus_text(report: RateReport, alarm: bool | None) -> str:
    """Write the rates as metrics in Prometheus' text format, for the textfile collector of the node exporter.

    Args:
        report: The estimated rates.
        alarm: Whether the rate of wrong answers is over the limit. None if no limit was given.
    """
    labels = f'run="{_escaped(report.run)}"'
    shares = [(labels, report.wrong)] + [
        (f'{labels},column="{_escaped(g.column)}",group="{_escaped(g.group)}"', g.wrong)
        for g in report.groups
        if g.wrong
    ]
    lines: list[str] = []

    def gauge(name: str, about: str, values: list[tuple[str, float]]) -> None:
        lines.extend([f"# HELP veridical_{name} {about}", f"# TYPE veridical_{name} gauge"])
        lines.extend(f"veridical_{name}{{{of}}} {value:.6g}" for of, value in values)

    bounds = [("value", "estimate"), ("low", "lower"), ("high", "upper")]
    values = [(f'{of},bound="{bound}"', getattr(share, name)) for of, share in shares for name, bound in bounds]
    gauge("wrong_share", "Share of wrong answers, estimated from labels, with its interval.", values)
    gauge("flagged_share", "Share of answers that the detector flags.", [(labels, report.flagged / report.rows)])
    gauge("labels", "Labelled answers.", [(labels, report.labels)])
    if alarm is not None:
        gauge("wrong_share_alarm", "1 if the proportion of wrong answers is over the limit.", [(labels, float(alarm))])
    return "\n".join(lines) + "\n"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
