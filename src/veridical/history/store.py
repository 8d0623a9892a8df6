"""Store runs, their cases and decisions in a database, and find, page and delete them."""

from __future__ import annotations

import base64
import json
import random
import secrets
import sqlite3
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, fields
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Connection, RowMapping, delete, func, insert, or_, select, tuple_, update
from sqlalchemy.exc import DBAPIError

from veridical.datasets.split import document_of
from veridical.detectors.calibrated import FittedCalibration
from veridical.history import sampling, search
from veridical.history.comparing import compare, trend
from veridical.history.database import open_database, problem_of, write_ahead
from veridical.history.deciding import check_places, decisions_of, note, now, read_decision, written
from veridical.history.labelling import example_of
from veridical.history.records import (
    AuditLine,
    CalibrationVersion,
    CasePage,
    CaseQuery,
    CaseRow,
    Comparison,
    DecidedSentence,
    DecisionRow,
    Decisions,
    Learning,
    NewRun,
    NotKeptError,
    PlaceDecision,
    Row,
    RunPage,
    RunRow,
    StaleError,
    StoredCase,
    TrendPoint,
    UnavailableError,
)
from veridical.history.sentences import decided, drawn
from veridical.history.tables import (
    AUDIT,
    CALIBRATIONS,
    CASES,
    DECISIONS,
    DOCUMENTS,
    FACETS,
    NO_SCORE,
    RUNS,
    SAMPLES,
    UPLOADS,
    clean,
    prepare,
)
from veridical.history.writing import insert_rows, listed_id, store_results
from veridical.io.serialization import decode, encode
from veridical.records.errors import InputError
from veridical.records.spans import Span
from veridical.records.types import Case, Checked, Example, Level

_AT_ONCE = 1000  # cases that are deleted at once
_PAUSE = 0.01  # seconds between two steps, so that waiting writers get the lock, which is not fair
_PAGES = 2000  # free pages of a file that are given back at once
_TREND = 100  # runs
_FACETS = 50  # values of one kind that a run offers as filters


