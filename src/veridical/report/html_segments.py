"""A marked text as pieces for the page: where each begins, how it looks, what it links to and what links to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from veridical.core.spans import Span
from veridical.core.text import visible
from veridical.report.segments import segment, within

__all__ = ["FEW", "Mark", "Piece", "pieces"]

FEW = 4  # what one place says on hover, and how many links back stand beside it


@dataclass(frozen=True, slots=True)
class Mark:
    """One mark over a text: its anchor, CSS class, link, and what is said on hover and by a screen reader.

    `refs` are (anchor, text) of the links that stand behind it; an empty `anchor` cannot be linked to.
    """

    span: Span
    anchor: str
    kind: str
    href: str | None = None
    hover: str = ""
    spoken: str = ""
    refs: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of text under the same marks. `id` is its own anchor, `anchors` others that begin here too."""

    text: str
    kinds: tuple[str, ...] = ()
    id: str | None = None
    anchors: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    href: str | None = None
    hover: str = ""
    spoken: tuple[str, ...] = ()
    ends: bool = False
    refs: tuple[tuple[str, str], ...] = ()
    gap: bool = False


def pieces(text: str, marks: Sequence[Mark], windows: Sequence[Span] | None = None) -> tuple[Piece, ...]:
    """`text` cut at every boundary of `marks`; with `windows` only what lies in them, with gaps between.

    `keys` are set where a mark had to be cut or begins together with another one: only then can a link's target not
    be found by its id alone.
    """
    shown = [Span(0, len(text))] if windows is None else windows
    cuts = [edge for window in shown for edge in (window.start, window.end)]
    segments = segment(len(text), [(mark.span, mark) for mark in marks], cuts=cuts)
    begun: set[str] = set()
    return tuple(
        Piece("", gap=True) if found is None else _piece(text, found.start, found.end, found.marks, begun)
        for found in within(text, segments, shown)
    )


def _piece(text: str, start: int, end: int, marks: Sequence[Mark], begun: set[str]) -> Piece:
    shown = visible(text, start, end)
    if not marks:
        return Piece(shown)
    fresh = [mark for mark in marks if mark.anchor not in begun]
    begun.update(mark.anchor for mark in fresh)
    ids = [mark.anchor for mark in fresh if mark.anchor]
    linked = sorted((mark for mark in marks if mark.href), key=lambda mark: len(mark.span))
    ending = [mark for mark in marks if mark.span.end == end]
    hovers = dict.fromkeys(mark.hover for mark in marks if mark.hover)
    return Piece(
        text=shown,
        kinds=tuple(dict.fromkeys(mark.kind for mark in marks)) + (("place",) if start == end else ()),
        id=ids[0] if ids else None,
        anchors=tuple(ids[1:]),
        keys=tuple(
            mark.anchor for mark in marks if mark.anchor and (mark.span != Span(start, end) or mark.anchor in ids[1:])
        ),
        href=linked[0].href if linked else None,
        hover="\n".join(list(hovers)[:FEW]),
        spoken=tuple(dict.fromkeys(mark.spoken for mark in fresh if mark.spoken)),
        ends=any(mark.spoken for mark in ending),
        refs=tuple(ref for mark in ending for ref in mark.refs),
    )
