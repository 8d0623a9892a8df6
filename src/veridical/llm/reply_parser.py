"""Readers of replies that do not trust them: each returns what a reply plainly says, or None, or an empty result.

A reply may quote a source that was written to look like a reply. So an ambiguous reply counts as unreadable, and a part
of a broken answer never stands for the whole. Nothing here raises, and nothing is evaluated.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import accumulate
from math import exp, isclose, isnan
from typing import Any

from veridical.core.errors import WireError
from veridical.core.strict_json import STRICT
from veridical.core.text import answer_start
from veridical.llm.protocol import Reply, TokenLogprob

__all__ = [
    "continuation_probability",
    "json_object",
    "labelled",
    "listed",
    "numbered",
    "quotes",
    "strip_reasoning",
    "yes_no",
    "yes_no_mass",
    "yes_probability",
]

YES, NO = ("yes",), ("no",)
_OBJECT = re.compile(r"""\{\s*(?:["'}]|[\w$-]+\s*:)""")  # the start of a JSON object, broken or not; "{a, b}" is none
_ITEM = re.compile(r"[ \t]*(?:(\d{1,6})[.):]|[-*•–])[ \t]+(\S.*)")
_QUOTED = re.compile(r'“([^“”]+)”|„([^„“”]+)[“”]|«([^«»]+)»|"([^"\n]+)"')
_MARKS = " \t\r\n▁Ġ*_`'\"“”‘’«».,:;!?()[]{}<>#-"


def strip_reasoning(text: str) -> str:
    """Return `text` without the tagged reasoning that some models put first; "" if no answer follows it.

    An ambiguous reply gives "" (see `core.text.answer_start`).

    >>> strip_reasoning("<think>Is it? Yes.</think> No"), strip_reasoning("Is it? Yes.\\n</think> No")
    (' No', ' No')
    """
    return text[answer_start(text) :]


def json_object(text: str) -> dict[str, Any] | None:
    """Return the one JSON object in `text`, ignoring prose and code fences around it; None if there is not exactly one.

    Also return None for an object that is broken or breaks off, for two different objects, for a key that occurs twice
    in one object, for NaN and infinity, and for half a surrogate pair.

    >>> json_object('Here you are: {"supported": "Yes"} Anything else?')
    {'supported': 'Yes'}
    >>> json_object('{"claim": {"supported": "Yes"}')
    """
    text = strip_reasoning(text)
    decoder = json.JSONDecoder(**STRICT, strict=False)
    only: dict[str, Any] | None = None
    position = 0
    while start := _OBJECT.search(text, position):
        try:
            value, position = decoder.raw_decode(text, start.start())
            json.dumps(value, ensure_ascii=False).encode()
        except (WireError, ValueError, RecursionError):  # also Python's limit on the digits of an integer
            return None
        if only is not None and value != only:
            return None
        only = value
    return only


def _alternation(words: Sequence[str]) -> str:
    """Return a pattern that matches any of `words`, the longest first."""
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))


def yes_no(text: str, *, yes: Sequence[str] = YES, no: Sequence[str] = NO) -> bool | None:
    """Return True if `text` begins with a word for yes, False for no; None if with neither, or if it wavers.

    A label before the word ("Answer: Yes"), its case and marks around it do not matter. The text wavers if the opposite
    word also stands where an answer could stand ("No. Yes, …", "yes or no").

    >>> yes_no("**Yes**, there is no doubt."), yes_no("Supported: No"), yes_no("Maybe"), yes_no("Yes or no?")
    (True, False, None, None)
    """
    text = strip_reasoning(text)
    both = _alternation([*yes, *no])
    first = re.match(rf"\W*(?:\w+(?: \w+)?\s*[:=][\W_]*)?({both})(?!\w|-\w|\.\s*\d)", text, re.IGNORECASE)
    if first is None:
        return None
    is_yes = first[1].lower() in {word.lower() for word in yes}
    other = _alternation(no if is_yes else yes)
    # possessive quantifiers: without backtracking, a long run of marks takes linear time
    elsewhere = rf"(?:\b(and|or|but|actually|wait))?(?<!\W)(\W++)(?:{other})(?!\w)(?=(\s*+(?:[^\w\s]|\Z))?)"
    for match in re.finditer(elsewhere, text[first.end() :], re.IGNORECASE):
        joined, between, ends = match.groups()
        is_answer = ends is not None and not set(between).isdisjoint(".,!?:;\n")
        if joined or is_answer or not set(between).isdisjoint("/|&"):
            return None
    return is_yes


