"""Learning from decisions over HTTP: a random sample, a version that is activated and rolled back, and roles."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.history.test_learning import Scorer
from tests.server.services import client_of
from tests.server.test_history import import_file
from veridical.cli import main
from veridical.detectors.calibrated import load_calibration
from veridical.records.types import Level
from veridical.server.keys import make_key, read_keys
from veridical.server.settings import HistorySettings

WRONG_FROM = 75
ROWS = [{"id": str(i), "response": f"It is {i:02}.", "sources": []} for i in range(1, 100)]


def served(place: HistorySettings, detector: Scorer, **settings: Any) -> AbstractContextManager[TestClient]:
    return client_of(own={"scorer": detector}, history=place, **settings)


def decided_run(client: TestClient) -> str:
    """The id of a run in which all findings and a random sample of the rest are decided: wrong from 75 on."""
    run = str(import_file(client, "rows.jsonl", "\n".join(map(json.dumps, ROWS)).encode())["id"])
    assert client.post(f"/v1/runs/{run}/sample?count=30").json() == {"drawn": 30}
    for number in range(1, 100):
        stored = client.get(f"/v1/runs/{run}/cases/{number}").json()
        if stored["row"]["outcome"] == "flagged" or stored["sampled"]:
            action = "wrong" if number >= WRONG_FROM else "keep"
            body = {"decisions": [{"action": action, "start": 0, "end": 9}]}
            assert client.put(f"/v1/runs/{run}/cases/{number}/decisions", json=body).status_code == 200
    return run


def outcome(client: TestClient, number: int) -> str:
    (result,) = client.post("/v1/check", json={"response": f"It is {number}."}).json()["results"]
    return str(result["outcome"])


def test_a_version_is_fitted_activated_and_rolled_back(place: HistorySettings) -> None:
    with served(place, Scorer()) as client:
        run = decided_run(client)
        counts = client.get(f"/v1/runs/{run}/decisions").json()
        assert (counts["flagged"], counts["random"], counts["missing"]) == (50, 30, None)
        assert (counts["all_flagged"], counts["all_unflagged"]) == (50, 49)
        assert client.get(f"/v1/runs/{run}/cases?sampled=true").json()["total"] == 30
        learning = client.post(f"/v1/runs/{run}/calibrations?name=first").json()
        assert (learning["verdict"], learning["version"]) == ("gain", "first")
        assert outcome(client, 60) == "flagged"  # nobody has activated it
        assert client.put("/v1/calibrations/first?active=true").json() == {"name": "first", "active": True}
        assert (outcome(client, 60), outcome(client, 90)) == ("clear", "flagged")
        (about, *_) = client.get("/v1/runs").json()["runs"][0]["about"]["detectors"]
        assert about["calibration"] == "first"
        listed = client.get("/v1/calibrations").json()
        assert (listed["in_use"], [one["active"] for one in listed["versions"]]) == ({"scorer": "first"}, [True])
        assert client.get("/v1/calibrations/first").json()["veridical"] == "calibrated/1"
        again = client.post(f"/v1/runs/{run}/calibrations?name=first")
        assert (again.status_code, "already" in again.json()["error"]) == (422, True)
    with served(place, Scorer()) as client:  # after a restart
        assert outcome(client, 60) == "clear"
        second = client.post(f"/v1/runs/{run}/calibrations?name=second").json()
        assert second["threshold"] == learning["threshold"]  # fitted for the detector's own scores
        assert client.put("/v1/calibrations/first?active=false").status_code == 200
        assert outcome(client, 60) == "flagged"
        lines = [line["what"] for line in client.get(f"/v1/runs/{run}/audit").json()["lines"]]
        assert lines[:4] == ["deactivate first", "fit second", "activate first", "fit first"]


class Other(Scorer):
    """Another model behind the same name."""

    def fingerprint(self) -> dict[str, Any]:
        return {"name": "scorer", "layers": 12}


def test_a_version_of_another_model_is_not_used(place: HistorySettings) -> None:
    with served(place, Scorer()) as client:
        run = decided_run(client)
        client.post(f"/v1/runs/{run}/calibrations?name=first")
        client.put("/v1/calibrations/first?active=true")
    with served(place, Other()) as client:
        assert outcome(client, 60) == "flagged"
        assert client.get("/v1/calibrations").json()["in_use"] == {}
        assert client.post(f"/v1/runs/{run}/calibrations?name=second").json()["verdict"] == "gain"  # judged again
        client.put("/v1/calibrations/second?active=true")
        assert outcome(client, 60) == "clear"


def test_too_few_decisions_are_an_answer(place: HistorySettings) -> None:
    with served(place, Scorer()) as client:
        run = client.post("/v1/check", json={"response": "It is 60. It is 10."}).json()["run"]
        learning = client.post(f"/v1/runs/{run}/calibrations?name=first").json()
        assert (learning["verdict"], learning["version"]) == ("too few decisions", None)
        assert client.get(f"/v1/runs/{run}/decisions").json()["missing"] == "50 decided sentences are needed, not 0"
        assert client.get("/v1/calibrations").json()["versions"] == []
        for method, path, status in (
            ("POST", "/v1/runs/none/sample", 404),
            ("POST", f"/v1/runs/{run}/sample?count=0", 422),
            ("POST", "/v1/runs/none/calibrations?name=a", 404),
            ("POST", f"/v1/runs/{run}/calibrations", 422),
            ("POST", f"/v1/runs/{run}/calibrations?name=a/b", 422),
            ("POST", f"/v1/runs/{run}/calibrations?name=..", 422),
            ("POST", f"/v1/runs/{run}/calibrations?name=a&detector=none", 422),
            ("GET", "/v1/runs/none/decisions", 404),
            ("GET", "/v1/calibrations/none", 404),
            ("PUT", "/v1/calibrations/none?active=true", 404),
            ("PUT", "/v1/calibrations/none", 422),
        ):
            answer = client.request(method, path)
            assert (answer.status_code, set(answer.json())) == (status, {"error", "hint", "request_id"}), path


def test_only_an_admin_changes_what_checks_use(place: HistorySettings, tmp_path: Path) -> None:
    keys = tmp_path / "keys.txt"
    review = {"X-API-Key": make_key(keys, "r", "review")}
    check = {"X-API-Key": make_key(keys, "c", "check")}
    with served(place, Scorer(), keys=read_keys(keys), hosts=()) as client:
        assert client.put("/v1/calibrations/a?active=true", headers=review).status_code == 403
        assert client.get("/v1/calibrations", headers=review).status_code == 200
        for method, path in (
            ("POST", "/v1/runs/a/sample"),
            ("GET", "/v1/runs/a/decisions"),
            ("POST", "/v1/runs/a/calibrations?name=a"),
            ("GET", "/v1/calibrations"),
            ("GET", "/v1/calibrations/a"),
        ):
            assert client.request(method, path, headers=check).status_code == 403, path


def test_the_command_line_fits_by_the_same_decisions(
    place: HistorySettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with served(place, Scorer()) as client:
        run = decided_run(client)
        undecided = client.post("/v1/check", json={"response": "It is 60."}).json()["run"]
    monkeypatch.setattr("veridical.detectors.load_detector", lambda spec, connection=None: Scorer())
    out = tmp_path / "fitted"
    fit = ["calibrate", "--from-history", place.place, "--out", str(out)]
    assert main([*fit, "--run", undecided]) == 1
    assert not out.exists()
    assert "too few decisions" in capsys.readouterr().out
    assert main([*fit, "--run", run]) == 0
    assert "scorer: gain" in capsys.readouterr().out
    scale = load_calibration(out).scales[Level.RESPONSE]
    (right, wrong_score) = scale.apply([0.6, 0.9])
    assert right < scale.threshold <= wrong_score
    assert main([*fit, "--run", run, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "gain"
    for wrong in (
        [*fit, "--run", "none"],
        fit,
        [*fit, "--run", run, "--criterion", "means"],
        ["calibrate", "--from-history", str(tmp_path / "none.db"), "--run", run, "--out", str(out)],
        ["calibrate", "overlap", "--out", str(out)],
    ):
        assert main(wrong) == 2, wrong
        assert len(capsys.readouterr().err.strip().splitlines()) == 1
