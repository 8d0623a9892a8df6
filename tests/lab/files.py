"""Records in a file, as commands and benchmarks read them."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from veridical.io.serialization import encode


def saved(path: Path, records: Iterable[Any]) -> str:
    """Write records as lines of JSON, and return the name of the data set that they are."""
    path.write_text("".join(encode(record) + "\n" for record in records), "utf-8")
    return f"jsonl:{path}"
