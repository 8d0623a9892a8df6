"""Plot a salience map (source words by response words) as SVG.

This needs the extra `plots` (matplotlib). `report.salience` shows the map in HTML, for texts of any length.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from veridical.records.errors import InputError
from veridical.records.salience_map import SalienceMap
from veridical.records.spans import Span
from veridical_lab.report.plots import COLOURS, INK, as_svg, finish_heat_map, new_axes, new_figure

if TYPE_CHECKING:
    import numpy as np

_PLAIN, _FLAGGED = COLOURS[:2]
_MOST_WORDS = 60
_LETTERS = 22  # characters shown of a word


def salience_map_svg(salience: SalienceMap, *, flagged: Sequence[Span] = ()) -> str:
    """Draw a salience map as an <svg> heat map, with source words down and response words across.

    Response words that overlap `flagged` are bold and in another colour. If the map is too large, only the 60 strongest
    source words and the first 60 response words are shown, and the title says so.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    if not salience.source_words or not salience.response_words:
        raise InputError("the salience map is empty", hint="there is no content word in the sources or in the response")
    shown = salience.strongest(_MOST_WORDS, _MOST_WORDS)
    height, width = shown.values.shape
    figure, axes = new_axes(2.2 + 0.2 * width, 1.7 + 0.17 * height)
    top = max(float(shown.values.max()), 1e-9)
    image = axes.imshow(shown.values, cmap="cividis", vmin=0, vmax=top, aspect="auto", interpolation="nearest")
    _ticks(axes.set_xticks, [w.text for w in shown.response_words], rotation=90)
    _ticks(axes.set_yticks, [w.text for w in shown.source_words])
    for label, mark in zip(axes.get_xticklabels(), shown.flags(flagged), strict=True):
        if mark:
            label.set(color=_FLAGGED, fontweight="bold")
    if shown.values.shape != salience.values.shape:
        rows_shown = f"{height} of {len(salience.source_words)} source words"
        columns_shown = f"{width} of {len(salience.response_words)} response words"
        axes.set_title(f"{rows_shown}, {columns_shown}", fontsize=8, color=INK)
    finish_heat_map(figure, axes, image, "response", "sources")
    return as_svg(figure)


def word_bars_svg(salience: SalienceMap, *, flagged: Sequence[Span] = ()) -> str:
    """Draw contributions of source words and attributions of response words as two panels of bars, in an <svg> element.

    A panel has at most 60 words: the strongest source words, and the first response words.
    """
    shown = salience.strongest(_MOST_WORDS, _MOST_WORDS)
    count = max(len(shown.source_words), len(shown.response_words), 1)
    figure = new_figure(8.0, 0.9 + 0.19 * count)
    left, right = figure.subplots(1, 2)
    marks = shown.flags(flagged)
    _bars(left, [w.text for w in shown.source_words], shown.contribution, [_PLAIN] * len(shown.source_words))
    colours = [_FLAGGED if mark else _PLAIN for mark in marks]
    _bars(right, [w.text for w in shown.response_words], shown.attribution, colours, marks)
    left.set_title("contribution of source words", fontsize=9, color=INK)
    right.set_title("attribution of response words", fontsize=9, color=INK)
    return as_svg(figure)


def _ticks(set_ticks: Any, texts: Sequence[str], **options: Any) -> None:
    cut = [text if len(text) <= _LETTERS else text[: _LETTERS - 1] + "…" for text in texts]
    labels = [text.replace("$", r"\$") for text in cut]  # else matplotlib reads a formula
    set_ticks(range(len(texts)), labels, fontsize=7, color=INK, **options)


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
    axes.tick_params(colors=INK, labelsize=7, length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(INK)
