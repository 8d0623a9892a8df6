"""Look up objects by name, in a table or among the plugins of other packages.

The table maps names to "module:object" (or "module"). Plugins are found through a group of entry points. An object is
imported only when you load it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

from veridical.records.errors import InputError, UnknownNameError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_TABLES: defaultdict[str, dict[str, str]] = defaultdict(dict)


def register(group: str, table: Mapping[str, str]) -> None:
    """Add names to the `Registry` with this `group`, even if that registry is created only later.

    `table` maps each name to "module:object", the place to import from.
    """
    _TABLES[group].update(table)


class Registry:
    """Looks up objects of one kind, such as detectors, by name, and imports them when they are loaded.

    Other packages can add objects as plugins, through entry points. An entry point cannot replace a name in `table`.

    Attributes:
        kind: What the names stand for, such as "detector". Error messages use this word.
        table: Maps each name to "module:object".
        group: The name of the entry-point group of the plugins, such as "veridical.forms".
    """

    def __init__(self, kind: str, table: Mapping[str, str], group: str) -> None:
        self.kind = kind
        self.table = _TABLES[group]
        self.table.update(table)
        self.group = group

    @cached_property
    def plugins(self) -> dict[str, EntryPoint]:
        """The entry points of other packages by name, except those whose name is already in the table."""
        from importlib.metadata import entry_points  # takes as long to import as all of the root

        return {entry.name: entry for entry in entry_points(group=self.group) if entry.name not in self.table}

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({*self.table, *self.plugins}))

    def __contains__(self, name: object) -> bool:
        return name in self.table or name in self.plugins

    def name_of(self, target: str) -> str | None:
        """Return the name under which `target` ("module:object") is registered, or None if it is not registered."""
        for name, registered in self.table.items():  # plugins are looked up only if it is none of ours
            if registered == target:
                return name
        return next((name for name, entry in self.plugins.items() if entry.value == target), None)

    def package(self, name: str) -> str:
        """Return the name of the installed package (distribution) that contains the plugin `name`."""
        distribution = self.plugins[name].dist
        return distribution.name if distribution else "another package"

    def load(self, name: str) -> Any:
        """Import and return the object called `name`.

        Raises:
            UnknownNameError: No object has this name.
            InputError: The plugin cannot be imported.
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
