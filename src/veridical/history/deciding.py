"""Validate, load and audit people's decisions about places (spans of a response or of a source)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime

from sqlalchemy import Connection, insert, select

from veridical.history.records import PlaceDecision, StoredCase
from veridical.history.tables import AUDIT, DECISIONS
from veridical.records.errors import InputError, UnknownNameError

Place = tuple[str | None, int | None, int | None]


def now() -> str:
    """Return the current time in UTC, as a text that sorts by time."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def written(decision: PlaceDecision) -> str:
    """Convert a person's decision to the JSON that the database stores. Fields that are None or False are omitted."""
    return json.dumps(
        {name: value for name, value in asdict(decision).items() if value is not None and value is not False}
    )


def decisions_of(connection: Connection, case: int) -> dict[Place, tuple[PlaceDecision, int]]:
    """Load people's decisions about the places (spans) of a case, which is given by its primary key.

    The result maps each place (id of the source or None, start, end) to the decision and the decision's primary key.
    """
    wanted = select(DECISIONS.c.id, DECISIONS.c.body).where(DECISIONS.c.case == case).order_by(DECISIONS.c.id)
    read = [(read_decision(body), key) for key, body in connection.execute(wanted)]
    return {decision.place: (decision, key) for decision, key in read}


def read_decision(body: str) -> PlaceDecision:
    """Parse a decision from the JSON that the database stores (`written`)."""
    values = json.loads(body)
    if "cut" in values:
        values["cut"] = tuple(values["cut"])
    return PlaceDecision(**values)


def note(
    connection: Connection,
    by: str,
    what: str,
    run: str,
    number: int | None = None,
    decision: PlaceDecision | None = None,
) -> None:
    """Add a line to the audit log: who (`by`) did `what`, in which run and case, and at which place.

    Of the decision, only the place is logged, never a text.
    """
    start, end, source = (None, None, None) if decision is None else (decision.start, decision.end, decision.source)
    values = {"at": now(), "by": by, "what": what, "run": run, "number": number, "start": start, "end": end}
    connection.execute(insert(AUDIT).values(**values, in_source=int(source is not None)))


def check_places(case: StoredCase, decisions: Sequence[PlaceDecision]) -> None:
    """Validate people's decisions about a case before they are stored.

    Each decision must be about a different place (a span of the response or of a source). The place must lie inside its
    text, and the fields that the action needs must be set, such as `text` for "replace".

    Raises:
        InputError: A decision breaks one of these rules, or the case has not been judged yet.
        UnknownNameError: The case has no source of this id.
    """
    if case.document is None or case.document["veridical"].partition("/")[0] != "check":
        raise InputError(f"case {case.row.number} is not judged", hint="decide about it once it is")
    given = case.document["case"]
    sizes = {source["id"]: len(source["text"]) for source in given.get("sources", ())}
    size = len(given["response"])
    twice = [place for place, n in Counter(decision.place for decision in decisions).items() if n > 1]
    if twice:
        raise InputError(f"two decisions about the place {twice[0]}", hint="send one")
    for decision in decisions:
        source, start, end = decision.place
        if (start is None, end is None) != (decision.action == "rest",) * 2:
            raise InputError(f'"{decision.action}" with start {start} and end {end}', hint='only "rest" has no place')
        if source is not None and source not in sizes:
            raise UnknownNameError("source of the case", source, sizes)
        _check_span((start or 0, end or 0), size if source is None else sizes[source])
        if decision.cut is not None:
            _check_span(decision.cut, size)
        needed = {"replace": "text", "add": "text", "remove": "cut"}.get(decision.action)
        if needed is not None and getattr(decision, needed) is None:
            raise InputError(f'"{decision.action}" without "{needed}"')


def _check_span(span: tuple[int, int], size: int) -> None:
    if not 0 <= span[0] <= span[1] <= size:
        raise InputError(f"the place {list(span)} does not lie in its text of {size} characters")
