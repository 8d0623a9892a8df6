"""Record the judgements of a long run in a file, so that an interrupted run continues where it stopped.

Each detector has one file per data set, with one line per batch. If a crash left an incomplete line, the line is
dropped.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from veridical.io.jsonl import Line
from veridical.io.serialization import decode, encode
from veridical.records.errors import OutputError, WireError
from veridical.records.types import Judgement
from veridical_lab.datasets.appending import append_lines, recover


@dataclass(slots=True)
class Journal:
    """A detector's judgements on a list of cases so far, and the time they took, in seconds."""

    path: Path
    judgements: list[Judgement]
    seconds: float

    @classmethod
    def open(cls, folder: Path, *key: str) -> Journal:
        """Open the journal for `key` in a folder, and read the judgements of an earlier run if there was one.

        An incomplete line at the end is removed from the file.
        """
        name = hashlib.sha256("\0".join(key).encode()).hexdigest()[:24]
        try:
            folder.mkdir(exist_ok=True)
        except OSError as error:
            raise OutputError(f"cannot use {folder}: {error.strerror or error}", hint="choose another --out") from None

        def batch_in(line: Line) -> tuple[list[Judgement], float] | None:
            try:
                body = json.loads(line.text)
                return [decode(document, "judgement") for document in body["judgements"]], float(body["seconds"])
            except (ValueError, KeyError, TypeError, WireError):
                return None

        batches = recover(folder / f"{name}.jsonl", batch_in, follow_link=False)
        judgements = [judgement for batch, _ in batches for judgement in batch]
        return cls(folder / f"{name}.jsonl", judgements, sum((seconds for _, seconds in batches), 0.0))

    def add(self, judgements: Sequence[Judgement], seconds: float) -> None:
        """Append one batch to the file. The batch counts once its line is complete."""
        documents = [json.loads(encode(judgement)) for judgement in judgements]
        append_lines(self.path, [json.dumps({"seconds": seconds, "judgements": documents})], follow_link=False)
        self.judgements += judgements
        self.seconds += seconds
