"""Compare the words of a response, its question and its passages.

The comparison finds refusals, passages that answer the question, and passages that contradict each other. Words match
by their stems, and numbers and dates by their values, as in `detectors.explanation`. The rules are for English.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property

from veridical.detectors.default.absences import matter_of_absence
from veridical.records.spans import Span, overlapping
from veridical.records.types import Case, Evidence
from veridical.text.framing import framing_sentences, is_refusal
from veridical.text.mentions import Sentence, WeightedWord, index_of
from veridical.text.segment import sentences

_CLOSEST = 12  # sentences of passages to compare a sentence with
_SAME_MATTER = 0.3  # least share of a response sentence's words in one of the two passage sentences that are compared
_SAME_STATEMENT = 0.6  # least share of each sentence's words in the other, for two sentences about the same fact
_CHANGED = 5  # most words of each of the two sentences that the other one lacks
_TRIVIAL = frozenset({"the", "a", "an", "of", "and", "in", "to", "is", "are", "it", "that", "this"})


def refusal_in(case: Case) -> Span | None:
    """Find a refusal to answer near the beginning of the response. Return its sentence, or None if there is none.

    The search ends with the first sentence that is more than an introduction or an exclamation.

    >>> text = "Sorry! The passages do not name the price. The tower is tall."
    >>> refusal_in(Case("1", text)).of(text), refusal_in(Case("1", "It costs 5 euros."))
    ('The passages do not name the price.', None)
    """
    spans = sentences(case.response)
    framing = set(framing_sentences(case.response, spans))
    for span in spans:
        text = span.of(case.response)
        if is_refusal(text):
            return span
        if span not in framing and (len(text.split()) > 2 or span == spans[-1]):
            lacks = matter_of_absence(text, case.sources) is not None or _LACKS.search(text[:_LEAD])
            return span if lacks else None
    return None


_LEAD = 200  # characters of a sentence in which a refusal begins
_GIVEN = "stated|given|mentioned|named|recorded|specified|described|disclosed|answered|provided|reported|addressed"
_GIVE = "say|mention|give|name|state|answer|tell|specify|indicate|provide|contain|include|cover|address|reveal|disclose"
_LACKS = re.compile(
    rf"\b(?:texts?|passages?|documents?|sources?|contexts?|reports?|excerpts?|pages?|material|information)\b.{{0,40}}"
    rf"\b(?:do(?:es)?|did)(?: not|n['’]t) (?:{_GIVE})\b"
    r"|\b(?:i|we) (?:can(?:not|['’]t| not)|could(?:n['’]t| not)|(?:am|was) unable to) "
    r"(?:find|answer|determine|say|tell|give|see)\b"
    rf"|\b(?:is|are|was|were)(?: not|n['’]t) (?:{_GIVEN})\b"
    r"|\bcan(?:not|['’]t| not) be (?:told|seen|found|answered|determined|said)\b"
    rf"|\bno (?:\w+ ){{1,4}}(?:is|are|was|were) (?:{_GIVEN})\b"
    r"|^\W*nothing (?:is said|on|about|in)\b|\bleft open\b|\bremains? open\b|\bsilent (?:on|about)\b"
    r"|\bno (?:information|mention)\b",
    re.IGNORECASE,
)


class CaseWords:
    """Compares the words of a response and its question with those of the passages (the sources of the case).

    The comparison shows which passages the response is based on, which passages answer the question, and where passages
    contradict each other. Words match by their stems, and numbers and dates by their values.
    """

    def __init__(self, case: Case) -> None:
        self.case = case
        self.index = index_of(tuple(source.text for source in case.sources))
        self.response = index_of((case.response,)).sentences
        self.passage_keys: list[set[str]] = [set() for _ in case.sources]
        for sentence, keys in zip(self.index.sentences, self.index.keys, strict=True):
            self.passage_keys[sentence.text_i] |= keys

    @cached_property
    def question_shares(self) -> list[float]:
        """The proportion of the question's content words that each passage contains, in [0, 1]."""
        words = [t.keys for s in index_of((self.case.question or "",)).sentences for t in s.tokens if t.keys]
        return [
            sum(not keys.isdisjoint(of_word) for of_word in words) / max(1, len(words)) for keys in self.passage_keys
        ]

    @cached_property
    def relevance(self) -> float:
        """How well the passages behind the response fit the question, relative to the best-fitting passage of the case.

        The fit is the proportion of the question's words in a passage. The result is in [0, 1], and 1 if there is only
        one passage. A low value means that the response is about something else than the question.
        """
        if sum(map(bool, self.passage_keys)) < 2:
            return 1.0
        best = max(self.question_shares, default=0.0)
        nearest = (self.index.closest(self.index.weighted(sentence), 1) for sentence in self.response)
        behind = {self.index.sentences[i].text_i for closest in nearest for i, _ in closest}
        fit = max((self.question_shares[i] for i in behind), default=0.0)
        return fit / best if best else 1.0

    def closest(self, text: str, most: int = 1) -> tuple[Evidence, ...]:
        """Find the sentences of the passages that share most words with `text`, best first, at most `most` of them."""
        words = [word for s in index_of((text,)).sentences for word in self.index.weighted(s)]
        return tuple(self.evidence(i, round(weight, 4)) for i, weight in self.index.closest(words, most))

    def evidence(self, i: int, weight: float = 1.0) -> Evidence:
        """Return the sentence with the index `i` (counted over all passages) as evidence."""
        sentence = self.index.sentences[i]
        return Evidence(self.case.sources[sentence.text_i].id, sentence.span, weight)

    def conflict(self) -> tuple[Evidence, Evidence] | None:
        """Find two sentences in different passages that contradict each other about a statement of the response.

        Two sentences count as contradictory if they differ in only a few words. Return None if there are no such
        sentences.
        """
        pairs = (pair for sentence in self.response for pair in self._versions(self.index.weighted(sentence)))
        return next(((self.evidence(one), self.evidence(other)) for one, other in pairs), None)

    def _versions(self, words: Sequence[WeightedWord]) -> Iterator[tuple[int, int]]:
        """Find pairs of sentences close to `words` that are in different passages and differ in only a few words."""
        best = self._best_of_passages(words)
        for one in best[:2]:
            own = self.index.sentences[one]
            for other in dict.fromkeys((*self._best_of_passages(self.index.weighted(own)), *best)):
                rival = self.index.sentences[other]
                if rival.text_i == own.text_i:
                    continue
                about = max(self.index.proportion(i, words) for i in (one, other))
                shares = (
                    self.index.proportion(other, self.index.weighted(own)),
                    self.index.proportion(one, self.index.weighted(rival)),
                )
                if about < _SAME_MATTER or min(shares) < _SAME_STATEMENT:
                    continue
                changed = [_only_in(own, rival), _only_in(rival, own)]
                if any(changed) and max(changed) <= _CHANGED:
                    yield one, other

    def _best_of_passages(self, words: Sequence[WeightedWord]) -> list[int]:
        """Find the sentence of each passage that is closest to `words`, best first."""
        best: dict[int, int] = {}
        for i, _ in self.index.closest(words, _CLOSEST):
            best.setdefault(self.index.sentences[i].text_i, i)
        return list(best.values())

    def stitched(self, spans: Sequence[Span]) -> tuple[Evidence, Evidence] | None:
        """Find a sentence of the response that mixes facts of two passages.

        Its unflagged words are closest to a sentence of one passage. This passage contains none of its flagged words,
        but another passage contains at least one of them. Some flagged characters must be part of a value or name.

        Args:
            spans: The flagged spans, sorted and without overlaps.

        Returns:
            The passage sentence closest to the unflagged words, and the one that contains a flagged word. None if no
            response sentence mixes passages.
        """
        for sentence in self.response:
            words = self.index.weighted(sentence)
            flagged, rest = list[WeightedWord](), list[WeightedWord]()
            for word in words:
                (flagged if overlapping(spans, sentence.tokens[word.token_i].span) else rest).append(word)
            closest = [i for i, _ in self.index.closest(rest, 1)]
            named = any(overlapping(spans, mention.span) for mention in sentence.mentions)
            if not named or not flagged or not closest:
                continue
            near = self.passage_keys[self.index.sentences[closest[0]].text_i]
            if any(word.key is None or word.key in near for word in flagged):
                continue
            other = self.index.closest([*flagged, *(word.scaled(0.1) for word in rest)], _CLOSEST)
            keys = {word.key for word in flagged}
            for i, _ in other:
                if not self.index.keys[i].isdisjoint(keys):
                    return self.evidence(closest[0]), self.evidence(i)
        return None


def _only_in(one: Sentence, other: Sentence) -> int:
    """Count the words of `one` that `other` does not have, or has fewer times."""
    words = Counter(t.form for t in one.tokens if t.form not in _TRIVIAL)
    return (words - Counter(t.form for t in other.tokens)).total()
