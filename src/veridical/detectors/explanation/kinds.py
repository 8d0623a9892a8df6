"""Classify the error in a flagged sentence, for example as another value, an invented reference or an addition.

Rules find symbols that differ and references that no source has. A multinomial logistic regression decides between all
other kinds. Its features are the flagged words, the words beside them, and comparisons with the closest passages. It
has separate weights for sentences that are flagged as a whole. To fit the regression, run
`benchmarks/error_kinds.py --fit`, which uses the data sets `written` and `written_pairs`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from math import exp
from typing import Any

from veridical.detectors.explanation.contradiction import TIMES, negating, opposites
from veridical.records.spans import Span
from veridical.text.counterparts import stated
from veridical.text.mentions import Sentence, SentenceIndex, WeightedWord

CONTRADICTION, ABSENCE = "contradiction", "absence"
LABELS = {CONTRADICTION: "a source says something else", ABSENCE: "no source speaks of it"}
"""The labels that an explanation gives, and what they mean."""
ADDITION, REFERENCE, SIGN = "addition", "invented reference", "sign"
KINDS = {
    "value": "another number, count or amount",
    "unit": "another unit of the same number",
    "name": "another person, place or thing",
    "time": "another date or time",
    "negation": "the opposite, or a negation too many or too few",
    "roles": "who does what to whom is exchanged, or two facts are joined wrongly",
    "status": "a plan, claim or possibility as a fact, or the reverse",
    "scope": "another condition, or another part of those it holds for",
    "order": "another order of events, or a comparison the wrong way round",
    ADDITION: "what the sources do not say",
    SIGN: "another sign or symbol",
    REFERENCE: "a function, option, file, version, address, ticket, standard or citation that no source has",
}
"""The kinds of errors, and what the response has in place of the right words."""

LEARNED = tuple(kind for kind in KINDS if kind not in (SIGN, REFERENCE))
"""The kinds that the regression distinguishes, in the order of its weights."""

_MODEL = "kinds.json"
_BIAS = "bias"
_OF_WHAT_IS_SAID = ("negation", "roles", "status", "scope", "order")  # errors in retelling what a source says
_CLEAR = 0.4  # least probability of a kind that is reported
_CLOSEST = 2  # source sentences to compare with
_MANY = 12  # flagged words
# A sentence counts as flagged as a whole if at least the share `_MOST` of its words, and more than `_FEW`, are flagged.
_MOST, _FEW = 0.6, 4


def kind_of_error(
    sources: SentenceIndex, sentence: Sentence, parts: Sequence[Span], *, label: str | None = None
) -> str | None:
    """Classify the error in a flagged sentence, and return the most probable kind, or None if it is not clear.

    The result is a key of `KINDS`, such as "value" or "negation". It is None if no kind is probable enough, if the
    sentence shares no words with the sources, or if the regression knows no word of a sentence that is flagged as a
    whole.

    Args:
        sources: The index of the sources.
        sentence: A sentence of the response.
        parts: The flagged spans of the sentence.
        label: `CONTRADICTION` if a source contradicts the sentence, which excludes the kind "addition". `ABSENCE` if no
            source says anything similar, which excludes errors in retelling a source, such as "negation".
    """
    if not sources.closest(sources.weighted(sentence), 1):
        return None  # there is nothing to compare with
    values = features(sources, sentence, parts)
    if not _knows_words(values):
        return None
    by_kind = probabilities(values)
    if label == CONTRADICTION:
        del by_kind[ADDITION]
    if label == ABSENCE:
        by_kind = {kind: p for kind, p in by_kind.items() if kind not in _OF_WHAT_IS_SAID}
    kind = max(by_kind, key=lambda name: by_kind[name])
    return kind if by_kind[kind] >= _CLEAR * sum(by_kind.values()) else None


def _knows_words(values: Mapping[str, float]) -> bool:
    """Check whether the regression knows enough of a sentence to classify its error.

    If the whole sentence is flagged, the regression must know at least one of its words. It was fitted on English, and
    is mostly wrong about whole sentences of unknown words. Sentences that are flagged in part always pass.
    """
    prefix = "whole word "
    return f"whole {_BIAS}" not in values or any(
        name.startswith(prefix) and name[len(prefix)].isalpha() and name in _weights() for name in values
    )


def probabilities(values: Mapping[str, float]) -> dict[str, float]:
    """Compute the probability of each kind of error in `LEARNED`, from the features of a sentence (`features`)."""
    weights = _weights()
    known = [(weights[name], value) for name, value in values.items() if name in weights]
    exponents = [exp(sum(of_name[i] * value for of_name, value in known)) for i in range(len(LEARNED))]
    return {kind: one / sum(exponents) for kind, one in zip(LEARNED, exponents, strict=True)}


@cache
def _weights() -> dict[str, list[float]]:
    """Load the weights of each feature, one weight for each kind in `LEARNED`."""
    model: dict[str, Any] = json.loads((files("veridical.detectors.explanation") / _MODEL).read_text("utf-8"))
    weights: dict[str, list[float]] = model["weights"]
    return weights


def is_most(flagged: int, words: int) -> bool:
    """Check whether enough words of a sentence are flagged to treat the complete sentence as flagged.

    Args:
        flagged: The number of flagged words.
        words: The number of words in the sentence.
    """
    return flagged >= _MOST * words and flagged > _FEW


def features(sources: SentenceIndex, sentence: Sentence, parts: Sequence[Span]) -> dict[str, float]:
    """Compute the inputs of the regression that predicts the kind of error, as names with values in [0, 1].

    They describe the flagged words, the words beside them, and the closest source sentences. Most names are indicators
    with the value 1, such as "word not".

    Args:
        sources: The index of the sources.
        sentence: A sentence of the response.
        parts: The flagged spans of the sentence.
    """
    tokens = sentence.tokens
    inside = sorted({i for part in parts for i in sentence.inside(part)})
    flagged, words, whole = frozenset(inside), sources.weighted(sentence), is_most(len(inside), len(tokens))
    within = [word for word in words if word.token_i in flagged]
    around = [word for word in words if word.token_i not in flagged] or words
    closest = [i for i, _ in sources.closest(around, _CLOSEST)]
    passages = [sources.sentences[i] for i in closest]
    near = frozenset[str]().union(*(sources.keys[i] for i in closest))
    forms = _forms(sentence)
    theirs = frozenset(token.form for passage in passages for token in passage.tokens)
    ours = frozenset(token.form for token in tokens)
    found = {_BIAS, *(f"word {forms[i]}" for i in inside)}
    found |= {f"source {form}" for passage in passages[:1] for form in _forms(passage) if form not in ours}
    if not whole:
        found |= {f"new {forms[i]}" for i in inside if tokens[i].form not in theirs}
        found |= {f"before {forms[i - 1] if i else '^'}" for i in inside if i - 1 not in flagged}
        found |= {f"after {forms[i + 1] if i + 1 < len(forms) else '$'}" for i in inside if i + 1 not in flagged}
    there = {mention.kind for passage in passages for mention in passage.mentions}
    mentions = [
        mention for mention in sentence.mentions if not flagged.isdisjoint(range(mention.first, mention.last + 1))
    ]
    for mention in mentions:
        group = "name" if mention.is_name else "time" if mention.kind in TIMES else "value"
        found.add(f"{group} {'stated' if mention.keys and stated(sources, sentence, mention) else 'unknown'}")
        if mention.kind in there:
            found.add(f"{group} has rivals")
    negated, theirs_negated = negating(sentence), any(negating(passage) for passage in passages[:1])
    facts = {
        "negation inside": any(i in flagged for i in negated),
        "negation outside": any(i not in flagged for i in negated),
        "negation on one side": bool(negated) != theirs_negated,
        "opposite": any(not theirs.isdisjoint(opposites(tokens[i].form)) for i in inside),
        "several parts": sum(i - 1 not in flagged for i in inside) > 1,
        "one word": len(inside) == 1,
        "two words": len(inside) == 2,
        "no content": not within,
        "opens": 0 in flagged,
        "ends": len(tokens) - 1 in flagged,
        "names only": bool(mentions) and sum(m.last - m.first + 1 for m in mentions) >= len(inside) - 1,
        "several names": sum(mention.is_name for mention in sentence.mentions) > 1,
        "all in the passages": _fraction(within, near) == 1,
        "none in the passages": bool(within) and _fraction(within, near) == 0,
    }
    found |= {name for name, holds in facts.items() if holds}
    known = frozenset(word.key for word in words if word.key is not None)
    values = dict.fromkeys(found, 1.0) | {
        "share in the passages": _fraction(within, near),
        "share in the sources": _fraction(within, known),
        "share of the rest": _fraction(around, near),
        "flagged words": min(len(inside), _MANY) / _MANY,
        "flagged share": len(inside) / max(1, len(tokens)),
    }
    return {f"whole {name}": value for name, value in values.items()} if whole else values


def _fraction(words: Sequence[WeightedWord], keys: frozenset[str]) -> float:
    total = sum(word.weight for word in words)
    return sum(word.weight for word in words if word.key in keys) / total if total else 1.0


def _forms(sentence: Sentence) -> list[str]:
    """Return the words of a sentence, in which each word of a value or name is replaced by its kind ("<date>").

    Other words with digits become "#".
    """
    forms = ["#" if any(char.isdigit() for char in token.form) else token.form for token in sentence.tokens]
    for mention in sentence.mentions:
        for i in range(mention.first, mention.last + 1):
            forms[i] = f"<{mention.kind}>"
    return forms
