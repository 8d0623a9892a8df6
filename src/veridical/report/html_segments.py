"""Cut a text with overlapping marks into segments for the HTML page.

A mark highlights a span, such as a flagged span or a piece of evidence. A segment is a part of the text that has the
same marks throughout. It has the styles, anchors (HTML ids) and links of its marks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from veridical.records.spans import Span
from veridical.records.strings import visible
from veridical.report.segments import segment, within

FEW = 4  # the most hover lines and the most links back of one segment


@dataclass(frozen=True, slots=True)
class Mark:
    """One highlighted span of a text on the HTML page.

    Attributes:
        span: The highlighted characters.
        anchor: The HTML id of the mark. "" if nothing links to it.
        kind: The CSS class, such as "flag" or "proof".
        href: The anchor that the mark links to. None if it is no link.
        hover: The tooltip.
        spoken: A word for screen readers, such as "flagged".
        refs: The links that follow the mark, as pairs (anchor, text).
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
    """A part of a text that has the same marks throughout, ready for the HTML template.

    Attributes:
        text: The characters, with control characters made visible.
        kinds: The CSS classes of the marks.
        id: The anchor of the first mark that begins here. None if no mark with an anchor begins here.
        anchors: The anchors of further marks that begin here.
        keys: The anchors of marks that a link to one HTML id cannot highlight as a whole: marks that are cut into
            several segments, or begin together with another mark. CSS rules highlight all segments with the key.
        href: The anchor that the segment links to: that of the shortest mark with a link.
        hover: The tooltip.
        spoken: Words for screen readers, before the text.
        ends: True if a mark with words for screen readers ends here.
        refs: The links that follow the segment, as pairs (anchor, text).
        gap: True for a gap, where text is omitted. It has no text.
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
    """Cut `text` into segments, at the beginning and the end of every mark (a highlighted span).

    If you pass `windows`, which are the spans of the text to display, only the segments inside them are returned. A gap
    stands for the text that is omitted around them.

    A mark may be cut into several segments, or begin in the same place as another mark. A link to one HTML id would
    then not highlight the whole mark, so the anchors of such marks are put into the `keys` of their segments.
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
