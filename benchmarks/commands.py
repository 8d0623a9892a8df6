"""How a row says the command that made it."""

from __future__ import annotations

import sys
from pathlib import Path

__all__ = ["command", "without_folders"]


def without_folders(argument: str) -> str:
    """Of each path in an argument or a detector's spec only its end, as folders are different on each machine.

    >>> without_folders("classifier:build/a,build/b")
    'classifier:a,b'
    """
    if "://" in argument:
        return argument
    head, colon, paths = argument.rpartition(":")
    return head + colon + ",".join(Path(path).name if "/" in path else path for path in paths.split(","))


def command() -> str:
    """The command line of this process."""
    return " ".join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *map(without_folders, sys.argv[1:])])
