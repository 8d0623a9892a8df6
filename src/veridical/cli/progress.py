"""Show the progress of long commands, as a bar in a terminal or as lines in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar() -> Iterator[Callable[[str, int, int | None], None]]:
    """Show a progress bar if standard error is a terminal, and yield the function that updates it.

    Call this function with a label, the number of steps done, and the total number of steps. If you do not know the
    total, pass None.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
    from rich.progress import TimeRemainingColumn as TimeLeft
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text("" if task.speed is None else f"{_rate(task.speed)} a second")

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Rate(), TimeLeft())
    hidden = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=hidden, redirect_stdout=False) as bar:
        tasks: dict[str, int] = {}

        def show(label: str, done: int, total: int | None) -> None:
            if label not in tasks:
                # start from what an earlier run did, so that it does not count in the rate
                tasks[label] = bar.add_task(label, total=total, completed=done)
            bar.update(tasks[label], completed=done)  # type: ignore[arg-type]

        yield show


def progress_lines(
    write: Callable[[str], None], *, every: float = 30.0, clock: Callable[[], float] = time.monotonic
) -> Callable[[str, int, int | None], None]:
    """Return a function with the same arguments as that of `progress_bar`, which writes lines for a log.

    Args:
        write: Writes a line.
        every: The seconds between two lines.
        clock: Returns the current time in seconds.
    """
    first: tuple[float, int] | None = None
    last = 0.0

    def show(label: str, done: int, total: int | None) -> None:
        nonlocal first, last
        now = clock()
        if first is None:
            first, last = (now, done), now
        if now - last < every or total is None:
            return
        last = now
        rate = (done - first[1]) / (now - first[0])
        left = f", {_duration((total - done) / rate)} left" if rate > 0 else ""
        write(f"{label}: {done:,} of {total:,}, {_rate(rate)} a second{left}")

    return show


def _rate(per_second: float) -> str:
    return f"{per_second:,.0f}" if per_second >= 10 else f"{per_second:.2g}"


def _duration(seconds: float) -> str:
    """Return a time as text.

    >>> _duration(40), _duration(3725)
    ('40 s', '1 h 2 min')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"


@contextmanager
def count_of(label: str, total: Callable[[], int | None] = lambda: None) -> Iterator[Callable[[int], None]]:
    """Show a count on standard error, and yield the function that updates it.

    The count is shown only if standard error is a terminal and standard output is not. `total` returns the number that
    the count can reach, or None if it is not known.
    """
    if sys.stdout.isatty() or not sys.stderr.isatty():
        yield lambda n: None
        return
    with progress_bar() as show:
        number = total()
        show(label, 0, number)
        yield lambda n: show(label, n, number)
