"""Check statements such as "The policy does not mention tents." by searching for their words in the sources.

In this module, the matter of such a statement is the text that the sources are said to lack ("tents"). The rules decide
only clear cases, and only in English. They take linear time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from veridical.records.spans import Span
from veridical.records.types import Source
from veridical.text.mentions import Sentence, index_of, word_pattern
from veridical.text.quantities import fold
from veridical.text.stopwords import STOP_WORDS


def matter_of_absence(sentence: str, sources: Sequence[Source] = ()) -> Span | None:
    """Find what a sentence says the sources lack: "the price" in "The policy does not mention the price."

    The sentence may refer to a source by a common word such as "the policy", or by words from the id of the source.
    Return None if the sentence does not have this form, or if it says more than this.

    >>> sentence = "The policy does not mention the price."
    >>> matter_of_absence(sentence).of(sentence)
    'the price'
    >>> matter_of_absence("The text does not mention it, but the price is 5.")
    """
    if len(sentence) > 400 or not _MAY_BE_ABSENCE.search(sentence):
        return None
    absence = next((match for match in (form.fullmatch(sentence) for form in _ABSENCES) if match), None)
    if absence is None or _GOES_ON.search(absence["matter"]):
        return None
    subject = absence.groupdict().get("subject")
    if subject and not _NAMED.search(subject):
        ids = {word for source in sources for word in re.findall(r"[^\W\d_]{3,}", source.id.lower())}
        if ids.isdisjoint(re.findall(r"[^\W\d_]+", subject.lower())):
            return None
    where = _WHERE.search(absence["matter"])
    start, end = absence.span("matter")
    return Span(start, start + where.start() if where else end)


def lacking(sources: Sequence[Source], matter: str) -> bool | None:
    """Check whether the sources say nothing about `matter`, such as "the price" or "when the tower was built".

    Returns:
        True if a content word of `matter` occurs in no source. Also True if source sentences have all its content
        words, but none has the kind of value or name that is asked for (a date for "when …"). False if a sentence has
        both, and does not itself say that something is unknown. None if words alone cannot decide.

    >>> tower = [Source("a", "The tower was built in 1889.")]
    >>> lacking(tower, "when the tower was built"), lacking(tower, "who built the tower"), lacking(tower, "tents")
    (False, True, True)
    """
    index = index_of(tuple(source.text for source in sources))
    folded = fold(matter)
    asked = Sentence(matter, folded, word_pattern(folded), Span(0, len(matter)))
    words = [token.keys for token in asked.tokens if token.keys and token.form not in _GENERIC]
    if any(not any(key in index for key in keys) for keys in words) or not words:
        return True
    candidates = [
        i for i, sentence_keys in enumerate(index.keys) if all(not sentence_keys.isdisjoint(keys) for keys in words)
    ]
    if not candidates:
        return None
    kind = next((kind for kind, pattern in _ASKED.items() if pattern.search(matter)), "")
    if kind in ("date", "amount", "who", "where"):
        stated = frozenset(key for keys in words for key in keys)
        with_answer = []
        for i in candidates:
            for mention in index.sentences[i].mentions:
                before = index.sentences[i].form(mention.first - 1)
                if mention.is_name:
                    about = "who" if before in ("", "by") else "where" if before in ("in", "at", "on", "near") else ""
                else:
                    about = "date" if mention.kind in _DATES else "amount"
                if about == kind and not stated.issuperset(mention.keys):
                    with_answer.append(i)
        if not with_answer:
            return True
        candidates = with_answer
    elif kind == "other":
        return None
    silent = _SILENT if kind in ("", "whether") else _DENIES
    texts = [index.sentences[i].span.of(index.sentences[i].text) for i in candidates]
    return None if all(silent.search(text) for text in texts) else False


def answers(sources: Sequence[Source], question: str) -> bool:
    """Check whether a source sentence clearly answers a question.

    The question needs at least two content words. The sentence must have all of these words, and a value or name of the
    kind that is asked for, such as a date for "when".

    >>> tower = [Source("a", "The tower was built in 1889 by Ann.")]
    >>> answers(tower, "When was the tower built?"), answers(tower, "Why was the tower built?")
    (True, False)
    """
    content = {form for form in re.findall(r"\w+", fold(question)) if form not in _GENERIC and form not in STOP_WORDS}
    if len(content) < 2 or len(question) > 300 or not any(pattern.search(question) for pattern in _ASKED.values()):
        return False
    return lacking(sources, question) is False


_DATES = frozenset({"date", "year", "month", "weekday", "time", "decade"})
_ASKED = {
    "date": re.compile(r"\b(?:when|(?:what|which) (?:\w+ )?(?:year|date|day|month|time))\b", re.IGNORECASE),
    "amount": re.compile(r"\bhow (?:many|much|long|old|far|tall|high|big|large|heavy|deep|wide|fast)\b", re.IGNORECASE),
    "who": re.compile(r"\bwho\b", re.IGNORECASE),
    "where": re.compile(r"\bwhere\b", re.IGNORECASE),
    "other": re.compile(r"\b(?:what|which|why|how|whose|whom)\b", re.IGNORECASE),
    "whether": re.compile(
        r"\b(?:whether|if)\b|^\W*(?:is|are|was|were|do|does|did|can|could|may|must|will|has|have|had|should)\b",
        re.IGNORECASE,
    ),
}
_DENIES = re.compile(
    r"n['’]t\b|\b(?:not|no|never|none|nor|without|cannot|un(?:known|clear|specified|disclosed))\b", re.IGNORECASE
)
_SILENT = re.compile(
    r"(?:n['’]t|\b(?:not|no|never|without))\b.{0,40}\b(?:mention\w*|specif\w+|stat(?:e|ed)|disclos\w+|known?|given|"
    r"provided|information|details?|said|reveal\w*)\b|\bun(?:known|clear|specified|disclosed)\b",
    re.IGNORECASE,
)
_GENERIC = frozenset(  # words that do not tell what the question is about
    word
    for line in (
        "specific specifically explicit explicitly exact exactly precise particular information details detail mention",
        "mentioned anything regarding concerning related relevant much many long old far tall high big large heavy",
        "deep wide fast year date day month time whether could may must might would",
    )
    for word in line.split()
)
_NOUN = (
    r"(?:text|context|document|source|passage|article|information|material|excerpt|content|paragraph|report|policy|"
    r"contract|agreement|manual|guide|handbook|minute|note|leaflet|label|review|letter|email|mail|message|page|"
    r"website|site|section|table|transcript|statement|notice|announcement|recipe|abstract|study|paper|readme|changelog|"
    r"faq|term|brochure|listing|description|profile|biography|record|file|form|invoice|receipt|schedule|menu|summary|"
    r"story|book|chapter|post|blog|law|act|regulation|rule|instruction|specification|datasheet|memo|conversation|"
    r"dialogue|entry|list|plan|bulletin|newsletter|advert)(?:e?s)?"
)
_NAMED = re.compile(rf"\b(?:{_NOUN}|policies|studies|summaries)\b", re.IGNORECASE)
_DONT = r"(?:do(?:es)? not|do(?:es)?n['’]t|did not|didn['’]t|never|fails? to)"
_VERBS = "mention|say|specify|state|indicate|discuss|reveal|disclose|clarify|address"
_MORE_VERBS = f"{_VERBS}|provide|contain|include|give|describe|explain|offer|list|answer|tell|cover|have"
_OPENS = r"\W*+(?:(?:i['’]?m |i am )?(?:sorry|unfortunately|however|but)[,.]? (?:but )?)?"
_BARE = r"(?:text|context|document|source|passage|article|information|material|excerpt|content|paragraph|report)s?"
_BEFORE = (  # phrases before the matter
    rf"(?:(?:the|this|these|your|none of the) )?(?:(?:provided|given|available|above|supplied|retrieved|source) )*"
    rf"{_BARE}"
    rf"(?: (?:provided|given|above|supplied|available))? {_DONT} (?:\w+ )?(?:{_MORE_VERBS})",
    r"(?P<subject>(?:the|this|these|your|our|its) (?:[\w'’-]+ ){0,3}?[\w'’.-]+|[\w'’.-]+)"
    rf" {_DONT} (?:\w+ly )?(?:{_VERBS})(?: anything (?:about|on|regarding))?",
    r"(?:i|we) (?:can ?not|can['’]t|could not|couldn['’]t|am unable to|are unable to|was unable to) "
    r"(?:find|answer|determine|say|tell)",
    r"(?:i|we) (?:do not|don['’]t) (?:know|have (?:enough |any |the )?(?:information|details|data))",
    r"(?:there(?: is|['’]s) )?(?:no|not enough|insufficient) (?:information|mention|details?)"
    r"(?: (?:is|are|was) (?:made|given|provided|available))?",
    r"nothing (?:is|was) (?:said|mentioned|stated)",
    r"it(?: is|['’]s) not (?:mentioned|stated|specified|possible to (?:determine|say|answer))",
)
_IS_NOT = r"(?:(?:is|are|was|were) not|(?:is|are|was|were)n['’]t) (?:\w+ly )?"
_AFTER = (  # phrases after the matter
    rf"{_IS_NOT}(?:mentioned|specified|stated|discussed|disclosed)(?: (?:anywhere )?(?:in|by) (?P<subject>.{{1,80}}))?",
    rf"{_IS_NOT}(?:provided|given|listed|described|covered|addressed|included)(?: anywhere)? "
    r"(?:in|by) (?P<subject>.{1,80})",
)
_ABSENCES = [
    *(re.compile(rf"{_OPENS}(?:{form})\b\s*+(?P<matter>(?:.*\w)?)\W*", re.IGNORECASE | re.DOTALL) for form in _BEFORE),
    *(re.compile(rf"{_OPENS}(?P<matter>[^.;:]{{1,150}}?) {form}\W*", re.IGNORECASE) for form in _AFTER),
]
_MAY_BE_ABSENCE = re.compile(
    r"\b(?:not|no|nothing|never|cannot|fails?|insufficient|unable|none)\b|n['’]t\b", re.IGNORECASE
)
_WHERE = re.compile(
    rf"(?<!\s)\s++(?:anywhere )?(?:in|by|from|within) (?:the|this|these|your|any of the)(?: \w+){{0,2}}? {_NOUN}\W*$",
    re.IGNORECASE,
)
_GOES_ON = re.compile(
    r"\b(?:but|however|although|though|only|instead|except|because|since|it (?:does|says|states))\b", re.IGNORECASE
)
