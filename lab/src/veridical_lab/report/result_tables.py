"""Show result rows, comparisons and published figures as tables.

Usually there is one table for each data set, with a line for each detector or pair of detectors. `mean_tables` shows
means over data sets. `metric_tables` makes one table for each metric, with a line for each data set and a column for
each detector.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from csv import writer
from io import StringIO
from math import sqrt

from veridical.metrics.measure import Measured
from veridical.report.tables import Table, cell
from veridical_lab.bench.compare import DetectorComparison
from veridical_lab.bench.published import Published
from veridical_lab.bench.results import ResultRow
from veridical_lab.metrics.registry import METRICS
from veridical_lab.report.table_formats import or_dash
from veridical_lab.training.token_benchmark import TABLE_METRICS


def result_csv(rows: Iterable[ResultRow], metrics: Sequence[str] | None = None) -> str:
    """Write result rows as CSV, with one line for each figure. An undefined figure is empty.

    Use `metrics` to choose metrics. Default: all of them.
    """
    text = StringIO()
    lines = writer(text, lineterminator="\n")
    about = ["data", "split", "foreign", "group", "detector", "n", "not_judged"]
    lines.writerow([*about, "metric", "value", "low", "high"])
    for row in rows:
        values = [getattr(row, name) for name in about]
        for name, measured in row.metrics.items():
            if metrics is None or name in metrics:
                lines.writerow([*values, name, measured.value, measured.low, measured.high])
    return text.getvalue()


MAIN = (
    *("roc_auc", "pair_accuracy", "false_alarms", "recall", "balanced_accuracy", "ece", "word_roc_auc", "token_f1"),
    *("coverage_roc_auc", "omission_f1", "source_word_roc_auc"),
)
SHOWN = 5
_NOTE = re.compile(r"; (?=\w+: not fitted)")  # between the notes in `threshold_from`


def by_data(rows: Iterable[ResultRow]) -> list[list[ResultRow]]:
    """Group rows by data set, split and version of the data, in order."""
    groups: dict[tuple[str, str, str], list[ResultRow]] = {}
    for row in rows:
        groups.setdefault((row.data, row.split, row.data_hash), []).append(row)
    return list(groups.values())


def result_tables(rows: Iterable[ResultRow], metrics: Sequence[str] | None = None) -> list[Table]:
    """Make one table for each data set, split and version of the data, in the order of the rows.

    Use `metrics` to choose and order the columns, or "all" to show every metric that a row has. By default, all metrics
    are shown if there are at most five, and otherwise the first five of `MAIN`.
    """
    tables = []
    for group in by_data(rows):
        first = group[0]
        names, hidden = _columns(group, metrics)
        grouped = any(row.group for row in group)
        # the number of labelled cases; metrics of a group of one class may count cases of other groups, too
        counted = [max((m.n for m in row.metrics.values() if m.n <= row.n), default=row.n) for row in group]
        shared = {name: n for name in names if (n := _shared_count(group, name, min(counted)))}
        lines = []
        for row, count in zip(group, counted, strict=True):
            cells = [_cell_with_count(row.metrics.get(name), count if name not in shared else 0) for name in names]
            labelled = str(row.n) if count == row.n else f"{count} of {row.n}"
            of_group = [row.group or "all"] if grouped else []
            lines.append([row.detector, *of_group, labelled, str(row.not_judged), *cells])
        skipped = f"; {first.skipped} rows skipped" if first.skipped else ""
        dates = ", ".join(sorted({row.date for row in group}))
        foot = (
            f"{first.level:.0%} intervals by bootstrap over {first.documents} documents ({first.resamples} samples, "
            f"seed {first.seed}); data {first.data_hash[:12]}{skipped}; {dates}"
            f"{_usage(group)}{_not_fitted(group, names)}{hidden}"
        )
        heads = [f"{name} (n={shared[name]})" if name in shared else name for name in names]
        head = ["detector", *(["group"] if grouped else []), "n", "not judged", *heads]
        tables.append(Table(_title(first.data, first.split), head, lines, foot))
    return tables


def _shared_count(rows: Sequence[ResultRow], name: str, least: int) -> int | None:
    """Return how many cases the metric `name` covers, if the number is the same in all rows and below `least`."""
    numbers = {m.n for row in rows if (m := row.metrics.get(name)) is not None and m.value is not None}
    return numbers.pop() if len(numbers) == 1 and max(numbers) < least else None


def _cell_with_count(measured: Measured | None, usual: int) -> str:
    """Write the cell of a figure, with the number of cases if it is below the `usual` number of the line.

    >>> _cell_with_count(Measured(0.6, 0.5, 0.7, 80), 100)
    '0.600 [0.500, 0.700] (n=80)'
    """
    text = cell(measured)
    return f"{text} (n={measured.n})" if measured and measured.value is not None and 0 < measured.n < usual else text


def _columns(rows: Sequence[ResultRow], metrics: Sequence[str] | None) -> tuple[list[str], str]:
    """Choose the metrics that a table of `rows` shows, and write a note on those that are hidden."""
    present = list(dict.fromkeys(name for row in rows for name in row.metrics))
    if metrics and list(metrics) != ["all"]:
        return [name for name in metrics if name in present], ""
    if metrics or len(present) <= SHOWN:
        return present, ""
    names = [name for name in MAIN if name in present][:SHOWN]
    return names, f"; {len(present) - len(names)} more metrics: --all"


def mean_tables(rows: Iterable[ResultRow], metrics: Sequence[str] | None = None) -> list[Table]:
    """Make tables of unweighted means over data sets.

    There is a table for each number of foreign passages, with a line for each detector. A mean is over the data sets on
    which every detector with this metric has a value. If some data sets are left out, the head of the column says how
    many were used. The interval of a mean treats the data sets as independent (Zou and Donner 2008). If there is only
    one data set, there is no table.
    """
    whole = [row for row in rows if row.group is None]
    tables = []
    for foreign in sorted({row.foreign for row in whole}):
        of_kind = [row for row in whole if row.foreign == foreign]
        sets = [{row.detector: row for row in group} for group in by_data(of_kind)]
        if len(sets) < 2:
            continue
        names, hidden = _columns(of_kind, metrics)
        detectors = list(dict.fromkeys(row.detector for row in of_kind))
        columns: list[tuple[str, dict[str, str]]] = []
        for name in names:
            with_it = {row.detector for row in of_kind if name in row.metrics}
            measured = [
                {d: each[d].metrics[name] for d in with_it if d in each and name in each[d].metrics} for each in sets
            ]
            usable = [
                each for each in measured if each.keys() == with_it and all(m.value is not None for m in each.values())
            ]
            if usable:
                head = name if len(usable) == len(sets) else f"{name} ({len(usable)} of {len(sets)})"
                columns.append(
                    (head, {detector: cell(_mean([each[detector] for each in usable])) for detector in with_it})
                )
        lines = []
        for detector in detectors:
            of_detector = [each[detector] for each in sets if detector in each]
            counts = [str(sum(row.n for row in of_detector)), str(sum(row.not_judged for row in of_detector))]
            lines.append([detector, *counts, *(cells.get(detector, "–") for _, cells in columns)])
        title = f"mean of {len(sets)} data sets" + (f", among {foreign} foreign passages" if foreign else "")
        foot = f"unweighted; intervals from those of the sets (Zou and Donner 2008){hidden}"
        tables.append(Table(title, ["detector", "n", "not judged", *(head for head, _ in columns)], lines, foot))
    return tables


def _mean(measured: Sequence[Measured]) -> Measured:
    """Average independent values, with an interval if each value has one.

    >>> _mean([Measured(0.6, 0.5, 0.7, 10), Measured(0.8, 0.7, 0.9, 20)]).value
    0.7
    """
    values = [(m.value, m.low, m.high) for m in measured if m.value is not None]
    mean = sum(value for value, _, _ in values) / len(values)
    below = [value - low for value, low, _ in values if low is not None]
    above = [high - value for value, _, high in values if high is not None]
    n = sum(m.n for m in measured)
    if len(below) < len(values) or len(above) < len(values):
        return Measured(mean, n=n)
    low, high = (sqrt(sum(gap**2 for gap in gaps)) / len(values) for gaps in (below, above))
    return Measured(mean, mean - low, mean + high, n)


def metric_tables(rows: Iterable[ResultRow], metrics: Sequence[str]) -> list[Table]:
    """Make a table for each of `metrics` that a row has, with a line for each data set and a column for each detector.

    Data sets and detectors keep the order of the rows.
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
    """Make tables like Tables 2 and 3 of Liu et al. 2022, one for each setting, in percent ± half a 95 % interval."""
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
    """Write a value in percent, such as `62.3±2.1`, or a dash if there is no value.

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
    """Write calls, tokens and cost of each detector that asks a language model."""
    parts = []
    for row in rows:
        if row.usage is not None and row.group is None:
            cost = "" if row.usage.cost is None else f", cost {row.usage.cost:.4f}"
            tokens = f"{row.usage.prompt_tokens} + {row.usage.completion_tokens} tokens"
            parts.append(f"; {row.detector}: {row.usage.calls} calls, {tokens}{cost}")
    return "".join(parts)


def _not_fitted(rows: Sequence[ResultRow], metrics: Sequence[str]) -> str:
    """Write for each detector which thresholds that `metrics` need could not be fitted, and why."""
    levels = {METRICS[name].level for name in metrics if name in METRICS}
    notes = {
        (row.detector, note): None
        for row in rows
        for note in _NOTE.split(row.threshold_from)[1:]
        if note.partition(":")[0] in levels
    }
    return "".join(f"; {detector}: threshold of {note}" for detector, note in notes)


def comparison_table(comparisons: Sequence[DetectorComparison]) -> Table:
    """Make a table of the comparisons on one data set."""
    intervals = any(c.difference is not None for c in comparisons)  # older files have none
    lines = [
        [
            *(c.metric, c.a, or_dash(c.value_a, ".3f"), c.b, or_dash(c.value_b, ".3f")),
            *([cell(Measured(c.difference, c.low, c.high))] if intervals else ()),
            *(_p(c.p), _p(c.p_bonferroni), str(c.n)),
        ]
        for c in comparisons
    ]
    first = comparisons[0]
    tests = "; ".join(dict.fromkeys(f"{c.metric}: {c.test}" for c in comparisons))
    head = ["metric", "a", "value", "b", "value", *(["b - a"] if intervals else ()), "p", "p (Bonferroni)", "n"]
    return Table(_title(first.data, first.split), head, lines, f"{tests}; data {first.data_hash[:12]}")


def _p(p: float | None) -> str:
    return "–" if p is None else f"{p:.4f}" if p >= 0.0001 else f"{p:.1e}"


def published_tables(paper: Published, names: Sequence[str] | None = None) -> list[Table]:
    """Make the tables that a paper prints, marked as the paper's own figures. Use `names` to choose some of them."""

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
