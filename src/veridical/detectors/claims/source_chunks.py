"""Sources as the text of a prompt, cut into windows where they are longer than a model reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from veridical.core.segment import sentences
from veridical.core.spans import Span
from veridical.core.types import Source

__all__ = ["document", "windows"]


def document(sources: Sequence[Source]) -> str:
    """The sources as one text for a prompt, each under its citation; a single one without stands as it is.

    >>> document([Source("a", "It rains.", citation="Ling, 2009"), Source("b", "It pours.")])
    '[Ling, 2009]\\nIt rains.\\n\\n[b]\\nIt pours.'
    """
    if len(sources) == 1 and sources[0].citation is None:
        return sources[0].text
    return "\n\n".join(f"[{source.citation or source.id}]\n{source.text}" for source in sources)


def windows(sources: Sequence[Source], limit: int | None) -> list[str]:
    """The sources as documents of at most `limit` characters each, in order (None = one document, whatever its length).

    Whole sources are packed together; a longer one is cut at the ends of sentences, the last of each part repeated at
    the start of the next, and within a sentence only where it is longer than the limit.
    """
    if limit is None or len(document(sources)) <= limit:
        return [document(sources)]
    parts: list[Source] = []
    for source in sources:
        head = len(document([source, source])) // 2 - len(source.text)
        parts += [replace(source, text=text) for text in _cut(source.text, max(1, limit - head))]
    packed: list[list[Source]] = [[]]
    for part in parts:
        if packed[-1] and len(document([*packed[-1], part])) > limit:
            packed.append([])
        packed[-1].append(part)
    return [document(pack) for pack in packed]


def _cut(text: str, limit: int) -> list[str]:
    if len(text) <= limit:
        return [text]
    pieces: list[Span] = []
    for span in sentences(text):
        step = max(1, limit // 2)  # what is cut within a sentence stands whole in one of two overlapping pieces
        pieces += [span] if len(span) <= limit else [
            Span(a, min(a + limit, span.end)) for a in range(span.start, max(span.start + 1, span.end - step), step)
        ]  # fmt: skip
    cuts: list[Span] = []
    for i, piece in enumerate(pieces):
        if cuts and piece.end - cuts[-1].start <= limit:
            cuts[-1] = Span(cuts[-1].start, piece.end)
        elif i and piece.end - pieces[i - 1].start <= limit:
            cuts.append(Span(pieces[i - 1].start, piece.end))
        else:
            cuts.append(piece)
    return [cut.of(text) for cut in cuts]
