"""A salience map, source words by response words, and its pictures as SVG or PNG.

They need the `plots` extra (matplotlib); `report.salience` shows the same in HTML, for texts of any length. Colours are
cividis and those of Okabe & Ito: for all eyes; text is a grey that can be read on light and on dark ground.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from veridical.core.errors import InputError, MissingExtraError
from veridical.core.salience_map import SalienceMap
from veridical.core.spans import Span

if TYPE_CHECKING:
    import numpy as np

__all__ = ["flags", "salience_map_png", "salience_map_svg", "word_bars_svg"]

_INK = "#808080"  # legible on white and on black
_FLAGGED, _PLAIN = "#d55e00", "#0072b2"
_MOST_ROWS, _MOST_COLUMNS = 60, 60
_LETTERS = 22  # of a word in a picture


def salience_map_svg(
    found: SalienceMap, *, flagged: Sequence[Span] = (), rows: int = _MOST_ROWS, columns: int = _MOST_COLUMNS
) -> str:
    """The map as a heat map, an <svg> element: source words down, response words across.

    Response words that overlap `flagged` are drawn in another colour and underlined. A larger map is cut to the `rows`
    source words that matter most and the first `columns` response words, which the title then says.
    Raises `MissingExtraError` without matplotlib.
    """
    return _svg(_heat_map(found, flagged, rows, columns))


def salience_map_png(found: SalienceMap, *, flagged: Sequence[Span] = ()) -> bytes:
    """The same as PNG, 160 dots an inch."""
    out = io.BytesIO()
    figure = _heat_map(found, flagged, _MOST_ROWS, _MOST_COLUMNS)
    with _any_script():
        figure.savefig(out, format="png", dpi=160, facecolor="white")
    return out.getvalue()


def word_bars_svg(found: SalienceMap, *, flagged: Sequence[Span] = (), words: int = _MOST_ROWS) -> str:
    """Two panels of bars, an <svg> element: the contribution of source words, the attribution of response words.

    At most `words` words a panel: the source words of the highest values, the first response words.
    """
    shown = found.strongest(words, words)
    count = max(len(shown.source_words), len(shown.response_words), 1)
    figure = _figure(8.0, 0.9 + 0.19 * count)
    left, right = figure.subplots(1, 2)
    marks = flags(shown, flagged)
    _bars(left, [w.text for w in shown.source_words], shown.contribution, [_PLAIN] * len(shown.source_words))
    colours = [_FLAGGED if mark else _PLAIN for mark in marks]
    _bars(right, [w.text for w in shown.response_words], shown.attribution, colours, marks)
    left.set_title("contribution of source words", fontsize=9, color=_INK)
    right.set_title("attribution of response words", fontsize=9, color=_INK)
    return _svg(figure)


def _figure(width: float, height: float) -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("drawing figures", "plots") from None
    return Figure(figsize=(width, height), layout="constrained")


def _heat_map(found: SalienceMap, flagged: Sequence[Span], rows: int, columns: int) -> Any:
    if not found.source_words or not found.response_words:
        raise InputError("the salience map is empty", hint="there is no content word in the sources or in the response")
    shown = found.strongest(rows, columns)
    height, width = shown.values.shape
    figure = _figure(2.2 + 0.2 * width, 1.7 + 0.17 * height)
    axes = figure.subplots()
    top = max(float(shown.values.max()), 1e-9)
    image = axes.imshow(shown.values, cmap="cividis", vmin=0, vmax=top, aspect="auto", interpolation="nearest")
    _ticks(axes.set_xticks, [w.text for w in shown.response_words], rotation=90)
    _ticks(axes.set_yticks, [w.text for w in shown.source_words])
    for label, mark in zip(axes.get_xticklabels(), flags(shown, flagged), strict=True):
        if mark:
            label.set(color=_FLAGGED, fontweight="bold")
    if shown.values.shape != found.values.shape:
        said = (
            f"{height} of {len(found.source_words)} source words, {width} of {len(found.response_words)} response words"
        )
        axes.set_title(said, fontsize=8, color=_INK)
    axes.set_xlabel("response", color=_INK)
    axes.set_ylabel("sources", color=_INK)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    bar = figure.colorbar(image, ax=axes, shrink=0.6)
    bar.outline.set_visible(False)
    bar.ax.tick_params(colors=_INK, labelsize=7)
    return figure


def _ticks(place: Any, texts: Sequence[str], **options: Any) -> None:
    place(range(len(texts)), [_short(text) for text in texts], fontsize=7, color=_INK, **options)


def _short(text: str) -> str:
    """The word cut to what a label holds, with nothing that matplotlib would read as a formula."""
    cut = text if len(text) <= _LETTERS else text[: _LETTERS - 1] + "…"
    return cut.replace("$", r"\$")


def _bars(
    axes: Any, texts: Sequence[str], values: np.ndarray, colours: Sequence[str], marks: Sequence[bool] = ()
) -> None:
    axes.barh(range(len(texts)), values, color=colours, height=0.75)
    _ticks(axes.set_yticks, texts)
    for label, mark in zip(axes.get_yticklabels(), marks, strict=False):
        if mark:
            label.set(color=_FLAGGED, fontweight="bold")
    axes.invert_yaxis()
    axes.set_xlim(0, None)
    axes.tick_params(colors=_INK, labelsize=7, length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(_INK)


def flags(found: SalienceMap, flagged: Sequence[Span]) -> list[bool]:
    """Whether each response word shares a character with one of the `flagged` spans."""
    return [any(word.span.overlaps(span) for span in flagged) for word in found.response_words]


@contextmanager
def _any_script() -> Iterator[None]:
    """A script that matplotlib's font lacks is drawn as boxes in a PNG, and by the reader's own font in an SVG."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        warnings.filterwarnings("ignore", message="Matplotlib currently does not support .* natively")
        yield


def _svg(figure: Any) -> str:
    """The figure as an <svg> element for a page: no XML head, no date, text as text, the same each time."""
    from matplotlib import rc_context

    out = io.StringIO()
    with rc_context({"svg.hashsalt": "veridical", "svg.fonttype": "none"}), _any_script():
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None}, transparent=True)
    svg = out.getvalue()
    return re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
