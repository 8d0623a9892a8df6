"""Decide by words alone about copied sentences, misplaced values and names, and statements of absence.

A copied sentence stands word for word in a source. Only a whole sentence that the source states counts, because a part
of a sentence may mean something else than the whole ("The drug works" in "The drug works in mice"), and so may a
sentence that the source quotes, doubts or denies. A value or name is misplaced if a source has it in another statement
("born in 1950", about somebody else). An absence is a statement that the sources lack something ("The policy does not
mention tents."). Only clear cases count. The rules are for English and take linear time.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from veridical.detectors.discrepancies.signs import has_more_units, sign_differences
from veridical.records.spans import Span
from veridical.records.types import Case, Source
from veridical.text.counterparts import compare_mention, stated
from veridical.text.mentions import Mention, Sentence, SentenceIndex, WeightedWord, index_of, word_pattern
from veridical.text.quantities import fold
from veridical.text.segment import sentences
from veridical.text.signs import signed
from veridical.text.stopwords import STOP_WORDS

__all__ = ["answers", "is_copied", "lacking", "matter_of_absence", "misplaced"]


def is_copied(sentence: str, text: str, *, whole: bool = True) -> bool:
    """Check whether a source contains the words and symbols of a sentence in the same order.

    Letter case and punctuation do not count.

    Args:
        sentence: The sentence of the response.
        text: The text of the source.
        whole: Whether the words must be a whole sentence or clause of `text`, which nothing around it denies or makes
            conditional.

    >>> is_copied("It rained", "In May, it rained."), is_copied("It rained", "It rained in May.")
    (True, False)
    >>> is_copied("It rained", "It is not true that it rained."), is_copied("p > 1", "p < 1")
    (False, False)
    """
    ours, theirs = signed(sentence), signed(text)
    for place in theirs.places(ours.forms) if ours.forms else ():
        if any(sign_differences(ours, theirs, place)) or has_more_units(ours, theirs, place):
            continue
        if not whole or _states(theirs.text, theirs.words[place].start, theirs.words[place + len(ours.forms) - 1].end):
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


_SENTENCES = 4  # source sentences to compare each mention with
_ALL, _FEWER = 0.95, 0.8  # shares of the weight of the sentence's other words


def misplaced(case: Case) -> Iterator[Mention]:
    """Yield the values and names of the response that its sources have, but in statements about something else.

    A value or name is misplaced in two cases. In the first case, a source sentence has all other content words of its
    sentence and another value or name of the same kind, while each source sentence with the value or name itself lacks
    some of these words. In the second case, another value clearly stands in its place in the closest source sentence
    (`compare_mention`).

    >>> from veridical.records.types import Source
    >>> source = Source("a", "Ann was born in 1950. Ben was born in 1962.")
    >>> text = "Ben was born in 1950."
    >>> [mention.span.of(text) for mention in misplaced(Case("1", text, (source,)))]
    ['1950']
    """
    index = index_of(tuple(source.text for source in case.sources))
    for sentence in index_of((case.response,)).sentences if len(index.sentences) > 1 else ():
        words = index.weighted(sentence)
        for mention in sentence.mentions:
            if not stated(index, sentence, mention):
                continue
            counterpart = None if mention.is_name else compare_mention(index, words, sentence, mention).counterpart
            if (counterpart is not None and counterpart.closest) or _of_another(index, sentence, words, mention):
                yield mention


def _of_another(index: SentenceIndex, sentence: Sentence, words: Sequence[WeightedWord], mention: Mention) -> bool:
    others = [word for word in words if mention.distance(word.token_i) > 0]
    if len(others) < 2 or (mention.is_name and mention.first == 0):  # a pronoun may stand for the subject
        return False
    matching = [i for i, _ in index.closest(others, _SENTENCES) if index.share(i, others) >= _ALL]
    if not matching or any(_has(index, i, sentence, mention) for i in matching):
        return False
    with_mention = {i for key in mention.keys for i in index.with_key(key) if _has(index, i, sentence, mention)}
    if any(index.share(i, others) > _FEWER for i in with_mention):
        return False
    sentence_keys = sentence.positions.keys()
    return any(
        option.kind == mention.kind and not set(option.keys) <= sentence_keys
        for i in matching
        for option in index.sentences[i].mentions
    )


def _has(index: SentenceIndex, i: int, sentence: Sentence, mention: Mention) -> bool:
    """Check whether source sentence `i` has the mention.

    The number of "120 patients" must not belong to another measure there ("120 days").
    """
    source = index.sentences[i]
    if mention.kind != "number" or not sentence.counts(mention.last):
        return not index.keys[i].isdisjoint(mention.keys)
    tokens = [source.tokens[k] for key in mention.keys for k in source.positions.get(key, ())]
    return any(not set(token.keys).isdisjoint(mention.keys) for token in tokens)


def matter_of_absence(sentence: str, sources: Sequence[Source] = ()) -> Span | None:
    """Return the part of a sentence that names what the sources lack, or None if the sentence says anything else.

    The sentence may refer to a source by a common word for documents ("the policy") or by words of the source's id.

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
    """Check that no source says anything about `matter`.

    The sources lack it if they lack one of its content words. They have it if one sentence has all of these words, does
    not itself say that something is unknown, and has a value or name of the kind that is asked for ("when …"). In all
    other cases, the words do not decide, and the result is None.

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

    The question must have at least two content words. The sentence must have all of them, and a value or name of the
    kind that is asked for.

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
