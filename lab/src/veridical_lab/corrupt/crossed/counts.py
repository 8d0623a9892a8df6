"""Make statements about the members of a list, and about their number."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from veridical_lab.corrupt.crossed.crossing import Crossing, crossings
from veridical_lab.corrupt.crossed.scenes import Fact, Scene
from veridical_lab.corrupt.crossed.trees import Phrase, Tree
from veridical_lab.corrupt.english import word_set

_NUMBERS = ("no", "one", "two", "three", "four", "five", "six")
_NOT_INSIDE = word_set("and no his her its their all both other others some several etc")
_UNCLEAR = re.compile(
    r"\b(?:respectively|each|both|etc|others?|more|including|such|like|only|not|between|among)\b", re.I
)


@dataclass(frozen=True, slots=True)
class _List:
    """A list of three to six members, from token `first` to `last`. `called` is a plural for them, or "" if unknown."""

    fact: Fact
    first: int
    last: int
    members: tuple[str, ...]
    called: str

    def statement(self, text: str) -> str:
        """State the fact with another text in place of the list."""
        fact = self.fact
        if self.last < fact.opens:
            return f"{text} {fact.predicate}."
        after = fact.tree.text(self.last + 1, fact.end)
        return f"{fact.subject.said} {fact.until(self.first - 1)} {text} {after}".rstrip() + "."


def _joined(members: Sequence[str]) -> str:
    return f"{', '.join(members[:-1])} and {members[-1]}"


def lists(scene: Scene, i: int, draw: Random) -> Iterator[Crossing]:
    """Remove a member from a list in the source. The statements name the members or their number."""
    for found in _lists(scene, i):
        tree, members, fact = found.fact.tree, found.members, found.fact
        has_article = [re.match(r"(?:an?|the) ", member) is not None for member in members]
        out = draw.randrange(1 if has_article[0] and not has_article[1] else 0, len(members))
        left, gone = _joined(members[:out] + members[out + 1 :]), members[out]
        many, fewer = _NUMBERS[len(members)], _NUMBERS[len(members) - 1]
        counts = found.called and fact.lemma not in ("be", "include", "feature") and draw.random() < 0.5
        if counts:
            new = left
            paraphrases = [
                (f"‹{many}› {found.called}", f"‹{fewer}› {found.called}"),
                (f"‹a total of {many}› {found.called}", f"‹a total of {fewer}› {found.called}"),
            ]
        else:
            comma = "," if tree.tags[found.last + 1][0].isalpha() else ""
            new = f"{left}, but not {gone}{comma}"
            paraphrases = [
                (f"‹all {many}, namely› {_joined(members)}{comma}", f"‹just› {left}, ‹{gone} excepted›{comma}"),
                (f"{left} ‹as well as {gone}›{comma}", f"{left} ‹rather than {gone}›{comma}"),
            ]
        form = f"{'number' if counts else 'members'} of {len(members)}"
        version = {i: tree.replaced((found.first, found.last, new))}
        statements = [(found.statement(a), found.statement(b)) for a, b in paraphrases]
        yield from crossings("count", form, scene.text, [({}, version)], statements, fact.touched, draw)


def _lists(scene: Scene, i: int) -> Iterator[_List]:
    """Find lists that are objects or subjects, or that follow a preposition."""
    tree = scene.trees[i]
    if "and" not in tree.lower or "," not in tree.lower:
        return
    for fact in scene.facts(i):
        if tree.deps[fact.verb] in ("ROOT", "conj") and not _UNCLEAR.search(fact.predicate):
            preps = tree.all_children(fact.verb, "prep")
            heads = [t for above in (fact.verb, *preps) for t in tree.all_children(above, "dobj", "attr", "pobj")]
            for head in heads:
                found = _read(tree, fact, head) if fact.opens < head <= fact.end else None
                if found is not None and found.last <= fact.end:
                    yield found
    clause, subject = tree.clause(tree.root), tree.subject_of(tree.root)
    if clause is None or subject is None or clause.negated or clause.subject is not None or clause.tense != "past":
        return
    if clause.closes != clause.finite - 1 or tree.tags[clause.finite] != "VBD" or tree.lemmas[clause.verb] == "be":
        return
    if clause.end == len(tree) - 2 and not _UNCLEAR.search(tree.text(clause.finite, clause.end)):
        phrase = Phrase(clause.opens, clause.closes, subject, "", True, "thing")
        fact = Fact(tree, i, clause.verb, clause.finite, clause.end, phrase, clause.tense, clause.passive, True)
        if found := _read(tree, fact, subject):
            yield found


def _read(tree: Tree, fact: Fact, head: int) -> _List | None:
    """Read the list that begins with a noun. Return None if some of its members are not plain."""
    tokens = [head]
    while (after := tree.child(tokens[-1], "conj")) is not None:
        tokens.append(after)
    first, last = tree.first[head], tree.last[head]
    if not 3 <= len(tokens) < len(_NUMBERS) or len({tree.tags[t].rstrip("S") for t in tokens}) > 1:
        return None
    joint = tree.first[tokens[-1]] - 1
    if last >= len(tree) - 1 or tree.lower[first] in ("between", "both"):
        return None
    if tree.lower[joint] != "and" or tree.kinds[joint]:  # "and" with a kind is part of a name
        return None
    members = []
    starts = [first, *(tree.first[token] for token in tokens[1:])]
    for start, after in zip(starts, [*starts[1:], last + 1], strict=True):
        stop = after - 1
        while stop > start and tree.lower[stop] in (",", "and"):
            stop -= 1
        inside = range(start, stop + 1)
        if len(inside) > 6 or any(tree.tags[t][0] not in "NDJCFPH" and tree.lower[t] != "of" for t in inside):
            return None
        if any(tree.lower[t] in _NOT_INSIDE for t in inside):
            return None
        members.append(tree.text(start, stop))
    if len(set(members)) < len(members) or any(re.search(r"\b[0-9]+\b|\A(?>.*?\bthe\b).*\bof\b", m) for m in members):
        return None
    kinds = {tree.kinds[token] for token in tokens}
    called = {"PERSON": "people", "GPE": "places"}.get(next(iter(kinds)), "") if len(kinds) == 1 else ""
    if kinds == {""} and tree.tags[head] in ("NN", "NNS"):
        called = "things"
    return _List(fact, first, last, tuple(members), called)
