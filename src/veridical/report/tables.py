"""Represent tables as plain data. To print them in a terminal, use `report.terminal_tables`."""

from __future__ import annotations

from dataclasses import dataclass

from veridical.metrics.measure import Measured


@dataclass(frozen=True, slots=True)
class Table:
    """A table as plain text cells, which can be printed in a terminal or rendered as HTML.

    Attributes:
        title: The title.
        head: The names of the columns.
        lines: The rows, each with one cell per column.
        foot: The footnote.
    """

    title: str
    head: list[str]
    lines: list[list[str]]
    foot: str


def narrow(table: Table) -> Table:
    """Reshape a table of results for a narrow terminal, with one line per detector, group and metric.

    The table must have a column "not judged", after which the metrics follow. Empty cells ("–") are omitted.
    """
    first = table.head.index("not judged") + 1
    keys = [i for i, name in enumerate(table.head[:first]) if name in ("detector", "group")]
    lines = [
        [*(line[i] for i in keys), name, line[first + column]]
        for line in table.lines
        for column, name in enumerate(table.head[first:])
        if line[first + column] != "–"
    ]
    return Table(table.title, [*(table.head[i] for i in keys), "metric", "figure"], lines, table.foot)


def cell(measured: Measured | None) -> str:
    """Format a value and its interval as `0.459 [0.441, 0.478]`, or as a dash if there is no value.

    Without an interval, only the value is written.
    """
    if measured is None or measured.value is None:
        return "–"
    if measured.low is None or measured.high is None:
        return f"{measured.value:.3f}"
    return f"{measured.value:.3f} [{measured.low:.3f}, {measured.high:.3f}]"
