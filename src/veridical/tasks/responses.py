"""Responses kept in a JSON Lines file while a long run goes on, so that one that was stopped goes on where it was."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from veridical.core.errors import InputError, OutputError, WireError
from veridical.core.serialization import decode, encode
from veridical.core.types import Example
from veridical.tasks.grounded import UNLABELLED

__all__ = ["append_responses", "kept_responses"]


def kept_responses(path: Path, ids: Collection[str], group: Mapping[str, str], *, labelled: bool) -> set[str]:
    """Which of `ids` an earlier run left in the file at `path`; a last line torn by a crash is cut off.

    Raises `InputError` if the file holds anything that this run would not write: another id, another value in `group`,
    a line that is no example, labels where this run is not `labelled` or none where it is.
    """
    if not path.exists():
        return set()
    done: set[str] = set()
    whole = 0
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n"):
                    break
                done.add(_checked(path, number, line, ids, group, labelled))
                whole += len(line)
        os.truncate(path, whole)
    except OSError as error:
        raise OutputError(f"cannot use {path}: {error.strerror or error}", hint="choose another --out") from None
    return done


def _checked(
    path: Path, number: int, line: bytes, ids: Collection[str], group: Mapping[str, str], labelled: bool
) -> str:
    hint = "choose another --out, or the options of the run that it is of"
    try:
        example: Example = decode(line, "example")
    except WireError as error:
        raise InputError(f"{path}:{number}: {error.message}", hint=hint) from None
    id, found = example.case.id, dict(example.group)
    if id not in ids:
        raise InputError(f"{path}:{number}: {id!r} is not a response of this run", hint=hint)
    other = next((key for key in group if found.get(key) != group[key]), None)
    if other is not None:
        raise InputError(f"{path}:{number}: {other} is {found.get(other)!r}, not {group[other]!r}", hint=hint)
    if (example.gold.by != UNLABELLED) != labelled:
        raise InputError(f"{path}:{number}: the response is {'not ' if labelled else ''}labelled", hint=hint)
    return id


def append_responses(path: Path, examples: Iterable[Example]) -> None:
    """Add examples at the end of the file at `path`, each on a line of its own, and hand them to the disk."""
    try:
        with path.open("a", encoding="utf-8", newline="") as file:
            file.write("".join(encode(example) + "\n" for example in examples))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}", hint="choose another place") from None
