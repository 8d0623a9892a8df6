"""Read the labels that people gave to the answers of a run: wrong, or not wrong.

Labels can be in tables, in JSON Lines, in our own records, and in exports of Label Studio.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from veridical.io.json_values import json_values
from veridical.io.serialization import TAG, decode
from veridical.io.tables import csv_table
from veridical.records.errors import DataError, InputError
from veridical.records.types import GOLD_THRESHOLD, Checked, Example, Judgement
from veridical.workflows.rate.rows import Run, highest_score
from veridical.workflows.rate.sheet import text_of_cell

_VALUES = {
    **dict.fromkeys(("yes", "y", "true", "1", "1.0", "wrong"), True),
    **dict.fromkeys(("no", "n", "false", "0", "0.0", "right"), False),
    **dict.fromkeys(("", "?", "cannot say"), None),
}
_NUMBER = re.compile(r"[+-]?\d+(?:[.,]\d+)?(?:[eE][+-]?\d{1,3})?")
_HINT = "a column (or key) wrong with yes, no, or nothing for no label, and the row or id of the answer"


@dataclass(frozen=True, slots=True)
class Labels:
    """The labels that people gave to the answers of a run.

    Attributes:
        wrong: The label of each labelled answer (True if it is wrong), by the number of the answer's row.
        skipped: The number of labels that were not used, by reason, such as {"people disagree": 2}.
    """

    wrong: Mapping[int, bool]
    skipped: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Label:
    """A label as read from a file. `row` and `id` identify the answer, and `where` is the place to name in messages."""

    where: str
    row: int | None
    id: str | None
    wrong: bool | None


def read_labels(paths: Sequence[Path], run: Run) -> Labels:
    """Read label files, and match each label to a row of the run.

    If a row has several labels, the majority decides. Ties, empty labels, and labels of rows that are not in the run
    are skipped and counted.

    Args:
        paths: The files. Each is a sheet that `write_sheet` wrote and people filled in (.csv, .tsv, .jsonl), an export
            of Label Studio (JSON, JSON-MIN, CSV), or a JSON Lines file with labelled examples, or with a person's
            results or judgements (`by` begins with "human:").
        run: The run that was labelled.

    Raises:
        DataError: A file has another extension, or cannot be parsed.
        InputError: A label is neither yes nor no, or names its row only by an id that several rows have. Or the row has
            another id than the label says, so that the label may belong to another run.
    """
    rows = {row.row: row for row in run.rows}
    ids = Counter(row.id for row in run.rows)
    row_of = {row.id: row.row for row in run.rows}
    votes: dict[int, Counter[bool]] = {}
    skipped: Counter[str] = Counter()
    for path in paths:
        for label in _read(path):
            if label.wrong is None:
                skipped["no label"] += 1
                continue
            if label.row is None and ids[label.id or ""] > 1:
                raise InputError(
                    f"{label.where}: {ids[label.id or '']} rows have the id {label.id!r}", hint="give the row's number"
                )
            number = label.row if label.row is not None else row_of.get(label.id or "")
            row = rows.get(number) if number is not None else None
            if row is None:
                skipped["no such row in the run"] += 1
                continue
            if label.id is not None and _as_shown(label.id) != _as_shown(row.id):
                raise InputError(
                    f"{label.where}: row {row.row} has the id {row.id!r}, not {label.id!r}",
                    hint="labels of another run?",
                )
            votes.setdefault(row.row, Counter())[label.wrong] += 1
    tied = [row for row, counts in votes.items() if counts[True] == counts[False]]
    if tied:
        skipped["people disagree"] = len(tied)
    wrong = {row: counts[True] > counts[False] for row, counts in sorted(votes.items()) if row not in tied}
    return Labels(wrong, dict(skipped))


def _as_shown(id: str) -> str:
    """Change an id as a spreadsheet may: strip leading zeros from a number, and the apostrophe from a text.

    >>> _as_shown("049"), _as_shown("'-a"), _as_shown("1.50"), _as_shown("x7 ")
    ('49', '-a', '1.5', 'x7')
    """
    text = id.strip().removeprefix("'").strip()
    if not _NUMBER.fullmatch(text):
        return text
    number = float(text.replace(",", "."))
    return f"{number:.15g}" if abs(number) < 1e11 else f"{number:.6g}"


def _read(path: Path) -> Iterator[_Label]:
    ending = path.suffix.lower()
    if ending in (".csv", ".tsv"):
        for line, cells in csv_table(path):
            if isinstance(cells, DataError):
                raise cells
            texts = {name: cell and text_of_cell(cell) for name, cell in cells.items()}
            yield _label(texts, f"{path}:{line}")
    elif ending in (".json", ".jsonl", ".ndjson"):
        for value in json_values(path, on_constant=lambda: None):
            if isinstance(value.value, DataError):
                raise value.value
            yield from _json_labels(value.value, f"{path}:{value.line}")
    else:
        raise DataError(f"the ending {ending!r} is of no file of labels", path=path, hint=".csv, .tsv, .jsonl or .json")


def _json_labels(value: object, where: str) -> Iterator[_Label]:
    """Read the label in a JSON object. If the object is a task of Label Studio, read one label for each annotation."""
    if isinstance(value, dict) and isinstance(value.get("annotations"), list) and isinstance(value.get("data"), dict):
        for annotation in value["annotations"]:
            yield _label({**value["data"], "wrong": _choice(annotation, where)}, where)
    else:
        yield _label(value, where)


def _choice(annotation: Any, where: str) -> str | None:
    """Read the choice in an annotation of Label Studio. Return None if the person made no choice."""
    try:
        results = [] if annotation.get("was_cancelled") else annotation["result"]
        choices = [result["value"]["choices"][0] for result in results if result.get("from_name") == "wrong"]
    except (AttributeError, KeyError, IndexError, TypeError):
        raise InputError(f"{where} is no annotation of Label Studio", hint="export the project as JSON") from None
    return str(choices[0]) if choices else None


def _label(value: object, where: str) -> _Label:
    if not isinstance(value, dict):
        raise InputError(f"{where}: not a JSON object", hint=_HINT)
    if TAG in value:
        return _record_label(value, where)
    if "wrong" not in value or not {"row", "id"} & value.keys():
        raise InputError(f"{where}: no {'row or id' if 'wrong' in value else repr('wrong')}", hint=_HINT)
    given = value["wrong"]
    text = "" if given is None else str(given).strip().casefold()
    if text not in _VALUES:
        raise InputError(f"{where}: wrong is {given!r}", hint=_HINT)
    row, id = value.get("row"), value.get("id")
    try:
        number = None if row is None or row == "" else int(row)
    except (TypeError, ValueError):
        raise InputError(f"{where}: the row is {row!r}", hint="the number of the row, from 1") from None
    return _Label(where, number, None if id is None or id == "" else str(id), _VALUES[text])


def _record_label(value: Mapping[str, Any], where: str) -> _Label:
    """Read the label in an example, or in a person's judgement. A detector's judgement is not a label."""
    try:
        record = decode(value)
    except InputError as error:
        raise InputError(f"{where}: {error.message}", hint=error.hint) from None
    judgements = record.judgements if isinstance(record, Checked) else (record,)
    by_people = [one for one in judgements if isinstance(one, Judgement) and one.by.startswith("human:")]
    gold = record.gold if isinstance(record, Example) else by_people[-1] if by_people else None
    if gold is None:
        raise InputError(f"{where}: {value[TAG]!r} holds no judgement by a person", hint='its "by" is "human:…"')
    score = highest_score(gold)
    return _Label(where, None, gold.case_id, None if score is None else score >= GOLD_THRESHOLD)
