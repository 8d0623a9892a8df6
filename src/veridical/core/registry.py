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
    def _plugins(self) -> dict[str, EntryPoint]:
        return {e.name: e for e in entry_points(group=self.group)}

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({*self.table, *self._plugins}))

    def __contains__(self, name: object) -> bool:
        return name in self.table or name in self._plugins

    def load(self, name: str) -> Any:
        """The object called `name`, imported now; `UnknownNameError` with the nearest names if there is none."""
        if name in self.table:
            module, _, attribute = self.table[name].partition(":")
            loaded = import_module(module)
            return getattr(loaded, attribute) if attribute else loaded
        if name in self._plugins:
            return self._plugins[name].load()
        raise UnknownNameError(self.kind, name, self)
