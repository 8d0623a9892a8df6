"""Sheets of answers to label: a table, JSON Lines, or tasks for Label Studio. They show nothing of the detector."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path

from veridical.core.errors import InputError
from veridical.core.files import write_whole
from veridical.rate.rows import Run, RunRow

__all__ = ["LABEL_STUDIO_CONFIG", "write_sheet"]

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
    """Write `rows` of `run` for people to fill in the column `wrong` with yes or no.

    Args:
        path: A file that ends in .csv, .tsv, .jsonl, or .json for tasks of Label Studio. The labelling config of the
            project (`LABEL_STUDIO_CONFIG`) is then written next to it, with the ending .xml.
        run: The run.
        rows: The rows to label.

    Raises:
        InputError: The ending is another one, or the file exists: people may have filled it in.
        OutputError: The file cannot be written.
    """
    ending = path.suffix.lower()
    if ending not in (".csv", ".tsv", ".jsonl", ".json"):
        raise InputError(f"the ending {ending!r} is of no sheet", hint=".csv, .tsv, .jsonl, or .json for Label Studio")
    config = path.with_suffix(".xml")
    for file in (path, config) if ending == ".json" else (path,):
        if file.exists():
            raise InputError(f"{file} exists", hint="name another file, or give a sheet that is filled in as --labels")
    answers = run.answers(rows)
    lines = [{"row": row.row, "id": row.id, **answers.get(row.row, {})} for row in rows]
    if ending == ".json":
        write_whole(path, json.dumps([{"data": line} for line in lines], ensure_ascii=False, indent=1) + "\n")
        write_whole(config, LABEL_STUDIO_CONFIG + "\n")
    elif ending == ".jsonl":
        write_whole(path, "".join(json.dumps({**line, "wrong": None}, ensure_ascii=False) + "\n" for line in lines))
    else:
        text = io.StringIO(newline="")
        table = csv.DictWriter(text, _COLUMNS, restval="", delimiter="\t" if ending == ".tsv" else ",")
        table.writeheader()
        table.writerows(lines)
        write_whole(path, "\ufeff" + text.getvalue())  # the mark lets spreadsheets read UTF-8
