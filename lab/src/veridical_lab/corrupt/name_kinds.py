"""Classify names as people, places, organisations or other things, by cues in and around the name.

The cues are titles, roles and verbs of people, "in X", "X Inc", "the River X". No list of names is used. A name without
a cue has the kind "name". You can also find names with a spaCy pipeline (`spacy_names`).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

from veridical.records.spans import Span
from veridical.text.names import is_name
from veridical.text.vocabulary import MONTHS, WEEKDAYS
from veridical_lab.corrupt.mentions import NamedMention, find_mentions

_TITLES = (
    "Mr Mrs Ms Dr Prof Professor President Senator Governor Mayor Judge Justice Sir Lady Lord King Queen Prince "
    "Princess Duke Earl Count Baron Emperor Pope Bishop Archbishop Cardinal Saint General Colonel Captain Major "
    "Lieutenant Admiral Sergeant Rabbi Imam Sheikh Sultan Chancellor Minister"
)
_ROLES = (
    "actor actress singer author writer poet novelist director producer president minister king queen prince emperor "
    "brother sister son daughter wife husband father mother uncle nephew cousin friend coach player artist composer "
    "journalist general captain professor historian philosopher architect painter musician politician lawyer judge "
    "senator governor mayor bishop driver striker footballer goalkeeper midfielder drummer guitarist bassist scientist "
    "physicist engineer businessman entrepreneur leader secretary spokesman spokeswoman analyst reporter critic "
    "economist surgeon physician sculptor dancer rapper wrestler boxer cricketer swimmer officer activist scholar"
)
_OF_PERSON = (
    "said says died wrote married argued believed studied graduated retired scored sang resigned recalled thought "
    "felt starred directed composed painted was_born is_survived"
)
_LAST_WORDS = {
    "organisation": "Inc Inc. Ltd Corp Corporation Company Co Group Bank University College School Institute Academy "
    "Party Club Association Society Church Council Committee Commission Ministry Department Agency Army Navy Records "
    "Press Hospital Foundation Union League Airlines Airways Motors Orchestra Band Team Board Bureau Court Police "
    "Parliament Senate Congress Times Guardian Herald Tribune Museum Library Studios Pictures Entertainment Media "
    "Network Television Radio Brigade Regiment Division Corps Federation Organization Organisation Administration "
    "Authority Service Services Industries Technologies Systems Centre Center Theatre Theater Assembly United FC",
    "place": "River Lake Mountain Mountains Island Islands County Street Road Avenue Bridge Park Airport Station "
    "Valley Bay Sea Ocean District Province City Town Village Beach Castle Square Hill Hills Coast Peninsula Region "
    "Desert Forest Tower Palace Stadium Arena Territory Mall House Hall Building Cathedral Temple Abbey Cemetery "
    "Railway Canal Harbour Harbor Parish Township Gardens Hotel",
    "event": "War Wars Battle Revolution Championship Championships Cup Olympics Games Festival Award Awards Prize "
    "Treaty Act Conference Election Elections Tour Trophy Open Series Season Parade Race",
    "work": "Journal Magazine Review Studies Gazette News Show Album Symphony",
}
_FIRST_WORDS = {
    "place": "Lake Mount River Port Fort Cape Camp San",
    "organisation": "University Bank Ministry Department Church FC College Institute Academy School",
    "event": "Battle Treaty Siege",
    "person": _TITLES,
}
_LAST = {word: kind for kind, words in _LAST_WORDS.items() for word in words.split()}
_FIRST = {word: kind for kind, words in _FIRST_WORDS.items() for word in words.split()}
_LEFT = (
    (rf"\b(?:{_TITLES.replace(' ', '|')})\.? $", "person", 3),
    (rf"\b(?:{_ROLES.replace(' ', '|')}),? $", "person", 2),
    (r"\b(?:directed|written|played|sung|produced|composed|painted) by $", "person", 2),
    (r"\b(?:[Ii]n|[Nn]ear|across|throughout|outside|around) (?:the )?$", "place", 1),
    (r"\b(?:north|south|east|west|city|town|village|capital|people|state|province) of $", "place", 2),
)
"""Patterns of the text before a name, each with the kind that it indicates, and a weight."""
_RIGHT = (
    (rf"(?:,? who)?,? (?:{_OF_PERSON.replace(' ', '|').replace('_', ' ')})\b", "person", 2),
    (r",? who\b|,? \((?:born|[a-z. ]*(?:[0-9]{1,2} )?(?:[A-Z][a-z]+ )?[0-9]{4} ?[-–])|, (?:his|her)\b", "person", 2),
    (rf" (?:is|was) an? (?:[A-Z][\w-]+ )?(?:[a-z-]+ ){{0,2}}(?:{_ROLES.replace(' ', '|')})\b", "person", 4),
    (r"['’]s (?:capital|population|economy|government|coast|parliament)\b", "place", 2),
    (r" (?:announced|acquired|launched|employs)\b|['’]s (?:shares|headquarters|chairman)\b", "organisation", 1),
)
"""Patterns of the text after a name."""
_PEOPLE = re.compile(r"(?:ish|ese|[a-z]ian|[a-z]ean|[a-z]ican|\bFrench|\bGerman|\bDutch|\bGreek|\bRoman|\bSwiss)s?$")
_NO_PART = {name.capitalize() for name in (*MONTHS, *WEEKDAYS)}


@lru_cache(maxsize=1024)
def find_kinds(text: str) -> tuple[tuple[Span, str], ...]:
    """Find the names in a text, in order, each with its kind. Every occurrence of a name in the text contributes cues.

    If the last word of a person's name occurs alone, it is a person's name, too.

    >>> text = "The actor Ann Berg said so in Oslo. Berg works for Acme Inc and for Umbra."
    >>> [(span.of(text), kind) for span, kind in find_kinds(text)]
    [('Ann Berg', 'person'), ('Oslo', 'place'), ('Berg', 'person'), ('Acme Inc', 'organisation'), ('Umbra', 'name')]
    """
    votes: defaultdict[str, Counter[str]] = defaultdict(Counter)
    spans: list[Span] = []
    for mention in find_mentions(text):
        name = mention.span.of(text)
        first = Span(mention.span.start, mention.span.start + len(name.partition(" ")[0]))
        if mention.kind != "name" or not is_name(text, first):
            continue
        spans.append(mention.span)
        words = name.split(" ")
        for word, table in ((words[-1], _LAST), (words[0], _FIRST)):
            if word in table and len(words) > 1:
                votes[name]["office" if table[word] == "person" and " of " in name else table[word]] += 6
        if _PEOPLE.search(name) and len(words) == 1:
            votes[name]["people"] += 4
        before, after = text[max(0, first.start - 30) : first.start], text[mention.span.end : mention.span.end + 60]
        cues = [cue for cue in _LEFT if re.search(cue[0], before)] + [cue for cue in _RIGHT if re.match(cue[0], after)]
        for _, kind, weight in cues:
            votes[name][kind] += weight
    kinds = {name: count.most_common(1)[0][0] for name, count in votes.items() if count}
    single = {name for span in spans if " " not in (name := span.of(text))}
    for name in dict.fromkeys(span.of(text) for span in spans):
        *given, last = name.split(" ")
        if 1 <= len(given) <= 2 and last in single and {kinds.get(n, "person") for n in (name, last)} == {"person"}:
            kinds[name] = kinds[last] = "person"
    return tuple((span, kinds.get(span.of(text), "name")) for span in spans)


def name_mentions(text: str, sources: Sequence[str] = ()) -> list[NamedMention]:
    """Find the names in a text. Cues in the sources decide their kinds or, without such cues, those in the text."""
    in_text = find_kinds(text)
    in_sources: dict[str, str] = {}
    for source in sources:
        for span, kind in find_kinds(source):
            if kind != "name":
                in_sources.setdefault(span.of(source), kind)
    for name in [name for name, kind in in_sources.items() if kind == "person"]:
        in_sources.setdefault(name.rpartition(" ")[2], "person")
    return [NamedMention(span, in_sources.get(span.of(text), kind)) for span, kind in in_text]


class NamePool:
    """Collects the names in some texts by kind for drawing similar names, in proportion to their frequency.

    Two names are similar if they have the same kind, if both have one word or both have several, and if both or neither
    are in capitals. If their kind is unknown, they must also have the same number of words, and the word before them
    must be the same ("the", "by" …).
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._alike: defaultdict[tuple[object, ...], list[str]] = defaultdict(list)
        for text in texts:
            for mention in name_mentions(text):
                name = mention.span.of(text)
                if is_whole(text, mention.span) and not _NO_PART & set(name.split(" ")):
                    self._alike[name_form(text, mention)].append(name)

    def like(self, text: str, mention: NamedMention) -> Sequence[str]:
        """Return all names that are similar to a name that `text` mentions. They may include this name itself."""
        return self._alike.get(name_form(text, mention), ())


