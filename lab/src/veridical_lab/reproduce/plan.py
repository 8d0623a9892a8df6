"""Load the plan of a paper: its tables and figures, the commands that reproduce them, and the places of our results."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from veridical.records.errors import InputError, UnknownNameError
from veridical_lab.bench.published import published

PAPERS: Mapping[str, str] = {
    "chang2024": "Detecting hallucination and coverage errors in retrieval augmented generation (A)",
    "liu2022": "A token-level reference-free hallucination detection benchmark, HaDes (B)",
    "george2023": "Factored verification of summaries of academic papers (C)",
    "chwang2024": "Probes on hidden states: do androids know they're only dreaming of electric sheep? (D)",
}
"""The papers by name."""

VERSIONS = ("published", "local")
"""Use the paper's own data and models, or your own."""

_OF_CELLS = ("file", "columns", "value", "scale")  # "columns" are the columns of a row; without it, all columns


@dataclass(frozen=True, slots=True)
class Step:
    """A command of this program, without the program's name, and the file that the command makes.

    The command may have the placeholders {data}, {out} and {model:NAME}. With `capture`, its standard output is written
    to the file.
    """

    run: str
    makes: str
    capture: bool = False


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a paper's table, and where to find our result for it.

    Our result is in a JSON document in one of the files that match `file`, in a folder of results. `where` selects the
    document.

    Attributes:
        row: The row of the paper's table.
        column: The column of the paper's table.
        printed: The paper's value, or None if the paper prints no value here.
        file: Patterns of file names, separated by |.
        where: Conditions on the document: paths of fields, with dots, each with a regular expression for the value.
        value: The path of the result in the document.
        scale: The factor that converts our result to the paper's unit.
    """

    row: str
    column: str
    printed: float | None
    file: str
    where: Mapping[str, str]
    value: str
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class Version:
    """One way to make a table or figure.

    Attributes:
        needs: The data and models that the commands need: "data:NAME" (a folder or file), "model:NAME" and "chat" (a
            server with chat models).
        steps: The commands, in order.
        cells: The cells of the table, with the places of our results.
        examples: For a table of examples, the source of the labelled data: "KIND SET:PATH".
        plot: The picture that the last step makes in the folder of results, or None.
        differs: The differences from the paper's set-up.
        missing: Rows and columns of the paper's table without a result, and why.
    """

    needs: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()
    cells: tuple[Cell, ...] = ()
    examples: str | None = None
    plot: str | None = None
    differs: tuple[str, ...] = ()
    missing: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Exhibit:
    """A table or figure of a paper, with its name ("table 1"), title and metric, and its versions."""

    name: str
    title: str
    metric: str
    versions: Mapping[str, Version]


@dataclass(frozen=True, slots=True)
class Plan:
    """All reproducible tables and figures of a paper."""

    paper: str
    exhibits: tuple[Exhibit, ...]

    def chosen(self, names: Sequence[str]) -> tuple[Exhibit, ...]:
        """Look up tables and figures by name, such as "table 1". Without names, return all of them.

        Raises:
            InputError: The paper has no such table or figure.
        """
        by_name = {exhibit.name: exhibit for exhibit in self.exhibits}
        for name in names:
            if name not in by_name:
                raise InputError(f"{self.paper} has no {name} with data", hint=f"choose from {', '.join(by_name)}")
        return tuple(by_name[name] for name in names) or self.exhibits


def load_plan(paper: str) -> Plan:
    """Load the plan of a paper.

    Raises:
        UnknownNameError: The name is not one of `PAPERS`.

    >>> [exhibit.name for exhibit in load_plan("george2023").exhibits]
    ['table 1', 'table 2', 'table 3']
    """
    if paper not in PAPERS:
        raise UnknownNameError("paper", paper, PAPERS)
    text = (files("veridical_lab.reproduce") / "plans" / f"{paper}.toml").read_text("utf-8")
    body = tomllib.loads(text)
    tables = {table.name: table for table in published(paper).tables}
    exhibits = []
    for entry in body["exhibit"]:
        table = tables.get(entry["name"])
        figures = {
            (row, column): value
            for row, values in (table.rows.items() if table else ())
            for column, value in zip(table.columns if table else (), values, strict=True)
        }
        versions = {name: _version(entry[name], figures) for name in VERSIONS if name in entry}
        metric = entry.get("metric", table.metric if table else "")
        exhibits.append(Exhibit(entry["name"], entry["title"], metric, versions))
    return Plan(paper, tuple(exhibits))


def _version(body: Mapping[str, Any], figures: Mapping[tuple[str, str], float | None]) -> Version:
    steps = []
    for entry in body.get("steps", ()):
        for each in entry.get("each", ({},)):
            named = each if isinstance(each, dict) else {"each": each}
            run, makes = (_filled(entry[key], named) for key in ("run", "makes"))
            steps.append(Step(run, makes, entry.get("capture", False)))
    cells = []
    for row, of_row in body.get("rows", {}).items():
        columns = body.get("columns", {})
        for column in of_row.get("columns", columns):
            fields = {"file": body.get("file", ""), **of_row, **columns[column]}
            where = {name: value for name, value in fields.items() if name not in _OF_CELLS}
            cells.append(
                Cell(
                    row,
                    column,
                    figures.get((row, column)),
                    fields["file"],
                    where,
                    fields["value"],
                    float(fields.get("scale", 1.0)),
                )
            )
    for place, fields in body.get("cell", {}).items():
        row, _, column = place.partition("|")
        about = {"file": body.get("file", ""), **fields}
        printed = about.get("printed")
        cells.append(Cell(row, column, printed, about["file"], {}, about["value"], float(about.get("scale", 1.0))))
    return Version(
        needs=tuple(body.get("needs", ())),
        steps=tuple(steps),
        cells=tuple(cells),
        examples=body.get("examples"),
        plot=body.get("plot"),
        differs=tuple(body.get("differs", ())),
        missing=body.get("missing", {}),
    )


def _filled(text: str, each: Mapping[str, str]) -> str:
    for name, value in each.items():
        text = text.replace(f"{{{name}}}", value)
    return " ".join(text.split())
