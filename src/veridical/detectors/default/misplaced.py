"""Values and names that a source has, but not where it says what their sentence says ("born in 1950" of somebody else).

Compared by words with the closest source sentences, and given only where these leave little doubt.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from veridical.core.types import Case
from veridical.detectors.explanation.counterpart import compare_mention, stated
from veridical.detectors.explanation.sentence import Mention, Sentence
from veridical.detectors.explanation.sentence_index import SentenceIndex, WeightedWord, index_of

__all__ = ["misplaced"]

_SENTENCES = 4  # source sentences that are looked at for each mention
_ALL, _FEWER = 0.95, 0.8  # of the weight of the other words


def misplaced(case: Case) -> Iterator[Mention]:
    """The values and names of a response that its sources have, but not where they say what its sentence says.

    That is where a source sentence has all other content words of the sentence and another value or name of the kind,
    and each sentence that has the mention lacks some of them; and where another value clearly stands in the place of
    the mention (`compare_mention`). Else what the sources have anywhere decides.

    >>> from veridical.core.types import Source
    >>> source = Source("a", "Ann was born in 1950. Ben was born in 1962.")
    >>> text = "Ben was born in 1950."
    >>> [mention.span.of(text) for mention in misplaced(Case("1", text, (source,)))]
    ['1950']
    """
    index = index_of(tuple(source.text for source in case.sources))
    for sentence in SentenceIndex([case.response]).sentences if len(index.sentences) > 1 else ():
        words = index.weighted(sentence)
        for mention in sentence.mentions:
            if not stated(index, sentence, mention):
                continue
            counterpart = None if mention.is_name else compare_mention(index, words, sentence, mention).counterpart
            if (counterpart is not None and counterpart.closest) or _of_another(index, sentence, words, mention):
                yield mention


def _of_another(index: SentenceIndex, sentence: Sentence, words: Sequence[WeightedWord], mention: Mention) -> bool:
    others = [word for word in words if mention.distance(word.token_i) > 0]
    if len(others) < 2 or (mention.is_name and mention.first == 0):  # a pronoun may stand for the subject
        return False
    whole = [i for i, _ in index.closest(others, _SENTENCES) if index.share(i, others) >= _ALL]
    if not whole or any(_has(index, i, sentence, mention) for i in whole):
        return False
    there = {i for key in mention.keys for i in index.with_key(key) if _has(index, i, sentence, mention)}
    if any(index.share(i, others) > _FEWER for i in there):
        return False
    stated_here = sentence.positions.keys()
    return any(
        option.kind == mention.kind and not set(option.keys) <= stated_here
        for i in whole
        for option in index.sentences[i].mentions
    )


def _has(index: SentenceIndex, i: int, sentence: Sentence, mention: Mention) -> bool:
    """Whether a source sentence has a mention; of "120 patients" the number, with no other measure ("120 days")."""
    source = index.sentences[i]
    if mention.kind != "number" or not sentence.counts(mention.last):
        return not index.keys[i].isdisjoint(mention.keys)
    tokens = [source.tokens[k] for key in mention.keys for k in source.positions.get(key, ())]
    return any(not set(token.keys).isdisjoint(mention.keys) for token in tokens)
