"""Read plain documents without labels from common kinds of files: text, zips of text files, JSON Lines, SQuAD."""

from __future__ import annotations

import gzip
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

from veridical.datasets import Info, OnBad
from veridical.io.files import decode_text
from veridical.records.errors import DataError, InputError
from veridical.records.types import Example
from veridical_lab.datasets.files import check_split

INFO = Info(
    name="plain",
    title="Plain documents",
    licence="of the documents",
    citation="none",
    levels=(),
    document="the document",
    notes="No labels: `plain.read_texts` gives the texts of *.txt, *.jsonl (`text`), *.json (SQuAD) and *.zip files.",
)
_SUFFIXES = (".txt", ".jsonl", ".json", ".zip")


def read(path: Path, split: str | None = None, *, on_bad: OnBad = None) -> Iterator[Example]:
    """Raise `InputError`, because the texts have no labels."""
    raise InputError("plain documents have no labels", hint="veridical_lab.datasets.plain.read_texts gives their texts")


def read_texts(path: Path, split: str | None = None) -> Iterator[str]:
    """Read the documents in one file, or in all files in a folder and its subfolders, in order of name.

    These kinds of files are read:

    * .txt: The file is one document.
    * .zip: Each text file inside is one document. Zips with `_tagged` in their name are left out.
    * .jsonl: Each line has the text of a document under `text`.
    * .json: SQuAD files, with the texts under `data`, `paragraphs`, `context`.

    All files except zips may be gzipped.

    Raises:
        DataError: A file cannot be read, or there are no files.
    """
    check_split(INFO, split)
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    files = [f for f in files if f.name.removesuffix(".gz").endswith(_SUFFIXES) and f.name != "SOURCE.txt"]
    if not files:
        raise DataError("no documents", path=path, hint=f"a file or folder of {', '.join(_SUFFIXES)}")
    for file in files:
        name = file.name.removesuffix(".gz")
        try:
            if name.endswith(".zip"):
                yield from () if "_tagged" in name else texts_in_zip(file)
                continue
            data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
            text = decode_text(data, file)
            if name.endswith(".txt"):
                yield text
            elif name.endswith(".jsonl"):
                yield from (json.loads(line)["text"] for line in text.splitlines() if line.strip())
            else:
                articles = json.loads(text)["data"]
                yield from (paragraph["context"] for article in articles for paragraph in article["paragraphs"])
        except DataError:
            raise
        except (ValueError, KeyError, TypeError, OSError, zipfile.BadZipFile) as error:
            raise DataError(f"not the layout of {name.rpartition('.')[2]}: {error!r}", path=file) from error


def texts_in_zip(file: Path) -> Iterator[str]:
    """Read the text files in a zip, in the order of their names. Files that are not UTF-8 are read as Latin-1."""
    with zipfile.ZipFile(file) as archive:
        for name in sorted(archive.namelist()):
            if name.endswith(".txt"):
                data = archive.read(name)
                try:
                    yield decode_text(data, Path(f"{file}/{name}"))
                except DataError:
                    yield decode_text(data, Path(f"{file}/{name}"), encoding="latin-1")
