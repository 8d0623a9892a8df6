"""Complete a short answer with its question, and find the places in the sources that could support the answer.

A short answer is a response of at most `MOST_WORDS` words to a question. A response such as "Yes." is not a statement,
so the encoder gets it together with its question.

A short answer can also occur in the sources but answer a different question: "1913" is wrong if another building opened
in 1913. The encoder often misses such an error in a long passage. Therefore it encodes the question and the answer with
only the sentences around each occurrence of the answer.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import numpy as np

from veridical.detectors.tokens.scoring import ScoredResponse
from veridical.records.spans import Span
from veridical.records.types import Case, Source
from veridical.text.mentions import read_sentences
from veridical.text.segment import UNSPACED, sentences, word_forms, words
from veridical.text.vocabulary import NEGATED

MOST_WORDS = 5
"""A short answer has at most this many words. Three characters of a script without spaces count as one word."""
_LONGEST_STATEMENT = 20  # words
_LEAST_SHARE = 0.5  # of the other content words of a statement that answers a question
_LONGEST_QUESTION = 400  # characters; a longer one is a task with its context
_MOST_PLACES = 8
_MOST_MATCHES = 1000  # in a source, which may repeat one character
_AROUND = 160  # characters on each side of an answer in a long sentence
_IN_A_RECORD = re.compile(r"[|\t{}]|\":")  # tables and JSON: their names stand elsewhere
_SPACED = rf"[^\W{UNSPACED}]"  # a letter or digit of a script with spaces between words
_OF_SPACED = re.compile(_SPACED)
_JUDGEMENTS = frozenset(["yes", "no", "true", "false", "correct", "incorrect", "none"])


def with_question(case: Case) -> tuple[Case, int]:
    """Put the question before a short answer, so that the response becomes a full statement for the encoder.

    Returns:
        The case with the longer response, and the number of characters before the answer. This number is 0 if the case
        has no question, a question of more than 400 characters, or an answer of more than `MOST_WORDS` words.

    >>> case, length = with_question(Case("1", "Yes.", question="Is it old?"))
    >>> case.response, case.response[length:]
    ('The answer to "Is it old?" is Yes.', 'Yes.')
    """
    if not (question := _question(case)):
        return case, 0
    stated = f'The answer to "{question}" is '
    return replace(case, response=stated + case.response), len(stated)


def without_question(scored: ScoredResponse, length: int) -> ScoredResponse:
    """Remove from the logits of a response the question that `with_question` put before it.

    Args:
        scored: The logits of the longer response.
        length: The number of characters before the answer. The words in them are dropped, and the spans of all other
            words are shifted by this number, so that they fit the original response.
    """
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
    """Return the question on one line if the response is a short answer to it, and otherwise ""."""
    question = " ".join((case.question or "").split())
    return question if len(question) <= _LONGEST_QUESTION and _is_short(case.response) else ""


def _is_short(response: str) -> bool:
    forms = word_forms(response)
    characters = sum(not _OF_SPACED.match(form) for form in forms)
    return 0 < len(forms) - characters + characters / 3 <= MOST_WORDS


def in_its_places(case: Case) -> list[Case]:
    """Return one copy of the case for each occurrence of its short answer in a source, to score each occurrence alone.

    The short answer is the response. The only source of each copy is the sentence with the answer, together with the
    sentence before it. If there are more than eight occurrences, the eight that share the most words with the question
    are kept.

    Returns:
        The cases. The list is empty if the response is not a short answer to a question (`MOST_WORDS`), if it is "yes"
        or "no", if it occurs in no source, or if it occurs in a table or record.

    >>> source = Source("1", "It rains. The old library opened in 1913. The new one followed in 1931.")
    >>> case = Case("1", "1931", (source,), "When did the new library open?")
    >>> [each.sources[0].text for each in in_its_places(case)]
    ['The old library opened in 1913. The new one followed in 1931.']
    """
    if not (question := _question(case)):
        return []
    asked = set(word_forms(question))
    found: dict[tuple[str, str], int] = {}
    for source in case.sources:
        for window in places(case.response, source.text, sentences_before=1, before=2 * _AROUND, after=_AROUND):
            if _IN_A_RECORD.search(window):
                return []
            found.setdefault((source.id, window), len(asked & set(word_forms(window))))
    best = sorted(found, key=lambda each: -found[each])[:_MOST_PLACES]
    return [replace(case, sources=(Source(id, window),)) for id, window in best]


def places(answer: str, text: str, *, sentences_before: int, before: int, after: int) -> Iterator[str]:
    """Yield the source text around each occurrence of a short answer, up to the first `_MOST_MATCHES` occurrences.

    Answers such as "yes" and "no" yield nothing.

    Args:
        answer: The answer. Punctuation around it is ignored.
        text: The text of the source.
        sentences_before: The number of sentences to include before the sentence of the answer.
        before: At most this many characters before the answer are included.
        after: At most this many characters after the answer are included, up to the end of its sentence.
    """
    inner = words(answer)
    answer = answer[inner[0].start : inner[-1].end] if inner else ""
    if not answer or answer.casefold() in _JUDGEMENTS:
        return
    pattern = rf"(?<!{_SPACED})" + r"\s++".join(map(re.escape, answer.split())) + rf"(?!{_SPACED})"
    spans: list[Span] = []
    for match in islice(re.finditer(pattern, text, re.IGNORECASE), _MOST_MATCHES):
        spans = spans or sentences(text)
        inside = range(
            bisect_right(spans, match.start(), key=lambda span: span.end),
            bisect_left(spans, match.end(), key=lambda span: span.start),
        )
        if inside:
            start, end = spans[max(0, inside[0] - sentences_before)].start, spans[inside[-1]].end
            yield text[max(start, match.start() - before) : min(end, match.end() + after)]


def answer_in(case: Case) -> Span | None:
    """Find the words of a short statement that answer the question: its only value or name that is not in the question.

    Return None if the statement seems to be about something else, because too few of its other content words occur in
    the question. Also return None if the question is missing or too long, if the response has several such values or
    names, a negation, several sentences, or more than `_LONGEST_STATEMENT` words, if it is a short answer itself (at
    most `MOST_WORDS` words), or if the value or name has more than `MOST_WORDS` words.

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
