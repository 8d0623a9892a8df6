"""What in a response makes no claim: citation marks, numbers of list items, sentences that only frame the answer.

An encoder that has not seen them in training takes "[2]", "3." and "Here is a summary of the text:" for something that
no source has. Rules for what language models write, English where they read words; linear.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from veridical.core.segment import sentences
from veridical.core.spans import Span
from veridical.core.types import Source
from veridical.detectors.claims.citations import find_citations, resolve_citation
from veridical.detectors.claims.framing import framing_sentences, may_frame

__all__ = ["without_unclaimed"]


def without_unclaimed(text: str, sources: Sequence[Source]) -> str:
    """`text` with blanks in place of what makes no claim; every other word stays where it is.

    Citations by author and year go where they stand in brackets and mean one of the sources.

    >>> without_unclaimed("1. It is red [2]. It is old (source 3).", ())
    '-  It is red.     It is old.           '
    >>> without_unclaimed("Here is a summary:\\nIt is red.", ())
    '                  \\nIt is red.'
    """
    if _MAY_CITE.search(text):
        marks = [
            citation.group
            for citation in find_citations(text, sources)
            if citation.mark is not None
            or (citation.certain and citation.group.of(text)[0] == "(" and resolve_citation(citation, sources))
        ]
        text = _STRAY_STOP.sub(r"\g<stop>\g<gap>", _blanked(text, marks))
    text = _ITEM.sub(_without_number, text)
    if may_frame(text):
        text = _blanked(text, framing_sentences(text, sentences(text)))
    return text


def _blanked(text: str, spans: Sequence[Span]) -> str:
    characters = list(text)
    for span in spans:
        characters[span.start : span.end] = (c if c == "\n" else " " for c in span.of(text))
    return "".join(characters)


def _without_number(item: re.Match[str]) -> str:
    """A list item with a dash for its number, so that it stays one; without even that inside of other marks."""
    return item["lead"] + (" " if item["lead"].strip() else "-").ljust(len(item["number"]))


_MAY_CITE = re.compile(r"[\[【¹²³⁰⁴-⁹]|\([^()]*\d")
_STRAY_STOP = re.compile(
    r"(?<![ \t])(?P<gap>[ \t]{2,}+)(?P<stop>[.,;:!?]+)"
)  # of a sentence whose last word was a mark
_LABELS = "step|finding|point|item|part|section|fact|claim|argument|reason|tip|option|question|answer|takeaway|insight"
_ITEM = re.compile(
    r"^(?P<lead>[ \t>#*_•–-]*+)"
    rf"(?P<number>\(?\d{{1,2}}(?:\.\d{{1,2}})*[.)]|\(?[a-z]\)|(?:key )?(?:{_LABELS}) \d{{1,2}}[.:)])"
    r"(?=[*_]*[ \t]+[*_]*\S)",
    re.IGNORECASE | re.MULTILINE,
)
