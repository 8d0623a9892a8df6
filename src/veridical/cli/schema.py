"""`veridical schema`."""

from __future__ import annotations

import json
import sys
from typing import Annotated

from typer import Argument


def schema_command(
    kind: Annotated[str, Argument(metavar="KIND", help="case, judgement, example, check or revision.")] = "case",
) -> None:
    """Print the JSON Schema of a document that Veridical reads or writes.

    [bold]veridical schema case[/bold]    what `veridical check` reads
    [bold]veridical schema check[/bold]   what `veridical check --json` writes
    """
    from veridical.core.serialization import schema

    sys.stdout.write(json.dumps(schema(kind), indent=2, ensure_ascii=False) + "\n")
