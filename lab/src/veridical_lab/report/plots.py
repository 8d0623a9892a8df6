"""Provide what all plots share: figures, colours, line styles, and conversion to SVG.

This needs the extra `plots` (matplotlib). The colours are those of Okabe and Ito, and cividis in matrices, because
everybody can tell these apart. Text is grey, because grey is readable on a light and on a dark background.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Sequence
from typing import Any

from veridical.records.errors import MissingExtraError

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
INK = "#808080"
_LINES = ("-", "--", ":", "-.")


def new_figure(width: float, height: float) -> Any:
    """Make an empty figure. The size is in inches.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("drawing figures", "plots", "veridical-lab") from None
    return Figure(figsize=(width, height), layout="constrained")


def new_axes(width: float, height: float) -> tuple[Any, Any]:
    """Make an empty figure with axes. The size is in inches.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    figure = new_figure(width, height)
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def finish_heat_map(figure: Any, axes: Any, image: Any, x_label: str, y_label: str) -> None:
    """Label the axes of a matrix drawn with `imshow`, remove its frame, and add a colour bar."""
    axes.set_xlabel(x_label, color=INK)
    axes.set_ylabel(y_label, color=INK)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    bar = figure.colorbar(image, ax=axes, shrink=0.6)
    bar.outline.set_visible(False)
    bar.ax.tick_params(colors=INK, labelsize=7)


def label_words(axis: Any, words: Sequence[str], marks: Sequence[bool] = (), **options: Any) -> None:
    """Label the ticks of an axis (`axes.xaxis` or `axes.yaxis`) with words. Marked words are bold and orange."""
    labels = [word.replace("$", r"\$") for word in words]  # else matplotlib reads a formula
    axis.set_ticks(range(len(words)), labels, fontsize=7, color=INK, **options)
    for label, is_marked in zip(axis.get_ticklabels(), marks, strict=False):
        if is_marked:
            label.set(color=COLOURS[1], fontweight="bold")


def colour_of(i: int) -> str:
    """Return the colour of the i-th series."""
    return COLOURS[i % len(COLOURS)]


def style_of(i: int) -> dict[str, Any]:
    """Return colour and line style of the i-th curve."""
    return {"color": colour_of(i), "linestyle": _LINES[i % len(_LINES)]}


def as_svg(figure: Any) -> str:
    """Convert a figure to an <svg> element without XML head and date, with text as text, the same every time."""
    from matplotlib import rc_context

    out = io.StringIO()
    with rc_context({"svg.hashsalt": "veridical", "svg.fonttype": "none"}), warnings.catch_warnings():
        # scripts that matplotlib's font lacks would be boxes in a PNG, but an SVG uses the reader's own font
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        warnings.filterwarnings("ignore", message="Matplotlib currently does not support .* natively")
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None}, transparent=True)
    svg = out.getvalue()
    return re.sub("<metadata>(?:[^<]|<(?!/?metadata>))*+</metadata>", "", svg[svg.index("<svg") :])
