"""The same history in a real PostgreSQL."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url

from tests.history.databases import RIGHT, WRONG, checked, postgres
from tests.history.test_at_once import decide_at_once
from tests.history.test_store import QUERIES, RUN, responses, run_to_filter
from veridical.detectors.calibrated import FittedCalibration, Scale
from veridical.history import database
from veridical.history.database import _postgres_options
from veridical.history.records import SORTS, CaseQuery, Learning, NotKeptError, PlaceDecision, Row, UnavailableError
from veridical.history.store import History
from veridical.io.serialization import encode
from veridical.records.errors import InputError
from veridical.records.types import Level

realserver = pytest.mark.realserver


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgresql://db/a", {"host": "db", "port": 5432, "user": "ann", "database": "a", "ssl_context": None}),
        (
            "postgresql://bob:p%3A@db:1/a?sslmode=require",
            {"port": 1, "user": "bob", "password": "p:", "ssl_context": True},
        ),
        ("postgresql://bob@db:5433/a", {"password": "of:bob"}),
        ("postgresql:///a?host=/run/pg", {"unix_sock": "/run/pg/.s.PGSQL.5432", "password": "of all"}),
        ("postgresql:///", {"host": "localhost", "database": "ann"}),
    ],
)
def test_urls_and_passwords_are_read_as_by_other_clients(
    url: str, expected: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passwords = tmp_path / "pgpass"
    passwords.write_text("# comment\ndb:5433:*:bob:of\\:bob\n/run/pg:*:*:*:of all\n", "utf-8")
    monkeypatch.setenv("PGPASSFILE", str(passwords))
    monkeypatch.setenv("PGUSER", "ann")
    for name in ("PGHOST", "PGPORT", "PGDATABASE", "PGPASSWORD", "PGSSLMODE"):
        monkeypatch.delenv(name, raising=False)
    options = _postgres_options(make_url(url))
    assert {name: options.get(name) for name in expected} == expected
    assert ("password" in options) == ("password" in expected)
    monkeypatch.setenv("PGPASSWORD", "of the environment")
    assert _postgres_options(make_url("postgresql://db/a"))["password"] == "of the environment"


def test_a_port_that_is_no_number_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPORT", "db:5432")
    with pytest.raises(InputError, match="PGPORT is 'db:5432'"):
        _postgres_options(make_url("postgresql://db/a"))


def test_a_user_without_a_name_is_asked_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown() -> str:
        raise KeyError("getpwuid(): uid not found: 10001")  # as in a container

    monkeypatch.setattr(database, "getuser", unknown)
    monkeypatch.delenv("PGUSER", raising=False)
    with pytest.raises(InputError, match="PGUSER"):
        _postgres_options(make_url("postgresql://db/a"))


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with postgres() as url:
        yield url


@realserver
def test_everything_is_as_in_sqlite(url: str) -> None:
    with closing(History(url)) as history:
        run = run_to_filter(history)
        for query, names in QUERIES:
            page = history.cases(run, query)
            assert ([case.name for case in page.cases], page.total) == (names, len(names)), query
        assert history.facets(run)["detector"] == {"overlap": 2}
        assert history.audit(run)[0].what == "keep"
        before, _ = history.decided_sentences(run)
        assert history.draw_sample(run, 99) == before.all_unflagged > 0
        number = history.cases(run, CaseQuery(sampled=True)).cases[0].number
        (start, end) = history.case(run, number).sampled[0]
        history.decide(run, number, [PlaceDecision(action="keep", start=start, end=end)])
        after, sentences = history.decided_sentences(run)
        assert (after.sampled, after.random, sentences[-1].wrong) == (before.all_unflagged, before.random + 1, False)
        fitted = FittedCalibration("overlap", {"name": "overlap"}, {Level.SPAN: Scale(0.7)})
        learning = Learning(verdict="gain", reason="", detector="overlap", decisions=after, level="span")
        for name in ("one", "two"):
            history.keep_calibration(name, fitted, learning, run, by="")
            history.activate(name)
        assert history.active_calibrations()["overlap"][0] == "two"
        history.delete_case(run, 1)
        history.delete_run(run)
    with closing(History(url, cases=20)) as history:  # the tables are there
        run = history.keep(RUN, checked(*responses(12)))
        for sort in SORTS:
            for descending in (False, True):
                query = CaseQuery(sort=sort, descending=descending, limit=7)
                first = history.cases(run, query)
                second = history.cases(run, query.model_copy(update={"cursor": first.next}))
                assert {case.number for case in (*first.cases, *second.cases)} == set(range(1, 13))
        uploaded = history.begin_import(RUN, "a\0.csv", b"a\0b")
        assert history.upload(uploaded)[1] == b"a\0b"
        case = checked(WRONG)[0].case
        history.add_rows(uploaded, [Row(row=1, name="a\0", body=encode(case), search="a\0 b", label="\0")])
        history.all_read(uploaded)
        ((key, waiting),) = history.waiting(uploaded, 5)
        assert waiting == case
        history.store(uploaded, [(key, checked(WRONG)[0])])
        assert history.run(uploaded).cases == {"flagged": 1}
        assert history.cases(uploaded, CaseQuery(outcome=["\0"], cause=["\0"], kind=["\0"], search="\0")).total == 0
        assert history.runs(name="A\0").runs == ()
        half = base64.urlsafe_b64encode(b'["\\ud800", 1]').decode()
        assert history.cases(uploaded, CaseQuery(sort="name", descending=True, cursor=half)).total == 1
        with pytest.raises(NotKeptError):
            history.run("a\0")
        history.keep(RUN, checked(*responses(12)))
        assert sum(sum(each.cases.values()) for each in history.runs().runs) == 18
        history.days = 0
        assert history.sweep() == 18
        with pytest.raises(NotKeptError):
            history.run(run)


@realserver
def test_tables_of_version_1_are_brought_up_to_date(url: str) -> None:
    with closing(History(url)) as history:
        run = history.keep(RUN, checked(WRONG))
        before, _ = history.decided_sentences(run)
        with history._write() as connection:
            for change in (
                "DROP TABLE samples",
                "DROP TABLE calibrations",
                "ALTER TABLE cases DROP COLUMN flagged_sentences, DROP COLUMN unflagged_sentences",
                "ALTER TABLE decisions DROP COLUMN drawn, DROP COLUMN probability",
                "UPDATE veridical SET version = 1",
            ):
                connection.exec_driver_sql(change)
    with closing(History(url)) as history:
        assert history.decided_sentences(run)[0] == before
        assert before.all_flagged == 1


@realserver
def test_two_servers_of_one_database_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    with postgres() as url:
        with ThreadPoolExecutor(4) as pool:  # they start at once, and each makes the tables
            histories = list(pool.map(lambda _: History(url), range(4)))
        run = histories[0].keep(RUN, checked(WRONG))
        assert decide_at_once(tuple(histories), run, 10) == [1] * 10
        assert len(histories[0].case(run, 1).decisions) == 1
        run = histories[0].keep(RUN, checked(*[RIGHT] * 20))
        with ThreadPoolExecutor(4) as pool:
            assert sum(pool.map(lambda history: history.draw_sample(run, 4), histories)) == 16
        monkeypatch.setattr(database, "_WAIT", 1)
        with closing(History(url)) as impatient, histories[0]._write():
            with pytest.raises(UnavailableError, match="lock timeout"):
                impatient.keep(RUN, checked(RIGHT))
            assert impatient.run(run).cases == {"clear": 20}
    for history in histories:
        with pytest.raises(UnavailableError):  # the server has ended
            history.run(run)
        history.close()
