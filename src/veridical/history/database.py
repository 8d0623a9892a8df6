"""Open the database of a history, which is an SQLite file, or PostgreSQL by its URL."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from veridical.records.errors import InputError, MissingExtraError

__all__ = ["open_database"]

_PLACES = "a path of an SQLite file, or postgresql://host/name"


def open_database(place: str | Path) -> Engine:
    """Open a database and return its engine. If a new SQLite file is created, only its owner can read it.

    Raises:
        InputError: The database is of another kind, or its folder is missing.
        MissingExtraError: The driver is not installed.
    """
    text = str(place)
    if "://" not in text:
        path = Path(text)
        if not path.parent.is_dir():
            raise InputError(f"there is no folder {path.parent} for the history", hint="make it first")
        with suppress(OSError):  # the connection says what is wrong
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        url = URL.create("sqlite", database=str(path.absolute()))
    else:
        try:
            url = make_url(text)
        except ArgumentError:
            raise InputError("the history is not a URL of a database", hint=_PLACES) from None
    if url.drivername == "postgresql":
        url = url.set(drivername="postgresql+psycopg")
    if url.get_backend_name() not in ("sqlite", "postgresql"):
        raise InputError(f"histories are not kept in {url.get_backend_name()!r}", hint=_PLACES)
    try:
        engine = create_engine(url, hide_parameters=True, pool_pre_ping=url.get_backend_name() == "postgresql")
    except NoSuchModuleError:
        raise InputError(f"there is no driver {url.drivername!r}", hint=_PLACES) from None
    except ImportError:
        raise MissingExtraError("a history in PostgreSQL", "postgres") from None
    if engine.dialect.name == "sqlite":
        _set_up_sqlite(engine)
    return engine


def _set_up_sqlite(engine: Engine) -> None:
    """Make transactions begin where they are said to, and set what each connection needs."""

    @event.listens_for(engine, "connect")
    def connected(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # sqlite3 begins none by itself
        for setting in (
            "busy_timeout = 30000",
            "auto_vacuum = INCREMENTAL",  # before the first table
            "journal_mode = WAL",
            "synchronous = NORMAL",
            "foreign_keys = ON",
            "secure_delete = ON",
        ):
            connection.execute(f"PRAGMA {setting}").fetchall()

    @event.listens_for(engine, "begin")
    def begun(connection: Connection) -> None:
        writes = connection.get_execution_options().get("writes")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
