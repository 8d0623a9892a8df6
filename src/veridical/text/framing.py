"""Blank out text that makes no claim, such as citation marks, list numbers, headings, or framing sentences.

A framing sentence introduces or ends an answer ("Here is a summary of the text:"), makes small talk, or refuses to
answer. An encoder that never saw such text, "[2]" or "3." in training mistakes it for unsupported claims. To blank out
means to replace by spaces, so all positions remain valid. The rules are written for the output of language models.
Their word lists are English, and they run in linear time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from veridical.records.spans import Span
from veridical.records.types import Source
from veridical.text.citations import find_citations, footnotes, resolve_citation, tagged_marks
from veridical.text.markup import blanked, without_markup
from veridical.text.segment import sentences


def may_frame(text: str) -> bool:
    """Check quickly whether a text may contain a framing sentence, such as "Here is a summary:".

    If the result is False, `framing_sentences` finds none in this text, so you can skip its slower search.
    """
    return _MAY_FRAME.search(text) is not None


def framing_sentences(text: str, sentences: Sequence[Span]) -> list[Span]:
    """Find the framing sentences of a text: they introduce or end an answer, make small talk, or refuse to answer.

    A sentence such as "Certainly." counts only beside other sentences, because it can also be the complete answer.

    Args:
        text: The text, such as a response.
        sentences: The spans of all its sentences, in order.

    >>> text = "Sure! Here is a summary of the text: Ann left. Let me know if you need more."
    >>> spans = [Span(0, 5), Span(6, 36), Span(37, 46), Span(47, 76)]
    >>> [span.of(text) for span in framing_sentences(text, spans)]
    ['Sure!', 'Here is a summary of the text:', 'Let me know if you need more.']
    """
    if not may_frame(text):
        return []
    plain = {span: _plain(span.of(text)) for span in sentences}
    short = {span: words for span, words in plain.items() if len(words) <= 300}
    framing = {span for span, words in short.items() if _FRAME.fullmatch(words) or _REFUSAL.fullmatch(words)}
    polite = {span for span, words in plain.items() if _POLITE.fullmatch(words)}
    if len(framing | polite) < len(plain) or framing:
        framing |= polite
    return [span for span in sentences if span in framing]


def is_refusal(sentence: str) -> bool:
    """Check whether a sentence only says that there is no answer, without repeating the question.

    >>> is_refusal("I'm sorry, but I don't know."), is_refusal("The text does not say when it was built.")
    (True, False)
    """
    return len(sentence) <= 300 and _REFUSAL.fullmatch(_plain(sentence)) is not None


def _plain(sentence: str) -> str:
    """Remove emphasis, repeated spaces and the marks at both ends from `sentence`."""
    return " ".join(sentence.replace("**", "").split()).strip("*_#>-• ").rstrip(".!? ")


_MAY_FRAME = re.compile(
    r"\b(?:here(?:['’]s| is| are)|below|following|let me|feel free|hesitate|hope|questions?|anything else|"
    r"would you|could you|can you|do you want|if you|should you|no problem|welcome|hello|hi|hey|day|happy|glad|"
    r"summary|overview|answer|conclusion|response|key|main|sure|certainly|of course|absolutely|okay|ok|good|thanks?|"
    r"help|please|"
    r"sorry|afraid|apolog\w+|an ai|how are you|bye|goodbye|care|regards|understood|got it|noted|no worries|nice to|"
    r"know|known|unknown|unclear|n/?a|no idea|information|data|details?|context|able|unable|cannot|can ?not|can['’]t|"
    r"couldn['’]t|could not|not|doesn['’]t|don['’]t|insufficient|unanswerable|no comment)\b",
    re.IGNORECASE,
)
_POLITE = re.compile(r"(?:sure|certainly|of course|absolutely|okay|ok)(?: thing)?,?", re.IGNORECASE)
_WHAT = (
    "summary|summaries|overview|answers?|list|points|steps|details|information|breakdown|response|explanation|"
    "highlights|takeaways|facts"
)
_GREETING = (
    r"(?:hello|hi|hey|welcome|greetings|good (?:morning|afternoon|evening|day))"
    r"(?:,? (?:there|everyone|all|again|back))?"
)
_OFFER = (
    r"(?:how|what) (?:can|may|could) i (?:help|assist|do)(?: for)?(?: you)?(?: out)?(?: with)?"
    r"(?: (?:today|that|this|now|further))*"
)
_CANNOT = r"(?:do not|don['’]t|cannot|can ?not|can['’]t|am (?:not able|unable) to)"
_FRAME = re.compile(
    r"(?:(?:that(?:['’]s| is)|what) an? )?(?:great|good|excellent|interesting) question"
    r"|thank(?:s| you) for (?:your question|asking)\b.{0,60}|no problem|you(?:['’]re| are) welcome"
    rf"|{_GREETING}|(?:{_GREETING},? |and |so |now,? )?{_OFFER}"
    r"|how are you(?: doing)?(?: today)?|nice to meet you|(?:good)?bye|take care|(?:kind|best|warm) (?:regards|wishes)"
    r"|understood|got it|noted|no worries|have an? (?:great|nice|good|wonderful) (?:day|one|weekend|evening)"
    r"|thank(?:s| you)(?: (?:so|very) much| a lot)?"
    r"(?: for (?:your|asking|reaching out|waiting|the (?:question|clarification|feedback))\b.{0,60})?"
    r"|(?:(?:i['’]?m |i am |we are |we['’]re )?(?:very |so |really )?sorry"
    r"|(?:i |we |please accept my |my )apolog(?:i[sz]e|ies))"
    r"(?: (?:for|about) (?:the|any|this|that|my|all) (?:\w+ )?(?:confusion|inconvenience|mistake|error|delay|trouble|"
    r"misunderstanding)\b.{0,40}| to hear (?:that|this))?"
    r"|let me (?:see|think)(?: (?:that|this|it|into)\b.{0,40})?"
    r"|(?:could|can|would) you (?:please )?(?:clarify|rephrase|specify|provide|share|paste|upload|tell me)\b\D{0,120}"
    r"|(?:[^\W\d]+(?: [^\W\d]+){0,3}: )?please (?:clarify|rephrase|specify|provide|share|paste|upload|confirm|choose|"
    r"select|wait|hold on|bear with me)\b\D{0,160}"
    r"|(?:i(?:['’]ll| will)|let me|let['’]s) (?:now |first |then |also |just |go ahead and )*"
    r"(?:check|search|look|proceed|try|retrieve|gather)\b.{0,160}"
    rf"|(?:as an ai\b.{{0,60}},? )?i {_CANNOT} (?:have|access|browse|give|provide|express|form) "
    r"(?:any |the |real-time |personal )*"
    r"(?:access|internet|opinions?|feelings|emotions|preferences|beliefs|experiences?|advice|ability)\b[^\d]{0,80}"
    r"|i(?:['’]m| am) here to (?:help|assist)\b.{0,60}"
    r"|(?:i(?:['’]d| would) be |i['’]m |i am )?(?:happy|glad) (?:i could |to )(?:help|assist|be of help)"
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
    r"|(?:would you (?:like|prefer)|do you want)\b(?: (?:me to|more|to know more|any)\b.{0,120}|\D{0,160})"
    r"|(?:do you have|any) (?:any |other |more |further )*questions\b.{0,60}",
    re.IGNORECASE,
)
_DOCUMENTS = (
    "texts?|contexts?|documents?|sources?|passages?|articles?|information|materials?|excerpts?|contents?|paragraphs?|"
    "reports?|references?"
)
_LOOSE = (  # words after a refusal that do not name the question
    r"(?:,? (?:you|with|to|on|in|for|from|by|based|about|at|that|this|these|those|it|so|an?|the|your|any|such|more|"
    r"further|moment|provided|given|above|available|supplied|retrieved|here|questions?|answers?|requests?|topic|matter|"
    rf"answer|determine|say|tell|help|assist|respond|sure|certain|anything|{_DOCUMENTS}))*"
)
_NO = r"(?:can(?: ?not|['’]t)|could(?: not|n['’]t)|(?:am|['’]m|are|was) (?:not able|unable) to|won['’]t)"
_DONT = r"(?:do(?:es)? not|do(?:es)?n['’]t|did not|didn['’]t)"
_SORRY = (
    r"(?:(?:(?:i['’]?m |i am |we are )?(?:very |so |really )?(?:sorry|afraid)|unfortunately|(?:my )?apologies|"
    r"i apologi[sz]e)[,.:;]? ?(?:but |that |however,? )?)?"
)
_REFUSALS = (
    rf"(?:i|we) (?:really )?{_DONT} (?:actually )?know(?: for sure)?",
    r"i(?:['’]m| am) not (?:really )?(?:sure|certain)|i have no (?:idea|information|answer|comment)",
    rf"(?:i|we) ?{_NO} (?:help|assist|answer|do|comply|provide|determine|say|tell|find|respond|be sure)",
    r"(?:that|this|it)(?: is|['’]s| was) (?:unknown|unclear|not (?:known|clear|specified|stated|mentioned))",
    r"(?:the|an) (?:answer|(?:requested )?information) (?:is|was) not "
    r"(?:known|stated|mentioned|provided|given|available)",
    r"unknown|unclear|unanswerable|n/?a|no (?:answer|information|data|idea|comment|mention)",
    r"not (?:applicable|specified|stated|mentioned|provided|given|known|available|found|sure|answerable)",
    r"(?:not enough|insufficient) (?:information|context|data)",
    r"(?:information|answer) not (?:available|found|provided|specified)",
    rf"(?:there(?: is|['’]s)|(?:i|we) {_DONT} have) "
    r"(?:(?:no|not|enough|insufficient|sufficient|any|the|relevant|such) )+"
    r"(?:information|details?|data|context|mention|answer)",
    rf"(?:(?:the|this|these|your|none of the) )?(?:(?:provided|given|available|above|retrieved) )*(?:{_DOCUMENTS})"
    rf"(?: (?:provided|given|above|supplied|available))? {_DONT} (?:seem to )?"
    r"(?:mention|say|specify|provide|contain|state|include|give|discuss|answer|tell|cover|have|address)",
    rf"it {_DONT} (?:mention|say|specify|state)",
)
_REFUSAL = re.compile(rf"{_SORRY}(?:{'|'.join(_REFUSALS)}){_LOOSE}", re.IGNORECASE)


def without_framing(
    text: str, sources: Sequence[Source], *, with_citations: bool = False, with_refusals: bool = False
) -> str:
    r"""Replace everything in `text` that makes no claim by spaces, so that all other words keep their positions.

    This concerns markup, citations, list numbers, headings, words before a claim ("Yes, "), and framing sentences,
    which introduce or end the answer or refuse to answer. A list number that begins a line becomes a dash. Citations by
    author and year are replaced only if they refer to one of the sources.

    Args:
        text: The response.
        sources: The sources of the response.
        with_citations: If true, citations are kept.
        with_refusals: If true, refusals are kept. Set this if the sources contain the answer, because a refusal is then
            a wrong claim.

    >>> without_framing("1. It is red [2]. It is old (source 3).", ())
    '-  It is red.     It is old.           '
    >>> without_framing("Here is a summary:\nIt is red.", ())
    '                  \nIt is red.'
    >>> without_framing("Yes, it is red.", ())
    '     it is red.'
    """
    if not with_citations:
        text = blanked(text, tagged_marks(text))
    text = without_markup(text)
    if not with_citations:
        text = without_citations(text, sources)
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


def without_citations(text: str, sources: Sequence[Source], *, only_known: bool = False) -> str:
    """Replace the citations in `text` by spaces.

    A citation by author and year is replaced only if it refers to one of the sources. A mark such as "[3]" is always
    replaced. With `only_known`, such a mark is replaced only if it refers to a source, or if it may not be a citation
    at all (`Citation.certain` is False).

    >>> without_citations("It is red [1], not old [2].", [Source("a", "It is red.")], only_known=True)
    'It is red,     not old [2].'
    """
    if not _MAY_CITE.search(text) and not any(source.citation for source in sources):
        return text
    notes = footnotes(text)
    marks: list[Span] = []
    for citation in find_citations(text, sources):
        known = citation.mark is not None and (not only_known or not citation.certain)
        if known or resolve_citation(citation, sources, notes):
            marks += (citation.span, citation.group)
    return _STRAY_STOP.sub(r"\g<stop>\g<gap>", blanked(text, marks))


def _without_number(item: re.Match[str]) -> str:
    """Replace the number of a list item by a dash, so that the line stays a list item.

    If another list mark stands before the number, replace the number by blanks.
    """
    return item["lead"] + (" " if item["lead"].strip() else "-").ljust(len(item["number"]))


_MAY_CITE = re.compile(r"[\[【¹²³⁰⁴-⁹]|\([^()]*+\)|</(?:sup|source|cite|ref|citation|doc)", re.IGNORECASE)
_STRAY_STOP = re.compile(r"(?<![ \t])(?P<gap>[ \t]{2,}+)(?P<stop>[.,;:!?]+)")  # left behind by a blanked mark
_LABELS = "step|finding|point|item|part|section|fact|claim|argument|reason|tip|option|question|answer|takeaway|insight|"
_LABELS += "flight|leg|segment|passenger|choice|alternative|example|result|detail|payment|trip"
_WHICH = "first|second|third|fourth|fifth|last|next|outbound|return|new|current|original|other|more"
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
    # the label of a list in a list ("First leg:"), which is no name
    rf"|^[ \t>*_•–-]*+(?:(?:{_WHICH}|{_LABELS}) ){{0,2}}(?:{_LABELS})s?(?: \d{{1,2}})?[*_ ]{{0,3}}:[*_ ]*+$(?=\s+\S)"
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
