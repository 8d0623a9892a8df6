"""One visible table of names to "module:object" (or "module") per registry, plus one entry-point group for plugins.

An entry is loaded when it is asked for, never before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from veridical.core.errors import UnknownNameError

__all__ = ["Registry"]


class Registry:
    """Names to things of one kind; `group` is the entry-point group that other packages may add to.

    A name of our own cannot be taken over by an entry point.
    """

    def __init__(self, kind: str, table: Mapping[str, str], group: str) -> None:
        self.kind = kind
        self.table = dict(table)
        self.group = group

    @cached_property
    def plugins(self) -> dict[str, EntryPoint]:
        """The entry points of other packages by name, without those whose name is taken."""
        return {entry.name: entry for entry in entry_points(group=self.group) if entry.name not in self.table}

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({*self.table, *self.plugins}))

    def __contains__(self, name: object) -> bool:
        return name in self.table or name in self.plugins

    def target(self, name: str) -> str:
        """Where the object called `name` is: "module:object" or "module"."""
        return self.table[name] if name in self.table else self.plugins[name].value

    def package(self, name: str) -> str:
        """The name of the distribution that a plugin comes from."""
        distribution = self.plugins[name].dist
        return distribution.name if distribution else "another package"

    def load(self, name: str) -> Any:
        """The object called `name`, imported now; `UnknownNameError` with the nearest names if there is none."""
        if name not in self:
            raise UnknownNameError(self.kind, name, self)
        module, _, attribute = self.target(name).partition(":")
        loaded = import_module(module)
        return getattr(loaded, attribute) if attribute else loaded
