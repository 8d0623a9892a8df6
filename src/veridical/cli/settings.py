"""Defaults of options from environment variables and from a settings file.

The command line comes first, then the variable VERIDICAL_OPTION, then the settings file, then the built-in default.
The file is `$VERIDICAL_SETTINGS`, else `veridical.toml`, else `[tool.veridical]` of `pyproject.toml`, in the current
folder. Its options hold for every command that has them, those of a table such as `[serve]` for that command.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from veridical.core.errors import DataError, UnknownNameError
from veridical.core.files import read_text

__all__ = ["COMMANDS", "PREFIX", "Settings", "add_variables", "options_of", "read_settings"]

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
NEVER = {
    "key_env": "a settings file that comes with a folder could send your key to another server",
    "proxy_key_env": "a settings file that comes with a folder could send your key to another server",
    "new_key": "it is no setting",
}


@dataclass(frozen=True)
class Settings:
    """What a settings file holds.

    Attributes:
        path: The file; None if there is none.
        table: Its options, and tables of options by command.
    """

    path: Path | None = None
    table: Mapping[str, Any] = field(default_factory=dict)

    def chat(self) -> dict[str, Any]:
        """Return how chat models are asked, by the names of `Connection`'s fields that have no option.

        Raises `DataError` for an unknown name, or a value of the wrong type.
        """
        values = _plain(self.table.get(CHAT, {}), self.path, f"[{CHAT}]")
        for name, value in values.items():
            if name not in CHAT_TYPES:
                error = UnknownNameError("setting of chat models", name, CHAT_TYPES)
                raise DataError(error.message, path=self.path, hint=error.hint)
            if not isinstance(value, CHAT_TYPES[name]) or isinstance(value, bool):
                raise DataError(f"[{CHAT}]: {name} is {value!r}", path=self.path, hint="see: veridical init")
        return values

    def defaults(self, name: str, options: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values for the `options` (by name) of the command `name`; raise `DataError` for an unknown one.

        `others` are the options of all commands, which may stand outside of tables.
        """
        own = _plain(self.table.get(name, {}), self.path, f"[{name}]")
        shared = _plain({k: v for k, v in self.table.items() if k not in (*COMMANDS, CHAT)}, self.path, "the file")
        for place, values, known in (("", shared, others), (f"[{name}]: ", own, options)):
            for option in values:
                if option in NEVER:
                    raise DataError(f"{place}{option} cannot be set here: {NEVER[option]}", path=self.path)
                if option not in known:
                    error = UnknownNameError("option", option, set(known) - NEVER.keys())
                    raise DataError(f"{place}{error.message}", path=self.path, hint=error.hint)
        values = {**shared, **own}
        return {option: _value(values[option], options[option]) for option in options if option in values}


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


def read_settings() -> Settings:
    """Return the settings that hold in the current folder; raise `DataError` for a file that cannot be read."""
    named = os.environ.get(PREFIX + "SETTINGS")
    for path in [Path(named)] if named else [Path("veridical.toml"), Path("pyproject.toml")]:
        if not named and not path.is_file():
            continue
        try:
            table = tomllib.loads(read_text(path))
        except tomllib.TOMLDecodeError as error:
            raise DataError(f"not TOML: {error}", path=path) from None
        if path.name == "pyproject.toml":
            table = table.get("tool", {}).get("veridical", {})
        if table or named:
            return Settings(path, table)
    return Settings()


def options_of(command: Any) -> dict[str, Any]:
    """Return the options of a command by name, without --help."""
    return {p.name: p for p in command.params if p.param_type_name == "option" and not p.is_eager}


def add_variables(command: Any) -> None:
    """Let each option of a command take its value from the variable VERIDICAL_OPTION."""
    for name, option in options_of(command).items():
        option.envvar, option.show_envvar = f"{PREFIX}{name.upper()}", False
