"""Result rows, comparisons and published figures as tables: one table per data set, one line per detector or pair.

`metric_tables` turns that round: one table per metric, one line per data set, one column per detector.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from veridical.bench.compare import Comparison
from veridical.bench.published import Published
from veridical.bench.results import ResultRow
from veridical.metrics.measure import Measured
from veridical.report.tables import Table
from veridical.training.token_benchmark import TABLE_METRICS

__all__ = [
    "by_data",
    "cell",
    "comparison_table",
    "metric_tables",
    "phrase_tables",
    "published_tables",
    "result_tables",
]


def by_data(rows: Iterable[ResultRow]) -> list[list[ResultRow]]:
    """The rows of each data set, split and version of the data together, in their order."""
    groups: dict[tuple[str, str, str], list[ResultRow]] = {}
    for row in rows:
        groups.setdefault((row.data, row.split, row.data_hash), []).append(row)
    return list(groups.values())


def result_tables(rows: Iterable[ResultRow], metrics: Sequence[str] | None = None) -> list[Table]:
    """One table for each data set, split and version of the data, in the rows' order.

    `metrics` chooses and orders the columns; without it all that any row has, in their order.
    """
    tables = []
    for group in by_data(rows):
        first = group[0]
        present = list(dict.fromkeys(name for row in group for name in row.metrics))
        names = [name for name in metrics if name in present] if metrics else present
        grouped = any(row.group for row in group)
        lines = []
        for row in group:
            counted = max((measured.n for measured in row.metrics.values()), default=row.n)  # cases that the data label
            lines.append(
                [
                    row.detector,
                    *([row.group or "all"] if grouped else []),
                    str(row.n) if counted == row.n else f"{counted} of {row.n}",
                    str(row.not_judged),
                    *(cell(row.metrics.get(name)) for name in names),
                ]
            )
        skipped = f"; {first.skipped} rows skipped" if first.skipped else ""
        dates = ", ".join(sorted({row.date for row in group}))
        foot = (
            f"{first.level:.0%} intervals by bootstrap over {first.documents} documents ({first.resamples} samples, "
            f"seed {first.seed}); data {first.data_hash[:12]}{skipped}; {dates}{_usage(group)}"
        )
        head = ["detector", *(["group"] if grouped else []), "n", "not judged", *names]
        tables.append(Table(_title(first.data, first.split), head, lines, foot))
    return tables


def metric_tables(rows: Iterable[ResultRow], metrics: Sequence[str]) -> list[Table]:
    """One table for each of `metrics` that a row has: a line for each data set, a column for each detector.

    Data sets and detectors keep the rows' order.
    """
    sets = by_data(rows)
    detectors = list(dict.fromkeys(row.detector for group in sets for row in group))
    tables = []
    for name in metrics:
        lines = []
        for group in sets:
            measured = {row.detector: row.metrics[name] for row in group if name in row.metrics}
            if measured:
                first = group[0]
                title = f"{_title(first.data, first.split)} ({first.data_hash[:12]})"
                n = max(each.n for each in measured.values())
                lines.append([title, str(n), *(cell(measured.get(detector)) for detector in detectors)])
        if lines:
            foot = f"{sets[0][0].level:.0%} intervals by bootstrap over documents"
            tables.append(Table(name, ["set", "n", *detectors], lines, foot))
    return tables


def phrase_tables(rows: Iterable[ResultRow]) -> list[Table]:
    """The columns of Liu et al. 2022, Tables 2 and 3, one table per setting: percent, with half a 95 % interval."""
    tables = []
    groups: dict[str, list[ResultRow]] = {}
    for row in rows:
        groups.setdefault(row.group or "", []).append(row)
    for group, of_group in groups.items():
        first = of_group[0]
        lines = [
            [row.detector, str(row.n), str(row.not_judged), *(percent(row.metrics.get(name)) for name in TABLE_METRICS)]
            for row in of_group
        ]
        foot = (
            f"percent ± half the {first.level:.0%} interval (bootstrap over {first.documents} texts); BSS is the Brier "
            f"score, lower is better; threshold: {first.threshold_from}; data {first.data_hash[:12]}, {first.date}"
        )
        title = f"{_title(first.data, first.split)}, {group.removeprefix('setting=')}"
        tables.append(Table(title, ["detector", "n", "not judged", *TABLE_METRICS.values()], lines, foot))
    return tables


def percent(measured: Measured | None) -> str:
    """`62.3±2.1`; a dash where there is no value.

    >>> percent(Measured(0.623, 0.602, 0.644))
    '62.3±2.1'
    """
    if measured is None or measured.value is None:
        return "–"
    half = "" if measured.low is None or measured.high is None else f"±{50 * (measured.high - measured.low):.1f}"
    return f"{100 * measured.value:.1f}{half}"


def _title(data: str, split: str) -> str:
    return data if split == "all" else f"{data}, {split}"


def _usage(rows: Sequence[ResultRow]) -> str:
    """What language models were asked, and what that cost, for each detector that asks one."""
    parts = []
    for row in rows:
        if row.usage is not None and row.group is None:
            cost = "" if row.usage.cost is None else f", cost {row.usage.cost:.4f}"
            tokens = f"{row.usage.prompt_tokens} + {row.usage.completion_tokens} tokens"
            parts.append(f"; {row.detector}: {row.usage.calls} calls, {tokens}{cost}")
    return "".join(parts)


def cell(measured: Measured | None) -> str:
    """`0.459 [0.441, 0.478]`; a dash where the metric does not apply, "undefined" where it has no value."""
    if measured is None:
        return "–"
    if measured.value is None:
        return "undefined"
    if measured.low is None or measured.high is None:
        return f"{measured.value:.3f}"
    return f"{measured.value:.3f} [{measured.low:.3f}, {measured.high:.3f}]"


def comparison_table(comparisons: Sequence[Comparison]) -> Table:
    """The comparisons on one data set as a table."""
    intervals = any(c.difference is not None for c in comparisons)  # files of before have none
    lines = [
        [
            *(c.metric, c.a, _value(c.value_a), c.b, _value(c.value_b)),
            *([cell(Measured(c.difference, c.low, c.high))] if intervals else ()),
            *(_p(c.p), _p(c.p_bonferroni), str(c.n)),
        ]
        for c in comparisons
    ]
    first = comparisons[0]
    tests = "; ".join(dict.fromkeys(f"{c.metric}: {c.test}" for c in comparisons))
    head = ["metric", "a", "value", "b", "value", *(["b - a"] if intervals else ()), "p", "p (Bonferroni)", "n"]
    return Table(_title(first.data, first.split), head, lines, f"{tests}; data {first.data_hash[:12]}")


def _value(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.3f}"


def _p(p: float | None) -> str:
    return "undefined" if p is None else f"{p:.4f}" if p >= 0.0001 else f"{p:.1e}"


def published_tables(paper: Published, names: Sequence[str] | None = None) -> list[Table]:
    """The tables that a paper prints (only those called `names`), marked as the paper's own figures."""

    def printed(value: float | None) -> str:
        return "–" if value is None else f"{value:.2f}" if value == round(value, 2) else f"{value:.3f}"

    return [
        Table(
            f"the paper's {table.name}: {table.metric}, {table.about}",
            ["theirs", *table.columns],
            [[name, *map(printed, values)] for name, values in table.rows.items()],
            f"not measured here; {paper.model}",
        )
        for table in paper.tables
        if names is None or table.name in names
    ]
