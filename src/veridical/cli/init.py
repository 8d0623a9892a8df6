"""`veridical init`: write a settings file with every option as a comment."""

from __future__ import annotations

import json
import os
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from typer import Argument

from veridical.cli.options import write_line
from veridical.cli.settings import NEVER, needs_trust

HEAD = """\
# Settings of Veridical. Remove the "#" before an option to set it.
# The command line comes first, then the variable VERIDICAL_OPTION (VERIDICAL_DETECTOR, say), then this file.
# In pyproject.toml the same options stand under [tool.veridical].
# Options marked with (named) name keys, addresses or files: they need --settings FILE, or $VERIDICAL_SETTINGS.
"""
CHAT = """
# How chat models are asked.
[chat]
# Sampling temperature of every request.
# temperature = 0.0
# How many times a failed request is repeated.
# retries = 4
# Most requests a minute.
# per_minute = 60
# (named) Further headers and fields of each request.
# headers = { "X-Team" = "search" }
# body = { "reasoning_effort" = "low" }
"""


def init_command(
    file: Annotated[Path, Argument(metavar="FILE", help="The file to write; it must not exist.")] = Path(
        "veridical.toml"
    ),
) -> int:
    """Write a settings file for check, batch, revise and serve that contains every option as a comment.

    [bold]veridical init[/bold]
    """
    from veridical.io.files import write_whole
    from veridical.records.errors import OutputError

    if os.path.lexists(file):  # also a link to nowhere
        raise OutputError(f"{file} exists", hint="name another file, or remove it first")
    write_whole(file, "".join(settings_text()))
    write_line(f"wrote {file}")
    return 0


def settings_text() -> Iterator[str]:
    """Yield the pieces of a settings file in TOML, with every option as a comment.

    The options that several commands share come first, and then a table with the other options of each command.
    """
    from veridical.cli import settable_options

    by_command = settable_options()
    names = [name for options in by_command.values() for name in options if name != NEVER]
    shared = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    yield HEAD
    first = {name: option for options in reversed(by_command.values()) for name, option in options.items()}
    yield from _lines(shared, first)
    yield CHAT
    for command, options in by_command.items():
        yield f"\n[{command}]\n"
        yield from _lines((name for name in options if name not in shared and name != NEVER), options)


def _lines(names: Iterable[str], options: Mapping[str, Any]) -> Iterator[str]:
    for name in names:
        option = options[name]
        about = f"{'(named) ' * needs_trust(option)}{' '.join(option.help.split())}"
        yield "".join(f"# {line}\n" for line in textwrap.wrap(about, 110))
        yield f"# {name} = {_example(option)}\n"


def _example(option: Any) -> str:
    """Return the default of an option in TOML, else a word for its value."""
    default = option.default() if callable(option.default) else option.default
    if isinstance(default, bool | int | float | str):
        return json.dumps(default)
    if option.multiple:
        return "[]"
    return json.dumps(option.metavar or "NUMBER")
