"""Parse the replies of models without trusting them.

A reply may quote a source that imitates a reply. The functions in this module therefore return None or an empty result
if a reply is unclear or broken. They raise no errors, and never run a reply as code.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import accumulate
from math import exp, isclose, isnan
from typing import Any

from veridical.io.strict_json import STRICT
from veridical.llm.protocol import Reply, TokenLogprob
from veridical.records.errors import WireError
from veridical.records.strings import answer_start

YES, NO = ("yes",), ("no",)
_OBJECT = re.compile(r"""\{\s*(?:["'}]|[\w$-]+\s*:)""")  # the start of a JSON object, broken or not; "{a, b}" is none
_ITEM = re.compile(r"[ \t]*(?:(\d{1,6})[.):]|[-*•–])[ \t]+(\S.*)")
_QUOTED = re.compile(r'“([^“”]+)”|„([^„“”]+)[“”]|«([^«»]+)»|"([^"\n]+)"')
_MARKS = " \t\r\n▁Ġ*_`'\"“”‘’«».,:;!?()[]{}<>#-"


def strip_reasoning(text: str) -> str:
    r"""Remove the reasoning that some models write before their answer, in tags such as <think>.

    The opening tag may be missing. If there is no answer after the reasoning, or if it is not clear where the reasoning
    ends, return "".

    >>> strip_reasoning("<think>Is it? Yes.</think> No"), strip_reasoning("Is it? Yes.\n</think> No")
    (' No', ' No')
    """
    return text[answer_start(text) :]


def json_object(text: str) -> dict[str, Any] | None:
    """Parse the JSON object in a model's reply, ignoring prose and code fences around it.

    Return None if there is no object, or if there are two different objects. Also return None if an object is invalid
    or incomplete, repeats a key, or contains NaN, infinity, or half of a surrogate pair.

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


def yes_no(text: str) -> bool | None:
    """Parse a yes-or-no answer: return True if a text begins with "yes", and False if it begins with "no".

    The word may follow a label ("Answer: Yes"). Letter case and punctuation around it are ignored. If the text begins
    with neither word, or if it also gives the opposite answer ("No. Yes, …", "yes or no"), return None.

    >>> yes_no("**Yes**, there is no doubt."), yes_no("Supported: No"), yes_no("Maybe"), yes_no("Yes or no?")
    (True, False, None, None)
    """
    text = strip_reasoning(text)
    first = re.match(r"\W*(?:\w+(?: \w+)?\s*[:=][\W_]*)?(yes|no)(?!\w|-\w|\.\s*\d)", text, re.IGNORECASE)
    if first is None:
        return None
    is_yes = first[1].lower() == "yes"
    other = "no" if is_yes else "yes"
    # possessive quantifiers: without backtracking, a long run of marks takes linear time
    elsewhere = rf"(?:\b(and|or|but|actually|wait))?(?<!\W)(\W++){other}(?!\w)(?=(\s*+(?:[^\w\s]|\Z))?)"
    for match in re.finditer(elsewhere, text[first.end() :], re.IGNORECASE):
        joined, between, ends = match.groups()
        is_answer = ends is not None and not set(between).isdisjoint(".,!?:;\n")
        if joined or is_answer or not set(between).isdisjoint("/|&"):
            return None
    return is_yes


def yes_no_mass(reply: Reply, *, yes: Sequence[str] = YES, no: Sequence[str] = NO) -> tuple[float, float] | None:
    """Return the probabilities that the answer begins with "yes" and with "no", from the reply's log-probabilities.

    They are the probabilities of the first token of the answer and of its reported alternatives. Reasoning before the
    answer is skipped, and so are tokens without a letter or digit. Letter case, spaces and punctuation around a token
    are ignored, and the probabilities of all variants of a word are added up.

    If none of these tokens is a word for yes, P(yes) is 0, and likewise for no. If the server reported no alternatives,
    and the token is a word for yes or no, the other word gets the remaining probability.

    Args:
        reply: The reply of the model.
        yes: The words for yes, as single tokens.
        no: The words for no, as single tokens.

    Returns:
        P(yes) and P(no), each in [0, 1]. None if the reply has no log-probabilities.
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
    """Return the tokens after the reasoning.

    These are all tokens if the reply has no reasoning, and no tokens if it is unclear where the reasoning ends.
    """
    tokens = reply.tokens or ()
    answer = strip_reasoning(reply.text).lstrip()
    start = "".join(token.token for token in tokens).rfind(answer) if answer else -1
    if start < 0:
        return tokens if answer == reply.text.lstrip() else ()
    ends = accumulate(len(token.token) for token in tokens)
    return [token for token, end in zip(tokens, ends, strict=True) if end > start]


def labelled(text: str, label: str) -> str | None:
    r"""Return the value of a labelled line in a reply, such as "Yes" of the line "Supported: Yes".

    Return None if no line begins with the label, or if two such lines have different values.

    >>> labelled("Reason: it says so.\n**Supported:** Yes", "Supported")
    'Yes'
    """
    values = labelled_values(text, label)
    return (values.pop() or None) if len(values) == 1 else None


def labelled_values(text: str, label: str) -> set[str]:
    """Return all different values of the lines of a reply that begin with `label:`, such as {"Yes", "No"}."""
    pattern = rf"^[ \t>*_#-]*{re.escape(label)}[ \t*_]*[:=][ \t*_]*(\S.*)$"
    matches = re.finditer(pattern, strip_reasoning(text), re.MULTILINE | re.IGNORECASE)
    return {match[1].rstrip(" \t*_") for match in matches}


def listed(text: str) -> list[str]:
    r"""Return the items of the numbered or bulleted list in a reply, in order, without their numbers or bullets.

    Prose before and after the list is ignored. If an item continues on the next line, the lines are joined.

    >>> listed("Claims:\n1. It rains.\n2) It is\n   cold.\n\nThat is all.")
    ['It rains.', 'It is cold.']
    """
    return [item for _, item in _items(strip_reasoning(text))]


def numbered(text: str) -> dict[int, str]:
    r"""Return the items of the numbered list in a reply, as a dict from number to text.

    If a number occurs with two different texts, it is omitted.

    >>> numbered("1. Yes\n2. No\n2. Yes")
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
    """Return the texts between double quotation marks, verbatim and in order.

    >>> quotes('It says "in 1989" and “the tower”.')
    ['in 1989', 'the tower']
    """
    quoted = (next(filter(None, match.groups())) for match in _QUOTED.finditer(strip_reasoning(text)))
    return [quote for quote in quoted if quote.strip()]
