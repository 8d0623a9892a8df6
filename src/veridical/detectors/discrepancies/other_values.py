"""Find values that no source has, if a source has the same sentence with another value: 964 m for 971 m."""

from __future__ import annotations

import re
from collections.abc import Iterator

from veridical.detectors.discrepancies.discrepancy import Discrepancy
from veridical.detectors.explanation.contradiction import TIMES
from veridical.records.types import Case, Evidence
from veridical.text.counterparts import Counterpart, compare_mention, replacement, stated
from veridical.text.mentions import Mention, Sentence, index_of
from veridical.text.vocabulary import NEGATED

_ALL = 0.95  # proportion of the weight of the sentence's other words
_LEAST_WORDS = 2  # content words besides the value
_DERIVED = re.compile(  # other values may follow from a source sentence with these
    r"\b(?:after|all|another|before|both|double|each|earlier|every|fewer|half|halves|later|less|more|other|per|quarters?|"
    r"remaind\w*|rest|thirds?|total\w*|triple|twice)\b",
    re.IGNORECASE,
)
_UNLIKE = frozenset({"range", "decade", "frequency", "ordinal", "code"})  # kinds that a source may state in other words


def other_values(case: Case) -> Iterator[Discrepancy]:
    """Yield each value of the response that no source has, if a source has the same sentence with another value.

    The source sentence must have all other content words of the response sentence, and the same words before and after
    the value. The source's value becomes the correction. A value is not reported if it is a rounded form of the
    source's value, if it is a limit that the source's value meets ("more than 900"), or if it may follow from the
    source sentence ("half of that").

    >>> from veridical.records.types import Source
    >>> case = Case("1", "The tower is 964 m tall.", (Source("s", "The tower in Rome is 971 m tall."),))
    >>> [(each.span.of(case.response), each.reason) for each in other_values(case)]
    [('964', 'the source has 971 m, not 964 m')]
    """
    index = index_of(tuple(source.text for source in case.sources))
    for sentence in index_of((case.response,)).sentences:
        words = index.weighted(sentence)
        for mention in sentence.mentions if not NEGATED.search(sentence.span.of(case.response)) else ():
            if not _is_clear(sentence, mention) or stated(index, sentence, mention):
                continue
            found = compare_mention(index, words, sentence, mention).counterpart
            if found is None or not _same_place(sentence, mention, found):
                continue
            source = index.sentences[found.sentence_i]
            others = [word for word in words if mention.distance(word.token_i) > 0]
            same = len(others) >= _LEAST_WORDS and index.proportion(found.sentence_i, others) >= _ALL
            if not same or _DERIVED.search(source.span.of(source.text)):
                continue
            old, other = mention.span.of(case.response), found.mention.span.of(source.text)
            if mention.keys[0].startswith("q:") and _unit(old) != _unit(other):
                continue  # a conversion is rounded
            reason = f"the source has {other}, not {old}"
            evidence = (Evidence(case.sources[source.text_i].id, source.span),)
            span, new = replacement(sentence, mention, source, found.mention)
            kind = "time" if mention.kind in TIMES else "value"
            yield Discrepancy(span, kind, reason, new, evidence, within=mention.span)


def _is_clear(sentence: Sentence, mention: Mention) -> bool:
    """Check whether a mention is a value without a minus sign, of a kind that texts rarely state in other words."""
    return not (mention.is_name or mention.kind in _UNLIKE or mention.span.of(sentence.text)[0] in "-−–")


def _same_place(sentence: Sentence, mention: Mention, found: Counterpart) -> bool:
    """Check whether two values stand between the same words.

    If `mention` ends its sentence, the words before the values are enough.
    """
    ends = not sentence.form(mention.last + 1)
    return bool(found.features.before and (found.features.after or (ends and found.features.content_before)))


def _unit(amount: str) -> str:
    return re.sub(r"[\d.,\s]", "", amount.casefold())
