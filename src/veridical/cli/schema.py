"""`veridical schema`: print the JSON Schemas of the documents that the commands read and write."""

from __future__ import annotations

import json
import sys
from typing import Annotated

from typer import Argument


def schema_command(
    kind: Annotated[
        str | None,
        Argument(
            metavar="KIND", help="A kind of document, such as case or check. If you name none, the kinds are listed."
        ),
    ] = None,
) -> None:
    """Print the JSON Schema of a kind of document, or list the kinds.

    [bold]veridical schema[/bold]
    [bold]veridical schema case > case.schema.json[/bold]

    `veridical check` reads documents of the kind `case`. The commands write the other kinds with --json and --out.
    """
    from veridical.io.serialization import KINDS, schema

    text = "\n".join(KINDS) if kind is None else json.dumps(schema(kind), indent=2, ensure_ascii=False)
    sys.stdout.write(text + "\n")
