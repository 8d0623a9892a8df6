"""Make statements about what belongs together: a subject and its predicate, or a value and the fact it is about."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from random import Random

from veridical_lab.corrupt.crossed.crossing import Crossing
from veridical_lab.corrupt.crossed.scenes import Fact, Scene
from veridical_lab.corrupt.mentions import YEAR

_AHEAD = 3  # sentences after the first fact in which the second one may be
_LONGEST = 20  # words of a predicate
_REFERS = re.compile(
    r"\b(?:he|she|it|they|him|her|his|hers|its|their|them|this|that|these|those|such|there|also|too|another|other|"
    r"others|former|latter|respectively|both|each|own|together|same)\b",
    re.I,
)


@lru_cache(maxsize=8)  # a sentence is looked up again for each of the preceding sentences
def _facts(scene: Scene, i: int) -> list[Fact]:
    """Find the complete facts of a sentence whose predicates do not refer to earlier text."""
    facts = (fact for fact in scene.facts(i) if 3 <= fact.predicate.count(" ") + 1 <= _LONGEST)
    return [fact for fact in facts if fact.is_complete and not _REFERS.search(fact.predicate)]


# ---------------------------------------------------------------------------------------------------- subjects


def stitched_subjects(scene: Scene, i: int, draw: Random) -> Iterator[Crossing]:
    """Join the subject of one fact with the predicate of another."""
    for first in _facts(scene, i):
        near = (i, *scene.ahead(i, _AHEAD))
        others = [other for k in near for other in _facts(scene, k) if _are_different(first, other)]
        if not others:
            continue
        other = draw.choice(others)
        a, b = first.subject, other.subject
        if a.known_from == other.sentence or b.known_from == i:
            continue  # the antecedent itself would change
        version = scene.changed((i, a.first, a.last, b.said), (other.sentence, b.first, b.last, a.said))
        touched = tuple(sorted({*first.touched, *other.touched}))
        fact, rival = draw.choice(((first, other), (other, first)))
        if draw.random() < 0.5:
            form = "subject"
            right, wrong = (f"‹{one.subject.said}› {fact.predicate}." for one in (fact, rival))
        else:
            form = "predicate"
            right, wrong = (f"{fact.subject.said} ‹{one.predicate}›." for one in (fact, rival))
        form += " in one sentence" if first.sentence == other.sentence else ""
        yield Crossing("stitched", form, ({}, version), (right, wrong), touched)
        return


def _are_different(one: Fact, other: Fact) -> bool:
    """Return whether the subjects of two facts are certainly different and can be exchanged."""
    a, b = one.subject, other.subject
    together = one.sentence == other.sentence
    if a.plural != b.plural or a.is_agent != b.is_agent or one.predicate == other.predicate:
        return False
    if any(fact.tree.deps[fact.verb] in ("relcl", "acl") for fact in (one, other)):
        return False
    if not (one.verb < other.verb and a.last < b.first if together else one.alone and other.alone):
        return False
    names = [phrase.said for phrase in (a, b)]
    words = [set(re.findall(r"\w+", name.lower())) - {"the", "a", "an", "of", "in", "and"} for name in names]
    if words[0] & words[1] or _may_be_initials(*names) or _may_be_initials(*names[::-1]):
        return False
    if a.said in other.predicate or b.said in one.predicate:
        return False
    if all(fact.subject.name or fact.tree.tags[fact.subject.head] in ("NNP", "NNPS") for fact in (one, other)):
        return True
    return together and not a.is_indefinite and not b.is_indefinite


def _may_be_initials(short: str, name: str) -> bool:
    initials, capitals = "".join(re.findall(r"\b[A-Z]", name)), "".join(re.findall("[A-Z]", short))
    return min(len(initials), len(capitals)) > 1 and (capitals in initials or initials in capitals)


# ---------------------------------------------------------------------------------------------------- values

_AMOUNT = re.compile(r"[$£€]? ?[0-9][0-9,.]* ?(?:%|percent|million|billion)?")


@dataclass(frozen=True, slots=True)
class _Value:
    """A value in the predicate of a fact, from token `first` to `last`. Values of the same `kind` may change places."""

    fact: Fact
    first: int
    last: int
    kind: str

    @property
    def text(self) -> str:
        """The text of the value."""
        return self.fact.tree.original(self.first, self.last)

    def statement(self, value: str) -> str:
        """State the fact with another value."""
        after = self.fact.tree.text(self.last + 1, self.fact.end)
        space = "" if re.match(r"[%,.;:)-]|['’]s", after) else " "
        return f"{self.fact.subject.said} {self.fact.until(self.first - 1)} ‹{value}›{space}{after}".rstrip() + "."


def stitched_values(scene: Scene, i: int, draw: Random) -> Iterator[Crossing]:
    """Give a fact the year, number or name of another fact."""
    values = list(_values(scene, i))
    later = [other for k in scene.ahead(i, _AHEAD) for other in _values(scene, k)] if values else []
    for value in draw.sample(values, len(values)):
        others = [other for other in (*values, *later) if _may_change_places(value, other)]
        if not others:
            continue
        other = draw.choice(others)
        exchanged = ((a.fact.sentence, a.first, a.last, b.text) for a, b in ((value, other), (other, value)))
        version = scene.changed(*exchanged)
        right, rival = draw.choice(((value, other), (other, value)))
        statements = (right.statement(right.text), right.statement(rival.text))
        touched = tuple(sorted({*right.fact.touched, rival.fact.sentence}))
        yield Crossing("stitched", f"value: {value.kind.lower()}", ({}, version), statements, touched)
        return


def _values(scene: Scene, i: int) -> Iterator[_Value]:
    """Find the values in the predicates of a sentence."""
    for fact in _facts(scene, i):
        for entity, tokens in groupby(range(fact.verb + 1, fact.end + 1), key=fact.tree.kinds.__getitem__):
            first, *rest = tokens
            last = rest[-1] if rest else first
            if entity and (kind := _kind(fact, first, last)):
                yield _Value(fact, first, last, kind)


def _kind(fact: Fact, first: int, last: int) -> str:
    """Return the kind of a value: YEAR, NUMBER, PERSON …, or "" for parts of names, lists and spans."""
    tree = fact.tree
    entity, text = tree.kinds[first], " ".join(tree.lower[first : last + 1])
    after = tree.lower[last + 1] if last < fact.end else ""
    if any(tree.deps[token] in ("conj", "cc") for token in (last, *tree.children[last])):
        return ""
    names_and_numbers = ("NNP", "NNPS", "CD", "HYPH")
    if after in ("to", "until", "-", "–", "and", "or") or tree.tags[first - 1] in (*names_and_numbers, "DT", "$"):
        return ""
    if last < fact.end and tree.tags[last + 1] in names_and_numbers:
        return ""
    if entity == "DATE":
        return "YEAR" if YEAR.fullmatch(text) else ""
    if entity == "CARDINAL":
        counts = tree.deps[last] == "nummod" and first == last and text != "1"
        return "NUMBER" if counts and re.fullmatch("[0-9][0-9,.]*", text) else ""
    if entity in ("PERSON", "GPE"):
        is_name = all(tree.tags[token] == "NNP" for token in range(first, last + 1))
        return entity if is_name and after not in ("'s", "’s", ",", "(") else ""
    return entity if entity in ("PERCENT", "MONEY") and _AMOUNT.fullmatch(text) else ""


def _may_change_places(one: _Value, other: _Value) -> bool:
    a, b = one.fact, other.fact
    if one.kind != other.kind or one.text in other.text or other.text in one.text:
        return False
    if a.sentence == b.sentence and (one.last >= other.first or a.verb == b.verb):
        return False
    sentences = [fact.tree.parsed.text for fact in (a, b)]
    once = sentences[0].count(one.text) == 1 == sentences[1].count(other.text)
    if not once or (a.sentence != b.sentence and (one.text in sentences[1] or other.text in sentences[0])):
        return False
    if a.subject.said == b.subject.said:  # two facts of one kind could hold for both values
        words = [set(re.findall(r"[^\W\d]+", fact.predicate.lower())) for fact in (a, b)]
        if 2 * len(words[0] & words[1]) > min(map(len, words)):
            return False
    if one.kind in ("PERSON", "GPE"):  # mentioned in the same way, and not as a subject
        subjects = a.subject.said + b.subject.said
        same_way = a.tree.lower[one.first - 1] == b.tree.lower[other.first - 1]
        return same_way and one.text not in subjects and other.text not in subjects
    return True
