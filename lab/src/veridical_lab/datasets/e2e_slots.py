"""Find where a description states each attribute of a place: name[The Eagle], priceRange[less than £20] … (E2E).

An attribute with its value is called a slot. Names are searched for verbatim, and other slots by words and figures that
express their values. A slot gets a place only if the text is clear about it, so the text must not mention another value
or have a vague word elsewhere. `stated_values` finds all values that the text states, whether or not they are in slots.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from veridical.records.errors import InputError
from veridical.records.spans import Span, union
from veridical.records.types import Source

Slot = tuple[str, str]  # a name and a value: ("area", "riverside")
_SLOT = re.compile(r"([^\[\]]+)\[([^\]]*)\]", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Unplaced:
    """Says why a slot has no place in the text: "not found", "another value is said" or "a vague mention"."""

    why: str


@dataclass(frozen=True, slots=True)
class Stated:
    """A value that a text states: at `span`, it says that the attribute `name` has the value `meaning`."""

    name: str
    meaning: str
    span: Span


def slot_of(source: Source) -> Slot:
    """Parse the name and the value of an attribute written as "name[value]".

    Raises:
        InputError: The text has another form.
    """
    match = _SLOT.fullmatch(source.text)
    if match is None:
        raise InputError(f"source {source.id!r} is no attribute", hint='attributes are written "area[riverside]"')
    return match[1].strip(), match[2]


# values that the same words stand for have one meaning; slots that are not in here are searched for verbatim
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
    """Return the meaning of a slot's value. Values that are expressed by the same words have the same meaning.

    >>> meaning(("priceRange", "cheap")) == meaning(("priceRange", "less than £20"))
    True
    """
    return VALUES.get(slot[0], {}).get(slot[1], slot[1])


def place_slots(text: str, slots: Sequence[Slot]) -> list[tuple[Span, ...] | Unplaced]:
    """Find all places where a text states each slot, or the reason why the slot has no place.

    >>> text = "The Eagle is a cheap, family friendly coffee shop."
    >>> [places[0].of(text) for places in place_slots(text, [("name", "The Eagle"), ("priceRange", "less than £20")])]
    ['The Eagle', 'cheap']
    """
    places: list[tuple[Span, ...] | Unplaced] = [Unplaced("not found")] * len(slots)
    rest = text
    proper = [i for i, (name, _) in enumerate(slots) if name not in VALUES]
    for i in sorted(proper, key=lambda i: -len(slots[i][1])):  # "The Mill Hotel" before "The Mill"
        spans = _verbatim(rest, slots[i][1])
        rest = _blanked(rest, spans)
        places[i] = tuple(spans) or places[i]
    for i in sorted(set(range(len(slots))) - set(proper)):
        places[i] = _place(rest, slots[i])
    return places


def says(text: str, slot: Slot, *, beside: Sequence[Slot] = ()) -> bool:
    """Return whether `text` states `slot`. Words that are part of a name in the slots `beside` are ignored."""
    if slot[1] not in VALUES.get(slot[0], {}):
        return bool(_verbatim(text, slot[1]))
    for name, value in beside:
        if name not in VALUES:
            text = _blanked(text, _verbatim(text, value))
    return any(value == meaning(slot) for value, _ in _MENTIONS[slot[0]](text))


def stated_values(text: str, slots: Sequence[Slot]) -> list[Stated]:
    """Find the values in `VALUES` that a text states, and wrong names for the place or for a nearby place.

    Words inside the names of `slots` are ignored. A name is wrong if it shares no word with any value of `slots`. It is
    looked for after "near" or a similar word. If the text never has the right name, it is also looked for as a subject.

    >>> statements = stated_values("A cheap pub near Hyde Park.", [("name", "The Eagle"), ("food", "French")])
    >>> [(s.name, s.meaning) for s in statements]
    [('eatType', 'pub'), ('priceRange', 'low'), ('near', 'Hyde Park')]
    """
    given_words = {word for _, value in slots for word in re.findall(r"\w+", value.casefold())} - {"the"}
    unnamed = any(name == "name" for name, _ in slots)
    unnamed = unnamed and not any(name == "name" and _verbatim(text, value) for name, value in slots)
    for name, value in sorted(slots, key=lambda slot: -len(slot[1])):
        if name not in VALUES:
            text = _blanked(text, _verbatim(text, value))
    statements = [Stated(name, value, span) for name, mentions in _MENTIONS.items() for value, span in mentions(text)]
    text = _blanked(text, [statement.span for statement in statements])
    places = [("near", match) for match in _NEAR.finditer(text)]
    if unnamed:
        places += [("name", match) for match in _SUBJECT.finditer(text)]
    for name, match in places:
        if given_words.isdisjoint(re.findall(r"\w+", match["v"].casefold())):
            statements.append(Stated(name, match["v"], Span(*match.span("v"))))
    return statements


def _place(text: str, slot: Slot) -> tuple[Span, ...] | Unplaced:
    name, value = slot
    if value not in VALUES[name]:
        spans = _verbatim(text, value)
        return tuple(spans) or Unplaced("not found")
    mentions = _MENTIONS[name](text)
    if not mentions:
        return Unplaced("a vague mention" if _VAGUE[name].search(text) else "not found")
    if any(other != meaning(slot) for other, _ in mentions):
        return Unplaced("another value is said")
    spans = union(span for _, span in mentions)
    if _VAGUE[name].search(_blanked(text, spans)):
        return Unplaced("a vague mention")
    return tuple(spans)


def _blanked(text: str, spans: Sequence[Span]) -> str:
    """Overwrite every character of `spans` with a full stop."""
    for span in spans:
        text = text[: span.start] + "." * len(span) + text[span.end :]
    return text


@lru_cache(maxsize=4096)
def _name_pattern(value: str) -> re.Pattern[str]:
    """Compile a pattern that finds a name with or without "the", in any case, and with or without accents on "e"."""
    bare = re.sub(r"^the\s+", "", value, flags=re.IGNORECASE)
    words = [re.sub("[eé]", "[eé]", re.escape(word)) for word in bare.split()]
    joined = r"[\s\-]+".join(words)
    return re.compile(rf"(?<!\w)(?:the\s+)?{joined}(?!\w)", re.IGNORECASE)


def _verbatim(text: str, value: str) -> list[Span]:
    return [Span(*match.span()) for match in _name_pattern(value).finditer(text)]


# --- mentions of slots whose values are words -------------------------------------------------------------------

Mentions = list[tuple[str, Span]]


def _finder(*patterns: tuple[str, str]) -> Callable[[str], Mentions]:
    """Make a finder from pairs of a meaning and a pattern. A group `v` in a pattern narrows the place."""
    compiled = [(value, re.compile(pattern, re.IGNORECASE)) for value, pattern in patterns]

    def mentions(text: str) -> Mentions:
        return [
            (value, Span(*match.span("v" if "v" in pattern.groupindex else 0)))
            for value, pattern in compiled
            for match in pattern.finditer(text)
        ]

    return mentions


def _graded(
    words: Mapping[str, str], alone: Mapping[str, str], figures: Mapping[str, str], before: str, after: str
) -> Callable[[str], Mentions]:
    """Make a finder of grades: a word beside the noun that it grades, a word that is clear alone, or a figure."""
    patterns: list[tuple[str, str]] = []
    for value, word in words.items():
        patterns.append((value, rf"\b(?P<v>{word})\b{before}"))
        patterns.append((value, rf"{after}(?P<v>{word})\b(?!{_OTHER_NOUN})"))
    return _finder(*patterns, *alone.items(), *figures.items())


_OTHER_NOUN = r"[\s-]+(?:customers?|consumers?|users?|pric\w+|rat(?:ed|ings?)|reviews?|quality|english|chinese)\b"
_BETWEEN = (  # words that may stand between "price" or "rating" and its grade
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
    "eatType": _finder(
        (
            "coffee shop",
            r"\bcoffee[\s-]*(?:shop\w*|house|bar|place|ship|shot|chop|shoo|establishment|spot)\b|\bcaf[eé]s?\b",
        ),
        ("restaurant", r"\brestaurants?\b"),
        ("pub", r"\bpubs?\b"),
    ),
    "food": _finder(
        ("Chinese", r"\bchinese?\b"),
        ("English", r"\b(?:english|british)\b"),
        ("Fast food", r"\bfast[\s-]*foods?\b"),
        ("French", r"\bfrench\b"),
        ("Indian", r"\bindian\b"),
        ("Italian", r"\bitalian\b"),
        ("Japanese", r"\bjapanese\b"),
    ),
    "area": _finder(
        (
            "city centre",
            r"\b(?:city|town|down\s?town)(?:['’]s)?[\s-]*cent(?:er|re)s?\b"
            r"|\bcent(?:er|re)\.?(?:\s+of)?(?:\s+the)?\s+(?:city|town)\b"
            r"|\b(?:heart|middle)\s+of\s+(?:the\s+)?(?:city|town)\b|\b(?:city|town|downtown|cent(?:er|re))\b",
        ),
        ("riverside", r"\briver(?:[\s-]*(?:side|bank|front))?\b"),
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
    """Find where the text says whether families are welcome. The spans include negations."""
    mentions: Mentions = []
    for match in _FRIENDLY.finditer(text):
        start = match.start()
        denied = _NEGATOR.search(text, max(0, start - 40), start)
        inner = any(match[g] for g in ("not1", "un", "un2", "un3", "not2", "adults"))
        if denied and inner:
            continue  # "not unsuitable for children" counts as vague
        mentions.append(("no" if denied or inner else "yes", Span(denied.start() if denied else start, match.end())))
    return mentions


_MENTIONS["familyFriendly"] = _families
_NAME = r"(?P<v>[A-Z][\w'’-]*(?:\s+(?:(?:of|the|and)\s+){0,3}[A-Z][\w'’-]*){0,8})"
_NEAR = re.compile(
    r"\b(?i:near(?:by)?(?:\s+to)?|next\s+(?:door\s+)?to|close\s+(?:to|by)|beside|opposite|adjacent\s+to)\s+(?i:the\s+)?"
    + _NAME
)
_SUBJECT = re.compile(
    rf"(?:\b(?i:called|named)\s+|(?:(?<=^)|(?<=[.,]\s))(?!(?:It|They|This|There|We|You|He|She|In|At)\b)){_NAME}"
    r"(?=\s+(?:is|was|are|has|have|serves?|offers?|provides?)\b|[.,]|$)",
    re.MULTILINE,
)
# words about a slot without a clear value: if one stands outside the places of a slot, the slot counts as unplaced
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