def yes_no_mass(reply: Reply, *, yes: Sequence[str] = YES, no: Sequence[str] = NO) -> tuple[float, float] | None:
    """Return the probabilities that the answer's first token is a word for yes, and that it is a word for no.

    Tokens of reasoning before the answer are skipped, in the reply's text or beside it.

    Case, spaces and marks around a token do not matter; its variants add up. Tokens without a letter or digit before
    the answer are skipped. A side without a token among the alternatives gets 0. Where the server gave no alternatives
    to the chosen token, the rest of its probability counts for the other side.

    Returns:
        P(yes) and P(no), each in [0, 1]; None where the reply has no log-probabilities.
    """
    first = next((t for t in _answer_tokens(reply) if any(c.isalnum() for c in t.token.strip(_MARKS))), None)
    if first is None:
        return None
    candidates = list(first.top)
    if not any(token == first.token and isclose(p, first.logprob, abs_tol=1e-4) for token, p in candidates):
        candidates.append((first.token, first.logprob))
    masses = [0.0, 0.0]
    for side, words in enumerate((yes, no)):
        forms = {word.lower() for word in words}
        masses[side] = sum(
            exp(min(p, 0.0)) for token, p in candidates if not isnan(p) and token.strip(_MARKS).lower() in forms
        )
    if len(candidates) == 1 and sum(masses) > 0:
        return (masses[0], 1 - masses[0]) if masses[0] else (1 - masses[1], masses[1])
    return masses[0], masses[1]


def _answer_tokens(reply: Reply) -> Sequence[TokenLogprob]:
    """Return the tokens after the reasoning; all tokens of a reply without any, none where the place is unclear."""
    tokens = reply.tokens or ()
    answer = strip_reasoning(reply.text).lstrip()
    start = "".join(token.token for token in tokens).rfind(answer) if answer else -1
    if start < 0:
        return tokens if answer == reply.text.lstrip() else ()
    ends = accumulate(len(token.token) for token in tokens)
    return [token for token, end in zip(tokens, ends, strict=True) if end > start]


def yes_probability(
    reply: Reply, yes: Sequence[str] = YES, no: Sequence[str] = NO, *, least_mass: float = 0.0
) -> float | None:
    """Return P(yes) / (P(yes) + P(no)) of the answer's first token, in [0, 1] (George and Stuhlmüller 2023, §2.2).

    Args:
        reply: The reply; only its log-probabilities are read.
        yes: Words for yes.
        no: Words for no.
        least_mass: In [0, 1]. If P(yes) + P(no) is not above it, the model was about to say something else.

    Returns:
        The probability; None where the server gave no log-probabilities, where neither side is among the alternatives,
        or where P(yes) + P(no) is not above `least_mass`.
    """
    masses = yes_no_mass(reply, yes=yes, no=no)
    if masses is None or sum(masses) <= least_mass:
        return None
    return masses[0] / (masses[0] + masses[1])


def continuation_probability(reply: Reply, continuation: str) -> float | None:
    """Return the probability, in [0, 1], of the whole `continuation` that a model scored (`Request.continuation`).

    Return None where the reply is not that text, or has no log-probabilities.

    >>> from veridical.llm.protocol import TokenLogprob
    >>> continuation_probability(Reply(" Yes", (TokenLogprob(" Yes", 0.0),)), " Yes")
    1.0
    """
    if reply.text != continuation or not reply.tokens:
        return None
    return exp(min(0.0, sum(token.logprob for token in reply.tokens)))


def labelled(text: str, label: str) -> str | None:
    """Return the text after `label:` at the start of a line; None if there is no such line, or if two of them differ.

    >>> labelled("Reason: it says so.\\n**Supported:** Yes", "Supported")
    'Yes'
    """
    pattern = rf"^[ \t>*_#-]*{re.escape(label)}[ \t*_]*[:=][ \t*_]*(\S.*)$"
    matches = re.finditer(pattern, strip_reasoning(text), re.MULTILINE | re.IGNORECASE)
    values = {match[1].rstrip(" \t*_") for match in matches}
    return (values.pop() or None) if len(values) == 1 else None


def listed(text: str) -> list[str]:
    """Return the items of the numbered or bulleted list in `text`, without numbers; [] without a list.

    Prose before and after the list is skipped. A line directly beneath an item belongs to it.

    >>> listed("Claims:\\n1. It rains.\\n2) It is\\n   cold.\\n\\nThat is all.")
    ['It rains.', 'It is cold.']
    """
    return [item for _, item in _items(strip_reasoning(text))]


def numbered(text: str) -> dict[int, str]:
    """Return the items of the numbered list in `text` by number; leave out a number that has two different texts.

    >>> numbered("1. Yes\\n2. No\\n2. Yes")
    {1: 'Yes'}
    """
    by_number: dict[int, set[str]] = {}
    for number, item in _items(strip_reasoning(text)):
        if number is not None:
            by_number.setdefault(number, set()).add(item)
    return {number: items.pop() for number, items in by_number.items() if len(items) == 1}


def _items(text: str) -> list[tuple[int | None, str]]:
    """Return (number, text) of each list item in `text`; a bulleted item has no number."""
    items: list[tuple[int | None, list[str]]] = []
    inside = False
    for line in text.split("\n"):
        item = _ITEM.match(line)
        if item:
            items.append((int(item[1]) if item[1] else None, [item[2].strip()]))
            inside = True
        elif inside and line.strip():
            items[-1][1].append(line.strip())
        else:
            inside = False
    return [(number, " ".join(lines)) for number, lines in items]


def quotes(text: str) -> list[str]:
    """Return the texts between double quotation marks in `text`, verbatim, in order.

    >>> quotes('It says "in 1989" and “the tower”.')
    ['in 1989', 'the tower']
    """
    quoted = (next(filter(None, match.groups())) for match in _QUOTED.finditer(strip_reasoning(text)))
    return [quote for quote in quoted if quote.strip()]
