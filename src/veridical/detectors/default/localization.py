"""Compare a question with the occurrences of its short answer in the sources, by the similarity of embeddings.

If the sources say "1913" in a sentence about another building, this sentence is less similar to the question than the
one with the right answer. The similarities come from a sentence encoder for a hundred languages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from veridical.detectors.default.short_answers import places
from veridical.inference.sentence_encoder import PASSAGE, QUERY, SentenceEncoder
from veridical.records.spans import Span
from veridical.records.types import Case, Evidence
from veridical.text.counterparts import other_answer
from veridical.text.mentions import Mention, read_sentences
from veridical.text.segment import sentences, word_forms

_AROUND = 120  # characters on each side of an answer
_LONGEST = 200  # characters of a part of a sentence
_STEP = 160  # characters from the begin of a part to that of the next
_LEAST = 40  # characters of the last part
_MOST_PLACES, _MOST_WINDOWS = 8, 32
TEMPERATURE = 0.02
"""The temperature of the softmax over similarities, in training and in use."""


class Location(NamedTuple):
    """How likely a short answer occurs where the sources answer its question.

    Attributes:
        log_probability: The log of a probability from a softmax over two similarities to the question: that of the
            most similar occurrence of the answer, whose probability this is, and that of an average sentence of the
            sources.
        closest: The sentence of the sources that is most similar to the question. None if this sentence has the answer.
    """

    log_probability: float
    closest: Evidence | None


@dataclass(frozen=True, slots=True)
class AnswerCurve:
    """A logistic regression that computes the probability that a short answer is wrong.

    Attributes:
        encoder: The weight of the encoder's logit.
        location: The weight of the location's log probability, which is at most 0.
        intercept: The intercept.
    """

    encoder: float
    location: float
    intercept: float

    @classmethod
    def read(cls, numbers: Mapping[str, Any]) -> AnswerCurve:
        """Read a curve from JSON.

        Raises:
            KeyError: A number is missing.
            TypeError: A value is not a number.
            ValueError: A string does not stand for a number.
        """
        return cls(*(float(numbers[name]) for name in cls.__slots__))

    def probability(self, logit: float, location: float) -> float:
        """Compute the probability of an error from the encoder's logit and the log probability of the location.

        >>> round(AnswerCurve(1.0, -0.5, 0.0).probability(-1.0, -2.0), 3)
        0.5
        """
        return float(np.exp(-np.logaddexp(0.0, -self.encoder * logit - self.location * location - self.intercept)))


def location_of(encoder: SentenceEncoder, case: Case) -> Location | None:
    """Compare the question of a short answer with the occurrences of the answer in the sources.

    Return None if there is no question, if no source has the answer, or if the sources have only one sentence.
    """
    question = " ".join((case.question or "").split())
    around, windows = windows_of(case)
    if not question or not around or len(windows) < 2:
        return None
    (asked,) = encoder.embed([QUERY + question])
    of_answer, others = (
        encoder.embed([PASSAGE + window for window in each]) @ asked.astype(np.float64) for each in (around, windows)
    )
    place, average = of_answer.max() / TEMPERATURE, np.logaddexp.reduce(others / TEMPERATURE) - np.log(len(others))
    closest = windows[int(np.argmax(others))] if others.max() > of_answer.max() else None
    return Location(float(place - np.logaddexp(place, average)), None if closest is None else _evidence(case, closest))


def _evidence(case: Case, window: str) -> Evidence | None:
    """Find the span of a window in the sources, or return None if the window contains the response."""
    if next(places(case.response, window, sentences_before=0, before=0, after=0), None) is not None:
        return None
    starts = ((source.id, source.text.find(window)) for source in case.sources)
    return next((Evidence(id, Span(start, start + len(window))) for id, start in starts if start >= 0), None)


def replacement(answer: str, sentence: str, question: str) -> str | None:
    """Find the only value or name in a sentence that could replace a short answer.

    A candidate is of the same kind as the answer and is not in the question. Return None if there is no candidate, or
    more than one.

    >>> replacement("1913.", "The new library opened in 1931 for 80,000 euros.", "When did the library open?")
    '1931'
    """
    text = answer.strip(" .,;:!?\"'“”")
    wrong = next((mention for mention in _mentions(text) if mention.span == Span(0, len(text))), None)
    found = wrong and other_answer(wrong, _mentions(sentence), list(_mentions(question)))
    return found.span.of(sentence) if found else None


def _mentions(text: str) -> Iterator[Mention]:
    return chain.from_iterable(sentence.mentions for sentence, _ in read_sentences(text))


def windows_of(case: Case) -> tuple[list[str], list[str]]:
    """Return the parts of the sources around each occurrence of a short answer, and all sentences of the sources.

    Sentences are cut into parts of at most `_LONGEST` characters. If there are more than `_MOST_PLACES` occurrences or
    `_MOST_WINDOWS` parts of sentences, those that share the most words with the question are kept.
    """
    asked = set(word_forms((case.question or "").casefold()))

    def closest(windows: Iterable[str], most: int) -> list[str]:
        different = list(dict.fromkeys(windows))
        if len(different) > most:
            different.sort(key=lambda window: -len(asked & set(word_forms(window.casefold()))))
        return different[:most]

    around = (
        places(case.response, source.text, sentences_before=0, before=_AROUND, after=_AROUND) for source in case.sources
    )
    parts = (_parts(source.text) for source in case.sources)
    return closest(chain.from_iterable(around), _MOST_PLACES), closest(chain.from_iterable(parts), _MOST_WINDOWS)


def _parts(text: str) -> Iterator[str]:
    for span in sentences(text):
        sentence = span.of(text)
        for start in range(0, max(len(sentence) - _LEAST, 1), _STEP):
            yield sentence[start : start + _LONGEST]
