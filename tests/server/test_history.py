"""The history over HTTP: what is kept and what is not, roles, decisions, and imports that survive a kill."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest
from starlette.testclient import TestClient

from tests.llm.loopback import completion, serving
from tests.server.services import CASE, Echo, client_of, until
from tests.server.test_openapi import resolved
from tests.server.test_running import server_process
from veridical.cli import main
from veridical.history.records import NewRun
from veridical.history.store import History
from veridical.io.rows import RowReader, SourceRow
from veridical.io.serialization import decode
from veridical.records.errors import CannotJudgeError, DataError, InputError, MissingExtraError
from veridical.records.types import Case, Judgement
from veridical.server.app import create_app
from veridical.server.importing import read_upload
from veridical.server.keys import make_key, read_keys
from veridical.server.settings import HistorySettings, Limits, ProxySettings, ServerSettings

OCTETS = {"Content-Type": "application/octet-stream"}
ROWS = b"response,source,label\nIt is 3 m.,It is 4 m.,1\n,,\nIt is red.,It is red.,0\n"


def import_file(client: TestClient, name: str, body: bytes, **params: Any) -> dict[str, Any]:
    """The run of a file once all of its rows are judged."""
    answer = client.post("/v1/runs", params={"name": name, **params}, content=body, headers=OCTETS)
    assert answer.status_code == 202, answer.text
    id = answer.json()["id"]
    until(lambda: client.get(f"/v1/runs/{id}").json()["state"] == "done")
    run: dict[str, Any] = client.get(f"/v1/runs/{id}").json()
    return run


def test_without_a_history_nothing_is_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with client_of("overlap") as client:
        assert set(client.post("/v1/check", json=CASE).json()) == {"results"}
        answer = client.get("/v1/runs")
        assert (answer.status_code, answer.json()["hint"]) == (404, "start the server with --history PATH")
        assert client.get("/v1/detectors").json()["history"] is False
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("missing", "history", "extra"),
    [("veridical.server.desk", "history.db", "history"), ("pg8000", "postgresql://127.0.0.1/none", "postgres")],
)
def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, missing: str, history: str, extra: str) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    settings = ServerSettings(detectors=("overlap",), history=HistorySettings(place=history))
    with pytest.raises(MissingExtraError, match=rf"veridical\[{extra}\]"):
        create_app(settings)


def test_checks_and_streams_become_runs(client: TestClient) -> None:
    assert client.get("/v1/detectors").json()["history"] is True
    body = {"cases": [CASE, {"response": "It is red.", "sources": ["It is red."]}], "threshold": 0.4}
    kept = client.post("/v1/check", json=body).json()
    assert client.post("/v1/stream", json={"case": CASE}).status_code == 200
    streamed, checked = client.get("/v1/runs").json()["runs"]
    assert (checked["id"], checked["cases"]) == (kept["run"], {"flagged": 1, "clear": 1})
    assert streamed["cases"] == {"flagged": 1}
    (detector,) = checked["about"]["detectors"]
    assert (detector["name"], detector["thresholds"]["span"]) == ("overlap", 0.4)
    assert len(detector["fingerprint"]) == 16
    case = client.get(f"/v1/runs/{kept['run']}/cases/1").json()
    assert case["document"]["case"]["sources"][0]["text"] == CASE["sources"][0]
    assert case["document"]["judgements"] == kept["results"][0]["judgements"]
    found = client.get(f"/v1/runs/{kept['run']}/cases", params={"outcome": ["clear", "failed"], "search": "red"})
    assert [row["number"] for row in found.json()["cases"]] == [2]
    assert client.post("/v1/report", json={"cases": [CASE]}).status_code == 200
    assert len(client.get("/v1/runs").json()["runs"]) == 2


@pytest.mark.parametrize("wanted", [False, True])
def test_texts_of_the_proxy_need_a_second_switch(tmp_path: Path, wanted: bool) -> None:
    history = HistorySettings(place=str(tmp_path / "history.db"), proxy=wanted)
    with serving(lambda _: completion("The tower is 330 m tall.")) as server:
        proxy = ProxySettings(base_url=server.url)
        with client_of("overlap", proxy=proxy, history=history) as client:
            chat = {"messages": [{"role": "user", "content": "Hi"}], "sources": ["It is 330 m tall."]}
            assert client.post("/v1/chat/completions", json=chat).status_code == 200
            runs = client.get("/v1/runs").json()["runs"]
    assert [run["origin"] for run in runs] == ["proxy"] * wanted


def test_a_full_disk_costs_the_record_and_not_the_answer(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError("no space")

    monkeypatch.setattr(History, "keep", full)
    answer = client.post("/v1/check", json=CASE)
    assert (answer.status_code, set(answer.json())) == (200, {"results"})


@pytest.mark.parametrize("role", ["check", "review", "admin"])
def test_a_key_may_do_what_its_role_says(tmp_path: Path, place: HistorySettings, role: str) -> None:
    key = make_key(tmp_path / "keys", "alice", role)
    with client_of("overlap", history=place, keys=read_keys(tmp_path / "keys"), hosts=()) as client:
        client.headers["X-API-Key"] = key
        run = client.post("/v1/check", json=CASE).json()["run"]
        assert client.get("/v1/detectors").json()["role"] == role
        decide = {"decisions": [{"action": "keep", "start": 0, "end": 3}]}
        parts = ("", "/facets", "/trend", "/examples", f"/compare/{run}", "/cases", "/cases/1")
        review = [
            client.get("/v1/runs"),
            *(client.get(f"/v1/runs/{run}{part}") for part in parts),
            client.put(f"/v1/runs/{run}/cases/1/decisions", json=decide),
            client.post("/v1/runs", params={"name": "a.csv"}, content=ROWS, headers=OCTETS),
        ]
        admin = [
            client.get(f"/v1/runs/{run}/audit"),
            client.delete(f"/v1/runs/{run}/cases/1"),
            client.delete(f"/v1/runs/{run}"),
        ]
    assert {answer.status_code for answer in review} == ({200, 202} if role != "check" else {403})
    assert {answer.status_code for answer in admin} == ({200} if role == "admin" else {403})
    if role == "admin":
        (line,) = admin[0].json()["lines"]
        assert (line["by"], line["what"], line["start"], line["end"]) == ("alice", "keep", 0, 3)


def test_roles_of_keys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keys = tmp_path / "keys"
    keys.write_text("0" * 64 + " old\n")  # from before there were roles
    assert main(["serve", "--api-keys", str(keys), "--new-key", "eve", "--role", "admin"]) == 0
    assert [(key.name, key.role) for key in read_keys(keys)] == [("old", "check"), ("eve", "admin")]
    assert main(["serve", "--api-keys", str(keys), "--new-key", "bob", "--role", "root"]) == 2
    assert main(["serve", "--role", "admin"]) == 2
    assert main(["serve", "--history-days", "3"]) == 2
    assert "--history" in capsys.readouterr().err
    keys.write_text("0" * 64 + " old root\n")
    with pytest.raises(DataError, match="unknown role"):
        read_keys(keys)
    with pytest.raises(InputError, match="limit of days"):
        HistorySettings(place="a", days=0)


def test_decisions_are_replaced_by_version(client: TestClient) -> None:
    run = client.post("/v1/check", json=CASE).json()["run"]
    address = f"/v1/runs/{run}/cases/1"
    one = {"action": "replace", "start": 13, "end": 16, "text": "330"}
    assert client.put(f"{address}/decisions", json={"decisions": [one], "version": 0}).json() == {"version": 1}
    (stored,) = client.get(address).json()["decisions"]
    assert one.items() <= stored.items()
    stale = client.put(f"{address}/decisions", json={"decisions": [], "version": 0})
    assert (stale.status_code, stale.json()["hint"]) == (409, "read the case again")
    assert client.get(address).json()["version"] == 1


def test_what_cannot_be_is_refused(client: TestClient) -> None:
    run = client.post("/v1/check", json=CASE).json()["run"]
    for path, status in (
        *((f"/v1/runs/none{part}", 404) for part in ("", "/cases", "/facets", "/trend")),
        (f"/v1/runs/{run}/compare/none", 404),
        (f"/v1/runs/{run}/compare/{run}?offset=-1", 422),
        (f"/v1/runs/{run}/cases/2", 404),
        (f"/v1/runs/{run}/cases/x", 404),
        (f"/v1/runs/{run}/cases/99999999999999999999", 404),
        *((f"/v1/runs/{run}/cases?{wrong}", 422) for wrong in ("sort=colour", "colour=red", "limit=0", "cursor=%00")),
        (f"/v1/runs/{run}/cases?score_min=nan", 422),
        ("/v1/runs?cursor=x", 422),
    ):
        answer = client.get(path)
        assert (answer.status_code, set(answer.json())) == (status, {"error", "hint", "request_id"}), path
    assert client.delete("/v1/runs/none").status_code == 404
    assert client.delete(f"/v1/runs/{run}/cases/2").status_code == 404
    wrong_method = client.post(f"/v1/runs/{run}")
    assert (wrong_method.status_code, wrong_method.headers["allow"]) == (405, "DELETE, GET")
    keep = {"action": "keep", "start": 0, "end": 1}
    for change, status in (
        ({"end": 999}, 422),
        ({"action": "burn"}, 400),
        ({"start": "0"}, 400),
        ({"reason": "\ud800"}, 400),
        ({"colour": 1}, 400),
        (None, 400),
    ):
        body = json.dumps({} if change is None else {"decisions": [keep | change]})
        headers = {"Content-Type": "application/json"}
        answer = client.put(f"/v1/runs/{run}/cases/1/decisions", content=body, headers=headers)
        assert (answer.status_code, set(answer.json())) == (status, {"error", "hint", "request_id"}), change
    for name, params, status in (
        ("a.pdf", {}, 422),
        ("a.csv", {"detector": "none"}, 422),
        ("a.csv", {"encoding": "klingon"}, 422),
        ("a.csv", {"encoding": "\0"}, 422),
        ("a.csv", {"causes": True}, 422),
        ("a.csv", {"delimiter": ",,"}, 422),
    ):
        answer = client.post("/v1/runs", params={"name": name, **params}, content=ROWS, headers=OCTETS)
        assert answer.status_code == status, (name, params)
    assert client.post("/v1/runs?name=a.csv", json={}).status_code == 415
    assert client.post("/v1/runs", content=ROWS, headers=OCTETS).status_code == 422


def test_an_imported_file_is_judged_in_the_background(client: TestClient) -> None:
    run = import_file(client, "rows.csv", ROWS + b"https://a.example,https://a.example,1\n")
    assert (run["origin"], run["name"], run["problem"]) == ("import", "rows.csv", "")
    assert run["cases"] == {"flagged": 1, "unjudged": 1, "clear": 1, "failed": 1}
    cases = client.get(f"/v1/runs/{run['id']}/cases").json()["cases"]
    assert [case["outcome"] for case in cases] == ["flagged", "unjudged", "clear", "failed"]
    assert "is an address" in cases[3]["problem"]
    failed = client.get(f"/v1/runs/{run['id']}/cases/4").json()
    assert failed["document"] is None
    assert "a.example" in failed["fields"]["row"]
    assert client.get(f"/v1/runs/{run['id']}/cases", params={"label": "1"}).json()["total"] == 1
    assert client.get(f"/v1/runs/{run['id']}/facets").json()["label"] == {"0": 1, "1": 1}
    lines = b'{"response": "It is 3 m.", "sources": ["It is 4 m."]}\n[1]\n{"response": 1}\nno json\n'
    assert import_file(client, "a.jsonl", lines)["cases"] == {"flagged": 1, "failed": 3}
    chat = {"messages": [["user", "Hi"], ["assistant", "It is 3 m."], ["user", "Yes?"], ["assistant", "It is 4 m."]]}
    assert sum(import_file(client, "chat.jsonl", json.dumps(chat).encode())["cases"].values()) == 2
    for name, body in (("a.csv", b"colour\nred\n"), ("a.parquet", b"PAR1"), ("a.jsonl", b"")):
        run = import_file(client, name, body)
        assert run["problem"]
        assert "/tmp" not in run["problem"]
        assert run["cases"] == {}


@pytest.mark.parametrize(
    "name", [f"a.{'😀' * 90}.csv", "a.\0.csv", "../../a.b/..csv", "a.CSV.GZ"], ids=["long", "nul", "dots", "upper"]
)
def test_the_name_of_a_file_may_be_anything(client: TestClient, name: str) -> None:
    body = gzip.compress(ROWS) if name.endswith("GZ") else ROWS
    run = import_file(client, name, body)
    assert run["name"] == name.replace("\0", "\ufffd")
    assert run["cases"] == {"flagged": 1, "unjudged": 1, "clear": 1}


def test_a_small_file_that_grows_is_not_held_in_memory(client: TestClient) -> None:
    row = b'{"response": "%b", "sources": ["It is 4 m."]}\n' % (b"a" * 9_000_000)
    assert import_file(client, "a.jsonl.gz", gzip.compress(row))["cases"] == {"failed": 1}
    table = b'response,sources\n"%b",a\n' % (b"a" * 40_000_000)
    assert "a line larger than" in import_file(client, "a.csv.gz", gzip.compress(table))["problem"]


class Moody(Echo):
    """Cannot judge at first; breaks at "fail"."""

    def __init__(self) -> None:
        super().__init__()
        self.up = False

    def judge(self, cases: list[Case]) -> list[Judgement]:
        if not self.up:
            raise CannotJudgeError("no chat model answers", hint="start it")
        return super().judge(cases)


def test_an_import_waits_for_its_detector_and_one_bad_case_stops_no_other(
    place: HistorySettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("veridical.server.desk._PAUSE", 0.01)
    detector = Moody()
    with client_of(own={"moody": detector}, history=place) as client:
        rows = b"response,source\nIt is 3.,a\nfail,a\nIt is red.,a\n"
        id = client.post("/v1/runs?name=a.csv", content=rows, headers=OCTETS).json()["id"]
        until(lambda: client.get(f"/v1/runs/{id}").json()["state"] == "paused")
        run = client.get(f"/v1/runs/{id}").json()
        assert ("no chat model" in run["problem"], run["cases"]) == (True, {"waiting": 3})
        detector.up = True
        until(lambda: client.get(f"/v1/runs/{id}").json()["state"] == "done")
        run = client.get(f"/v1/runs/{id}").json()
        assert (run["problem"], run["cases"]) == ("", {"flagged": 1, "failed": 1, "clear": 1})
        detector.gate.clear()
        again = client.post("/v1/runs?name=a.csv", content=rows, headers=OCTETS).json()["id"]
        until(lambda: client.get(f"/v1/runs/{again}").json()["cases"] == {"waiting": 3})
        detector.gate.set()
        assert client.delete(f"/v1/runs/{again}").status_code == 200  # while it is judged
        assert client.get(f"/v1/runs/{again}").status_code == 404
    with client_of("overlap", history=place) as client:  # a detector that is gone leaves its runs
        assert [run["id"] for run in client.get("/v1/runs").json()["runs"]] == [id]


def test_reading_goes_on_after_the_last_stored_row(tmp_path: Path) -> None:
    rows = b"response,source\n" + b"".join(b"It is %d m.,It is 4 m.\n" % i for i in range(1203))
    with closing(History(tmp_path / "history.db", cases=1200)) as history:
        form = {"columns": {"response": None, "sources": [], "question": None, "id": None}}
        about = {"form": {**form, "encoding": None, "delimiter": None}}
        run = history.begin_import(NewRun(origin="import", about=about), "a.csv", rows)
        read_upload(history, run, Limits(), lambda: True)
        assert history.rows_read(run) == 500  # it was stopped after the first of them
        read_upload(history, run, Limits(), lambda: False)
        assert history.run(run).state == "judging"
        assert "keeps 1,200 cases" in history.run(run).problem
        assert history.case(run, 1200).row.beginning == "It is 1199 m."


def test_a_reader_that_breaks_ends_the_reading(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def rows(_: object) -> Iterator[SourceRow]:
        yield SourceRow(1, {"response": "It is 3 m.", "sources": ["It is 4 m."]})
        raise RuntimeError("/tmp/secret")

    monkeypatch.setattr(RowReader, "rows", rows)
    run = import_file(client, "a.jsonl", b"{}")
    assert (run["cases"], run["problem"]) == ({"flagged": 1}, "the file cannot be read further (is it damaged?)")


def test_a_kill_during_an_import_loses_nothing(place: HistorySettings) -> None:
    rows = b"response,source\n" + b"".join(b"It is %d m.,It is 4 m.\n" % i for i in range(600))
    options = ("-d", "overlap", "--history", place.place)
    with server_process(*options) as url, httpx.Client(base_url=url, timeout=60) as client:
        id = client.post("/v1/runs?name=a.csv", content=rows, headers=OCTETS).json()["id"]
        until(lambda: "clear" in client.get(f"/v1/runs/{id}").json()["cases"])
        counts = client.get(f"/v1/runs/{id}").json()["cases"]
        assert 0 < counts["waiting"] < 600
    with client_of("overlap", history=place) as again:
        until(lambda: again.get(f"/v1/runs/{id}").json()["state"] == "done")
        assert again.get(f"/v1/runs/{id}").json()["cases"] == {"flagged": 599, "clear": 1}


def test_answers_are_what_the_document_says(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    assert "$defs" not in json.dumps(document)
    run = client.post("/v1/check", json=CASE).json()["run"]
    example = document["paths"]["/v1/runs/{run}/cases/{number}/decisions"]["put"]["requestBody"]["content"]
    sent = example["application/json"]["examples"]["1"]["value"]
    jsonschema.validate(sent, resolved(document, example["application/json"]["schema"]))
    assert client.put(f"/v1/runs/{run}/cases/1/decisions", json=sent).status_code == 200
    for path, methods in document["paths"].items():
        if not path.startswith(("/v1/runs", "/v1/calibrations")) or "get" not in methods or "{name}" in path:
            continue
        answer = client.get(path.replace("{run}", run).replace("{other}", run).replace("{number}", "1"))
        kind = answer.headers["content-type"].partition(";")[0]
        schema = methods["get"]["responses"]["200"]["content"][kind]["schema"]
        if kind != "application/json":
            assert decode(answer.text).gold.verdicts[0].correction == "330"
            continue
        jsonschema.validate(answer.json(), resolved(document, schema))
        refused = client.get(path.replace("{run}", "none").replace("{other}", run).replace("{number}", "1"))
        assert str(refused.status_code) in methods["get"]["responses"]
    for form, kind in (("csv", "text/csv"), ("label-studio", "application/json")):
        answer = client.get(f"/v1/runs/{run}/examples?form={form}")
        assert (answer.status_code, answer.headers["content-type"].partition(";")[0]) == (200, kind)
        assert "330" in answer.text or '"end":16' in answer.text
    assert client.get(f"/v1/runs/{run}/examples?form=pdf").status_code == 422
    assert "/v1/runs/{run}/cases" in client.get("/docs").text
