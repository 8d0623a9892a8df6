"""Find values and names that a source uses only in a statement about something else.

If Ann was born in 1950, "Ben was born in 1950" is an error, although the sources contain "1950".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from veridical.records.types import Case
from veridical.text.counterparts import compare_mention, stated
from veridical.text.mentions import Mention, Sentence, SentenceIndex, WeightedWord, index_of

_SENTENCES = 4  # source sentences to compare each mention with
_ALL, _FEWER = 0.95, 0.8  # proportions of the weight of the sentence's other words


def misplaced(case: Case) -> Iterator[Mention]:
    """Yield the values and names of the response that its sources use only in statements about something else.

    A value or name of a response sentence is yielded in two cases:

    * A source sentence has all other content words of the response sentence, but another value or name of the same
      kind. The source sentences with the yielded value or name lack some of these words.
    * The closest source sentence with a value of the same kind clearly has another one in its place
      (`compare_mention`). This case does not apply to names.

    >>> from veridical.records.types import Source
    >>> source = Source("a", "Ann was born in 1950. Ben was born in 1962.")
    >>> text = "Ben was born in 1950."
    >>> [mention.span.of(text) for mention in misplaced(Case("1", text, (source,)))]
    ['1950']
    """
    index = index_of(tuple(source.text for source in case.sources))
    for sentence in index_of((case.response,)).sentences if len(index.sentences) > 1 else ():
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
    matching = [i for i, _ in index.closest(others, _SENTENCES) if index.proportion(i, others) >= _ALL]
    if not matching or any(_has(index, i, sentence, mention) for i in matching):
        return False
    with_mention = {i for key in mention.keys for i in index.with_key(key) if _has(index, i, sentence, mention)}
    if any(index.proportion(i, others) > _FEWER for i in with_mention):
        return False
    sentence_keys = sentence.positions.keys()
    return any(
        option.kind == mention.kind and not set(option.keys) <= sentence_keys
        for i in matching
        for option in index.sentences[i].mentions
    )


def _has(index: SentenceIndex, i: int, sentence: Sentence, mention: Mention) -> bool:
    """Check whether source sentence `i` has the mention.

    The number of "120 patients" must not belong to another measure there ("120 days").
    """
    source = index.sentences[i]
    if mention.kind != "number" or not sentence.counts(mention.last):
        return not index.keys[i].isdisjoint(mention.keys)
    tokens = [source.tokens[k] for key in mention.keys for k in source.positions.get(key, ())]
    return any(not set(token.keys).isdisjoint(mention.keys) for token in tokens)
