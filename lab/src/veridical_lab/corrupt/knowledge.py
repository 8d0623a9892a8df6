"""Change the sources so that they no longer support the response (Conv-FEVER).

This follows CH-Wang et al. 2024, §3.2. The response is not changed, and its words for the changed facts are marked. In
the paper, a chat model rewrote the knowledge and people corrected the result. Here, rules make the changes.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from veridical.records.spans import Span, cut
from veridical.records.types import Case, Edit, Evidence, Example, Judgement, Source, Verdict
from veridical.text.segment import words
from veridical_lab.corrupt import chosen_names
from veridical_lab.corrupt.english import ANTONYMS
from veridical_lab.corrupt.gold import edited, grouped, made_from
from veridical_lab.corrupt.mentions import YEAR, Names, occurrences, shared_mentions, substitute_for

TYPES = ("entity", "circumstance", "predicate", "coreference", "extrinsic", "freestyle")
"""The types of error. In order, they insert into the source another name, another number or time, an antonym, another
person's pronouns, or a vague word such as "someone". The last type combines two different errors of the first four
types."""

_PRONOUNS = (
    {"he": "she", "him": "her", "his": "her", "himself": "herself"},
    {"she": "he", "her": "his", "herself": "himself"},
)
_OPEN = {"name": "someone", "number": "several", "time": "one"}


class Knowledge:
    """Makes one error of a type drawn from `types`, by changing words in the sources that also occur in the response.

    The example is used only if the sources no longer contain any changed word, in any form. Otherwise, they might still
    support the response. New names are taken from the sources of all `examples`.

    Args:
        examples: Grounded examples.
        types: Some of `TYPES`, which are tried in random order. Default: names, numbers and times, without distinction.
    """

    name = "knowledge"

    def __init__(self, examples: Iterable[Example], *, types: Sequence[str] | None = None) -> None:
        self._types = None if types is None else chosen_names("error type of knowledge", types, TYPES)
        self._names = Names.in_sources(examples)

    def change(self, example: Example, draw: random.Random) -> Example | str:
        """Change the sources of the example and mark the error, or say why the example cannot be used."""
        if self._types is None:
            return self._mention(example, shared_mentions(example.case), draw)
        made: Example | str = ""
        for kind in draw.sample(self._types, len(self._types)):
            made = self.make(kind, example, draw)
            if isinstance(made, Example):
                return grouped(made, type=kind)
        return made

    def make(self, kind: str, example: Example, draw: random.Random) -> Example | str:
        """Make an error of this type in the example, or say why that fails."""
        case = example.case
        shared = shared_mentions(case)
        if kind in ("entity", "circumstance"):
            return self._mention(example, [m for m in shared if (m[1] == "name") == (kind == "entity")], draw)
        if kind == "extrinsic":
            if not shared:
                return "no name, number or time is in both texts"
            phrase, of = draw.choice(shared)
            new = "an unnamed year" if YEAR.fullmatch(phrase) else _OPEN[of]
            return _changed(example, {phrase: new}, of, "extrinsic")
        if kind == "predicate":
            swaps = [{word: ANTONYMS[word]} for word in sorted(ANTONYMS.keys() & _shared_words(case))]
            return _changed(example, draw.choice(swaps), kind, "intrinsic") if swaps else "no word with an opposite"
        if kind == "coreference":
            swaps = [dict(swap) for swap in _PRONOUNS if swap.keys() & _shared_words(case)]
            return _changed(example, draw.choice(swaps), kind, "ambiguous") if swaps else "no pronoun is in both texts"
        return self._freestyle(example, draw)

    def _mention(self, example: Example, shared: Sequence[tuple[str, str]], draw: random.Random) -> Example | str:
        if not shared:
            return "no name, number or time is in both texts"
        phrase, kind = draw.choice(shared)
        texts = [example.case.response, *(source.text for source in example.case.sources)]
        new = substitute_for(phrase, kind, self._names, texts, draw)
        return f"no other {kind}" if new is None else _changed(example, {phrase: new}, kind, "intrinsic")

    def _freestyle(self, example: Example, draw: random.Random) -> Example | str:
        """Make two errors of different types."""
        made: list[Example] = []
        for kind in draw.sample(TYPES[:4], 4):
            changed = self.make(kind, made[-1] if made else example, draw)
            if not isinstance(changed, str):
                made.append(changed)
            if len(made) == 2:
                verdicts = {v.span: v for each in reversed(made) for v in each.gold.verdicts if v.score == 1.0}
                both = tuple(replace(verdicts[span], evidence=()) for span in sorted(verdicts))
                case = replace(made[-1].case, id=f"{example.case.id}/knowledge")
                gold = replace(made[-1].gold, case_id=case.id, verdicts=both)
                return made_from(example, case, gold, corrupted="freestyle", kind="intrinsic")
        return "fewer than two errors can be made"


def _changed(example: Example, new: Mapping[str, str], label: str, kind: str) -> Example | str:
    """Replace phrases everywhere in the sources, and mark the same phrases in the response."""
    case = example.case
    sources: list[Source] = []
    evidence: list[Evidence] = []
    for source in case.sources:
        text, spans = edited(source.text, _replacements(source.text, new))
        sources.append(replace(source, text=text))
        evidence += [Evidence(source.id, span) for span in spans]
    mentions = [edit.span for edit in _replacements(case.response, new)]
    for phrase, other in new.items():
        if any(_remains(source.text, phrase, other) for source in sources):
            return "part of it is left in the sources"
        if any(_remains(piece, phrase, phrase) for piece, covered in cut(case.response, mentions) if not covered):
            return "the response mentions part of it again"
    reason = "; ".join(f"{phrase!r} was changed to {other!r} in the source" for phrase, other in new.items())
    corrections = {phrase.casefold(): None if kind == "extrinsic" else other for phrase, other in new.items()}
    marked = [(span, corrections[span.of(case.response).casefold()]) for span in mentions]
    verdicts = tuple(Verdict(s, 1.0, label, evidence=tuple(evidence), reason=reason, correction=c) for s, c in marked)
    sizes = {source.id: len(source.text) for source in sources}
    omissions = tuple(replace(o, span=Span(0, sizes[o.source_id])) for o in example.gold.omissions)
    changed = replace(case, id=f"{case.id}/knowledge", sources=tuple(sources), prompt=None)
    gold = Judgement(changed.id, "corrupt:knowledge", 1.0, example.gold.omission, verdicts, omissions)
    return made_from(example, changed, gold, corrupted=label, kind=kind)


def _replacements(text: str, new: Mapping[str, str]) -> list[Edit]:
    """Replace phrases wherever they stand as whole words. What is capitalised in the text stays capitalised."""
    edits = []
    for phrase, other in new.items():
        for span in occurrences(text, phrase, ignore_case=True):
            keeps_capital = span.of(text)[:1].isupper() and other[:1].islower()
            edits.append(Edit(span, other[0].upper() + other[1:] if keeps_capital else other, ""))
    return sorted(edits, key=lambda edit: edit.span)


def _shared_words(case: Case) -> set[str]:
    """Return the words, in lower case, that the response shares with any source."""
    of_sources = {span.of(source.text).casefold() for source in case.sources for span in words(source.text)}
    return {word for span in words(case.response) if (word := span.of(case.response).casefold()) in of_sources}


def _remains(text: str, phrase: str, new: str) -> bool:
    """Return whether `text` has a word of `phrase` that `new` does not have, alone or inside a longer word."""
    of_new = {word.lower() for word in new.split()}
    left = [w for w in phrase.lower().split() if len(w) > 1 and (new == phrase or w not in of_new)]
    low = text.lower()
    return any(occurrences(low, word) or (len(word) > 3 and word[0].isalpha() and word in low) for word in left)