class History:
    """Stores runs, their cases and people's decisions in a database. You can share it between threads.

    If the database cannot be used at present, each method raises `UnavailableError`.

    Args:
        place: The path of an SQLite file, or a URL such as postgresql://host/name.
        days: After how many days runs are deleted. None deletes no runs.
        cases: How many cases to keep at most. None keeps all cases.

    Raises:
        InputError: The place is neither a path nor such a URL, or the database cannot be opened.
        DataError: The database has other tables, lacks some tables of a history, or is from a later version of
            Veridical. It is left unchanged.
        MissingExtraError: The driver for PostgreSQL is not installed.
    """

    def __init__(self, place: str | Path, *, days: float | None = None, cases: int | None = None) -> None:
        self.days, self.most_cases = days, cases
        self._engine = open_database(place)
        self._dialect = self._engine.dialect.name
        self._writing = threading.Lock()
        try:
            with self._write() as connection:
                prepare(connection)
            write_ahead(self._engine)
            self._count = self._counted()
        except (DBAPIError, UnavailableError) as error:
            self.close()
            problem = problem_of(error) if isinstance(error, DBAPIError) else error.problem
            raise InputError(f"the history cannot be opened: {problem}", hint="check the path or URL") from None
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    @contextmanager
    def _write(self) -> Iterator[Connection]:
        with self._writing, self._engine.connect() as connection:
            connection = connection.execution_options(writes=True)
            with connection.begin():
                yield connection

    def _counted(self) -> int:
        with self._engine.connect() as connection:
            return int(connection.execute(select(func.count()).select_from(CASES)).scalar_one())

    # runs

    @property
    def is_full(self) -> bool:
        """True if there are more cases than the limit `cases` allows, so that `sweep` would delete some."""
        return self.most_cases is not None and self._count > self.most_cases

    def keep(self, run: NewRun, results: Sequence[Checked], *, sweep: bool = True) -> str:
        """Store a finished run (a set of cases that were checked together) with its results, and return its id.

        If there are too many cases now, the oldest are deleted, unless you set `sweep` to False.
        """
        with self._write() as connection:
            id = _begin(connection, run, "done")
            rows = [Row(row=i, name=checked.case.id) for i, checked in enumerate(results, 1)]
            keys = insert_rows(connection, id, rows, first=1)
            store_results(connection, id, list(zip(keys, results, strict=True)), index=True)
            self._count += len(results)
        if sweep and self.is_full:
            self.sweep()
        return id

    def begin_import(self, run: NewRun, file: str, body: bytes) -> str:
        """Store an uploaded file as a new run, and return the run's id. Its rows are parsed later (`add_rows`)."""
        with self._write() as connection:
            id = _begin(connection, run, "reading")
            connection.execute(insert(UPLOADS).values(run=id, file=file, body=body))
        return id

    def upload(self, run: str) -> tuple[str, bytes]:
        """Load the file that a run is importing, and return its name and its bytes.

        Raises:
            NotKeptError: The run is deleted.
        """
        with self._engine.connect() as connection:
            row = connection.execute(select(UPLOADS.c.file, UPLOADS.c.body).where(UPLOADS.c.run == run)).one_or_none()
        if row is None:
            raise _no_run(run)
        return str(row.file), bytes(row.body)

    def rows_read(self, run: str) -> int:
        """Return the number of the last stored row of a run's file, or 0 if no row is stored."""
        with self._engine.connect() as connection:
            return int(connection.execute(select(func.coalesce(func.max(CASES.c.row), 0)).where(_of(run))).scalar_one())

    def add_rows(self, run: str, rows: Sequence[Row]) -> None:
        """Store parsed rows of a run's file as cases that wait to be judged.

        Raises:
            NotKeptError: The run is deleted, or is being deleted.
        """
        with self._write() as connection:
            if connection.execute(select(RUNS.c.state).where(RUNS.c.id == run)).scalar() != "reading":
                raise _no_run(run)
            last = connection.execute(select(func.coalesce(func.max(CASES.c.number), 0)).where(_of(run))).scalar_one()
            insert_rows(connection, run, rows, first=last + 1)
            self._count += len(rows)

    def all_read(self, run: str, problem: str = "") -> None:
        """End the import of a run's file: delete the file, and let the judging begin.

        `problem` says which rows could not be stored.
        """
        with self._write() as connection:
            connection.execute(delete(UPLOADS).where(UPLOADS.c.run == run))
            of_run = (RUNS.c.id == run, RUNS.c.state == "reading")
            connection.execute(update(RUNS).where(*of_run).values(state="judging", problem=problem))
        if self.is_full:
            self.sweep()

    def waiting(self, run: str, count: int) -> list[tuple[int, Case]]:
        """Load the first `count` cases of a run that wait to be judged, as pairs (primary key, case)."""
        wanted = select(CASES.c.id, DOCUMENTS.c.body).join_from(CASES, DOCUMENTS)
        wanted = wanted.where(_of(run), CASES.c.outcome == "waiting").order_by(CASES.c.number).limit(count)
        with self._engine.connect() as connection:
            return [(key, decode(body, "case")) for key, body in connection.execute(wanted)]

    def store(self, run: str, results: Sequence[tuple[int, Checked | str]]) -> None:
        """Store the results of cases that `waiting` returned.

        Each result is a pair of the case's primary key and its result. If the check failed, the reason takes the place
        of the result.
        """
        with self._write() as connection:
            store_results(connection, run, results)

    def set_state(self, run: str, state: str, problem: str = "") -> None:
        """Set the state of a run to "reading", "judging", "paused" or "done".

        `problem` says what keeps the run from continuing. The state "done" is final. A run that is being deleted has
        this state, too.
        """
        with self._write() as connection:
            changes = update(RUNS).where(RUNS.c.id == run, RUNS.c.state != "done")
            connection.execute(changes.values(state=state, problem=problem))

    def unfinished(self) -> list[str]:
        """Return the ids of the runs that are not done, oldest first: their rows must still be imported or judged."""
        wanted = select(RUNS.c.id).where(RUNS.c.state != "done").order_by(RUNS.c.created, RUNS.c.id)
        with self._engine.connect() as connection:
            return list(connection.execute(wanted).scalars())

    def runs(self, *, limit: int = 50, cursor: str | None = None, name: str = "") -> RunPage:
        """Return a page of runs, newest first.

        Args:
            limit: How many runs to return at most.
            cursor: `next` of the page before. Default: the first page.
            name: A part of the file's name or of the run's id, to select runs. Default: all runs.

        Raises:
            InputError: The cursor is not one of an earlier page.
        """
        wanted = select(RUNS).order_by(RUNS.c.created.desc(), RUNS.c.id.desc()).limit(limit + 1)
        if name:
            parts = (func.lower(RUNS.c.name), RUNS.c.id)
            wanted = wanted.where(or_(*(part.contains(clean(name.lower()), autoescape=True) for part in parts)))
        if cursor is not None:
            wanted = wanted.where(tuple_(RUNS.c.created, RUNS.c.id) < tuple_(*_read_cursor(cursor, str, str)))
        with self._engine.connect() as connection:
            rows = list(connection.execute(wanted).mappings())
            runs = _run_rows(connection, rows[:limit])
        following = _cursor(runs[-1].created, runs[-1].id) if len(rows) > limit else None
        return RunPage(runs=tuple(runs), next=following)

    def run(self, id: str) -> RunRow:
        """Return the run with this id.

        Raises:
            NotKeptError: There is no such run.
        """
        with self._engine.connect() as connection:
            rows = _run_rows(connection, list(connection.execute(select(RUNS).where(RUNS.c.id == id)).mappings()))
        if not rows:
            raise _no_run(id)
        return rows[0]

    def facets(self, run: str) -> dict[str, dict[str, int]]:
        """Count the cases of a run for the most common values of each filter, so that a page can offer these values.

        The result maps each filter ("cause", "source", "kind" of error, "label", "detector") to its values, and each
        value to the number of cases that have it.
        """
        facets: dict[str, dict[str, int]] = {kind: {} for kind in ("cause", "source", "kind", "label", "detector")}
        count = func.count().label("n")
        causes = select(CASES.c.cause, count).where(_of(run), CASES.c.cause != "").group_by(CASES.c.cause)
        values = select(FACETS.c.kind, FACETS.c.value, count).where(FACETS.c.run == run)
        values = values.group_by(FACETS.c.kind, FACETS.c.value).order_by(count.desc(), FACETS.c.value)
        with self._engine.connect() as connection:
            facets["cause"] = dict(map(tuple, connection.execute(causes.order_by(count.desc()))))
            for kind, value, n in connection.execute(values):
                if len(facets[kind]) < _FACETS:
                    facets[kind][value] = n
        return facets

    def delete_run(self, id: str, *, by: str = "") -> None:
        """Delete a run with its cases and decisions, and overwrite their texts in the database.

        Raises:
            NotKeptError: There is no such run.
        """
        self._delete_run(id, by)
        self._purge()

    def _delete_run(self, id: str, by: str) -> int:
        with self._write() as connection:
            if not connection.execute(update(RUNS).where(RUNS.c.id == id).values(state="done")).rowcount:
                raise _no_run(id)
            note(connection, by, "delete run", id)
        deleted = self._delete_cases(_of(id))
        with self._write() as connection:
            connection.execute(delete(RUNS).where(RUNS.c.id == id))
        return deleted

    # cases

    def cases(self, run: str, query: CaseQuery) -> CasePage:
        """Return a page of the cases of a run that match the filters of `query`, in the order that it names.

        Raises:
            NotKeptError: There is no such run.
            InputError: The cursor is not one of an earlier page.
        """
        conditions = [_of(run), *self._conditions(query)]
        ends = [CASES.c[name] for name in dict.fromkeys((query.sort, "number"))]
        wanted = select(CASES).where(*conditions).limit(query.limit + 1)
        wanted = wanted.order_by(*(end.desc() if query.descending else end for end in ends))
        if query.cursor is not None:
            kinds = [str if end.name in ("name", "outcome", "cause") else float for end in ends]
            place, last = tuple_(*ends), tuple_(*_read_cursor(query.cursor, *kinds))
            wanted = wanted.where(place < last if query.descending else place > last)
        with self._engine.connect() as connection:
            if not connection.execute(select(RUNS.c.id).where(RUNS.c.id == run)).first():
                raise _no_run(run)
            total = connection.execute(select(func.count()).select_from(CASES).where(*conditions)).scalar_one()
            rows = list(connection.execute(wanted).mappings())
        page = rows[: query.limit]
        following = _cursor(*(page[-1][end.name] for end in ends)) if len(rows) > query.limit else None
        return CasePage(cases=tuple(map(_case_row, page)), total=total, next=following)

    def _conditions(self, query: CaseQuery) -> Iterator[ColumnElement[bool]]:
        if query.outcome:
            yield CASES.c.outcome.in_(query.outcome)
        if query.cause:
            yield CASES.c.cause.in_(query.cause)
        if query.score_min is not None:
            yield CASES.c.score >= max(query.score_min, 0.0)
        if query.score_max is not None:
            yield CASES.c.score.between(0.0, query.score_max)
        if query.decided is not None:
            yield CASES.c.decided > 0 if query.decided else CASES.c.decided == 0
        if query.sampled is not None:
            is_sampled = select(SAMPLES.c.case).where(SAMPLES.c.case == CASES.c.id).exists()
            yield is_sampled if query.sampled else ~is_sampled
        for kind in ("source", "kind", "label", "detector"):
            values = list(map(listed_id, getattr(query, kind)))
            if values:
                of_case = (FACETS.c.case == CASES.c.id, FACETS.c.kind == kind, FACETS.c.value.in_(values))
                yield select(FACETS.c.case).where(*of_case).exists()
        matching = search.matching(query.search, self._dialect)
        if matching is not None:
            yield CASES.c.id.in_(matching)

    def case(self, run: str, number: int) -> StoredCase:
        """Return a case with its texts, its result and people's decisions about it.

        `number` is the number of the case in the run, from 1.

        Raises:
            NotKeptError: There is no such case.
        """
        wanted = select(CASES, DOCUMENTS.c.body, DOCUMENTS.c.fields).join_from(CASES, DOCUMENTS)
        with self._engine.connect() as connection:
            row = connection.execute(wanted.where(_of(run), CASES.c.number == number)).mappings().one_or_none()
            if row is None:
                raise _no_case(run, number)
            decisions = tuple(decision for decision, _ in decisions_of(connection, row["id"]).values())
            sampled = sampling.sampled_in(connection, row["id"])
        return StoredCase(
            row=_case_row(row),
            document=json.loads(row["body"]) if row["body"] else None,
            fields=json.loads(row["fields"] or "{}"),
            decisions=decisions,
            version=row["version"],
            sampled=tuple((span.start, span.end) for span in sampled),
        )

    def delete_case(self, run: str, number: int, *, by: str = "") -> None:
        """Delete a case and the decisions about it, and overwrite their texts in the database.

        Raises:
            NotKeptError: There is no such case.
        """
        if not self._delete_cases(_of(run) & (CASES.c.number == number)):
            raise _no_case(run, number)
        with self._write() as connection:
            note(connection, by, "delete case", run, number)
        self._purge()

    def examples(self, run: str) -> Iterator[Example]:
        """Yield each case of a run that people decided about, as an example with the decisions as gold labels.

        Raises:
            NotKeptError: There is no such run.
        """
        self.run(run)
        yield from map(example_of, self._decided_cases(run))

    def _decided_cases(self, run: str) -> Iterator[StoredCase]:
        """Yield the decided cases of a run, except cases that are deleted meanwhile."""
        wanted = select(CASES.c.number).where(_of(run), CASES.c.decided > 0).order_by(CASES.c.number)
        with self._engine.connect() as connection:
            numbers = list(connection.execute(wanted).scalars())
        for number in numbers:
            try:
                stored = self.case(run, number)
            except NotKeptError:
                continue
            yield stored

    def decision_rows(self, run: str) -> Iterator[DecisionRow]:
        """Yield people's decisions about the cases of a run, sorted by the number of the case and then by time."""
        self.run(run)
        columns = (DECISIONS.c.body, DECISIONS.c.by, DECISIONS.c.at, DECISIONS.c.drawn, DECISIONS.c.probability)
        wanted = select(CASES.c.id, CASES.c.number, *columns).join_from(DECISIONS, CASES).where(_of(run))
        with self._engine.connect() as connection:
            rows = connection.execute(wanted.order_by(CASES.c.number, DECISIONS.c.id)).all()
            for key, of_case in groupby(rows, lambda row: row.id):
                document = connection.execute(select(DOCUMENTS.c.body).where(DOCUMENTS.c.case == key)).scalar()
                if document is None:  # deleted meanwhile
                    continue
                case = decode(document, "check").case
                for _, number, body, by, at, how, probability in of_case:
                    yield DecisionRow(
                        number=number,
                        case=case,
                        decision=read_decision(body),
                        by=by,
                        at=at,
                        drawn=how,
                        probability=probability,
                    )

    def compare(self, first: str, second: str, *, limit: int = 50, offset: int = 0) -> Comparison:
        """Compare the outcomes and scores of two runs over the same cases, for example with two detectors.

        Cases are matched by id. The result lists up to `limit` cases with different outcomes, after skipping `offset`.

        Raises:
            NotKeptError: There is no such run.
        """
        self.run(first)
        self.run(second)
        wanted = select(CASES).order_by(CASES.c.number)
        with self._engine.connect() as connection:
            rows = [
                map(_case_row, connection.execute(wanted.where(_of(run))).mappings().all()) for run in (first, second)
            ]
        return compare((first, second), *rows, limit=limit, offset=offset)

    def trend(self, run: str) -> list[TrendPoint]:
        """Compute the proportion of flagged cases in each run that has the same name as this run, oldest first.

        If there are many such runs, only the latest are used. A run without a name is compared with no other run.

        Raises:
            NotKeptError: There is no such run.
        """
        name = self.run(run).name
        wanted = select(RUNS).order_by(RUNS.c.created.desc(), RUNS.c.id.desc()).limit(_TREND)
        with self._engine.connect() as connection:
            condition = (RUNS.c.name == name) if name else (RUNS.c.id == run)
            return trend(_run_rows(connection, list(connection.execute(wanted.where(condition)).mappings())))

    # decisions

    def decide(
        self, run: str, number: int, decisions: Sequence[PlaceDecision], *, version: int | None = None, by: str = ""
    ) -> int:
        """Replace all decisions about a case, and return the new version number of its decisions.

        Each decision that is added, changed or withdrawn adds a line to the audit log. If nothing changes, the version
        number stays the same.

        Args:
            run: The id of the run.
            number: The number of the case in the run, from 1.
            decisions: All decisions about the case. Earlier decisions that are not among them are withdrawn.
            version: The version number (`StoredCase.version`) with which the case was loaded, to detect changes by
                somebody else since then. None replaces the decisions without this check.
            by: The name of the API key that the person used.

        Raises:
            NotKeptError: There is no such case, or it was deleted.
            StaleError: `version` is given and is not the current version.
            InputError: The case is not judged, or a decision is not valid (`check_places`).
        """
        stored = self.case(run, number)
        check_places(stored, decisions)
        checked = decode(stored.document or {}, "check")
        with self._write() as connection:
            wanted = select(CASES.c.id, CASES.c.version).where(_of(run), CASES.c.number == number)
            row = connection.execute(wanted).one_or_none()
            if row is None:
                raise _no_case(run, number)
            key, present = row
            if version is not None and version != present:
                raise StaleError(f"the decisions have version {present}, not {version}", hint="read the case again")
            earlier = decisions_of(connection, key)
            new = {decision.place: decision for decision in decisions}
            changed = [one for place, one in new.items() if place not in earlier or earlier[place][0] != one]
            withdrawn = [one for place, (one, _) in earlier.items() if place not in new]
            if not changed and not withdrawn:
                return int(present)
            gone = [earlier[one.place][1] for one in (*changed, *withdrawn) if one.place in earlier]
            connection.execute(delete(DECISIONS).where(DECISIONS.c.id.in_(gone)))
            if changed:
                probabilities = {"flagged": 1.0, "random": sampling.sampling_probability(connection, run), None: None}
                sampled = sampling.sampled_in(connection, key)
                rows = [
                    {
                        "case": key,
                        "by": by,
                        "at": now(),
                        "body": written(one),
                        "drawn": (how := drawn(checked, sampled, one)),
                        "probability": probabilities[how],
                    }
                    for one in changed
                ]
                connection.execute(insert(DECISIONS), rows)
            for one in changed:
                note(connection, by, one.action, run, number, one)
            for one in withdrawn:
                note(connection, by, "withdraw", run, number, one)
            values = {"version": present + 1, "decided": len(new)}
            connection.execute(update(CASES).where(CASES.c.id == key).values(**values))
        return int(present) + 1

    def audit(self, run: str) -> list[AuditLine]:
        """Return the last thousand lines of the audit log about a run, newest first.

        The lines are kept even if the run is deleted.
        """
        wanted = select(*(AUDIT.c[each.name] for each in fields(AuditLine))).where(AUDIT.c.run == run)
        with self._engine.connect() as connection:
            rows = connection.execute(wanted.order_by(AUDIT.c.id.desc()).limit(1000)).mappings()
            return [AuditLine(**{**row, "in_source": bool(row["in_source"])}) for row in rows]

    # learning from decisions

    def draw_sample(self, run: str, count: int, *, by: str = "", rng: random.Random | None = None) -> int:
        """Draw up to `count` unflagged sentences of a run at random, so that people can review them.

        Return how many were drawn. Sentences that were drawn before are not drawn again.

        Raises:
            InputError: The run is still being judged.
        """
        if self.run(run).state != "done":
            raise InputError("the run is still being judged", hint="draw a sample once it is done")
        with self._write() as connection:
            number = sampling.draw(connection, run, count, by, rng or secrets.SystemRandom())
            if number:
                note(connection, by, f"draw {number}", run)
        return number

    def decided_sentences(self, run: str) -> tuple[Decisions, list[DecidedSentence]]:
        """Return the numbers of decided and of all sentences in a run, and the list of decided sentences.

        A sentence is decided if people's decisions say whether it is wrong. An unflagged sentence counts as decided
        only if it was drawn at random.

        Raises:
            NotKeptError: There is no such run.
        """
        self.run(run)
        counts = select(func.sum(CASES.c.flagged_sentences), func.sum(CASES.c.unflagged_sentences)).where(_of(run))
        drawn_count = select(func.count()).select_from(SAMPLES).join(CASES).where(_of(run))
        with self._engine.connect() as connection:
            flagged, unflagged = connection.execute(counts).one()
            sampled = connection.execute(drawn_count).scalar_one()
        sentences = [one for stored in self._decided_cases(run) for one in _decided_in(stored)]
        at_random = sum(one.drawn == "random" for one in sentences)
        decisions = Decisions(
            flagged=len(sentences) - at_random,
            random=at_random,
            sampled=sampled,
            all_flagged=flagged or 0,
            all_unflagged=unflagged or 0,
        )
        return decisions, sentences

    def keep_calibration(self, name: str, fitted: FittedCalibration, learning: Learning, run: str, *, by: str) -> None:
        """Store a fitted threshold and probabilities as the calibration version `name`, which no check uses yet.

        `learning` is the gain from the fit, `run` the id of the run with the decisions, and `by` the name of the API
        key that asked for it.

        Raises:
            InputError: There is already a version of this name.
        """
        values = {"name": name, "detector": fitted.detector, "run": run, "created": now(), "by": by, "active": 0}
        values |= {"body": encode(fitted), "learning": json.dumps(asdict(learning))}
        with self._write() as connection:
            if connection.execute(select(CALIBRATIONS.c.name).where(CALIBRATIONS.c.name == name)).first():
                raise InputError(f"there is a version {name!r} already", hint="choose another name")
            connection.execute(insert(CALIBRATIONS).values(**values))
            note(connection, by, f"fit {name}", run)

    def calibrations(self) -> list[CalibrationVersion]:
        """Return all calibration versions (fitted thresholds and probabilities), newest first."""
        wanted = select(CALIBRATIONS).order_by(CALIBRATIONS.c.created.desc(), CALIBRATIONS.c.name)
        with self._engine.connect() as connection:
            return [_version(row) for row in connection.execute(wanted).mappings()]

    def calibration(self, name: str) -> FittedCalibration:
        """Load the fitted thresholds and probabilities of a calibration version.

        Raises:
            NotKeptError: There is no such version.
        """
        with self._engine.connect() as connection:
            fitted: FittedCalibration = decode(_calibration_row(connection, name)["body"], "calibrated")
        return fitted

    def active_calibrations(self) -> dict[str, tuple[str, FittedCalibration]]:
        """Load the calibration versions that checks use, as a dict from detector to (name of the version, its fit)."""
        with self._engine.connect() as connection:
            rows = connection.execute(select(CALIBRATIONS).where(CALIBRATIONS.c.active == 1)).mappings()
            return {row["detector"]: (row["name"], decode(row["body"], "calibrated")) for row in rows}

    def activate(self, name: str, *, active: bool = True, by: str = "") -> None:
        """Make checks use a calibration version, in place of the detector's other versions, or stop using it.

        Raises:
            NotKeptError: There is no such version.
        """
        with self._write() as connection:
            row = _calibration_row(connection, name)
            if bool(row["active"]) == active:
                return
            of_detector = CALIBRATIONS.c.detector == row["detector"]
            connection.execute(update(CALIBRATIONS).where(of_detector).values(active=0))
            if active:
                connection.execute(update(CALIBRATIONS).where(CALIBRATIONS.c.name == name).values(active=1))
            note(connection, by, f"{'activate' if active else 'deactivate'} {name}", row["run"])

    # limits

    def sweep(self) -> int:
        """Apply the limits of the history: delete runs older than `days`, and the oldest cases if there are too many.

        Return the number of deleted cases.

        If there are more than `cases` cases, only nine tenths of `cases` are kept. Otherwise, every new case would make
        a deletion necessary.
        """
        deleted = 0
        if self.days is not None:
            oldest = (datetime.now(UTC) - timedelta(days=self.days)).isoformat(timespec="milliseconds")
            with self._engine.connect() as connection:
                old = list(connection.execute(select(RUNS.c.id).where(RUNS.c.created < oldest)).scalars())
            for id in old:
                with suppress(NotKeptError):  # somebody else deletes it
                    deleted += self._delete_run(id, "the limit of age")
        with self._writing:
            self._count = self._counted()  # other processes may have added and deleted some
        if self.most_cases is not None and self.is_full:
            keep = self.most_cases - self.most_cases // 10
            with self._engine.connect() as connection:
                newest = select(CASES.c.id).order_by(CASES.c.id.desc()).offset(keep).limit(1)
                last = connection.execute(newest).scalar()
            if last is not None:
                deleted += self._delete_cases(CASES.c.id <= last)
            with self._write() as connection:
                is_empty = ~select(CASES.c.id).where(CASES.c.run == RUNS.c.id).exists()
                connection.execute(delete(RUNS).where(RUNS.c.state == "done", is_empty))
        if deleted or self._is_unpurged():
            self._purge()
        return deleted

    def _delete_cases(self, condition: ColumnElement[bool]) -> int:
        """Delete the cases for which `condition` holds, and return their number."""
        deleted = 0
        while True:
            with self._write() as connection:
                keys = list(connection.execute(select(CASES.c.id).where(condition).limit(_AT_ONCE)).scalars())
                if not keys:
                    return deleted
                search.delete(connection, keys)
                connection.execute(delete(CASES).where(CASES.c.id.between(min(keys), max(keys)), condition))
                self._mark(connection, unpurged=True)
                deleted += len(keys)
                self._count -= len(keys)
            time.sleep(_PAUSE)

    def _mark(self, connection: Connection, *, unpurged: bool) -> None:
        """Record in the file whether deleted content must still be overwritten, in case the process is killed."""
        if self._dialect == "sqlite":
            connection.exec_driver_sql(f"PRAGMA user_version = {int(unpurged)}")

    def _is_unpurged(self) -> bool:
        with self._engine.connect() as connection:
            return self._dialect == "sqlite" and bool(connection.exec_driver_sql("PRAGMA user_version").scalar())

    def _purge(self) -> None:
        """Overwrite deleted content in the file and in its log, and give the free space back.

        This is done in small steps, so that others can write between them.
        """
        begin, is_left = True, True
        while is_left:
            with self._write() as connection:
                is_left = search.purge(connection, begin=begin)
            begin = False
            time.sleep(_PAUSE)
        if self._dialect != "sqlite":
            return
        free = None
        while free != 0:
            before, free = free, self._vacuum()
            time.sleep(_PAUSE)
            if free == before:  # another process is in the way
                return
        with self._write() as connection:
            self._mark(connection, unpurged=False)

    def _vacuum(self) -> int:
        """Give some free pages of the file back, and empty its log. Return how many free pages are left."""
        with self._writing, closing(self._engine.raw_connection()) as raw:
            cursor = raw.cursor()
            try:
                # unlike `execute`, a script takes every step of the vacuum, each of which frees one page
                cursor.executescript(f"PRAGMA incremental_vacuum({_PAGES}); PRAGMA wal_checkpoint(TRUNCATE)")
                return int(cursor.execute("PRAGMA freelist_count").fetchone()[0])
            except sqlite3.Error as error:
                raise UnavailableError(str(error)) from None


