"""Read a short answer in its place: a value that a source has may still be that of another question.

"It was built in 1913" is wrong if 1913 is the year in which another building opened. Over a whole passage the encoder
rarely sees this, so it compares the question with the sentence around each place of the answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from veridical.records.spans import Span
from veridical.records.types import Case, Source
from veridical.text.segment import sentences, word_forms, words

__all__ = ["MOST_WORDS", "in_its_places"]

MOST_WORDS = 5
"""The most words of a short answer."""
_LONGEST_ANSWER = 120  # characters
_MOST_PLACES = 8
_AROUND = 160  # characters on each side of an answer in a long sentence
_IN_A_RECORD = re.compile(r"[|\t{}]|\":")  # tables and JSON: their names stand elsewhere
_JUDGEMENTS = frozenset(["yes", "no", "true", "false", "correct", "incorrect", "none"])


def in_its_places(case: Case) -> list[Case]:
    """Return the case once for each place where a source has its short answer.

    The only source of each is the sentence around the answer with the sentence before it. Of more than eight places,
    those that share the most words with the question are kept.

    Returns:
        The cases, or an empty list if the response is no short answer to a question (`MOST_WORDS`), is "yes" or "no",
        is in no source, or stands in a table or record.

    >>> source = Source("1", "It rains. The old library opened in 1913. The new one followed in 1931.")
    >>> case = Case("1", "1931", (source,), "When did the new library open?")
    >>> [each.sources[0].text for each in in_its_places(case)]
    ['The old library opened in 1913. The new one followed in 1931.']
    """
    if not case.question or len(case.response) > _LONGEST_ANSWER or not 0 < len(words(case.response)) <= MOST_WORDS:
        return []
    inner = words(case.response)
    answer = case.response[inner[0].start : inner[-1].end]
    if answer.casefold() in _JUDGEMENTS:
        return []
    pattern = re.compile(r"(?<!\w)" + r"\s++".join(map(re.escape, answer.split())) + r"(?!\w)", re.IGNORECASE)
    asked = set(word_forms(case.question))
    found: dict[tuple[str, str], int] = {}
    for source in case.sources:
        for window in _windows(source.text, pattern):
            if _IN_A_RECORD.search(window):
                return []
            found.setdefault((source.id, window), len(asked & set(word_forms(window))))
    best = sorted(found, key=lambda each: -found[each])[:_MOST_PLACES]
    return [replace(case, sources=(Source(id, window),)) for id, window in best]


def _windows(text: str, pattern: re.Pattern[str]) -> Iterator[str]:
    spans: list[Span] = []
    for match in pattern.finditer(text):
        spans = spans or sentences(text)
        inside = [i for i, span in enumerate(spans) if span.start < match.end() and match.start() < span.end]
        if inside:
            start, end = spans[max(0, inside[0] - 1)].start, spans[inside[-1]].end
            yield text[max(start, match.start() - 2 * _AROUND) : min(end, match.end() + _AROUND)]
