"""Find contradictions between flagged words and a source: another value or name, an opposite, a negation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace

from veridical.records.edits import apply
from veridical.records.spans import Span
from veridical.records.types import Edit
from veridical.text.counterparts import (
    MentionComparison,
    bound,
    compare_mention,
    full_name,
    likeness,
    replacement,
    stated,
)
from veridical.text.mentions import Mention, Sentence, SentenceIndex, Token, WeightedWord
from veridical.text.quantities import in_sentence
from veridical.text.vocabulary import ANTONYM_PAIRS, NEGATIONS, SIMILAR

# least proportion of the words around flagged words that a source sentence has if it says the same but for one word
_ENOUGH = 0.5
_LEAST_CONTEXT = 0.25
_SHORT = 4  # most flagged words that are a negation or its subject
_OPPOSITES: defaultdict[str, set[str]] = defaultdict(set)
for _one, _other in ANTONYM_PAIRS:
    _OPPOSITES[_one].add(_other)
    _OPPOSITES[_other].add(_one)


@dataclass(frozen=True, slots=True)
class FlaggedWords:
    """Flagged words of one sentence of the response that share one explanation.

    Attributes:
        sentence: The sentence with the flagged words.
        span: The characters from the first to the last flagged word.
        whole: If true, most of the sentence is flagged, so the sentence is explained as one. If false, only these words
            are.
        words: All words of the sentence, weighted by how rare they are in the sources.
    """

    sentence: Sentence
    span: Span
    whole: bool
    words: Sequence[WeightedWord]

    @property
    def tokens(self) -> range:
        """The indices of the tokens from the first to the last flagged word."""
        return self.sentence.inside(self.span)


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A statement in the sources that contradicts some words of the response.

    Attributes:
        sentences: The indices of the source sentences that make the statement (in `SentenceIndex.sentences`).
        reason: A phrase for the user that says how they contradict the words, such as "the source has 1893, not 1983".
        correction: The text that should replace the flagged words. None if some of it cannot be determined.
        kind: The kind of error, such as "value" or "name". None if it is another kind, or if there are several.
    """

    sentences: tuple[int, ...]
    reason: str
    correction: str | None = None
    kind: str | None = None


@dataclass(frozen=True, slots=True)
class _Difference:
    """One way in which source sentence `sentence_i` contradicts some of the flagged tokens."""

    sentence_i: int
    reason: str
    tokens: range
    edit: Edit | None = None
    kind: str | None = None


def find_contradiction(
    sources: SentenceIndex,
    flagged: FlaggedWords,
    values: Sequence[tuple[Mention, MentionComparison]],
    closest: Sequence[int],
) -> Contradiction | None:
    """Find a statement of the sources that contradicts flagged words of a response, or return None if none is clear.

    A statement contradicts the words if it has another value or name in their place, if it has the opposite word, or if
    only one of the two has a negation.

    Args:
        sources: The index of the sources.
        flagged: The flagged words.
        values: The values and names in the flagged words, each with the result of comparing it with the sources
            (`compared`).
        closest: The indices of the source sentences closest to the flagged words, best first.
    """
    differences = list(_other_values(sources, flagged, values))
    value_tokens = {i for mention, _ in values for i in range(mention.first, mention.last + 1)}
    other_tokens = [i for i in flagged.tokens if i not in value_tokens]
    differences += _opposites(sources, flagged, other_tokens, closest)
    differences = differences or _negations(sources, flagged, closest)
    if not differences:
        return None
    cited = tuple(dict.fromkeys(difference.sentence_i for difference in differences))
    reason = "; ".join(dict.fromkeys(difference.reason for difference in differences))
    kinds = {difference.kind for difference in differences}
    kind = kinds.pop() if len(kinds) == 1 else None
    edits = sorted((d.edit for d in differences if d.edit is not None), key=lambda edit: edit.span)
    if len(edits) < len(differences) or not all(flagged.span.contains(edit.span) for edit in edits):
        return Contradiction(cited, reason, kind=kind)
    # a correction is possible only if every flagged word is supported or corrected
    settled = {i for difference in differences for i in difference.tokens}
    settled |= {
        i for mention, comparison in values if comparison.supported for i in range(mention.first, mention.last + 1)
    }
    keys = frozenset().union(*(sources.keys[i] for i in (*cited, *closest[:2])))
    unknown = any(w.token_i in flagged.tokens and w.token_i not in settled and w.key not in keys for w in flagged.words)
    negated = bool(negating(flagged.sentence))
    if unknown or (flagged.whole and any(bool(negating(sources.sentences[i])) != negated for i in cited)):
        return Contradiction(cited, reason, kind=kind)
    edits = [replace(edit, span=edit.span.shift(-flagged.span.start)) for edit in edits]
    return Contradiction(cited, reason, apply(flagged.span.of(flagged.sentence.text), edits), kind)


