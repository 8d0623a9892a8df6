"""Plot analyses of probes as SVG: curves over sublayers with intervals, matrices, and curves by size or context."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from veridical_lab.probes.analysis.results import Analysis, Peak, ProbeFinding
from veridical_lab.report.plots import INK, as_svg, new_axes, style_of

_TITLES = {
    "f1": "F1-R (responses)",
    "f1_sp": "F1-Sp (spans)",
    "recall": "recall (responses)",
    "roc_auc": "ROC AUC (responses)",
    "token_f1": "F1 (tokens)",
    "word_roc_auc": "ROC AUC (words)",
}


def analysis_plots(analysis: Analysis) -> dict[str, str]:
    """Plot each metric of an analysis, as a matrix or curves. Return each plot as an <svg> element, by file name.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    plots = {}
    for metric in dict.fromkeys(m for f in analysis.findings for m in f.row.metrics):
        findings = [f for f in analysis.findings if metric in f.row.metrics and f.row.metrics[metric].value is not None]
        peaks = [p for p in analysis.peaks if p.metric == metric]
        figure = _PLOTS[analysis.name](findings, peaks, metric)
        if figure is not None:
            plots[f"{analysis.name}-{metric}"] = as_svg(figure)
    return plots


def _value(finding: ProbeFinding, metric: str) -> tuple[float, float, float]:
    figure = finding.row.metrics[metric]
    value = float(figure.value or 0.0)
    return value, value if figure.low is None else figure.low, value if figure.high is None else figure.high


def _curve(axes: Any, x: Sequence[float], findings: Sequence[ProbeFinding], metric: str, i: int, label: str) -> None:
    value, low, high = zip(*(_value(f, metric) for f in findings), strict=True)
    axes.plot(x, value, marker="o", markersize=3, linewidth=1.5, label=label, **style_of(i))
    axes.fill_between(x, low, high, color=style_of(i)["color"], alpha=0.15, linewidth=0)


def _finish(figure: Any, axes: Any, metric: str, x: str) -> Any:
    axes.set_xlabel(x, color=INK)
    axes.set_ylabel(_TITLES.get(metric, metric), color=INK)
    axes.tick_params(colors=INK, labelsize=8)
    axes.spines[["left", "bottom"]].set_color(INK)
    axes.legend(frameon=False, fontsize=8, loc="best", labelcolor=INK)
    return figure


def _all_positive_line(axes: Any, findings: Sequence[ProbeFinding], metric: str) -> None:
    baseline = next((f for f in findings if f.at["view"] == "flag all"), None)
    if baseline is not None:
        axes.axhline(_value(baseline, metric)[0], color=INK, linewidth=0.9, linestyle=":", label="flagging everything")


def layer_plot(findings: Sequence[ProbeFinding], peaks: Sequence[Peak], metric: str) -> Any:
    """Plot the probes on attention and on feed-forward sublayers by layer (from 1).

    Dashed lines mark the first layers that reach 95 % of the highest values.
    """
    single = sorted((f for f in findings if f.at["sublayer"] is not None), key=lambda f: float(f.at["layer"] or 0))
    if not single:
        return None
    figure, axes = new_axes(5.6, 3.8)
    halves = dict.fromkeys(str(f.at["half"]) for f in findings if f.at["sublayer"] is not None)
    for i, half in enumerate(halves):
        points = [f for f in single if f.at["half"] == half]
        _curve(axes, [float(f.at["layer"] or 0) for f in points], points, metric, i, half)
        for peak in (p for p in peaks if p.half == half):
            axes.axvline(peak.first // 2 + 1, linewidth=0.9, color=style_of(i)["color"], linestyle="--", alpha=0.8)
    for f in findings:
        if f.at["view"] == "ensemble of all":
            axes.axhline(_value(f, metric)[0], linewidth=1.0, label="ensemble of all", **style_of(2))
    _all_positive_line(axes, findings, metric)
    return _finish(figure, axes, metric, "layer (from 1)")


def error_type_plot(findings: Sequence[ProbeFinding], peaks: Sequence[Peak], metric: str) -> Any:
    """Plot a curve over sublayers for each type of error."""
    single = [f for f in findings if f.at["sublayer"] is not None]
    if not single:
        return None
    figure, axes = new_axes(6.2, 4.0)
    for i, kind in enumerate(dict.fromkeys(str(f.at["kind"]) for f in single)):
        points = sorted((f for f in single if f.at["kind"] == kind), key=lambda f: int(f.at["sublayer"] or 0))
        label = f"{kind} ({points[0].at['errors']} errors)"
        _curve(axes, [float(f.at["sublayer"] or 0) for f in points], points, metric, i, label)
    return _finish(figure, axes, metric, "sublayer (2l: attention of block l)")


def transfer_plot(findings: Sequence[ProbeFinding], peaks: Sequence[Peak], metric: str) -> Any:
    """Plot a matrix of ensembles with intervals, with training sets down and test sets across."""
    fields = [f for f in findings if f.at["view"] in ("ensemble of all", "flag all")]
    if not fields:
        return None
    rows = list(dict.fromkeys(str(f.at["train"]) for f in fields))
    columns = list(dict.fromkeys(str(f.at["test"]) for f in fields))
    figure, axes = new_axes(2.6 + 1.25 * len(columns), 1.3 + 0.62 * len(rows))
    grid = [[float("nan")] * len(columns) for _ in rows]
    for f in fields:
        i, j = rows.index(str(f.at["train"])), columns.index(str(f.at["test"]))
        value, low, high = _value(f, metric)
        grid[i][j] = value
        ink = "#ffffff" if value < 0.55 else "#000000"
        axes.text(j, i, f"{value:.2f}", ha="center", va="bottom", color=ink, fontsize=9)
        axes.text(j, i + 0.06, f"{low:.2f}–{high:.2f}", ha="center", va="top", color=ink, fontsize=6.5)
    axes.imshow(grid, cmap="cividis", vmin=0, vmax=1, aspect="auto")
    axes.set_xticks(range(len(columns)), columns, color=INK, fontsize=8)
    axes.set_yticks(range(len(rows)), rows, color=INK, fontsize=8)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_xlabel("tested on", color=INK)
    axes.set_ylabel("trained on", color=INK)
    axes.set_title(_TITLES.get(metric, metric), color=INK, fontsize=9)
    return figure


def two_curves(
    findings: Sequence[ProbeFinding], peaks: Sequence[Peak], metric: str, *, key: str, x: str, scale: str = "linear"
) -> Any:
    """Plot the best sublayer and the ensemble by the number `key` of each finding, on an axis that is called `x`."""
    figure, axes = new_axes(5.2, 3.6)
    for i, view in enumerate(("best sublayer", "ensemble of all")):
        points = sorted((f for f in findings if f.at["view"] == view), key=lambda f: float(f.at[key] or 0))
        if points:
            _curve(axes, [float(f.at[key] or 0) for f in points], points, metric, i, view)
    _all_positive_line(axes, findings, metric)
    axes.set_xscale(scale)
    return _finish(figure, axes, metric, x)


_PLOTS: dict[str, Callable[[Sequence[ProbeFinding], Sequence[Peak], str], Any]] = {
    "layers": layer_plot,
    "labels": error_type_plot,
    "transfer": transfer_plot,
    "size": partial(two_curves, key="parameters", x="weights of the base model", scale="log"),
    "context": partial(two_curves, key="tokens_read", x="tokens of the sources that the model reads (mean)"),
}