def _of(run: str) -> ColumnElement[bool]:
    return CASES.c.run == run


def _no_run(id: str) -> NotKeptError:
    return NotKeptError(f"there is no run {id!r}", hint="it may have been deleted")


def _no_case(run: str, number: int) -> NotKeptError:
    return NotKeptError(f"run {run!r} has no case {number}", hint="it may have been deleted")


def _begin(connection: Connection, run: NewRun, state: str) -> str:
    id = secrets.token_hex(6)
    values = {**asdict(run), "about": json.dumps(run.about)}
    connection.execute(insert(RUNS).values(id=id, created=now(), state=state, problem="", **values))
    return id


def _run_rows(connection: Connection, rows: Sequence[RowMapping]) -> list[RunRow]:
    wanted = select(CASES.c.run, CASES.c.outcome, func.count()).group_by(CASES.c.run, CASES.c.outcome)
    counts: dict[str, dict[str, int]] = defaultdict(dict)
    for run, outcome, count in connection.execute(wanted.where(CASES.c.run.in_([row["id"] for row in rows]))):
        counts[run][outcome] = count
    return [RunRow(**{**row, "about": json.loads(row["about"]), "cases": counts[row["id"]]}) for row in rows]


def _decided_in(stored: StoredCase) -> Iterator[DecidedSentence]:
    checked: Checked = decode(stored.document or {}, "check")
    document = document_of(example_of(stored))
    for span, wrong, how in decided(checked, [Span(*place) for place in stored.sampled], stored.decisions):
        yield DecidedSentence(
            case=checked.case, judgements=checked.judgements, document=document, span=span, wrong=wrong, drawn=how
        )


