"""Read noun phrases, clauses and the tense of verbs from the dependency tree of a sentence."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from veridical.records.spans import Span
from veridical.text.names import is_name
from veridical_lab.corrupt.crossed import lexicon
from veridical_lab.corrupt.crossed.lexicon import NEGATIONS
from veridical_lab.corrupt.crossed.parsing import ParsedSentence
from veridical_lab.corrupt.english import word_set

_SIZE = range(5, 46)  # tokens of a sentence
_ODD = re.compile(r"[−“”«»\[\]{}|*‹›?!;:/…]|--| [–—] |''|``|\.\.")
_TITLES = re.compile(r'[^"]*(?:"[^" ]+(?: [^" ]+){0,5}"[^"]*)*')
_ENTITIES = {"PERSON": "person", "ORG": "group", "NORP": "group", "GPE": "group", "FAC": "place", "LOC": "place"}
_OTHER_NAMES = word_set("EVENT WORK_OF_ART PRODUCT LAW DATE LANGUAGE")
_SCORE = re.compile(r"[0-9][–-][0-9]|[0-9] ?(?:mm|cm|km|kg|m)\b")
_OBJECTS = {"he": "him", "she": "her", "they": "them"}
_DEPENDENTS = word_set("det amod compound nummod poss case nmod quantmod prep cc conj punct advmod pobj")
_NOT_INSIDE = word_set("PRP PRP$ WP WDT , -LRB- -RRB- RB")


@dataclass(frozen=True, slots=True)
class Phrase:
    """A noun phrase without relative clauses and appositions.

    Attributes:
        text: The text of the phrase as it stands inside a sentence.
        plural: Whether the phrase takes a verb in the plural.
        kind: What it names: person, group (teams, firms, countries …), place, name (of unknown kind) or thing.
        name: If the phrase is a pronoun, the name to which it refers.
        known_from: The number of the sentence that has this name.
    """

    first: int
    last: int
    head: int
    text: str
    plural: bool
    kind: str
    name: str = ""
    known_from: int | None = None

    @property
    def said(self) -> str:
        """The text of the phrase in statements: for a pronoun, the name that it refers to."""
        return self.name or self.text

    @property
    def as_object(self) -> str:
        """The text of the phrase after a verb, such as "him" for "he"."""
        return _OBJECTS.get(self.text, self.text)

    @property
    def is_agent(self) -> bool:
        """Whether the phrase names something that can act, that is, a person or a group."""
        return self.kind in ("person", "group")

    @property
    def is_indefinite(self) -> bool:
        """Whether the phrase begins with "a" or "an"."""
        return self.text.startswith(("a ", "an "))


@dataclass(frozen=True, slots=True)
class Clause:
    """A finite clause that begins with its subject, which is a noun phrase or a pronoun.

    Attributes:
        finite: The first verb form, which is an auxiliary or the verb.
        subject: The subject. None for a pronoun, and for a phrase that `Tree.phrase` cannot read.
        opens: The first token of the subject.
        closes: The last token of the subject.
        end: The last token of the clause (`Tree.end_of`).
        tense: As in `conjugate`, or "" for another verb form.
    """

    verb: int
    finite: int
    subject: Phrase | None
    opens: int
    closes: int
    end: int
    tense: str
    passive: bool
    negated: bool


def opened(text: str) -> str:
    """Capitalise the first letter of a text.

    >>> opened("‹the dog› barked.")
    '‹The dog› barked.'
    """
    at = 1 if text.startswith("‹") else 0
    return text[:at] + text[at : at + 1].upper() + text[at + 1 :]


class Tree:
    """The dependency tree of one sentence. Tokens are identified by their indices.

    Attributes:
        parsed: The parse of the sentence. `deps`, `tags`, `heads`, `lemmas` and `kinds` are its columns.
        lower: The tokens in lower case.
        first: For each token, the first token of its subtree.
        last: For each token, the last token of its subtree.
    """

    def __init__(self, parsed: ParsedSentence, root: int) -> None:
        self.parsed, self.root = parsed, root
        self.deps, self.tags, self.heads = parsed.deps, parsed.tags, parsed.heads
        self.lemmas, self.kinds = parsed.lemmas, parsed.kinds
        tokens = range(len(self.heads))
        self.lower = [parsed.text[a:b].lower() for a, b in zip(parsed.starts, parsed.ends, strict=True)]
        self.children: list[list[int]] = [[] for _ in tokens]
        self.first, self.last = list(tokens), list(tokens)
        for i, head in enumerate(self.heads):
            if head != i:
                self.children[head].append(i)
            while self.first[head] > i or self.last[head] < i:  # extend the spans of all heads above
                side = self.first if self.first[head] > i else self.last
                side[head] = i
                head = self.heads[head]
        self.clause = cache(self._clause)

    @classmethod
    def of(cls, parsed: ParsedSentence) -> Tree | None:
        """Build the tree of a plain statement. None for questions, speech, lists, fragments and long sentences."""
        text = parsed.text
        if len(parsed.deps) not in _SIZE or not text[0].isupper() or _ODD.search(text):
            return None
        if parsed.tags[-1] != "." or parsed.starts[-1] != len(text) - 1:  # the final stop must not belong to "U.S."
            return None
        if text.count("(") != text.count(")") or not _TITLES.fullmatch(text):
            return None
        roots = [i for i, head in enumerate(parsed.heads) if head == i]
        return cls(parsed, roots[0]) if len(roots) == 1 and parsed.tags[roots[0]][0] == "V" else None

    def __len__(self) -> int:
        return len(self.deps)

    # ------------------------------------------------------------------------------------------------ tokens

    def child(self, i: int, *deps: str) -> int | None:
        """Return the first child of a token that has one of these labels, or None."""
        for child in self.children[i]:
            if self.deps[child] in deps:
                return child
        return None

    def all_children(self, i: int, *deps: str) -> list[int]:
        """Return all children of a token that have one of these labels."""
        return [child for child in self.children[i] if self.deps[child] in deps]

    def find(self, word: str) -> int:
        """Return the first token that is this word in lower case, or 0 if there is none."""
        return self.lower.index(word) if word in self.lower else 0

    def subject_of(self, verb: int) -> int | None:
        """Return the noun that is the verb's own subject, or None."""
        return self.child(verb, "nsubj", "nsubjpass")

    @property
    def opens_with_subject(self) -> bool:
        """Whether the sentence begins with the subject of its main clause."""
        subject = self.subject_of(self.root)
        return subject is not None and self.first[subject] == 0

    def original(self, first: int, last: int) -> str:
        """Return the text of the tokens `first` to `last` as it stands in the sentence."""
        return self.parsed.text[self.parsed.starts[first] : self.parsed.ends[last]]

    def text(self, first: int, last: int) -> str:
        """Return the text of the tokens `first` to `last` as it would be inside a sentence, without parts in brackets.

        If `last` comes before `first`, return "".
        """
        if last < first:
            return ""
        text = self.original(first, last)
        if "(" in text:
            text = re.sub(r"(?<!\s)\s*+\([^()]*+\)", "", text)
        return self.inside(text) if first == 0 else text

    def inside(self, text: str) -> str:
        """Adapt `text`, the beginning of this sentence, for use inside another sentence.

        The first letter becomes lower case unless the first word is a name.
        """
        tag = self.tags[0]
        is_entity = self.kinds[0] in _ENTITIES or self.kinds[0] in ("EVENT", "WORK_OF_ART", "LANGUAGE")
        if tag in ("NNP", "NNPS") or (is_entity and tag not in ("DT", "PRP$", "IN")) or self.lower[0] == "i":
            return text
        if re.match(r"\w\S*[A-Z]", text):
            return text
        word = Span(0, self.parsed.ends[0])
        keeps = tag in ("NN", "VB") and is_name(self.parsed.text, word)  # the tags that unknown names get
        return text if keeps else text[:1].lower() + text[1:]

    def replaced(self, *parts: tuple[int, int, str]) -> str:
        """Replace parts of the sentence. Each part has a first and a last token and the new text for them.

        A new beginning gets a capital letter. If a part is removed, the space before the part is removed, too.
        """
        text, at, pieces = self.parsed.text, 0, []
        for first, last, new in sorted(parts):
            before = text[at : self.parsed.starts[first]]
            pieces += [before if new else before.rstrip(), new]
            at = self.parsed.ends[last]
        return opened("".join([*pieces, text[at:]]).lstrip())

    def is_whole(self, i: int) -> bool:
        """Return whether the subtree of a token is contiguous."""
        count, below = 0, [i]
        while below:
            count += 1
            below += self.children[below.pop()]
        return count == self.last[i] - self.first[i] + 1

    # ------------------------------------------------------------------------------------------------ noun phrases

    def phrase(self, head: int) -> Phrase | None:
        """Read the noun phrase around the noun `head`, up to the first clause, apposition or adjunct in it.

        Return None for pronouns, lists, vague or long phrases, and phrases that are not contiguous.
        """
        last = self._last_of_phrase(head)
        if last is None or not self._is_good(head, last):
            return None
        tag, word = self.tags[head], self.lower[head]
        plural = tag == "NNS" or (tag == "NNPS" and self.kinds[head] != "GPE" and word not in lexicon.ONE_THING)
        text = self.text(self.first[head], last)
        return Phrase(self.first[head], last, head, text, plural, self._kind_of(head))

    def _last_of_phrase(self, head: int) -> int | None:
        if self.tags[head] not in ("NN", "NNS", "NNP", "NNPS") or self.lower[head] in lexicon.VAGUE:
            return None
        last = head
        for child in self.children[head]:
            dep, word = self.deps[child], self.lower[child]
            if child < head:
                if not self._is_plain(child):
                    return None
            elif dep in ("cc", "conj", "case"):
                return None
            elif dep == "appos" and child == last + 1:  # "the app Lumo"
                if not all(map(self._is_plain, self.children[child])):
                    return None
                last = self.last[child]
            elif dep == "prep" and word in ("of", "in", "for", "from") and child == last + 1:
                dated = word != "of" and self.kinds[self.last[child]] == "DATE"
                if self._is_plain(child) and not dated:
                    last = self.last[child]
                elif word == "of":
                    return None
                else:
                    break
            else:
                break
        return last

    def _is_plain(self, token: int) -> bool:
        """Return whether a part of a noun phrase consists of nouns and their attributes, without vague words."""
        is_attribute = self.deps[token] in _DEPENDENTS and self.tags[token] not in _NOT_INSIDE
        return (
            is_attribute and self.lower[token] not in lexicon.VAGUE and all(map(self._is_plain, self.children[token]))
        )

    def _is_good(self, head: int, last: int) -> bool:
        first = self.first[head]
        if last - first >= 8 or not self.is_whole(head) or self.tags[first] in ("IN", "RB"):
            return False
        if self.child(head, "conj") is not None or _SCORE.search(self.text(first, last)):
            return False
        if self.parsed.text[self.parsed.ends[last]] not in ' ,."':  # "Odeon–Morton"
            return False
        after = self.tags[last + 1]
        if after in ("NNP", "NNPS", "CD"):
            return False
        goes_on = self.lower[last + 1] in (",", "with", "and", "upon", "&")  # "Detroit, Michigan"
        if goes_on and self.tags[last] in ("NNP", "NNPS") and self.tags[last + 2 : last + 3] in (["NNP"], ["NNPS"]):
            return self.lower[last + 1] == "," and self.deps[last + 2] in ("nsubj", "nsubjpass")
        return True

    def _kind_of(self, head: int) -> str:
        """Return the kind of thing that a noun names, as in `Phrase.kind`."""
        lemma, word = self.lemmas[head].lower(), self.lower[head]
        if any(char.isdigit() for char in word):
            return "thing"
        if self.tags[head] in ("NN", "NNS"):
            if lemma in lexicon.GROUPS or word in lexicon.GROUPS:
                return "group"
            is_role = lemma.endswith(("er", "or", "ist", "ian", "eer")) and lemma not in lexicon.NOT_PEOPLE
            return "person" if lemma in lexicon.PEOPLE or (is_role and len(lemma) > 4) else "thing"
        entity = self.kinds[head]
        return _ENTITIES.get(entity, "thing" if entity in _OTHER_NAMES else "name")

    # ------------------------------------------------------------------------------------------------ clauses

    def asserted(self, verb: int) -> bool:
        """Return whether the clause of a verb is the main clause or joined to it by "and" or the like."""
        token = verb
        while self.deps[token] == "conj":
            token = self.heads[token]
        return token == self.root and self.child(verb, "mark") is None

    def _clause(self, verb: int) -> Clause | None:
        """Read the clause of a verb. None if it is not finite or does not begin with a subject of its own."""
        subject = self.subject_of(verb)
        if subject is None or subject > verb or self.tags[subject] in ("WP", "WDT", "EX", "WP$"):
            return None
        auxiliaries = self.all_children(verb, "aux", "auxpass")
        finite = auxiliaries[0] if auxiliaries else verb
        opens, closes = self.first[subject], self.last[subject]
        if self.tags[finite] not in ("VBD", "VBZ", "VBP", "MD") or not closes < finite <= verb:
            return None
        return Clause(
            verb,
            finite,
            self.phrase(subject),
            opens,
            closes,
            self.end_of(verb),
            self.tense_of(verb, auxiliaries),
            self.deps[subject] == "nsubjpass",
            any(self.deps[child] == "neg" or self.lower[child] in NEGATIONS for child in self.children[verb]),
        )

    def end_of(self, verb: int) -> int:
        """Find the last token of the clause of a verb.

        After the verb, the clause ends before the first comma or before the first adverbial or coordinated clause.
        """
        end = self.last[verb]
        for child in self.children[verb]:
            stops = self.deps[child] in ("advcl", "conj", "cc", "parataxis", "punct", "ccomp", "dep")
            if child > verb and stops and self.lower[child] not in ("-", "–", "(", '"'):
                end = min(end, self.first[child] - 1)
        for token in range(verb + 1, end + 1):
            if self.lower[token] == "," and not self._in_list_or_date(token):
                end = token - 1
                break
        while end > verb and self.deps[end] in ("punct", "cc") and self.lower[end] not in (")", '"'):
            end -= 1
        return end

    def _in_list_or_date(self, comma: int) -> bool:
        head = self.heads[comma]
        if "DATE" in (self.kinds[comma], self.kinds[comma - 1]) and self.kinds[comma + 1] == "DATE":
            return True
        before_noun = head > comma and self.tags[head][0] == "N"  # "carved, arched tops"
        return self.deps[comma] == "punct" and (before_noun or self.child(head, "conj") is not None)

    def is_cut(self, verb: int, end: int) -> bool:
        """Return whether cutting the clause of `verb` after `end` would split a list or another phrase."""
        return any(
            (self.deps[t] == "conj" and verb < self.heads[t] <= end) or verb < self.first[t] <= end
            for t in range(end + 1, self.last[verb] + 1)
        )

    def tense_of(self, verb: int, auxiliaries: Sequence[int]) -> str:
        """Return the tense (as in `conjugate`) of a verb with these auxiliaries, or "" for other forms."""
        forms = [self.lower[aux] for aux in auxiliaries if self.deps[aux] == "aux"]
        first = next((aux for aux in auxiliaries if self.deps[aux] == "auxpass"), verb)
        if not forms:
            return {"VBD": "past", "VBZ": "present", "VBP": "present"}.get(self.tags[first], "")
        if len(forms) > 1 or self.tags[first] != "VBN":
            return ""
        return {"has": "perfect", "have": "perfect", "had": "pluperfect"}.get(forms[0], "")
