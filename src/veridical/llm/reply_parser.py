"""Reading replies without trusting them: every function returns what a reply plainly says, or None or nothing.

A reply may quote a source that was written to look like a reply. So what is ambiguous is unreadable, never guessed, and
part of a broken answer is never taken for the whole. Nothing here raises, and nothing is evaluated.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from math import exp, isclose, isnan
from typing import Any

from veridical.core.errors import WireError
from veridical.core.serialization import STRICT
from veridical.llm.protocol import Reply

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
_THOUGHT = re.compile(r"\s*<(think|thinking|reasoning)>.*?(</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_OBJECT = re.compile(r"""\{\s*(?:["'}]|[\w$-]+\s*:)""")  # what was meant as one, broken or not; "{a, b}" was not
_ITEM = re.compile(r"[ \t]*(?:(\d{1,6})[.):]|[-*•–])[ \t]+(\S.*)")
_QUOTED = re.compile(r'“([^“”]+)”|„([^„“”]+)[“”]|«([^«»]+)»|"([^"\n]+)"')
_MARKS = " \t\r\n▁Ġ*_`'\"“”‘’«».,:;!?()[]{}<>#-"


def strip_reasoning(text: str) -> str:
    """`text` without the reasoning in tags that some models put first; "" if they never came to an answer.

    >>> strip_reasoning("<think>Is it? Yes.</think> No")
    ' No'
    """
    thought = _THOUGHT.match(text)
    return text[thought.end() :] if thought else text


def json_object(text: str) -> dict[str, Any] | None:
    """The one JSON object in `text`, whatever stands around it; None if there is not exactly one.

    Prose and code fences do not matter. Also None: an object that breaks off or is broken (no part of it is taken), two
    different objects, a key twice in one object, NaN and infinity, half of a surrogate pair.

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
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))


def yes_no(text: str, *, yes: Sequence[str] = YES, no: Sequence[str] = NO) -> bool | None:
    """Whether `text` begins with one of the words for yes (True) or no (False); None if with neither, or if it wavers.

    A label before it ("Answer: Yes"), case and marks around it do not matter. It wavers if the other word stands where
    an answer could stand, too ("No. Yes, …", "yes or no").

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
    # each run of what is no word is read once, from its start, and never again with fewer characters
    elsewhere = rf"(?:\b(and|or|but|actually|wait))?(?<!\W)(\W++)(?:{other})(?!\w)(?=(\s*+(?:[^\w\s]|\Z))?)"
    for match in re.finditer(elsewhere, text[first.end() :], re.IGNORECASE):
        joined, between, ends = match.groups()
        is_answer = ends is not None and not set(between).isdisjoint(".,!?:;\n")
        if joined or is_answer or not set(between).isdisjoint("/|&"):
            return None
    return is_yes


def yes_no_mass(reply: Reply, *, yes: Sequence[str] = YES, no: Sequence[str] = NO) -> tuple[float, float] | None:
    """The probabilities of a word for yes and of one for no as the answer's first token.

    Case, spaces and marks around a token do not matter; its variants add up. Tokens without a letter or digit before
    the answer are skipped. A side that is not among the alternatives has 0. Where the server gave no alternative to
    the chosen token, only that one's own probability is known, and the rest counts for the other side.

    Returns:
        P(yes) and P(no), each in [0, 1]; None where the reply has no log-probabilities.
    """
    first = next((t for t in reply.tokens or () if any(c.isalnum() for c in t.token.strip(_MARKS))), None)
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


def yes_probability(
    reply: Reply, yes: Sequence[str] = YES, no: Sequence[str] = NO, *, least_mass: float = 0.0
) -> float | None:
    """P(yes) / (P(yes) + P(no)) of the answer's first token, in [0, 1] (George and Stuhlmüller 2023, §2.2).

    Args:
        reply: The reply; its words are not read.
        yes: Words for yes.
        no: Words for no.
        least_mass: The least P(yes) + P(no), in [0, 1]: with that or less the model was about to say something else.

    Returns:
        None where the server gave no log-probabilities, neither side is among the alternatives, or both together have
        `least_mass` or less.
    """
    masses = yes_no_mass(reply, yes=yes, no=no)
    if masses is None or sum(masses) <= least_mass:
        return None
    return masses[0] / (masses[0] + masses[1])


def continuation_probability(reply: Reply, continuation: str) -> float | None:
    """The probability of the whole `continuation` that a model was asked to score (`Request.continuation`), in [0, 1].

    None where the reply is not that text, or has no log-probabilities.

    >>> from veridical.llm.protocol import TokenLogprob
    >>> continuation_probability(Reply(" Yes", (TokenLogprob(" Yes", 0.0),)), " Yes")
    1.0
    """
    if reply.text != continuation or not reply.tokens:
        return None
    return exp(min(0.0, sum(token.logprob for token in reply.tokens)))


def labelled(text: str, label: str) -> str | None:
    """The text after `label:` at the start of a line; None if there is none, or if two such lines differ.

    >>> labelled("Reason: it says so.\\n**Supported:** Yes", "Supported")
    'Yes'
    """
    pattern = rf"^[ \t>*_#-]*{re.escape(label)}[ \t*_]*[:=][ \t*_]*(\S.*)$"
    matches = re.finditer(pattern, strip_reasoning(text), re.MULTILINE | re.IGNORECASE)
    values = {match[1].rstrip(" \t*_") for match in matches}
    return (values.pop() or None) if len(values) == 1 else None


def listed(text: str) -> list[str]:
    """The items of the numbered or bulleted list in `text`, without numbers; prose before and after is skipped.

    A line directly beneath an item belongs to it. [] without a list.

    >>> listed("Claims:\\n1. It rains.\\n2) It is\\n   cold.\\n\\nThat is all.")
    ['It rains.', 'It is cold.']
    """
    return [item for _, item in _items(strip_reasoning(text))]


def numbered(text: str) -> dict[int, str]:
    """The items of the numbered list in `text` by their numbers; a number given twice with different texts is left out.

    >>> numbered("1. Yes\\n2. No\\n2. Yes")
    {1: 'Yes'}
    """
    by_number: dict[int, set[str]] = {}
    for number, item in _items(strip_reasoning(text)):
        if number is not None:
            by_number.setdefault(number, set()).add(item)
    return {number: items.pop() for number, items in by_number.items() if len(items) == 1}


def _items(text: str) -> list[tuple[int | None, str]]:
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
    """The texts between double quotation marks in `text`, verbatim, in order.

    >>> quotes('It says "in 1989" and “the tower”.')
    ['in 1989', 'the tower']
    """
    quoted = (next(filter(None, match.groups())) for match in _QUOTED.finditer(strip_reasoning(text)))
    return [quote for quote in quoted if quote.strip()]
