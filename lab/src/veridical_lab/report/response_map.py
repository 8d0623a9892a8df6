"""Show a response map (sublayers by tokens) in a terminal, or as SVG with the extra `plots`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from veridical.records.strings import shorten, visible
from veridical_lab.probes.analysis.response_map import ResponseMap
from veridical_lab.probes.analysis.sublayer_probes import type_of
from veridical_lab.report.plots import INK, as_svg, finish_heat_map, label_words, new_axes

if TYPE_CHECKING:
    from rich.console import Console

_LETTERS = 14  # characters shown of a token
_MOST_TOKENS = 120  # tokens in a picture


def _row_names(response_map: ResponseMap) -> list[str]:
    """Name each row by its sublayer, the type of the sublayer, and its layer from 1, such as "12 attention 7"."""
    return [f"{s} {type_of(s)} {s // 2 + 1}" for s in response_map.sublayers]


def _labels(response_map: ResponseMap) -> list[str]:
    return [shorten(visible(token), _LETTERS) for token in response_map.tokens]


# --- terminal ---------------------------------------------------------------------------------------------------------


def print_response_map(response_map: ResponseMap, console: Console | None = None) -> None:
    """Print a response map to a console, by default standard output, with as many tokens in a line as fit.

    Scores are printed in hundredths, and shaded if the terminal has colours. Marked tokens are underlined and have a
    star.
    """
    from rich.console import Console
    from rich.style import Style
    from rich.table import Table
    from rich.text import Text

    console = console or Console(highlight=False, markup=False, emoji=False)
    names = [*_row_names(response_map), "detector"]
    rows = [*response_map.scores.tolist(), response_map.combined.tolist()]
    labels = [f"{text}*" if m else text for text, m in zip(_labels(response_map), response_map.is_marked, strict=True)]
    columns = max(console.width - max(map(len, names)) - 4, 2 * _LETTERS)
    for first, last in _lines(labels, columns):
        table = Table(title=None, box=None, padding=(0, 0, 0, 1), pad_edge=False)
        table.add_column("")
        for label, is_marked in zip(labels[first:last], response_map.is_marked[first:last], strict=True):
            table.add_column(Text(label, Style(underline=is_marked)), justify="right", no_wrap=True)
        for name, scores in zip(names, rows, strict=True):
            cells = []
            for score in scores[first:last]:  # white on black for 0, black on orange for 1
                red, green, blue = (round(score * channel) for channel in (230, 159, 0))
                style = Style(color="black" if score > 0.5 else "white", bgcolor=f"rgb({red},{green},{blue})")
                cells.append(Text(f"{min(round(100 * score), 99):02d}", style))
            table.add_row(Text(name, Style(bold=name == "detector")), *cells)
        console.print(table)
        console.print()
    caption = (
        f"{response_map.objective}-level scores, 0 = supported, 1 = hallucinated; rows: sublayer, its type, its layer "
        f"(from 1); the detector flags from {response_map.threshold:.3f}"
    )
    console.print(Text(caption + ("; *: marked" if response_map.marked else "")))
    for note in response_map.notes:
        console.print(Text(f"Note: {visible(note)}"))


def _lines(labels: list[str], columns: int) -> Iterator[tuple[int, int]]:
    """Split the tokens into lines of at most `columns` columns, each as a stretch (first, last)."""
    first, width = 0, 0
    for i, label in enumerate(labels):
        needed = max(len(label), 2) + 1
        if i > first and width + needed > columns:
            yield first, i
            first, width = i, 0
        width += needed
    yield first, len(labels)


# --- pictures ---------------------------------------------------------------------------------------------------------


def response_map_svg(response_map: ResponseMap, *, tokens: int = _MOST_TOKENS) -> str:
    """Draw a response map as an <svg> heat map, with sublayers down and tokens across.

    Marked spans have a white frame. Only the first `tokens` tokens are drawn. If there are more, the title says so.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    import numpy as np

    scores = np.vstack([response_map.scores, response_map.combined])[:, :tokens]
    height, width = scores.shape
    figure, axes = new_axes(2.4 + 0.2 * width, 1.6 + 0.17 * height)  # before the import: its error names the extra
    from matplotlib.patches import Rectangle

    image = axes.imshow(scores, cmap="cividis", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    marked = response_map.is_marked[:width]
    label_words(axes.xaxis, _labels(response_map)[:width], marked, rotation=90)
    label_words(axes.yaxis, [*_row_names(response_map), "detector"])
    axes.axhline(height - 1.5, color="#ffffff", linewidth=1.5)
    for is_marked, run in groupby(range(width), key=marked.__getitem__):
        if is_marked:
            first, *others = run
            size = (len(others) + 1, height)
            axes.add_patch(Rectangle((first - 0.5, -0.5), *size, edgecolor="#ffffff", facecolor="none", linewidth=1.8))
    if width < len(response_map.spans):
        axes.set_title(f"the first {width} of {len(response_map.spans)} tokens", fontsize=8, color=INK)
    finish_heat_map(figure, axes, image, "token", "sublayer")
    return as_svg(figure)
