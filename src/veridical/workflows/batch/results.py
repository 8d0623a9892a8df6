"""Read the results of checks from a folder that a batch wrote, or from a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from veridical.io.serialization import read_documents
from veridical.records.errors import DataError
from veridical.records.types import Checked
from veridical.workflows.batch.folder import read_manifest, read_shards

_HINT = "a folder that `veridical batch` wrote, or the output of `veridical check --json`"


def read_results(path: Path) -> Iterator[Checked]:
    """Load the results of checks one by one, from a folder that `veridical batch` wrote, or from a JSON Lines file.

    Raises:
        DataError: The folder contains no results or an unfinished batch, or a line is not a result.
    """
    files = [path]
    if path.is_dir():
        manifest = read_manifest(path)
        if manifest is None:
            raise DataError("a folder without results", path=path, hint=_HINT)
        shards = read_shards(path)
        if sum(shard.rows for shard in shards) < manifest.rows:
            raise DataError("the batch is not finished", path=path, hint="repeat the command that began it")
        files = [path / shard.results for shard in shards]
    for file in files:
        yield from (checked for _, checked in read_documents(file, "check", hint=_HINT))


def failed_rows(path: Path) -> int:
    """Count the rows of a batch that could not be read or judged. Return 0 if `path` is a file."""
    return sum(shard.failed for shard in read_shards(path)) if path.is_dir() else 0
