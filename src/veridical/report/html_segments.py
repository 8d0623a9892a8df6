"""Cut a marked text into segments for the page. Each segment has a style, anchors, and links from and to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from veridical.records.spans import Span
from veridical.records.strings import visible
from veridical.report.segments import segment, within

FEW = 4  # the most hover lines and the most links back of one segment


@dataclass(frozen=True, slots=True)
class Mark:
    """One mark over a text, with its anchor ("" if it has none), CSS class (`kind`) and link (`href`).

    `hover` is shown when the pointer is over the mark, and `spoken` is read by a screen reader. `refs` are the (anchor,
    text) pairs of the links that follow the mark.
    """

    span: Span
    anchor: str
    kind: str
    href: str | None = None
    hover: str = ""
    spoken: str = ""
    refs: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class HtmlSegment:
    """A part of a text that has the same marks throughout.

    `id` is the first anchor that begins here, and `anchors` are the others. `keys` are explained in `html_segments`.
    """

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


def html_segments(text: str, marks: Sequence[Mark], windows: Sequence[Span] | None = None) -> tuple[HtmlSegment, ...]:
    """Cut `text` at every boundary of `marks`.

    If you pass `windows`, only the segments inside these windows are returned, with gaps between the windows.

    A mark may be cut into several segments, or begin in the same place as another mark. A link to one id would then not
    highlight the whole mark, so the anchors of such marks are put into the `keys` of their segments.
    """
    windows = [Span(0, len(text))] if windows is None else windows
    cuts = [edge for window in windows for edge in (window.start, window.end)]
    segments = segment(len(text), [(mark.span, mark) for mark in marks], cuts=cuts)
    started: set[str] = set()
    result = []
    for part in within(text, segments, windows):
        if part is None:
            result.append(HtmlSegment("", gap=True))
            continue
        words, span = visible(text, part.start, part.end), Span(part.start, part.end)
        starting = [mark for mark in part.marks if mark.anchor not in started]
        started.update(mark.anchor for mark in starting)
        ids = [mark.anchor for mark in starting if mark.anchor]
        linked = sorted((mark for mark in part.marks if mark.href), key=lambda mark: len(mark.span))
        ending = [mark for mark in part.marks if mark.span.end == part.end]
        keys = [mark.anchor for mark in part.marks if mark.anchor and (mark.span != span or mark.anchor in ids[1:])]
        kinds = dict.fromkeys(mark.kind for mark in part.marks)
        result.append(
            HtmlSegment(
                text=words,
                kinds=(*kinds, "place") if part.marks and not len(span) else tuple(kinds),
                id=ids[0] if ids else None,
                anchors=tuple(ids[1:]),
                keys=tuple(keys),
                href=linked[0].href if linked else None,
                hover="\n".join(list(dict.fromkeys(mark.hover for mark in part.marks if mark.hover))[:FEW]),
                spoken=tuple(dict.fromkeys(mark.spoken for mark in starting if mark.spoken)),
                ends=any(mark.spoken for mark in ending),
                refs=tuple(ref for mark in ending for ref in mark.refs),
            )
        )
    return tuple(result)
