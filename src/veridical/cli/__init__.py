"""The command line, with one file per command. Only this package touches the process (exit code, signals, streams).

The exit codes are:

* 0: nothing was flagged.
* 1: something was flagged.
* 2: there was an error in usage, input or output.
* 3: some cases could not be judged.
* 70: there is a bug in Veridical (set by `veridical.__main__`).
* 130: the command was interrupted. `serve` returns 0 then.
* 141: the reader closed the output.
* 143: the command was terminated by SIGTERM (set by `veridical.__main__`). `serve` returns 0 then.
"""

from __future__ import annotations

import codecs
import io
import json
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import Annotated, Any, TextIO

import typer
from typer.main import get_command

import veridical
from veridical.cli.settings import COMMANDS as SETTABLE
from veridical.cli.settings import add_variables, options_of, read_settings
from veridical.io.files import NAME_ENCODING
from veridical.records.errors import InputError, VeridicalError
from veridical.records.registry import Registry
from veridical.records.strings import visible_line

__all__ = ["COMMANDS", "LAB_COMMANDS", "app", "main", "settable_options"]

COMPLETION = "_VERIDICAL_COMPLETE"  # how a shell asks Typer for completions

# the class of click, or of the copy of click in newer releases of Typer; Typer exports neither
_UsageError: type[Exception] = typer.BadParameter.__base__  # type: ignore[assignment]

# a command, or a Typer application with commands of its own
COMMANDS = Registry(
    "command",
    {
        "check": "veridical.cli.check:check_command",
        "batch": "veridical.cli.batch:batch_command",
        "causes": "veridical.cli.causes:causes_command",
        "rate": "veridical.cli.rate:rate_command",
        "revise": "veridical.cli.revise:revise_command",
        "serve": "veridical.cli.serve:serve_command",
        "detectors": "veridical.cli.detectors:detectors_command",
        "models": "veridical.cli.models:models_app",
        "calibrate": "veridical.cli.calibrate:calibrate_command",
        "schema": "veridical.cli.schema:schema_command",
        "init": "veridical.cli.init:init_command",
    },
    group="veridical.commands",
)

LAB_COMMANDS = frozenset(
    (
        "adapt",
        "analyse",
        "annotate",
        "answer",
        "bench",
        "data",
        "export",
        "guard",
        "kb",
        "papers",
        "reproduce",
        "salience",
        "train",
    )
)
"""The commands of veridical-lab, which may not be installed."""


def _app(names: Iterable[str] | None = None) -> typer.Typer:
    """Return the application with the commands `names` (default: all), without importing the others."""
    application = typer.Typer(
        name="veridical",
        epilog="Exit codes: 0 nothing flagged · 1 something flagged · 2 usage or input error · 3 could not be judged",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @application.callback()
    def options(
        version: Annotated[
            bool, typer.Option("--version", help="Print the version and exit.", callback=_show_version, is_eager=True)
        ] = False,
    ) -> None:
        """Find the parts of a generated text that its sources do not support, and what it leaves out of them."""

    for name in (*COMMANDS.table, *sorted(COMMANDS.plugins)) if names is None else names:
        try:
            command = COMMANDS.load(name)
        except InputError as error:  # a broken plugin must not hide the other commands
            if names is not None:
                raise
            sys.stderr.write(f"veridical: {visible_line(str(error))}\n")
            continue
        panel = None if name in COMMANDS.table else f"Commands of {COMMANDS.package(name)}"
        if isinstance(command, typer.Typer):
            application.add_typer(command, name=name, rich_help_panel=panel)
        else:
            application.command(name, rich_help_panel=panel)(command)
    return application


def _show_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"{veridical.__version__}\n")
        raise typer.Exit


def settable_options() -> dict[str, dict[str, Any]]:
    """Return the options that a settings file (`veridical.toml`) may set, as a dict by command and then by name."""
    commands: dict[str, Any] = get_command(_app(SETTABLE)).commands  # type: ignore[attr-defined]
    return {name: options_of(command) for name, command in commands.items()}


