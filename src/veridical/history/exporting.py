"""Write decisions for other tools: a table as CSV, and tasks with annotations for Label Studio."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Iterable
from typing import Any

from veridical.history.records import DecisionRow
from veridical.io.serialization import encode
from veridical.records.spans import Span
from veridical.records.types import Case, Example
from veridical.workflows.rate.sheet import cell_of_text

_COLUMNS = (
    *("number", "id", "action", "source", "start", "end", "words", "text", "reason", "label", "error", "missed"),
    *("by", "at", "drawn", "probability"),
)
_QUESTION = "Mark the smallest spans of the response that would have to change for the sources to support it."


def decisions_csv(rows: Iterable[DecisionRow]) -> str:
    """Write people's decisions as a CSV table, with one row for each decision.

    The column `words` has the words that the decision is about. If a spreadsheet would interpret a text as a formula, a
    quote is put in front of it.
    """
    text = io.StringIO(newline="")
    table = csv.writer(text)
    table.writerow(_COLUMNS)
    for row in rows:
        one = row.decision
        text_of_place = row.case.response if one.source is None else row.case.source(one.source).text
        place = "" if one.start is None or one.end is None else text_of_place[one.start : one.end]
        details = (one.text, one.reason, one.label, one.error, int(one.missed))
        values = (row.number, row.case.id, one.action, one.source, one.start, one.end, place, *details)
        table.writerow(map(cell_of_text, (*values, row.by, row.at, row.drawn, row.probability)))
    return "\ufeff" + text.getvalue()  # the mark lets spreadsheets read UTF-8


def label_studio_tasks(examples: Iterable[Example]) -> list[dict[str, Any]]:
    """Convert labelled examples to Label Studio tasks, in which the hallucinated spans are already annotated.

    The tasks fit a project with the config of `veridical annotate config spans`. Offsets count code points.
    """
    return [_task(example) for example in examples]


def _task(example: Example) -> dict[str, Any]:
    case = example.case
    wrong = [verdict for verdict in example.gold.verdicts if verdict.score >= 0.5]
    about = {
        "kind": "spans/1",
        "case": case.id,
        "part": "",
        "hash": hashlib.sha256(encode(case).encode()).hexdigest()[:16],
    }
    data = {
        "asked": case.question or "(none)",
        "source": "\n\n".join(source.text for source in case.sources),
        "response": case.response,
        "question": _QUESTION,
        "veridical": about,
    }
    return {"data": data, "annotations": [{"result": [_region(case, verdict.span) for verdict in wrong]}]}


def _region(case: Case, span: Span) -> dict[str, Any]:
    value = {"start": span.start, "end": span.end, "text": span.of(case.response), "labels": ["hallucinated"]}
    names = {"from_name": "hallucination", "to_name": "response", "type": "labels"}
    return {"id": f"hallucination-{span.start}-{span.end}", **names, "value": value}
