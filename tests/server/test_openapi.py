"""The OpenAPI document says what the service takes and gives; every example in it works."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from starlette.testclient import TestClient

from tests.llm.loopback import completion, serving
from tests.processes import LIMIT
from tests.server.services import CASE, client_of
from tests.server.test_running import running
from veridical.server.openapi import CONVERSATION
from veridical.server.settings import HistorySettings, ProxySettings, ServerSettings


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with client_of("overlap") as client:
        yield client


@pytest.fixture(scope="module")
def document(client: TestClient) -> Any:
    return client.get("/openapi.json").json()


def resolved(document: Any, schema: Any) -> Any:
    """The schema with what it refers to."""
    return {**schema, "components": document["components"]}


def test_every_reference_leads_somewhere(document: Any) -> None:
    text = json.dumps(document)
    names = {part.split('"')[0] for part in text.split('"#/components/schemas/')[1:]}
    assert names
    assert names <= document["components"]["schemas"].keys()
    assert "$defs" not in text


def test_every_example_works(client: TestClient, document: Any) -> None:
    tried = 0
    for path, methods in document["paths"].items():
        for kind, content in methods.get("post", {}).get("requestBody", {}).get("content", {}).items():
            for example in content.get("examples", {}).values():
                value = example["value"]
                jsonschema.validate(value, resolved(document, content["schema"]))
                answer = client.post(path, content=json.dumps(value), headers={"Content-Type": kind})
                assert answer.status_code == 200, (path, answer.text)
                tried += 1
    assert tried >= 5


@pytest.mark.parametrize("path", ["/v1/check", "/v1/revise"])
def test_answers_are_what_the_document_says(client: TestClient, document: Any, path: str) -> None:
    answers = document["paths"][path]["post"]["responses"]
    for body, status in (({"cases": [CASE]}, "200"), ({"cases": []}, "422"), ({"x": 1}, "400")):
        answer = client.post(path, json=body)
        assert str(answer.status_code) == status
        jsonschema.validate(answer.json(), resolved(document, answers[status]["content"]["application/json"]["schema"]))


def test_a_conversation_is_documented_as_it_is_read(client: TestClient, document: Any) -> None:
    schema = resolved(document, document["components"]["schemas"]["CheckRequest"])
    for case, valid in (
        ({**CONVERSATION, "id": "c", "system": "all", "assistant": True, "sources": "It is red."}, True),
        ({"messages": [["user", "Hi."], ["assistant", "Hello."]]}, True),
        ({**CONVERSATION, "response": "It is red."}, False),
        ({**CONVERSATION, "system": [{"type": "text", "text": "Be brief."}]}, True),
        ({**CONVERSATION, "system": True}, False),
        ({"messages": "Hi."}, False),
    ):
        assert jsonschema.Draft202012Validator(schema).is_valid({"cases": [case]}) is valid
        assert (client.post("/v1/check", json={"cases": [case]}).status_code == 200) is valid


def test_the_page_of_routes_loads_nothing(client: TestClient, document: Any) -> None:
    answer = client.get("/docs")
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert not re.search(r"<script|src=|https?://", answer.text)
    for path in document["paths"]:
        assert path in answer.text
    assert "The spec of a detector of this server" in answer.text
    assert client.get("/redoc").status_code == 404


def test_the_proxy_is_documented() -> None:
    reply = completion("The tower is 330 m tall.")
    with serving(lambda _: reply) as server, client_of("overlap", proxy=ProxySettings(base_url=server.url)) as client:
        document = client.get("/openapi.json").json()
        operation = document["paths"]["/v1/chat/completions"]["post"]
        content = operation["requestBody"]["content"]["application/json"]
        jsonschema.validate(content["examples"]["1"]["value"], resolved(document, content["schema"]))
        answer = client.post("/v1/chat/completions", json=content["examples"]["1"]["value"])
        assert answer.json()["veridical"]["status"] == "clear"
        assert "502" in operation["responses"]
        assert "/v1/models" in document["paths"]
        refused = client.post("/v1/chat/completions", json={"sources": [1]})
        schema = operation["responses"][str(refused.status_code)]["content"]["application/json"]["schema"]
        jsonschema.validate(refused.json(), resolved(document, schema))
        assert "/v1/chat/completions" in client.get("/docs").text


def test_no_server_error_on_whatever_fits_the_document(tmp_path: Path) -> None:
    """Generated requests by the dozen; needs schemathesis, which is no part of the development environment."""
    schemathesis = pytest.importorskip("schemathesis")
    statuses = []
    history = HistorySettings(place=str(tmp_path / "history.db"))
    with running(ServerSettings(detectors=("overlap",), history=history)) as url:
        kept = httpx.post(f"{url}/v1/check", json=CASE, timeout=LIMIT).json()["run"]
        documented = httpx.get(f"{url}/openapi.json", timeout=LIMIT).json()
        for operation in schemathesis.openapi.from_dict(documented).get_all_operations():

            @given(case=operation.ok().as_strategy())
            @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
            def try_it(case: Any) -> None:
                for name, value in (("run", kept), ("other", kept), ("number", "1")):
                    if name in (case.path_parameters or {}) and len(statuses) % 2:
                        case.path_parameters[name] = value
                answer = case.call(base_url=url)
                statuses.append((case.path, answer.status_code))

            try_it()
    assert len(statuses) > 100
    assert not [each for each in statuses if each[1] >= 500 and each != ("/ready", 503)]
