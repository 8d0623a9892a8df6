"""Analyses as pictures, SVG and PNG: curves over sublayers with their intervals, matrices, curves over what was varied.

They need the `plots` extra. Colours are those of `bench.figures`, cividis in matrices: for all eyes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from veridical.bench.figures import as_png, as_svg, new_axes, style_of
from veridical.probes.analysis.results import Analysis, Finding, Peak

__all__ = ["Picture", "pictures_of"]

_INK = "#808080"  # legible on white and on black
Picture = tuple[str, str, bytes]  # name, SVG, PNG
_TITLES = {"f1": "F1-R (responses)", "f1_sp": "F1-Sp (spans)", "roc_auc": "ROC AUC (responses)"}
_TITLES |= {"word_roc_auc": "ROC AUC (words)", "token_f1": "F1 (tokens)", "recall": "recall (responses)"}


def pictures_of(found: Analysis) -> list[Picture]:
    """One picture a metric (a matrix, or curves); `MissingExtraError` without matplotlib."""
    made = []
    for metric in dict.fromkeys(m for f in found.findings for m in f.row.metrics):
        mine = [f for f in found.findings if metric in f.row.metrics and f.row.metrics[metric].value is not None]
        peaks = [p for p in found.peaks if p.metric == metric]
        figure = _DRAW[found.name](mine, peaks, metric)
        if figure is not None:
            made.append((f"{found.name}-{metric}", as_svg(figure), as_png(figure)))
    return made


def _value(finding: Finding, metric: str) -> tuple[float, float, float]:
    figure = finding.row.metrics[metric]
    value = float(figure.value or 0.0)
    return value, value if figure.low is None else figure.low, value if figure.high is None else figure.high


def _curve(axes: Any, x: Sequence[float], findings: Sequence[Finding], metric: str, i: int, label: str) -> None:
    value, low, high = zip(*(_value(f, metric) for f in findings), strict=True)
    axes.plot(x, value, marker="o", markersize=3, linewidth=1.5, label=label, **style_of(i))
    axes.fill_between(x, low, high, color=style_of(i)["color"], alpha=0.15, linewidth=0)


def _finish(figure: Any, axes: Any, metric: str, x: str) -> Any:
    axes.set_xlabel(x, color=_INK)
    axes.set_ylabel(_TITLES.get(metric, metric), color=_INK)
    axes.tick_params(colors=_INK, labelsize=8)
    axes.spines[["left", "bottom"]].set_color(_INK)
    legend = axes.legend(frameon=False, fontsize=8, loc="best", labelcolor=_INK)
    if legend.get_title() is not None:
        legend.get_title().set_color(_INK)
    return figure


def _floor(axes: Any, findings: Sequence[Finding], metric: str, **where: object) -> None:
    found = [f for f in findings if f.at["view"] == "flag all" and all(f.at.get(k) == v for k, v in where.items())]
    if found:
        axes.axhline(_value(found[0], metric)[0], color=_INK, linewidth=0.9, linestyle=":", label="flagging everything")


def _halves(findings: Sequence[Finding], peaks: Sequence[Peak], metric: str) -> Any:
    """Attention and feed-forward by layer (from 1), with a dashed line where each first reaches 95 % of its peak."""
    single = [f for f in findings if f.at["sublayer"] is not None]
    if not single:
        return None
    figure, axes = new_axes(5.6, 3.8)
    for i, half in enumerate(dict.fromkeys(str(f.at["half"]) for f in single)):
        mine = sorted((f for f in single if f.at["half"] == half), key=_layer)
        _curve(axes, [_layer(f) for f in mine], mine, metric, i, half)
        for peak in (p for p in peaks if p.half == half):
            axes.axvline(peak.first // 2 + 1, linewidth=0.9, color=style_of(i)["color"], linestyle="--", alpha=0.8)
    _whole(axes, findings, metric)
    _floor(axes, findings, metric)
    return _finish(figure, axes, metric, "layer (from 1)")


def _layer(finding: Finding) -> float:
    return float(finding.at["layer"] or 0)


def _whole(axes: Any, findings: Sequence[Finding], metric: str) -> None:
    for f in findings:
        if f.at["view"] == "ensemble of all":
            axes.axhline(_value(f, metric)[0], linewidth=1.0, label="ensemble of all", **style_of(2))


def _kinds(findings: Sequence[Finding], peaks: Sequence[Peak], metric: str) -> Any:
    """A curve over sublayers for each kind of error."""
    single = [f for f in findings if f.at["sublayer"] is not None]
    if not single:
        return None
    figure, axes = new_axes(6.2, 4.0)
    for i, kind in enumerate(dict.fromkeys(str(f.at["kind"]) for f in single)):
        mine = sorted((f for f in single if f.at["kind"] == kind), key=lambda f: int(f.at["sublayer"] or 0))
        label = f"{kind} ({mine[0].at['errors']} errors)"
        _curve(axes, [float(f.at["sublayer"] or 0) for f in mine], mine, metric, i, label)
    return _finish(figure, axes, metric, "sublayer (2l: attention of block l)")


def _matrix(findings: Sequence[Finding], peaks: Sequence[Peak], metric: str) -> Any:
    """Training sets down, test sets across, the ensemble's value in each field, with its interval."""
    mine = [f for f in findings if f.at["view"] in ("ensemble of all", "flag all")]
    rows = list(dict.fromkeys(str(f.at["train"]) for f in mine))
    columns = list(dict.fromkeys(str(f.at["test"]) for f in mine))
    if not mine:
        return None
    figure, axes = new_axes(2.6 + 1.25 * len(columns), 1.3 + 0.62 * len(rows))
    grid = [[float("nan")] * len(columns) for _ in rows]
    for f in mine:
        i, j = rows.index(str(f.at["train"])), columns.index(str(f.at["test"]))
        value, low, high = _value(f, metric)
        grid[i][j] = value
        ink = "#ffffff" if value < 0.55 else "#000000"
        axes.text(j, i, f"{value:.2f}", ha="center", va="bottom", color=ink, fontsize=9)
        axes.text(j, i + 0.06, f"{low:.2f}–{high:.2f}", ha="center", va="top", color=ink, fontsize=6.5)
    axes.imshow(grid, cmap="cividis", vmin=0, vmax=1, aspect="auto")
    axes.set_xticks(range(len(columns)), columns, color=_INK, fontsize=8)
    axes.set_yticks(range(len(rows)), rows, color=_INK, fontsize=8)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_xlabel("tested on", color=_INK)
    axes.set_ylabel("trained on", color=_INK)
    axes.set_title(_TITLES.get(metric, metric), color=_INK, fontsize=9)
    return figure


