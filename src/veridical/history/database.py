"""Open the database of a history, which is an SQLite file, or a PostgreSQL database given by its URL."""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Mapping
from contextlib import suppress
from getpass import getuser
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, ExceptionContext, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError

from veridical.history.records import UnavailableError
from veridical.io.files import expanded
from veridical.records.errors import InputError, MissingExtraError

_PLACES = "a path of an SQLite file, or postgresql://host/name"
_WAIT = 30  # seconds for another writer
_WRITERS = 8_305_112_609  # the lock that writers to a history in PostgreSQL take; any number will do
_OUTAGES = ("08", "25", "53", "55", "57", "58")  # codes of PostgreSQL: unreachable, read-only, full, locked, shut down


def open_database(place: str | Path) -> Engine:
    """Open the database at `place`, which is the path of an SQLite file or a URL, and return its SQLAlchemy engine.

    If the file does not exist, it is created, and only its owner can read it. Write transactions wait for each other,
    even across processes. If the database cannot be used later, for example because it is locked or full, functions
    that use the engine raise `UnavailableError`.

    Raises:
        InputError: The database is of another kind, or its folder is missing.
        MissingExtraError: The driver is not installed.
    """
    text = str(place)
    if "://" not in text:
        path = Path(text)
        if not path.parent.is_dir():
            raise InputError(f"there is no folder {path.parent} for the history", hint="make it first")
        with suppress(OSError):  # connecting reports the problem
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        url = URL.create("sqlite", database=str(path.absolute()))
    else:
        try:
            url = make_url(text)
        except ArgumentError:
            raise InputError("the history is not a URL of a database", hint=_PLACES) from None
    options: dict[str, Any] = {}
    if url.drivername == "postgresql":
        url, options = URL.create("postgresql+pg8000"), _postgres_options(url)
    if url.get_backend_name() not in ("sqlite", "postgresql"):
        raise InputError(f"histories are not kept in {url.get_backend_name()!r}", hint=_PLACES)
    try:
        engine = create_engine(
            url, connect_args=options, hide_parameters=True, pool_pre_ping=url.get_backend_name() == "postgresql"
        )
    except NoSuchModuleError:
        raise InputError(f"there is no driver {url.drivername!r}", hint=_PLACES) from None
    except ImportError:
        raise MissingExtraError("a history in PostgreSQL", "postgres") from None
    if engine.dialect.name == "sqlite":
        _set_up_sqlite(engine)
    else:
        _set_up_postgres(engine)
    event.listen(engine, "handle_error", _translate)
    return engine


def write_ahead(engine: Engine) -> None:
    """Switch an SQLite file to write-ahead logging, so that readers and a writer do not wait for each other.

    This changes the file, so check first that the file is a history.
    """
    if engine.dialect.name == "sqlite":

        @event.listens_for(engine, "connect")
        def connected(connection: Any, _: Any) -> None:
            connection.execute("PRAGMA journal_mode = WAL").fetchall()

        engine.dispose()


def problem_of(error: DBAPIError) -> str:
    """Return the first line of the database's own message in an error of SQLAlchemy."""
    cause = error.orig.args[0] if error.orig is not None and error.orig.args else error.orig
    return str(cause["M"] if isinstance(cause, Mapping) else error.orig).strip().partition("\n")[0]


def _translate(context: ExceptionContext) -> None:
    """Raise `UnavailableError` for an error that is due to the state of the database, not to a wrong statement."""
    error = context.sqlalchemy_exception
    if not isinstance(error, DBAPIError) or context.is_pre_ping:
        return
    cause = error.orig.args[0] if error.orig is not None and error.orig.args else None
    if isinstance(cause, Mapping):
        is_outage = str(cause["C"]).startswith(_OUTAGES)
    else:  # errors of sqlite3, and errors of pg8000 about connections
        is_outage = type(error).__name__ in ("OperationalError", "DatabaseError", "InterfaceError")
    if is_outage:
        raise UnavailableError(problem_of(error))


