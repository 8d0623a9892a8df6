"""Which items of two sequences correspond: a longest common subsequence, found by RapidFuzz."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from rapidfuzz.distance import Indel

__all__ = ["matches"]

MAX_CELLS = 2**32  # pairs of items that are compared at once: half a gigabyte, as one bit each


def matches(before: Sequence[Hashable], after: Sequence[Hashable]) -> list[tuple[int, int]]:
    """The pairs of indices of equal items, rising on both sides, as many as can be.

    What both sequences begin and end with always corresponds. Where the rest of both is so long that more than
    `MAX_CELLS` pairs of items would be compared, nothing of it does.

    >>> matches("a b c d".split(), "a x c c d".split())
    [(0, 0), (2, 3), (3, 4)]
    """
    numbers: dict[Hashable, int] = {}
    one, other = ([numbers.setdefault(item, len(numbers)) for item in items] for items in (before, after))
    shorter = min(len(one), len(other))
    head = next((i for i in range(shorter) if one[i] != other[i]), shorter)
    tail = next((i for i in range(shorter - head) if one[-1 - i] != other[-1 - i]), shorter - head)
    middle, other_middle = one[head : len(one) - tail], other[head : len(other) - tail]
    pairs = [(i, i) for i in range(head)]
    if len(middle) * len(other_middle) <= MAX_CELLS:
        for code in Indel.opcodes(middle, other_middle):
            if code.tag == "equal":
                start, other_start = head + code.src_start, head + code.dest_start
                pairs += [(start + k, other_start + k) for k in range(code.src_end - code.src_start)]
    return pairs + [(len(one) - k, len(other) - k) for k in range(tail, 0, -1)]
