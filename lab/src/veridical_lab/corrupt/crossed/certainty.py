"""Make statements about certainty: a fact, or something that is only possible, planned, claimed or denied.

A statement is wrong if it asserts something that is only possible, planned, claimed or denied in the source. It is also
wrong if it says that an asserted fact is not certain. Two kinds of statement are not used, because readers disagree
about them: those that merely hedge an asserted fact ("may have left"), and those that assert what somebody "said".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from random import Random

from veridical_lab.corrupt.crossed.crossing import Crossing, Version, crossings, filled
from veridical_lab.corrupt.crossed.scenes import Scene
from veridical_lab.corrupt.crossed.trees import Clause, Phrase, Tree, opened
from veridical_lab.corrupt.crossed.verbs import conjugate, participle, past
from veridical_lab.corrupt.english import word_set

_ADVERBS = "reportedly|allegedly|possibly|probably|perhaps|supposedly|apparently|presumably"
_HEDGED = re.compile(
    rf"\b(?:{_ADVERBS}|may|might|could|would|should|seem|seems|seemed|likely|unlikely|believed|thought|rumou?red|"
    r"supposed|said|claimed|if|whether|according)\b",
    re.I,
)
# S is the whole statement, A its subject, P its predicate as an infinitive, V its predicate unchanged
_SAID_FACT = (
    "S.", "‹It is a fact that› S.", "‹It is established that› S.", "‹There is no doubt that› S.",
    "‹It is known for certain that› S.",
)  # fmt: skip
_SAID_OPEN = (
    "‹It is not certain whether› S.", "‹It is an open question whether› S.", "‹It is unclear whether› S.",
    "‹Nobody knows for sure whether› S.", "‹There is uncertainty about whether› S.", "‹It remains in doubt whether› S.",
)  # fmt: skip
_OPEN = (
    "It is possible that S.", "According to rumours, S.", "Some people think that S.", "It has been suggested that S.",
    "Perhaps S.", "A may P.", "A might P.", "A is believed to P.", "A is rumoured to P.",
)  # fmt: skip
_OPEN_VERB = ("A reportedly V.", "A allegedly V.", "A possibly V.", "A supposedly V.")
_CERTAIN = ("It is certain that S.", "It has been proved that S.", "Without any doubt, S.")


def _statements(templates: Sequence[str], others: Sequence[str], who: str, predicate: str) -> list[tuple[str, str]]:
    """Fill each pair of templates. If a template marks no words as wrong, the verb is marked."""
    verb, _, rest = predicate.partition(" ")

    def said(template: str) -> str:
        return filled(template, {"S": f"{who} {predicate}" if "‹" in template else f"{who} ‹{verb}› {rest}"})

    return [(said(a), said(b)) for a in templates for b in others]


def certainties(scene: Scene, i: int, draw: Random) -> Iterator[Crossing]:
    """Turn a fact in the source into a mere possibility. The statements assert the fact, or say that it is in doubt."""
    for fact in scene.facts(i):
        tree, first = fact.tree, fact.finite
        if not fact.alone or fact.subject.first or not fact.follows_subject or fact.end != len(tree) - 2:
            continue
        if len(tree) > 30 or fact.subject.plural or fact.opens != first or fact.tense not in ("past", "present"):
            continue
        if _HEDGED.search(tree.parsed.text):
            continue
        lemma = tree.lemmas[first].lower()
        infinitive = f"have {participle(lemma)}" if fact.tense == "past" else lemma
        forms = {"A": fact.subject.text, "P": f"{infinitive} {tree.text(first + 1, fact.end)}", "V": fact.predicate}
        forms["S"] = f"{forms['A']} {forms['V']}"
        open_forms = _OPEN if lemma == "be" else _OPEN + _OPEN_VERB
        facts: list[Version] = [{}]
        if draw.random() < 0.3:
            facts += [{i: filled(template, forms)} for template in _CERTAIN]
        versions = [(sure, {i: filled(template, forms)}) for sure in facts for template in open_forms]
        statements = _statements(_SAID_FACT, _SAID_OPEN, fact.subject.said, fact.predicate)
        yield from crossings("certainty", "possible", scene.text, versions, statements, fact.touched, draw)


# ---------------------------------------------------------------------------------------------------- hedges

_HELD = word_set("believe think say rumor rumour suppose report allege assume presume")


def hedges(scene: Scene, i: int, draw: Random) -> Iterator[Crossing]:
    """Turn what the text calls possible into a fact: "may have left", "probably left", "is said to have left"."""
    tree = scene.trees[i]
    clause = tree.clause(tree.root)
    if clause is None or clause.negated or clause.subject is None or clause.opens:
        return
    if clause.end != len(tree) - 2 or len(tree) > 30 or clause.subject.last != clause.closes:
        return
    predicate = _asserted(tree, clause, clause.subject)
    if predicate and not _HEDGED.search(predicate):
        who = clause.subject.text
        statements = _statements(_SAID_OPEN, _SAID_FACT, who, predicate)
        version = {i: opened(f"{who} {predicate}.")}
        yield from crossings("certainty", "hedged", scene.text, [({}, version)], statements, (i,), draw)


def _asserted(tree: Tree, clause: Clause, subject: Phrase) -> str:
    """Turn the predicate of a hedged clause into a plain fact. Return "" if the clause is not hedged in a known way."""
    verb, first = clause.verb, clause.finite

    def conjugated(token: int, tense: str) -> str:
        form = conjugate(tree.lemmas[token].lower(), tense, subject.plural)
        return f"{form} {tree.text(token + 1, clause.end)}".strip()

    if tree.lower[first] in ("may", "might"):
        if tree.lower[first + 1] == "have" and tree.tags[first + 2] in ("VBN", "VBD"):
            return conjugated(first + 2, "past")
        # "may" with other verbs is often a permission
        is_open = tree.lower[first] == "might" or (first + 1 == verb and tree.lower[verb] == "be")
        return conjugated(first + 1, "present") if is_open and tree.tags[first + 1] == "VB" else ""
    if clause.passive and tree.lemmas[verb] in _HELD and first + 1 == verb and tree.lower[verb + 1] == "to":
        if tree.lower[verb + 2] == "have" and tree.tags[verb + 3] == "VBN":
            return conjugated(verb + 3, "past")
        is_present = tree.tags[verb + 2] == "VB" and tree.lower[first] in ("is", "are")
        return conjugated(verb + 2, "present") if is_present else ""
    adverbs = [t for t in range(first, clause.end) if re.fullmatch(_ADVERBS, tree.lower[t]) and tree.heads[t] == verb]
    if len(adverbs) != 1 or clause.tense not in ("past", "present"):
        return ""
    return f"{tree.text(first, adverbs[0] - 1)} {tree.text(adverbs[0] + 1, clause.end)}".strip()


# ---------------------------------------------------------------------------------------------------- plans

_PLANNED = word_set("plan intend hope want aim propose promise threaten wish expect seek offer prepare")
_DONE = ("went on to", "managed to", "was able to")


def plans(scene: Scene, i: int, draw: Random) -> Iterator[Crossing]:
    """Exchange what was planned and what was done: "planned to open a shop", "went on to open a shop"."""
    for fact in scene.facts(i):
        tree, to = fact.tree, fact.verb + 1
        action = tree.child(fact.verb, "xcomp")
        if fact.lemma not in _PLANNED or fact.subject.plural or action != to + 1 or tree.lower[to] != "to":
            continue
        if tree.deps[fact.verb] not in ("ROOT", "conj") or fact.tense not in ("past", "present"):
            continue
        end = min(tree.end_of(action), fact.end)
        is_simple = tree.tags[action] == "VB" and tree.lower[action] != "be" and tree.child(action, "conj") is None
        if end < action or fact.opens != fact.finite or not is_simple or not (fact.subject.is_agent or fact.passive):
            continue
        who, verb, rest = fact.subject.said, tree.lower[action], f" {tree.text(action + 1, end)}".rstrip()
        statements = [
            (f"‹It is not said whether› {who} really {past(verb)}{rest}.", f"{who} ‹really {past(verb)}›{rest}."),
            (f"{who} ‹may or may not have› {participle(verb)}{rest}.", f"{who} ‹has› {participle(verb)}{rest}."),
        ]
        if not fact.passive:  # "is expected to" is not the subject's own plan
            hoped = f"{who} ‹had it in mind but may not have› {participle(verb)}{rest}."
            statements.append((hoped, f"{who} ‹{past(verb)}›{rest}."))
        version = {i: tree.replaced((fact.opens, to, draw.choice(_DONE)))}
        yield from crossings("certainty", "plan", scene.text, [({}, version)], statements, fact.touched, draw)


# ---------------------------------------------------------------------------------------------------- reports

_SAYING = dict.fromkeys(("say", "state", "report", "confirm", "announce", "declare", "admit", "add"), "denied")
_SAYING["deny"] = "confirmed"
_CLAIMING = word_set(
    "claim believe think argue suspect allege assume fear hope predict suggest speculate insist maintain contend"
)
_FOUND = ("found out", "proved", "discovered", "showed")


def reports(scene: Scene, i: int, draw: Random) -> Iterator[Crossing]:
    """Exchange "said" and "denied", and claims and findings."""
    fact = next((fact for fact in scene.facts(i) if fact.alone), None)
    complement = None if fact is None else fact.tree.child(fact.verb, "ccomp")
    if fact is None or complement is None or fact.opens != fact.verb or not fact.follows_subject:
        return
    tree, verb, speaker = fact.tree, fact.verb, fact.subject
    that, subject = tree.child(complement, "mark"), tree.subject_of(complement)
    if that != verb + 1 or tree.lower[that] != "that" or subject is None or tree.first[subject] != that + 1:
        return
    if tree.last[complement] != len(tree) - 2 or len(tree) > 35:
        return
    who, content = speaker.said, tree.text(that + 1, tree.last[complement])
    statements: list[tuple[str, str]] = []
    new = _SAYING.get(fact.lemma, "")
    if new and tree.child(complement, "neg") is None:
        holds, rejects = ("hold", "reject") if speaker.plural else ("holds", "rejects")
        statements = [
            (f"‹According to› {who}, {content}.", f"According to {who}, ‹it is not true that› {content}."),
            (f"‹In the words of› {who}, {content}.", f"In the words of {who}, ‹it is wrong that› {content}."),
            (f"{who} ‹{holds}› that {content}.", f"{who} ‹{rejects} the view› that {content}."),
        ]
        if fact.lemma == "deny":
            statements = [(b, a) for a, b in statements]
    elif fact.lemma in _CLAIMING and tree.tags[subject] != "PRP" and speaker.is_agent:
        topic = tree.text(that + 1, tree.last[subject])
        stated = f"{topic} ‹{tree.text(tree.last[subject] + 1, tree.last[complement])}›."
        new = draw.choice(_FOUND)
        statements = [
            (f"‹It is merely claimed by› {who} ‹that› {content}.", stated),
            (f"‹It is no more than the opinion of› {who} ‹that› {content}.", f"‹It is a fact that› {content}."),
            (f"‹There is no proof, but it is the view of› {who} ‹that› {content}.", stated),
        ]
    form, version = f"reported: {fact.lemma}", {i: tree.replaced((verb, verb, new))}
    yield from crossings("certainty", form, scene.text, [({}, version)], statements, fact.touched, draw)
