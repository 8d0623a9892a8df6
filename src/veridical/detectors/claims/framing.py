"""Sentences that only introduce or end an answer ("Here is a summary of the text:") and make no claim.

Rules for what language models write in English; linear.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from veridical.core.spans import Span

__all__ = ["framing_sentences", "may_frame"]


def may_frame(text: str) -> bool:
    """Whether some sentence of `text` may be one; quick, for texts of which none is."""
    return _MAY_FRAME.search(text) is not None


def framing_sentences(text: str, sentences: Sequence[Span]) -> list[Span]:
    """Those of `sentences` that only introduce or end an answer, and say nothing of its matter.

    "Certainly." is one of them only beside other sentences: alone it is an answer.

    >>> text = "Sure! Here is a summary of the text: Ann left. Let me know if you need more."
    >>> spans = [Span(0, 5), Span(6, 36), Span(37, 46), Span(47, 76)]
    >>> [span.of(text) for span in framing_sentences(text, spans)]
    ['Sure!', 'Here is a summary of the text:', 'Let me know if you need more.']
    """
    if not may_frame(text):
        return []
    plain = {span: _plain(span.of(text)) for span in sentences}
    found = {span for span, said in plain.items() if len(said) <= 300 and _FRAME.fullmatch(said)}
    polite = {span for span, said in plain.items() if _POLITE.fullmatch(said)}
    if len(found | polite) < len(plain) or found:
        found |= polite
    return [span for span in sentences if span in found]


def _plain(sentence: str) -> str:
    return " ".join(sentence.replace("**", "").split()).strip("*_#>-• ").rstrip(".!? ")


_MAY_FRAME = re.compile(
    r"\b(?:here(?:['’]s| is| are)|below|following|let me know|feel free|hesitate|hope|questions?|anything else|"
    r"would you|do you want|if you|should you|no problem|welcome|hello|hi|day|happy|glad|summary|overview|answer|"
    r"conclusion|response|key|main|sure|certainly|of course|absolutely|okay|ok)\b",
    re.IGNORECASE,
)
_POLITE = re.compile(r"(?:sure|certainly|of course|absolutely|okay|ok)(?: thing)?,?", re.IGNORECASE)
_WHAT = (
    "summary|summaries|overview|answers?|list|points|steps|details|information|breakdown|response|explanation|"
    "highlights|takeaways|facts"
)
_FRAME = re.compile(
    r"(?:(?:that(?:['’]s| is)|what) an? )?(?:great|good|excellent|interesting) question"
    r"|thank(?:s| you) for (?:your question|asking)\b.{0,60}|no problem|you(?:['’]re| are) welcome"
    r"|hello|hi(?: there)?|have an? (?:great|nice|good|wonderful) day"
    r"|(?:i(?:['’]d| would) be |i['’]m |i am )?(?:happy|glad) to (?:help|assist)"
    r"(?: you)?(?: out)?(?: with (?:that|this|your question))?"
    r"|(?:final |short )?(?:summary|overview|answer|conclusion|response):?"
    r"|(?:key|main) (?:points|takeaways|findings|facts):?"
    r"|(?:(?:sure|certainly|of course|absolutely|okay|ok|yes)[!,.]? )?"
    r"(?:(?:based on|according to|from) (?:the |your )?(?:provided |given |above )?(?:[a-z]+ ){0,2}[a-z]+, )?"
    r"(?:here(?:['’]s| is| are)|below (?:is|are)|the following (?:is|are))"
    rf" (?:[^\d:]{{0,80}} )?(?:{_WHAT})\b[^\d:]{{0,120}}:"
    r"|(?:and |so |but )?(?:please |just )?(?:let me know|feel free|do(?:n['’]t| not) hesitate)\b.{0,160}"
    r"|i(?: do)? hope (?:this|that|it|these)\b.{0,80}\b(?:helps?|helpful|useful|clarif\w+|answers?)\b.{0,80}"
    r"|(?:if you (?:have|need|want|would like)|if you['’]d like|should you (?:have|need))\b.{0,80}"
    r"\b(?:questions?|help|assistance|details|information|clarification)\b.{0,80}"
    r"|is there anything else\b.{0,80}"
    r"|(?:would you like|do you want) (?:me to|more|to know more|any)\b.{0,120}"
    r"|(?:do you have|any) (?:any |other |more |further )*questions\b.{0,60}",
    re.IGNORECASE,
)
