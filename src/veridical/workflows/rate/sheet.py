"""Write sheets of answers for people to label: tables, JSON Lines, or tasks for Label Studio.

The sheets hide the detector's findings from the people who label. In a table, a quote is put before each text that a
spreadsheet would take for a formula.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from veridical.io.files import write_whole
from veridical.records.errors import InputError
from veridical.workflows.rate.rows import Run, RunRow

_FORMULA = re.compile(r"'*\s*[=+\-@＝＋－＠]")
_COLUMNS = ("row", "id", "question", "response", "sources", "wrong")

LABEL_STUDIO_CONFIG = (
    "<View><Style>.htx-text{ white-space: pre-wrap; }</Style>"
    '<Header value="Sources"/><Text name="sources" value="$sources"/>'
    '<Header value="Question"/><Text name="question" value="$question"/>'
    '<Header value="Answer"/><Text name="response" value="$response"/>'
    '<Header value="Is anything in the answer wrong, or not in the sources?"/>'
    '<Choices name="wrong" toName="response" choice="single" required="true">'
    '<Choice value="yes"/><Choice value="no"/><Choice value="cannot say"/></Choices></View>'
)


def write_sheet(path: Path, run: Run, rows: Sequence[RunRow]) -> None:
    """Write answers of a run to a sheet, so that people can fill in the column `wrong` with yes or no.

    Args:
        path: The file to write, with the extension .csv, .tsv or .jsonl, or .json for tasks of Label Studio. With
            .json, a second file with the extension .xml is written next to it. It contains the labelling config for
            Label Studio (`LABEL_STUDIO_CONFIG`).
        run: The run (a set of judged answers) that the rows belong to.
        rows: The rows to label.

    Raises:
        InputError: The file has another extension, or exists already and may contain labels.
        OutputError: The file cannot be written.
    """
    ending = path.suffix.lower()
    if ending not in (".csv", ".tsv", ".jsonl", ".json"):
        raise InputError(f"the ending {ending!r} is of no sheet", hint=".csv, .tsv, .jsonl, or .json for Label Studio")
    config = path.with_suffix(".xml")
    for file in (path, config) if ending == ".json" else (path,):
        if os.path.lexists(file):
            raise InputError(f"{file} exists", hint="name another file, or give a sheet that is filled in as --labels")
    answers = run.answers(rows)
    lines = [{"row": row.row, "id": row.id, **answers.get(row.row, {})} for row in rows]
    if ending == ".json":
        write_whole(path, json.dumps([{"data": line} for line in lines], ensure_ascii=False, indent=1) + "\n")
        write_whole(config, LABEL_STUDIO_CONFIG + "\n", follow_link=False)
    elif ending == ".jsonl":
        write_whole(path, "".join(json.dumps({**line, "wrong": None}, ensure_ascii=False) + "\n" for line in lines))
    else:
        text = io.StringIO(newline="")
        table = csv.DictWriter(text, _COLUMNS, restval="", delimiter="\t" if ending == ".tsv" else ",")
        table.writeheader()
        for line in lines:
            table.writerow({name: cell_of_text(cell) for name, cell in line.items()})
        write_whole(path, "\ufeff" + text.getvalue())  # the mark lets spreadsheets read UTF-8


def cell_of_text(value: Any) -> Any:
    """Put a quote before a value that a spreadsheet would interpret as a formula. Return other values unchanged."""
    return f"'{value}" if _FORMULA.match(str(value)) else value


def text_of_cell(cell: str) -> str:
    """Undo `cell_of_text`: remove the quote before a text that a spreadsheet would interpret as a formula."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell
