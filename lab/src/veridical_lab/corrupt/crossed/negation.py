"""Make statements about negation: which of two clauses is negated, or a negation in other words ("failed to")."""

from __future__ import annotations

import re
from collections.abc import Iterator
from random import Random

from veridical_lab.corrupt.crossed.crossing import Crossing, Version, crossings, filled
from veridical_lab.corrupt.crossed.scenes import Fact, Scene
from veridical_lab.corrupt.crossed.trees import Clause, Tree
from veridical_lab.corrupt.crossed.verbs import gerund, past
from veridical_lab.corrupt.english import word_set

_AHEAD = 2  # sentences between two clauses
_PUT_IN = 0.4  # the share of pairs of positive clauses that get a negation; other pairs already have one to move
_AUXILIARIES = word_set(
    "is are was were has have had can could will would should must did does do may might"
)  # the auxiliaries that "not" can follow
_NEGATIVE = re.compile(
    r"\b(?:not|no|never|nor|neither|none|nobody|nothing|hardly|without|cannot|only|unless|few|little|lack\w*|any|"
    r"but|yet|still|even|already|if|whether|also|too|later|now|then)\b|n['’]t\b",
    re.I,
)
"""Words with which a negation would not simply turn a clause into its opposite."""
# P is the positive clause, N the negative one
_WAYS = (
    ("N.", "P."),
    ("‹It is not the case that› P.", "‹It is the case that› P."),
    ("‹It is wrong that› P.", "‹It is right that› P."),
    ("N.", "‹It is not true that› N."),
    ("It would be false to say that P.", "It would be false to say that N."),
)


# ---------------------------------------------------------------------------------------------------- moved


def moved_negations(scene: Scene, i: int, draw: Random) -> Iterator[Crossing]:
    """Move "not" from one clause to another one in the same sentence or in the next ones."""
    here = [(i, clause) for clause in _clauses(scene.trees[i])]
    if not here:
        return
    ahead = [k for k in scene.ahead(i, _AHEAD) if k in scene.trees]
    first, *others = here + [(k, clause) for k in ahead for clause in _clauses(scene.trees[k])]
    moved = [other for other in others if other[1].negated != first[1].negated]
    positive = [other for other in others if not other[1].negated and not first[1].negated]
    choices = moved or (positive if draw.random() < _PUT_IN else [])
    if not choices:
        return
    second = draw.choice(choices)
    right, rival = draw.choice(((first, second), (second, first)))
    versions = [(_negated(scene, right, rival), _negated(scene, rival, right))]
    tree = scene.trees[right[0]]
    statements = [(_said(a, tree, right[1]), _said(b, tree, right[1])) for a, b in _WAYS]
    form, touched = ("moved" if moved else "put in"), tuple(sorted({right[0], rival[0]}))
    yield from crossings("negation", form, scene.text, versions, statements, touched, draw)


def _clauses(tree: Tree) -> Iterator[Clause]:
    """Find the main clauses that begin with a noun phrase and an auxiliary and can be negated."""
    for verb in (tree.root, *tree.all_children(tree.root, "conj")):
        clause = tree.clause(verb)
        if clause is None or clause.subject is None or clause.subject.last != clause.finite - 1:
            continue
        # if an adjunct precedes the clause or is cut off, its negation would say more
        before = clause.opens - 1
        if before >= 0 and (verb == tree.root or tree.deps[before] not in ("cc", "punct")):
            continue
        if tree.child(verb, "mark", "advcl") is not None or tree.is_cut(verb, clause.end):
            continue
        finite, word = clause.finite, tree.lower[clause.finite]
        if word not in _AUXILIARIES or (finite == verb and word in ("has", "have", "had")):
            continue
        if clause.negated != (tree.lower[finite + 1] == "not"):
            continue
        if word in ("did", "does", "do") and not clause.negated:
            continue
        rest = tree.text(finite + 1 + clause.negated, clause.end)
        if clause.end - clause.opens <= 18 and " " in rest and not _NEGATIVE.search(rest):
            yield clause


