"""Several at once: reviewers, an import, a deletion, other processes; and databases that cannot be used."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from tests.history.databases import RIGHT, WRONG, checked
from tests.history.test_store import RUN, bytes_of
from veridical.history import database
from veridical.history.records import CaseQuery, NewRun, NotKeptError, PlaceDecision, StaleError, UnavailableError
from veridical.history.store import History
from veridical.records.errors import DataError, InputError
from veridical.server.importing import read_upload
from veridical.server.settings import Limits

KEEP = PlaceDecision(action="keep", start=0, end=3)
FORM = {
    "columns": {"response": None, "sources": [], "question": None, "id": None},
    "encoding": None,
    "delimiter": None,
}
READING = NewRun(origin="import", name="a.csv", about={"form": FORM})
ROWS = b"response,source\n" + b"".join(b"Only Xylophonezz knew %d m.,It is 4 m.\n" % i for i in range(1203))


def before(history: History, name: str, action: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let somebody else do `action` before the next call of a method of `history`."""
    method = getattr(history, name)

    def after_action(*arguments: Any, **options: Any) -> Any:
        monkeypatch.setattr(history, name, method)
        action()
        return method(*arguments, **options)

    monkeypatch.setattr(history, name, after_action)


def decide_at_once(histories: tuple[History, ...], run: str, rounds: int) -> list[int]:
    """How many of several decisions about one version are taken, in each round."""
    taken = []
    with ThreadPoolExecutor(len(histories)) as pool:
        for i in range(rounds):
            version, barrier = histories[0].case(run, 1).version, Barrier(len(histories))

            def decide(n: int) -> bool:
                barrier.wait()  # noqa: B023
                decision = PlaceDecision(action="keep", start=0, end=1 + n, reason=str(i))  # noqa: B023
                try:
                    histories[n].decide(run, 1, [decision], version=version)  # noqa: B023
                except StaleError:
                    return False
                return True

            taken.append(sum(pool.map(decide, range(len(histories)))))
    return taken


def test_of_decisions_about_one_version_one_is_taken(place: Path, history: History) -> None:
    with closing(History(place)) as other:  # as another process
        run = history.keep(RUN, checked(WRONG))
        assert decide_at_once((history, history, other), run, 10) == [1] * 10
        assert len(history.case(run, 1).decisions) == history.cases(run, CaseQuery()).cases[0].decided == 1


