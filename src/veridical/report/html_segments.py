"""A marked text in segments for the page: where each begins, how it looks, what it links to and what links to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from veridical.core.spans import Span
from veridical.core.text import visible
from veridical.report.segments import segment, within

__all__ = ["FEW", "HtmlSegment", "Mark", "html_segments"]

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
class HtmlSegment:
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


def html_segments(text: str, marks: Sequence[Mark], windows: Sequence[Span] | None = None) -> tuple[HtmlSegment, ...]:
    """`text` cut at every boundary of `marks`; with `windows` only what lies in them, with gaps between.

    `keys` are set where a mark had to be cut or begins together with another one: only then can a link's target not
    be found by its id alone.
    """
    shown = [Span(0, len(text))] if windows is None else windows
    cuts = [edge for window in shown for edge in (window.start, window.end)]
    segments = segment(len(text), [(mark.span, mark) for mark in marks], cuts=cuts)
    begun: set[str] = set()
    result = []
    for part in within(text, segments, shown):
        if part is None:
            result.append(HtmlSegment("", gap=True))
            continue
        words, span = visible(text, part.start, part.end), Span(part.start, part.end)
        first = [mark for mark in part.marks if mark.anchor not in begun]
        begun.update(mark.anchor for mark in first)
        ids = [mark.anchor for mark in first if mark.anchor]
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
                spoken=tuple(dict.fromkeys(mark.spoken for mark in first if mark.spoken)),
                ends=any(mark.spoken for mark in ending),
                refs=tuple(ref for mark in ending for ref in mark.refs),
            )
        )
    return tuple(result)
