"""Split documents into passages, about which statements are then written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from veridical.io.documents import CONVERTED_ENDINGS, load_document
from veridical.records.errors import DataError, InputError
from veridical.text.segment import sentences, words

_WORDS = 60, 180  # minimum and maximum number of words of a passage
_READABLE = CONVERTED_ENDINGS | {".txt"}


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage of a document.

    Attributes:
        id: The name of the document and the number of the passage in it, such as "terms.pdf/3".
        document: The name of the document. All passages of a document go into the same part of the data.
        text: The text of the passage.
    """

    id: str
    document: str
    text: str


def passages(text: str, document: str) -> Iterator[Passage]:
    """Split a text into passages of whole sentences, with 60 to 180 words each.

    A shorter rest at the end is dropped.
    """
    taken: list[str] = []
    size = number = 0
    for span in sentences(text):
        sentence = " ".join(span.of(text).split())
        count = len(words(sentence))
        if not count:
            continue
        if taken and size + count > _WORDS[1]:
            if size >= _WORDS[0]:
                number += 1
                yield Passage(f"{document}/{number}", document, " ".join(taken))
            taken, size = [], 0
        taken.append(sentence)
        size += count
    if size >= _WORDS[0]:
        yield Passage(f"{document}/{number + 1}", document, " ".join(taken))


def read_passages(paths: Iterable[Path]) -> tuple[list[Passage], list[str]]:
    """Read documents and split them into passages. Also return a note for each file that cannot be read.

    Args:
        paths: Files or folders. In a folder and its subfolders, all files of a readable kind are read.

    Raises:
        InputError: A path does not exist, or no document has a passage.
    """
    found: list[Passage] = []
    notes: list[str] = []
    files: dict[Path, str] = {}
    for path in paths:
        if path.is_dir():
            inside = (file for file in sorted(path.rglob("*")) if file.is_file() and not file.is_symlink())
            files |= {file: str(file.relative_to(path)) for file in inside if file.suffix.lower() in _READABLE}
        elif path.is_file():
            files[path] = path.name
        else:
            raise InputError(f"there is no {path}", hint="give documents, or folders with documents")
    for file, name in files.items():
        try:
            found += passages(load_document(file).text, name)
        except DataError as error:
            notes.append(f"{name} is left out: {error}")
    if not found:
        raise InputError(
            f"{len(files)} documents have no passage of {_WORDS[0]} words or more",
            hint=f"give longer documents ({', '.join(sorted(_READABLE))})",
        )
    return found, notes
