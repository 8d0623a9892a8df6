"""Tag words with their part of speech and entity type, with a spaCy pipeline if you have one, or else by rules.

Liu et al. 2022, §3.4, use spaCy for both. `RuleTagger` needs no other package. See docs/detectors/features.md for how
often the two agree.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache, cached_property
from typing import Any, Protocol

from veridical.records.errors import InputError
from veridical.records.spans import Span
from veridical.text import quantities
from veridical.text.names import is_name
from veridical.text.vocabulary import MONTHS, WEEKDAYS
from veridical_lab.detectors.spacy_pipeline import identity_of, load_pipeline

PARTS_OF_SPEECH = (
    *("ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM"),
    *("PART", "PRON", "PROPN", "PUNCT", "SCONJ", "SYM", "VERB", "X"),
)  # Universal Dependencies
ENTITIES = (
    *("none", "person", "place", "organisation", "name", "date", "time", "money", "percent", "quantity", "ordinal"),
    *("number", "other"),
)
Tag = tuple[str, str]  # one of PARTS_OF_SPEECH, one of ENTITIES


class Tagger(Protocol):
    """Finds the part of speech and the entity type of words."""

    name: str

    def tag(self, texts: Sequence[str], words: Sequence[Sequence[Span]]) -> list[list[Tag]]:
        """Tag the `words` of each text."""
        ...

    def identity(self) -> str:
        """Identify the tagger: taggers that give the same tags have the same identity."""
        ...


# --- a spaCy pipeline ---------------------------------------------------------------------------------------------

_ONTONOTES = {
    "PERSON": "person",
    "PER": "person",
    "GPE": "place",
    "LOC": "place",
    "FAC": "place",
    "ORG": "organisation",
    "NORP": "name",
    "PRODUCT": "name",
    "EVENT": "name",
    "WORK_OF_ART": "name",
    "LAW": "name",
    "LANGUAGE": "name",
    "DATE": "date",
    "TIME": "time",
    "MONEY": "money",
    "PERCENT": "percent",
    "QUANTITY": "quantity",
    "ORDINAL": "ordinal",
    "CARDINAL": "number",
}


class SpacyTagger:
    """Tags words with a spaCy pipeline. `pipeline` is a folder, or the name of an installed one ("en_core_web_sm")."""

    def __init__(self, pipeline: str) -> None:
        self.pipeline = pipeline
        self.name = f"spacy:{pipeline}"

    @cached_property
    def _nlp(self) -> Any:
        needs = ("tagger", "morphologizer")
        return load_pipeline(self.pipeline, exclude=("parser", "lemmatizer"), needs=needs, what="tagger")

    def identity(self) -> str:
        """Return language, name and version of the pipeline."""
        return identity_of(self._nlp)

    def tag(self, texts: Sequence[str], words: Sequence[Sequence[Span]]) -> list[list[Tag]]:
        """Tag each word.

        A word gets the tag of the first token that shares a character with it ("do" in "don't").
        """
        longest = self._nlp.max_length
        tags = []
        docs = self._nlp.pipe([text[:longest] for text in texts], batch_size=64)
        for doc, of_text in zip(docs, words, strict=True):
            tokens = [token for token in doc if not token.is_space]
            token_i = 0
            of_words: list[Tag] = []
            for word in of_text:
                while token_i < len(tokens) and tokens[token_i].idx + len(tokens[token_i]) <= word.start:
                    token_i += 1
                if token_i == len(tokens) or tokens[token_i].idx >= word.end:
                    of_words.append(("X", "none"))
                    continue
                token = tokens[token_i]
                pos = token.pos_ if token.pos_ in PARTS_OF_SPEECH else "X"
                of_words.append((pos, _ONTONOTES.get(token.ent_type_, "other") if token.ent_type_ else "none"))
            tags.append(of_words)
        return tags


# --- rules --------------------------------------------------------------------------------------------------------


def word_set(names: str) -> frozenset[str]:
    """Split a list that is written as one text."""
    return frozenset(names.split())


def _listed(**lists: str) -> dict[str, str]:
    """Map each word to the name of its list. If a word is in several lists, the last one wins."""
    return {word: pos for pos, words in lists.items() for word in words.split()}


_CLOSED = _listed(
    DET="the a an this these those each every either neither some any no another both all such which what whose",
    PRON=(
        "i me you he him she her it we us they them mine yours hers ours theirs myself yourself himself herself "
        "itself ourselves themselves who whom whoever something anything nothing everything someone anyone everyone "
        "nobody everybody somebody anybody none one ones my your his its our their there"
    ),
    ADP=(
        "of in on at by for with about against between into through during above below from up down out off over "
        "under across along among around behind beside besides beyond despite inside near onto outside past per since "
        "throughout till toward towards underneath unlike until upon via within without amid following like"
    ),
    AUX=(
        "am is are was were be been being has have had having do does did can could will would shall should may might "
        "must cannot can't won't isn't aren't wasn't weren't don't doesn't didn't hasn't haven't hadn't couldn't "
        "wouldn't shouldn't it's he's she's i'm we're they're you're"
    ),
    CCONJ="and or but nor yet plus",
    SCONJ="because although though while whereas if unless whether that than as when where after before once",
    PART="to not n't 's",
    ADV=(
        "very too also just only even still already again ever never often always sometimes soon now then here how "
        "why well much more most less least quite rather almost perhaps maybe later ago away back however therefore "
        "instead together twice once yesterday today tomorrow"
    ),
    INTJ="yes oh ah hello hi wow hey please okay ok",
    VERB=(
        "said says say made make makes took take takes taken gave give given went go goes gone came come comes got "
        "get gets saw see seen knew know known found find became become began begin begun left tell kept keep "
        "held hold wrote write written won win lost lose led lead put set ran run met meet built build sent send paid "
        "pay died die born stood stand brought bring thought think felt feel spent spend fell fall grew grow rose "
        "rise broke break spoke speak bought buy sold sell sat sit drew draw cut hit let"
    ),
    ADJ=(
        "new old good bad great small large big long short high low young early late own other same first last next "
        "few many several full free main major local public national best better worse worst former able dead top "
        "real whole right wrong left hard easy clear sure likely certain various different important black white red "
        "blue green"
    ),
)
_SUFFIXES = (
    ("ADV", ("ly",)),
    (
        "NOUN",
        ("tion", "sion", "ment", "ness", "ity", "ship", "hood", "ism", "ist", "ance", "ence", "ology", "er"),
    ),
    ("ADJ", ("ous", "ful", "less", "ive", "able", "ible", "ical", "ish", "ial", "ual", "ary", "ic", "al", "est")),
    ("VERB", ("ise", "ize", "ised", "ized", "ify", "ified", "ing", "ed")),
)
_TITLES = word_set(
    "mr mrs ms miss dr prof professor sir lord lady president minister senator judge king queen prince princess "
    "captain general colonel sergeant actor actress singer footballer striker manager coach pope saint"
)
_ORGANISATIONS = word_set(
    "inc ltd plc corp corporation company co university college school council committee party club fc afc united "
    "city ministry department agency association federation union bank group institute museum hospital church "
    "court police parliament government army navy force forces band orchestra league trust service board "
    "commission press bbc"
)
_PLACES = word_set(
    "street road avenue river lake sea ocean mount mountain mountains island islands county province state states "
    "region district valley bay park square bridge airport station republic kingdom north south east west "
    "northern southern eastern western"
)
_PLACE_BEFORE = word_set("in at near from to outside across around")
_VALUES = {"d": "date", "t": "time", "o": "ordinal", "n": "number", "r": "number"}
_MONEY = word_set("usd gbp eur jpy aud cad nzd hkd sgd")
_DATES = frozenset([*MONTHS, *WEEKDAYS, "today", "yesterday", "tomorrow"])


class RuleTagger:
    """Tags words by rules.

    It finds parts of speech by word lists and word endings, and entity types by numbers, capitals and neighbouring
    words. It is for English only and does not understand the text, so "run" is always a verb. Names must be
    capitalised.
    """

    name = "rules"

    def identity(self) -> str:
        """Return the name of the tagger. The rules are always the same, so the name identifies them."""
        return self.name

    def tag(self, texts: Sequence[str], words: Sequence[Sequence[Span]]) -> list[list[Tag]]:
        """Tag each word."""
        return [self.tag_text(text, of_text) for text, of_text in zip(texts, words, strict=True)]

    def tag_text(self, text: str, words: Sequence[Span]) -> list[Tag]:
        """Tag each word of one text."""
        forms = [word.of(text).lower().replace("’", "'") for word in words]
        values = self.values(text, words)
        names = [not value and is_name(text, word) for value, word in zip(values, words, strict=True)]
        tags: list[Tag] = []
        for i, form in enumerate(forms):
            if values[i]:
                pos = "NUM" if any(c.isdigit() for c in form) else "ADJ" if values[i] == "ordinal" else "NUM"
                if form in _DATES:
                    pos = "PROPN" if form in MONTHS or form in WEEKDAYS else "NOUN"
                elif values[i] in ("quantity", "percent", "money") and form.isalpha() and form not in _NUMERALS:
                    pos = "NOUN"
                tags.append((pos, values[i]))
            elif names[i]:
                tags.append(("PROPN", self.name_type(forms, names, i)))
            else:
                tags.append((part_of_speech(form, forms[i - 1] if i else ""), "none"))
        return tags

    def values(self, text: str, words: Sequence[Span]) -> list[str]:
        """Find the kind of number that each word is part of ("date", "money" …), or "" for none."""
        kinds = [""] * len(words)
        folded = quantities.fold(text)
        first = 0
        for start, end, kind in value_spans(folded):
            while first < len(words) and words[first].end <= start:
                first += 1
            i = first
            while i < len(words) and words[i].start < end:
                kinds[i] = kind
                i += 1
        return [
            kind or ("date" if folded[word.start : word.end] in _DATES else "")
            for kind, word in zip(kinds, words, strict=True)
        ]

    @staticmethod
    def name_type(forms: Sequence[str], names: Sequence[bool], i: int) -> str:
        """Find the entity type of the name around the i-th word, from the words in the name and beside it."""
        first, last = i, i
        while first > 0 and names[first - 1]:
            first -= 1
        while last + 1 < len(names) and names[last + 1]:
            last += 1
        run = set(forms[first : last + 1])
        before = forms[first - 1] if first else ""
        if run & _ORGANISATIONS:
            return "organisation"
        if run & _TITLES or before in _TITLES:
            return "person"
        if run & _PLACES or before in _PLACE_BEFORE:
            return "place"
        return "person" if last > first and all(form.isalpha() for form in run) else "name"


_NUMERALS = word_set(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand million "
    "billion trillion m bn"
)


@cache
def value_pattern() -> re.Pattern[str]:
    """Compile the pattern of `text.quantities`, restricted to values at the beginning of a word."""
    return re.compile(rf"(?<![^\W_])(?:{quantities.PATTERN})")


def value_spans(folded: str) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and kind of each number, date, quantity or other value in a lower-case text, in order."""
    for match in value_pattern().finditer(folded):
        key = next(iter(quantities.keys(match[0])), "")
        kind, colon, rest = key.partition(":")
        if kind == "q":
            unit = rest.partition(":")[0]
            kind = "money" if unit in _MONEY else "percent" if unit == "percent" else "quantity"
        elif kind == "n" and re.fullmatch(r"1[0-9]{3}|20[0-9]{2}", match[0]):
            kind = "date"
        elif colon:
            kind = _VALUES.get(kind, "number")
        else:
            kind = "number" if any(char.isdigit() for char in match[0]) else ""
        if kind:
            yield match.start(), match.end(), kind


