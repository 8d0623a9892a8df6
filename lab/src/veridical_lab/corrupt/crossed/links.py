"""Make statements about how two clauses are related: which one is the cause of the other, or which event came first."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from veridical_lab.corrupt.crossed.crossing import Crossing, Version, crossings, filled
from veridical_lab.corrupt.crossed.scenes import Fact, Scene
from veridical_lab.corrupt.crossed.trees import Tree, opened
from veridical_lab.corrupt.crossed.verbs import conjugate, past
from veridical_lab.corrupt.english import word_set
from veridical_lab.corrupt.mentions import YEAR

_LONGEST = 24  # tokens of a clause
_PRONOUN = re.compile(r"\b(?:he|she|it|they|him|her|his|its|their|them|this|these|those|such|there|so|one)\b", re.I)
_OPEN = re.compile(
    r"\b(?:could|would|should|might|may|can|must|ever|any|if|whether|unless|until|because|although|though|while|before|"
    r"after|since|never|not|only)\b|n['’]t\b",
    re.I,
)
"""Words that show that a clause need not be true, or that it contains another clause."""


def _is_plain(*clauses: str) -> bool:
    return not any(_OPEN.search(clause) for clause in clauses)


def _is_free(*clauses: str) -> bool:
    """Return whether clauses can stand in any order, because none of them refers to earlier text."""
    return not any(_PRONOUN.search(clause) for clause in clauses)


def _said(template: str, f: str, g: str) -> str:
    return filled(template, {"F": f, "G": g})


def _links(tree: Tree, *conjunctions: str) -> Iterator[tuple[str, str, int, bool]]:
    """Find the two clauses of a sentence that consists of only these clauses and one of the conjunctions.

    Yield the clauses in order, the conjunction, and whether the clause with the conjunction comes first.
    """
    end = len(tree) - 2
    subject = tree.subject_of(tree.root)
    for sub in tree.all_children(tree.root, "advcl"):
        mark, own = tree.child(sub, "mark"), tree.subject_of(sub)
        first, last = tree.first[sub], tree.last[sub]
        if mark is None or own is None or subject is None or mark != first or tree.first[own] != mark + 1:
            continue
        if tree.lower[mark] not in conjunctions or not tree.is_whole(sub) or last - first > _LONGEST:
            continue
        if last != end and (first > 0 or tree.lower[last + 1] != ","):
            continue
        opens, size = (0, first) if last == end else (last + 2, end - last)
        main, own_clause = _clause(tree, opens, opens + size - 1), _clause(tree, mark + 1, last)
        clauses = (main, own_clause) if last == end else (own_clause, main)
        if tree.first[subject] == opens and size <= _LONGEST and _is_plain(*clauses):
            yield *clauses, mark, last != end


def _clause(tree: Tree, first: int, last: int) -> str:
    """Make a clause from some tokens, without final punctuation and with "left" in place of "had left"."""
    while last > first and tree.tags[last] in (",", ".", ":"):
        last -= 1
    for token in range(first, last):
        verb = token + 1
        is_past = tree.lower[token] == "had" and tree.heads[token] == verb and tree.tags[verb] == "VBN"
        if is_past and len(tree.all_children(verb, "aux", "auxpass")) == 1:
            parts = (tree.text(first, token - 1), past(tree.lemmas[verb].lower()), tree.text(verb + 1, last))
            return " ".join(part for part in parts if part)
    return tree.text(first, last)


# ---------------------------------------------------------------------------------------------------- causes

# F is the first clause in the text, G the second
_EFFECT_FIRST = ("F because G.", "F. This was because G.", "F. The reason for this was that G.")
_CAUSE_FIRST = ("F, so G.", "F. As a result, G.", "F. Therefore, G.", "F. Because of this, G.", "Because F, G.")
_SAID_EFFECT_FIRST = (
    "‹The reason why› F ‹is that› G.",
    "F, ‹and what caused this is that› G.",
    "F, ‹and this comes from the fact that› G.",
)
_SAID_CAUSE_FIRST = (
    "F, ‹and as a consequence› G.",
    "F, ‹and this is why› G.",
    "‹The fact that› F ‹had the effect that› G.",
    "F, ‹and it follows from this that› G.",
)
_CONNECTIVES = re.compile(
    r"(?:As a result|As a consequence|Consequently|Therefore|For this reason|Because of this|Hence), (.+)\.$"
)
_CAUSAL_NOUN = {"because": "of", "due": "to", "owing": "to", "thanks": "to"}
_NO_CAUSE = word_set("partly largely mainly mostly primarily not part only just probably possibly perhaps is was")


def causes(scene: Scene, i: int, draw: Random) -> Iterator[Crossing]:
    """Exchange cause and effect of two clauses or sentences that are joined by "because", "so", "as a result" etc."""
    tree = scene.trees[i]
    for f, g, _, cause_first in _links(tree, "because"):
        yield from _reversed_causes(scene, (i,), f, g, cause_first, "because", draw)
    if (clauses := _around_so(tree)) is not None:
        yield from _reversed_causes(scene, (i,), *clauses, True, "so", draw)
    match = _CONNECTIVES.match(tree.parsed.text)
    before = None if i in scene.text.breaks else scene.trees.get(i - 1)
    if match and before is not None and before.opens_with_subject and max(len(before), len(tree)) <= _LONGEST + 2:
        cause = before.inside(before.parsed.text.removesuffix("."))
        yield from _reversed_causes(scene, (i - 1, i), cause, match[1], True, "sentences", draw)
    yield from _noun_causes(tree, i)


def _reversed_causes(
    scene: Scene, touched: tuple[int, ...], f: str, g: str, cause_first: bool, form: str, draw: Random
) -> Iterator[Crossing]:
    """Make a crossing from a text in which one of two clauses is the cause, and a text that says the reverse."""
    emptied = dict.fromkeys(touched[:-1], "")  # both clauses go into the last sentence

    def version(template: str, one: str, other: str) -> Version:
        return {**emptied, touched[-1]: _said(template, one, other)}

    given, reverse = (_CAUSE_FIRST, _EFFECT_FIRST) if cause_first else (_EFFECT_FIRST, _CAUSE_FIRST)
    right, wrong = (_SAID_EFFECT_FIRST, _SAID_CAUSE_FIRST)[:: -1 if cause_first else 1]
    reversed_texts = [version(template, f, g) for template in reverse]
    statements = [(_said(a, f, g), _said(b, f, g)) for a in right for b in wrong]
    yield from crossings("cause", form, scene.text, [({}, text) for text in reversed_texts], statements, touched, draw)
    if _is_free(f, g):  # the clauses may change places
        template = draw.choice(given)
        said = re.sub("[‹›]", "", draw.choice(wrong))
        versions = [(version(template, f, g), version(template, g, f))]
        statements = [(_said(said, f"‹{g}›", f"‹{f}›"), _said(said, f"‹{f}›", f"‹{g}›"))]
        yield from crossings("cause", f"{form}, exchanged", scene.text, versions, statements, touched, draw)


def _around_so(tree: Tree) -> tuple[str, str] | None:
    """Return the two clauses of a sentence such as "F, so G", or None for any other sentence."""
    so = tree.find("so")
    if not 4 < so < len(tree) - 4 or tree.lower[so - 1] != "," or max(so, len(tree) - so) > _LONGEST:
        return None
    effect = next((verb for verb in tree.all_children(tree.root, "conj") if verb > so), None)
    other = None if effect is None else tree.subject_of(effect)
    if other is None or not tree.opens_with_subject or tree.first[other] != so + 1:
        return None
    f, g = _clause(tree, 0, so - 2), _clause(tree, so + 1, len(tree) - 2)
    return (f, g) if _is_plain(f, g) else None


def _noun_causes(tree: Tree, i: int) -> Iterator[Crossing]:
    """Reverse cause and effect: "F because of N" becomes "F, which led to N"."""
    if not any(word in tree.lower for word in _CAUSAL_NOUN):
        return
    end = len(tree) - 2
    for noun in (t for t in range(end, 4, -1) if tree.deps[t] == "pobj"):
        at = tree.first[noun] - 2
        phrase = tree.phrase(noun)
        if at < 4 or phrase is None or phrase.last != end or phrase.kind not in ("thing", "place"):
            continue
        if _CAUSAL_NOUN.get(tree.lower[at]) != tree.lower[at + 1] or tree.lower[at - 1] in _NO_CAUSE:
            continue
        above = tree.heads[at] if tree.heads[at] != at + 1 else tree.heads[at + 1]
        effect = _clause(tree, 0, at - 1)
        if above != tree.root or not tree.opens_with_subject or at > _LONGEST or not _is_plain(effect):
            continue
        be = "were" if phrase.plural else "was"
        cause = f"{phrase.text} {be} ‹the reason why› {effect}."
        statements = cause, f"{phrase.text} {be} ‹the result of the fact that› {effect}."
        version = {i: opened(f"{effect}, which led to {phrase.text}.")}
        yield Crossing("cause", f"{tree.lower[at]} {tree.lower[at + 1]}", ({}, version), statements, (i,))


# ---------------------------------------------------------------------------------------------------- order

_SAID_FIRST_EARLIER = (
    "F, ‹and then› G.", "F, ‹and afterwards› G.", "‹First›, F; ‹later›, G.", "F. ‹Some time later,› G.",
)  # fmt: skip
_SAID_SECOND_EARLIER = (
    "F, ‹but even earlier› G.",
    "F, ‹but prior to that› G.",
    "F. ‹Some time earlier,› G.",
    "F, ‹and even before that› G.",
)
_OTHER = {"before": "after", "after": "before", "Before": "After", "After": "Before"}
_AHEAD = 4  # sentences after the first event in which the second one may be


def orders(scene: Scene, i: int, draw: Random) -> Iterator[Crossing]:
    """Reverse the order of two events. The text gives the order by "before", "after", "then" or years."""
    tree = scene.trees[i]
    for f, g, conjunction, opens in _links(tree, "before", "after"):
        word = tree.original(conjunction, conjunction)
        other = {i: tree.replaced((conjunction, conjunction, _OTHER[word]))}
        right, wrong = (_SAID_FIRST_EARLIER, _SAID_SECOND_EARLIER)[:: 1 if (word.lower() == "before") != opens else -1]
        statements = [(_said(a, f, g), _said(b, f, g)) for a in right for b in wrong]
        yield from crossings("order", word.lower(), scene.text, [({}, other)], statements, (i,), draw)
    for fact in scene.facts(i):
        if fact.is_main and fact.tense == "past":
            yield from _participles(fact)
            yield from _sequences(fact, draw)
    yield from _dated(scene, i, draw)


def _participles(fact: Fact) -> Iterator[Crossing]:
    """Reverse the order of events in sentences such as "after leaving Rome, Anna went to Paris"."""
    tree = fact.tree
    for prep in tree.all_children(fact.verb, "prep"):
        word, verb = tree.original(prep, prep), tree.child(prep, "pcomp")
        if word not in _OTHER or verb is None or tree.first[prep] != prep or tree.last[verb] - verb > 14:
            continue
        if tree.child(verb, "conj") is not None:
            continue
        end = fact.end
        if prep > fact.verb:  # the participle clause must end the sentence, after the main clause
            end = prep - 1 - (tree.lower[prep - 1] == ",")
            if tree.last[prep] < len(tree) - 2:
                continue
        form = _past_of_participle(fact, prep, verb)
        main = fact.until(end)
        other = f"{form} {tree.text(verb + 1, tree.last[verb])}".strip()
        if not form or not _is_plain(main, other) or "," in main + other:
            continue
        earlier, later = (other, main) if word.lower() == "after" else (main, other)
        who = fact.subject.said
        right, wrong = (f"{who} ‹{a}› and then ‹{b}›." for a, b in ((earlier, later), (later, earlier)))
        version = {fact.sentence: tree.replaced((prep, prep, _OTHER[word]))}
        yield Crossing("order", f"{word.lower()} doing", ({}, version), (right, wrong), fact.touched)


def _past_of_participle(fact: Fact, prep: int, verb: int) -> str:
    """Turn "leaving" or "having left" into "left", "being elected" into "was elected". "" if the agent is unclear."""
    tree, auxiliaries = fact.tree, fact.tree.all_children(verb, "aux", "auxpass")
    opening = auxiliaries[0] if auxiliaries else verb
    if len(auxiliaries) > 1 or opening != prep + 1 or (not fact.subject.is_agent and (auxiliaries or fact.passive)):
        return ""
    if auxiliaries and tree.lower[opening] == "being":
        return f"{conjugate('be', 'past', fact.subject.plural)} {tree.lower[verb]}"
    is_active = tree.lower[opening] == "having" if auxiliaries else tree.tags[verb] == "VBG"
    return past(tree.lemmas[verb].lower()) if is_active else ""


def _sequences(fact: Fact, draw: Random) -> Iterator[Crossing]:
    """Reverse the order of events in sentences such as "Anna left Rome and then went to Paris"."""
    tree, second = fact.tree, fact.tree.child(fact.verb, "conj")
    if second is None or fact.passive or tree.subject_of(second) is not None:
        return
    then = next((t for t in tree.children[second] if tree.lower[t] in ("then", "later", "subsequently")), second)
    cc = tree.child(fact.verb, "cc")
    last = (cc if cc is not None and cc < then else then) - 1
    last -= tree.lower[last] == ","
    end = tree.end_of(second)
    if then >= second or end != len(tree) - 2 or tree.tags[fact.opens] != "VBD" or tree.tags[then + 1] != "VBD":
        return
    one, two = tree.text(fact.opens, last), tree.text(then + 1, end)
    if not _is_plain(one, two) or not _is_free(two) or "," in one + two:
        return
    version = {fact.sentence: tree.replaced((fact.opens, last, two), (then + 1, end, one))}
    who, word = fact.subject.said, draw.choice(("afterwards", "only after that"))
    right, wrong = (f"{who} first ‹{a}› and {word} ‹{b}›." for a, b in ((one, two), (two, one)))
    yield Crossing("order", "then", ({}, version), (right, wrong), fact.touched)


@dataclass(frozen=True, slots=True)
class _Event:
    """A dated fact. `text` is the fact without the date. The tokens of the date go from `first` to `last`."""

    fact: Fact
    text: str
    first: int
    last: int
    year: str

    @property
    def date(self) -> str:
        """The date with the preposition, as it stands inside a sentence."""
        date = self.fact.tree.original(self.first, self.last)
        return date[0].lower() + date[1:]


def _events(scene: Scene, i: int) -> Iterator[_Event]:
    """Find the facts of a sentence that happened "in" a year or "on" a day, if the sentence has no other year."""
    tree = scene.trees.get(i)
    years = [t for t, word in enumerate(tree.lower) if YEAR.fullmatch(word)] if tree else []
    if tree is None or len(years) != 1:
        return
    prep = years[0]
    while tree.heads[prep] != prep and tree.deps[prep] != "prep":
        prep = tree.heads[prep]
    last = tree.last[prep]
    if tree.lower[prep] not in ("in", "on") or tree.first[prep] != prep or last - prep > 5 or not tree.is_whole(prep):
        return
    if any(tree.tags[t] not in ("NNP", "CD", ",") for t in range(prep + 1, last + 1)):
        return
    for fact in scene.facts(i):
        if tree.heads[prep] != fact.verb or fact.tense != "past" or fact.lemma in ("be", "have") or not fact.alone:
            continue
        if tree.child(fact.verb, "ccomp") is not None or fact.opens < prep < fact.verb:
            continue
        if prep < fact.verb:
            said = fact.predicate
        elif last <= fact.end:
            said = f"{fact.until(prep - 1)} {tree.text(last + 1, fact.end)}".strip()
        else:
            continue
        if _is_plain(said) and len(said.split()) <= 16:
            yield _Event(fact, f"{fact.subject.said} {said}", prep, last, tree.lower[years[0]])


def _dated(scene: Scene, i: int, draw: Random) -> Iterator[Crossing]:
    """Exchange the dates of an event in this sentence and of the next event that happened in another year."""
    first = next(_events(scene, i), None)
    if first is None:
        return
    others = (event for k in scene.ahead(i, _AHEAD) for event in _events(scene, k))
    other = next((event for event in others if event.year != first.year and event.text != first.text), None)
    if other is not None:
        early, late = (first, other) if first.year < other.year else (other, first)
        template = draw.choice(("{} before {}.", "{}, and only later {}.", "{}; after that, {}."))
        right, wrong = (template.format(f"‹{a.text}›", f"‹{b.text}›") for a, b in ((early, late), (late, early)))
        exchanged = ((a.fact.sentence, a.first, a.last, b.date) for a, b in ((first, other), (other, first)))
        version = scene.changed(*exchanged)
        touched = tuple(sorted({*first.fact.touched, *other.fact.touched}))
        yield Crossing("order", "years", ({}, version), (right, wrong), touched)
