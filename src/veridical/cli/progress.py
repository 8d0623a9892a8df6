"""A progress bar for commands that take long."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

__all__ = ["counted", "progress_bar"]

T = TypeVar("T")


@contextmanager
def progress_bar() -> Iterator[Callable[[str, int, int | None], None]]:
    """A progress bar on standard error, where somebody looks at it."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    shown = console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=not shown, redirect_stdout=False) as bar:
        tasks: dict[str, int] = {}

        def show(label: str, done: int, total: int | None) -> None:
            if label not in tasks:
                tasks[label] = bar.add_task(label, total=total)
            bar.update(tasks[label], completed=done)  # type: ignore[arg-type]

        yield show


def counted(items: Iterable[T], label: str) -> Iterator[T]:
    """The items, with their count on standard error where somebody looks at that and they go elsewhere."""
    if sys.stdout.isatty() or not sys.stderr.isatty():
        yield from items
        return
    with progress_bar() as show:
        show(label, 0, None)
        for n, item in enumerate(items, 1):
            yield item
            show(label, n, None)
