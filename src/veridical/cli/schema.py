"""`veridical schema`."""

from __future__ import annotations

import json
from typing import Annotated

import typer


def schema_command(
    kind: Annotated[str, typer.Argument(help="case, judgement, example, check or revision")] = "case",
) -> None:
    """Print the JSON Schema of a document: what `check` reads (case) and what it writes (check)."""
    from veridical.core.serialization import schema

    typer.echo(json.dumps(schema(kind), indent=2, ensure_ascii=False))
