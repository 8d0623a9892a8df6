"""Define the tables of the history, their version, and the steps from one version to the next."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from sqlalchemy import (
    Column,
    Connection,
    Dialect,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    bindparam,
    insert,
    inspect,
    select,
    text,
    update,
)

from veridical.history import search
from veridical.history.sentences import checked_in, sentence_counts
from veridical.records.errors import DataError

NO_SCORE = -1.0
"""Stands for a missing score, so that all databases sort the column alike and a page can begin after any value."""

_METADATA = MetaData()
_AT_ONCE = 500  # documents that a migration reads at once
_NOT_HELD = re.compile("[\0\ud800-\udfff]")


def clean(text: str) -> str:
    """Replace the characters that a database cannot store (NUL and lone surrogates) by the replacement character.

    PostgreSQL rejects NUL. After a lone surrogate, its connection would return wrong results for later queries.
    """
    return _NOT_HELD.sub("\N{REPLACEMENT CHARACTER}", text)


class _Clean(TypeDecorator[str]):
    """A text that is cleaned before it is stored or compared with a stored text."""

    impl = String
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else clean(value)


def _run() -> Column[str]:
    return Column("run", ForeignKey("runs.id", ondelete="CASCADE"), nullable=False)


def _case(*, key: bool = False) -> Column[int]:
    return Column("case", ForeignKey("cases.id", ondelete="CASCADE"), primary_key=key, nullable=False)


RUNS = Table(
    "runs",
    _METADATA,
    Column("id", _Clean, primary_key=True),
    Column("created", _Clean, nullable=False),
    Column("name", _Clean, nullable=False),
    Column("origin", _Clean, nullable=False),
    Column("by", _Clean, nullable=False),
    Column("state", _Clean, nullable=False),
    Column("problem", _Clean, nullable=False),
    Column("about", Text, nullable=False),
    Index("runs_by_time", "created", "id"),
)
CASES = Table(
    "cases",
    _METADATA,
    Column("id", Integer, primary_key=True),
    _run(),
    Column("number", Integer, nullable=False),
    Column("row", Integer, nullable=False),
    Column("name", _Clean, nullable=False),
    Column("outcome", _Clean, nullable=False),
    Column("score", Float, nullable=False),
    Column("omission", Float, nullable=False),
    Column("flagged", Integer, nullable=False),
    Column("flagged_sentences", Integer, nullable=False, server_default="0"),
    Column("unflagged_sentences", Integer, nullable=False, server_default="0"),
    Column("cause", _Clean, nullable=False),
    Column("decided", Integer, nullable=False),
    Column("version", Integer, nullable=False),
    Column("beginning", _Clean, nullable=False),
    Column("problem", _Clean, nullable=False),
    Index("cases_by_number", "run", "number", unique=True),
    Index("cases_by_name", "run", "name", "number"),
    Index("cases_by_outcome", "run", "outcome", "number"),
    Index("cases_by_score", "run", "score", "number"),
    sqlite_autoincrement=True,  # an id is never used again
)
DOCUMENTS = Table("documents", _METADATA, _case(key=True), Column("body", Text, nullable=False), Column("fields", Text))
FACETS = Table(
    "facets",
    _METADATA,
    _case(),
    _run(),
    Column("kind", _Clean, nullable=False),
    Column("value", _Clean, nullable=False),
    Index("facets_by_value", "run", "kind", "value", "case"),
    Index("facets_by_case", "case", "kind", "value"),
)
DECISIONS = Table(
    "decisions",
    _METADATA,
    Column("id", Integer, primary_key=True),
    _case(),
    Column("by", _Clean, nullable=False),
    Column("at", _Clean, nullable=False),
    Column("body", Text, nullable=False),
    Column("drawn", _Clean),
    Column("probability", Float),
    Index("decisions_by_case", "case"),
)
SAMPLES = Table(  # unflagged sentences that were drawn at random for review
    "samples",
    _METADATA,
    Column("id", Integer, primary_key=True),
    _case(),
    Column("sentence", Integer, nullable=False),
    Column("start", Integer, nullable=False),
    Column("end", Integer, nullable=False),
    Column("by", _Clean, nullable=False),
    Column("at", _Clean, nullable=False),
    Index("samples_by_case", "case", "sentence", unique=True),
)
CALIBRATIONS = Table(
    "calibrations",
    _METADATA,
    Column("name", _Clean, primary_key=True),
    Column("detector", _Clean, nullable=False),
    Column("run", _Clean, nullable=False),
    Column("created", _Clean, nullable=False),
    Column("by", _Clean, nullable=False),
    Column("active", Integer, nullable=False),
    Column("body", Text, nullable=False),
    Column("learning", Text, nullable=False),
)
UPLOADS = Table(
    "uploads",
    _METADATA,
    Column("run", ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("file", _Clean, nullable=False),
    Column("body", LargeBinary, nullable=False),
)
AUDIT = Table(  # outlives the runs and cases that it is about, so it holds no texts
    "audit",
    _METADATA,
    Column("id", Integer, primary_key=True),
    Column("at", _Clean, nullable=False),
    Column("by", _Clean, nullable=False),
    Column("what", _Clean, nullable=False),
    Column("run", _Clean, nullable=False),
    Column("number", Integer),
    Column("start", Integer),
    Column("end", Integer),
    Column("in_source", Integer),
    Index("audit_by_run", "run", "id"),
    sqlite_autoincrement=True,
)
_META = Table("veridical", _METADATA, Column("version", Integer, nullable=False))


def _learning(connection: Connection) -> None:
    """Add the columns and tables for learning from decisions, and count the sentences of the stored cases."""
    for table, column, kind in (
        ("cases", "flagged_sentences", "INTEGER NOT NULL DEFAULT 0"),
        ("cases", "unflagged_sentences", "INTEGER NOT NULL DEFAULT 0"),
        ("decisions", "drawn", "VARCHAR"),
        ("decisions", "probability", "FLOAT"),
    ):
        connection.execute(text(f"ALTER TABLE {table} ADD COLUMN {column} {kind}"))
    _METADATA.create_all(connection, [SAMPLES, CALIBRATIONS])
    last = 0
    wanted = select(DOCUMENTS.c.case, DOCUMENTS.c.body).order_by(DOCUMENTS.c.case).limit(_AT_ONCE)
    while rows := connection.execute(wanted.where(DOCUMENTS.c.case > last)).all():
        last = rows[-1][0]
        results = [(key, checked_in(body)) for key, body in rows]
        counts = [{"key": key, **sentence_counts(checked)} for key, checked in results if checked is not None]
        if counts:
            connection.execute(update(CASES).where(CASES.c.id == bindparam("key")), counts)


MIGRATIONS: Mapping[int, Callable[[Connection], None]] = {1: _learning}
"""For each version of the tables, the function that brings them to the next version."""


def prepare(connection: Connection, migrations: Mapping[int, Callable[[Connection], None]] = MIGRATIONS) -> None:
    """Create the tables in an empty database, or bring the tables of an earlier version up to date.

    `migrations` maps each version of the tables to the function that brings them to the following version.

    Raises:
        DataError: The database is from a later version, contains other tables, or lacks some tables of a history. It is
            left unchanged.
    """
    newest = 1 + len(migrations)
    names = inspect(connection).get_table_names()
    own_name = "name a database of its own"
    if _META.name not in names:
        if names:
            raise DataError(f"the database holds other tables, such as {names[0]!r}", hint=own_name)
        _METADATA.create_all(connection)
        search.create(connection)
        connection.execute(insert(_META).values(version=newest))
        return
    versions = connection.execute(_META.select()).all()
    version = versions[0][0] if len(versions) == 1 else None
    if not isinstance(version, int) or version < 1:
        raise DataError(f"the table {_META.name!r} of the database holds no version of a history", hint=own_name)
    if version > newest:
        raise DataError(f"the history has version {version}, and this Veridical reads up to {newest}", hint="update it")
    for number in range(version, newest):
        migrations[number](connection)
    missing = {*_METADATA.tables, search.TABLE} - set(inspect(connection).get_table_names())
    if missing:
        raise DataError(f"the history lacks the table {min(missing)!r}", hint="restore it from a copy")
    if version < newest:
        connection.execute(update(_META).values(version=newest))
