"""Parse the rows of an uploaded file and store them in a history. After an interruption, continue where it stopped."""

from __future__ import annotations

import json
import logging
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from veridical.history.records import NotKeptError, Row, UnavailableError
from veridical.history.store import History
from veridical.history.writing import search_text
from veridical.io.columns import LABELS
from veridical.io.files import ROW_ENDINGS, check_encoding, ending_of
from veridical.io.rows import Columns, RowForm, RowReader, SourceRow
from veridical.io.serialization import encode
from veridical.records.errors import DataError, InputError, VeridicalError
from veridical.server.observation import log
from veridical.server.requests import check_size, refuse_addresses
from veridical.server.settings import Limits

_AT_ONCE = 500  # rows that are stored together
_SHOWN = 20_000  # most characters that are stored of a row that is not a case
_LABELS = ("label", "hallucinated", "is_hallucinated", "hallucination")


def check_file(name: str, form: dict[str, Any]) -> None:
    """Validate an upload before it is stored: its name must end like a file of rows, and its encoding must be known.

    Args:
        name: The name of the file.
        form: How to parse the file (`ImportParams.form`).

    Raises:
        InputError: The file is of another kind, or Python does not know the encoding.
    """
    if ending_of(name) not in ROW_ENDINGS:
        hint = f"one of {', '.join(ROW_ENDINGS)} (text files may be gzipped: .csv.gz)"
        raise InputError(f"the ending of {name!r} is not of a file of rows", hint=hint)
    check_encoding(form.get("encoding") or "utf-8")


def read_upload(history: History, run: str, limits: Limits, stopped: Callable[[], bool]) -> None:
    """Parse the uploaded file of a run, and store its rows as cases that wait to be judged.

    A row that contains no case is stored, too, together with the reason why it contains none. A row may be as large as
    the body of a request.

    Args:
        history: The history with the run.
        run: The id of the run.
        limits: The limits of the server, which hold for each case.
        stopped: Called now and then. If it returns True, the function returns early. The next call continues after the
            last stored row.

    Raises:
        NotKeptError: The run was deleted meanwhile.
        UnavailableError: The database cannot be used at present.
    """
    file, body = history.upload(run)
    form = history.run(run).about["form"]
    most = history.most_cases
    done = history.rows_read(run)
    problem = ""
    with tempfile.TemporaryDirectory(prefix="veridical-") as folder:
        packed = ".gz" if file.lower().endswith(".gz") else ""
        path = Path(folder) / f"file{ending_of(file)}{packed}"  # a client's file name may not be valid here
        path.write_bytes(body)
        columns = Columns(**{**form["columns"], "sources": tuple(form["columns"]["sources"])})
        rows_as = RowForm(columns, form["encoding"] or "utf-8", form["delimiter"], max_bytes=limits.body_bytes)
        reader = RowReader(path, rows_as)
        rows: list[Row] = []
        count = done
        try:
            for number, row in enumerate(_rows(reader), 1):
                if number <= done:
                    continue
                if most is not None and count >= most:
                    problem = f"the history keeps {most:,} cases at most, so the rows from {number:,} on are left out"
                    break
                rows += _rows_of(reader, row, number, limits)
                count += 1
                if len(rows) >= _AT_ONCE:
                    history.add_rows(run, rows)
                    rows = []
                    if stopped():
                        return
        except (NotKeptError, UnavailableError):  # from the history; rows that it did not store are read again
            raise
        except VeridicalError as error:
            problem = str(error)
        history.add_rows(run, rows)
        if not count and not problem:
            problem = "no rows in it"
        problem = problem.replace(str(path), file)
    history.all_read(run, problem)


def _rows(reader: RowReader) -> Iterator[SourceRow]:
    """Yield the rows of a file. If the reader raises any error, the file counts as unreadable from there on."""
    try:
        yield from reader.rows()
    except VeridicalError:
        raise
    except Exception as error:
        log("failure", logging.ERROR, error)
        raise DataError("the file cannot be read further", hint="is it damaged?") from error


def _rows_of(reader: RowReader, row: SourceRow, number: int, limits: Limits) -> Iterator[Row]:
    """Yield the cases in a row, or the row itself with the reason why it contains no case."""
    content = {} if isinstance(row.content, DataError) else row.content
    kept = {name: content[name] for name in (*LABELS, "group") if content.get(name) is not None}
    fields: dict[str, Any] = json.loads(json.dumps(kept, default=str))  # Excel has dates, Parquet any type
    labels = (str(fields[name]) for name in _LABELS if isinstance(fields.get(name), str | int | float))
    label = next(filter(None, labels), None)
    try:
        cases = reader.cases(row, str(number))
        for case in cases:
            check_size(case, limits)
            refuse_addresses(case.sources, "the case")
        bodies = [encode(case) for case in cases]
    except VeridicalError as error:
        text = row.text or json.dumps(content, ensure_ascii=False, default=str)
        shown = text[:_SHOWN].encode("utf-8", "replace").decode()
        problem = str(error).replace(f"{reader.path}:", "row ")
        yield Row(row=number, name=str(number), text=shown, search=shown, fields={"row": shown}, problem=problem)
        return
    for case, body in zip(cases, bodies, strict=True):
        words = search_text(case)
        yield Row(row=number, name=case.id, body=body, text=case.response, search=words, fields=fields, label=label)
