"""Write corrupted examples to a file as they are made, so that an interrupted run continues where it stopped.

Until the file is complete, the examples are in FILE.part and the state of the run is in FILE.part.json.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from veridical.io.files import read_text, write_whole
from veridical.io.serialization import decode, encode
from veridical.io.strict_json import parse
from veridical.records.errors import DataError, InputError, OutputError
from veridical.records.spans import length
from veridical.records.types import Example
from veridical_lab.corrupt import Attempt, is_grounded, nothing_corrupted
from veridical_lab.datasets.appending import append_lines


@dataclass(frozen=True, slots=True)
class CorruptionReport:
    """The counts of a run: examples that were read, corrupted and skipped, and the marked errors.

    Attributes:
        method: The way to corrupt, or several ways with their weights.
        inputs: The number of examples read.
        corrupted: The number of written examples with errors.
        by: The number of corrupted examples by way.
        errors: The number of marked spans by label.
        marked_characters: The number of characters in these spans.
        characters: The number of characters in all written responses.
        skipped: The number of examples that were not used, by reason.
        sha256: The SHA-256 hash of the file. "" until the file is complete.
    """

    method: str
    seed: int
    inputs: int = 0
    written: int = 0
    corrupted: int = 0
    by: dict[str, int] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)
    marked_characters: int = 0
    characters: int = 0
    skipped: dict[str, int] = field(default_factory=dict)
    sha256: str = ""

    def with_attempts(self, made: Iterable[Attempt]) -> CorruptionReport:
        """Add the counts of more examples to the report, and return the new report."""
        made = list(made)
        written = [example for attempt in made for example in attempt.examples]
        wrong = [example for example in written if not is_grounded(example)]
        return replace(
            self,
            inputs=self.inputs + len(made),
            written=self.written + len(written),
            corrupted=self.corrupted + len(wrong),
            by=_sum(self.by, (example.gold.by for example in wrong)),
            errors=_sum(self.errors, (v.label or "" for example in wrong for v in example.gold.verdicts)),
            marked_characters=self.marked_characters + sum(length(v.span for v in e.gold.verdicts) for e in wrong),
            characters=self.characters + sum(len(example.case.response) for example in written),
            skipped=_sum(self.skipped, (attempt.skipped for attempt in made if attempt.skipped)),
        )


def _sum(counts: dict[str, int], more: Iterable[str]) -> dict[str, int]:
    """Count further keys, and put the most frequent ones first."""
    return dict(sorted((Counter(counts) + Counter(more)).items(), key=lambda item: (-item[1], item[0])))


class CorruptionOutput:
    """Writes the file of a run, and continues an interrupted run with the same identifier `run`.

    Args:
        path: The file to write.
        run: An identifier shared only by runs with the same output, such as a digest of the options.
        method: The way to corrupt, for the report.
        seed: The random seed, for the report.

    Attributes:
        report: The counts so far. The first `inputs` examples need not be read again.

    Raises:
        InputError: The unfinished file belongs to another run.
        DataError: The unfinished file is damaged.
        OutputError: `path` is a folder or another kind of file.
    """

    def __init__(self, path: Path, run: str, *, method: str, seed: int) -> None:
        self.path, self._run = path, run
        self._part = path.with_name(path.name + ".part")
        self._state = path.with_name(path.name + ".part.json")
        self._hint = f"delete {self._state} to start again, or name another --out"
        self.report, self._last, self._bytes = CorruptionReport(method, seed), "", 0
        if path.exists() and not path.is_file():
            kind = "a folder" if path.is_dir() else "not a regular file"
            raise OutputError(f"cannot write {path}: it is {kind}", hint="name a file")
        for file in (self._part, self._state):
            if file.is_symlink():
                raise OutputError(f"cannot write {file}: it is a symbolic link", hint="name another --out")
        if self._state.exists():
            self._resume()
        else:
            self._part.unlink(missing_ok=True)

    def _resume(self) -> None:
        try:
            state = parse(read_text(self._state))
            run, self._last, self._bytes = state["run"], str(state["last"]), int(state["bytes"])
            self.report = decode(state["report"], "corruption")
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"not the state of a run: {error}", path=self._state, hint=self._hint) from None
        if run != self._run:
            raise InputError(f"{self._part} belongs to a run with other data, options or models", hint=self._hint)
        if self._bytes and (not self._part.is_file() or self._part.stat().st_size < self._bytes):
            raise DataError("shorter than what was written", path=self._part, hint=self._hint)
        if self._part.exists():
            os.truncate(self._part, self._bytes)

    def check_last(self, example: Example | None) -> None:
        """Check that `example` is the last example that the interrupted run read.

        Raises:
            InputError: The interrupted run read another example last.
        """
        if (example.case.id if example else "") != self._last:
            problem = f"the data are not those of {self._part}: {self._last!r} is not where it was"
            raise InputError(problem, hint=self._hint)

    def add(self, made: Iterable[Attempt]) -> None:
        """Append the results of further examples, and save the state of the run."""
        made = list(made)
        lines = [encode(example) for attempt in made for example in attempt.examples]
        append_lines(self._part, lines, follow_link=False)
        self._bytes += sum(len(line.encode()) + 1 for line in lines)
        self._last = made[-1].id if made else self._last
        self.report = self.report.with_attempts(made)
        state = {"run": self._run, "last": self._last, "bytes": self._bytes, "report": parse(encode(self.report))}
        write_whole(self._state, json.dumps(state) + "\n", follow_link=False)

    def finish(self) -> CorruptionReport:
        """Move the complete file to its place.

        Raises:
            InputError: Nothing was corrupted. The unfinished file is deleted.
        """
        if not self.report.corrupted:
            self._part.unlink(missing_ok=True)
            self._state.unlink(missing_ok=True)
            raise nothing_corrupted(self.report.inputs, self.report.method, self.report.skipped)
        with self._part.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        try:
            os.replace(self._part, self.path.resolve())
        except OSError as error:
            problem = f"cannot write {self.path}: {error.strerror or error}"
            raise OutputError(problem, hint="choose another place") from None
        self._state.unlink(missing_ok=True)
        self.report = replace(self.report, sha256=digest)
        return self.report