def _sizes(findings: Sequence[Finding], peaks: Sequence[Peak], metric: str) -> Any:
    """Best sublayer and ensemble by the number of weights of the base model."""
    figure, axes = new_axes(5.2, 3.6)
    _varied(axes, findings, metric, "parameters")
    axes.set_xscale("log")
    _floor(axes, findings, metric)
    return _finish(figure, axes, metric, "weights of the base model")


def _contexts(findings: Sequence[Finding], peaks: Sequence[Peak], metric: str) -> Any:
    """Best sublayer and ensemble by how many tokens of the sources were read (their mean)."""
    figure, axes = new_axes(5.2, 3.6)
    _varied(axes, findings, metric, "tokens_read")
    _floor(axes, findings, metric)
    return _finish(figure, axes, metric, "tokens of the sources that the model reads (mean)")


def _varied(axes: Any, findings: Sequence[Finding], metric: str, key: str) -> None:
    for i, view in enumerate(("best sublayer", "ensemble of all")):
        mine = sorted((f for f in findings if f.at["view"] == view), key=lambda f: float(f.at[key] or 0))
        if mine:
            _curve(axes, [float(f.at[key] or 0) for f in mine], mine, metric, i, view)


_DRAW = {"layers": _halves, "labels": _kinds, "transfer": _matrix, "size": _sizes, "context": _contexts}
