"""Plot a salience map (source words by response words) as SVG.

This needs the extra `plots` (matplotlib). `report.salience` shows the map in HTML, for texts of any length.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from veridical.records.errors import InputError
from veridical.records.salience_map import MapWord, SalienceMap
from veridical.records.spans import Span
from veridical_lab.report.plots import COLOURS, INK, as_svg, finish_heat_map, label_words, new_axes, new_figure

if TYPE_CHECKING:
    import numpy as np

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
    label_words(axes.xaxis, _labels(shown.response_words), shown.flags(flagged), rotation=90)
    label_words(axes.yaxis, _labels(shown.source_words))
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
    _bars(left, shown.source_words, shown.contribution, [False] * len(shown.source_words))
    _bars(right, shown.response_words, shown.attribution, shown.flags(flagged))
    left.set_title("contribution of source words", fontsize=9, color=INK)
    right.set_title("attribution of response words", fontsize=9, color=INK)
    return as_svg(figure)


def _labels(shown: Sequence[MapWord]) -> list[str]:
    return [w.text if len(w.text) <= _LETTERS else w.text[: _LETTERS - 1] + "…" for w in shown]


def _bars(axes: Any, shown: Sequence[MapWord], values: np.ndarray, marks: Sequence[bool]) -> None:
    axes.barh(range(len(shown)), values, color=[COLOURS[1] if mark else COLOURS[0] for mark in marks], height=0.75)
    label_words(axes.yaxis, _labels(shown), marks)
    axes.invert_yaxis()
    axes.set_xlim(0, None)
    axes.tick_params(colors=INK, labelsize=7, length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(INK)
