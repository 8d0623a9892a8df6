"""Hold tables as plain data, and write them as Markdown and LaTeX.

`report.terminal_tables` prints them in a terminal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from veridical.metrics.measure import Measured

__all__ = ["FORMATS", "Table", "cell", "latex", "markdown", "narrow"]


@dataclass(frozen=True, slots=True)
class Table:
    """A title, column heads, lines of cells, and a footnote for readers."""

    title: str
    head: list[str]
    lines: list[list[str]]
    foot: str


def narrow(table: Table) -> Table:
    """Return a result table with one line per figure: the detector (and group), the metric, and the figure."""
    first = table.head.index("not judged") + 1
    keys = [i for i, name in enumerate(table.head[:first]) if name in ("detector", "group")]
    lines = [
        [*(line[i] for i in keys), name, line[first + column]]
        for line in table.lines
        for column, name in enumerate(table.head[first:])
        if line[first + column] != "–"
    ]
    return Table(table.title, [*(table.head[i] for i in keys), "metric", "figure"], lines, table.foot)


def markdown(tables: Sequence[Table]) -> str:
    """Return the tables as Markdown."""
    parts = []
    for table in tables:
        align = ["---"] + ["---:" if name in ("n", "not judged") else "---" for name in table.head[1:]]
        body = "\n".join("| " + " | ".join(c.replace("|", "\\|") for c in line) + " |" for line in table.lines)
        head = "| " + " | ".join(table.head) + " |\n|" + "|".join(align) + "|"
        parts.append(f"**{table.title}**\n\n{head}\n{body}\n\n{table.foot}")
    return "\n\n".join(parts)


_LATEX = str.maketrans(
    {c: f"\\{c}" for c in "&%$#_{}"} | {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "–": "--"}
)


def latex(tables: Sequence[Table]) -> str:
    """Return the tables as LaTeX (packages booktabs and graphicx). A table that is too wide for the line is scaled."""
    parts = []
    for table in tables:
        head, *lines = [" & ".join(c.translate(_LATEX) for c in line) + r" \\" for line in [table.head, *table.lines]]
        parts.append(
            "\n".join(
                [
                    r"\begin{table}",
                    rf"\caption{{{table.title.translate(_LATEX)}. {table.foot.translate(_LATEX)}.}}",
                    r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
                    rf"\begin{{tabular}}{{{'l' * len(table.head)}}}",
                    r"\toprule",
                    head,
                    r"\midrule",
                    *lines,
                    r"\bottomrule",
                    r"\end{tabular}}",
                    r"\end{table}",
                ]
            )
        )
    return "\n\n".join(parts)


FORMATS = {"markdown": markdown, "latex": latex}


def cell(measured: Measured | None) -> str:
    """Format a figure as `0.459 [0.441, 0.478]`, or as a dash if the metric does not apply or has no value."""
    if measured is None or measured.value is None:
        return "–"
    if measured.low is None or measured.high is None:
        return f"{measured.value:.3f}"
    return f"{measured.value:.3f} [{measured.low:.3f}, {measured.high:.3f}]"
