"""Write records as JSON Lines, and check the files that they are written to."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


def check_out(out: Path, data: Iterable[str] = ()) -> None:
    """Check that an output file can be read as JSON Lines later, and that it would not overwrite input data.

    Args:
        out: The file to write.
        data: The labelled data that the command reads, as SET:PATH.

    Raises:
        InputError: The file's extension is not that of JSON Lines, or the file is one of the data files.
    """
    from veridical.datasets import name_and_path
    from veridical.io.rows import is_table
    from veridical.records.errors import InputError

    if is_table(out) or out.suffix.lower() == ".gz":
        raise InputError(f"{out} would not be read as JSON Lines", hint="name a file that ends in .jsonl")
    if not out.exists():
        return
    for spec in data:
        whole = Path(name_and_path(spec)[1])
        path = (whole if whole.exists() else Path(str(whole).partition("?")[0])).resolve()
        if out.resolve() == path or (path.is_dir() and path in out.resolve().parents):
            raise InputError(f"{out} belongs to the data that are read: {spec}", hint="write to another file")


def json_lines(records: Iterable[object]) -> str:
    """Return one JSON document per line."""
    from veridical.io.serialization import encode

    return "".join(encode(record) + "\n" for record in records)


def write_json_lines(out: Path, records: Iterable[object]) -> None:
    """Write one JSON document per line. The file appears only when it is complete."""
    from veridical.io.files import write_whole

    write_whole(out, json_lines(records))
