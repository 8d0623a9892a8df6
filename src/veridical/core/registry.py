"""Registries: a table of names to "module:object" (or "module"), plus an entry-point group for plugins.

An entry is imported when it is loaded, never before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from veridical.core.errors import InputError, UnknownNameError

__all__ = ["Registry"]


class Registry:
    """Objects of one kind by name; other packages add to them with the entry-point group `group`.

    An entry point cannot replace a name of the table.
    """

    def __init__(self, kind: str, table: Mapping[str, str], group: str) -> None:
        self.kind = kind
        self.table = dict(table)
        self.group = group

    @cached_property
    def plugins(self) -> dict[str, EntryPoint]:
        """The entry points of other packages by name, without those whose name is in the table."""
        return {entry.name: entry for entry in entry_points(group=self.group) if entry.name not in self.table}

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({*self.table, *self.plugins}))

    def __contains__(self, name: object) -> bool:
        return name in self.table or name in self.plugins

    def name_of(self, target: str) -> str | None:
        """Return the name of the object at `target`, "module:object"; None if it is not registered."""
        for name, ours in self.table.items():  # plugins are looked up only if it is none of ours
            if ours == target:
                return name
        return next((name for name, entry in self.plugins.items() if entry.value == target), None)

    def package(self, name: str) -> str:
        """Return the name of the distribution that the plugin called `name` comes from."""
        distribution = self.plugins[name].dist
        return distribution.name if distribution else "another package"

    def load(self, name: str) -> Any:
        """Import and return the object called `name`.

        Raises:
            UnknownNameError: If there is none.
            InputError: If a plugin cannot be imported.
        """
        if name in self.table:
            module, _, attribute = self.table[name].partition(":")
            loaded = import_module(module)
            return getattr(loaded, attribute) if attribute else loaded
        if name not in self.plugins:
            raise UnknownNameError(self.kind, name, self)
        try:
            return self.plugins[name].load()
        except Exception as error:
            package = self.package(name)
            raise InputError(
                f"the {self.kind} {name!r} of {package} cannot be loaded ({type(error).__name__}: {error})",
                hint=f"update {package}, or uninstall it",
            ) from error