def name_form(text: str, mention: NamedMention) -> tuple[object, ...]:
    """Return the properties that similar names share: kind, length and capitals.

    If the kind is unknown, the word before the name is a further property.
    """
    name = mention.span.of(text)
    count = len(name.split(" "))
    if mention.kind != "name":
        return mention.kind, min(count, 2), name.isupper()
    before = re.search(r"(?:^|[\s(])([a-zA-Z]+) $", text[max(0, mention.span.start - 15) : mention.span.start])
    return mention.kind, count, name.isupper(), before[1].lower() if before else ""


def is_whole(text: str, span: Span) -> bool:
    """Return whether a name seems complete, not part of a longer one ("Tour" in "Tour de las Américas")."""
    before, after = text[max(0, span.start - 12) : span.start], text[span.end : span.end + 6]
    return not re.search(r"[-–/&#]$|[A-Z][\w.’']{0,12} $|[\"“][^ ]{0,12} $", before) and not re.match(
        r"[-–/&]| (?:[0-9A-Z]|d['’]|de\b|del\b|of\b|&)|, [A-Z]", after
    )


def spacy_names(pipeline: Callable[[str], Any]) -> Callable[[str], list[Span]]:
    """Make a function that finds the names in a text with a loaded spaCy pipeline. A leading "the" is left out."""
    labels = {"PERSON", "PER", "GPE", "LOC", "FAC", "ORG", "NORP", "EVENT", "WORK_OF_ART", "PRODUCT"}

    def find(text: str) -> list[Span]:
        entities = (Span(e.start_char, e.end_char) for e in pipeline(text).ents if e.label_ in labels)
        spans = (Span(s.start + 4 * s.of(text).lower().startswith("the "), s.end) for s in entities)
        return [span for span in spans if span.of(text).strip()]

    return find
