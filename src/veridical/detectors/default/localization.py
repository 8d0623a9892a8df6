"""Compare a question with the occurrences of its short answer in the sources, by the similarity of embeddings.

A short answer is a response of a few words, such as "1913". If the sources have "1913" only in a sentence about another
building, this sentence is less similar to the question than the one with the right answer. The similarities come from a
sentence encoder for a hundred languages.
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
    """The evidence from embeddings that a short answer occurs where the sources answer its question.

    Attributes:
        log_probability: The log of a softmax probability, at most 0. The softmax compares how similar two texts are to
            the question: the most similar occurrence of the answer, and an average sentence of the sources. Near 0, the
            occurrence is far more similar.
        closest: The source sentence that is most similar to the question. None if an occurrence of the answer is at
            least as similar, or if this sentence contains the answer.
    """

    log_probability: float
    closest: Evidence | None


@dataclass(frozen=True, slots=True)
class AnswerCurve:
    """A logistic regression that computes the probability that a short answer is wrong.

    It has two inputs: the encoder's logit, and the log probability that the answer occurs in the right place
    (`Location`).

    Attributes:
        encoder: The weight of the encoder's logit.
        location: The weight of `Location.log_probability`.
        intercept: The intercept.
    """

    encoder: float
    location: float
    intercept: float

    @classmethod
    def read(cls, numbers: Mapping[str, Any]) -> AnswerCurve:
        """Parse the three coefficients from JSON.

        Raises:
            KeyError: A coefficient is missing.
            TypeError: A value is not a number.
            ValueError: A string cannot be parsed as a number.
        """
        return cls(*(float(numbers[name]) for name in cls.__slots__))

    def probability(self, logit: float, location: float) -> float:
        """Compute the probability that the answer is wrong, from the encoder's logit and `Location.log_probability`.

        >>> round(AnswerCurve(1.0, -0.5, 0.0).probability(-1.0, -2.0), 3)
        0.5
        """
        return float(np.exp(-np.logaddexp(0.0, -self.encoder * logit - self.location * location - self.intercept)))


def location_of(encoder: SentenceEncoder, case: Case) -> Location | None:
    """Compare the question of a case with the places in the sources where its short answer, the response, occurs.

    Return None if there is no question, if the answer occurs in no source, or if the sources have only one sentence.
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
    """Find the only value or name in a source sentence that could replace a wrong short answer.

    A candidate is of the same kind as the answer, such as a year for a year, and does not occur in the question. Return
    None if there is no candidate, or more than one.

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
    """Return the texts that `location_of` embeds: the source text around each occurrence, and the source sentences.

    The first list has the text around each occurrence of the short answer (the response), and is empty if there is
    none. The second list has all sentences of the sources, with long sentences cut into pieces. If there are more than
    `_MOST_PLACES` occurrences or `_MOST_WINDOWS` pieces, those that share the most words with the question are kept.
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
