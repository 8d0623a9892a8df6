"""Whether a source says something else in a place of a response: another value or name, an opposite, a negation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from veridical.core.edits import apply
from veridical.core.spans import Span
from veridical.core.types import Edit
from veridical.core.vocabulary import ANTONYM_PAIRS, SIMILAR
from veridical.detectors.explanation.counterpart import (
    MentionComparison,
    bound,
    compare_mention,
    full_name,
    likeness,
    replacement,
    stated,
)
from veridical.detectors.explanation.sentence import Mention, Sentence, Token
from veridical.detectors.explanation.sentence_index import SentenceIndex, WeightedWord

__all__ = ["Contradiction", "Place", "compared", "find_contradiction", "says_similar"]

_ENOUGH = 0.5  # of the words around a place a source sentence has, if it says the same but for one word
_LEAST_CONTEXT = 0.25
_SHORT = 4  # words of a place that is a negation, or what one is about
_NEGATIONS = frozenset({"not", "no", "never", "neither", "nor", "none", "nobody", "nothing", "without", "cannot"})
_OPPOSITES: defaultdict[str, set[str]] = defaultdict(set)
for _one, _other in ANTONYM_PAIRS:
    _OPPOSITES[_one].add(_other)
    _OPPOSITES[_other].add(_one)


@dataclass(frozen=True, slots=True)
class Place:
    """Flagged words of one sentence of a response that are explained as one.

    Attributes:
        sentence: The sentence.
        span: From the first to the last of them.
        whole: Whether the sentence as such is flagged, not words of it.
        words: All words of the sentence, weighted by the sources.
    """

    sentence: Sentence
    span: Span
    whole: bool
    words: Sequence[WeightedWord]

    @property
    def tokens(self) -> range:
        """The numbers of the tokens inside."""
        inside = [i for i, token in enumerate(self.sentence.tokens) if token.span.overlaps(self.span)]
        return range(inside[0], inside[-1] + 1) if inside else range(0)


@dataclass(frozen=True, slots=True)
class Contradiction:
    """What the sources say instead.

    Attributes:
        sentences: The numbers of the source sentences that say so.
        reason: That in words.
        correction: What should stand for the characters of the place; None where not all of it is known.
    """

    sentences: tuple[int, ...]
    reason: str
    correction: str | None = None


@dataclass(frozen=True, slots=True)
class _Difference:
    """One thing that source sentence `sentence_i` says otherwise than some tokens of the place."""

    sentence_i: int
    reason: str
    tokens: range
    edit: Edit | None = None


def find_contradiction(
    sources: SentenceIndex, place: Place, values: Sequence[tuple[Mention, MentionComparison]], closest: Sequence[int]
) -> Contradiction | None:
    """What a source says instead in a place of a response; None where that cannot be determined.

    Args:
        sources: The sources.
        place: The place.
        values: Its values and names, compared (`compared`).
        closest: The numbers of the source sentences closest to it, best first.
    """
    differences = list(_other_values(sources, place, values))
    mentioned = {i for mention, _ in values for i in range(mention.first, mention.last + 1)}
    plain = [i for i in place.tokens if i not in mentioned]
    differences += _opposites(sources, place, plain, closest)
    differences = differences or _negations(sources, place, closest)
    if not differences:
        return None
    cited = tuple(dict.fromkeys(difference.sentence_i for difference in differences))
    reason = "; ".join(dict.fromkeys(difference.reason for difference in differences))
    edits = sorted((d.edit for d in differences if d.edit is not None), key=lambda edit: edit.span)
    if len(edits) < len(differences) or not all(place.span.contains(edit.span) for edit in edits):
        return Contradiction(cited, reason)
    known = {i for difference in differences for i in difference.tokens}
    known |= {i for mention, there in values if there.supported for i in range(mention.first, mention.last + 1)}
    keys = frozenset().union(*(sources.keys[i] for i in (*cited, *closest[:2])))
    unknown = any(w.token_i in place.tokens and w.token_i not in known and w.key not in keys for w in place.words)
    negated = bool(_negating(place.sentence))
    if unknown or (place.whole and any(bool(_negating(sources.sentences[i])) != negated for i in cited)):
        return Contradiction(cited, reason)
    edits = [replace(edit, span=edit.span.shift(-place.span.start)) for edit in edits]
    return Contradiction(cited, reason, apply(place.span.of(place.sentence.text), edits))


def compared(sources: SentenceIndex, place: Place) -> list[tuple[Mention, MentionComparison]]:
    """The values and names in a place, compared with those of the sources.

    A date of which only a part is flagged, and that has no counterpart, is compared by year and month.
    """
    pairs: list[tuple[Mention, MentionComparison]] = []
    by_parts: dict[int, bool] = {}  # for each token that is a date
    for mention in place.sentence.mentions:
        if not mention.span.overlaps(place.span) or not by_parts.get(mention.first, True):
            continue
        comparison = compare_mention(sources, place.words, place.sentence, mention)
        if mention.kind == "date":
            unknown = comparison.counterpart is None and not comparison.supported
            by_parts[mention.first] = unknown and not place.span.contains(mention.span)
        if not by_parts.get(mention.first, False) or mention.kind != "date":
            pairs.append((mention, comparison))
    return pairs


def _other_values(
    sources: SentenceIndex, place: Place, values: Sequence[tuple[Mention, MentionComparison]]
) -> Iterator[_Difference]:
    for mention, comparison in values:
        counterpart = comparison.counterpart
        # what a source has is not called missing, and the value has to stand in the sentence that is closest
        if counterpart is None or not counterpart.closest or stated(sources, place.sentence, mention):
            continue
        source = sources.sentences[counterpart.sentence_i]
        option = counterpart.mention
        if mention.first < mention.last:
            source, option = full_name(sources, counterpart.sentence_i, option)
        there, here = option.span.of(source.text), mention.span.of(place.sentence.text)
        edit: Edit | None = Edit(*replacement(place.sentence, mention, source, option), "")
        if bound(place.sentence, mention) not in ("", bound(source, option)):
            edit = None  # "more than 50" is wrong of 41, and "more than 41" is wrong, too
        tokens = range(mention.first, mention.last + 1)
        yield _Difference(counterpart.sentence_i, f"the source has {there}, not {here}", tokens, edit)


def _opposites(
    sources: SentenceIndex, place: Place, tokens: Sequence[int], closest: Sequence[int]
) -> Iterator[_Difference]:
    """Those of some words of which a close source sentence has the opposite, and much the same around it."""
    ours = place.sentence
    forms = {token.form for token in ours.tokens}
    for i in tokens:
        token = ours.tokens[i]
        for n in closest if token.form in _OPPOSITES else ():
            theirs = sources.sentences[n]
            there = [k for k, other in enumerate(theirs.tokens) if other.form in _OPPOSITES[token.form]]
            known = any(key in theirs.positions for key in token.keys) or says_similar(token, theirs)
            if len(there) != 1 or known or theirs.form(there[0]) in forms:
                continue
            other = theirs.tokens[there[0]]
            mention, option = Mention("word", token.span, i, i, ()), Mention("word", other.span, there[0], there[0], ())
            alike = likeness(place.words, ours, mention, theirs, option)
            if alike.closeness >= _ENOUGH and alike.context >= _LEAST_CONTEXT:
                old, new = token.span.of(ours.text), other.span.of(theirs.text)
                reason = f"the source has “{new}”, not “{old}”"
                new = f"{new[0].upper()}{new[1:]}" if old[0].isupper() else new
                yield _Difference(n, reason, range(i, i + 1), Edit(token.span, new, ""))
                break


def says_similar(token: Token, sentence: Sentence) -> bool:
    """Whether a sentence has another word that may say the same as a word of another text ("rose", "increased")."""
    return any(other.form in SIMILAR.get(token.form, ()) for other in sentence.tokens)


def _negations(sources: SentenceIndex, place: Place, closest: Sequence[int]) -> list[_Difference]:
    """Whether only one of the place and the closest source sentence negates what both say."""
    inside, sentence = place.tokens, place.sentence
    outside = [word for word in place.words if place.whole or word.token_i not in inside]
    if not closest or not outside or (len(inside) > _SHORT and not place.whole):
        return []
    source = sources.sentences[closest[0]]
    ours, theirs = _negating(sentence), _negating(source)
    if sources.share(closest[0], outside) < _ENOUGH or bool(ours) == bool(theirs):
        return []
    for i in ours:
        following = _following(sentence, i)
        if i in inside and following is not None and any(key in source.positions for key in following.keys):
            written = Span(sentence.tokens[i - (sentence.form(i) == "t")].span.start, sentence.tokens[i].span.end)
            reason = f"the source says it without “{written.of(sentence.text)}”"
            return [_Difference(closest[0], reason, inside)]
    near = {key for token in sentence.tokens[max(0, inside.start - 1) : inside.stop + 2] for key in token.keys}
    for i in theirs:
        following = _following(source, i)
        if following is not None and not near.isdisjoint(following.keys):
            written = Span(source.tokens[i - (source.form(i) == "t")].span.start, following.span.end)
            return [_Difference(closest[0], f"the source has “{written.of(source.text)}”", inside)]
    return []


def _negating(sentence: Sentence) -> list[int]:
    """The numbers of the tokens that negate something; of "isn't" it is the "t"."""
    return [
        i
        for i, token in enumerate(sentence.tokens)
        if token.form in _NEGATIONS or (token.form == "t" and sentence.form(i - 1).endswith("n"))
    ]


def _following(sentence: Sentence, i: int) -> Token | None:
    """The next content word after token `i`, if it is near."""
    return next((token for token in sentence.tokens[i + 1 : i + 4] if token.keys), None)
