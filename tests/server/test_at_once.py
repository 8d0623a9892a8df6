"""Several reviewers, deletions and a database that is away, over HTTP."""

from __future__ import annotations

import asyncio
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.processes import LIMIT
from tests.server.services import CASE, Echo, client_of, until
from tests.server.test_history import OCTETS, ROWS
from veridical.detectors.calibrated import FittedCalibration, Scale
from veridical.history import database
from veridical.history.store import History
from veridical.records.detector import fingerprint_of
from veridical.records.types import Level
from veridical.server import desk as desks
from veridical.server.desk import Desk
from veridical.server.keys import make_key, read_keys
from veridical.server.service import Service
from veridical.server.settings import HistorySettings, ServerSettings

KEEP = {"action": "keep", "start": 13, "end": 16}
CORRECT = {"action": "replace", "start": 13, "end": 16, "text": "330"}


def done_and_waiting(client: TestClient, detector: Echo) -> tuple[str, str]:
    """Two runs: a check, and an import whose cases the detector holds back."""
    done = client.post("/v1/check", json=CASE).json()["run"]
    detector.gate.clear()
    waits = client.post("/v1/runs?name=a.csv", content=ROWS, headers=OCTETS).json()["id"]
    until(lambda: client.get(f"/v1/runs/{waits}").json()["cases"].get("waiting") == 3)
    return done, waits


def test_two_reviewers_of_one_finding(place: HistorySettings, tmp_path: Path) -> None:
    """Neither replaces or takes back what the other decided without having read it."""
    keys = {name: make_key(tmp_path / "keys", name, "admin") for name in ("ann", "bob")}
    with client_of("overlap", history=place, keys=read_keys(tmp_path / "keys"), hosts=()) as client:
        headers = {name: {"X-API-Key": key} for name, key in keys.items()}
        run = client.post("/v1/check", json=CASE, headers=headers["ann"]).json()["run"]
        address = f"/v1/runs/{run}/cases/1"

        def decide(who: str, version: int, *decisions: dict[str, Any]) -> tuple[int, int | None]:
            body = {"decisions": decisions, "version": version}
            answer = client.put(f"{address}/decisions", json=body, headers=headers[who])
            return answer.status_code, answer.json().get("version")

        def stored() -> list[str]:
            return [one["action"] for one in client.get(address, headers=headers["ann"]).json()["decisions"]]

        assert decide("ann", 0, CORRECT) == (200, 1)
        assert decide("bob", 0, KEEP) == (409, None)
        assert decide("bob", 0) == (409, None)  # he undoes what he could not decide
        assert stored() == ["replace"]
        assert decide("bob", 1, KEEP) == (200, 2)  # once he has read it
        assert decide("ann", 1) == (409, None)  # she undoes
        assert decide("ann", 1, CORRECT) == (409, None)  # and does it again
        assert stored() == ["keep"]
        assert decide("bob", 2) == (200, 3)  # he undoes
        assert decide("bob", 3) == (200, 3)  # twice
        assert decide("bob", 2, KEEP) == (409, None)
        assert decide("bob", 3, KEEP) == (200, 4)  # and does it again
        assert decide("ann", 4, KEEP) == (200, 4)  # she agrees, so the decision stays his
        lines = client.get(f"/v1/runs/{run}/audit", headers=headers["ann"]).json()["lines"]
        said = [f"{line['by']}: {line['what']}" for line in reversed(lines)]
        assert said == ["ann: replace", "bob: keep", "bob: withdraw", "bob: keep"]


def test_what_is_deleted_or_not_judged_yet_is_not_decided(place: HistorySettings) -> None:
    detector = Echo()
    with client_of(own={"echo": detector}, history=place) as client:
        done, waits = done_and_waiting(client, detector)
        body = {"decisions": [{"action": "keep", "start": 0, "end": 1}]}
        answer = client.put(f"/v1/runs/{waits}/cases/1/decisions", json=body)
        assert (answer.status_code, answer.json()["error"]) == (422, "case 1 is not judged")
        assert client.delete(f"/v1/runs/{waits}/cases/1").status_code == 200
        assert client.delete(f"/v1/runs/{done}").status_code == 200
        for run in (done, waits):
            assert client.put(f"/v1/runs/{run}/cases/1/decisions", json=body).status_code == 404
            assert client.delete(f"/v1/runs/{run}/cases/1").status_code == 404
        assert client.delete(f"/v1/runs/{done}").status_code == 404
        detector.gate.set()
        until(lambda: client.get(f"/v1/runs/{waits}").json()["state"] == "done")
        assert sum(client.get(f"/v1/runs/{waits}").json()["cases"].values()) == 2


