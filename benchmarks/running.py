"""Run a benchmark as a command, and write its rows with the command, the date and the machine.

Needs the standard library only, because other tools' environments load it, too.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from importlib.metadata import version
from pathlib import Path
from statistics import median
from types import UnionType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

ROWS = Path(__file__).parent / "rows"
PACKAGES = ("torch", "transformers", "onnxruntime", "peft", "openai", "uvicorn")


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


def about() -> dict[str, Any]:
    """What every row says of this process; of other packages the versions of those that are loaded."""
    return {
        "machine": f"{platform.machine()}, {os.cpu_count()} processors",
        "python": platform.python_version(),
        "versions": {name: version(name) for name in PACKAGES if name in sys.modules},
        "command": command(),
        "date": date.today().isoformat(),
    }


def emit(row: dict[str, Any], path: Path | None = None) -> None:
    """Print a row, and append it to a file; what it says itself holds, also where every row says it."""
    line = json.dumps({**row, **about(), **row}, ensure_ascii=False)
    print(line, flush=True)
    if path is not None:
        with path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")


def remove_rows(path: Path, of_command: str) -> None:
    """Remove the rows of a command from a file."""
    lines = path.read_text("utf-8").splitlines(keepends=True)
    path.write_text("".join(line for line in lines if json.loads(line)["command"] != of_command), "utf-8")


def spread(values: Sequence[float]) -> list[float]:
    """[median, least, greatest]"""
    return [float(f"{value:.4g}") for value in (median(values), min(values), max(values))]


def exchange(process: subprocess.Popen[str], line: str) -> dict[str, Any]:
    """What a tool's process answers, as JSON, to a line."""
    assert process.stdin
    assert process.stdout
    process.stdin.write(f"{line}\n")
    process.stdin.flush()
    answer = process.stdout.readline()
    if not answer:
        sys.exit("a tool's process ended")
    found: dict[str, Any] = json.loads(answer)
    return found


Measured = Callable[..., Iterable[dict[str, Any]]]


def benchmark(rows: str | None = None) -> Callable[[Measured], Callable[[], None]]:
    """Make a command of a function that yields rows: they are printed, and written to `--rows` (default: `rows/ROWS`).

    There, they take the place of those that the same command wrote before.

    Its parameters are the arguments and, after `*`, the options: a sequence takes several values, a bool is a switch.
    `Annotated` adds the help, or a collection of choices.
    """

    def made(function: Measured) -> Callable[[], None]:
        def main() -> None:
            shown, path = function.__globals__["__doc__"], rows and ROWS / rows  # type: ignore[attr-defined]
            parser = argparse.ArgumentParser(description=shown, formatter_class=argparse.RawDescriptionHelpFormatter)
            for name, argument in arguments(function).items():
                parser.add_argument(name, **argument)
            parser.add_argument("--rows", type=Path, metavar="FILE", default=path, help="write the rows to this file")
            given = vars(parser.parse_args())
            path = given.pop("rows")
            for number, row in enumerate(function(**given)):
                if number == 0 and path is not None and path.exists():
                    remove_rows(path, command())
                emit(row, path)

        return main

    return made


def arguments(function: Callable[..., object]) -> dict[str, dict[str, Any]]:
    """What `add_argument` takes for each parameter of a function."""
    found: dict[str, dict[str, Any]] = {}
    hints = get_type_hints(function, include_extras=True)
    for name, parameter in inspect.signature(function).parameters.items():
        kind, argument = hints[name], {}
        if get_origin(kind) is Annotated:
            kind, *notes = get_args(kind)
            argument = {"help" if isinstance(note, str) else "choices": note for note in notes}
        if isinstance(kind, UnionType):
            kind = get_args(kind)[0]
        if get_origin(kind) is Sequence:
            kind, argument["nargs"], argument["action"] = get_args(kind)[0], "+", "extend"
        argument |= {"action": "store_true"} if kind is bool else {"type": kind}
        optional = parameter.default is not parameter.empty
        if optional:
            argument["default"] = argparse.SUPPRESS  # the function has it
        if parameter.kind is parameter.KEYWORD_ONLY:
            found["--" + name.replace("_", "-")] = argument | ({} if optional else {"required": True})
        else:
            found[name] = argument | ({"nargs": "*" if "nargs" in argument else "?"} if optional else {})
    return found
