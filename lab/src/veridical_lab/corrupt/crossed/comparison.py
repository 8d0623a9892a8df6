"""Make statements about which of two things has more of something, by comparatives, superlatives or two numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from random import Random

from veridical_lab.corrupt.crossed.crossing import Crossing, crossings
from veridical_lab.corrupt.crossed.scenes import Scene
from veridical_lab.corrupt.crossed.trees import Tree
from veridical_lab.corrupt.english import opposites_of, word_set
from veridical_lab.corrupt.mentions import COUNTS, YEAR

_PAIRS = """
higher lower, larger smaller, bigger smaller, greater smaller, older younger, newer older, taller shorter, longer
shorter, faster slower, heavier lighter, richer poorer, earlier later, better worse, stronger weaker, wider narrower,
broader narrower, deeper shallower, warmer colder, hotter cooler, closer farther, nearer farther, harder softer,
brighter darker, cheaper dearer, thicker thinner, steeper flatter, safer riskier, easier harder, louder quieter,
happier sadder, quicker slower, smarter duller, cleaner dirtier, more less, fewer more
"""
_OPPOSITES = opposites_of(pair.split() for pair in _PAIRS.split(","))
_NO_THINGS = word_set("CARDINAL QUANTITY MONEY PERCENT DATE TIME")


def comparatives(scene: Scene, i: int, draw: Random) -> Iterator[Crossing]:
    """Exchange the sides of "A is larger than B". Statements also use the opposite word: "B is smaller than A"."""
    tree = scene.trees[i]
    than = tree.find("than")
    noun = tree.child(than, "pobj")
    other = None if noun is None else tree.phrase(noun)
    if not than or other is None or other.first != than + 1 or tree.deps[than] != "prep":
        return
    if tree.kinds[other.head] in _NO_THINGS or any(char.isdigit() for char in other.text):
        return
    for fact in scene.facts(i):
        subject = fact.subject
        words = [t for t in range(fact.opens, than) if tree.lower[t] in _OPPOSITES or tree.tags[t] in ("JJR", "RBR")]
        agrees = fact.tense != "past" or fact.lemma == "be" or not fact.alone
        if not fact.verb < than <= other.last <= fact.end or len(words) != 1 or subject.known_from is not None:
            continue
        heads = frozenset(tree.lower[phrase.head] for phrase in (subject, other))
        if len(heads) < 2 or (agrees and subject.plural != other.plural):
            continue
        if (subject.kind == "person") != (other.kind == "person"):
            continue
        (word,) = words
        a, b, start, end = subject.text, other.text, fact.until(word - 1), tree.text(word + 1, than)
        opposite = _OPPOSITES.get(tree.lower[word]) if draw.random() < 0.8 else None
        if opposite is not None:
            a, b = b, a
        between = " ".join(part for part in (start, opposite or tree.lower[word], end) if part)
        right, wrong = f"‹{a}› {between} ‹{b}›.", f"‹{b}› {between} ‹{a}›."
        exchanged = tree.replaced((subject.first, subject.last, other.text), (other.first, other.last, subject.text))
        yield Crossing("comparison", tree.lower[word], ({}, {i: exchanged}), (right, wrong), (i,), heads)


# ---------------------------------------------------------------------------------------------------- superlatives

_COMPARATIVE = {"best": "better", "worst": "worse", "most": "more", "least": "less"}


def superlatives(scene: Scene, i: int, draw: Random) -> Iterator[Crossing]:
    """Exchange "the largest" and "the second largest"."""
    tree = scene.trees[i]
    clause, attribute = tree.clause(tree.root), tree.child(tree.root, "attr")
    if clause is None or clause.subject is None or attribute is None or clause.negated:
        return
    if tree.lemmas[clause.verb] != "be" or clause.finite != clause.verb or not clause.tense or clause.subject.plural:
        return
    word = tree.first[attribute] + 1
    is_superlative = tree.lower[word - 1] == "the" and tree.tags[word] in ("JJS", "RBS")
    if not clause.finite < word - 1 or not is_superlative or clause.closes != clause.finite - 1:
        return
    superlative, adjective = tree.lower[word], word
    comparative = _COMPARATIVE.get(superlative, f"{superlative[:-3]}er")
    if superlative in ("most", "least"):
        adjective += 1
        comparative += f" {tree.lower[adjective]}"
    thing = tree.text(adjective + 1, clause.end)
    is_adjective = tree.tags[adjective].startswith("JJ") and tree.tags[adjective + 1].startswith(("NN", "JJ"))
    if not is_adjective or superlative in ("last", "eldest") or not superlative.endswith("st"):
        return
    is_qualified = re.search(r"\b(?:one of|ever|second|third|by far)\b", tree.parsed.text)
    if "," in thing or len(thing.split()) > 14 or is_qualified:
        return
    who, be = clause.subject.text, tree.lower[clause.finite]
    best = tree.text(word, adjective)
    ranks = ("ranked", "did not rank") if clause.tense == "past" else ("ranks", "does not rank")
    article = "an" if comparative[0] in "aeiou" else "a"
    templates = (
        (("‹No other›", "‹Another›"), f"{{}} {thing} {be} {comparative} than {who}."),
        ((f"‹{ranks[0]} first›", f"‹{ranks[1]} first›"), f"{who} {{}} as the {best} {thing}."),
        ((f"‹There {be} no›", f"‹There {be} {article}›"), f"{{}} {comparative} {thing} than {who}."),
    )
    statements = [(template.format(a), template.format(b)) for (a, b), template in templates]
    rank = draw.choice(("second", "third"))
    version = {i: tree.replaced((word, word, f"{rank} {superlative}"))}
    yield from crossings("comparison", superlative, scene.text, [({}, version)], statements, (i,), draw)


# ---------------------------------------------------------------------------------------------------- numbers

_COUNT = re.compile(r"[0-9]{1,3}(?:,[0-9]{3})*|[0-9]+")
_SMALL = {word: n for n, word in enumerate(("zero", "one", *COUNTS))}
_UNITS = word_set("""
acres cents days degrees dollars euros feet grams hectares hours inches inhabitants kilograms kilometers kilometres km
liters litres m meters metres miles millions minutes months pages percent points pounds seconds thousands times tonnes
tons votes weeks years
""")
_MORE = (
    "The number of {} is higher than the number of {}.",
    "There are more {} than {}.",
    "{} outnumber {}.",
    "There are not as many {1} as {0}.",
)


def numbers(scene: Scene, i: int, draw: Random) -> Iterator[Crossing]:
    """Compare two counts in a sentence: with "12 goals and 5 assists", there are more goals than assists."""
    tree = scene.trees[i]
    for (one, noun), (two, other) in pairwise(_counted(tree)):
        if tree.deps[other] != "conj" or tree.heads[other] != noun or two - noun > 4:
            continue
        values = [_value(tree.lower[token]) for token in (one, two)]
        words = {tree.lower[noun], tree.lower[other]}
        if values[0] == values[1] or min(values) < 2 or words & _UNITS or len(words) < 2:
            continue
        if any(tree.lower.count(word) > 1 for word in words):
            continue
        more, less = (tree.text(one + 1, noun), tree.text(two + 1, other))[:: 1 if values[0] > values[1] else -1]
        owners = (fact for fact in scene.facts(i) if fact.verb == one - 1 and not fact.passive)
        owner = next((fact for fact in owners if tree.child(fact.verb, "dobj") == noun), None)
        template = draw.choice(_MORE)
        if owner is not None:
            template = f"{owner.subject.said} {owner.until(owner.verb)} more {{}} than {{}}."
        right, wrong = (template.format(f"‹{a}›", f"‹{b}›") for a, b in ((more, less), (less, more)))
        texts = [tree.text(token, token) for token in (one, two)]
        version = {i: tree.replaced((one, one, texts[1]), (two, two, texts[0]))}
        touched = (i,) if owner is None else owner.touched
        yield Crossing("comparison", "numbers", ({}, version), (right, wrong), touched)


def _counted(tree: Tree) -> Iterator[tuple[int, int]]:
    """Find counts such as "12 late goals", and yield the tokens of the number and the noun."""
    for token in range(1, len(tree) - 2):
        noun = tree.heads[token]
        if tree.deps[token] != "nummod" or tree.tags[noun] != "NNS" or not token < noun <= token + 3:
            continue
        is_owner = tree.child(noun, "case") is not None  # "52 men's matches"
        is_count = not is_owner and tree.kinds[token] in ("CARDINAL", "") and _value(tree.lower[token]) >= 0
        is_joined = tree.tags[token - 1] in ("CD", "HYPH", "$") or tree.tags[token + 1] in ("CD", "HYPH")
        if is_count and not is_joined and all(tree.tags[t] in ("JJ", "NN", "VBN") for t in range(token + 1, noun)):
            yield token, noun


def _value(word: str) -> int:
    """Return the value of a count, or -1 for other words and for years."""
    if word in _SMALL:
        return _SMALL[word]
    return int(word.replace(",", "")) if _COUNT.fullmatch(word) and not YEAR.fullmatch(word) else -1
