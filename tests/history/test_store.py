"""Runs, cases and decisions in a database: SQLite here, PostgreSQL in `test_postgres.py`."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.history.databases import MUSEUM, RIGHT, WRONG, checked
from veridical.detectors import load_detector
from veridical.history.records import SORTS, CaseQuery, NewRun, NotKeptError, PlaceDecision, Row, StaleError
from veridical.history.store import History
from veridical.io.serialization import decode, encode
from veridical.records.errors import DataError, InputError
from veridical.records.types import Case, Cause, CauseKind, Source
from veridical.workflows.checking import check_cases

RUN = NewRun(origin="check", by="alice", about={"detectors": [{"name": "overlap"}]})


def test_a_run_comes_back_with_its_cases_and_texts(place: Path) -> None:
    results = checked(WRONG, RIGHT)
    results[0] = replace(results[0], cause=Cause(CauseKind.MISREAD, "a passage says otherwise"))
    with closing(History(place)) as history:
        run = history.keep(RUN, results)
    with closing(History(place)) as history:  # opened again
        row = history.run(run)
        assert (row.origin, row.by, row.state, row.about) == ("check", "alice", "done", RUN.about)
        assert row.cases == {"flagged": 1, "clear": 1}
        page = history.cases(run, CaseQuery())
        assert (page.total, page.next) == (2, None)
        assert [(case.name, case.outcome, case.cause) for case in page.cases] == [
            ("1", "flagged", "misread"),
            ("2", "clear", ""),
        ]
        stored = history.case(run, 1)
        assert stored.document is not None
        assert decode(stored.document) == results[0]
        assert stored.row.score == max(verdict.score for verdict in results[0].judgements[0].verdicts)
        assert history.facets(run) == {
            "cause": {"misread": 1},
            "source": {"guide": 2},
            "kind": {"value": 1},
            "label": {},
            "detector": {"overlap": 1},
        }
        for unknown in (
            lambda: history.run("0"),
            lambda: history.case(run, 3),
            lambda: history.cases("0", CaseQuery()),
        ):
            with pytest.raises(NotKeptError):
                unknown()


def test_only_its_owner_can_read_a_new_file(place: Path) -> None:
    with closing(History(place)) as history:
        history.keep(RUN, checked(WRONG))
        assert {file.stat().st_mode & 0o777 for file in place.parent.iterdir()} == {0o600}


def responses(count: int) -> list[str]:
    return [f"The tower is {300 + i % 40} m tall, said walker {i}." for i in range(count)]


@pytest.mark.parametrize("sort", SORTS)
@pytest.mark.parametrize("descending", [False, True])
def test_pages_follow_each_other_in_every_order(history: History, sort: str, descending: bool) -> None:
    run = history.keep(RUN, checked(*responses(23)))
    whole = history.cases(run, CaseQuery(sort=sort, descending=descending, limit=100)).cases
    values = [((value := getattr(case, sort)) is not None, value or 0, case.number) for case in whole]
    if sort in ("name", "outcome", "cause"):
        values = [(True, getattr(case, sort), case.number) for case in whole]
    assert values == sorted(values, reverse=descending)
    pages, cursor = [], None
    while True:
        page = history.cases(run, CaseQuery(sort=sort, descending=descending, limit=5, cursor=cursor))
        pages += page.cases
        assert page.total == 23
        if (cursor := page.next) is None:
            break
    assert tuple(pages) == whole


QUERIES = [
    (CaseQuery(outcome=("clear",)), ["2", "4"]),
    (CaseQuery(outcome=("clear", "flagged")), ["1", "2", "3", "4"]),
    (CaseQuery(score_min=0.5), ["1", "3"]),
    (CaseQuery(score_max=0.5), ["2", "4"]),
    (CaseQuery(cause=("misread",)), ["1"]),
    (CaseQuery(kind=("value",)), ["1"]),
    (CaseQuery(source=("guide", "other")), ["1", "2", "3", "4"]),
    (CaseQuery(source=("other",)), []),
    (CaseQuery(detector=("overlap",)), ["1", "3"]),
    (CaseQuery(decided=True), ["3"]),
    (CaseQuery(decided=False, outcome=("flagged",)), ["1"]),
    (CaseQuery(search="tow"), ["1", "2", "4"]),
    (CaseQuery(search="tow tall"), []),  # only the last word may be begun
    (CaseQuery(search="tall TOW"), ["1", "2", "4"]),
    (CaseQuery(search="1,200.50"), ["4"]),
    (CaseQuery(search="高"), ["3"]),
    (CaseQuery(search='"…"'), ["1", "2", "3", "4"]),
    (CaseQuery(search="MUSÉE"), ["4"]),
    (CaseQuery(search="musee"), ["4"]),
]


@pytest.fixture(scope="module")
def filtered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[History, str]]:
    with closing(History(tmp_path_factory.mktemp("history") / "history.db")) as history:
        yield history, run_to_filter(history)


def run_to_filter(history: History) -> str:
    """A run of four cases, of which the third is decided; and another run, of which nothing may be found."""
    results = checked(WRONG, RIGHT, "塔很高。", MUSEUM)
    results[0] = replace(results[0], cause=Cause(CauseKind.MISREAD, "x"))
    history.keep(RUN, results)
    run = history.keep(RUN, results)
    history.decide(run, 3, [PlaceDecision(action="keep", start=0, end=1)])
    return run


@pytest.mark.parametrize(("query", "names"), QUERIES)
def test_filters_and_search(filtered: tuple[History, str], query: CaseQuery, names: list[str]) -> None:
    history, run = filtered
    page = history.cases(run, query)
    assert [case.name for case in page.cases] == names
    assert page.total == len(names)


def test_runs_are_paged_newest_first_and_found_by_name(history: History) -> None:
    ids = [history.keep(replace(RUN, name=f"Night {i}.csv"), checked(RIGHT)) for i in range(5)]
    first = history.runs(limit=3)
    second = history.runs(limit=3, cursor=first.next)
    assert sorted(ids) == sorted(run.id for run in (*first.runs, *second.runs))
    created = [(run.created, run.id) for run in (*first.runs, *second.runs)]
    assert created == sorted(created, reverse=True)
    assert second.next is None
    assert [run.id for run in history.runs(name="night 3").runs] == [ids[3]]
    assert history.runs(name="%").runs == ()
    for cursor in ("x", "", "WzFd", "bnVsbA=="):
        with pytest.raises(InputError, match="cursor"):
            history.runs(cursor=cursor)


def test_decisions_replace_each_other_and_leave_a_line_each(history: History) -> None:
    run = history.keep(RUN, checked(WRONG))
    found = PlaceDecision(action="replace", start=13, end=16, text="330", error="value")
    sentence = PlaceDecision(action="remove", start=0, end=3, cut=(0, 24), reason="no 🗼")
    assert history.decide(run, 1, [found, sentence], version=0, by="bob") == 1
    assert set(history.case(run, 1).decisions) == {found, sentence}
    assert history.cases(run, CaseQuery()).cases[0].decided == 2
    assert history.decide(run, 1, [found, sentence], by="bob") == 1  # the same again
    with pytest.raises(StaleError):
        history.decide(run, 1, [], version=0)
    rest = PlaceDecision(action="rest")
    assert history.decide(run, 1, [replace(found, action="keep", text=None), rest], version=1, by="eve") == 2
    lines = [(line.by, line.what, line.number, line.start, line.end) for line in reversed(history.audit(run))]
    assert lines == [
        ("bob", "replace", 1, 13, 16),
        ("bob", "remove", 1, 0, 3),
        ("eve", "keep", 1, 13, 16),
        ("eve", "rest", 1, None, None),
        ("eve", "withdraw", 1, 0, 3),
    ]


@pytest.mark.parametrize(
    ("decisions", "problem"),
    [
        ([PlaceDecision(action="keep", start=0, end=25)], "does not lie"),
        ([PlaceDecision(action="keep", start=3, end=2)], "does not lie"),
        ([PlaceDecision(action="keep")], "no place"),
        ([PlaceDecision(action="rest", start=0, end=1)], "no place"),
        ([PlaceDecision(action="keep", start=0)], "no place"),
        ([PlaceDecision(action="keep", start=0, end=1, source="x")], "unknown source"),
        ([PlaceDecision(action="replace", start=0, end=1)], "without"),
        ([PlaceDecision(action="remove", start=0, end=1)], "without"),
        ([PlaceDecision(action="remove", start=0, end=1, cut=(0, 99))], "does not lie"),
        (
            [PlaceDecision(action="keep", start=0, end=1), PlaceDecision(action="wrong", start=0, end=1)],
            "two decisions",
        ),
    ],
)
def test_a_decision_about_no_place_is_refused(history: History, decisions: list[PlaceDecision], problem: str) -> None:
    run = history.keep(RUN, checked(WRONG))
    with pytest.raises(InputError, match=problem):
        history.decide(run, 1, decisions)
    assert history.audit(run) == []


def bytes_of(place: Path) -> bytes:
    return b"".join(file.read_bytes() for file in place.parent.glob(f"{place.name}*"))


@pytest.mark.parametrize("what", ["run", "case", "age", "number"])
def test_what_is_deleted_is_nowhere_in_the_files(place: Path, what: str) -> None:
    secret = checked(f"{WRONG} Only Xylophonezz knew.")
    limits: dict[str, Any] = {"age": {"days": 30}, "number": {"cases": 10}}.get(what, {})
    with closing(History(place, **limits)) as history:
        run = history.keep(RUN, secret)
        history.decide(run, 1, [PlaceDecision(action="keep", start=0, end=1, reason="Xylophonezz")])
        assert b"Xylophonezz" in bytes_of(place)
        if what == "run":
            history.delete_run(run, by="root")
            assert history.audit(run)[0].what == "delete run"
        elif what == "case":
            history.delete_case(run, 1, by="root")
        elif what == "age":
            old = (datetime.now(UTC) - timedelta(days=31)).isoformat()
            with closing(sqlite3.connect(place)) as connection, connection:
                connection.execute("UPDATE runs SET created = ?", (old,))
            newer = history.keep(RUN, checked(RIGHT))
            assert history.sweep() == 1
            assert [each.id for each in history.runs().runs] == [newer]
        else:
            for text in responses(10):
                history.keep(RUN, checked(text))
            assert sum(sum(each.cases.values()) for each in history.runs().runs) == 9
        with closing(sqlite3.connect(place)) as connection:
            assert connection.execute("PRAGMA freelist_count").fetchone() == (0,)  # the room is given back
        assert b"ylophonezz" not in bytes_of(place).replace(b"X", b"x")
        assert history.cases(history.keep(RUN, checked(RIGHT)), CaseQuery(search="xylophonezz")).total == 0
        with pytest.raises(NotKeptError):
            history.case(run, 1)


def test_rows_wait_until_they_are_judged(history: History) -> None:
    run = history.begin_import(replace(RUN, origin="import", name="a.csv"), "a.csv", b"response,source\n")
    assert history.upload(run) == ("a.csv", b"response,source\n")
    (first, second) = (result.case for result in checked(WRONG, RIGHT))
    history.add_rows(
        run,
        [
            Row(row=1, name="1", body=encode(first), search=first.response, fields={"label": 1}, label="1"),
            Row(row=2, name="2", fields={"row": "{}"}, problem="no response"),
        ],
    )
    assert history.rows_read(run) == 2
    history.add_rows(run, [Row(row=3, name="3", body=encode(second), text=second.response)])
    history.all_read(run)
    assert history.unfinished() == [run]
    assert history.run(run).cases == {"waiting": 2, "failed": 1}
    assert [case for _, case in history.waiting(run, 9)] == [first, second]
    with pytest.raises(InputError, match="not judged"):
        history.decide(run, 1, [])
    waiting = history.case(run, 1)
    assert (waiting.document and waiting.document["veridical"], waiting.fields) == ("case/1", {"label": 1})
    assert (history.case(run, 2).fields, history.case(run, 2).row.problem) == ({"row": "{}"}, "no response")
    keys = [key for key, _ in history.waiting(run, 9)]
    history.store(run, [(keys[0], checked(WRONG)[0]), (keys[1], "it is too long"), (999, "gone")])
    assert history.waiting(run, 9) == []
    assert history.cases(run, CaseQuery(search="300")).total == 1
    assert history.cases(run, CaseQuery(label=("1",))).total == 1
    assert history.run(run).cases == {"flagged": 1, "failed": 2}


def test_a_history_of_an_earlier_version_is_brought_up_to_date(place: Path) -> None:
    with closing(History(place)) as history:
        run = history.keep(RUN, checked(f"{WRONG} {RIGHT}", RIGHT))
        history.begin_import(RUN, "a.csv", b"")
    with closing(sqlite3.connect(place)) as connection:  # as version 1 was
        for table in ("samples", "calibrations"):
            connection.execute(f"DROP TABLE {table}")
        for table, columns in (
            ("cases", ("flagged_sentences", "unflagged_sentences")),
            ("decisions", ("drawn", "probability")),
        ):
            for column in columns:
                connection.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
        connection.execute("UPDATE veridical SET version = 1")
        connection.commit()
    for _ in range(2):  # the second time there is nothing to do
        with closing(History(place)) as history:
            decisions, _ = history.decided_sentences(run)
            assert (decisions.all_flagged, decisions.all_unflagged) == (1, 2)
            assert history.calibrations() == []
    with closing(sqlite3.connect(place)) as connection:
        connection.execute("UPDATE veridical SET version = 3")
        connection.commit()
    with pytest.raises(DataError, match="version 3"):
        History(place)


def test_what_is_no_history_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE notes (text)")
    text = tmp_path / "a.txt"
    text.write_text("no database at all, but a text of some length\n" * 100)
    for place, problem in (
        (other, "other tables"),
        (text, "not a database"),
        (tmp_path / "no" / "a.db", "no folder"),
        (tmp_path, "unable to open"),
        ("mysql://host/a", "not kept in 'mysql'"),
        ("://", "not a URL"),
        ("postgresql+nothing://host/a", "no driver"),
        ("postgresql://host/a?options=-csearch_path", "the option 'options'"),
        ("postgresql://host/a?sslmode=never", "sslmode is 'never'"),
        ("postgresql://127.0.0.1:1/a", "cannot be opened"),
    ):
        with pytest.raises(InputError, match=problem):
            History(place)


def test_long_ids_are_listed_short_and_sorted_and_filtered_all_the_same(history: History) -> None:
    case = Case("x" * 1_000_000, "It is 3 m.", (Source("🏛" * 9000, "It is 3 m."),))
    cases = [case, replace(case, id=case.id + "y"), replace(case, id="a", sources=(Source("b", ""),))]
    run = history.keep(RUN, list(check_cases(cases, [load_detector("overlap")])))
    page = history.cases(run, CaseQuery(sort="name", limit=2))
    names = [row.name for row in page.cases]
    assert page.next is not None
    assert len(page.next) < 5000
    names += [row.name for row in history.cases(run, CaseQuery(sort="name", cursor=page.next)).cases]
    assert (len(set(names)), max(map(len, names)), names[0]) == (3, 200, "a"), "ids that differ at their end differ"
    assert max(map(len, history.facets(run)["source"])) == 200
    for id in (case.sources[0].id, max(history.facets(run)["source"], key=len)):
        assert history.cases(run, CaseQuery(source=[id])).total == 2
    document = history.case(run, 1).document
    assert document is not None
    assert document["case"]["id"] == case.id
