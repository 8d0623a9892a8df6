"""Reading replies without trusting them: every function gives what plainly stands there, or None or nothing.

A reply may quote a source that was written to look like a reply. So what is ambiguous is unreadable, never guessed, and
no part of a broken answer is taken for a whole one. Nothing here raises, and nothing is evaluated.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from math import exp, isnan
from typing import Any

from veridical.llm.protocol import Reply

__all__ = [
    "json_object",
    "labelled",
    "listed",
    "numbered",
    "quotes",
    "spoken",
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


def spoken(text: str) -> str:
    """`text` without the thinking in tags that some models put first; "" if they never came to an answer.

    >>> spoken("<think>Is it? Yes.</think> No")
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
    text = spoken(text)
    decoder = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse, strict=False)
    found: list[dict[str, Any]] = []
    at = 0
    while start := _OBJECT.search(text, at):
        try:
            value, at = decoder.raw_decode(text, start.start())
            json.dumps(value, ensure_ascii=False).encode()
        except (ValueError, RecursionError):  # also UnicodeError, and Python's limit on the digits of an integer
            return None
        if value not in found:
            found.append(value)
    return found[0] if len(found) == 1 else None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a key twice")
    return made


def _refuse(name: str) -> float:
    raise ValueError(name)


def _words(words: Sequence[str]) -> str:
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))


def yes_no(text: str, *, yes: Sequence[str] = YES, no: Sequence[str] = NO) -> bool | None:
    """Whether `text` begins with one of the words for yes (True) or no (False); None if with neither, or if it wavers.

    A label before it ("Answer: Yes"), case and marks around it do not matter. It wavers if the other word stands where
    an answer could stand, too ("No. Yes, …", "yes or no").

    >>> yes_no("**Yes**, there is no doubt."), yes_no("Supported: No"), yes_no("Maybe"), yes_no("Yes or no?")
    (True, False, None, None)
    """
    text = spoken(text)
    both = _words([*yes, *no])
    first = re.match(rf"\W*(?:\w+(?: \w+)?\s*[:=][\W_]*)?({both})(?!\w|-\w|\.\s*\d)", text, re.IGNORECASE)
    if first is None:
        return None
    said = first[1].lower() in {word.lower() for word in yes}
    other = _words(no if said else yes)
    answer = rf"(?:{other})(?!\w)\s*(?:[^\w\s]|\Z)"
    joined = rf"(?:\b(?:and|or|but|actually|wait)\b|/|\||&)\W*(?:{other})(?!\w)"
    if re.search(rf"(?:[.,!?:;\n]\W*){answer}|{joined}", text[first.end() :], re.IGNORECASE):
        return None
    return said


def yes_no_mass(reply: Reply, *, yes: Sequence[str] = YES, no: Sequence[str] = NO) -> tuple[float, float] | None:
    """The probabilities of a word for yes and of one for no as the answer's first token; None where nothing is said.

    Case, spaces and marks around a token do not matter; its variants add up. Tokens without a letter or digit before
    the answer are passed over. A side that is not among the alternatives the server gave has 0.
    """
    first = next((t for t in reply.tokens or () if any(c.isalnum() for c in t.token.strip(_MARKS))), None)
    if first is None:
        return None
    listed = {**dict(first.top), first.token: first.logprob}
    sides = ({word.lower() for word in yes}, {word.lower() for word in no})
    masses = [
        sum(exp(min(p, 0.0)) for token, p in listed.items() if not isnan(p) and token.strip(_MARKS).lower() in side)
        for side in sides
    ]
    return masses[0], masses[1]


def yes_probability(
    reply: Reply, yes: Sequence[str] = YES, no: Sequence[str] = NO, *, least_mass: float = 0.0
) -> float | None:
    """P(yes) / (P(yes) + P(no)) of the answer's first token, in [0, 1].

    None where the server gave no log-probabilities, where neither side is among the alternatives, or where both
    together have `least_mass` or less (then the model was about to say something else).
    """
    masses = yes_no_mass(reply, yes=yes, no=no)
    if masses is None or sum(masses) <= least_mass:
        return None
    return masses[0] / (masses[0] + masses[1])


def labelled(text: str, label: str) -> str | None:
    """What stands behind `label:` at the start of a line; None if nowhere, or if two such lines differ.

    >>> labelled("Reason: it says so.\\n**Supported:** Yes", "Supported")
    'Yes'
    """
    pattern = rf"^[ \t>*_#-]*{re.escape(label)}[ \t*_]*[:=][ \t*_]*(\S.*?)[ \t*_]*$"
    values = {match[1] for match in re.finditer(pattern, spoken(text), re.MULTILINE | re.IGNORECASE)}
    return values.pop() if len(values) == 1 else None


def listed(text: str) -> list[str]:
    """The items of the numbered or bulleted list in `text`, without numbers; prose before and after is passed over.

    A line directly beneath an item belongs to it. No list, no items.

    >>> listed("Claims:\\n1. It rains.\\n2) It is\\n   cold.\\n\\nThat is all.")
    ['It rains.', 'It is cold.']
    """
    return [item for _, item in _items(spoken(text))]


def numbered(text: str) -> dict[int, str]:
    """The items of the numbered list in `text` by their numbers; a number given twice with different texts is left out.

    >>> numbered("1. Yes\\n2. No\\n2. Yes")
    {1: 'Yes'}
    """
    found: dict[int, set[str]] = {}
    for number, item in _items(spoken(text)):
        if number is not None:
            found.setdefault(number, set()).add(item)
    return {number: items.pop() for number, items in found.items() if len(items) == 1}


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
    """What stands between double quotation marks in `text`, exactly as it stands there, in order.

    >>> quotes('It says "in 1989" and “the tower”.')
    ['in 1989', 'the tower']
    """
    found = (next(filter(None, match.groups())) for match in _QUOTED.finditer(spoken(text)))
    return [quote for quote in found if quote.strip()]
