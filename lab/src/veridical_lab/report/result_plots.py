"""Plot result rows as SVG: data sets side by side, ROC and reliability curves, and groups as bars or by context.

This needs the extra `plots`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import inf

from veridical.metrics.measure import Measured
from veridical_lab.bench.results import ResultRow
from veridical_lab.report.plots import COLOURS, INK, as_svg, colour_of, new_axes, style_of
from veridical_lab.report.result_tables import by_data

_FOLDERS = re.compile(r"(?<![^:=,])[^:=,]*/")
_SETTING = re.compile(r"setting=(offline|online)(?:@(\d+))?")
_MARKERS = "osD^vP"


def by_set(rows: Sequence[ResultRow], metric: str) -> str | None:
    """Plot one metric on each data set, with a point and an interval for each detector.

    If a detector has several rows on the same data, the last row is used. Return None if no row has the metric.
    """
    sets = by_data(row for row in _with_value(rows, metric) if row.group is None)
    if not sets:
        return None
    detectors = list(dict.fromkeys(row.detector for group in sets for row in group))
    lines = sum(len({row.detector for row in group}) + 1 for group in sets)  # with an empty one after each set
    figure, axes = new_axes(7.2, 0.8 + 0.16 * lines + 0.22 * len(detectors))
    if metric.endswith("roc_auc"):
        axes.axvline(0.5, color=INK, linewidth=0.8)
    styles = {
        detector: {"color": colour_of(i), "marker": _MARKERS[i // len(COLOURS) % len(_MARKERS)], "markersize": 4}
        for i, detector in enumerate(detectors)
    }
    names, middles, y = [], [], 0
    for of_set in sets:
        latest = {row.detector: row for row in of_set}
        group = [latest[detector] for detector in detectors if detector in latest]
        middles.append(y + (len(group) - 1) / 2)
        name = _FOLDERS.sub("", group[0].data).removeprefix("jsonl:").removesuffix(".jsonl")
        names.append(f"{name} ({max(row.metrics[metric].n for row in group)})")
        for row in group:
            value, error = _value_and_error(row.metrics[metric])
            axes.errorbar(value, y, xerr=error, linewidth=1.2, **styles[row.detector])
            y += 1
        y += 1
    for detector, style in styles.items():
        axes.plot([], [], linestyle="", label=_FOLDERS.sub("", detector), **style)
    axes.set_yticks(middles, names)
    axes.set(xlabel=metric, ylim=(y - 1, -1))
    figure.legend(frameon=False, fontsize=8, loc="outside lower center")
    return as_svg(figure)


def _with_value(rows: Sequence[ResultRow], metric: str) -> list[ResultRow]:
    return [row for row in rows if (measured := row.metrics.get(metric)) and measured.value is not None]


def _value_and_error(measured: Measured) -> tuple[float | None, list[list[float]] | None]:
    """Return a value and how far its error bar reaches below and above it, as matplotlib takes them."""
    value, low, high = measured.value, measured.low, measured.high
    if value is None or low is None or high is None:
        return value, None
    return value, [[max(value - low, 0.0)], [max(high - value, 0.0)]]


def roc_plot(rows: Sequence[ResultRow]) -> str | None:
    """Plot the ROC curves of rows on one data set. Return None if no row has a curve."""
    with_curve = [row for row in rows if row.curves.get("roc")]
    if not with_curve:
        return None
    figure, axes = new_axes(4.6, 4.2)
    axes.plot([0, 1], [0, 1], color=INK, linewidth=0.8)
    for i, row in enumerate(with_curve):
        area = row.metrics.get("roc_auc")
        label = row.detector + (f" ({area.value:.3f})" if area and area.value is not None else "")
        axes.plot(*zip(*row.curves["roc"], strict=True), label=label, linewidth=1.6, **style_of(i))
    axes.set(xlabel="false positive rate", ylabel="true positive rate", xlim=(0, 1), ylim=(0, 1.01), aspect="equal")
    axes.legend(frameon=False, fontsize=8, loc="lower right")
    return as_svg(figure)


def reliability_plot(rows: Sequence[ResultRow]) -> str | None:
    """Plot the reliability curves of rows on one data set: the share of hallucinated responses by mean score.

    Return None if no row has a curve.
    """
    with_curve = [row for row in rows if row.curves.get("reliability")]
    if not with_curve:
        return None
    figure, axes = new_axes(4.6, 4.2)
    axes.plot([0, 1], [0, 1], color=INK, linewidth=0.8)
    for i, row in enumerate(with_curve):
        score, rate, mass = zip(*row.curves["reliability"], strict=True)
        axes.plot(score, rate, label=row.detector, linewidth=1.2, **style_of(i))
        axes.scatter(score, rate, s=[8 + 60 * m / sum(mass) for m in mass], color=colour_of(i))
    axes.set(xlabel="mean score", ylabel="share hallucinated", xlim=(0, 1), ylim=(-0.02, 1.02), aspect="equal")
    axes.legend(frameon=False, fontsize=8, loc="best")
    return as_svg(figure)


def group_bars(rows: Sequence[ResultRow], metric: str) -> str | None:
    """Plot one metric by group, with a bar and an interval for each detector.

    Return None if no row has a group.
    """
    grouped = [row for row in _with_value(rows, metric) if row.group]
    groups = list(dict.fromkeys(row.group for row in grouped))
    if not groups:
        return None
    detectors = list(dict.fromkeys(row.detector for row in grouped))
    figure, axes = new_axes(max(4.6, 0.5 * len(groups) * len(detectors) + 2), 3.6)
    width = 0.8 / len(detectors)
    for i, detector in enumerate(detectors):
        for row in (r for r in grouped if r.detector == detector):
            value, error = _value_and_error(row.metrics[metric])
            x = groups.index(row.group) + (i - (len(detectors) - 1) / 2) * width
            axes.bar(x, value, width * 0.9, yerr=error, color=colour_of(i), capsize=2)
        axes.bar(0, 0, color=colour_of(i), label=detector)
    axes.set_xticks(range(len(groups)), [str(g).partition("=")[2] for g in groups], rotation=30, ha="right")
    axes.set(ylabel=metric, ylim=(0, None))
    axes.legend(frameon=False, fontsize=8)
    return as_svg(figure)


def context_curves(rows: Sequence[ResultRow], metric: str) -> str | None:
    """Plot a metric by how many words around a word the detector reads (Liu et al. 2022, Figure 6).

    The rows come from `bench tokens`, where the group of a row names the setting and the number of words on each side.
    Each detector has one line for the setting "offline" and one for "online". The last point of a line is the whole
    context. Return None if the rows have fewer than two numbers of words.
    """
    lines: dict[str, list[tuple[float, Measured]]] = {}
    for row in _with_value(rows, metric):
        if match := _SETTING.fullmatch(row.group or ""):
            name = f"{_FOLDERS.sub('', row.detector)}, {match[1]}"
            lines.setdefault(name, []).append((float(match[2] or "inf"), row.metrics[metric]))
    counts = sorted({count for points in lines.values() for count, _ in points})
    if len(counts) < 2:
        return None
    figure, axes = new_axes(5.4, 3.6)
    for i, (name, points) in enumerate(lines.items()):
        points.sort(key=lambda point: point[0])
        places = [counts.index(count) for count, _ in points]
        axes.plot(places, [m.value for _, m in points], marker="o", markersize=4, label=name, **style_of(i))
        if all(m.low is not None for _, m in points):
            low, high = ([getattr(m, side) for _, m in points] for side in ("low", "high"))
            axes.fill_between(places, low, high, color=colour_of(i), alpha=0.12, linewidth=0)
    axes.set_xticks(range(len(counts)), ["all" if count == inf else f"{count:g}" for count in counts])
    axes.set(xlabel="words of context on each side", ylabel=metric)
    axes.legend(frameon=False, fontsize=8, loc="best")
    return as_svg(figure)
