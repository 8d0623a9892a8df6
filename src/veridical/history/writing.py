"""Write cases as rows of the tables."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, bindparam, insert, select, update

from veridical.history import search
from veridical.history.records import Row
from veridical.history.sentences import sentence_counts
from veridical.history.tables import CASES, DOCUMENTS, FACETS, NO_SCORE, clean
from veridical.io.serialization import encode
from veridical.records.strings import shorten
from veridical.records.types import Case, Checked
from veridical.workflows.batch.records import JudgedRow, judged_row

_LONGEST_ID = 200  # PostgreSQL indexes no value of over 2.7 kB
_BEGINNING = 160  # characters of a response in the table of cases


def listed_id(id: str) -> str:
    """Shorten an id for lists and indexes: an id of over 200 characters becomes its beginning and a hash."""
    text = clean(id)
    if len(text) <= _LONGEST_ID:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{text[: _LONGEST_ID - 14]}… {digest}"


def insert_rows(connection: Connection, run: str, rows: Sequence[Row], first: int) -> list[int]:
    """Store rows as cases of a run, numbered from `first`, and return the primary keys of the cases.

    A case gets the outcome "waiting", or "failed" if the row has a problem.
    """
    if not rows:
        return []
    empty = {"score": NO_SCORE, "omission": NO_SCORE, "flagged": 0, "cause": "", "decided": 0, "version": 0}
    values = [
        {
            **empty,
            "run": run,
            "number": number,
            "row": row.row,
            "name": listed_id(row.name),
            "outcome": "failed" if row.problem else "waiting",
            "beginning": shorten(row.text, _BEGINNING),
            "problem": row.problem,
        }
        for number, row in enumerate(rows, first)
    ]
    connection.execute(insert(CASES), values)
    wanted = select(CASES.c.id).where(CASES.c.run == run, CASES.c.number >= first).order_by(CASES.c.number)
    keyed = list(zip(connection.execute(wanted).scalars(), rows, strict=True))
    documents = [
        {"case": key, "body": row.body, "fields": json.dumps(row.fields) if row.fields else None} for key, row in keyed
    ]
    connection.execute(insert(DOCUMENTS), documents)
    search.add(connection, [(key, row.search) for key, row in keyed if row.search])
    labels = [{"case": key, "value": shorten(row.label, 100)} for key, row in keyed if row.label is not None]
    if labels:
        connection.execute(insert(FACETS).values(run=run, kind="label"), labels)
    return [key for key, _ in keyed]


def store_results(
    connection: Connection, run: str, results: Sequence[tuple[int, Checked | str]], *, index: bool = False
) -> None:
    """Store the results of cases, given as pairs of the case's primary key and its result or the reason of a failure.

    Set `index` if the texts are not in the search index yet. Cases that were deleted in the meantime are skipped.
    """
    wanted = select(CASES.c.id).where(CASES.c.id.in_([key for key, _ in results]))
    present = set(connection.execute(wanted).scalars())
    facets: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    bodies: list[dict[str, Any]] = []
    texts: list[tuple[int, str]] = []
    for key, checked in results:
        if key not in present:
            continue
        if isinstance(checked, str):
            failed = update(CASES).where(CASES.c.id == key).values(outcome="failed", problem=checked)
            connection.execute(failed)
            continue
        judged = judged_row(0, None, checked)
        rows.append({"key": key, **_columns(checked, judged)})
        bodies.append({"key": key, "body": encode(checked)})
        texts.append((key, search_text(checked.case)))
        facets += (
            {"case": key, "run": run, "kind": kind, "value": value} for kind, value in _facets(checked, judged.kinds)
        )
    if rows:
        connection.execute(update(CASES).where(CASES.c.id == bindparam("key")), rows)
        connection.execute(update(DOCUMENTS).where(DOCUMENTS.c.case == bindparam("key")), bodies)
    if facets:
        connection.execute(insert(FACETS), facets)
    if index:
        search.add(connection, texts)


def search_text(case: Case) -> str:
    """Return the text that a search for a case looks through: its id, question and response."""
    return f"{case.id} {case.question or ''} {case.response}"


def _columns(checked: Checked, judged: JudgedRow) -> dict[str, Any]:
    pairs = zip(checked.judgements, checked.decisions, strict=True)
    flagged = (judgement.verdicts[i].score for judgement, decision in pairs for i in decision.verdicts)
    scores = [score for score in (judged.hallucination, *flagged) if score is not None]
    return {
        "outcome": checked.outcome.value,
        "score": max(scores, default=NO_SCORE),
        "omission": NO_SCORE if judged.omission is None else judged.omission,
        "flagged": judged.flagged + judged.left_out,
        **sentence_counts(checked),
        "cause": "" if checked.cause is None else checked.cause.kind.value,
        "beginning": shorten(checked.case.response, _BEGINNING),
    }


def _facets(checked: Checked, kinds: Sequence[str]) -> Iterator[tuple[str, str]]:
    for source in checked.case.sources:
        yield "source", listed_id(source.id)
    for kind in kinds:
        yield "kind", listed_id(kind)
    pairs = zip(checked.judgements, checked.decisions, strict=True)
    for name in {judgement.by for judgement, decision in pairs if decision.outcome.value == "flagged"}:
        yield "detector", listed_id(name)
