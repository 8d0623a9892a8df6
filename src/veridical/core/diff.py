"""Align the equal items of two sequences: a longest common subsequence, found by RapidFuzz."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from rapidfuzz.distance import Indel

__all__ = ["matches"]

MAX_CELLS = 2**32  # pairs of items to compare: half a gigabyte at one bit each


def matches(before: Sequence[Hashable], after: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Return as many index pairs of equal items as possible, ascending in both sequences.

    The common beginning and end are always aligned. The middle is left unaligned if its two parts form more than
    `MAX_CELLS` pairs of items.

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
