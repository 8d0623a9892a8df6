"""Take the defaults of options from environment variables and from a settings file.

An option on the command line comes first, then the variable VERIDICAL_OPTION, then the settings file, and then the
built-in default.

You can name the settings file with `--settings` or `$VERIDICAL_SETTINGS`. Otherwise, Veridical looks in the current
folder for `veridical.toml`, and then for `[tool.veridical]` in `pyproject.toml`. Options at the top of the file hold
for every command that has them, and options in a table such as `[serve]` hold for that command only.

A file that you did not name may come from a stranger, together with its folder. Such a file must not set a key, an
address or a file to write.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import typer

from veridical.io.files import read_text
from veridical.records.errors import DataError, UnknownNameError
from veridical.records.strings import visible_line

COMMANDS = ("check", "batch", "revise", "serve")
"""The commands whose options may be set."""

PREFIX = "VERIDICAL_"
CHAT = "chat"
CHAT_TYPES: dict[str, type | tuple[type, ...]] = {
    "temperature": (int, float),
    "retries": int,
    "per_minute": (int, float),
    "headers": dict,
    "body": dict,
}
NEVER = "new_key"  # it is no setting
_TRUSTED_METAVARS = ("FILE", "NAME=FILE", "URL", "HOST:PORT", "ADDRESS", "ORIGIN", "VARIABLE")
_TRUSTED_CHAT = ("headers", "body")
_IN_SPECS = re.compile(r"\b(key_env|base_url|cache|headers|body)\s*=")


@dataclass(frozen=True)
class Settings:
    """The content of a settings file, which sets defaults of command-line options.

    Attributes:
        path: The file. None if there is no settings file.
        table: The parsed TOML: options for all commands by name, and a table of options for each command.
        named: True if the user named the file and therefore trusts it. If false, it was found in the current folder.
    """

    path: Path | None = None
    table: Mapping[str, Any] = field(default_factory=dict)
    named: bool = False

    def chat(self) -> dict[str, Any]:
        """Return the settings in the table `[chat]`, as keyword arguments of `Connection` such as `temperature`.

        There are no command-line options for these settings.

        Raises:
            DataError: A name is unknown, a value has the wrong type, or only a file that the user named may set it.
        """
        values = _plain(self.table.get(CHAT, {}), self.path, f"[{CHAT}]")
        self._check_trust(f"[{CHAT}]: ", next((name for name in values if name in _TRUSTED_CHAT), None))
        for name, value in values.items():
            if name not in CHAT_TYPES:
                error = UnknownNameError("setting of chat models", name, CHAT_TYPES)
                raise DataError(error.message, path=self.path, hint=error.hint)
            if not isinstance(value, CHAT_TYPES[name]) or isinstance(value, bool):
                raise DataError(f"[{CHAT}]: {name} is {value!r}", path=self.path, hint="see: veridical init")
        return values

    def defaults(self, name: str, options: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values that the file sets for the options of a command, after validation.

        Args:
            name: The name of the command.
            options: The options of the command, by name.
            others: The options of all commands. The file may set them at the top, outside of the commands' tables.

        Raises:
            DataError: An option is unknown, or only a file that the user named may set it.
        """
        own = _plain(self.table.get(name, {}), self.path, f"[{name}]")
        shared = _plain({k: v for k, v in self.table.items() if k not in (*COMMANDS, CHAT)}, self.path, "the file")
        for place, values, known in (("", shared, others), (f"[{name}]: ", own, options)):
            for option, value in values.items():
                if option not in known or option == NEVER:
                    error = UnknownNameError("option", option, set(known) - {NEVER})
                    raise DataError(f"{place}{error.message}", path=self.path, hint=error.hint)
                taken = _value(value, known[option])
                in_spec = _IN_SPECS.search("\n".join(map(str, taken if isinstance(taken, list) else [taken])))
                self._check_trust(place, option if needs_trust(known[option]) else in_spec and in_spec[1])
        values = {**shared, **own}
        return {option: _value(values[option], options[option]) for option in options if option in values}

    def _check_trust(self, place: str, option: str | None) -> None:
        """Raise `DataError` if a file that is only found sets `option`, which names a key, an address or a file."""
        if option is not None and not self.named:
            raise DataError(
                f"{place}{option} cannot be set here: a settings file that comes with a folder could send your texts "
                "or keys to another server, or overwrite your files",
                path=self.path,
                hint=f"if you trust it: --settings {self.path}",
            )


