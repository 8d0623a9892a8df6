"""Figures that papers print, as data: to stand beside measured rows, marked as the paper's, and never among them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from veridical.bench.table import Table
from veridical.core.errors import UnknownNameError

__all__ = ["Published", "published"]

_FOLDER = "published"


@dataclass(frozen=True, slots=True)
class Published:
    """What one paper prints: `tables` as they stand there (None: a dash), and `statements` with a number in them."""

    citation: str
    model: str
    note: str
    tables: tuple[Table, ...]
    metrics: tuple[str, ...]
    values: tuple[dict[str, list[float | None]], ...]
    statements: tuple[tuple[str, str, float | list[float]], ...]


def published(name: str) -> Published:
    """The figures of the paper called `name`; `UnknownNameError` for one that is not there.

    >>> published("chwang2024").tables[0].head
    ['theirs', 'CDM', 'CF', 'E2E']
    """
    folder = files("veridical.bench") / _FOLDER
    known = sorted(entry.name.removesuffix(".json") for entry in folder.iterdir() if entry.name.endswith(".json"))
    if name not in known:
        raise UnknownNameError("paper", name, known)
    body: dict[str, Any] = json.loads((folder / f"{name}.json").read_text("utf-8"))
    return Published(
        body["citation"],
        body["model"],
        body["note"],
        tuple(_table(table, body["model"]) for table in body["tables"]),
        tuple(table["metric"] for table in body["tables"]),
        tuple(table["rows"] for table in body["tables"]),
        tuple((s["where"], s["what"], s["value"]) for s in body["statements"]),
    )


def _table(body: dict[str, Any], model: str) -> Table:
    lines = [[row, *("–" if v is None else f"{v:.2f}" for v in values)] for row, values in body["rows"].items()]
    title = f"the paper's {body['name']}: {body['metric']}, {body['about']}"
    return Table(title, ["theirs", *body["columns"]], lines, f"not measured here; {model}")
