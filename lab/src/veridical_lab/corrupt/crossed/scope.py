"""Make statements about the quantity that a fact applies to: all, most, some, none, both, only one, or a bound."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import product
from random import Random

from veridical_lab.corrupt.crossed.crossing import Crossing, Version, crossings
from veridical_lab.corrupt.crossed.scenes import Scene
from veridical_lab.corrupt.crossed.trees import Tree, opened
from veridical_lab.corrupt.english import word_set
from veridical_lab.corrupt.mentions import YEAR

# quantified forms of a plural N in sources and statements, by meaning; every form takes a plural verb
_SOURCE = {
    "all": ("all of N", "N without exception"), "most": ("most of N",), "few": ("only a few of N", "few of N"),
    "not all": ("only some of N", "some but not all of N", "only a few of N"), "none": ("none of N",),
    "some": ("some of N", "several of N"),
}  # fmt: skip
_SOURCE_BARE = {
    "all": ("all N",), "not all": ("only some N",), "most": ("most N",), "few": ("few N", "only a few N"),
    "none": ("no N",), "some": ("some N", "several N"),
}  # fmt: skip
_SAID = {
    "all": ("N, ‹one and all,›", "N, ‹bar none,›"), "not all": ("‹just a part of› N", "‹a limited number of› N"),
    "most": ("‹a majority of› N", "‹more than half of› N"), "few": ("‹a minority of› N", "‹less than half of› N"),
    "none": ("‹not any of› N", "‹zero of› N"), "some": ("‹at least a couple of› N", "‹a certain number of› N"),
}  # fmt: skip
_SAID_BARE = _SAID | {"none": ("‹zero› N", "‹not any› N")}
_OPPOSITES = {
    "all": ("not all", "none", "few"), "not all": ("all", "none"), "most": ("few", "none"), "few": ("most", "all"),
    "none": ("some", "all", "most"), "some": ("none",),
}  # fmt: skip
_MEANINGS = {word: word for word in ("all", "most", "few", "none", "some")} | {"many": "some", "several": "some"}
_BLOCKED = re.compile(
    r"\b(?:only|except|apart|besides|unless|each|both|respectively|together|between|number|not|than|other|total)\b|"
    r"n['’]t\b",
    re.I,
)
_UNCLEAR = re.compile(
    r"\b(?:[0-9]+|two|three|four|five|six|seven|eight|nine|ten|these|those|them|this|that|who|which|people|times?|"
    r"years?|days?|his|her|its|their)\b|,",
    re.I,
)


def quantifiers(scene: Scene, i: int, draw: Random) -> Iterator[Crossing]:
    """Quantify the group that a fact is about: "the workers" become "all" or "only some of the workers"."""
    for fact in scene.facts(i):
        tree, subject, finite = fact.tree, fact.subject, fact.tree.lower[fact.opens]
        group, predicate = subject.text, fact.predicate
        is_group = (
            subject.plural and group.startswith("the ") and subject.kind != "group" and not tree.kinds[subject.head]
        )
        if not is_group or not fact.is_main or not fact.follows_subject or not fact.is_complete:
            continue
        if finite in ("was", "is", "has", "does") or _BLOCKED.search(predicate) or _UNCLEAR.search(group):
            continue
        if fact.lemma == "be" and tree.child(fact.verb, "attr") is not None:
            continue
        meaning = draw.choice(("all", "most", "none"))
        other = draw.choice(_OPPOSITES[meaning])
        span = subject.first, subject.last
        one, rival = ([_quantified(tree, i, f, group, *span) for f in _SOURCE[m]] for m in (meaning, other))
        versions = list(product(one, rival))
        statements = _statements(meaning, other, group, predicate)
        yield from crossings("scope", f"{meaning}, {other}", scene.text, versions, statements, (i,), draw)


def original_quantifiers(scene: Scene, i: int, draw: Random) -> Iterator[Crossing]:
    """Change a quantifier that the text itself has, as in "most workers left"."""
    tree = scene.trees[i]
    clause = tree.clause(tree.root)
    if clause is None or clause.negated or not clause.tense or clause.end <= clause.verb:
        return
    word = tree.lower[clause.opens]
    if word not in _MEANINGS or clause.closes - clause.opens > 8 or clause.closes != clause.finite - 1:
        return
    group = tree.text(clause.opens + 1 + (tree.lower[clause.opens + 1] == "of"), clause.closes)
    predicate = tree.text(clause.finite, clause.end)
    if tree.tags[clause.closes] not in ("NNS", "NNPS") or tree.lower[clause.finite] in ("was", "is", "has", "does"):
        return
    if _BLOCKED.search(f"{group} {predicate}") or _UNCLEAR.search(group) or group.startswith("as "):
        return
    if tree.tags[clause.finite] == "VBZ" or tree.is_cut(clause.verb, clause.end):
        return
    meaning = _MEANINGS[word]
    other = draw.choice(_OPPOSITES[meaning])
    forms = (_SOURCE if group.startswith("the ") else _SOURCE_BARE)[other]
    changed = [_quantified(tree, i, form, group, clause.opens, clause.closes) for form in forms]
    statements = _statements(meaning, other, group, predicate)
    form = f"{word}, {other}"
    yield from crossings("scope", form, scene.text, [({}, text) for text in changed], statements, (i,), draw)


def _quantified(tree: Tree, i: int, form: str, group: str, first: int, last: int) -> Version:
    return {i: tree.replaced((first, last, form.replace("N", group)))}


def _statements(meaning: str, other: str, group: str, predicate: str) -> list[tuple[str, str]]:
    forms = _SAID if group.startswith("the ") else _SAID_BARE
    right, wrong = ([f"{form.replace('N', group)} {predicate}." for form in forms[m]] for m in (meaning, other))
    return list(product(right, wrong))


# ---------------------------------------------------------------------------------------------------- both, only

_TOGETHER = word_set("""
meet marry divorce agree disagree fight share collaborate join unite combine merge form face play compete separate
exchange differ resemble become have cooperate quarrel reconcile settle be
""")
_ONE_EACH = re.compile(
    r"\b(?:together|each|both|respectively|their|them|they|another|between|jointly|a couple|parents|not|all)\b", re.I
)


def pairs(scene: Scene, i: int, draw: Random) -> Iterator[Crossing]:
    """Exclude one of two people or things: "Anna and Eva came" becomes "Anna, but not Eva, came"."""
    tree = scene.trees[i]
    clause = tree.clause(tree.root)
    if clause is None or clause.negated or clause.end != len(tree) - 2:
        return
    head = tree.child(tree.root, "nsubj")
    cc, second = (None, None) if head is None else (tree.child(head, "cc"), tree.child(head, "conj"))
    if head is None or cc is None or second is None or clause.closes != clause.finite - 1:
        return
    is_past = clause.finite == clause.verb and tree.tags[clause.verb] == "VBD"
    if not is_past or tree.lemmas[clause.verb] in _TOGETHER or tree.lower[cc] != "and" or tree.kinds[cc]:
        return
    one, other = tree.text(clause.opens, cc - 1), tree.text(cc + 1, clause.closes)
    are_names = tree.tags[head] == tree.tags[second] == "NNP"
    if tree.phrase(second) is None or tree.first[second] != cc + 1 or "," in one or max(map(len, (one, other))) > 40:
        return
    if not are_names and not (tree.lower[clause.opens] in ("the", "a", "an") and tree.tags[head] == tree.tags[second]):
        return
    predicate = tree.text(clause.finite, clause.end)
    if _ONE_EACH.search(predicate):
        return
    stays, out = draw.choice(((one, other), (other, one)))
    not_so = "did nothing of the kind: of the two it was just"
    statements = [
        (f"{out} ‹{predicate}›.", f"{out} ‹{not_so}› {stays} ‹that {predicate}›."),
        (
            f"‹The two of them,› {one} ‹as well as› {other}, {predicate}.",
            f"‹Of the two,› {stays} ‹alone› {predicate}, {out} ‹being out›.",
        ),
    ]
    version = {i: opened(f"{stays}, but not {out}, {predicate}.")}
    yield from crossings("scope", "pair", scene.text, [({}, version)], statements, (i,), draw)


def restrictions(scene: Scene, i: int, draw: Random) -> Iterator[Crossing]:
    """Say that a fact applies to one only, or to others, too: "only Anna came", "Anna, like others, came"."""
    for fact in scene.facts(i):
        tree, subject, predicate = fact.tree, fact.subject, fact.predicate
        if not fact.alone or fact.tense != "past" or fact.passive or subject.known_from is not None:
            continue
        if not fact.follows_subject or not subject.is_agent or _ONE_EACH.search(predicate) or not fact.is_complete:
            continue
        if fact.end != len(tree) - 2 or fact.lemma in ("be", "become", "have") or tree.tags[fact.opens] != "VBD":
            continue
        who, be = subject.text, "were" if subject.plural else "was"
        statements = [
            (f"‹Nobody apart from› {who} {predicate}.", f"{who} ‹{be} among several who› {predicate}."),
            (f"‹It was› {who} ‹alone who› {predicate}.", f"{who} ‹{be} not alone: others, too,› {predicate}."),
        ]
        span = subject.first, subject.last
        only = {i: tree.replaced((*span, f"only {who}"))}
        others = (f"{who}, among others,", f"{who}, like others,")
        versions = [(only, {i: tree.replaced((*span, form))}) for form in others]
        yield from crossings("scope", "only", scene.text, versions, statements, (i,), draw)


# ---------------------------------------------------------------------------------------------------- bounds

# a bound, its opposite, and other words for both
_BOUNDS: dict[str, Sequence[str]] = {
    "more than": ("fewer than", "over", "under"),
    "over": ("under", "more than", "fewer than"),
    "at least": ("at most", "no fewer than", "no more than"),
    "at most": ("at least", "no more than", "no fewer than"),
    "up to": ("at least", "no more than", "no fewer than"),
    "nearly": ("well over", "a little under", "a good deal more than"),
    "almost": ("well over", "slightly under", "a good deal more than"),
    "fewer than": ("more than", "under", "over"),
    "less than": ("more than", "under", "over"),
    "exactly": ("at least", "neither more nor less than", "no fewer than"),
}
_BOUND_WORDS = word_set("more over least most to nearly almost fewer less exactly than")


def bounds(scene: Scene, i: int, draw: Random) -> Iterator[Crossing]:
    """Reverse a bound: "more than 500 people" becomes "fewer than 500 people"."""
    tree = scene.trees[i]
    numbers = [t for t, tag in enumerate(tree.tags) if tag == "CD" and t > 2 and tree.lower[t - 1] in _BOUND_WORDS]
    for number in numbers:
        fact = next((fact for fact in scene.facts(i) if fact.verb < number <= fact.end and fact.is_complete), None)
        at = number - 1 if tree.lower[number - 1] in _BOUNDS else number - 2
        bound = " ".join(tree.lower[at:number])
        if fact is None or bound not in _BOUNDS or at <= fact.opens or YEAR.fullmatch(tree.lower[number]):
            continue
        if tree.lower[at - 1] in ("no", "not", "of", "since", "until", "by"):
            continue
        if tree.lower[number + 1] in ("bc", "ad", "bce", "ce") or (bound == "over" and tree.deps[at] == "prep"):
            continue
        rest = tree.text(number, fact.end)
        if re.search(r"\b(?:or|and) (?:more|less|over)\b", rest) or len(rest.split()) > 14:
            continue
        new, same, reverse = _BOUNDS[bound]
        if tree.kinds[number] != "CARDINAL":
            new, same, reverse = (words.replace("fewer", "less") for words in (new, same, reverse))
        start = f"{fact.subject.said} {fact.until(at - 1)}"
        right, wrong = (f"{start} ‹{words}› {rest}." for words in (same, reverse))
        version = {i: tree.replaced((at, number - 1, new))}
        yield Crossing("scope", f"bound: {bound}", ({}, version), (right, wrong), fact.touched)
