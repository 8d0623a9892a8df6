"""Find the names, numbers and times in a text, and replacements for them, by rules for English text with capitals."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random

from veridical.records.spans import Span
from veridical.records.types import Case, Example
from veridical.text.segment import sentences
from veridical.text.stopwords import STOP_WORDS
from veridical.text.vocabulary import MONTHS, WEEKDAYS


@dataclass(frozen=True, slots=True, order=True)
class NamedMention:
    """A place in a text that mentions a name, a number or a time, with its kind.

    `kind` is "name", "number" or "time" (a month, a weekday), or a kind of name from `name_kinds`.
    """

    span: Span
    kind: str


YEAR = re.compile("1[0-9]{3}|20[0-9]{2}")
_TRIES = 30
COUNTS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_NUMBER = re.compile(r"(?<![\w.,'’-])\d{1,3}(?:,\d{3})+(?:\.\d+)?(?!\w)|(?<![\w.,'’-])\d+(?:\.\d+)?(?!\w|[.,–-]\d)")
_COUNT = re.compile(rf"(?<![\w-])(?:{'|'.join(COUNTS)})(?![\w-])", re.IGNORECASE)
_TIME = re.compile(rf"(?<!\w)(?:{'|'.join(name.capitalize() for name in (*MONTHS, *WEEKDAYS))})(?!\w)")
_WORD = r"[A-Z][\w]*(?:[-'’][A-Z][\w]*)*"
_SMALL = re.compile(r"(?<!\w)[a-z]\w*")
_NAME = re.compile(rf"(?<!\w){_WORD}(?:[ ](?:of the |of |de |la |van |von )?{_WORD})*(?!\w)")


def find_mentions(text: str, *, known: str = "") -> list[NamedMention]:
    """Find the names, numbers and times in a text, in order. No mention is inside another.

    A single capitalised word counts as a name only if `text` and `known` never have it in lower case. If it begins a
    sentence, it must also occur inside a sentence.

    >>> text = "In 1998 Ann Berg saw three owls in May."
    >>> [mention.span.of(text) for mention in find_mentions(text)]
    ['1998', 'Ann Berg', 'three', 'May']
    """
    mentions = [NamedMention(Span(*m.span()), "number") for p in (_NUMBER, _COUNT) for m in p.finditer(text)]
    mentions += [NamedMention(Span(*m.span()), "time") for m in _TIME.finditer(text)]
    taken = {mention.span.start for mention in mentions}
    openers = {sentence.start for sentence in sentences(text)}
    inside = _inside_sentences(text) | _inside_sentences(known)
    small = {m[0] for t in (text, known) for m in _SMALL.finditer(t)}
    for match in _NAME.finditer(text):
        span = _without_opener(Span(*match.span()), text, openers, inside)
        if span is None or span.of(text).lower() in small or not taken.isdisjoint(range(span.start, span.end)):
            continue
        mentions.append(NamedMention(span, "name"))
    return sorted(mentions)


def _inside_sentences(text: str) -> set[str]:
    """Find the capitalised words that occur inside sentences, and not only at the beginning."""
    openers = {sentence.start for sentence in sentences(text)}
    return {m[0] for m in re.finditer(rf"(?<!\w){_WORD}", text) if m.start() not in openers and len(m[0]) > 1}


def _without_opener(span: Span, text: str, openers: set[int], inside: set[str]) -> Span | None:
    """Remove words from `span` that are capitalised only because they begin a sentence. None if nothing is left."""
    words = span.of(text).split(" ")
    while words and words[0].lower() in STOP_WORDS:
        span = Span(min(span.start + len(words[0]) + 1, span.end), span.end)
        words = words[1:]
    if len(words) == 1 and span.start in openers and words[0] not in inside:
        return None
    return span if len(span) > 1 else None


def shared_mentions(case: Case) -> list[tuple[str, str]]:
    """Find the phrases that the response and any source both mention, each with its kind, in order of the response."""
    joined = "\n\n".join(source.text for source in case.sources)
    kinds: dict[str, str] = {}
    for mention in find_mentions(case.response, known=joined):
        phrase = mention.span.of(case.response)
        if any(occurrences(source.text, phrase) for source in case.sources):
            kinds.setdefault(phrase, mention.kind)
    return list(kinds.items())


def occurrences(text: str, phrase: str, *, ignore_case: bool = False) -> list[Span]:
    """Find all places where `phrase` stands in `text` as whole words.

    >>> occurrences("Ann, Anna and Ann", "Ann")
    [Span(start=0, end=3), Span(start=14, end=17)]
    """
    pattern = rf"(?<![\w]){re.escape(phrase)}(?!\w|[.,]\d)"
    return [Span(*m.span()) for m in re.finditer(pattern, text, re.IGNORECASE if ignore_case else 0)]


class Names:
    """Collects the names in some texts for drawing similar names, in proportion to their frequency.

    Two names are similar if they have the same number of words, if both or neither are in capitals, and if both or
    neither are names of places. A name that follows "in", "near" or "across" anywhere counts as the name of a place.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        names: list[str] = []
        self._of_places: set[str] = set()
        for text in texts:
            for mention in find_mentions(text):
                if mention.kind == "name":
                    names.append(mention.span.of(text))
                    if text[: mention.span.start].endswith((" in ", " near ", " across ")):
                        self._of_places.add(names[-1])
        self._alike: dict[tuple[object, ...], list[str]] = {}
        for name in sorted(names):
            self._alike.setdefault(self._form(name), []).append(name)

    @classmethod
    def in_sources(cls, examples: Iterable[Example]) -> Names:
        """Collect the names in the sources of `examples`. If a source occurs several times, it is read only once."""
        return cls(dict.fromkeys(source.text for example in examples for source in example.case.sources))

    def _form(self, name: str) -> tuple[object, ...]:
        return len(name.split()), name.isupper(), name in self._of_places

    def like(self, name: str) -> Sequence[str]:
        """Return all names that are similar to `name`. They may include `name` itself."""
        return self._alike.get(self._form(name), ())