def _negated(scene: Scene, negative: tuple[int, Clause], positive: tuple[int, Clause]) -> Version:
    """Rewrite the sentences so that the first clause has "not" and the second one does not."""
    parts = []
    for (i, clause), wanted in ((negative, True), (positive, False)):
        finite = clause.finite
        if wanted and not clause.negated:
            parts.append((i, finite, finite, f"{scene.trees[i].original(finite, finite)} not"))
        elif clause.negated and not wanted:
            parts.append((i, finite + 1, finite + 1, ""))
    return scene.changed(*parts)


def _said(template: str, tree: Tree, clause: Clause) -> str:
    """Put a clause into a template. If the template marks no words as wrong, the auxiliary is marked."""
    subject, verb = tree.text(clause.opens, clause.closes), tree.lower[clause.finite]
    rest = tree.text(clause.finite + 1 + clause.negated, clause.end)
    said = f"{subject} {{}} {rest}" if "‹" in template else f"{subject} ‹{{}}› {rest}"
    return filled(template, {"P": said.format(verb), "N": said.format(f"{verb} not")})


# ---------------------------------------------------------------------------------------------------- done or not

_OTHER = {
    **dict.fromkeys(("refuse", "decline"), "agreed"), **dict.fromkeys(("neglect", "forget"), "remembered"),
    "fail": "managed", "manage": "failed", "unable": "able", "able": "unable", "unwilling": "willing",
}  # fmt: skip


def failures(scene: Scene, i: int, draw: Random) -> Iterator[Crossing]:
    """Reverse phrases such as "failed to" and "was unable to". The statements say whether the action happened."""
    for fact in scene.facts(i):
        tree, word = fact.tree, fact.verb
        if fact.tense != "past" or fact.passive or tree.deps[word] not in ("ROOT", "conj"):
            continue
        if fact.lemma == "be":
            word = tree.child(word, "acomp") or word
        name = tree.lower[word] if word != fact.verb else fact.lemma
        new = _OTHER.get(name)
        action = tree.child(word, "xcomp")
        if new is None or action != word + 2 or tree.tags[action] != "VB" or tree.lower[action] == "be":
            continue
        end = min(tree.end_of(action), fact.end)
        rest = tree.text(action + 1, end)
        if tree.lower[word + 1] == "to" and rest and tree.child(action, "conj") is None and not _NEGATIVE.search(rest):
            was_done = name in ("manage", "able")
            version = {i: tree.replaced((word, word, new))}
            yield from _done_or_not(scene, fact, name, tree.lower[action], rest, was_done, version, draw)


def without(scene: Scene, i: int, draw: Random) -> Iterator[Crossing]:
    """Exchange "without paying" and "after paying", in both directions."""
    for fact in scene.facts(i):
        tree = fact.tree
        if fact.tense != "past" or tree.deps[fact.verb] not in ("ROOT", "conj") or not fact.subject.is_agent:
            continue
        for prep in tree.all_children(fact.verb, "prep"):
            verb, word = tree.child(prep, "pcomp"), tree.lower[prep]
            if word not in ("without", "after", "by") or verb != prep + 1 or tree.tags[verb] != "VBG":
                continue
            lemma, rest = tree.lemmas[verb].lower(), tree.text(verb + 1, tree.end_of(verb))
            if tree.child(verb, "conj") is not None or not rest or _NEGATIVE.search(rest) or lemma in ("be", "have"):
                continue
            new = draw.choice(("after", "while also")) if word == "without" else "without"
            version = {i: tree.replaced((prep, prep, new.capitalize() if tree.parsed.starts[prep] == 0 else new))}
            yield from _done_or_not(scene, fact, word, lemma, rest, word != "without", version, draw)


def _done_or_not(
    scene: Scene, fact: Fact, form: str, verb: str, rest: str, was_done: bool, version: Version, draw: Random
) -> Iterator[Crossing]:
    """Make a crossing whose statements say that the subject of a fact did something, or did not."""
    who = fact.subject.said
    done, undone = f"{who} ‹{past(verb)}› {rest}.", f"{who} ‹did not {verb}› {rest}."
    statements = [(done, undone) if was_done else (undone, done)]
    yield from crossings("negation", form, scene.text, [({}, version)], statements, fact.touched, draw)


# ---------------------------------------------------------------------------------------------------- adverbs


