"""What the page asks of the service beyond checking, and how its files are served."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from tests.server.page_service import Mapped, Marker
from tests.server.services import client_of
from veridical.server.settings import Limits

CASE = {"response": "Some wrong words.", "sources": ["That is right."]}


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    limits = Limits(batch_wait=0, cases=2, characters=200)
    with client_of(own={"marker": Marker(), "mapped": Mapped()}, limits=limits) as one:
        yield one


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/", "text/html"), ("/app.js", "text/javascript"), ("/style.css", "text/css"), ("/icon.svg", "image/svg+xml")],
)
def test_the_page_is_served_under_its_policy(client: TestClient, path: str, kind: str) -> None:
    answer = client.get(path)
    assert (answer.status_code, answer.headers["content-type"].partition(";")[0]) == (200, kind)
    assert "default-src 'self'" in answer.headers["content-security-policy"]


@pytest.mark.parametrize("path", ["/../app.py", "/%2e%2e/app.py", "/..%2fapp.py", "/app.py"])
def test_nothing_else_is_served(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 404


def test_maps_by_case_and_detector(client: TestClient) -> None:
    case = {"response": "right or wrong", "sources": [{"id": "a", "text": "It is right."}]}
    answer = client.post("/v1/salience", json={"cases": [case], "detector": ["marker", "mapped"]})
    [[none, found]] = answer.json()["maps"]
    assert none is None
    assert found["words"][0] == {
        "span": {"start": 0, "end": 5},
        "attribution": 0.5,
        "strongest": [{"source_id": "a", "span": {"start": 6, "end": 11}, "text": "right", "value": 0.5}],
    }
    assert found["words"][1]["strongest"] == []
    offered = {detector["name"]: detector["maps"] for detector in client.get("/v1/detectors").json()["detectors"]}
    assert offered == {"marker": False, "mapped": True}


def test_a_report_of_results_has_their_decisions(client: TestClient) -> None:
    asked = {"cases": [CASE], "detector": ["marker"], "include": ["sources"]}
    [result] = client.post("/v1/check", json=asked).json()["results"]
    result["decisions"][0] |= {"verdicts": [], "outcome": "clear", "thresholds": {"span": 0.987}}
    answer = client.post("/v1/report", json={"results": [result], "heat": True})
    assert answer.status_code == 200
    assert "0.987" in answer.text or "0.99" in answer.text
    assert "Clear" in answer.text


@pytest.mark.parametrize(
    ("change", "status", "part"),
    [
        ({"cases": [CASE]}, 422, "both cases and results"),
        ({"results": ["x"]}, 400, "results[0] is not a JSON object"),
        ({"results": [CASE]}, 400, "results[0]: "),
        ({"results": [{}] * 3}, 413, "3 results"),
        ({"results": []}, 422, "no cases"),
    ],
)
def test_results_that_are_none(client: TestClient, change: dict[str, object], status: int, part: str) -> None:
    [result] = client.post("/v1/check", json={"cases": [CASE]}).json()["results"]
    answer = client.post("/v1/report", json={"results": [result], **change})
    assert (answer.status_code, part in answer.json()["error"]) == (status, True), answer.text


def test_a_result_without_its_sources_says_how_to_get_them(client: TestClient) -> None:
    case = {"response": "Pigs fly.", "sources": ["Pigs walk."]}
    (result,) = client.post("/v1/check", json={"cases": [case], "explain": True}).json()["results"]
    result["judgements"][0]["verdicts"] = [
        {"span": {"start": 0, "end": 4}, "score": 1, "evidence": [{"source_id": "1", "span": {"start": 0, "end": 4}}]}
    ]
    result["decisions"][0]["verdicts"] = []
    answer = client.post("/v1/report", json={"results": [result]})
    assert (answer.status_code, "include" in answer.json()["hint"]) == (400, True), answer.text


def test_a_result_over_the_limits_or_outside_of_its_texts_is_refused(client: TestClient) -> None:
    [result] = client.post("/v1/check", json={"cases": [CASE], "include": ["sources"]}).json()["results"]
    large = json.loads(json.dumps(result))
    large["case"]["sources"][0]["text"] += " more" * 100
    assert client.post("/v1/report", json={"results": [large]}).status_code == 413
    result["case"]["response"] = "Some"
    refused = client.post("/v1/report", json={"results": [result]})
    assert refused.status_code in (400, 422)
    assert "error" in refused.json()
