"""Blank text that makes no claim: citation marks, numbers of list items, headings, words that frame the answer.

An encoder that has not seen "[2]", "3." or "Here is a summary of the text:" in training takes them for unsupported
text. The rules are for the output of language models; word lists are English. They take linear time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from veridical.core.segment import sentences
from veridical.core.spans import Span
from veridical.core.types import Source
from veridical.detectors.claims.citations import find_citations, resolve_citation
from veridical.detectors.claims.framing import framing_sentences, is_refusal, may_frame
from veridical.detectors.claims.markup import blanked, without_markup

__all__ = ["without_unclaimed"]


def without_unclaimed(
    text: str, sources: Sequence[Source], *, with_citations: bool = False, with_refusals: bool = False
) -> str:
    """Return `text` with blanks in place of everything that makes no claim; all other words keep their positions.

    Citations by author and year are blanked if they refer to one of the sources.

    Args:
        text: A response.
        sources: Its sources.
        with_citations: Whether to keep citations.
        with_refusals: Whether to keep refusals, for a case in which they wrongly claim that the sources have no answer.

    >>> without_unclaimed("1. It is red [2]. It is old (source 3).", ())
    '-  It is red.     It is old.           '
    >>> without_unclaimed("Here is a summary:\\nIt is red.", ())
    '                  \\nIt is red.'
    >>> without_unclaimed("Yes, it is red.", ())
    '     it is red.'
    """
    text = without_markup(text)
    if not with_citations and (_MAY_CITE.search(text) or any(source.citation for source in sources)):
        marks: list[Span] = []
        for citation in find_citations(text, sources):
            if citation.mark is not None or resolve_citation(citation, sources):
                marks += (citation.span, citation.group)
        text = _STRAY_STOP.sub(r"\g<stop>\g<gap>", blanked(text, marks))
    text = _ITEM.sub(_without_number, text)
    text = _WORDS.sub(lambda words: " " * len(words[0]), text)
    named = [
        Span(*match.span())
        for match in _NUMBERED.finditer(text)
        if all(1 <= int(number) <= len(sources) for number in re.findall(r"\d+", match[0]))
    ]
    if named and not any(_NUMBERED.search(source.text) for source in sources):
        text = blanked(text, named)
    if may_frame(text):
        framing = framing_sentences(text, sentences(text))
        framing = [span for span in framing if not (with_refusals and is_refusal(span.of(text)))]
        text = blanked(text, framing)
    return text


def _without_number(item: re.Match[str]) -> str:
    """Replace the number of a list item by a dash, so that it stays an item; by blanks if other marks precede it."""
    return item["lead"] + (" " if item["lead"].strip() else "-").ljust(len(item["number"]))


_MAY_CITE = re.compile(r"[\[【¹²³⁰⁴-⁹]|\([^()]*\d")
_STRAY_STOP = re.compile(r"(?<![ \t])(?P<gap>[ \t]{2,}+)(?P<stop>[.,;:!?]+)")  # left behind by a blanked mark
_LABELS = "step|finding|point|item|part|section|fact|claim|argument|reason|tip|option|question|answer|takeaway|insight"
_ITEM = re.compile(
    r"^(?P<lead>[ \t>#*_•–-]*+)"
    rf"(?P<number>\(?\d{{1,2}}(?:\.\d{{1,2}})*[.)]|\(?[a-z]\)|(?:key )?(?:{_LABELS}) \d{{1,2}}[.:)])"
    r"(?=[*_]*[ \t]+[*_]*\S)",
    re.IGNORECASE | re.MULTILINE,
)
_PLACES = r"(?:sources?|documents?|passages?|articles?|texts?|papers?|excerpts?|snippets?|references?)"
_WORDS = re.compile(
    # a short heading without a number above other text; a label of the whole answer; a tag around it
    r"^(?: {0,3}#{1,6} +[^\n\d]{1,60}|[ *_]{0,3}[^\W\d]+(?: [^\W\d]+){0,3}[*_]{0,3}:[*_]{0,3}[ ]*)$(?=\s+\S)"
    r"|^[^\w\n]{0,8}(?:tl;?dr|(?:short |final )?answer|summary|conclusion|overview|response|note|a)"
    r"[^\w\n]{0,4}?:(?=.*\w)"
    r"|</?(?:answer|summary|response|output|result)>"
    # the ordinal of a source
    rf"|\b(?:first|second|third|fourth|fifth|last)(?= {_PLACES}\b)"
    # words before the claim, at the beginning of a sentence
    r"|(?:^|(?<=[.!?\n] ))(?:(?:yes|no)[,.:;!](?= ?\w)|(?:in (?:conclusion|summary|short|brief)|overall"
    r"|to (?:summari[sz]e|sum up|conclude))\b,?(?= \w)"
    r"|(?:first|second|third|final|last|additional|further)(?:ly|more)?,(?= \w)"
    r"|(?:moreover|in addition|however|therefore|thus|next),(?= \w)"
    r"|as an ai(?: (?:large )?(?:language )?model| assistant)?,(?= \w)"
    r"|the (?:short |final |correct )?answer (?:to (?:the|your|this) question )?is(?: that)?:?(?= \w))",
    re.IGNORECASE | re.MULTILINE,
)
_NUMBERED = re.compile(
    r"\b(?:source|document|passage|excerpt|snippet)s? #?\d{1,2}(?:(?:,|,? and| &) \d{1,2})*\b", re.IGNORECASE
)
