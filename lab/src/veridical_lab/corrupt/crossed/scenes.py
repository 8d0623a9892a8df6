"""Extract what the rules need from a document: its trees and facts, and the antecedents of pronouns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from veridical_lab.corrupt.crossed.crossing import Text, Version
from veridical_lab.corrupt.crossed.lexicon import NEGATIONS
from veridical_lab.corrupt.crossed.parsing import Document
from veridical_lab.corrupt.crossed.trees import Phrase, Tree
from veridical_lab.corrupt.crossed.verbs import conjugate
from veridical_lab.corrupt.english import word_set

_BACK = 4  # sentences between a pronoun and its antecedent
_FACTUAL = word_set("after when while although though because since as whereas")  # conjunctions whose clause holds
_LIMITING = NEGATIONS | word_set(
    "only almost nearly just merely partly even allegedly reportedly possibly perhaps probably supposedly apparently "
    "maybe likely too"
)
_ADJUNCTS = word_set("prep advmod npadvmod xcomp oprd prt agent")
_NEEDED = ("ccomp", "xcomp", "dobj", "attr", "acomp", "oprd", "prep", "agent")


@dataclass(frozen=True, slots=True)
class Fact:
    """A verb with its subject, in a clause that the text states or presupposes, without negation.

    Attributes:
        sentence: The number of the sentence.
        opens: The first token of the verb group, which is an auxiliary, an adverb or the verb.
        end: The last token of the clause (`Tree.end_of`).
        tense: As in `conjugate`.
        alone: Whether this is the main clause and its subject has no other verb.
    """

    tree: Tree
    sentence: int
    verb: int
    opens: int
    end: int
    subject: Phrase
    tense: str
    passive: bool
    alone: bool

    @property
    def lemma(self) -> str:
        """The base form of the verb."""
        return self.tree.lemmas[self.verb].lower()

    @property
    def is_main(self) -> bool:
        """Whether this is the main clause."""
        return self.verb == self.tree.root

    @property
    def finite(self) -> int:
        """The token of the first verb form, which is an auxiliary or the verb itself."""
        auxiliaries = self.tree.all_children(self.verb, "aux", "auxpass")
        return auxiliaries[0] if auxiliaries else self.verb

    @property
    def follows_subject(self) -> bool:
        """Whether the verb group directly follows the subject."""
        return self.subject.last == self.opens - 1

    @property
    def lead(self) -> str:
        """The auxiliary shared with an earlier verb ("was built and [was] sold") and a space, or "" if none."""
        if self.tree.tags[self.verb] != "VBN" or self.tree.child(self.verb, "aux", "auxpass") is not None:
            return ""
        if self.passive:
            return conjugate("be", self.tense, self.subject.plural) + " "
        return "had " if self.tense == "pluperfect" else conjugate("have", "present", self.subject.plural) + " "

    @property
    def predicate(self) -> str:
        """The clause after the subject."""
        return self.lead + self.tree.text(self.opens, self.end)

    @property
    def is_complete(self) -> bool:
        """Whether the clause contains the complements that the verb needs, at least one."""
        needed = self.tree.all_children(self.verb, *_NEEDED)
        if not any(self.verb < token <= self.end for token in needed):
            return False
        if any(token > self.end and self.tree.deps[token] != "prep" for token in needed):
            return False
        return not self.tree.is_cut(self.verb, self.end)

    @property
    def touched(self) -> tuple[int, ...]:
        """The numbers of the sentences that state the fact or, if the subject is a pronoun, name its antecedent."""
        known_from = self.subject.known_from
        return (self.sentence,) if known_from is None else (known_from, self.sentence)

    def until(self, last: int) -> str:
        """Return the part of the clause between the subject and the token `last`, including `last`."""
        return self.lead + self.tree.text(self.opens, last)

    def rest(self, last: int) -> str:
        """Return the part of the clause after the token `last`, with a space before.

        If what follows `last` is not an adjunct of the verb, return "".
        """
        if last >= self.end:
            return ""
        top = last + 1
        while self.tree.heads[top] not in (self.verb, top):
            top = self.tree.heads[top]
        is_adjunct = top > last and self.tree.heads[top] == self.verb and self.tree.deps[top] in _ADJUNCTS
        ends = self.tree.tags[self.end] not in ("IN", "TO", "DT", "CC") and self.is_complete
        return " " + self.tree.text(last + 1, self.end) if is_adjunct and ends else ""


@dataclass(frozen=True, slots=True)
class Relation:
    """Two phrases that a fact relates in one direction.

    Attributes:
        key: The verb ("beat", "take over"), sometimes with a preposition ("lose to"), with an object and a preposition
            ("buy X from"), or with a noun ("be father of").
        a: The subject. For a passive verb with "by", the agent.
        b: The object, or the phrase after the preposition.
        extra: The object X, if `key` has one.
        is_direct: Whether `a` acts on `b` without a preposition.
    """

    fact: Fact
    key: str
    a: Phrase
    b: Phrase
    extra: str = ""
    is_direct: bool = False

    @property
    def sides(self) -> tuple[tuple[Phrase, Phrase], tuple[Phrase, Phrase]]:
        """The two phrases in order, and in reverse order."""
        return (self.a, self.b), (self.b, self.a)

    def exchanged(self) -> str:
        """Exchange the two phrases in the sentence."""
        first, second = sorted((self.a, self.b), key=lambda phrase: phrase.first)
        moved = first.as_object if self.fact.subject is first else first.text
        return self.fact.tree.replaced((first.first, first.last, second.text), (second.first, second.last, moved))


class Scene:
    """The sentences of one document.

    Attributes:
        trees: The trees of the sentences that are plain statements, by the number of the sentence.
    """

    def __init__(self, document: Document) -> None:
        self.id = document.id
        parsed = [sentence for paragraph in document.paragraphs for sentence in paragraph]
        starts, at = [], 0
        for paragraph in document.paragraphs:
            starts.append(at)
            at += len(paragraph)
        self.text = Text([sentence.text for sentence in parsed], frozenset(starts))
        self.trees = {i: tree for i, sentence in enumerate(parsed) if (tree := Tree.of(sentence)) is not None}
        self.facts = cache(self._facts)
        self.relations = cache(self._relations)

    def ahead(self, i: int, count: int) -> range:
        """Return the numbers of the sentences after sentence `i`, at most `count`."""
        return range(i + 1, min(i + 1 + count, len(self.text.sentences)))

    def changed(self, *parts: tuple[int, int, int, str]) -> Version:
        """Replace tokens. Each part has a sentence, a first and a last token and the new text for them."""
        numbers = sorted({i for i, *_ in parts})
        return {i: self.trees[i].replaced(*(part[1:] for part in parts if part[0] == i)) for i in numbers}

    def _facts(self, i: int) -> list[Fact]:
        """Find the facts that sentence `i` states. There are none if the sentence is not a plain statement."""
        tags = self.trees[i].tags if i in self.trees else ()
        made = (self._fact(i, verb) for verb, tag in enumerate(tags) if tag[0] == "V")
        return [fact for fact in made if fact is not None]

    def _relations(self, i: int) -> list[Relation]:
        """Find the relations between phrases that sentence `i` states."""
        return [relation for fact in self.facts(i) for relation in _relations(fact)]

    def _fact(self, i: int, verb: int) -> Fact | None:
        tree = self.trees[i]
        dep = tree.deps[verb]
        if dep not in ("ROOT", "conj", "relcl", "advcl", "acl") or not _holds(tree, verb):
            return None
        if any(tree.lower[child] in _LIMITING for child in tree.children[verb]):
            return None
        tense, passive = _form(tree, verb)
        subject = self._subject(i, verb) if tense else None
        if subject is None or (dep in ("relcl", "acl") and subject.is_indefinite):
            return None
        opens = verb
        for child in reversed(tree.all_children(verb, "aux", "auxpass", "advmod", "neg")):
            if child < verb and tree.last[child] == opens - 1:
                opens = tree.first[child]
        commas = tree.lower[subject.last + 1 : opens].count(",") if dep == "ROOT" else 0
        if commas % 2:  # "the winner, declared champion, …"
            return None
        alone = dep == "ROOT" and tree.child(verb, "conj") is None
        return Fact(tree, i, verb, opens, tree.end_of(verb), subject, tense, passive, alone)

    def _subject(self, i: int, verb: int) -> Phrase | None:
        """Find the subject of a verb: its own, that of a coordinated verb before, or the noun that it modifies."""
        tree = self.trees[i]
        own = tree.child(verb, "nsubj", "nsubjpass", "csubj", "expl")
        dep = tree.deps[verb]
        if own is None and dep == "conj":
            return self._subject(i, tree.heads[verb])
        if dep == "acl" and own is None:
            return tree.phrase(tree.heads[verb])
        if own is None or own > verb or tree.deps[own] in ("csubj", "expl") or tree.child(own, "conj") is not None:
            return None
        if dep == "relcl":
            return tree.phrase(tree.heads[verb]) if tree.lower[own] in ("who", "which", "that") else None
        return self._antecedent(i, own) if tree.tags[own] == "PRP" else tree.phrase(own)

    def _antecedent(self, i: int, pronoun: int) -> Phrase | None:
        """Find the antecedent of "he" or "she", and return the pronoun as a phrase with the name of this person.

        Return None if the antecedent is uncertain. Each sentence up to the antecedent must have this person or the same
        pronoun as its subject, and must name no other person.
        """
        word = self.trees[i].lower[pronoun]
        if word not in ("he", "she") or "PERSON" in self.trees[i].kinds[:pronoun]:
            return None
        for k in range(i - 1, max(-1, i - 1 - _BACK), -1):
            before = self.trees.get(k)
            subject = None if before is None else before.subject_of(before.root)
            if before is None or subject is None or k + 1 in self.text.breaks:
                return None
            span = range(before.first[subject], before.last[subject] + 1)
            if any(kind == "PERSON" and token not in span for token, kind in enumerate(before.kinds)):
                return None
            if before.lower[subject] != word:
                phrase = before.phrase(subject)
                if phrase is None or phrase.kind != "person" or before.tags[subject] != "NNP":
                    return None
                return Phrase(pronoun, pronoun, pronoun, word, False, "person", phrase.text, k)
        return None


def _holds(tree: Tree, verb: int) -> bool:
    """Return whether the text states or presupposes a clause."""
    top = verb
    while tree.deps[top] == "conj":
        top = tree.heads[top]
    if tree.deps[top] in ("ROOT", "relcl"):
        return tree.child(top, "mark") is None
    if tree.deps[top] == "advcl":
        marker = tree.child(top, "mark", "advmod")
        return marker is not None and tree.lower[marker] in _FACTUAL
    return tree.deps[top] == "acl" and tree.tags[top] == "VBN" and tree.child(top, "agent") is not None


def _form(tree: Tree, verb: int) -> tuple[str, bool]:
    """Return the tense of a verb (as in `conjugate`, or "" for other forms), and whether the verb is passive."""
    auxiliaries = tree.all_children(verb, "aux", "auxpass")
    if tree.deps[verb] == "acl":
        return "past", True
    if tree.deps[verb] == "conj" and not auxiliaries and tree.tags[verb] == "VBN":
        above = tree.heads[verb]
        return _form(tree, above) if tree.tags[above] == "VBN" else ("", False)
    return tree.tense_of(verb, auxiliaries), tree.child(verb, "auxpass") is not None


def _relations(fact: Fact) -> Iterator[Relation]:
    """Find the pairs of phrases that a fact relates."""
    tree, verb, subject = fact.tree, fact.verb, fact.subject

    def phrase_of(above: int | None, *deps: str) -> Phrase | None:
        """Find the phrase with one of these labels below a token of the clause."""
        noun = None if above is None else tree.child(above, *deps)
        phrase = None if noun is None or noun < verb else tree.phrase(noun)
        return None if phrase is None or phrase.last > fact.end else phrase

    particle = tree.child(verb, "prt")
    key = fact.lemma if particle is None else f"{fact.lemma} {tree.lower[particle]}"
    thing = phrase_of(verb, "dobj")
    if thing is not None and not fact.passive:
        yield Relation(fact, key, subject, thing, is_direct=True)
    if fact.passive and (agent := phrase_of(tree.child(verb, "agent"), "pobj")) is not None:
        yield Relation(fact, key, agent, subject, is_direct=True)
    if thing is not None or tree.child(verb, "dobj") is None:
        for prep in tree.all_children(verb, "prep", "dative"):
            other = phrase_of(prep, "pobj")
            if other is not None and (thing is None or thing.last < other.first):
                via = f"{'be ' if fact.passive else ''}{key} {'X ' if thing else ''}{tree.lower[prep]}"
                yield Relation(fact, via, subject, other, thing.text if thing else "")
    attribute = tree.child(verb, "attr", "advmod", "acomp") if fact.lemma == "be" else None
    of = None if attribute is None or attribute < verb else tree.child(attribute, "prep")
    other = phrase_of(of, "pobj")
    modifiers = () if attribute is None else tree.all_children(attribute, "amod", "compound", "nmod")
    if any(tree.lower[token] != "current" for token in modifiers):  # "deputy chairman of"
        return
    if attribute is not None and of is not None and other is not None and tree.last[attribute] == other.last:
        yield Relation(fact, f"be {tree.lower[attribute]} {tree.lower[of]}", subject, other)