def _postgres_options(url: URL) -> dict[str, Any]:
    """Turn a URL into arguments of pg8000's `connect`, with the options, variables and password file of libpq."""
    query = {name: str(value) for name, value in url.query.items()}
    given = os.environ.get
    host = query.pop("host", None) or url.host or given("PGHOST") or "localhost"
    port = url.port or given("PGPORT") or "5432"
    if not str(port).isdecimal():
        raise InputError(f"PGPORT is {port!r}", hint="a number")
    port = int(port)
    user = url.username or given("PGUSER") or _login()
    database = url.database or given("PGDATABASE") or user
    options: dict[str, Any] = {"user": user, "database": database, "application_name": "veridical"}
    if host.startswith("/"):
        options["unix_sock"] = f"{host}/.s.PGSQL.{port}"
    else:
        options |= {"host": host, "port": port}
        mode, root = query.pop("sslmode", None) or given("PGSSLMODE") or "prefer", query.pop("sslrootcert", None)
        if mode not in _SSL:
            raise InputError(f"sslmode is {mode!r}", hint=f"one of {', '.join(_SSL)}")
        options["ssl_context"] = _SSL[mode]
        if mode.startswith("verify"):
            options["ssl_context"] = ssl.create_default_context(cafile=root)
            options["ssl_context"].check_hostname = mode == "verify-full"
    if query:
        hint = "host, sslmode and sslrootcert can be set"
        raise InputError(f"the URL of the history has the option {next(iter(query))!r}", hint=hint)
    password = url.password or given("PGPASSWORD") or _password_of(host, port, database, user)
    return options | ({"password": password} if password else {})


def _login() -> str:
    try:
        return getuser()
    except (KeyError, OSError):  # a user without a name, as in a container
        raise InputError("no user of PostgreSQL is named", hint="postgresql://USER@HOST/NAME, or PGUSER") from None


# the argument `ssl_context` of pg8000: None means TLS if the server supports it
_SSL = {"disable": False, "allow": None, "prefer": None, "require": True, "verify-ca": True, "verify-full": True}


def _set_up_postgres(engine: Engine) -> None:
    """Make writing transactions wait for each other. Otherwise, two of them could replace the same decisions."""

    @event.listens_for(engine, "begin")
    def begun(connection: Connection) -> None:
        if connection.get_execution_options().get("writes"):
            take = f"SELECT set_config('lock_timeout', '{_WAIT}s', true), pg_advisory_xact_lock({_WRITERS})"
            connection.exec_driver_sql(take)


def _password_of(host: str, port: int, database: str, user: str) -> str | None:
    """Look up the password in libpq's password file."""
    path = expanded(os.environ.get("PGPASSFILE") or "~/.pgpass")
    wanted = (host, str(port), database, user)
    with suppress(OSError):
        for line in path.read_text("utf-8").splitlines():
            *fields, password = (re.sub(r"\\(.)", r"\1", part) for part in re.split(r"(?<!\\):", line))
            if len(fields) == 4 and all(field in ("*", one) for field, one in zip(fields, wanted, strict=True)):
                return password
    return None


def _set_up_sqlite(engine: Engine) -> None:
    """Make transactions begin where SQLAlchemy begins them, and set the options of each connection."""

    @event.listens_for(engine, "connect")
    def connected(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # sqlite3 begins none by itself
        settings = [f"busy_timeout = {_WAIT * 1000}", "synchronous = NORMAL", "foreign_keys = ON", "secure_delete = ON"]
        for setting in settings:
            connection.execute(f"PRAGMA {setting}").fetchall()
        if connection.execute("PRAGMA page_count").fetchone() == (0,):  # a new file; others would be changed
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL").fetchall()

    @event.listens_for(engine, "begin")
    def begun(connection: Connection) -> None:
        writes = connection.get_execution_options().get("writes")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
