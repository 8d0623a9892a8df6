"""Plain Wikipedia articles, with a blank line between them. They have no labels.

You can put errors into them (`veridical_lab.corrupt`), or count words in them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from veridical.datasets import Info, OnBad
from veridical.io.files import decode_text, open_bytes
from veridical.records.errors import DataError, InputError
from veridical.records.types import Example
from veridical_lab.datasets.files import one_file

INFO = Info(
    name="wikipedia",
    title="Wikipedia articles",
    licence="CC BY-SA 4.0",
    citation="Wikipedia contributors",
    levels=(),
    document="the article",
    notes="No labels: `wikipedia.read_texts` gives the articles' texts.",
)


def read(path: Path, split: str | None = None, *, on_bad: OnBad = None) -> Iterator[Example]:
    """Raise `InputError`, because the texts have no labels."""
    raise InputError("wikipedia has no labels", hint="veridical_lab.datasets.wikipedia.read_texts gives its articles")


def read_texts(path: Path, split: str | None = None) -> Iterator[str]:
    """Read the articles as a stream, in the order of the file. Line breaks separate the paragraphs of an article."""
    file = one_file(INFO, path, split, "articles.txt")
    paragraphs: list[str] = []
    empty = True
    with open_bytes(file) as lines:
        for raw in lines:
            line = decode_text(raw, file).rstrip("\r\n")
            if line.strip():
                paragraphs.append(line)
                empty = False
            elif paragraphs:
                yield "\n".join(paragraphs)
                paragraphs = []
    if paragraphs:
        yield "\n".join(paragraphs)
    if empty:
        raise DataError("the file is empty", path=file)
