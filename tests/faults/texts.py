"""Texts that repeat a piece, drawn at random: the time of every reader grows no faster than the text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.faults.growth import is_steep
from tests.faults.harness import Found, fault
from veridical.detectors import load_detector
from veridical.io.conversations import read_conversation
from veridical.records.types import Case, Source
from veridical.workflows.checking import check_cases
from veridical.workflows.revise import revise
from veridical.workflows.revise.rule_revisers import Delete

CHARACTERS = "abA19 \n\t.,;:!?-–—_/|@#*=%&$\"'“”()[]{}<>é你§¹"
SIZE = 3_000  # characters of the shorter text
SHAPES = 60


def _readers() -> list[Callable[[str], object]]:
    """Return functions that read a text as response and source, and as a message."""

    def checked(spec: str) -> Callable[[str], object]:
        detector = load_detector(spec)
        return lambda text: list(check_cases([Case("1", text, (Source("1", text),))], [detector], explain=True))

    overlap = load_detector("overlap:values")
    return [
        *map(checked, ("overlap", "overlap:values", "verify:overlap")),
        lambda text: revise([Case("1", text, (Source("1", "It rains."),))], overlap, Delete()),
        lambda text: read_conversation([("user", text), ("tool", text), ("assistant", text or "a")]),
    ]


@fault("texts that repeat a drawn piece, at two lengths")
def drawn_texts(draw: Random, folder: Path) -> Found:
    """Draw a beginning, a piece and an end, and read them with the piece repeated."""
    found, readers = Found(), _readers()
    texts = st.text(CHARACTERS, max_size=8)

    @seed(draw.randrange(1 << 32))
    @settings(
        max_examples=SHAPES,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(texts, texts.filter(bool), texts)
    def read(begin: str, piece: str, end: str) -> None:
        for i, reader in enumerate(readers):

            def path(n: int, reader: Callable[[str], object] = reader) -> Callable[[], object]:
                text = begin + piece * n + end
                return lambda: reader(text)

            found.tried += 1
            found.check(not is_steep(path, SIZE // len(piece)), f"reader {i}: {begin!r} + n × {piece!r} + {end!r}")

    read()
    return found