def _case_row(row: RowMapping) -> CaseRow:
    values = {each.name: row[each.name] for each in fields(CaseRow)}
    scores = {name: None if values[name] == NO_SCORE else values[name] for name in ("score", "omission")}
    return CaseRow(**{**values, **scores})


def _calibration_row(connection: Connection, name: str) -> RowMapping:
    row = connection.execute(select(CALIBRATIONS).where(CALIBRATIONS.c.name == name)).mappings().one_or_none()
    if row is None:
        raise NotKeptError(f"there is no version {name!r}", hint="GET /v1/calibrations lists them")
    return row


def _version(row: RowMapping) -> CalibrationVersion:
    learning = json.loads(row["learning"])
    fitted = decode(row["body"], "calibrated").scales[Level(learning["level"])]
    return CalibrationVersion(
        **{name: row[name] for name in ("name", "detector", "run", "created", "by")},
        active=bool(row["active"]),
        threshold=fitted.threshold,
        calibrated=fitted.calibration is not None,
        learning=learning,
    )


def _cursor(*values: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(values).encode()).decode()


def _read_cursor(cursor: str, *kinds: type[Any]) -> list[Any]:
    try:
        values = json.loads(base64.urlsafe_b64decode(cursor.encode()))
        return [clean(str(value)) if kind is str else kind(value) for kind, value in zip(kinds, values, strict=True)]
    except (ValueError, TypeError, OverflowError):
        raise InputError("the cursor is not one of a page before", hint="leave it out for the first page") from None