def __getattr__(name: str) -> Any:
    if name == "app":
        return _app()
    raise AttributeError(name)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit code. Known errors are reported as one line on stderr."""
    _prepare_streams()
    # let torch's threads sleep while they wait: beside a busy process, training is about twice as fast
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except (KeyboardInterrupt, typer.Abort):
        return _fail("interrupted; nothing half-written was left", 130)
    except (BrokenPipeError, SystemExit) as stop:
        if isinstance(stop, SystemExit) and COMPLETION in os.environ:  # a shell asks how a line can go on
            return stop.code if isinstance(stop.code, int) else 0
        # rich and Typer raise SystemExit when nobody reads the output any more; nothing else raises it
        _discard(sys.stdout)
        return _fail("the reader of the output went away", 141)
    except OSError as error:
        try:
            sys.stdout.flush()
        except OSError:  # standard output may be what failed
            _discard(sys.stdout)
        return _fail(_cause(error), 2)
    return code


def _prepare_streams() -> None:
    """Let standard output encode every text, and replace a stream that the caller closed by the null device."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - it lasts as long as the process
        elif name == "stdout" and isinstance(stream, io.TextIOWrapper):
            codecs.register_error("veridical.escape", _escape)
            stream.reconfigure(errors="veridical.escape")


def _escape(error: UnicodeError) -> tuple[str, int]:
    r"""Write characters that the encoding lacks as \uXXXX, so that JSON stays valid in every encoding."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


def _cause(error: OSError) -> str:
    """Return one line: the file that could not be read or written, and why."""
    subject = "input or output failed" if error.filename is None else os.fsdecode(error.filename)
    return " ".join(f"{subject}: {error.strerror or error}".split())


def _discard(stream: TextIO) -> None:
    """Redirect the stream to the null device, so that the interpreter does not fail at exit on buffered output."""
    with suppress(OSError):  # the stream has no file descriptor
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _run(arguments: list[str] | None) -> int:
    group: Any = None
    first_word = (sys.argv[1:] if arguments is None else arguments)[:1]
    names = [name for name in first_word if name in COMMANDS]
    try:
        if not names and LAB_COMMANDS.issuperset(first_word) and first_word:
            raise InputError(
                f"{first_word[0]} is a command of veridical-lab, which is not installed",
                hint="from a checkout: pip install ./lab",
            )
        group = get_command(_app(names if names or first_word == ["--version"] else None))
        for name in set(names).intersection(SETTABLE):
            add_variables(group.commands[name])
        code = group(arguments, standalone_mode=False, obj=settable_options)
    except VeridicalError as error:
        parameters = [one for command in group.commands.values() for one in command.params] if group else []
        if error.hint == NAME_ENCODING and not any("--encoding" in one.opts for one in parameters):
            error.hint = "save it as UTF-8"
        return _fail(str(error), error.exit_code)
    except _UsageError as error:
        return _usage(error, " ".join(["veridical", *names]))
    if code == 130:  # newer Typer returns this code for Ctrl-C
        raise KeyboardInterrupt
    return code if isinstance(code, int) else 0


def _usage(error: Any, called: str) -> int:
    """Report an error of the command-line library about the command `called`, and return the exit code 2."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return 2
    command = error.ctx.command_path if getattr(error, "ctx", None) else called
    return _fail(f"{' '.join(error.format_message().split())}{_origin(error)} (see: {command} --help)", 2)


def _origin(error: Any) -> str:
    """Return where a wrong value was set if that is not the command line."""
    context, option = getattr(error, "ctx", None), getattr(error, "param", None)
    source = context.get_parameter_source(option.name) if context and option else None
    if context is None or option is None or source is None:
        return ""
    if source.name == "ENVIRONMENT":
        return f", set by {option.envvar}"
    if source.name == "DEFAULT_MAP":
        return f", set in {read_settings(context.params.get('settings')).path}"
    return ""


def _fail(line: str, code: int) -> int:
    try:
        sys.stderr.write(f"veridical: {visible_line(line)}\n")
        sys.stderr.flush()
    except OSError:  # standard error is closed: only the exit code can tell
        _discard(sys.stderr)
    return code
