"""Find sentences that a source has word for word: as a whole sentence, and not in order to deny it.

A part of a sentence may mean something else than the whole ("The drug works" in "The drug works in mice"), and so may a
sentence that the source quotes, doubts or denies. The word lists are English; the check takes linear time.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import lru_cache

from veridical.core.segment import sentences, word_forms
from veridical.core.spans import Span

__all__ = ["is_copied"]


def is_copied(said: Sequence[str], text: str, *, whole: bool = True) -> bool:
    """Check whether `text` has the words of a sentence in the same order; case and punctuation do not count.

    Args:
        said: The words of the sentence.
        text: The text of a source.
        whole: Whether the words must be a whole sentence or clause in `text` that nothing around it denies or makes
            conditional.

    >>> is_copied(["It", "rained"], "In May, it rained."), is_copied(["It", "rained"], "It rained in May.")
    (True, False)
    >>> is_copied(["It", "rained"], "It is not true that it rained.")
    False
    """
    if not said or f" {' '.join(said).lower()} " not in _words_of(text):
        return False
    if not whole:
        return True
    words = r"[\W_]*".join(map(re.escape, said))
    copy = re.compile(rf"(?<![^\W_]){words}(?![^\W_])", re.IGNORECASE)
    spans = _sentences_of(text)
    for match in copy.finditer(text):
        first = bisect_right(spans, match.start(), key=lambda span: span.start) - 1
        last = bisect_left(spans, match.end(), key=lambda span: span.start) - 1
        before, after = text[spans[first].start : match.start()], text[match.end() : spans[last].end]
        if not _OPENS_CLAUSE.search(before) or not _ENDS_CLAUSE.match(after):
            continue
        previous = spans[first - 1].of(text).rstrip("*_ ") if first else ""
        if previous.endswith(":"):
            before = f"{previous} {before}"
        following = spans[last + 1].of(text) if last + 1 < len(spans) else ""
        if not (_DOUBTS.search(before) or _DOUBTED.search(after) or _DENIED.match(following)):
            return True
    return False


_OPENS_CLAUSE = re.compile(r"(?:\A|[,;:\n|—–]\W*(?:(?:and|but|so|yet|while)\s+)?)[\W_]*\Z", re.IGNORECASE)
_ENDS_CLAUSE = re.compile(
    r"[\W_]*\Z|[\s\"”’)\]]*(?:[.!?;:\n|—–]|,[\"”’]?\s*(?:and|but|so|yet|or|while|which|who|where|although|though|as)\b)",
    re.IGNORECASE,
)
_FALSE = (
    r"(?:false|untrue|wrong|incorrect|inaccurate|misleading|baseless|unfounded|nonsense|"
    r"an? (?:\w+ )?(?:myth|lie|error|hoax)|"
    r"not (?:\w+ )?(?:true|correct|the case))"
)
_REFUSED = r"(?:denied|denies|refuted|rejected|disputed|debunked|dismissed|retracted)"
_DOUBTS = re.compile(
    rf"\b(?:{_FALSE}|{_REFUSED}|deny\w*|myths?|no evidence|contrary|contradict\w*|doubt\w*|if|unless|whether|claim\w*|"
    r"alleg\w*|rumou?r\w*|suppos\w*|falsely|wrongly|mistakenly|formerly|used to|suggest\w*|propos\w*|hypothes\w*)\b",
    re.IGNORECASE,
)
_DOUBTED = re.compile(
    r"\b(?:is|are|was|were|be|been|proved|turned out|but|though|although|which|yet|however)\b.{0,60}"
    rf"\b(?:{_FALSE}|{_REFUSED})\b"
    r"|\b(?:claims?|claimed|alleged|alleges)\b",
    re.IGNORECASE,
)
_DENIED = re.compile(
    r"\W*(?:this|that|it|these|the (?:claim|statement|report|rumou?r|story|allegation)s?|such|both|all)\b.{0,40}?"
    rf"\b(?:{_FALSE}|{_REFUSED})\b(?! (?:that|to|for)\b)|\W*(?:false|untrue|wrong|incorrect|not true|no)\W",
    re.IGNORECASE,
)


@lru_cache(maxsize=16)
def _words_of(text: str) -> str:
    return f" {' '.join(word_forms(text)).lower()} "


@lru_cache(maxsize=16)
def _sentences_of(text: str) -> list[Span]:
    return sentences(text)
