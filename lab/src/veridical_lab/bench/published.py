"""Results printed in papers, as data.

Reports show these results beside measured rows and mark them as the paper's. They are never mixed with measured rows.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from veridical.records.errors import UnknownNameError

_FOLDER = "published"


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """One table of a paper. Each named row has one value of `metric` per column.

    A value is None if the paper prints a dash.
    """

    name: str
    about: str
    metric: str
    columns: list[str]
    rows: dict[str, list[float | None]]


@dataclass(frozen=True, slots=True)
class Published:
    """The results in one paper. Each of `statements` has the place in the paper, the claim, and the value."""

    citation: str
    model: str
    note: str
    tables: tuple[PublishedTable, ...]
    statements: tuple[tuple[str, str, float | list[float]], ...]


def published(name: str) -> Published:
    """Load the figures of a paper.

    Raises:
        UnknownNameError: We have no figures of a paper called `name`.

    >>> published("chwang2024").tables[0].columns
    ['CDM', 'CF', 'E2E']
    """
    folder = files("veridical_lab.bench") / _FOLDER
    names = sorted(entry.name.removesuffix(".json") for entry in folder.iterdir() if entry.name.endswith(".json"))
    if name not in names:
        raise UnknownNameError("paper", name, names)
    body: dict[str, Any] = json.loads((folder / f"{name}.json").read_text("utf-8"))
    return Published(
        body["citation"],
        body["model"],
        body["note"],
        tuple(PublishedTable(**table) for table in body["tables"]),
        tuple((s["where"], s["what"], s["value"]) for s in body["statements"]),
    )
