"""All errors that Veridical raises on purpose.

    VeridicalError
    ├── InputError (also ValueError)   an input cannot be used                  exit 2
    │   ├── SpanError                  a span that does not lie in its text
    │   ├── WireError                  JSON that is not one of our documents
    │   ├── DataError                  a data file's line that cannot be read (carries file and line)
    │   ├── UnknownNameError           a detector, data set or metric that is not registered
    │   └── CircularArtifactError      trained detectors whose folders name each other
    ├── MissingExtraError              an optional dependency is not installed     exit 2
    ├── OutputError                    a result could not be written               exit 2
    └── CannotJudgeError               nothing could be judged                     exit 3

Every error carries a `hint` (what to do) and `retryable` (whether the same call may succeed later).
Errors of other libraries pass through unchanged, except those that a module translates by name.
"""

from __future__ import annotations

from collections.abc import Iterable
from copyreg import __newobj__  # type: ignore[attr-defined]
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "CannotJudgeError",
    "CircularArtifactError",
    "DataError",
    "InputError",
    "MissingExtraError",
    "OutputError",
    "SpanError",
    "UnknownNameError",
    "VeridicalError",
    "WireError",
]


class VeridicalError(Exception):
    """The base of all errors; `str(error)` is one line: what was found, what is allowed, then the hint."""

    exit_code = 2
    retryable = False

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        self.message = " ".join(message.split())
        self.hint = hint and " ".join(hint.split())
        super().__init__(self.message)

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        # rebuild without __init__, whose arguments differ by class, so that errors survive pickling between processes
        return __newobj__, (type(self), self.message), self.__dict__


class InputError(VeridicalError, ValueError):
    """An input that cannot be used."""


class SpanError(InputError):
    """A span that does not lie in its text."""


class WireError(InputError):
    """JSON that is not one of our documents."""


class CircularArtifactError(InputError):
    """Trained detectors whose folders name each other."""


class DataError(InputError):
    """A data file that cannot be read; `path` and `line` say where (from 1, None = the whole file)."""

    def __init__(
        self, message: str, *, path: str | Path | None = None, line: int | None = None, hint: str | None = None
    ) -> None:
        self.path = path
        self.line = line
        where = "" if path is None else f"{path}: " if line is None else f"{path}:{line}: "
        super().__init__(where + message, hint=hint)


class UnknownNameError(InputError):
    """A name that is not registered; the message suggests the nearest ones."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        from difflib import get_close_matches

        self.kind = kind
        self.name = name
        self.known = sorted(known)
        close = get_close_matches(name.lower(), self.known, n=3, cutoff=0.5)
        guess = f"did you mean {' or '.join(close)}? " if close else ""
        super().__init__(f"unknown {kind} {name!r}", hint=f"{guess}known: {', '.join(self.known) or 'none'}")


class MissingExtraError(VeridicalError):
    """An optional dependency is not installed."""

    def __init__(self, what: str, extra: str, package: str = "veridical") -> None:
        self.extra = extra
        super().__init__(f"{what} needs an optional part", hint=f"run: pip install '{package}[{extra}]'")


class OutputError(VeridicalError):
    """A result could not be written; nothing half-written is left behind."""


class CannotJudgeError(VeridicalError):
    """Nothing could be judged; this differs from "nothing was found"."""

    exit_code = 3