def test_a_case_that_is_deleted_meanwhile_is_not_decided(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    run = history.keep(RUN, checked(WRONG, RIGHT))
    before(history, "_write", lambda: history.delete_case(run, 1), monkeypatch)
    with pytest.raises(NotKeptError, match="no case 1"):
        history.decide(run, 1, [KEEP])
    before(history, "_write", lambda: history.delete_run(run), monkeypatch)
    with pytest.raises(NotKeptError, match="no case 2"):
        history.decide(run, 2, [KEEP])


def test_a_deletion_counts_its_own_cases(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    run = history.keep(RUN, checked(WRONG))
    before(history, "_write", lambda: history.keep(RUN, checked(RIGHT)), monkeypatch)
    history.delete_case(run, 1)  # while a check is kept
    assert history.audit(run)[0].what == "delete case"
    first, second = (history.keep(RUN, checked(WRONG)) for _ in range(2))
    before(history, "_write", lambda: history.delete_case(first, 1), monkeypatch)
    with pytest.raises(NotKeptError):
        history.delete_case(second, 2)  # while another one is deleted
    assert history.audit(second) == []


def test_cases_that_are_deleted_meanwhile_are_not_exported(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    run = history.keep(RUN, checked(WRONG, WRONG))
    for number in (1, 2):
        history.decide(run, number, [KEEP])
    before(history, "case", lambda: history.delete_case(run, 1), monkeypatch)
    assert [example.case.id for example in history.examples(run)] == ["2"]
    before(history, "case", lambda: history.delete_case(run, 2), monkeypatch)
    decisions, sentences = history.decided_sentences(run)
    assert (decisions.flagged, sentences) == (0, [])


@pytest.mark.parametrize("method", ["add_rows", "all_read", "upload", "_delete_cases"])
def test_nothing_of_a_file_is_stored_once_its_run_is_deleted(
    place: Path, history: History, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = history.begin_import(READING, "a.csv", ROWS)

    def read() -> None:
        read_upload(history, run, Limits(), lambda: False)

    if method == "_delete_cases":  # the deletion has begun

        def read_in_vain() -> None:
            with pytest.raises(NotKeptError):
                read()

        before(history, method, read_in_vain, monkeypatch)
        history.delete_run(run)
    else:
        before(history, method, lambda: history.delete_run(run), monkeypatch)
        with nullcontext() if method == "all_read" else pytest.raises(NotKeptError):
            read()
    assert history.unfinished() == []
    assert history.keep(RUN, checked(RIGHT))
    history.most_cases = 1
    assert history.sweep() == 0, "the count has cases that are gone"
    assert b"ylophonezz" not in bytes_of(place)


def test_a_run_that_is_deleted_is_not_taken_up_again(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    run = history.begin_import(READING, "a.csv", ROWS)
    read_upload(history, run, Limits(), lambda: False)

    def go_on() -> None:
        for state in ("paused", "judging"):
            history.set_state(run, state, "no chat model")
        assert history.unfinished() == []

    before(history, "_delete_cases", go_on, monkeypatch)
    history.delete_run(run)
    with pytest.raises(NotKeptError):
        history.delete_run(run)


def test_a_deletion_that_is_killed_is_in_the_audit_and_is_purged_later(place: Path) -> None:
    class KilledError(BaseException):
        pass

    def kill() -> None:
        raise KilledError

    for method in ("_delete_cases", "_purge", "_vacuum"):
        with closing(History(place)) as history:
            run = history.keep(RUN, checked(f"{WRONG} Only Xylophonezz knew."))
            with pytest.MonkeyPatch.context() as patch:
                before(history, method, kill, patch)
                with pytest.raises(KilledError):
                    history.delete_run(run)
            assert history.audit(run)[0].what == "delete run"
        with closing(History(place)) as history:
            if method == "_delete_cases":
                history.delete_run(run)
            history.sweep()
            assert b"ylophonezz" not in bytes_of(place)
            with pytest.MonkeyPatch.context() as patch:
                before(history, "_purge", kill, patch)
                history.sweep()  # there is nothing left to do


def test_a_full_count_of_another_process_is_no_reason_to_delete(place: Path) -> None:
    with closing(History(place, cases=10)) as history, closing(History(place)) as other:
        runs = [history.keep(RUN, checked(WRONG)) for _ in range(10)]
        for run in runs[1:]:
            other.delete_run(run)
        run = history.keep(RUN, checked(RIGHT))
        assert history.run(runs[0]).cases == {"flagged": 1}
        assert history.run(run).cases == {"clear": 1}


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that waits for no other one."""
    monkeypatch.setattr(database, "_WAIT", 0)


@pytest.mark.usefixtures("impatient")
def test_a_database_that_another_process_locks_can_be_read_and_is_written_later(place: Path) -> None:
    with closing(History(place)) as history, closing(sqlite3.connect(place, isolation_level=None)) as other:
        run = history.keep(RUN, checked(WRONG))
        history.close()  # each of the following opens a connection of its own
        other.execute("BEGIN IMMEDIATE")
        assert history.case(run, 1).version == 0
        for write in (
            lambda: history.keep(RUN, checked(RIGHT)),
            lambda: history.decide(run, 1, [KEEP]),
            lambda: history.delete_run(run),
            history._purge,
            history._vacuum,
        ):
            with pytest.raises(UnavailableError, match="locked") as raised:
                write()
            assert raised.value.retryable
        with pytest.raises(InputError, match="cannot be opened: database is locked"):
            History(place)
        other.execute("ROLLBACK")
        assert history.decide(run, 1, [KEEP]) == 1


def test_a_full_disk_is_said(history: History) -> None:
    run = history.keep(RUN, checked(WRONG))
    with history._engine.connect() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")  # of this connection, which is used again
    with pytest.raises(UnavailableError, match="full"):
        history.keep(RUN, checked(*[WRONG] * 50))
    assert [each.id for each in history.runs().runs] == [run]


def with_tables(*statements: str) -> Callable[[Path], None]:
    """Change the tables of a history."""

    def change(place: Path) -> None:
        with closing(History(place)):
            pass
        with closing(sqlite3.connect(place)) as connection, connection:
            for statement in statements:
                connection.execute(statement)

    return change


def other_tables(place: Path) -> None:
    with closing(sqlite3.connect(place)) as connection:
        connection.execute("CREATE TABLE notes (text)")


def cut(place: Path) -> None:
    with closing(History(place)):
        pass
    place.write_bytes(place.read_bytes()[:5000])


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (with_tables("UPDATE veridical SET version = 99"), "reads up to"),
        (with_tables("UPDATE veridical SET version = 0"), "no version of a history"),
        (with_tables("UPDATE veridical SET version = 'new'"), "no version of a history"),
        (with_tables("UPDATE veridical SET version = x'00'"), "no version of a history"),
        (with_tables("DELETE FROM veridical"), "no version of a history"),
        (with_tables("INSERT INTO veridical VALUES (2)"), "no version of a history"),
        (with_tables("UPDATE veridical SET version = 1"), "duplicate column"),  # the step fails half-way
        *((with_tables(f"DROP TABLE {name}"), f"lacks the table '{name}'") for name in ("cases", "audit", "search")),
        (other_tables, "other tables"),
        (lambda place: place.write_text("no database"), "not a database"),
        (cut, "malformed"),
    ],
)
def test_what_is_refused_stays_as_it_was(place: Path, make: Callable[[Path], Any], problem: str) -> None:
    make(place)
    content = place.read_bytes()
    for _ in range(2):
        with pytest.raises((InputError, DataError), match=problem):
            History(place)
    assert {file: file.read_bytes() for file in place.parent.iterdir()} == {place: content}
