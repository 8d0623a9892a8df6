"""Options in a detector's spec, NAME=VALUE parted by commas, for the detectors that ask a chat model."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from veridical.core.errors import InputError, UnknownNameError

__all__ = ["count", "digest_of", "flag", "refuse_rest", "share", "split_options"]


def split_options(argument: str | None, own: Sequence[str]) -> tuple[str, dict[str, str]]:
    """What of a spec's argument is none of the options `own`, in its order; and these options with their values.

    Raises `InputError` for an option that is given twice or has no value.

    >>> split_options("overlap:values,citations=skip", ["citations"])
    ('overlap:values', {'citations': 'skip'})
    """
    rest: list[str] = []
    found: dict[str, str] = {}
    for part in (argument or "").split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or name not in own:
            rest.append(part)
        elif name in found or not value:
            raise InputError(f"the option {part.strip()!r} is given twice or has no value", hint=f"write {name}=VALUE")
        else:
            found[name] = value
    return ",".join(rest).strip(), found


def refuse_rest(rest: str, kind: str, heads: Sequence[str], own: Sequence[str]) -> None:
    """Raise unless what stands first in the spec of a `kind` is one of `heads` or nothing."""
    if rest and rest not in heads:
        raise UnknownNameError(f"option of {kind}", rest, [*heads, *(f"{name}=…" for name in own)])


def count(name: str, value: str) -> int:
    """The whole number from 1 that an option holds; `InputError` for anything else."""
    if not value.isascii() or not value.isdecimal() or int(value) < 1:
        raise InputError(f"{name} is {value!r}", hint="a whole number from 1")
    return int(value)


def flag(name: str, value: str) -> bool:
    """The yes or no that an option holds; `InputError` for anything else."""
    if value not in ("yes", "no"):
        raise InputError(f"{name} is {value!r}", hint="yes or no")
    return value == "yes"


def share(name: str, value: str) -> float:
    """The number from 0 to 1 that an option holds; `InputError` for anything else."""
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0.0 <= number <= 1.0:
        raise InputError(f"{name} is {value!r}", hint="a number from 0 to 1")
    return number


def digest_of(about: Any) -> str:
    """A short hash of what JSON can hold."""
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:16]
