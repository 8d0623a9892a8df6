"""Choose a rival for a short answer, that is, a wrong answer that looks as good as the right one.

A rival is the answer to another question about the passage, or a part of the passage with the same shape. The rules
work for any language. They compare digits, capitals, lengths and the most frequent words.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

from veridical.records.spans import Span
from veridical.text.quantities import is_value

_EDGES = ".,;:!?()[]{}\"“”„«»‘’'`。、，；：！？（）《》〈〉「」『』،؛؟।॥…–—-·/|"
_CLAUSE = re.compile(r"[^\s.,;:!?()\[\]\"“”。、，；：！？（）《》「」…]+")
_ENDS = (".", "!", "?", "。", "！", "？", "।", "؟", ":")
_FREQUENT = 150  # words of each language that no stretch begins or ends with
_UNBROKEN = re.compile(r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff]")  # scripts without blanks between words
_LONGEST_RATIO = 4.0  # of the characters of two answers
_YEAR = re.compile(r"(?<!\d)\d{4}(?!\d)")
_PARTICLE = re.compile(r"(?<=[\uac00-\ud7a3]{2})(?:에서|으로|까지|부터|은|는|이|가|을|를|의|에|로|와|과|도)$")


@dataclass(frozen=True, slots=True)
class Rival:
    """A wrong answer.

    `origin` is "answer" if `text` answers another question about the passage. It is "stretch" if `text` is just a part
    of the passage.
    """

    text: str
    origin: str


@dataclass(frozen=True, slots=True)
class _Token:
    """A token without the punctuation at its edges, and what stands between this token and the next one."""

    span: Span
    shape: str
    after: str
    opens: bool


def kind_of(answer: str) -> str:
    """Return "value" if the answer has a digit or is an English number, "name" if it has a capital, or else "phrase".

    >>> kind_of("in 1913"), kind_of("the Danube"), kind_of("oak")
    ('value', 'name', 'phrase')
    """
    if is_value(answer.lower()):
        return "value"
    return "name" if any(map(str.isupper, answer)) else "phrase"


def frequent_words(passages: Iterable[str]) -> frozenset[str]:
    """Count the words of passages in one language, and return the most frequent ones."""
    counts = Counter(token.strip(_EDGES).lower() for passage in passages for token in passage.split())
    return frozenset(word for word, _ in counts.most_common(_FREQUENT))


def rival(
    passage: str, question: str, answer: Span, others: Sequence[str], frequent: Container[str], draw: Random
) -> Rival | None:
    """Choose a wrong answer from the passage that is of the same kind as the right answer.

    Return None if no wrong answer fits.

    Args:
        passage: The passage.
        question: The question about the passage.
        answer: The right answer, as a span of the passage.
        others: The answers to other questions about the passage, which are tried first.
        frequent: A stretch (a part of the passage) neither begins nor ends with these words (`frequent_words`).
        draw: The source of randomness by which one of several stretches is drawn.

    >>> text = "The old library opened in 1913, the new one in 1931."
    >>> rival(text, "When was the library built?", Span(47, 51), ["1913", "new"], (), Random(0))
    Rival(text='1913', origin='answer')
    >>> rival(text, "When was the library built?", Span(47, 51), [], (), Random(0))
    Rival(text='1913', origin='stretch')
    """
    right = answer.of(passage)

    def fits(text: str) -> bool:
        a, b = text.casefold(), right.casefold()
        return (
            bool(text)
            and a not in b
            and b not in a
            and a not in question.casefold()
            and text.count("(") == text.count(")")
            and kind_of(text) == kind_of(right)
            and bool(_YEAR.search(text)) == bool(_YEAR.search(right))
            and abs(math.log(len(text) / len(right))) <= math.log(_LONGEST_RATIO)
        )

    fitting = [text for text in others if fits(text)]
    if fitting:
        return Rival(min(fitting, key=lambda text: abs(math.log(len(text) / len(right)))), "answer")
    stretches = [text for text in _stretches(passage, answer, frequent) if fits(text)]
    same_form = [text for text in stretches if _form(text) == _form(right)]
    stretches = sorted(set(same_form or stretches))
    return Rival(draw.choice(stretches), "stretch") if stretches else None


def _form(text: str) -> str:
    return re.sub(r"\d", "0", text) if any(map(str.isdigit, text)) else ""


def _stretches(passage: str, answer: Span, frequent: Container[str]) -> Iterator[str]:
    """Find stretches of the passage, outside the answer, that have the same shape as the answer."""
    right = answer.of(passage)
    if kind_of(right) == "value":
        pattern = "".join(
            r"\d[\d.,]*" if part[0].isdigit() else re.escape(part) for part in re.findall(r"\d[\d.,]*|[^\d]+", right)
        )
        for match in re.finditer(rf"(?<![\w.,]){pattern}(?!\w)" if not _UNBROKEN.search(right) else pattern, passage):
            if not answer.overlaps(Span(*match.span())):
                yield match[0].rstrip(".,")
    if _UNBROKEN.search(right):
        for match in _CLAUSE.finditer(passage):
            if (
                not answer.overlaps(Span(*match.span()))
                and len(match[0]) > 2
                and 2 / 3 <= len(match[0]) / len(right) <= 3 / 2
            ):
                yield match[0]
        return
    tokens = list(_tokens(passage))
    inside = [i for i, token in enumerate(tokens) if token.span.overlaps(answer)]
    if not inside:
        return
    size = len(inside)
    wanted = _signature(tokens[inside[0] : inside[-1] + 1])
    edges = [right.split()[0].strip(_EDGES).lower(), right.split()[-1].strip(_EDGES).lower()]
    for first in range(len(tokens) - size + 1):
        window = tokens[first : first + size]
        span = Span(window[0].span.start, window[-1].span.end)
        if span.overlaps(answer) or _signature(window) != wanted:
            continue
        begins, ends = (token.span.of(passage).lower() for token in (window[0], window[-1]))
        if (begins in frequent and edges[0] not in frequent) or (ends in frequent and edges[1] not in frequent):
            continue
        if window[0].shape == "C" and window[0].opens:
            continue
        if _goes_on(tokens, first - 1, first) or _goes_on(tokens, first + size - 1, first + size):
            continue
        yield _PARTICLE.sub("", span.of(passage))


def _tokens(passage: str) -> Iterator[_Token]:
    opens = True
    for match in re.finditer(r"\S+", passage):
        text = match[0].strip(_EDGES)
        if not text:
            continue
        start = match.start() + match[0].index(text)
        after = passage[start + len(text) : match.end()]
        shape = "0" if any(map(str.isdigit, text)) else "C" if text[0].isupper() else "c"
        yield _Token(Span(start, start + len(text)), shape, after, opens)
        opens = after.strip("\"”»)'’").endswith(_ENDS)


def _signature(window: Sequence[_Token]) -> tuple[str, ...]:
    """Return the shape of each token, with the punctuation that follows it inside the window."""
    return (*(token.shape + token.after for token in window[:-1]), window[-1].shape)


def _goes_on(tokens: Sequence[_Token], first: int, second: int) -> bool:
    """Check whether two neighbours belong to one name or number, between whose parts no stretch may end."""
    if first < 0 or second >= len(tokens) or tokens[first].after:
        return False
    return tokens[first].shape == tokens[second].shape and tokens[first].shape in "C0"
