"""Complete a short answer by its question, and find the places in the sources that could support it.

A response such as "Yes." says nothing by itself, so the encoder also reads the question.

A short answer can also be in the sources but answer a different question: "1913" is wrong if another building opened in
1913. The encoder often misses this in a long passage. So it compares the question with the sentence around each place
where the answer occurs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from veridical.detectors.tokens.scoring import ScoredResponse
from veridical.records.spans import Span
from veridical.records.types import Case, Source
from veridical.text.mentions import read_sentences
from veridical.text.segment import sentences, word_forms, words
from veridical.text.vocabulary import NEGATED

__all__ = ["MOST_WORDS", "answer_in", "in_its_places", "with_question", "without_question"]

MOST_WORDS = 5
"""The most words of a short answer."""
_LONGEST_STATEMENT = 20  # words
_LEAST_SHARE = 0.5  # of the other content words of a statement that answers a question
_LONGEST_QUESTION = 400  # characters; a longer one is a task with its context
_MOST_PLACES = 8
_AROUND = 160  # characters on each side of an answer in a long sentence
_IN_A_RECORD = re.compile(r"[|\t{}]|\":")  # tables and JSON: their names stand elsewhere
_JUDGEMENTS = frozenset(["yes", "no", "true", "false", "correct", "incorrect", "none"])


def with_question(case: Case) -> tuple[Case, int]:
    """Put the question before a short answer, so that the response becomes a full statement.

    Returns:
        The case with the longer response, and the number of characters before the answer. This number is 0 if the case
        has no question, or if its answer has more than `MOST_WORDS` words.

    >>> case, length = with_question(Case("1", "Yes.", question="Is it old?"))
    >>> case.response, case.response[length:]
    ('The answer to "Is it old?" is Yes.', 'Yes.')
    """
    if not (question := _question(case)):
        return case, 0
    stated = f'The answer to "{question}" is '
    return replace(case, response=stated + case.response), len(stated)


def without_question(scored: ScoredResponse, length: int) -> ScoredResponse:
    """Undo `with_question` in a scored response, by dropping the first `length` characters and shifting the rest."""
    if length == 0 or scored.problem:
        return scored
    inside = [i for i, unit in enumerate(scored.units) if unit.start >= length]
    return replace(
        scored,
        units=[Span(scored.units[i].start - length, scored.units[i].end - length) for i in inside],
        logits=scored.logits[inside],
        part_of=np.asarray(scored.part_of)[inside],
        features=None if scored.features is None else scored.features[inside],
    )


def _question(case: Case) -> str:
    """Return the question of a short answer on one line, or "" if the response is none."""
    question = " ".join((case.question or "").split())
    return question if len(question) <= _LONGEST_QUESTION and 0 < len(words(case.response)) <= MOST_WORDS else ""


def in_its_places(case: Case) -> list[Case]:
    """Return a copy of the case for each place in a source where its short answer occurs.

    The only source of each copy is the sentence around the answer, together with the sentence before it. If there are
    more than eight places, the eight that share the most words with the question are kept.

    Returns:
        The cases. The list is empty if the response is not a short answer to a question (`MOST_WORDS`), if it is "yes"
        or "no", if no source has it, or if it is in a table or record.

    >>> source = Source("1", "It rains. The old library opened in 1913. The new one followed in 1931.")
    >>> case = Case("1", "1931", (source,), "When did the new library open?")
    >>> [each.sources[0].text for each in in_its_places(case)]
    ['The old library opened in 1913. The new one followed in 1931.']
    """
    if not (question := _question(case)):
        return []
    inner = words(case.response)
    answer = case.response[inner[0].start : inner[-1].end]
    if answer.casefold() in _JUDGEMENTS:
        return []
    pattern = re.compile(r"(?<!\w)" + r"\s++".join(map(re.escape, answer.split())) + r"(?!\w)", re.IGNORECASE)
    asked = set(word_forms(question))
    found: dict[tuple[str, str], int] = {}
    for source in case.sources:
        for window in _windows(source.text, pattern):
            if _IN_A_RECORD.search(window):
                return []
            found.setdefault((source.id, window), len(asked & set(word_forms(window))))
    best = sorted(found, key=lambda each: -found[each])[:_MOST_PLACES]
    return [replace(case, sources=(Source(id, window),)) for id, window in best]


def answer_in(case: Case) -> Span | None:
    """Return the only value or name of a short statement that its question lacks: what answers the question.

    None if the statement does not answer the question, because the question has fewer than half of its other content
    words. Also None if the response has several such values or names, a negation, several sentences, or more than
    `_LONGEST_STATEMENT` words, or if the name has more than `MOST_WORDS` words.

    >>> case = Case("1", "The new library opened in 1931.", question="When did the new library open?")
    >>> answer_in(case).of(case.response)
    '1931'
    """
    question = case.question or ""
    asked = 0 < len(question) <= _LONGEST_QUESTION
    if not asked or not MOST_WORDS < len(words(case.response)) <= _LONGEST_STATEMENT:
        return None
    if NEGATED.search(case.response) or len(sentences(case.response)) != 1:
        return None
    in_question = {key for _, keys in read_sentences(question) for key in keys}
    read = [sentence for sentence, _ in read_sentences(case.response)]
    new = [each.span for sentence in read for each in sentence.mentions if not in_question.issuperset(each.keys)]
    span = Span(min(each.start for each in new), max(each.end for each in new)) if new else None
    if span not in new or len(words(span.of(case.response))) > MOST_WORDS:
        return None
    others = [token for sentence in read for token in sentence.tokens if token.keys and not token.span.overlaps(span)]
    shared = sum(not in_question.isdisjoint(token.keys) for token in others)
    return span if shared >= _LEAST_SHARE * len(others) else None


def _windows(text: str, pattern: re.Pattern[str]) -> Iterator[str]:
    spans: list[Span] = []
    for match in pattern.finditer(text):
        spans = spans or sentences(text)
        inside = [i for i, span in enumerate(spans) if span.start < match.end() and match.start() < span.end]
        if inside:
            start, end = spans[max(0, inside[0] - 1)].start, spans[inside[-1]].end
            yield text[max(start, match.start() - 2 * _AROUND) : min(end, match.end() + _AROUND)]
