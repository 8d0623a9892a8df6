"""Where a description says each attribute of a place: name[The Eagle], priceRange[less than £20] … (E2E).

Names are looked for as they are written; the other slots by the words and figures that stand for their values. A slot
is placed only if all that the text says of it is found: no mention of another value, no vague word left over.
`stated` finds what the text says of any slot, whatever was given.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from veridical.core.errors import InputError
from veridical.core.spans import Span, union
from veridical.core.types import Source

__all__ = ["VALUES", "Slot", "Stated", "Unplaced", "meaning", "place_slots", "says", "slot_of", "stated"]

Slot = tuple[str, str]  # a name and a value: ("area", "riverside")
_SLOT = re.compile(r"([^\[\]]+)\[([^\]]*)\]", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Unplaced:
    """Why a slot has no place: "not found", "another value is said" or "a vague mention"."""

    why: str


@dataclass(frozen=True, slots=True)
class Stated:
    """That a text states the value `meaning` of the attribute `name`, and where."""

    name: str
    meaning: str
    span: Span


def slot_of(source: Source) -> Slot:
    """The name and value of an attribute written "name[value]"; `InputError` for any other text."""
    match = _SLOT.fullmatch(source.text)
    if match is None:
        raise InputError(f"source {source.id!r} is no attribute", hint='attributes are written "area[riverside]"')
    return match[1].strip(), match[2]


# What is said the same way has one meaning; values of a slot in no table are looked for verbatim.
VALUES: Mapping[str, Mapping[str, str]] = {
    "eatType": {"restaurant": "restaurant", "pub": "pub", "coffee shop": "coffee shop"},
    "food": {n: n for n in ("Chinese", "English", "Fast food", "French", "Indian", "Italian", "Japanese")},
    "priceRange": {
        "cheap": "low",
        "less than £20": "low",
        "moderate": "middle",
        "£20-25": "middle",
        "high": "high",
        "more than £30": "high",
    },
    "customer rating": {
        "low": "low",
        "1 out of 5": "low",
        "average": "middle",
        "3 out of 5": "middle",
        "high": "high",
        "5 out of 5": "high",
    },
    "area": {"city centre": "city centre", "riverside": "riverside"},
    "familyFriendly": {"yes": "yes", "no": "no"},
}


def meaning(slot: Slot) -> str:
    """What a slot's value comes to: equal for values that the same words stand for.

    >>> meaning(("priceRange", "cheap")) == meaning(("priceRange", "less than £20"))
    True
    """
    return VALUES.get(slot[0], {}).get(slot[1], slot[1])


def place_slots(text: str, slots: Sequence[Slot]) -> list[tuple[Span, ...] | Unplaced]:
    """For each of `slots` all the places where `text` says it, in order, or why it has none.

    >>> text = "The Eagle is a cheap, family friendly coffee shop."
    >>> [places[0].of(text) for places in place_slots(text, [("name", "The Eagle"), ("priceRange", "less than £20")])]
    ['The Eagle', 'cheap']
    """
    found: list[tuple[Span, ...] | Unplaced] = [Unplaced("not found")] * len(slots)
    rest = text
    proper = [i for i, (name, _) in enumerate(slots) if name not in VALUES]
    for i in sorted(proper, key=lambda i: -len(slots[i][1])):  # "The Mill Hotel" before "The Mill"
        spans = _verbatim(rest, slots[i][1])
        rest = _blanked(rest, spans)
        found[i] = tuple(spans) or found[i]
    for i in sorted(set(range(len(slots))) - set(proper)):
        found[i] = _place(rest, slots[i])
    return found


def says(text: str, slot: Slot, *, beside: Sequence[Slot] = ()) -> bool:
    """Whether `text` says `slot` at least once; a word inside a name of the slots `beside` says nothing of its own."""
    if slot[1] not in VALUES.get(slot[0], {}):
        return bool(_verbatim(text, slot[1]))
    for name, value in beside:
        if name not in VALUES:
            text = _blanked(text, _verbatim(text, value))
    return any(said == meaning(slot) for said, _ in _MENTIONS[slot[0]](text))


def stated(text: str, slots: Sequence[Slot]) -> list[Stated]:
    """What `text` states of the attributes in `VALUES`, near which other place it is, and another name of the place.

    Words inside of the given names state nothing. Another name is one that shares no word with any given value, behind
    "near" or the like, or as the subject where the given name is never said.

    >>> found = stated("A cheap pub near Hyde Park.", [("name", "The Eagle"), ("food", "French")])
    >>> [(s.name, s.meaning) for s in found]
    [('eatType', 'pub'), ('priceRange', 'low'), ('near', 'Hyde Park')]
    """
    given = {word for _, value in slots for word in re.findall(r"\w+", value.casefold())} - {"the"}
    unnamed = any(name == "name" for name, _ in slots)
    unnamed = unnamed and not any(name == "name" and _verbatim(text, value) for name, value in slots)
    for name, value in sorted(slots, key=lambda slot: -len(slot[1])):
        if name not in VALUES:
            text = _blanked(text, _verbatim(text, value))
    found = [Stated(name, said, span) for name, mentions in _MENTIONS.items() for said, span in mentions(text)]
    text = _blanked(text, [statement.span for statement in found])
    places = [("near", match) for match in _NEAR.finditer(text)]
    if unnamed:
        places += [("name", match) for match in _SUBJECT.finditer(text)]
    for name, match in places:
        if given.isdisjoint(re.findall(r"\w+", match["v"].casefold())):
            found.append(Stated(name, match["v"], Span(*match.span("v"))))
    return found


def _place(text: str, slot: Slot) -> tuple[Span, ...] | Unplaced:
    name, value = slot
    if value not in VALUES[name]:
        spans = _verbatim(text, value)
        return tuple(spans) or Unplaced("not found")
    mentions = _MENTIONS[name](text)
    if not mentions:
        return Unplaced("a vague mention" if _VAGUE[name].search(text) else "not found")
    if any(said != meaning(slot) for said, _ in mentions):
        return Unplaced("another value is said")
    spans = union(span for _, span in mentions)
    if _VAGUE[name].search(_blanked(text, spans)):
        return Unplaced("a vague mention")
    return tuple(spans)


def _blanked(text: str, spans: Sequence[Span]) -> str:
    """`text` of the same length with a full stop for every character of `spans`."""
    for span in spans:
        text = text[: span.start] + "." * len(span) + text[span.end :]
    return text


@lru_cache(maxsize=4096)
def _name_pattern(value: str) -> re.Pattern[str]:
    """The value with or without its article, whatever its case and accents."""
    bare = re.sub(r"^the\s+", "", value, flags=re.IGNORECASE)
    words = [re.sub("[eé]", "[eé]", re.escape(word)) for word in bare.split()]
    joined = r"[\s\-]+".join(words)
    return re.compile(rf"(?<!\w)(?:the\s+)?{joined}(?!\w)", re.IGNORECASE)


def _verbatim(text: str, value: str) -> list[Span]:
    return [Span(*match.span()) for match in _name_pattern(value).finditer(text)]


# --- what is said of the slots whose values are words ---------------------------------------------------------------

Mentions = list[tuple[str, Span]]


def _by_patterns(**patterns: str) -> Callable[[str], Mentions]:
    """Mentions by one pattern a meaning ("city centre" is written city_centre); a group `v` narrows the place."""
    compiled = [(said.replace("_", " "), re.compile(p, re.IGNORECASE)) for said, p in patterns.items()]

    def mentions(text: str) -> Mentions:
        return [
            (said, Span(*(match.span("v") if "v" in pattern.groupindex else match.span())))
            for said, pattern in compiled
            for match in pattern.finditer(text)
        ]

    return mentions


def _graded(
    words: Mapping[str, str], alone: Mapping[str, str], figures: Mapping[str, str], before: str, after: str
) -> Callable[[str], Mentions]:
    """Mentions of a grade: a word beside what it grades, a word that says so alone, a figure."""
    compiled: list[tuple[str, re.Pattern[str]]] = []
    for said, word in words.items():
        compiled.append((said, re.compile(rf"\b(?P<v>{word})\b{before}", re.IGNORECASE)))
        compiled.append((said, re.compile(rf"{after}(?P<v>{word})\b(?!{_OTHER_NOUN})", re.IGNORECASE)))
    for table in (alone, figures):
        compiled += [(said, re.compile(rf"(?P<v>{p})", re.IGNORECASE)) for said, p in table.items()]

    def mentions(text: str) -> Mentions:
        return [(said, Span(*m.span("v"))) for said, pattern in compiled for m in pattern.finditer(text)]

    return mentions


_OTHER_NOUN = r"[\s-]+(?:customers?|consumers?|users?|pric\w+|rat(?:ed|ings?)|reviews?|quality|english|chinese)\b"
_BETWEEN = (  # words that may stand between "price" or "rating" and what it is said to be
    "is are was it its it's as of a an at very quite only in the by to be has have been being for just rather fairly "
    "considerably considered customers? our their also both with ranges? ranged ranging point level category on side "
    "and from"
)
_FILL = rf"(?:[\s,:-]+(?:{_BETWEEN.replace(' ', '|')}))"
_RATED = r"(?:rat(?:ed|e|es|ing|ings)|reviews?|reviewed|scores?|scored|feedback|recommended|reputation)"
_PRICED = r"(?:pric(?:e|es|ed|ing|ey|y)|costs?|costing|priceranged?)"


def _out_of_five(one: str) -> str:
    return (
        rf"\b(?:{one})(?:\.0)?(?:\s+stars?)?\s*(?:out\s*of|of|/|out)\s*(?:an?\s+)?(?:possible\s+)?(?:5|five)(?:[\s-]*stars?\b)?"
        rf"|(?<!of )(?<!of)(?<!/)\b(?:{one})[\s-]*stars?\b(?!\s*(?:out\s*)?of)"
    )


_MENTIONS: dict[str, Callable[[str], Mentions]] = {
    "eatType": _by_patterns(
        coffee_shop=r"\bcoffee[\s-]*(?:shop\w*|house|bar|place|ship|shot|chop|shoo|establishment|spot)\b|\bcaf[eé]s?\b",
        restaurant=r"\brestaurants?\b",
        pub=r"\bpubs?\b",
    ),
    "food": _by_patterns(
        Chinese=r"\bchinese?\b",
        English=r"\b(?:english|british)\b",
        Fast_food=r"\bfast[\s-]*foods?\b",
        French=r"\bfrench\b",
        Indian=r"\bindian\b",
        Italian=r"\bitalian\b",
        Japanese=r"\bjapanese\b",
    ),
    "area": _by_patterns(
        city_centre=(
            r"\b(?:city|town|down\s?town)(?:['’]s)?[\s-]*cent(?:er|re)s?\b"
            r"|\bcent(?:er|re)\.?(?:\s+of)?(?:\s+the)?\s+(?:city|town)\b"
            r"|\b(?:heart|middle)\s+of\s+(?:the\s+)?(?:city|town)\b|\b(?:city|town|downtown|cent(?:er|re))\b"
        ),
        riverside=r"\briver(?:[\s-]*(?:side|bank|front))?\b",
    ),
    "priceRange": _graded(
        {
            "low": r"cheap(?:er|ly)?|low(?:er|est)?",
            "middle": r"moderate(?:ly)?|moderated|average|mid|medium|middle|mid-range",
            "high": r"high(?:er|ly|est)?|above average",
        },
        {
            "low": r"\b(?:cheap|inexpensive|low[\s-]cost)(?:er|ly)?\b",
            "high": r"(?<!not )(?<!n't )\b(?:expensive|pric[e]?y|costly)\b",
        },
        {
            "low": (
                r"\b(?:less|lower|cheaper)\s+(?:than|then)\s*(?:£\s*)?20\b(?:\s*(?:pounds?|quid))?"
                r"|\b(?:under|below)\s*(?:£\s*)?20\b(?:\s*pounds?)?"
            ),
            "middle": (
                r"(?:\bbetween\s+)?(?:(?<![\w£])|£\s*)20\s*(?:pounds?)?\s*(?:-|–|to|and)+\s*(?:£\s*)?25\b(?:\s*pounds?)?"
            ),
            "high": (
                r"\b(?:more|higher|greater)\s+(?:than|then)\s*(?:£\s*)?30\b(?:\s*pounds?)?"
                r"|\b(?:over|above)\s*(?:£\s*)?30\b(?:\s*pounds?)?"
            ),
        },
        rf"[\s-]+(?:(?:in|to|range|quality)\s+)?{_PRICED}\b",
        rf"\b{_PRICED}(?:{_FILL}){{0,5}}[\s,:-]+",
    ),
    "customer rating": _graded(
        {
            "low": r"low(?:er|est)?|poor(?:ly)?|bad(?:ly)?",
            "middle": r"average|mediocre|medium|middling|moderate(?:ly)?",
            "high": r"high(?:er|ly|est)?|excellent|great|top|outstanding|exceptional|perfect|fantastic",
        },
        {},
        {"low": _out_of_five("1|one"), "middle": _out_of_five("3|three"), "high": _out_of_five("5|five")},
        rf"(?:[\s-]+(?:overall|quality|in|on|customers?['’]?s?|consumers?|users?|guests?|service|satisfaction)){{0,3}}[\s-]+{_RATED}\b",
        rf"\b{_RATED}(?:{_FILL}){{0,5}}[\s,:-]+",
    ),
}


_CHILD = r"(?:famil(?:y|ies)|kids?|child(?:ren)?|childrens|youngsters?|toddlers?)(?:['’]s?)?"
_FRIENDLY = re.compile(
    rf"\b(?P<not1>non?[\s-]+)?{_CHILD}(?:\s+and\s+{_CHILD})?[\s-]*(?P<un>un|non-?)?(?:friendly|freindly|oriented|orientated)\b"
    rf"|\b(?P<un2>un|non)?-?friendly\s+(?:to|for|towards?|with)\s+(?:all\s+|the\s+)?(?:whole\s+)?{_CHILD}"
    rf"|\b(?P<un3>un)?(?:suitable|suited|appropriate|good|great|ideal|perfect|recommended|fun)\s+(?:place\s+)?(?:for|to)\s+(?:all\s+|the\s+|your\s+)?(?:whole\s+|entire\s+)?{_CHILD}"
    rf"|\bwelcom(?:es?|ing)\s+(?:to\s+|of\s+|for\s+)?(?:all\s+|the\s+)?(?:whole\s+)?{_CHILD}"
    rf"|\b{_CHILD}\s+(?:are|is)\s+(?P<not2>not\s+|n['’]t\s+|un)?(?:always\s+|very\s+)?(?:welcomed?|allowed|permitted)\b"
    rf"|\b(?P<adults>adults?[\s-]+only|only\s+(?:for\s+)?adults|no\s+{_CHILD}(?:\s+allowed)?|{_CHILD}[\s-]free)\b",
    re.IGNORECASE,
)
_NEGATOR = re.compile(
    r"\b(?:not|isn['’]?t|aren['’]?t|wasn['’]?t|doesn['’]?t|don['’]?t|non|no|never|neither|nor)\b"
    r"(?:[\s-]+(?!and\b|but\b)[\w'’]+){0,3}[\s-]+$",
    re.IGNORECASE,
)


def _families(text: str) -> Mentions:
    """Mentions of whether families are welcome; the negation belongs to the place."""
    found: Mentions = []
    for match in _FRIENDLY.finditer(text):
        start = match.start()
        denied = _NEGATOR.search(text, max(0, start - 40), start)
        inner = any(match[g] for g in ("not1", "un", "un2", "un3", "not2", "adults"))
        if denied and inner:
            continue  # "not unsuitable for children": left to be vague
        found.append(("no" if denied or inner else "yes", Span(denied.start() if denied else start, match.end())))
    return found


_MENTIONS["familyFriendly"] = _families
_NAME = r"(?P<v>[A-Z][\w'’-]*(?:\s+(?:(?:of|the|and)\s+)*[A-Z][\w'’-]*)*)"
_NEAR = re.compile(
    r"\b(?i:near(?:by)?(?:\s+to)?|next\s+(?:door\s+)?to|close\s+(?:to|by)|beside|opposite|adjacent\s+to)\s+(?i:the\s+)?"
    + _NAME
)
_SUBJECT = re.compile(
    rf"(?:\b(?i:called|named)\s+|(?:(?<=^)|(?<=[.,]\s))(?!(?:It|They|This|There|We|You|He|She|In|At)\b)){_NAME}"
    r"(?=\s+(?:is|was|are|has|have|serves?|offers?|provides?)\b|[.,]|$)",
    re.MULTILINE,
)
# Words that speak of a slot without a clear value: where one stands outside the places found, the slot has none.
_VAGUE = {
    name: re.compile(rf"\b(?:{pattern})", re.IGNORECASE)
    for name, pattern in {
        "eatType": r"coffee|shops?\b|pubs?\b|bar\b|restaurant",
        "food": r"engl|brit|chin|french|indian|ital|japan|sushi|pasta|curry|noodle|fish and chips|fast",
        "priceRange": r"afford|budget|bargain|economic|reasonabl|expens|inexpens|money|pounds?\b|pricey|costly|£",
        "customer rating": r"popular|well[\s-]liked|acclaimed|stars?\b|out of|recommend|satisf|mediocre",
        "area": r"river|city|town|cent(?:re|er)",
        "familyFriendly": r"famil|kid|child|adult|all ages",
    }.items()
}