def never(scene: Scene, i: int, draw: Random) -> Iterator[Crossing]:
    """Exchange "never went" and "often went"."""
    tree = scene.trees[i]
    at = tree.find("never")
    clause = tree.clause(tree.heads[at])
    if not at or clause is None or clause.subject is None or not tree.asserted(clause.verb):
        return
    verb, rest = clause.verb, tree.text(clause.verb + 1, clause.end)
    is_plain = clause.finite == verb == at + 1 and clause.closes == at - 1 and tree.tags[verb] == "VBD"
    if not is_plain or not rest or _NEGATIVE.search(rest) or tree.lemmas[verb] == "be":
        return
    who, lemma, went = clause.subject.text, tree.lemmas[verb].lower(), tree.lower[verb]
    statements = [
        (f"‹At no time did› {who} ‹{lemma}› {rest}.", f"‹There was a time when› {who} ‹{went}› {rest}."),
        (f"{who} ‹did not {lemma}› {rest} ‹at any time›.", f"{who} ‹{went}› {rest} ‹at least once›."),
    ]
    positive = [{i: tree.replaced((at, at, new))} for new in ("often", "once", "sometimes")]
    yield from crossings("negation", "never", scene.text, [({}, text) for text in positive], statements, (i,), draw)


def no_longer(scene: Scene, i: int, draw: Random) -> Iterator[Crossing]:
    """Exchange "no longer works" and "still works"."""
    tree = scene.trees[i]
    at = tree.find("longer") - 1
    if at < 1 or tree.lower[at] != "no":
        return
    above = tree.heads[at + 1]
    clause = tree.clause(above) if tree.tags[above][0] == "V" else None
    if clause is None or clause.subject is None or not tree.asserted(above) or clause.tense != "present":
        return
    who, plural = clause.subject.text, clause.subject.plural
    before, after = tree.text(clause.closes + 1, at - 1), tree.text(at + 2, clause.end)
    lemma, rest = tree.lemmas[above].lower(), f" {tree.text(above + 1, clause.end)}".rstrip()
    if not after or _NEGATIVE.search(after):
        return
    if before in ("is", "are"):
        ing, infinitive = f"being {after}", f"be {after}"
    elif not before and above == at + 2:
        ing, infinitive = f"{gerund(lemma)}{rest}", f"{lemma}{rest}"
    else:
        return
    has, keeps, goes_on = ("have", "keep", "continue") if plural else ("has", "keeps", "continues")
    statements = [
        (f"{who} ‹{has} stopped› {ing}.", f"{who} ‹{keeps} on› {ing}."),
        (f"{who} ‹used› to {infinitive}, ‹but that is over now›.", f"{who} ‹{goes_on}› to {infinitive}."),
    ]
    version = {i: tree.replaced((at, at + 1, "still"))}
    yield from crossings("negation", "no longer", scene.text, [({}, version)], statements, (i,), draw)


def not_only(scene: Scene, i: int, draw: Random) -> Iterator[Crossing]:
    """Exchange "not only Anna but also Eva" and "not Anna but Eva"."""
    tree = scene.trees[i]
    at = tree.find("only") - 1
    clause = tree.clause(tree.root) if at > 1 and tree.lower[at] == "not" else None
    if clause is None or clause.subject is None or clause.subject.last != clause.finite - 1:
        return
    end, but = len(tree) - 2, next((t for t in range(at + 3, len(tree) - 3) if tree.lower[t] == "but"), 0)
    if at <= clause.finite or not but:
        return
    also = int(tree.lower[but + 1] == "also")
    comma = int(tree.lower[but - 1] == ",")
    head = tree.text(clause.opens, at - 1)
    one, other = tree.text(at + 2, but - 1 - comma), tree.text(but + 1 + also, end)
    same_form = tree.tags[at + 2] == tree.tags[but + 1 + also]
    if tree.lower[at:end].count(",") > comma or not same_form or max(len(p.split()) for p in (one, other)) > 14:
        return
    other = re.sub(r",? (?:as well|too)$", "", other)
    statements = [
        (f"{head} {one} ‹as well as› {other}.", f"{head} {other} ‹{instead}› {one}.")
        for instead in ("rather than", "instead of")
    ]
    version = {i: tree.replaced((at, at + 1, "not"), (but, but + also, "but"))}
    yield from crossings("negation", "not only", scene.text, [({}, version)], statements, (i,), draw)
