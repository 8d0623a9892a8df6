"""Read your own data: one `example/1` document of `veridical.core.serialization` per line (see docs/datasets.md)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from veridical.core.errors import DataError, UnknownNameError
from veridical.core.serialization import TAG, decode
from veridical.core.types import Example, Level
from veridical.datasets import Info, OnBad
from veridical.datasets.reading import Row, jsonl_rows, read_rows

__all__ = ["INFO", "read"]

INFO = Info(
    name="jsonl",
    title="Your own examples, one JSON document per line",
    licence="yours",
    citation="",
    levels=(Level.RESPONSE, Level.SPAN, Level.COVERAGE),
    languages=(),
    document="what each line says",
    notes="A file, or a folder of SPLIT.jsonl files.",
)


def read(path: Path, split: str | None = None, *, on_bad: OnBad = None) -> Iterator[Example]:
    """Read the example on each line; a case without gold is refused."""
    if path.is_dir():
        files = {file.stem: file for file in sorted(path.glob("*.jsonl"))}
        if not files:
            raise DataError("a folder without any .jsonl file", path=path)
    else:
        files = {path.stem: path}
    if split is not None and split not in files:
        raise UnknownNameError(f"split in {path}:", split, files)
    chosen = files.values() if split is None else [files[split]]
    return read_rows((row for file in chosen for row in jsonl_rows(file, on_bad)), _example, on_bad)


def _example(row: Row) -> list[Example]:
    tag = str(row.values.get(TAG, ""))
    if tag.startswith("case/") or (not tag and "response" in row.values):
        raise row.bad("a case without gold", hint='an example is {"veridical": "example/1", "case": {…}, "gold": {…}}')
    if tag and not tag.startswith("example/"):
        raise row.bad(f"found {tag!r}, not an example", hint='"veridical": "example/1"')
    example: Example = decode(row.values, "example")
    return [example]
