"""How the time of what one request can make long grows: each path at n, 2n and 4n, and the ratios of the times.

    python benchmarks/growth.py

A linear path has ratios near 2; a quadratic one has 4. Prints one line a path; the least time of three rounds counts.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

from veridical.core.errors import WireError
from veridical.core.names import is_name
from veridical.core.segment import sentences, words
from veridical.core.serialization import parse
from veridical.core.types import Case, Source
from veridical.detectors.claims.qa_checker import read_questions
from veridical.detectors.overlap.detector import Overlap
from veridical.llm.reply_parser import json_object, labelled, yes_no
from veridical.server.errors import Refused
from veridical.server.protection import lines


def repeated_keys(n: int) -> Callable[[], object]:
    text = "{" + ", ".join(f'"{name}": 1' for name in (*range(n), n - 1)) + "}"

    def run() -> None:
        with suppress(WireError):
            parse(text)

    return run


def wavering_answer(n: int) -> Callable[[], object]:
    return lambda: yes_no("Yes " + "!/" * n)


def labelled_line(n: int) -> Callable[[], object]:
    return lambda: labelled("Supported: a" + " *" * n + "b", "Supported")


def questions(n: int) -> Callable[[], object]:
    return lambda: read_questions("Question: When?\nAnswer: a" + " *" * n + "b", "Built in 1889.")


def many_objects(n: int) -> Callable[[], object]:
    return lambda: json_object('{"a": 1} ' * n)


def many_sources(n: int) -> Callable[[], object]:
    sources = tuple(Source(str(i), "a") for i in range(n))

    def run() -> None:
        case = Case("1", "", sources)
        for source in sources:
            case.source(source.id)

    return run


def overlap_of_many_sources(n: int) -> Callable[[], object]:
    sources = tuple(Source(str(i), f"The tower {i} is {i} m tall.", must_cover=True) for i in range(n))
    case = Case("1", " ".join(source.text for source in sources), sources)
    return lambda: Overlap().judge([case])


def long_number(n: int) -> Callable[[], object]:
    case = Case("1", f"It is {'7' * n} km.", (Source("1", f"It is {'8' * n} km."),))
    return lambda: Overlap(words="values").judge([case])


def one_piece_of_chinese(n: int) -> Callable[[], object]:
    text = "".join(chr(0x4E00 + i * 7919 % 20000) for i in range(n))
    return lambda: (sentences(text), [is_name(text, word) for word in words(text)])


def all_capitals(n: int) -> Callable[[], object]:
    text = "THE TOWER " * n
    return lambda: [is_name(text, word) for word in words(text)]


def line_in_pieces(n: int) -> Callable[[], object]:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(n):
            yield b"x" * 64

    async def read() -> list[bytes]:
        return [line async for line in lines(pieces(), 1 << 40, Refused(413, "too large"))]

    return lambda: asyncio.run(read())


PATHS: dict[Callable[[int], Callable[[], object]], int] = {
    repeated_keys: 40_000,
    wavering_answer: 100_000,
    labelled_line: 4_000_000,
    questions: 4_000_000,
    many_objects: 20_000,
    many_sources: 20_000,
    overlap_of_many_sources: 1_000,
    long_number: 400_000,
    one_piece_of_chinese: 20_000,
    all_capitals: 5_000,
    line_in_pieces: 40_000,
}


def seconds(run: Callable[[], object]) -> float:
    """Return the least processor time of three runs."""
    times = []
    for _ in range(3):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


def main() -> None:
    """Time every path."""
    print(f"{'path':<24} {'n':>8} {'n':>8} {'2n':>8} {'4n':>8}   2n/n  4n/2n")
    for path, n in PATHS.items():
        one, two, four = (seconds(path(factor * n)) for factor in (1, 2, 4))
        print(f"{path.__name__:<24} {n:>8,} {one:>8.3f} {two:>8.3f} {four:>8.3f} {two / one:>6.2f} {four / two:>6.2f}")


if __name__ == "__main__":
    main()
