"""`veridical schema`."""

from __future__ import annotations

import json
import sys
from typing import Annotated

from typer import Argument


def schema_command(
    kind: Annotated[str | None, Argument(metavar="KIND", help="A kind of document, such as case or check.")] = None,
) -> None:
    """Print the JSON Schema of a kind of document, or list the kinds.

    [bold]veridical schema[/bold]
    [bold]veridical schema case > case.schema.json[/bold]

    `case` is what `veridical check` reads; the others are what --json and --out of the commands write.
    """
    from veridical.core.serialization import KINDS, schema

    text = "\n".join(KINDS) if kind is None else json.dumps(schema(kind), indent=2, ensure_ascii=False)
    sys.stdout.write(text + "\n")
