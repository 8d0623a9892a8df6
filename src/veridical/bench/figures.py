"""Result rows as pictures (SVG): ROC curves, reliability curves, and bars by group. Needs the `plots` extra."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import Any

from veridical.bench.results import Row
from veridical.core.errors import MissingExtraError

__all__ = ["as_png", "as_svg", "bars", "new_axes", "reliability", "roc", "style_of"]

_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")  # Okabe & Ito: for all eyes
_LINES = ("-", "--", ":", "-.")


def new_axes(width: float, height: float) -> tuple[Any, Any]:
    """An empty figure of this size in inches, and its axes; `MissingExtraError` without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("drawing figures", "plots") from None
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def as_svg(figure: Any) -> str:
    """The figure as an <svg> element for a page: no XML head, no date, text as text, the same each time."""
    from matplotlib import rc_context

    out = io.StringIO()
    with rc_context({"svg.hashsalt": "veridical", "svg.fonttype": "none"}):
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None}, transparent=True)
    svg = out.getvalue()
    return re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)


def as_png(figure: Any) -> bytes:
    """The figure as PNG on white, 160 dots an inch."""
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=160, facecolor="white")
    return out.getvalue()


def style_of(i: int) -> dict[str, Any]:
    """Colour and line of the i-th curve."""
    return {"color": _COLOURS[i % len(_COLOURS)], "linestyle": _LINES[i % len(_LINES)]}


def roc(rows: Sequence[Row]) -> str | None:
    """The ROC curves of rows on one data set; None where no row has one."""
    drawn = [row for row in rows if row.curves.get("roc")]
    if not drawn:
        return None
    figure, axes = new_axes(4.6, 4.2)
    axes.plot([0, 1], [0, 1], color="#888888", linewidth=0.8)
    for i, row in enumerate(drawn):
        area = row.metrics.get("roc_auc")
        label = row.detector + (f" ({area.value:.3f})" if area and area.value is not None else "")
        axes.plot(*zip(*row.curves["roc"], strict=True), label=label, linewidth=1.6, **style_of(i))
    axes.set(xlabel="false positive rate", ylabel="true positive rate", xlim=(0, 1), ylim=(0, 1.01), aspect="equal")
    axes.legend(frameon=False, fontsize=8, loc="lower right")
    return as_svg(figure)


def reliability(rows: Sequence[Row]) -> str | None:
    """The reliability curves of rows on one data set: share hallucinated against mean score; None without any."""
    drawn = [row for row in rows if row.curves.get("reliability")]
    if not drawn:
        return None
    figure, axes = new_axes(4.6, 4.2)
    axes.plot([0, 1], [0, 1], color="#888888", linewidth=0.8)
    for i, row in enumerate(drawn):
        score, rate, mass = zip(*row.curves["reliability"], strict=True)
        axes.plot(score, rate, label=row.detector, linewidth=1.2, **style_of(i))
        axes.scatter(score, rate, s=[8 + 60 * m / sum(mass) for m in mass], color=_COLOURS[i % len(_COLOURS)])
    axes.set(xlabel="mean score", ylabel="share hallucinated", xlim=(0, 1), ylim=(-0.02, 1.02), aspect="equal")
    axes.legend(frameon=False, fontsize=8, loc="best")
    return as_svg(figure)


def bars(rows: Sequence[Row], metric: str) -> str | None:
    """One metric by group, a bar a detector with its interval; None where no row has a group."""
    drawn = [row for row in rows if row.group and row.metrics.get(metric) and row.metrics[metric].value is not None]
    groups = list(dict.fromkeys(row.group for row in drawn))
    if not groups:
        return None
    detectors = list(dict.fromkeys(row.detector for row in drawn))
    figure, axes = new_axes(max(4.6, 0.5 * len(groups) * len(detectors) + 2), 3.6)
    width = 0.8 / len(detectors)
    for i, detector in enumerate(detectors):
        for row in (r for r in drawn if r.detector == detector):
            value, low, high = (getattr(row.metrics[metric], name) for name in ("value", "low", "high"))
            at = groups.index(row.group) + (i - (len(detectors) - 1) / 2) * width
            error = None if low is None else [[max(value - low, 0)], [max(high - value, 0)]]
            axes.bar(at, value, width * 0.9, yerr=error, color=_COLOURS[i % len(_COLOURS)], capsize=2)
        axes.bar(0, 0, color=_COLOURS[i % len(_COLOURS)], label=detector)
    axes.set_xticks(range(len(groups)), [str(g).partition("=")[2] for g in groups], rotation=30, ha="right")
    axes.set(ylabel=metric, ylim=(0, None))
    axes.legend(frameon=False, fontsize=8)
    return as_svg(figure)
