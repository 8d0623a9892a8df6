"""Find symbols of a response that contradict the sources, such as "p > 0.05" where a source has "p < 0.05"."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from veridical.detectors.discrepancies.discrepancy import Discrepancy, passage
from veridical.detectors.explanation.kinds import SIGN
from veridical.records.spans import Span
from veridical.records.types import Case, Source
from veridical.text.segment import sentences
from veridical.text.signs import SignedText, contradicts, signed
from veridical.text.stopwords import STOP_WORDS

_SHORTEST = 2  # words of a sentence whose words a source has in the same order


@dataclass(frozen=True, slots=True)
class _Difference:
    """A place where two texts have different signs around the same words, with its span in each text."""

    ours: Span
    theirs: Span


def sign_discrepancies(case: Case) -> Iterator[Discrepancy]:
    """Yield symbols of the response that a source contradicts between the same words, such as ">" for "<".

    A source must have the words of the sentence in the same order, or at least the words beside the symbol, and no
    source may have the same symbols there. The source's symbol becomes the correction.

    >>> case = Case("1", "It was small (p > 0.05).", (Source("s", "An effect was found, p < 0.05."),))
    >>> [(each.span.of(case.response), each.reason) for each in sign_discrepancies(case)]
    [('>', 'the source has <, not >')]
    """
    for span in sentences(case.response):
        ours = signed(span.of(case.response))
        found = _of_sentence(ours, case.sources)
        for source, difference in _beside_words(ours, case.sources) if found is None else found:
            old, new = difference.ours.shift(span.start), difference.theirs.of(source.text)
            reason = f"the source has {new}, not {old.of(case.response)}"
            yield Discrepancy(old, SIGN, reason, new, passage(source, difference.theirs))


def _of_sentence(ours: SignedText, sources: Sequence[Source]) -> list[tuple[Source, _Difference]] | None:
    """Compare a sentence with the source passages that have the same words.

    Return the differences from the passage with the fewest differences, or None if no source has such a passage.
    """
    best: list[tuple[Source, _Difference]] | None = None
    has_signs = any(ours.gap(i).operator for i in range(len(ours.forms) + 1))
    for source in sources if len(ours.forms) >= (1 if has_signs else _SHORTEST) else ():
        theirs = signed(source.text)
        for first in theirs.occurrences(ours.forms):
            found = [(source, difference) for difference in sign_differences(ours, theirs, first)]
            if best is None or len(found) < len(best):
                best = found
            if not best:
                return []
    return best


def sign_differences(ours: SignedText, theirs: SignedText, first: int) -> Iterator[_Difference]:
    """Yield the symbols that differ between a sentence and a source passage with the same words.

    Each difference has the span of the symbol in the sentence and its span in the source.

    Args:
        ours: The sentence.
        theirs: The source.
        first: The index of the source word at which the passage begins.
    """
    for i in range(len(ours.forms)):
        if ours.word(i)[:1].isdigit():
            one, other = _units(ours, i), _units(theirs, first + i)
            if one and other and set(one) != set(other):
                yield _difference(ours, i, theirs, first + i, ("prefix", "unit_after"), ("unit_before",))
                continue
        yield from _differences(ours, i, theirs, first + i)
    yield from _differences(ours, len(ours.forms), theirs, first + len(ours.forms))


def has_more_units(ours: SignedText, theirs: SignedText, first: int) -> bool:
    """Check whether a sentence has a unit or currency that a source passage with the same words lacks ("$90" for "90").

    Args:
        ours: The sentence.
        theirs: The source.
        first: The index of the source word at which the passage begins.
    """
    return any(_units(ours, i) and not _units(theirs, first + i) for i in range(len(ours.forms)))


def _units(text: SignedText, i: int) -> str:
    return text.gap(i).unit_after + text.gap(i + 1).unit_before


def _differences(ours: SignedText, i: int, theirs: SignedText, k: int) -> Iterator[_Difference]:
    """Yield the contradictions between the signs before word `i` of one text and those before word `k` of another."""
    part = contradicts(ours.gap(i), theirs.gap(k), ours.word(i - 1), ours.word(i))
    if part == "operator":
        one, other = ours.signs(i, part), theirs.signs(k, part)
        if one is not None and other is not None:
            yield _Difference(one, other)
    elif part == "prefix":
        yield _difference(ours, i, theirs, k, ("prefix", "unit_after"), ("unit_before",))
    elif part == "suffix":
        yield _difference(ours, i - 1, theirs, k - 1, (), ("suffix",))


def _difference(
    ours: SignedText, i: int, theirs: SignedText, k: int, before: Sequence[str], after: Sequence[str]
) -> _Difference:
    spans = []
    for text, word in ((ours, i), (theirs, k)):
        signs = [text.signs(word, part) for part in before] + [text.signs(word + 1, part) for part in after]
        around = [text.span(word, word), *(span for span in signs if span is not None)]
        first, last = min(span.start for span in around), max(span.end for span in around)
        spans.append(Span(first, last))
    return _Difference(*spans)


def _beside_words(ours: SignedText, sources: Sequence[Source]) -> Iterator[tuple[Source, _Difference]]:
    """Find operators and suffixes in a sentence that a source contradicts beside the same words.

    Those that any source has beside these words are left out.
    """
    for i in range(1, len(ours.forms) + 1):
        gap = ours.gap(i)
        if gap.operator and i < len(ours.forms) and not STOP_WORDS.issuperset(ours.forms[i - 1 : i + 1]):
            yield from _of_gap(ours, i, ours.forms[i - 1 : i + 1], 1, sources, "operator")
        if gap.suffix and ours.word(i - 1)[:1].isupper():
            yield from _of_gap(ours, i, ours.forms[i - 1 : i], 1, sources, "suffix")


def _of_gap(
    ours: SignedText, i: int, forms: Sequence[str], before: int, sources: Sequence[Source], part: str
) -> Iterator[tuple[Source, _Difference]]:
    """Yield a difference in one part of gap `i`, which contains the signs before word `i`.

    A source must have other signs in this place, and no source may have the same signs.
    """
    found: tuple[Source, _Difference] | None = None
    for source in sources:
        theirs = signed(source.text)
        for first in theirs.occurrences(forms):
            one, other = getattr(ours.gap(i), part), getattr(theirs.gap(first + before), part)
            if one == other:
                return
            if other and theirs.word(first) == ours.word(i - 1) and found is None:
                difference = next(_differences(ours, i, theirs, first + before), None)
                found = None if difference is None else (source, difference)
    if found is not None:
        yield found
