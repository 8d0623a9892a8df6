"""Print tables in a terminal, with one line per figure if the terminal is too narrow for a result table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from veridical.report.tables import Table, narrow

if TYPE_CHECKING:
    from rich.console import Console


def print_tables(tables: Iterable[Table], console: Console | None = None) -> None:
    """Print each table to a console, which is standard output by default.

    A table with the column "not judged" that is too wide for the console is printed with one line per figure.
    """
    from rich.console import Console
    from rich.table import Table as RichTable

    console = console or Console(highlight=False, markup=False, emoji=False)
    for table in tables:
        widths = [max(len(line[i]) for line in [table.head, *table.lines]) for i in range(len(table.head))]
        wide = sum(widths) + 3 * len(widths) >= console.width
        fitting = narrow(table) if wide and "not judged" in table.head else table
        grid = RichTable(title=table.title, caption=table.foot, title_justify="left", caption_justify="left")
        for name in fitting.head:
            grid.add_column(name, overflow="fold")
        for line in fitting.lines:
            grid.add_row(*line)
        console.print(grid)
