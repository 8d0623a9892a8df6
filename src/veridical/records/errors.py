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

Every error has a `hint` (what to do, or None) and `retryable` (whether the same call may succeed later). Errors of
other libraries pass through unchanged, unless a module catches them and raises one of ours.
"""

from __future__ import annotations

from collections.abc import Iterable
from copyreg import __newobj__  # type: ignore[attr-defined]
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

_LONGEST = 2000  # characters of a message, and of a hint


class VeridicalError(Exception):
    """The base class of all errors that Veridical raises on purpose.

    `str(error)` is a single line that says what was found, what is allowed, and what you can do. Messages may quote
    your input, so long ones are shortened.
    """

    exit_code = 2
    retryable = False

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        self.message = _line(message)
        self.hint = hint and _line(hint)
        super().__init__(self.message)

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        # rebuild without __init__, whose arguments differ by class, so that errors survive pickling between processes
        return __newobj__, (type(self), self.message), self.__dict__


def _line(text: str) -> str:
    line = " ".join(text[: 2 * _LONGEST].split())
    return line if len(line) <= _LONGEST and len(text) <= 2 * _LONGEST else f"{line[: _LONGEST - 2]} …"


class InputError(VeridicalError, ValueError):
    """Raised for an argument, option, file or request that cannot be used. Subclasses name the more specific causes."""


class SpanError(InputError):
    """Raised for a span that runs past the end of its text, ends before it starts, or breaks an order of spans."""


class WireError(InputError):
    """Raised for JSON that cannot be converted to a record, such as a `Case`, or to a request to the server."""


class CircularArtifactError(InputError):
    """Raised for trained detectors whose saved specs refer to each other in a circle, so that none can be loaded."""


class DataError(InputError):
    """Raised for a data file that cannot be parsed.

    The attributes `path` and `line` (counted from 1) say where the error is. If `line` is None, the error is about the
    file as a whole.
    """

    def __init__(
        self, message: str, *, path: str | Path | None = None, line: int | None = None, hint: str | None = None
    ) -> None:
        self.path = path
        self.line = line
        where = "" if path is None else f"{path}: " if line is None else f"{path}:{line}: "
        super().__init__(where + message, hint=hint)


class UnknownNameError(InputError):
    """Raised for an unknown name of a detector, data set, metric or option. The hint suggests the closest known names.

    `kind` is what the name stands for, such as "detector", and `known` are all allowed names.
    """

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        from difflib import get_close_matches

        self.kind = kind
        self.name = name
        self.known = sorted(known)
        close = get_close_matches(name[:100].lower(), self.known, n=3, cutoff=0.5)
        guess = f"did you mean {' or '.join(close)}? " if close else ""
        short = name if len(name) <= 100 else f"{name[:100]} …"
        super().__init__(f"unknown {kind} {short!r}", hint=f"{guess}known: {', '.join(self.known) or 'none'}")


class MissingExtraError(VeridicalError):
    """Raised if a feature needs an optional dependency that is not installed. The hint is the pip command to run."""

    def __init__(self, what: str, extra: str, package: str = "veridical") -> None:
        self.extra = extra
        super().__init__(f"{what} needs an optional part", hint=f"run: pip install '{package}[{extra}]'")


class OutputError(VeridicalError):
    """Raised if a result could not be written. No half-written file is left behind."""


class CannotJudgeError(VeridicalError):
    """Raised if nothing could be judged, which is different from judging everything and finding nothing."""

    exit_code = 3