def test_a_locked_database_delays_imports_and_refuses_decisions(
    place: HistorySettings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(database, "_WAIT", 0)
    monkeypatch.setattr(desks, "_PAUSE", 0.01)
    detector = Echo()
    with client_of(own={"echo": detector}, history=place) as client:
        run, waits = done_and_waiting(client, detector)
        with closing(sqlite3.connect(place.place, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            detector.gate.set()
            for request in (
                client.put(f"/v1/runs/{run}/cases/1/decisions", json={"decisions": [KEEP]}),
                client.delete(f"/v1/runs/{run}"),
                client.post("/v1/runs?name=a.csv", content=ROWS, headers=OCTETS),
                client.post(f"/v1/runs/{run}/sample"),
            ):
                assert request.status_code == 503
                assert request.json()["error"] == "the history cannot be used: database is locked"
            answer = client.post("/v1/check", json=CASE)
            assert (answer.status_code, set(answer.json())) == (200, {"results"})
            assert client.get(f"/v1/runs/{run}/cases/1").json()["decisions"] == []
            caplog.clear()
            until(lambda: sum(record.getMessage() == "failure" for record in caplog.records) > 3)
            other.execute("ROLLBACK")
        until(lambda: client.get(f"/v1/runs/{waits}").json()["state"] == "done")
        assert client.put(f"/v1/runs/{run}/cases/1/decisions", json={"decisions": [KEEP]}).status_code == 200


def test_a_check_does_not_wait_for_a_database_that_hangs(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    run = client.post("/v1/check", json=CASE).json()["run"]
    history: History = client.app.state.desk.history  # type: ignore[attr-defined]
    with monkeypatch.context() as patch, ThreadPoolExecutor(1) as pool, history._writing:  # as if others wrote on
        patch.setattr(desks, "_KEEP", 0.01)
        answers = [pool.submit(client.post, "/v1/check", json=CASE) for _ in range(6)]
        assert [set(answer.result(LIMIT).json()) for answer in answers] == [{"results"}] * 6
        assert pool.submit(client.get, f"/v1/runs/{run}").result(LIMIT).status_code == 200
    last = client.post("/v1/check", json=CASE).json()["run"]
    runs = [each["id"] for each in client.get("/v1/runs").json()["runs"]]
    assert {run, last} <= set(runs)
    assert len(runs) <= 3, "checks were kept for which nobody waited any more"


def test_a_check_does_not_wait_until_others_are_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep, gate = History.sweep, Event()

    def slow(self: History) -> int:
        assert gate.wait(LIMIT)
        return sweep(self)

    monkeypatch.setattr(History, "sweep", slow)
    with client_of("overlap", history=HistorySettings(place=str(tmp_path / "history.db"), cases=10)) as client:
        try:
            kept = [client.post("/v1/check", json=CASE).json()["run"] for _ in range(15)]
            assert len(client.get("/v1/runs").json()["runs"]) == 15
        finally:
            gate.set()
        until(lambda: len(client.get("/v1/runs").json()["runs"]) == 9)
        assert [run["id"] for run in client.get("/v1/runs").json()["runs"]] == kept[:-10:-1]


def test_the_work_in_the_background_survives_what_it_meets(
    place: HistorySettings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(desks, "_PAUSE", 0.01)
    monkeypatch.setattr(desks, "_SWEEP", 0.01)
    calls: dict[str, int] = {}

    def break_once(name: str) -> None:
        method = getattr(History, name)

        def broken(*arguments: Any, **options: Any) -> Any:
            calls[name] = calls.get(name, 0) + 1
            if calls[name] == 2:
                raise RuntimeError("broken")
            return method(*arguments, **options)

        monkeypatch.setattr(History, name, broken)

    for name in ("sweep", "unfinished", "active_calibrations", "upload"):
        break_once(name)
    with client_of("overlap", history=place) as client:
        for _ in range(3):
            id = client.post("/v1/runs?name=a.csv", content=ROWS, headers=OCTETS).json()["id"]
            until(lambda id=id: client.get(f"/v1/runs/{id}").json()["state"] == "done")
        until(lambda: calls["sweep"] > 3)
    assert sum(record.getMessage() == "failure" for record in caplog.records) == 4


def test_an_import_says_that_its_file_cannot_be_unpacked(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desks, "_PAUSE", 0.01)
    with monkeypatch.context() as patch:

        def full(*_: Any, **__: Any) -> None:
            raise OSError(28, "No space left on device")

        patch.setattr("tempfile.TemporaryDirectory", full)
        id = client.post("/v1/runs?name=a.csv", content=ROWS, headers=OCTETS).json()["id"]
        until(lambda: "No space left" in client.get(f"/v1/runs/{id}").json()["problem"])
    until(lambda: client.get(f"/v1/runs/{id}").json()["state"] == "done")
    assert client.get(f"/v1/runs/{id}").json()["problem"] == ""


def test_of_two_activations_the_later_one_is_used(place: HistorySettings, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one reads the versions before the second, and gets them after it."""

    async def activate_both() -> dict[str, str]:
        service = Service(ServerSettings(detectors=("overlap",), history=place))
        desk = Desk(service, place)
        fingerprint = fingerprint_of(service.batchers["overlap"].original)
        fitted = FittedCalibration("overlap", fingerprint, {Level.SPAN: Scale(0.7)})
        answers = [("first", 9), ("second", 0)]

        async def call(*_: Any) -> dict[str, tuple[str, FittedCalibration]]:
            name, turns = answers.pop(0)
            for _ in range(turns):
                await asyncio.sleep(0)
            return {"overlap": (name, fitted)}

        monkeypatch.setattr(desk, "call", call)
        await asyncio.gather(desk.use_calibrations(), desk.use_calibrations())
        in_use = dict(desk.in_use)
        await desk.close()
        return in_use

    assert asyncio.run(activate_both()) == {"overlap": "second"}
