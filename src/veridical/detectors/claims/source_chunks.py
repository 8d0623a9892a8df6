"""Format sources as the text of a prompt, and cut them into chunks if they are too long for a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from veridical.records.spans import Span
from veridical.records.types import Source
from veridical.text.segment import sentences


def format_sources(sources: Sequence[Source]) -> str:
    r"""Join the sources into the text of a prompt, with the citation or id of each source as its heading.

    The text of a single source without a citation is returned unchanged.

    >>> format_sources([Source("a", "It rains.", citation="Ling, 2009"), Source("b", "It pours.")])
    '[Ling, 2009]\nIt rains.\n\n[b]\nIt pours.'
    """
    if len(sources) == 1 and sources[0].citation is None:
        return sources[0].text
    return "\n\n".join(f"[{source.citation or source.id}]\n{source.text}" for source in sources)


def chunk_sources(sources: Sequence[Source], limit: int | None) -> list[str]:
    """Split the sources into texts of at most `limit` characters each, in order, for one prompt each.

    Without a limit, there is a single text. Short sources are combined into one text as long as they fit. Longer
    sources are split between sentences, and each part repeats the last sentence of the part before it. A sentence is
    split only if it is longer than the limit.
    """
    if limit is None or len(format_sources(sources)) <= limit:
        return [format_sources(sources)]
    parts: list[Source] = []
    for source in sources:
        heading = len(format_sources([source, source])) // 2 - len(source.text)
        parts += [replace(source, text=text) for text in _cut(source.text, max(1, limit - heading))]
    packs: list[list[Source]] = [[]]
    for part in parts:
        if packs[-1] and len(format_sources([*packs[-1], part])) > limit:
            packs.append([])
        packs[-1].append(part)
    return [format_sources(pack) for pack in packs]


def _cut(text: str, limit: int) -> list[str]:
    if len(text) <= limit:
        return [text]
    pieces: list[Span] = []
    for span in sentences(text):
        if len(span) <= limit:
            pieces.append(span)
            continue
        step = max(1, limit // 2)  # pieces overlap, so that words at a cut are whole in one of them
        last = max(span.start + 1, span.end - step)
        pieces += [Span(start, min(start + limit, span.end)) for start in range(span.start, last, step)]
    cuts: list[Span] = []
    for i, piece in enumerate(pieces):
        if cuts and piece.end - cuts[-1].start <= limit:
            cuts[-1] = Span(cuts[-1].start, piece.end)
        elif i and piece.end - pieces[i - 1].start <= limit:
            cuts.append(Span(pieces[i - 1].start, piece.end))
        else:
            cuts.append(piece)
    return [cut.of(text) for cut in cuts]
