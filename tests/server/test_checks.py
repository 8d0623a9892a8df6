"""Checking over HTTP gives what checking in Python gives, and refuses what cannot be checked in one JSON form."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import veridical
from tests.io.test_documents import lines_of, pdf_of
from tests.server.services import CASE, client_of
from veridical.io.serialization import decode
from veridical.records.errors import InputError
from veridical.server.keys import make_key, read_keys
from veridical.server.settings import Limits, ProxySettings


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with client_of("overlap", "overlap:values", limits=Limits(cases=3, sources=3, characters=1000)) as client:
        yield client


def test_the_answer_is_that_of_check(client: TestClient) -> None:
    second = {"response": "It rains.", "sources": [{"text": "It rains a lot.", "must_cover": True}]}
    options: dict[str, Any] = {"detector": ["overlap:values", "overlap"], "threshold": {"span": 0.4}}
    answer = client.post("/v1/check", json={"cases": [CASE, second], "include": ["sources"], **options})
    assert answer.status_code == 200
    found = [decode(result) for result in answer.json()["results"]]
    first = veridical.check(CASE["response"], CASE["sources"], **options)
    assert found[0] == first
    assert found[1].case.id == "2"
    assert found[1].omitted


@pytest.mark.parametrize("path", ["/v1/check", "/v1/revise", "/v1/report", "/v1/salience"])
def test_one_case_needs_no_list(client: TestClient, path: str) -> None:
    alone, listed = (client.post(path, json=body) for body in ({"id": "7", **CASE}, {"cases": [{"id": "7", **CASE}]}))
    assert alone.status_code == listed.status_code == 200
    assert alone.content == listed.content
    chat = {"messages": [["tool", "It is red."], ["assistant", "It is red."]], "detector": "overlap"}
    assert client.post("/v1/check", json=chat).json()["results"][0]["outcome"] == "clear"


def test_offsets_may_count_as_javascript_does(client: TestClient) -> None:
    source = {"text": "\U0001f355\U0001f355 The tower is 330 m tall.", "pages": [0, 3]}
    source["metadata"] = {"place": {"start": 9, "end": 9}}
    case: dict[str, Any] = {"response": "\U0001f355 The tower is 300 m tall.", "sources": [source]}
    asked = {"cases": [case], "explain": True, "offsets": "utf-16", "include": ["sources"]}
    (result,) = client.post("/v1/check", json=asked).json()["results"]
    assert result["offsets"] == "utf-16"
    (verdict,) = (v for v in result["judgements"][0]["verdicts"] if v["score"] == 1.0)
    assert verdict["correction"] == "330"
    utf16 = case["response"].encode("utf-16-le")
    assert utf16[2 * verdict["span"]["start"] : 2 * verdict["span"]["end"]].decode("utf-16-le") == "300"
    (evidence,) = verdict["evidence"]
    assert evidence["span"]["end"] == len(case["sources"][0]["text"].encode("utf-16-le")) // 2
    assert result["case"]["sources"][0]["metadata"] == case["sources"][0]["metadata"]
    assert result["case"]["sources"][0]["pages"] == [0, 5]
    with pytest.raises(InputError, match="offsets"):
        decode(result)
    (plain,) = client.post("/v1/check", json={"cases": [case], "include": ["sources"]}).json()["results"]
    assert decode(plain).flagged[0].text == "300"
    assert client.post("/v1/check", json={"cases": [case], "offsets": "bytes"}).status_code == 400
    for route, what in (("revise", {"cases": [case]}), ("report", {"cases": [case]}), ("stream", {"case": case})):
        assert client.post(f"/v1/{route}", json={**what, "offsets": "utf-16"}).status_code == 400


def test_sources_come_back_only_if_asked_for(client: TestClient) -> None:
    case = {**CASE, "question": "How tall?"}
    for route in ("/v1/check", "/v1/revise"):
        (plain,) = client.post(route, json={"cases": [case]}).json()["results"]
        (full,) = client.post(route, json={"cases": [case], "include": ["sources"]}).json()["results"]
        assert plain["case"] == {"id": "1", "response": CASE["response"], "question": "How tall?"}
        assert full == {**plain, "case": {**plain["case"], "sources": full["case"]["sources"]}}
        assert [source["text"] for source in full["case"]["sources"]] == CASE["sources"]
        assert client.post(route, json={"cases": [case], "include": ["texts"]}).status_code == 400


@pytest.mark.parametrize(("named", "used"), [({"detector": "overlap:values"}, "overlap:values"), ({}, "overlap")])
def test_one_detector_may_be_named_without_a_list_or_none(client: TestClient, named: dict[str, str], used: str) -> None:
    (result,) = client.post("/v1/check", json={"cases": [CASE], **named}).json()["results"]
    assert [judgement["by"] for judgement in result["judgements"]] == [used]


def test_half_of_a_surrogate_pair_in_a_name_is_refused(client: TestClient) -> None:
    for field, route in (("detector", "/v1/check"), ("reviser", "/v1/revise"), ("title", "/v1/report")):
        body = json.dumps({"cases": [CASE], field: "\ud800"})
        answer = client.post(route, content=body, headers={"Content-Type": "application/json"})
        assert (answer.status_code, field in answer.json()["error"]) == (400, True)


def test_a_conversation_has_a_result_for_each_turn(client: TestClient) -> None:
    chat = [["tool", "It is blue."], ["assistant", "It is red."]]
    asked = {"messages": [*chat, ["assistant", "It is blue."]]}
    results = client.post("/v1/check", json={"cases": [asked]}).json()["results"]
    assert [(r["case"]["id"], r["outcome"]) for r in results] == [("1 message 2", "flagged"), ("1 message 3", "clear")]
    too_many = client.post("/v1/check", json={"cases": [asked, {"messages": chat}, CASE]})
    assert (too_many.status_code, "more than 3 cases" in too_many.text) == (413, True)
    assert "has 4 messages" in client.post("/v1/check", json={"cases": [{"messages": chat * 2}]}).text
    assert client.post("/v1/check", json={"cases": [{"messages": [["narrator", "x"]]}]}).status_code in (400, 422)


def test_what_there_is(client: TestClient) -> None:
    assert client.get("/health").json()["version"] == veridical.__version__
    assert [client.head(path).status_code for path in ("/health", "/ready")] == [200, 200]  # as some monitors ask
    names = [detector["name"] for detector in client.get("/v1/detectors").json()["detectors"]]
    assert names == ["overlap", "overlap:values"]
    assert client.get("/ready").status_code in (200, 503)


URL = {"response": "It rains.", "sources": ["https://example.org/article"]}


@pytest.mark.parametrize(
    ("body", "status", "part"),
    [
        ({"cases": [CASE], "detectors": ["overlap"]}, 400, "did you mean detector"),
        ({"cases": [{"respnse": "a"}]}, 400, "cases[0]"),
        (
            {"cases": [{"question": "How tall?", "answer": "300 m", "contexts": ["330 m"]}]},
            400,
            "a row of RAGAS 0.1? rename answer to response, contexts to sources",
        ),
        (
            {"cases": [{"input": "How tall?", "actual_output": "300 m", "retrieval_context": ["330 m"]}]},
            400,
            "rename actual_output to response, retrieval_context to sources, input to question",
        ),
        ({"cases": [{"response": "300 m", "retrieved_contexts": ["330 m"]}]}, 400, "retrieved_contexts to sources"),
        ({"respons": "300 m"}, 400, '"cases": [{"response": "…", "sources": ["…"]}]'),
        ({**CASE, "sorces": ["330 m"]}, 400, "did you mean sources"),
        ({**CASE, "cases": [CASE]}, 400, "unknown field"),
        ({"cases": CASE}, 400, "not a list"),
        ({"cases": ["It rains."]}, 400, "not a JSON object"),
        ({"cases": []}, 422, "no cases"),
        ({"cases": [CASE] * 4}, 413, "4 cases"),
        ({"cases": [{"response": "a", "sources": ["b"] * 4}]}, 413, "4 sources"),
        ({"cases": [{"response": "a" * 1001}]}, 413, "1,001 characters"),
        ({"cases": [URL]}, 422, "not fetched"),
        ({"cases": [{"response": "a", "metadata": dict.fromkeys(map(str, range(10_001)))}]}, 413, "10,000 fields"),
        ({"cases": [{**CASE, **dict.fromkeys(map(str, range(1_001)))}]}, 400, "1,001 values are unknown"),
        ({**CASE, "detector": [1] * 1_001}, 400, "values are unknown or of another type"),
        ({"cases": [CASE], "detector": []}, 422, "no detector"),
        ({"cases": [CASE], "detector": ["overlap", "overlap"]}, 422, "twice"),
        ({"cases": [CASE], "detector": ["judge:model=gpt-4o-mini,base_url=http://10.0.0.1"]}, 422, "known: overlap"),
        ({"cases": [CASE], "detector": ["tokens:/etc"]}, 422, "known: overlap"),
        ({"cases": [CASE], "detector": 'tokens:"a'}, 422, "known: overlap"),  # its options are not read
        ({"cases": [CASE], "detector": "overlap:" + "a" * 10_000}, 422, "a spec of 10,008 characters"),
        ({"cases": [CASE], "threshold": 2}, 422, "threshold is 2"),
        ({"cases": [CASE], "threshold": "high"}, 400, "threshold"),
        ({"cases": [CASE], "flag_over": 1}, 422, "flag_over"),
    ],
)
def test_refused_with_one_line(client: TestClient, body: dict[str, Any], status: int, part: str) -> None:
    answer = client.post("/v1/check", json=body)
    assert answer.status_code == status
    said = answer.json()
    assert set(said) == {"error", "hint", "request_id"}
    assert part in f"{said['error']} {said['hint']}"
    assert said["request_id"] == answer.headers["x-request-id"]


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"{", "not JSON"),
        (b"[1]", "JSON array"),
        (b"\xff\xfe{}", "not UTF-8"),
        (b"[" * 200_000, "deeply"),
        (b'{"cases": [' + b'{"a":' * 40 + b"1" + b"}" * 40 + b"]}", "more deeply than 32"),
        (b'{"cases": [{"response": "\\ud800"}]}', "surrogate"),
        (b'{"cases": [], "threshold": NaN}', "NaN"),
        (b'{"cases": [], "cases": []}', "twice"),
    ],
)
def test_what_is_not_json(client: TestClient, content: bytes, part: str) -> None:
    answer = client.post("/v1/check", content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400
    assert part in answer.json()["error"]


def test_another_content_type_is_refused(client: TestClient) -> None:
    answer = client.post("/v1/check", content=b"{}", headers={"Content-Type": "text/plain"})
    assert (answer.status_code, answer.json()["hint"]) == (415, "it has to be application/json")


def test_unknown_routes_and_methods_have_the_same_form(client: TestClient) -> None:
    for method, path, status, allow in (
        ("GET", "/nothing", 404, None),
        ("GET", "/v1/check", 405, "POST"),
        ("PUT", "/v1/check", 405, "POST"),
        ("POST", "/health", 405, "GET, HEAD"),
        ("POST", "/", 405, "GET, HEAD"),
        ("POST", "/v1/explain", 404, None),
        ("DELETE", "/nothing", 404, None),
    ):
        answer = client.request(method, path)
        assert (answer.status_code, answer.headers.get("Allow")) == (status, allow)
        assert set(answer.json()) == {"error", "hint", "request_id"}


def test_the_service_repeats_no_long_name() -> None:
    long = "a" * 4_000_000
    case = {"response": "a", "sources": ["a"]}
    requests: list[dict[str, Any]] = [
        {"cases": [case], "detector": long},
        {"cases": [case], "detector": f"{long}:values"},
        {"cases": [case], "threshold": {long: 0.5}},
        {"cases": [case], long: 1},
        {"cases": [{**case, long: 1}]},
        {"cases": [{**case, "question": [long]}]},
    ]
    with client_of("overlap") as client:
        for request in requests:
            answer = client.post("/v1/check", json=request)
            assert answer.status_code in (400, 422)
            assert len(answer.content) < 5000


def test_values_are_counted_before_they_are_built(monkeypatch: pytest.MonkeyPatch) -> None:
    def built(text: str) -> Any:
        pytest.fail(f"{text[:50]} was built")

    many = (b"[{}" + b",{}" * 100 + b"]", b'[{"a": 1}' + b', {"a": 1}' * 100 + b"]", b"[1" + b",1" * 100 + b"]")
    with client_of("overlap", limits=Limits(values=100), proxy=ProxySettings(base_url="http://127.0.0.1:1/v1")) as few:
        text = 'a, {"b": [1, 2]}, \\" , ' * 100  # in a text, nothing counts
        assert few.post("/v1/check", json={"cases": [{"response": text}]}).status_code == 200
        monkeypatch.setattr("veridical.server.requests.parse", built)
        for route in ("check", "salience", "report", "revise", "stream", "chat/completions"):
            headers = {"Content-Type": "application/jsonl" if route == "stream" else "application/json"}
            for data in many:
                answer = few.post(f"/v1/{route}", content=b'{"cases": %b}' % data, headers=headers)
                assert answer.status_code == 413, route
                assert "the JSON has more than 100 values" in answer.text


def test_routes_of_openai_that_are_missing_say_how_to_get_them(client: TestClient) -> None:
    for method, path in (("POST", "/v1/chat/completions"), ("GET", "/v1/models")):
        answer = client.request(method, path, json={})
        assert (answer.status_code, answer.json()["hint"]) == (404, "start the server with --proxy URL")
    with client_of("overlap", proxy=ProxySettings(base_url="http://127.0.0.1:1/v1")) as proxied:
        for path in ("/v1/embeddings", "/v1/responses", "/v1/completions", "/v1/models/tiny"):
            answer = proxied.post(path, json={})
            assert (answer.status_code, answer.headers.get("allow")) == (404, None)
            assert answer.json()["hint"] == "only chat/completions and models are forwarded"


@pytest.mark.parametrize(
    ("name", "data", "text"),
    [
        ("a.txt", "Grün.\n".encode(), "Grün.\n"),
        ("../../etc/a.md", b"# Title\n\nIt *rains*.", "Title\n\nIt rains."),
        ("C:\\a.html", b"<p>It <b>rains</b>.</p><script>x</script>", "It rains."),
    ],
)
def test_documents_become_text(client: TestClient, name: str, data: bytes, text: str) -> None:
    answer = client.post("/v1/documents", files={"file": (name, data)})
    name = re.split(r"[/\\]", name)[-1]
    assert answer.json() == {"name": name, "text": text, "characters": len(text), "pages": [], "notes": []}


def test_pages_of_a_document_come_back_with_its_findings(client: TestClient) -> None:
    pdf = pdf_of("The tower is red.", lines_of("It is 330 m tall and remark-", "able."))
    answer = client.post("/v1/documents", files={"file": ("a.pdf", pdf)}).json()
    assert answer["text"] == "The tower is red.\n\nIt is 330 m tall and remarkable."
    source = {"text": answer["text"], "pages": answer["pages"]}
    case = {"response": "It is 330 m tall.", "sources": [source]}
    checked = decode(client.post("/v1/check", json={"cases": [case], "include": ["sources"]}).json()["results"][0])
    source = checked.case.sources[0]
    cited = [e.span for v in checked.judgements[0].verdicts for e in v.evidence if "330" in e.span.of(source.text)]
    assert {source.page_of(span) for span in cited} == {2}


def test_an_encoding_is_named_as_http_does(client: TestClient) -> None:
    data = "Grün.".encode("cp1252")
    answer = client.post("/v1/documents", files={"file": ("a.txt", data)})
    assert answer.status_code == 422
    assert answer.json()["hint"] == (
        "save it as UTF-8, or name its encoding in the Content-Type of the part: text/plain; charset=windows-1252"
    )
    answer = client.post("/v1/documents", files={"file": ("a.txt", data, "text/plain; charset=windows-1252")})
    assert answer.json()["text"] == "Grün."


def test_documents_that_cannot_be_read(client: TestClient) -> None:
    for name, data in (("a.pdf", b"no"), ("a.txt", b"\xff\x00"), ("a.md", b" ")):
        assert client.post("/v1/documents", files={"file": (name, data)}).status_code == 422
    assert client.post("/v1/documents", files={"other": ("a.txt", b"a")}).status_code == 422


def test_a_report_is_one_page_that_runs_and_loads_nothing(client: TestClient) -> None:
    hostile = {"response": "<script>alert(1)</script> 300", "sources": ["The tower."]}
    answer = client.post("/v1/report", json={"cases": [hostile], "title": "<b>", "heat": True})
    assert answer.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "<script" not in answer.text
    assert "&lt;b&gt;" in answer.text


def test_every_answer_is_protected(client: TestClient) -> None:
    headers = client.get("/health").headers
    assert "default-src 'self'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"


def test_pages_of_other_origins_and_other_names_of_the_host_are_refused(client: TestClient) -> None:
    for origin in ("https://evil.example", "http://[", "null", ""):
        assert client.get("/health", headers={"Origin": origin}).status_code == 403, origin
    assert client.get("/health", headers={"Origin": "http://127.0.0.1"}).status_code == 200
    other_host = client.get("/health", headers={"Host": "evil.example"})
    assert (other_host.status_code, "--api-keys" in other_host.json()["hint"]) == (421, True)
    assert client.get("/health", headers={"Host": "localhost:8000"}).status_code == 200


def test_the_request_id_of_the_client_is_kept_if_it_is_one(client: TestClient) -> None:
    assert client.get("/health", headers={"X-Request-ID": "run-7"}).headers["x-request-id"] == "run-7"
    assert client.get("/health", headers={"X-Request-ID": "a b"}).headers["x-request-id"] != "a b"


def test_only_who_has_a_key_may_use_it(tmp_path: Path) -> None:
    file = tmp_path / "keys.txt"
    key = make_key(file, "alice")
    make_key(file, "bob")
    assert key not in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600
    body = {"cases": [CASE]}
    with client_of("overlap", keys=read_keys(file), hosts=()) as client:
        assert client.post("/v1/check", json=body).status_code == 401
        wrong = client.post("/v1/check", json=body, headers={"Authorization": "Bearer vk-wrong"})
        assert (wrong.status_code, wrong.headers["www-authenticate"]) == (401, "Bearer")
        assert key not in wrong.text
        for headers in ({"Authorization": f"Bearer {key}"}, {"X-API-Key": key}):
            assert client.post("/v1/check", json=body, headers=headers).status_code == 200
        assert client.get("/health").status_code == 200
        assert client.get("/v1/detectors").status_code == 401


def test_files_of_keys(tmp_path: Path) -> None:
    file = tmp_path / "keys.txt"
    for text, part in (("", "no keys"), ("abc alice\n", ":1: not a key"), ("# c\n" + "0" * 64 + " a\n" * 2, ":3: not")):
        file.write_text(text)
        with pytest.raises(InputError, match=part):
            read_keys(file)
    file.unlink()
    make_key(file, "alice")
    with pytest.raises(InputError, match="called alice"):
        make_key(file, "alice")
    with pytest.raises(InputError, match="not a name"):
        make_key(file, "a b")


def test_pages_of_origins_that_are_named_may_use_it(tmp_path: Path) -> None:
    make_key(tmp_path / "keys", "alice")
    with client_of("overlap", cors=("https://app.example",), keys=read_keys(tmp_path / "keys")) as client:
        asks = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "x-api-key,content-type"}
        for origin, status in (("https://app.example", 200), ("https://evil.example", 400)):
            answer = client.options("/v1/check", headers={"Origin": origin, **asks})
            assert answer.status_code == status
            assert answer.headers.get("access-control-allow-origin") == (origin if status == 200 else None)
        asks["Access-Control-Request-Headers"] = "authorization,content-type,x-stainless-lang"  # OpenAI's client
        assert client.options("/v1/check", headers={"Origin": "https://app.example", **asks}).status_code == 200
        refused = client.post("/v1/check", json={}, headers={"Origin": "https://app.example"})
        exposed = refused.headers["access-control-expose-headers"]
        assert exposed == "X-Veridical-Status, X-Request-ID, Retry-After"
        assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (401, "https://app.example")
        assert client.post("/v1/check", json={}, headers={"Origin": "https://evil.example"}).status_code == 403