def part_of_speech(form: str, before: str) -> str:
    """Guess the part of speech of a lower-case word that is neither a name nor a number, from the word before it.

    >>> [part_of_speech(*pair) for pair in (("the", ""), ("quickly", ""), ("run", "to"), ("painting", "the"))]
    ['DET', 'ADV', 'VERB', 'NOUN']
    """
    if form in _CLOSED:
        return _CLOSED[form]
    if not any(char.isalpha() for char in form):
        return "X"
    if before == "to" or (before in _CLOSED and _CLOSED[before] in ("AUX", "PART")):
        verb_like = not form.endswith(("ly", "ous", "ful", "ive", "able", "ible", "al", "ic"))
        if verb_like and (before == "to" or form.endswith(("ed", "ing", "en"))):
            return "VERB"
    noun_phrase = before in _CLOSED and _CLOSED[before] in ("DET", "ADJ")
    for pos, endings in _SUFFIXES:
        if len(form) > 4 and form.endswith(endings):
            return "NOUN" if noun_phrase and pos == "VERB" and form.endswith("ing") else pos
    return "NOUN"


def load_tagger(name: str) -> Tagger:
    """Build the tagger "rules" or "spacy:PIPELINE", where PIPELINE is a folder or an installed pipeline.

    The pipeline is loaded when the tagger is first used.

    Raises:
        InputError: There is no tagger of this name.
    """
    kind, _, pipeline = name.partition(":")
    if name == "rules":
        return RuleTagger()
    if kind == "spacy" and pipeline:
        return SpacyTagger(pipeline)
    raise InputError(f"there is no tagger {name!r}", hint="rules, or spacy:PIPELINE with a folder or a name")
