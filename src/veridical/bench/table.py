"""Result rows as tables: one a data set, a line a detector (and group), a column a metric with its interval."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from veridical.bench.results import Figure, Row

__all__ = ["FORMATS", "Table", "by_data", "cell", "latex", "markdown", "narrow", "tables"]


@dataclass(frozen=True, slots=True)
class Table:
    """A title, column heads, lines of cells, and what must be known to read them."""

    title: str
    head: list[str]
    lines: list[list[str]]
    foot: str


def by_data(rows: Iterable[Row]) -> list[list[Row]]:
    """The rows of each data set, split and version of the data together, in their order."""
    found: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        found.setdefault((row.data, row.split, row.data_hash), []).append(row)
    return list(found.values())


def tables(rows: Iterable[Row], metrics: Sequence[str] | None = None) -> list[Table]:
    """One table for each data set, split and version of the data, in the rows' order.

    `metrics` chooses and orders the columns; without it all that any row has, in their order.
    """
    return [_table(found, metrics) for found in by_data(rows)]


def _table(rows: list[Row], metrics: Sequence[str] | None) -> Table:
    first = rows[0]
    present = list(dict.fromkeys(name for row in rows for name in row.metrics))
    names = [name for name in metrics if name in present] if metrics else present
    grouped = any(row.group for row in rows)
    head = ["detector", *(["group"] if grouped else []), "n", "not judged", *names]
    lines = [
        [
            row.detector,
            *([row.group or "all"] if grouped else []),
            _counted(row),
            str(row.not_judged),
            *(cell(row.metrics.get(name)) for name in names),
        ]
        for row in rows
    ]
    title = first.data if first.split == "all" else f"{first.data}, {first.split}"
    skipped = f"; {first.skipped} rows skipped" if first.skipped else ""
    dates = ", ".join(sorted({row.date for row in rows}))
    foot = (
        f"{first.level:.0%} intervals by bootstrap over {first.documents} documents ({first.resamples} samples, seed "
        f"{first.seed}); data {first.data_hash[:12]}{skipped}; {dates}{_asked(rows)}"
    )
    return Table(title, head, lines, foot)


def _asked(rows: Sequence[Row]) -> str:
    """What language models were asked, and what that cost, for each detector that asks one."""
    parts = []
    for row in rows:
        if row.usage is not None and row.group is None:
            used = row.usage
            cost = "" if used.cost is None else f", cost {used.cost:.4f}"
            said = f"{used.calls} calls, {used.prompt_tokens} + {used.completion_tokens} tokens{cost}"
            parts.append(f"; {row.detector}: {said}")
    return "".join(parts)


def _counted(row: Row) -> str:
    """How many cases count: those that the data label, of all."""
    counted = max((figure.n for figure in row.metrics.values()), default=row.n)
    return str(row.n) if counted == row.n else f"{counted} of {row.n}"


def narrow(table: Table) -> Table:
    """The same figures with a line each: detector (and group), metric, figure."""
    first = table.head.index("not judged") + 1
    keys = [i for i, name in enumerate(table.head[:first]) if name in ("detector", "group")]
    lines = [
        [*(line[i] for i in keys), name, line[first + column]]
        for line in table.lines
        for column, name in enumerate(table.head[first:])
        if line[first + column] != "–"
    ]
    return Table(table.title, [*(table.head[i] for i in keys), "metric", "figure"], lines, table.foot)


def cell(figure: Figure | None) -> str:
    """`0.459 [0.441, 0.478]`; a dash where the metric does not apply, "undefined" where it has no value."""
    if figure is None:
        return "–"
    if figure.value is None:
        return "undefined"
    if figure.low is None or figure.high is None:
        return f"{figure.value:.3f}"
    return f"{figure.value:.3f} [{figure.low:.3f}, {figure.high:.3f}]"


def markdown(found: Sequence[Table]) -> str:
    """The tables as Markdown."""
    parts = []
    for table in found:
        align = ["---"] + ["---:" if name in ("n", "not judged") else "---" for name in table.head[1:]]
        body = "\n".join("| " + " | ".join(c.replace("|", "\\|") for c in line) + " |" for line in table.lines)
        head = "| " + " | ".join(table.head) + " |\n|" + "|".join(align) + "|"
        parts.append(f"**{table.title}**\n\n{head}\n{body}\n\n{table.foot}")
    return "\n\n".join(parts)


_LATEX = str.maketrans(
    {c: f"\\{c}" for c in "&%$#_{}"} | {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "–": "--"}
)


def latex(found: Sequence[Table]) -> str:
    """The tables as LaTeX (booktabs)."""
    parts = []
    for table in found:
        lines = [" & ".join(c.translate(_LATEX) for c in line) + r" \\" for line in [table.head, *table.lines]]
        columns = "l" * len(table.head)
        parts.append(
            "\n".join(
                [
                    r"\begin{table}",
                    rf"\caption{{{table.title.translate(_LATEX)}. {table.foot.translate(_LATEX)}.}}",
                    rf"\begin{{tabular}}{{{columns}}}",
                    r"\toprule",
                    lines[0],
                    r"\midrule",
                    *lines[1:],
                    r"\bottomrule",
                    r"\end{tabular}",
                    r"\end{table}",
                ]
            )
        )
    return "\n\n".join(parts)


FORMATS = {"markdown": markdown, "latex": latex}
