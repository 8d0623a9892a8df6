"""The command line: one file a command. Only here does Veridical touch the process (exit code, signals, streams).

Exit codes: 0 nothing flagged, 1 something flagged, 2 usage, input or output, 3 could not judge,
130 interrupted, 141 the reader of the output went away. `veridical.__main__` adds 70 for an error that is a bug.
"""

from __future__ import annotations

import codecs
import io
import json
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, TextIO

import typer
from typer.main import get_group

from veridical.core.errors import VeridicalError
from veridical.core.registry import Registry

__all__ = ["COMMANDS", "app", "main"]

# click's class, or that of the copy which newer releases of Typer carry; neither is exported by Typer itself
_UsageError: type[Exception] = typer.BadParameter.__base__  # type: ignore[assignment]

# a command, or a Typer application with commands of its own
COMMANDS = Registry(
    "command",
    {
        "check": "veridical.cli.check:check_command",
        "batch": "veridical.cli.batch:batch_command",
        "revise": "veridical.cli.revise:revise_command",
        "serve": "veridical.cli.serve:serve_command",
        "detectors": "veridical.cli.detectors:detectors_command",
        "calibrate": "veridical.cli.calibrate:calibrate_command",
        "schema": "veridical.cli.schema:schema_command",
        "version": "veridical.cli.version:version_command",
    },
    group="veridical.commands",
)


def _app(names: Iterable[str] = ()) -> typer.Typer:
    """The application with some of the commands; nothing of the others is imported."""
    built = typer.Typer(
        name="veridical",
        help="Find what in a generated text its sources do not support, what it leaves out, and how certain that is.",
        epilog="Exit codes: 0 nothing flagged · 1 something flagged · 2 usage or input error · 3 could not be judged",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    for name in names or (*COMMANDS.table, *sorted(COMMANDS.plugins)):
        command = COMMANDS.load(name)
        panel = None if name in COMMANDS.table else f"Commands of {COMMANDS.package(name)}"
        if isinstance(command, typer.Typer):
            built.add_typer(command, name=name, rich_help_panel=panel)
        else:
            built.command(name, rich_help_panel=panel)(command)
    return built


def __getattr__(name: str) -> Any:
    if name == "app":
        return _app()
    raise AttributeError(name)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit code; every failure with a known cause is one line on standard error."""
    _prepare_streams()
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except (KeyboardInterrupt, typer.Abort):
        return _fail("interrupted; nothing half-written was left", 130)
    except (BrokenPipeError, SystemExit):
        # SystemExit is how rich and Typer end a process whose output has no reader; nothing else raises it
        _discard(sys.stdout)
        return _fail("the reader of the output went away", 141)
    except OSError as error:
        try:
            sys.stdout.flush()
        except OSError:  # it may be what failed
            _discard(sys.stdout)
        return _fail(_cause(error), 2)
    return code


def _prepare_streams() -> None:
    """Make standard output take every text, and a stream that the caller closed take it for nothing."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - it lasts as long as the process
        elif name == "stdout" and isinstance(stream, io.TextIOWrapper):
            codecs.register_error("veridical.escape", _escape)
            stream.reconfigure(errors="veridical.escape")


def _escape(error: UnicodeError) -> tuple[str, int]:
    r"""Write what an encoding lacks as JSON does (\uXXXX), so that a document stays JSON in every encoding."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


def _cause(error: OSError) -> str:
    """Say in one line what could not be read or written, and why."""
    what = "input or output failed" if error.filename is None else os.fsdecode(error.filename)
    return " ".join(f"{what}: {error.strerror or error}".split())


def _discard(stream: TextIO) -> None:
    """Send what is still buffered nowhere, or the interpreter would fail on it at exit."""
    with suppress(OSError):  # a stream without a file has nothing left
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _run(arguments: list[str] | None) -> int:
    try:
        given = sys.argv[1:] if arguments is None else arguments
        named = [name for name in given[:1] if name in COMMANDS]
        # a group even of one command, which Typer would otherwise run without its name
        code = get_group(_app(named))(arguments, standalone_mode=False)
    except VeridicalError as error:
        return _fail(str(error), error.exit_code)
    except _UsageError as error:
        return _usage(error)
    if code == 130:  # what newer Typer makes of Ctrl-C
        raise KeyboardInterrupt
    return code if isinstance(code, int) else 0


def _usage(error: Any) -> int:
    """The line and exit code of an error of the command-line library."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return 2
    command = getattr(error.ctx, "command_path", "veridical") if getattr(error, "ctx", None) else "veridical"
    return _fail(f"{' '.join(error.format_message().split())} (see: {command} --help)", 2)


def _fail(line: str, code: int) -> int:
    try:
        sys.stderr.write(f"veridical: {line}\n")
        sys.stderr.flush()
    except OSError:  # nobody can be told; the code still says it
        _discard(sys.stderr)
    return code
