"""Make statements about how two clauses are related: which one is the cause of the other, or which one came first."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from veridical_lab.corrupt.crossed.crossing import Crossing, Version, crossings
from veridical_lab.corrupt.crossed.lexicon import word_set
from veridical_lab.corrupt.crossed.scenes import Fact, Scene
from veridical_lab.corrupt.crossed.trees import Tree, opened
from veridical_lab.corrupt.crossed.verbs import conjugate, past

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
    """Return whether clauses can stand in any order, because none of them refers to something before."""
    return not any(_PRONOUN.search(clause) for clause in clauses)


def _said(template: str, f: str, g: str) -> str:
    """Put two clauses in the place of F and G in a template, with a capital letter at the beginning of a sentence."""
    clauses = {"F": f, "G": g}
    text = re.sub(r"(?<=\. )[FG]\b", lambda match: opened(clauses[match[0]]), template)
    return opened(re.sub(r"\b[FG]\b", lambda match: clauses[match[0]], text))


@dataclass(frozen=True, slots=True)
class _Link:
    """The two clauses of a sentence, in order. `sub_first` tells whether the one with the conjunction comes first."""

    first: str
    second: str
    conjunction: int
    sub_first: bool


def _links(tree: Tree, conjunctions: Sequence[str]) -> Iterator[_Link]:
    """Find the two clauses of a sentence that consists of nothing else and joins them by one of these conjunctions."""
    if not word_set(" ".join(conjunctions)) & set(tree.lower):
        return
    end = len(tree) - 2
    subject = tree.child(tree.root, "nsubj", "nsubjpass")
    for sub in tree.all_children(tree.root, "advcl"):
        mark, own = tree.child(sub, "mark"), tree.child(sub, "nsubj", "nsubjpass")
        first, last = tree.first[sub], tree.last[sub]
        if mark is None or own is None or subject is None or mark != first or tree.first[own] != mark + 1:
            continue
        if tree.lower[mark] not in conjunctions or not tree.is_whole(sub) or last - first > _LONGEST:
            continue
        if last == end:
            link = _Link(_clause(tree, 0, first - 1), _clause(tree, mark + 1, last), mark, False)
            opens, size = 0, first
        elif first == 0 and tree.lower[last + 1] == ",":
            link = _Link(_clause(tree, mark + 1, last), _clause(tree, last + 2, end), mark, True)
            opens, size = last + 2, end - last
        else:
            continue
        if tree.first[subject] == opens and size <= _LONGEST and _is_plain(link.first, link.second):
            yield link


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
    """Exchange cause and effect of two clauses or sentences that "because", "so", "as a result" and the like join."""
    tree = scene.trees[i]
    if tree is None:
        return
    for link in _links(tree, ("because",)):
        yield from _reversed_causes(scene, (i,), link.first, link.second, link.sub_first, "because", draw)
    if (clauses := _around_so(tree)) is not None:
        yield from _reversed_causes(scene, (i,), *clauses, True, "so", draw)
    match = _CONNECTIVES.match(tree.parsed.text)
    before = scene.trees[i - 1] if match and i and i not in scene.text.breaks else None
    subject = None if before is None else before.child(before.root, "nsubj", "nsubjpass")
    opens = before is not None and subject is not None and before.first[subject] == 0
    if match and before is not None and opens and max(len(before), len(tree)) <= _LONGEST + 2:
        effect_of = before.inside(before.parsed.text.removesuffix("."))
        yield from _reversed_causes(scene, (i - 1, i), effect_of, match[1], True, "sentences", draw)
    yield from _noun_causes(tree, i)


def _reversed_causes(
    scene: Scene, touched: tuple[int, ...], f: str, g: str, cause_first: bool, form: str, draw: Random
) -> Iterator[Crossing]:
    """Make a crossing from a text that says which of two clauses is the cause, and a text that says the reverse."""
    emptied = dict.fromkeys(touched[:-1], "")  # a second sentence takes up the first one

    def version(template: str, one: str, other: str) -> Version:
        return {**emptied, touched[-1]: _said(template, one, other)}

    given, reverse = (_CAUSE_FIRST, _EFFECT_FIRST) if cause_first else (_EFFECT_FIRST, _CAUSE_FIRST)
    right, wrong = (_SAID_EFFECT_FIRST, _SAID_CAUSE_FIRST)[:: -1 if cause_first else 1]
    reversed_texts = [version(template, f, g) for template in reverse]
    statements = [(_said(a, f, g), _said(b, f, g)) for a in right for b in wrong]
    yield from crossings("cause", form, scene.text, [({}, text) for text in reversed_texts], statements, touched, draw)
    if _is_free(f, g):  # the clauses may change places
        template = draw.choice(given)
        said = re.sub(r"\b[FG]\b", r"‹\g<0>›", re.sub("[‹›]", "", draw.choice(wrong)))
        versions = [(version(template, f, g), version(template, g, f))]
        statements = [(_said(said, g, f), _said(said, f, g))]
        yield from crossings("cause", f"{form}, exchanged", scene.text, versions, statements, touched, draw)


def _around_so(tree: Tree) -> tuple[str, str] | None:
    """Return the two clauses of a sentence such as "F, so G", or None for any other sentence."""
    so = tree.lower.index("so") if "so" in tree.lower else 0
    if not 4 < so < len(tree) - 4 or tree.lower[so - 1] != "," or max(so, len(tree) - so) > _LONGEST:
        return None
    subject = tree.child(tree.root, "nsubj", "nsubjpass")
    effects = [verb for verb in tree.all_children(tree.root, "conj") if verb > so]
    other = tree.child(effects[0], "nsubj", "nsubjpass") if effects else None
    if subject is None or other is None or tree.first[subject] or tree.first[other] != so + 1:
        return None
    f, g = _clause(tree, 0, so - 2), _clause(tree, so + 1, len(tree) - 2)
    return (f, g) if _is_plain(f, g) else None


def _noun_causes(tree: Tree, i: int) -> Iterator[Crossing]:
    """Reverse cause and effect: "F because of N" becomes "F, which led to N"."""
    if not any(word in tree.lower for word in _CAUSAL_NOUN):
        return
    end = len(tree) - 2
    subject = tree.child(tree.root, "nsubj", "nsubjpass")
    for noun in (t for t in range(end, 4, -1) if tree.deps[t] == "pobj"):
        at = tree.first[noun] - 2
        phrase = tree.phrase(noun)
        if at < 4 or phrase is None or phrase.last != end or phrase.kind not in ("thing", "place"):
            continue
        if _CAUSAL_NOUN.get(tree.lower[at]) != tree.lower[at + 1] or tree.lower[at - 1] in _NO_CAUSE:
            continue
        above = tree.heads[at] if tree.heads[at] != at + 1 else tree.heads[at + 1]
        effect = _clause(tree, 0, at - 1)
        if above != tree.root or subject is None or tree.first[subject] or at > _LONGEST or not _is_plain(effect):
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
_YEAR = re.compile("1[0-9]{3}|20[0-9]{2}")
_AHEAD = 5  # sentences between two dated events


def orders(scene: Scene, i: int, draw: Random) -> Iterator[Crossing]:
    """Reverse the order of two events that "before", "after", "then" or the years in which they happened tell."""
    tree = scene.trees[i]
    if tree is None:
        return
    for link in _links(tree, ("before", "after")):
        word = _word(tree, link.conjunction)
        other = {i: tree.replaced((link.conjunction, link.conjunction, _OTHER[word]))}
        first_earlier = (word.lower() == "before") != link.sub_first
        right, wrong = (_SAID_FIRST_EARLIER, _SAID_SECOND_EARLIER)[:: 1 if first_earlier else -1]
        clauses = link.first, link.second
        statements = [(_said(a, *clauses), _said(b, *clauses)) for a in right for b in wrong]
        yield from crossings("order", word.lower(), scene.text, [({}, other)], statements, (i,), draw)
    for fact in scene.facts(i):
        if fact.is_main and fact.tense == "past":
            yield from _participles(fact)
            yield from _sequences(fact, draw)
    yield from _dated(scene, i, draw)


def _word(tree: Tree, token: int) -> str:
    return tree.parsed.text[tree.parsed.starts[token] : tree.parsed.ends[token]]


def _participles(fact: Fact) -> Iterator[Crossing]:
    """Reverse the order of events in sentences such as "after leaving Rome, Anna went to Paris"."""
    tree = fact.tree
    for prep in tree.all_children(fact.verb, "prep"):
        word, verb = _word(tree, prep), tree.child(prep, "pcomp")
        if word not in _OTHER or verb is None or tree.first[prep] != prep or tree.last[verb] - verb > 14:
            continue
        if tree.child(verb, "conj") is not None:
            continue
        end = fact.end
        if prep > fact.verb:  # it must end the sentence, after the main clause
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
    """Turn "leaving" or "having left" into "left", and "being elected" into "was elected". "" if it is unclear who."""
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
    if second is None or fact.passive or tree.child(second, "nsubj", "nsubjpass") is not None:
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
    """A fact with a date. `text` is the fact without the date, whose tokens go from `first` to `last`."""

    fact: Fact
    text: str
    first: int
    last: int
    year: str

    def dated(self, other: _Event) -> str:
        """Put the date of another event into the sentence."""
        parsed = other.fact.tree.parsed
        date = parsed.text[parsed.starts[other.first] : parsed.ends[other.last]]
        return self.fact.tree.replaced((self.first, self.last, date[0].lower() + date[1:]))


def _events(scene: Scene, i: int) -> Iterator[_Event]:
    """Find the facts of a sentence that happened "in" a year or "on" a day, if the sentence has no other year."""
    tree = scene.trees[i]
    years = [t for t in range(len(tree)) if _YEAR.fullmatch(tree.lower[t])] if tree else []
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
    others = (event for k in range(i + 1, min(i + _AHEAD, len(scene))) for event in _events(scene, k))
    other = next((event for event in others if event.year != first.year and event.text != first.text), None)
    if other is not None:
        early, late = (first, other) if first.year < other.year else (other, first)
        template = draw.choice(("{} before {}.", "{}, and only later {}.", "{}; after that, {}."))
        right, wrong = (template.format(f"‹{a.text}›", f"‹{b.text}›") for a, b in ((early, late), (late, early)))
        version = {i: first.dated(other), other.fact.sentence: other.dated(first)}
        touched = tuple(sorted({*first.fact.touched, *other.fact.touched}))
        yield Crossing("order", "years", ({}, version), (right, wrong), touched)
