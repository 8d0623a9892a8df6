"""Judgements kept while a long run goes on, so that one that was stopped goes on where it was.

One file per detector and data set, a line per batch. A line torn by a crash is dropped; the rest is used again.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from veridical.core.errors import OutputError, WireError
from veridical.core.serialization import decode, encode
from veridical.core.types import Judgement

__all__ = ["Journal"]


@dataclass(slots=True)
class Journal:
    """The judgements made so far of one detector on one list of cases, and the seconds that they took."""

    path: Path
    judgements: list[Judgement]
    seconds: float

    @classmethod
    def open(cls, folder: Path, *key: str) -> Journal:
        """The journal for `key` in `folder`, with what an earlier run left there; a torn end is cut off."""
        name = hashlib.sha256("\0".join(key).encode()).hexdigest()[:24]
        journal = cls(folder / f"{name}.jsonl", [], 0.0)
        try:
            folder.mkdir(exist_ok=True)
            journal._recover()
        except OSError as error:
            raise OutputError(f"cannot use {folder}: {error.strerror or error}", hint="choose another --out") from None
        return journal

    def _recover(self) -> None:
        if not self.path.exists():
            return
        whole = 0
        with self.path.open("rb") as file:
            for line in file:
                try:
                    body = json.loads(line) if line.endswith(b"\n") else None
                    judged = [decode(item, "judgement") for item in body["judgements"]] if body else None
                except (ValueError, KeyError, TypeError, WireError):
                    judged = None
                if judged is None or body is None:
                    break
                self.judgements += judged
                self.seconds += body["seconds"]
                whole += len(line)
        os.truncate(self.path, whole)

    def add(self, judgements: Sequence[Judgement], seconds: float) -> None:
        """Append one batch; it counts once its line is whole."""
        line = json.dumps({"seconds": seconds, "judgements": [json.loads(encode(j)) for j in judgements]})
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
        except OSError as error:
            raise OutputError(f"cannot write {self.path}: {error.strerror or error}") from None
        self.judgements += judgements
        self.seconds += seconds

    def close(self) -> None:
        """Remove the file: the result that it served is kept elsewhere now."""
        self.path.unlink(missing_ok=True)
