"""Worked examples for a prompt: from a file, or drawn from labelled data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from veridical.core.errors import DataError, InputError
from veridical.core.segment import has_words
from veridical.core.types import GOLD_THRESHOLD, Example
from veridical.detectors.claims.llm_checker import Shot
from veridical.detectors.claims.source_chunks import document

__all__ = ["draw_shots", "read_shots"]


def read_shots(path: str | Path) -> tuple[Shot, ...]:
    """The worked examples of a JSON Lines file: {"document", "claim", "supported": true or false, "reasoning"}.

    Raises `DataError` with the line for anything else.
    """
    from veridical.datasets.reading import jsonl_rows

    shots = []
    for row in jsonl_rows(Path(path)):
        supported = row.get("supported")
        if not isinstance(supported, bool):
            raise DataError("'supported' is neither true nor false", path=row.path, line=row.line)
        shots.append(Shot(row.text("document"), row.text("claim"), supported, row.optional("reasoning") or ""))
    return tuple(shots)


def draw_shots(examples: Sequence[Example], n: int) -> tuple[Shot, ...]:
    """`n` worked examples from labelled ones, as many of both kinds as can be, each kind in turn.

    The shortest are taken (their documents come into every prompt), one of a document of each kind; the same examples
    always give the same shots. Raises `InputError` where there are too few.
    """
    kinds: tuple[list[Shot], list[Shot]] = ([], [])
    for example in sorted(examples, key=lambda e: (sum(len(s.text) for s in e.case.sources), e.case.id)):
        case, score = example.case, example.gold.hallucination
        text = document(case.sources) if case.sources else ""
        wrong = score is not None and score >= GOLD_THRESHOLD
        if score is None or not has_words(text) or not has_words(case.response):
            continue
        if all(shot.document != text for shot in kinds[wrong]):
            kinds[wrong].append(Shot(text, case.response, not wrong))
    half = n // 2
    taken = (kinds[0][: n - half], kinds[1][:half])
    if sum(map(len, taken)) < n:
        raise InputError(f"{n} worked examples are wanted, {len(taken[0])} and {len(taken[1])} of each kind are there")
    return tuple(taken[i % 2][i // 2] for i in range(n))
