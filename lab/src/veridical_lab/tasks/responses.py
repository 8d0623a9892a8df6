"""Save responses to a JSON Lines file during a long run, so that an interrupted run can continue where it stopped."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from veridical.io.jsonl import Line
from veridical.io.serialization import decode, encode
from veridical.records.errors import WireError
from veridical.records.types import Example
from veridical_lab.datasets.appending import append_lines, recover
from veridical_lab.tasks.grounded import UNLABELLED


def kept_responses(path: Path, ids: Collection[str], group: Mapping[str, str], *, labelled: bool) -> set[str]:
    """Find which of `ids` an earlier run has already written to a file. An incomplete last line is removed.

    Raises:
        DataError: The file contains something that this run would not write: another id, another value in `group`, a
            line that is not an example, labels if this run is not `labelled`, or no labels if it is.
    """
    hint = "choose another --out, or the options of the run that wrote it"

    def read(line: Line) -> str:
        try:
            example: Example = decode(line.text, "example")
        except WireError as error:
            raise line.error(error.message, hint=hint) from None
        id, group_of = example.case.id, dict(example.group)
        if id not in ids:
            raise line.error(f"{id!r} is not a response of this run", hint=hint)
        other = next((key for key in group if group_of.get(key) != group[key]), None)
        if other is not None:
            raise line.error(f"{other} is {group_of.get(other)!r}, not {group[other]!r}", hint=hint)
        if (example.gold.by != UNLABELLED) != labelled:
            raise line.error(f"the response is {'not ' if labelled else ''}labelled", hint=hint)
        return id

    return set(recover(path, read))


def append_responses(path: Path, examples: Iterable[Example]) -> None:
    """Append examples to the file at `path`, one in each line, and flush them to disk."""
    append_lines(path, [encode(example) for example in examples])
