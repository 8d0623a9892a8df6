"""Plain Wikipedia articles, with a blank line between them. They have no labels.

You can put errors into them (`veridical_lab.corrupt`), or count words in them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
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
    empty = True
    with open_bytes(file) as lines:
        texts = (decode_text(line, file).rstrip("\r\n") for line in lines)
        for is_article, paragraphs in groupby(texts, key=lambda text: bool(text.strip())):
            if is_article:
                empty = False
                yield "\n".join(paragraphs)
    if empty:
        raise DataError("the file is empty", path=file)