def substitute_for(phrase: str, kind: str, names: Names, texts: Sequence[str], draw: Random) -> str | None:
    """Draw a substitute for a phrase of this kind (as in `NamedMention`). Return None if there is none.

    None of `texts` has the substitute, neither in upper nor in lower case. Months, weekdays and number words are drawn
    from lists. A new number has as many digits as the old one, and a new year is at most thirty years earlier or later.
    """
    listed = next((words for words in (MONTHS, WEEKDAYS, COUNTS) if phrase.lower() in words), None)
    if kind == "name":
        pool = names.like(phrase)
        options = [draw.choice(pool) for _ in range(_TRIES if pool else 0)]
    elif listed is not None:
        options = [w.capitalize() if phrase[0].isupper() else w for w in draw.sample(listed, len(listed))]
    else:
        options = numbers_like(phrase, draw)
    low = [text.lower() for text in texts]
    fitting = (o for o in options if not any(o.lower() in text and occurrences(text, o.lower()) for text in low))
    return next(fitting, None)


def numbers_like(phrase: str, draw: Random) -> list[str]:
    """Draw some numbers in the same form as `phrase`."""
    digits = re.sub(r"\D", "", phrase)
    numbers: list[str] = []
    for _ in range(_TRIES):
        if len(phrase) == 4 and 1000 <= int(digits) <= 2100:
            new = str(max(1000, int(digits) + draw.choice([-1, 1]) * draw.randint(1, 30)))
        else:
            low = 10 ** (len(digits) - 1) if len(digits) > 1 and digits[0] != "0" else 2
            new = str(draw.randint(low, 10 ** len(digits) - 1)).zfill(len(digits))
        if new != digits:
            numbers.append(written_like(phrase, new))
    return list(dict.fromkeys(numbers))


def written_like(phrase: str, digits: str) -> str:
    """Replace the digits in `phrase`. Commas and points stay in their places."""
    left = iter(digits)
    return re.sub(r"\d", lambda _: next(left), phrase)