def _plain(values: Any, path: Path | None, what: str) -> dict[str, Any]:
    if not isinstance(values, dict):
        raise DataError(f"{what} is not a table", path=path)
    return {name.replace("-", "_"): value for name, value in values.items()}


def _value(value: Any, option: Any) -> Any:
    """Return a value of TOML as the option takes it: a table or a list may stand for a text with commas."""
    if isinstance(value, dict):
        value = ",".join(f"{name}={each}" for name, each in value.items())
    if option.multiple:
        return value if isinstance(value, list) else [value]
    return ",".join(map(str, value)) if isinstance(value, list) else value


def needs_trust(option: Any) -> bool:
    """Check whether a command-line option may only be set by a settings file that the user has named.

    These are the options that name a key, an address or a file, and `log_text`. A file that was only found in the
    current folder may come from a stranger.
    """
    return option.metavar in _TRUSTED_METAVARS or option.name == "log_text"


def read_settings(named: Path | None = None) -> Settings:
    """Parse the settings file `named`, or otherwise the one found in the current folder.

    This is `veridical.toml`, or the table `[tool.veridical]` of `pyproject.toml`. If there is neither, the settings are
    empty.

    Raises:
        DataError: The file cannot be read.
    """
    for path in [named] if named else [Path("veridical.toml"), Path("pyproject.toml")]:
        if not named and not path.is_file():
            continue
        try:
            table = tomllib.loads(read_text(path))
        except ValueError as error:  # also for an integer of too many digits
            raise DataError(f"not TOML: {error}", path=path) from None
        except RecursionError:
            raise DataError("TOML that is nested too deeply", path=path) from None
        for name in ("tool", "veridical") if path.name == "pyproject.toml" else ():
            table = table.get(name, {})
            if not isinstance(table, dict):
                raise DataError(f"{name!r} is not a table", path=path)
        if table or named:
            return Settings(path, table, named is not None)
    return Settings()


def use_settings(context: typer.Context, named: Path | None) -> Path | None:
    """Make the settings file the source of defaults for the current command. This is the callback of `--settings`.

    Args:
        context: The context of the command. Its `obj` is a function that returns the options of all commands.
        named: The file that the user named, if any.

    Returns:
        `named`, the value of the option.
    """
    if context.resilient_parsing:  # a shell completes the line
        return named
    settings = read_settings(named)
    name, options = context.command.name, options_of(context.command)
    if name in COMMANDS and settings.table:
        if settings.table.keys() <= {*options, *COMMANDS, CHAT}:
            others = options
        else:  # an option of another command stands in the file, or an unknown one
            others = {option: each for of_one in context.obj().values() for option, each in of_one.items()}
        context.default_map = settings.defaults(name, options, others)
    if settings.path and not settings.named and (context.default_map or settings.chat()):
        sys.stderr.write(f"veridical: settings from {visible_line(str(settings.path))}\n")
    return named


def options_of(command: Any) -> dict[str, Any]:
    """Return the options of a click command by name, except those that are handled first (--help, --settings)."""
    return {p.name: p for p in command.params if p.param_type_name == "option" and not p.is_eager}


def add_variables(command: Any) -> None:
    """Let each option of a command take its value from an environment variable, such as VERIDICAL_DETECTOR."""
    for name, option in options_of(command).items():
        option.envvar, option.show_envvar = f"{PREFIX}{name.upper()}", False
