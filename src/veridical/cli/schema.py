"""`veridical schema`."""

from __future__ import annotations

import json
from typing import Annotated

import typer


def schema_command(
    kind: Annotated[
        str | None, typer.Argument(help="A kind of document, such as case or check.", show_default=False)
    ] = None,
) -> None:
    """Print the JSON Schema of a kind of document, or list the kinds.

    `case` is what `check` reads; the others are what `--json` and `--out` of the commands write.
    """
    from veridical.core.serialization import KINDS, schema

    if kind is None:
        typer.echo("\n".join(KINDS))
    else:
        typer.echo(json.dumps(schema(kind), indent=2, ensure_ascii=False))