def compared(sources: SentenceIndex, flagged: FlaggedWords) -> list[tuple[Mention, MentionComparison]]:
    """Compare each value and name in flagged words with the sources, and return it with the result of the comparison.

    The result says whether a source has the same value or name, or which other one a source has in its place. If only
    part of a date is flagged and no source has a date in its place, the year and month are compared separately.
    """
    pairs: list[tuple[Mention, MentionComparison]] = []
    by_parts: dict[int, bool] = {}  # for each date's token: whether to compare its year and month instead
    for mention in flagged.sentence.mentions:
        if not mention.span.overlaps(flagged.span) or not by_parts.get(mention.first, True):
            continue
        comparison = compare_mention(sources, flagged.words, flagged.sentence, mention)
        if mention.kind == "date":
            unknown = comparison.counterpart is None and not comparison.supported
            by_parts[mention.first] = unknown and not flagged.span.contains(mention.span)
        if not by_parts.get(mention.first, False) or mention.kind != "date":
            pairs.append((mention, comparison))
    return pairs


def _other_values(
    sources: SentenceIndex, flagged: FlaggedWords, values: Sequence[tuple[Mention, MentionComparison]]
) -> Iterator[_Difference]:
    """Yield the values and names that no source has, if the closest source sentence has another one in their place."""
    for mention, comparison in values:
        counterpart = comparison.counterpart
        if counterpart is None or not counterpart.closest or stated(sources, flagged.sentence, mention):
            continue
        source = sources.sentences[counterpart.sentence_i]
        option = counterpart.mention
        if mention.first < mention.last:
            source, option = full_name(sources, counterpart.sentence_i, option)
        new, old = in_sentence(option.span.of(source.text)), mention.span.of(flagged.sentence.text)
        edit: Edit | None = Edit(*replacement(flagged.sentence, mention, source, option), "")
        if bound(flagged.sentence, mention) not in ("", bound(source, option)):
            edit = None  # if the source has 41, "more than 50" is wrong, but so would be "more than 41"
        tokens = range(mention.first, mention.last + 1)
        yield _Difference(
            counterpart.sentence_i, f"the source has {new}, not {old}", tokens, edit, _kind(mention, option)
        )


TIMES = frozenset({"year", "date", "month", "weekday", "time", "decade"})
"""The kinds of mentions that are dates or times."""


def _kind(mention: Mention, option: Mention) -> str:
    """Return the kind of error if the response has `mention` where the source has `option`."""
    if mention.is_name:
        return "name"
    same_number = any(part.startswith("n:") for part in mention.parts & option.parts)
    return "time" if mention.kind in TIMES else "unit" if same_number else "value"


def _opposites(
    sources: SentenceIndex, flagged: FlaggedWords, tokens: Sequence[int], closest: Sequence[int]
) -> Iterator[_Difference]:
    """Yield the tokens whose opposite stands between similar words in a close source sentence."""
    sentence = flagged.sentence
    forms = {token.form for token in sentence.tokens}
    for i in tokens:
        token = sentence.tokens[i]
        for n in closest if opposites(token.form) else ():
            source = sources.sentences[n]
            found = [k for k, other in enumerate(source.tokens) if other.form in opposites(token.form)]
            supported = any(key in source.positions for key in token.keys) or says_similar(token, source)
            if len(found) != 1 or supported or source.form(found[0]) in forms:
                continue
            (k,) = found
            other = source.tokens[k]
            mention, option = Mention("word", token.span, i, i, ()), Mention("word", other.span, k, k, ())
            alike = likeness(flagged.words, sentence, mention, source, option)
            if alike.closeness >= _ENOUGH and alike.context >= _LEAST_CONTEXT:
                old, new = token.span.of(sentence.text), other.span.of(source.text)
                reason = f"the source has “{new}”, not “{old}”"
                new = f"{new[0].upper()}{new[1:]}" if old[0].isupper() else new
                yield _Difference(n, reason, range(i, i + 1), Edit(token.span, new, ""))
                break


def opposites(word: str) -> Set[str]:
    """Return the antonyms of a lower-case word from a fixed list, such as "fell" for "rose".

    The set is empty for a word that is not in the list.
    """
    return _OPPOSITES.get(word, set())


def says_similar(token: Token, sentence: Sentence) -> bool:
    """Check whether a sentence has a near-synonym of `token` from a fixed list, such as "increased" for "rose"."""
    return any(other.form in SIMILAR.get(token.form, ()) for other in sentence.tokens)


def _negations(sources: SentenceIndex, flagged: FlaggedWords, closest: Sequence[int]) -> list[_Difference]:
    """Return a difference if only the flagged sentence or only the closest source sentence negates what both say."""
    inside, sentence = flagged.tokens, flagged.sentence
    outside = [word for word in flagged.words if flagged.whole or word.token_i not in inside]
    if not closest or not outside or (len(inside) > _SHORT and not flagged.whole):
        return []
    source = sources.sentences[closest[0]]
    ours, theirs = negating(sentence), negating(source)
    if sources.proportion(closest[0], outside) < _ENOUGH or bool(ours) == bool(theirs):
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


def negating(sentence: Sentence) -> list[int]:
    """Return the indices of the tokens of a sentence that negate something, such as "not" or "never".

    In "isn't", this is the token "t".
    """
    return [
        i
        for i, token in enumerate(sentence.tokens)
        if token.form in NEGATIONS or (token.form == "t" and sentence.form(i - 1).endswith("n"))
    ]


def _following(sentence: Sentence, i: int) -> Token | None:
    """Return the next content word after token `i`, if it is among the next three tokens."""
    return next((token for token in sentence.tokens[i + 1 : i + 4] if token.keys), None)
