"""Recognise sentences that are copied word for word from a source.

Only a whole sentence counts, because part of a sentence can mean something else: "The drug works" is not what "The drug
works in mice" says. A sentence that the source quotes, doubts or denies does not count, either. The rules are for
English and take linear time.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right

from veridical.detectors.discrepancies.signs import has_more_units, sign_differences
from veridical.text.segment import sentences
from veridical.text.signs import signed


def is_copied(sentence: str, text: str, *, whole: bool = True) -> bool:
    """Check whether a source contains the words and symbols of a sentence in the same order.

    Letter case and punctuation are ignored.

    Args:
        sentence: The sentence of the response.
        text: The text of the source.
        whole: If true, the words must form a complete sentence or clause of `text`, and nothing around them may deny it
            or make it conditional. If false, they may occur anywhere in `text`.

    >>> is_copied("It rained", "In May, it rained."), is_copied("It rained", "It rained in May.")
    (True, False)
    >>> is_copied("It rained", "It is not true that it rained."), is_copied("p > 1", "p < 1")
    (False, False)
    """
    ours, theirs = signed(sentence), signed(text)
    for first in theirs.occurrences(ours.forms) if ours.forms else ():
        if any(sign_differences(ours, theirs, first)) or has_more_units(ours, theirs, first):
            continue
        if not whole or _states(theirs.text, theirs.words[first].start, theirs.words[first + len(ours.forms) - 1].end):
            return True
    return False


def _states(text: str, start: int, end: int) -> bool:
    """Check whether `text[start:end]` is a whole sentence or clause that nothing around it denies."""
    spans = sentences(text)
    first = bisect_right(spans, start, key=lambda span: span.start) - 1
    last = bisect_left(spans, end, key=lambda span: span.start) - 1
    before, after = text[spans[first].start : start], text[end : spans[last].end]
    if not _OPENS_CLAUSE.search(before) or not _ENDS_CLAUSE.match(after):
        return False
    previous = spans[first - 1].of(text).rstrip("*_ ") if first else ""
    if previous.endswith(":"):
        before = f"{previous} {before}"
    following = spans[last + 1].of(text) if last + 1 < len(spans) else ""
    return not (_DOUBTS.search(before) or _DOUBTED.search(after) or _DENIED.match(following))


_MARK = r"[,;:\n|—–]"
_NO_MARK = r"[^\w,;:\n|—–]"
_OPENS_CLAUSE = re.compile(  # only marks follow the beginning of the text, a mark of `_MARK`, or one and a conjunction
    rf"(?:\A|(?<=[^\W_])(?:{_NO_MARK}|_)*+{_MARK}|{_MARK}{_NO_MARK}*+(?:and|but|so|yet|while)\s)[\W_]*+\Z",
    re.IGNORECASE,
)
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
