"""`veridical version`: print the version."""

from __future__ import annotations

import sys

import veridical


def version_command() -> None:
    """Print the version of Veridical.

    [bold]veridical version[/bold]
    """
    sys.stdout.write(f"{veridical.__version__}\n")
