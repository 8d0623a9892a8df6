"""Count the words that texts share (ROUGE-1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from veridical.text.matching import Profile


def clipped_overlap(words: Sequence[Profile], others: Sequence[Profile], compounds: Iterable[set[str]]) -> float:
    """Compute the proportion of the words of some texts that also occur in other texts (ROUGE-1 precision or recall).

    Counts are clipped: a word counts at most as often as it occurs in the other texts.

    Args:
        words: The texts whose words are counted.
        others: The texts in which the words are searched.
        compounds: For each pair of texts, the words that `others` write differently, such as "co-operate" for
            "cooperate" (`CompoundMatches`). They count as occurring in `others`.

    Returns:
        The proportion in [0, 1]. It is 0 if there are no words.
    """
    total = sum(profile.total for profile in words)
    if not total:
        return 0.0
    if words[0].normalization.exact:
        a, b = _pooled(words), _pooled(others)
        if len(a) > len(b):
            a, b = b, a
        return sum([count if count < b[key] else b[key] for key, count in a.items() if key in b]) / total
    other_spellings = set().union(*compounds)
    wanted: dict[str, int] = {}
    available: dict[str, int] = {}
    matched = 0
    keys = words[0].normalization.keys
    counts = [profile.counts for profile in others]
    for profile in words:
        for form, count in profile.types.items():
            for key in keys(form):
                occurrences = sum([c[key] for c in counts if key in c])
                if occurrences:
                    available[key] = occurrences
                    wanted[key] = wanted.get(key, 0) + count
                    break
            else:
                matched += count if form in other_spellings else 0
    return (matched + sum(min(count, available[key]) for key, count in wanted.items())) / total


def _pooled(profiles: Sequence[Profile]) -> dict[str, int]:
    if len(profiles) == 1:
        return profiles[0].counts
    pool: Counter[str] = Counter()
    for profile in profiles:
        pool.update(profile.counts)
    return pool
