"""Find, for a value or name in a response, the different value or name that a source has in its place.

A mention is a value or name in a sentence, such as "3 May 2021" or "Anna Berg" (`mentions.Mention`). The functions
compare the words around two mentions, and return only clear matches.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import takewhile
from math import exp
from typing import NamedTuple

from veridical.records.spans import Span
from veridical.text import quantities
from veridical.text.mentions import Mention, Sentence, SentenceIndex, WeightedWord

_SENTENCES = 6  # source sentences to compare each mention with
_LEAST_SHARE = 0.25  # least `closeness` and `context` of a counterpart
_LEAST_PROBABILITY = 0.4
_MARGIN = {"name": 0.3, "value": 0.2}  # by how much the best candidate must be more probable than any other value


class ContextSimilarity(NamedTuple):
    """Compares the words around a value or name of the response with the words around one in a source sentence.

    The value or name of the response is called the mention, and the one in the source sentence the candidate. All
    features lie in [0, 1].

    Attributes:
        closeness: The proportion of the other words in the mention's sentence that the source sentence also has. Rare
            words count more.
        context: The same proportion, but words near the mention and near the candidate count more.
        before: 1 if the same word precedes mention and candidate.
        after: 1 if the same word follows both.
        content_before: 1 if the nearest content word before both is the same.
        content_after: 1 if the nearest content word after both is the same.
        preposition: 1 if the same preposition precedes both, or none precedes either. All prepositions of place count
            as the same.
        form: 1 if both are written alike (in digits or in letters, as one word or as several).
        rank: 1 if the candidate is in the closest source sentence, 1/2 if it is in the next one, and so on.
        agreement: 1 if both have a part in common, such as a word of a name, the year of a date, or the number of a
            quantity.
    """

    closeness: float
    context: float
    before: float
    after: float
    content_before: float
    content_after: float
    preposition: float
    form: float
    rank: float
    agreement: float


# Chosen on training documents, close to the fitted logistic regressions (`benchmarks/explanations.py --fit`).
_BIAS = {"value": -3.2, "name": -3.2}
_WEIGHTS = {
    "value": ContextSimilarity(0.7, 2.2, 0.9, 0.0, 0.7, 1.0, 0.0, 1.6, 0.9, 0.0),
    "name": ContextSimilarity(0.0, 3.0, 1.2, 1.0, 0.7, 0.7, 0.8, 0.5, 0.6, 1.3),
}


@dataclass(frozen=True, slots=True)
class Counterpart:
    """A value or name in a source that may be about the same fact as one in the response, such as 1889 for 1899.

    Attributes:
        sentence_i: The index of the source sentence in `SentenceIndex.sentences`.
        mention: The value or name in the source.
        features: The similarity of the words around it to the words around the value or name of the response.
        probability: The probability that both are about the same fact, in [0, 1].
        closest: If true, no source sentence more similar to the response's sentence has a value or name of this kind.
    """

    sentence_i: int
    mention: Mention
    features: ContextSimilarity
    probability: float
    closest: bool


@dataclass(frozen=True, slots=True)
class MentionComparison:
    """The result of comparing a value or name of the response with the sources.

    Attributes:
        counterpart: The different value or name that a source has in its place. None if the sources support the
            response's value or name, or if no candidate is clearly the best.
        supported: If true, a source has the same value or name in its place, or a value that agrees with it, such as
            1,234 for "more than 1,000".
    """

    counterpart: Counterpart | None
    supported: bool = False


def compare_mention(
    index: SentenceIndex, words: Sequence[WeightedWord], sentence: Sentence, mention: Mention
) -> MentionComparison:
    """Compare a value or name of the response with those in the most similar source sentences.

    Return whether a source supports it, or else which different value or name a source clearly has in its place. Only
    values or names of the same kind are compared, such as two dates or two names.

    Args:
        index: The index of the sources.
        words: The words of the sentence with their weights, from `SentenceIndex.weighted`.
        sentence: The sentence of the response.
        mention: The value or name in this sentence.
    """
    candidates = sorted(counterparts(index, words, sentence, mention), key=lambda c: -c.probability)
    best = candidates[0] if candidates else None
    if best is None or best.mention.same(mention):
        return MentionComparison(None, supported=best is not None)
    qualified = bound(sentence, mention)
    if qualified == bound(index.sentences[best.sentence_i], best.mention):
        qualified = ""  # "over 80" does not support "over 50"
    if agrees(mention, qualified, best.mention):
        return MentionComparison(None, supported=True)
    rival = next((c.probability for c in candidates if not c.mention.same(best.mention)), 0.0)
    clear = (
        min(best.features.closeness, best.features.context) >= _LEAST_SHARE
        and best.probability > _LEAST_PROBABILITY
        and best.probability - rival > _MARGIN[_family(mention)]
    )
    return MentionComparison(best if clear else None)


def stated(index: SentenceIndex, sentence: Sentence, mention: Mention) -> bool:
    """Check whether a value or name of the response occurs anywhere in the sources.

    A value also counts if a source has the same number with another unit or magnitude.

    Args:
        index: The index of the sources.
        sentence: The sentence of the response.
        mention: The value or name in this sentence.
    """
    if mention.is_name:
        return all(key in index for key in mention.keys)
    if any(key in index for key in mention.keys):
        return True
    if mention.kind == "ordinal":  # a table may have 22 in a column of ranks
        return f"n:{mention.keys[0].partition(':')[2]}" in index
    if not (mention.keys[0].startswith("n:") or mention.kind == "money"):
        return False
    digits = re.findall(r"[0-9]+(?:[.,][0-9]+)+|[0-9]{3,}", quantities.fold(mention.span.of(sentence.text)))
    return any(index.has_number(number) for number in digits)


def counterparts(
    index: SentenceIndex, words: Sequence[WeightedWord], sentence: Sentence, mention: Mention
) -> Iterator[Counterpart]:
    """Yield the values or names in the sources that may stand in the place of a value or name of the response.

    They are of the same kind, such as dates, and come from the source sentences that share most words with the response
    around `mention`, the most similar sentence first. A value or name that also occurs elsewhere in the response's
    sentence is skipped.

    Args:
        index: The index of the sources.
        words: The words of the response's sentence with their weights, from `SentenceIndex.weighted`.
        sentence: The sentence of the response.
        mention: The value or name in this sentence.
    """
    near = [w.scaled(0.5 + 1 / (1 + d / 4)) for w in words if (d := mention.distance(w.token_i)) > 0]
    inside = range(mention.first, mention.last + 1)
    stated_elsewhere = {key for key, places in sentence.positions.items() if any(i not in inside for i in places)}
    bias, weights = _BIAS[_family(mention)], _WEIGHTS[_family(mention)]
    best: float | None = None
    for rank, (sentence_i, score) in enumerate(index.closest(near, _SENTENCES)):
        source = index.sentences[sentence_i]
        if best is None and any(option.kind == mention.kind for option in source.mentions):
            best = score
        for option in source.mentions:
            if option.kind != mention.kind or not option.keys:
                continue
            same_name = sentence.form(mention.first - 1) == source.form(option.first - 1)
            if not same_name and (in_name(sentence, mention) or in_name(source, option)):
                continue
            if option.is_name and (option.keys[-1] in stated_elsewhere or stated_elsewhere.issuperset(option.keys)):
                continue
            if not option.is_name and not stated_elsewhere.isdisjoint(option.keys):
                continue
            features = likeness(words, sentence, mention, source, option)._replace(rank=1 / (1 + rank))
            z = bias + sum(w * x for w, x in zip(weights, features, strict=True))
            yield Counterpart(sentence_i, option, features, 1 / (1 + exp(-z)), score == best)


def other_answer(wrong: Mention, options: Iterable[Mention], asked: Sequence[Mention]) -> Mention | None:
    """Find the value or name in a passage that could answer a question in place of a wrong answer.

    Candidates are of the same kind as the wrong answer and are not in the question. Return None if there is no
    candidate, or if there are several different ones.

    Args:
        wrong: The wrong answer.
        options: The values and names of the passage.
        asked: The values and names of the question.
    """
    fitting = [
        option
        for option in options
        if (option.kind == wrong.kind or {option.kind, wrong.kind} == {"year", "number"})
        and not any(option.same(other) for other in (wrong, *asked))
    ]
    return fitting[0] if fitting and all(fitting[0].same(option) for option in fitting) else None


def in_name(sentence: Sentence, number: Mention) -> bool:
    """Check whether a number is part of a name such as "Agent 47".

    The number must directly follow a capitalised word that is not the first word of the sentence.
    """
    if number.kind != "number" or number.first < 2:
        return False
    before = sentence.tokens[number.first - 1].span
    return before.of(sentence.text).istitle() and sentence.text[before.end : number.span.start] == " "


def _family(mention: Mention) -> str:
    return "name" if mention.is_name else "value"


def likeness(
    words: Sequence[WeightedWord], sentence: Sentence, mention: Mention, source: Sentence, option: Mention
) -> ContextSimilarity:
    """Compare the context of a value or name of the response with the context of one in a source sentence.

    The field `rank` of the result is always 0, because the rank depends on the other source sentences.

    Args:
        words: The words of the response's sentence with their weights.
        sentence: The sentence of the response.
        mention: The value or name in this sentence.
        source: The source sentence.
        option: The value or name in the source sentence.
    """
    shared = near = total = nearby = 0.0
    for word in words:
        distance = mention.distance(word.token_i)
        if distance <= 0:
            continue
        total += word.weight
        nearby += word.weight / (1 + distance / 2)
        if word.key is None or word.key not in source.positions:
            continue
        shared += word.weight
        distances = [d for i in source.positions[word.key] if (d := option.distance(i)) > 0]
        if distances:
            near += word.weight / (1 + max(distance, min(distances)) / 2)
    ours = (sentence.form(mention.first - 1), sentence.form(mention.last + 1))
    theirs = (source.form(option.first - 1), source.form(option.last + 1))
    return ContextSimilarity(
        closeness=shared / (total or 1.0),
        context=near / (nearby or 1.0),
        before=float(ours[0] == theirs[0]),
        after=float(ours[1] == theirs[1] or quantities.keys(ours[1]) == quantities.keys(theirs[1]) != ()),
        content_before=float(_content(sentence, mention.first, -1) == _content(source, option.first, -1) != ()),
        content_after=float(_content(sentence, mention.last, 1) == _content(source, option.last, 1) != ()),
        preposition=float(_preposition(sentence, mention) == _preposition(source, option)),
        form=float(_written(sentence, mention) == _written(source, option)),
        rank=0.0,
        agreement=float(not mention.parts.isdisjoint(option.parts)),
    )


def _content(sentence: Sentence, token_i: int, step: int) -> tuple[str, ...]:
    """Return the keys of the next content word within four tokens, or () if there is none.

    If the sentence ends first, return ("",).
    """
    for i in range(token_i + step, token_i + 5 * step, step):
        form = sentence.form(i)
        if not form:
            return ("",)
        keys = quantities.keys(form)
        if keys:
            return keys
    return ()


_PLACE = frozenset(
    {"in", "at", "on", "near", "outside", "inside", "from", "through", "across", "around", "into", "towards"}
)
_OTHER = frozenset({"by", "of", "with", "for", "against", "than", "over", "under"})
_BETWEEN = frozenset({"the", "a", "an", "his", "her", "its", "their", "about", "just", "nearly", "almost", "only"})


def _preposition(sentence: Sentence, mention: Mention) -> str:
    """Return the preposition before a mention: "in" for every preposition of place, "" if there is none."""
    for i in range(mention.first - 1, mention.first - 4, -1):
        form = sentence.form(i)
        if form in _PLACE or form in _OTHER:
            return "in" if form in _PLACE else form
        if form not in _BETWEEN:
            break
    return ""


def _written(sentence: Sentence, mention: Mention) -> tuple[object, ...]:
    """Describe the surface form of a mention.

    For a name, return whether it is one word and whether it is in capitals. For a value, return whether it begins with
    a digit, and the number of its words.
    """
    words = mention.span.of(sentence.text)
    if mention.is_name:
        return mention.first == mention.last, words.isupper()
    return words[:1].isdigit(), len(re.findall(r"[^\W_]+", words))


# ------------------------------------------------------------------------------------------ bounds and rounding

_MORE = frozenset({"over", "above", "exceeding", "after"})
_LESS = frozenset({"under", "below", "before"})
_ABOUT = frozenset({"about", "around", "approximately", "roughly", "nearly", "almost", "circa", "some"})
_MORE_THAN = frozenset({"more", "higher", "greater", "larger", "bigger", "later", "longer", "older", "better"})
_LESS_THAN = frozenset({"less", "fewer", "lower", "smaller", "earlier", "shorter", "younger", "worse"})
_NEARLY = Fraction(1, 10)


def bound(sentence: Sentence, mention: Mention) -> str:
    """Return how a value is qualified by the words around it.

    The result is ">" ("more than 50"), "<" ("up to 50"), "~" ("about 50"), or "" if the value is not qualified.

    >>> from veridical.text.mentions import SentenceIndex
    >>> (one,) = SentenceIndex(["At least 50 came, in under 9 minutes, for 4 days or more."]).sentences
    >>> [bound(one, mention) for mention in one.mentions]
    ['>', '<', '>']
    """
    before, earlier = sentence.form(mention.first - 1), sentence.form(mention.first - 2)
    after, last = sentence.form(mention.last + 1), sentence.form(mention.last + 2)
    if after == "or" and last in _MORE | _MORE_THAN | _LESS | _LESS_THAN:
        return ">" if last in _MORE | _MORE_THAN else "<"
    if before in _MORE or (before == "than" and earlier in _MORE_THAN) or (before, earlier) == ("least", "at"):
        return ">"
    if before in _LESS or (before == "than" and earlier in _LESS_THAN):
        return "<"
    if (before, earlier) in (("most", "at"), ("to", "up")) or (before == "by" and mention.kind in ("date", "year")):
        return "<"
    return "~" if before in _ABOUT else ""


def agrees(mention: Mention, bound: str, option: Mention) -> bool:
    """Check whether a source's value lies within the bound of the response's value, or rounds to that value.

    For example, 60 lies within the bound of "more than 50", and 1,234,567 rounds to "1.2 million". If the response's
    value has a bound and the two values cannot be compared, they are assumed to agree. Names never agree.

    Args:
        mention: The value of the response.
        bound: How the response qualifies this value, from the function `bound`: ">", "<", "~" (about), or "".
        option: The value of the source.
    """
    if mention.is_name:
        return False
    amount, source_amount = _amount(mention), _amount(option)
    if amount is None or source_amount is None or amount[0] != source_amount[0] or len(amount) != len(source_amount):
        return bool(bound)
    if bound in (">", "<"):
        return source_amount >= amount if bound == ">" else source_amount <= amount
    if len(amount) != 2 or mention.kind in ("year", "age", "ordinal", "month", "weekday"):
        return False
    if bound:
        return abs(amount[1] - source_amount[1]) <= _NEARLY * abs(source_amount[1])
    step = _step(amount[1])
    return abs(amount[1]) >= 10 * step > 10 * _step(source_amount[1]) and abs(amount[1] - source_amount[1]) <= step / 2


def _amount(value: Mention) -> tuple[str, Fraction] | tuple[str, Fraction, Fraction, Fraction] | None:
    """Split a value into what it measures and its amount, so that values can be ordered.

    A date is split into "d", its year, month and day. Return None if the value cannot be ordered.
    """
    family, _, amount = value.keys[0].rpartition(":")
    if family == "n" or family.startswith("q:"):
        return family, Fraction(amount)
    parts = [Fraction(part) for part in amount.split("-")] if family == "d" else []
    return ("d", parts[0], parts[1], parts[2]) if len(parts) == 3 else None


def _step(amount: Fraction) -> Fraction:
    """Return the largest power of ten that divides an amount (100,000 for 1.2 million), or 0 if there is none."""
    powers = (Fraction(10) ** exponent for exponent in range(15, -7, -1))
    return next((power for power in powers if amount and (amount / power).denominator == 1), Fraction(0))


# ---------------------------------------------------------------------------------------------- what to replace


def replacement(sentence: Sentence, mention: Mention, source: Sentence, option: Mention) -> tuple[Span, str]:
    """Return the edit that corrects a value or name of the response: the span to replace, and the new text.

    Only what differs is replaced. Words with which both names begin or end are kept. If only the number or only the
    unit of a quantity differs, or only one part of a date, then only that part is replaced.

    Args:
        sentence: The sentence of the response.
        mention: The wrong value or name in this sentence.
        source: The source sentence.
        option: The right value or name in the source sentence.
    """
    old, new = mention.span.of(sentence.text), option.span.of(source.text)
    number_start, unit = quantities.keyed(new)
    no_currency = number_start > 0 and not unit
    new = quantities.in_sentence(new)
    if mention.is_name:
        ours = sentence.tokens[mention.first : mention.last + 1]
        theirs = source.tokens[option.first : option.last + 1]
        while len(theirs) > 1 and theirs[0].form == sentence.form(mention.first - 1):  # "Mark" of "Mark Stern"
            theirs = theirs[1:]
        most = min(len(ours), len(theirs)) - 1
        head = sum(1 for _ in takewhile(lambda i: ours[i].form == theirs[i].form, range(most)))
        tail = sum(1 for _ in takewhile(lambda i: ours[-1 - i].form == theirs[-1 - i].form, range(most - head)))
        last, other_last = ours[len(ours) - tail - 1], theirs[len(theirs) - tail - 1]
        return Span(ours[head].span.start, last.span.end), source.text[theirs[head].span.start : other_last.span.end]
    if mention.kind in ("number", "ordinal", "duration") and mention.first > 0:
        new = new[0].lower() + new[1:]  # it may have opened its sentence ("Fourteen")
    split = _date_parts if mention.kind == "date" else _amount_parts
    parts, others = split(old), split(new)
    differing = [name for name in parts if name in others and not _same_part(parts[name].of(old), others[name].of(new))]
    if parts.keys() == others.keys() and len(differing) == 1:
        (name,) = differing
        return parts[name].shift(mention.span.start), others[name].of(new)
    number, other = _number(old), _number(new)
    size = _unit_size(mention, number, old) if number and other else None
    if (
        number
        and other
        and (mention.kind == "age" or no_currency or (size is not None and size == _unit_size(option, other, new)))
    ):
        return number.shift(mention.span.start), other.of(new)
    return mention.span, new


def _same_part(one: str, other: str) -> bool:
    """Check whether two spellings of a part of a value mean the same."""
    return one == other or quantities.keys(quantities.fold(one)) == quantities.keys(quantities.fold(other)) != ()


def full_name(index: SentenceIndex, sentence_i: int, option: Mention) -> tuple[Sentence, Mention]:
    """Find the full name for a one-word name in the same source ("Anna Berg" for "Berg"), and the sentence with it.

    If the source has no full name, or several, return the original sentence and name.
    """
    source = index.sentences[sentence_i]
    if not option.is_name or option.first < option.last:
        return source, option
    longer: dict[tuple[str, ...], tuple[Sentence, Mention]] = {}
    for i in index.with_key(option.keys[0]):
        for mention in index.sentences[i].mentions if index.sentences[i].text_i == source.text_i else ():
            whole = 1 < len(mention.keys) == mention.last - mention.first + 1  # no "Governor of Kentucky"
            if mention.kind == "name" and whole and mention.keys[-1] == option.keys[0]:
                longer.setdefault(mention.keys, (index.sentences[i], mention))
    return next(iter(longer.values())) if len(longer) == 1 else (source, option)


def _date_parts(date: str) -> dict[str, Span]:
    """Find the spans of day, month and year in a date. A repeated part gets a number after its name."""
    parts: dict[str, Span] = {}
    for match in re.finditer(r"[0-9]+|[^\W\d_]{3,}", date):
        name = "month" if match[0].isalpha() else "year" if len(match[0]) == 4 else "day"
        parts[f"{name}{len(parts)}" if name in parts else name] = Span(*match.span())
    return parts


def _amount_parts(amount: str) -> dict[str, Span]:
    """Find the spans of the numbers, words and signs in an amount, in order."""
    return {str(i): Span(*match.span()) for i, match in enumerate(re.finditer(_PART, amount))}


_PART = r"[0-9]+(?:[.,][0-9]+)*|[^\W\d_]+|[^\w\s.,\u2010-\u2015-]"
_NUMBER = re.compile(rf"(?<![0-9])(?<![0-9][.,:/'’]){quantities.NUMBER}")


def _number(amount: str) -> Span | None:
    """Find the span of the number in an amount, or None if there is no number, or several."""
    numbers = [Span(*match.span()) for match in _NUMBER.finditer(quantities.fold(amount))]
    return numbers[0] if len(numbers) == 1 else None


def _unit_size(mention: Mention, number: Span, amount: str) -> tuple[str, Fraction] | None:
    """Return what an amount measures and the size of its unit: the same for "93%" and "13 percent"."""
    family, _, value = mention.keys[0].rpartition(":")
    count = next((key for key in quantities.keys(quantities.fold(number.of(amount))) if key.startswith("n:")), "n:0")
    if count == "n:0" or not (family == "n" or family.startswith("q:")):
        return None
    return family, Fraction(value) / Fraction(count[2:])
