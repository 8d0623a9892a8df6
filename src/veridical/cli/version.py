"""`veridical version`."""

from __future__ import annotations

import typer

import veridical


def version_command() -> None:
    """Print the version."""
    typer.echo(veridical.__version__)
