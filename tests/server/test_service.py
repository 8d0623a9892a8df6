"""Many clients at once, revising, streams, the log and the metrics."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import shutil
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient

from tests.io.test_documents import bombs
from tests.processes import LIMIT
from tests.server.services import CASE, Echo, Endless, client_of, leaving, until
from veridical.cli.serve import CapacityOptions
from veridical.detectors import load_detector
from veridical.io.serialization import decode, decode_case
from veridical.records.detector import DetectorInfo
from veridical.records.errors import CannotJudgeError, InputError, VeridicalError
from veridical.records.spans import Span
from veridical.records.types import Case, Judgement, Verdict
from veridical.server import sessions
from veridical.server.app import create_app
from veridical.server.errors import Refused
from veridical.server.extraction import Extraction
from veridical.server.intake import Intake
from veridical.server.observation import LOGGER, JsonLines
from veridical.server.protection import lines
from veridical.server.requests import ReviseRequest
from veridical.server.service import Service
from veridical.server.sessions import open_session
from veridical.server.settings import Limits, ServerSettings
from veridical.text.segment import sentences
from veridical.workflows.revise import Delete, Flag, revise

JSON = {"Content-Type": "application/json"}
ROUTES = ("check", "salience", "report", "revise", "stream")


def shut_once_ready(client: TestClient, detector: Echo) -> None:
    until(lambda: client.get("/ready").json()["ready"])
    detector.shut()


def test_answers_of_many_clients_are_not_mixed_up() -> None:
    detector = Echo()
    with client_of(own={"echo": detector}, limits=Limits(batch_wait=0.005, queue=1000)) as client:

        def ask(i: int) -> None:
            texts = [f"client {i} case {k}" for k in range(1 + i % 3)]
            answer = client.post("/v1/check", json={"cases": [{"response": text} for text in texts]})
            results = [decode(result) for result in answer.json()["results"]]
            assert [result.case.response for result in results] == texts
            assert [result.judgements[0].notes for result in results] == [(text,) for text in texts]
            assert [span.of(texts[0]) for span in results[0].flagged][-1] == "0"

        with ThreadPoolExecutor(16) as pool:
            list(pool.map(ask, range(60)))
    assert len(detector.batches) < 120


def test_a_full_queue_is_429_and_passes() -> None:
    detector = Echo()
    with client_of(own={"echo": detector}, limits=Limits(batch_wait=0, queue=2, cases=2)) as client:
        shut_once_ready(client, detector)
        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(client.post, "/v1/check", json={"cases": [CASE]})
            assert detector.entered.wait(LIMIT)
            with ThreadPoolExecutor(1) as more:
                second = more.submit(client.post, "/v1/check", json={"cases": [CASE, CASE]})
                until(lambda: b'waiting_cases{detector="echo"} 2.0' in client.get("/metrics").content)
                third = client.post("/v1/check", json={"cases": [CASE]})
                assert third.status_code == 429
                assert int(third.headers["retry-after"]) >= 1
                detector.gate.set()
                assert (first.result().status_code, second.result().status_code) == (200, 200)
        assert client.post("/v1/check", json={"cases": [CASE]}).status_code == 200


def test_requests_beyond_queue_and_batch_are_refused_before_they_are_read() -> None:
    detector = Echo()
    with client_of(own={"echo": detector}, limits=Limits(batch_wait=0, queue=1, cases=1, batch_cases=1)) as client:
        shut_once_ready(client, detector)
        with ThreadPoolExecutor(2) as pool:
            asked = [pool.submit(client.post, "/v1/check", json={"cases": [CASE]})]
            assert detector.entered.wait(LIMIT)
            asked.append(pool.submit(client.post, "/v1/check", json={"cases": [CASE]}))
            until(lambda: b'waiting_cases{detector="echo"} 1.0' in client.get("/metrics").content)
            refused = [client.post(f"/v1/{route}", content=b"{", headers=JSON) for route in ROUTES]
            detector.gate.set()
        assert [(answer.status_code, answer.headers["retry-after"]) for answer in refused] == [(429, "1")] * 5
        assert [answer.result().status_code for answer in asked] == [200, 200]
        assert client.post("/v1/check", content=b"{", headers=JSON).status_code == 400


def test_what_goes_wrong_in_a_detector_is_one_answer_and_one_line_without_texts(caplog: Any) -> None:
    with client_of(own={"echo": Echo()}) as client, caplog.at_level(logging.INFO, LOGGER):
        answer = client.post("/v1/check", json={"cases": [{"response": "private fail"}]})
    assert answer.status_code == 500
    assert answer.json()["error"] == "the server failed at this"
    lines = [JsonLines().format(record) for record in caplog.records if record.name == LOGGER]
    failure = next(json.loads(line) for line in lines if '"failure"' in line)
    assert failure["exception"] == "RuntimeError"
    assert failure["request_id"] == answer.json()["request_id"]
    assert "services.py" in failure["at"]
    assert not [line for line in lines if "private" in line or "broke" in line]


class Unavailable(Echo):
    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        raise CannotJudgeError("no chat model answers", hint="start it")


def test_a_detector_that_cannot_judge_is_503_and_not_ready() -> None:
    with client_of(own={"down": Unavailable()}) as client:
        answer = client.post("/v1/check", json={"cases": [CASE]})
        assert (answer.status_code, answer.json()["hint"]) == (503, "start it")
        assert client.get("/ready").status_code == 503
        assert "no chat model" in client.get("/ready").json()["detectors"]["down"]


class Flaky(Echo):
    """Cannot be loaded until `up` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.up = threading.Event()

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        if not self.up.is_set():
            raise CannotJudgeError("no memory at the moment")
        return super().judge(cases)


@pytest.mark.parametrize("asked", ["/ready", "/v1/check"])
def test_a_detector_that_could_not_be_loaded_at_first_is_ready_once_it_can_judge(asked: str) -> None:
    detector = Flaky()
    with client_of(own={"flaky": detector}) as client:
        until(lambda: "no memory" in client.get("/ready").text)
        assert client.post("/v1/check", json={"cases": [CASE]}).status_code == 503
        detector.up.set()
        if asked == "/v1/check":
            assert client.post(asked, json={"cases": [CASE]}).status_code == 200
            assert client.get("/ready").json() == {"ready": True, "detectors": {}}
        else:
            until(lambda: client.get(asked).json()["ready"])


def test_slow_requests_leave_no_trace() -> None:
    """More of them than there are places for; then `/ready` and the next request are as at the start."""
    detector = Endless()
    with client_of(own={"endless": detector}, limits=Limits(timeout=0.01, revisions=2)) as client:
        shut_once_ready(client, detector)
        for route in ("check", "salience", "report", "revise") * 3:
            answer = client.post(f"/v1/{route}", json={"cases": [{"response": "slow"}]})
            while answer.status_code == 429:  # the thread of an earlier revision is just ending
                answer = client.post(f"/v1/{route}", json={"cases": [{"response": "slow"}]})
            assert answer.status_code == 504, route
        service: Service = client.app.state.service  # type: ignore[attr-defined]
        service.settings = replace(service.settings, limits=Limits())  # an ordinary request has time enough
        service.batcher().limits = Limits()
        for route in ("check", "revise"):
            assert client.post(f"/v1/{route}", json={"cases": [CASE]}).status_code == 200
        assert client.get("/ready").json()["ready"]
        assert not detector.gate.is_set()  # nothing has come to its own end
        detector.gate.set()


def pdf_of(content: bytes, pages: int) -> bytes:
    """A PDF of which each page draws the same stream."""
    kids = b" ".join(b"%d 0 R" % (number + 5) for number in range(pages))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, pages),
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    page = b"<< /Type /Page /Parent 2 0 R /Contents 3 0 R /Resources << /Font << /F 4 0 R >> >> >>"
    body, places = b"%PDF-1.4\n", []
    for number, each in enumerate([*objects, *[page] * pages], 1):
        places.append(len(body))
        body += b"%d 0 obj\n%s\nendobj\n" % (number, each)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    head = b"xref\n0 %d\n0000000000 65535 f \n%s" % (len(places) + 1, table)
    end = b"trailer\n<< /Root 1 0 R /Size %d >>\nstartxref\n%d\n%%%%EOF" % (len(places) + 1, len(body))
    return body + head + end


def upload_of(name: str, data: bytes) -> tuple[str, bytes]:
    """The content type and the body of a request with one file."""
    request = httpx.Request("POST", "http://127.0.0.1", files={"file": (name, data)})
    return request.headers["content-type"], request.read()


def test_a_document_of_too_much_text_is_refused_in_little_memory() -> None:
    async def run() -> None:
        extraction = Extraction(Limits(characters=100_000))
        for name, data in bombs().items():
            with pytest.raises(Refused) as refused:
                await extraction.document(*upload_of(name, data))
            assert refused.value.status == 422
            assert "more than 100,000 characters of text" in refused.value.message

    asyncio.run(run())


def test_slow_uploads_leave_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = pdf_of(b"BT /F 12 Tf " + b"(The tower is tall.) Tj T* " * 4000 + b"ET", 2000)  # minutes
    processes: list[asyncio.subprocess.Process] = []
    start = asyncio.create_subprocess_exec

    async def starting(*given: Any, **options: Any) -> asyncio.subprocess.Process:
        processes.append(await start(*given, **options))
        return processes[-1]

    monkeypatch.setattr("asyncio.create_subprocess_exec", starting)

    async def run() -> None:
        extraction = Extraction(Limits(documents=1))
        for count in (1, 2):
            asked = asyncio.create_task(extraction.document(*upload_of("slow.pdf", slow)))
            while len(processes) < count:
                await asyncio.sleep(0)
            asked.cancel()
            await asyncio.wait([asked])
        late = Extraction(Limits(timeout=0.01))
        with pytest.raises(Refused, match=r"longer than 0\.01 s") as refused:
            await late.document(*upload_of("slow.pdf", slow))
        assert refused.value.status == 504
        text = json.loads(await extraction.document(*upload_of("a/note.txt", b"It rains.")))
        assert text == {"name": "note.txt", "text": "It rains.", "characters": 9, "pages": [], "notes": []}

    asyncio.run(run())
    assert [process.returncode for process in processes[:2]] == [-9, -9]


def test_a_document_whose_reader_breaks_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        with pytest.raises(Refused, match="ended early") as refused:
            await Extraction(Limits()).document(*upload_of("note.txt", b"It rains."))
        assert refused.value.status == 422

    monkeypatch.setattr("sys.executable", shutil.which("true"))
    asyncio.run(run())


@pytest.mark.parametrize("route", ROUTES)
def test_the_work_for_a_client_that_left_ends(route: str) -> None:
    detector = Endless(shut=True)

    async def run() -> None:
        app = create_app(ServerSettings(detectors=(), own_detectors={"endless": detector}))
        async with app.router.lifespan_context(app):
            while (await leaving(app, "/v1/check", {"cases": [CASE]}, lambda: False))[0]["status"] != 200:
                await asyncio.sleep(0)
            detector.entered.clear()
            case = {"response": "slow"}
            document = {"case": case} if route == "stream" else {"cases": [case]}
            sent = await leaving(app, f"/v1/{route}", document, detector.entered.is_set)
            assert all(message["type"] == "http.response.start" or message["more_body"] for message in sent)
            # the thread is free: the next request is answered although the gate is still shut
            assert (await leaving(app, "/v1/check", {"cases": [CASE]}, lambda: False))[0]["status"] == 200
            assert not detector.gate.is_set()

    asyncio.run(run())


def test_one_client_takes_neither_all_places_nor_all_memory() -> None:
    async def run() -> None:
        limits = Limits(queue=3, cases=1, batch_cases=1, memory_bytes=4000, body_bytes=1000, document_bytes=1000)
        intake, release, begun = Intake(limits), asyncio.Event(), list[str]()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            await receive()
            begun.append(scope["client"][0])
            await release.wait()
            await send({"type": "http.response.body"})

        async def ask(client: str, size: int, key: str | None = None, *, whole: bool = True) -> None:
            body = iter([{"type": "http.request", "body": b" " * size, "more_body": not whole}])

            async def receive() -> Any:
                if (message := next(body, None)) is None:
                    await asyncio.Event().wait()
                return message

            async def send(message: Any) -> None:
                pass

            scope = {"method": "POST", "client": (client, 1), "state": {"key": key}}
            await intake.run(app, scope, receive, send)

        async def three(clients: Sequence[str], key: str | None, size: int, whole: bool) -> None:
            """Of four places, three are taken by these clients, and the fourth by another."""
            begun.clear()
            asked = [asyncio.create_task(ask(client, size, key, whole=whole)) for client in clients]
            while len(begun) < 3:
                await asyncio.sleep(0)
            if key is None:
                with pytest.raises(Refused, match="requests"):
                    await ask(clients[0], size, whole=whole)
            asked.append(asyncio.create_task(ask("other", size, key and "bob", whole=whole)))
            while "other" not in begun:
                await asyncio.sleep(0)
            release.set()
            await asyncio.gather(*asked)
            release.clear()

        for size, whole in ((1, True), (1000, False)):  # of four requests, and of 4,000 bytes, a client gets three
            await three("012", "alice", size, whole)
            await three(["same"] * 3, None, size, whole)

    asyncio.run(run())


def test_bodies_that_fill_the_memory_are_refused_and_leave_none() -> None:
    detector = Echo()
    limits = Limits(batch_wait=0, memory_bytes=3000, body_bytes=2500, document_bytes=2500)
    with client_of(own={"echo": detector}, limits=limits) as client:
        shut_once_ready(client, detector)
        with ThreadPoolExecutor(1) as pool:
            body = {"cases": [{"response": "a" * 2000}]}
            first = pool.submit(client.post, "/v1/check", json=body)
            assert detector.entered.wait(LIMIT)
            refused = [client.post(f"/v1/{route}", content=b" " * 2000, headers=JSON) for route in ROUTES]
            refused.append(client.post("/v1/documents", files={"file": ("a.txt", b"a" * 2000)}))
            detector.gate.set()
            assert first.result().status_code == 200
        assert [(answer.status_code, answer.headers["retry-after"]) for answer in refused] == [(429, "1")] * 6
        assert client.post("/v1/check", json=body).status_code == 200


def test_the_memory_for_bodies_holds_the_largest_of_them() -> None:
    with pytest.raises(InputError, match="less than one body"):
        Limits(document_bytes=2000, body_bytes=10, memory_bytes=1999)
    large = CapacityOptions(max_mb=256).limits()
    assert large.memory_bytes >= large.document_bytes == 256 * 1024 * 1024


def test_a_detector_that_has_to_be_paid_is_not_tried_at_the_start() -> None:
    detector = Echo()
    detector.info = DetectorInfo(needs_chat_model=True, needs_sources=False)  # type: ignore[attr-defined]
    with client_of(own={"echo": detector}) as client:
        assert client.get("/ready").status_code == 200
    assert detector.batches == []


@pytest.mark.parametrize("log_text", [False, True])
def test_the_log_has_a_line_for_each_request_and_texts_only_if_asked(log_text: bool, caplog: Any) -> None:
    with client_of("overlap", log_text=log_text) as client, caplog.at_level(logging.INFO, LOGGER):
        client.post("/v1/check", json={"cases": [CASE]}, headers={"X-Request-ID": "r-1"})
        client.get("/private-path")
    lines = [JsonLines().format(record) for record in caplog.records if record.name == LOGGER]
    check, other = (json.loads(line) for line in lines)
    assert (check["request_id"], check["route"], check["status"]) == ("r-1", "/v1/check", 200)
    assert (check["cases"], check["outcomes"]) == (1, {"flagged": 1})
    assert ("300 m" in lines[0]) is log_text
    assert other["status"] == 404
    assert "private" not in lines[1]


def test_metrics(caplog: Any) -> None:
    with client_of("overlap") as client:
        client.post("/v1/check", json={"cases": [CASE]})
        client.post("/v1/check", json={"cases": []})
        text = client.get("/metrics").text
    assert 'veridical_requests_total{route="/v1/check",status="200"} 1.0' in text
    assert 'veridical_requests_total{route="/v1/check",status="422"} 1.0' in text
    assert 'veridical_outcomes_total{outcome="flagged"} 1.0' in text
    assert 'veridical_batch_cases_count{detector="overlap"}' in text


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with client_of("overlap", own={"online": Online(), "whole": Whole(), "again": Again()}) as client:
        yield client


RAIN = {"response": "It rains in Rome. Pigs fly.", "sources": ["It rains in Rome today."]}


def test_revised(client: TestClient) -> None:
    cases = [RAIN, {**RAIN, "response": "It rains."}]
    answer = client.post("/v1/revise", json={"cases": cases, "include": ["sources"]})
    assert answer.status_code == 200
    first, second = (decode(result) for result in answer.json()["results"])
    (wanted,) = revise([first.case], load_detector("overlap"), Delete())
    assert first == wanted
    assert first.revision.text == "It rains in Rome."
    assert not second.changed
    flagged = client.post("/v1/revise", json={"cases": [RAIN], "reviser": "flag"}).json()["results"][0]
    assert flagged["revision"]["text"] != RAIN["response"]


def test_the_reviser_that_is_used_where_a_request_names_none() -> None:
    with client_of("overlap", reviser="flag") as client:
        first, second = (
            client.post("/v1/revise", json={"cases": [RAIN], **more}).json()["results"][0]["revision"]["text"]
            for more in ({}, {"reviser": "delete"})
        )
    (flagged,) = revise([decode_case(RAIN, default_id="1")], load_detector("overlap"), Flag())
    assert (first, second) == (flagged.revision.text, "It rains in Rome.")


@pytest.mark.parametrize(
    ("more", "part"),
    [
        ({"reviser": "factored"}, "delete and flag ask none"),
        ({"reviser": "x"}, "known: delete, factored"),
        ({"rounds": 11}, "1 to 10"),
        ({"detector": "x"}, "known"),
    ],
)
def test_revisions_that_cannot_be(client: TestClient, more: dict[str, Any], part: str) -> None:
    answer = client.post("/v1/revise", json={"cases": [RAIN], **more})
    assert answer.status_code == 422
    assert part in f"{answer.json()['error']} {answer.json()['hint']}"


class Gated(Echo):
    """Finds a digit once its gate is open; the first case of a server needs no gate."""

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        return [self.judgement(case) for case in cases] if cases[0].id == "warm-up" else super().judge(cases)


def with_a_revision(test: Callable[[Service, Gated, Any], Awaitable[None]], grace: float = LIMIT) -> None:
    """Run `test` while a revision waits for its detector; the gate is open afterwards."""
    detector = Gated(shut=True)

    async def run() -> None:
        limits = Limits(batch_wait=0, grace=grace)
        settings = ServerSettings(detectors=(), own_detectors={"gated": detector}, limits=limits)
        service = Service(settings)
        await service.start()
        async with asyncio.timeout(LIMIT):
            while service.loading:  # otherwise the first batch may have the warm-up and the revision
                await asyncio.sleep(0)
        revising = asyncio.create_task(service.revise_cases([Case("1", "It rains. Pigs 1.")], ReviseRequest(cases=[])))
        try:
            async with asyncio.timeout(LIMIT):
                assert await asyncio.to_thread(detector.entered.wait, LIMIT)
                await test(service, detector, revising)
        finally:
            detector.gate.set()
            with suppress(VeridicalError):
                await revising

    asyncio.run(run())


def test_the_end_finishes_revisions_and_begins_no_further_one() -> None:
    async def test(service: Service, detector: Gated, revising: Any) -> None:
        end = asyncio.create_task(service.close())
        await asyncio.sleep(0)
        with pytest.raises(Refused, match="shutting down"):
            await service.revise_cases([Case("1", "1")], ReviseRequest(cases=[]))
        detector.gate.set()
        await end
        (revised,) = await revising
        assert revised.revision.text == "It rains."
        assert len(detector.batches) > 1  # it asked the detector again after the end had begun

    with_a_revision(test)


def test_the_end_waits_for_revisions_no_longer_than_it_may() -> None:
    async def test(service: Service, detector: Gated, revising: Any) -> None:
        await service.close()
        assert not detector.gate.is_set()
        with pytest.raises(Refused, match="was stopped"):
            await revising

    with_a_revision(test, grace=0.05)


class Online(Echo):
    """Judges each word once it is complete."""

    name = "online"

    def stream(self, case: Case) -> Any:
        assert case.response == ""
        return _Words()


class _Words:
    def __init__(self) -> None:
        self.text, self.done = "", 0

    def feed(self, more: str) -> list[Verdict]:
        self.text += more
        found = []
        while (end := self.text.find(" ", self.done)) >= 0:
            found.append(Verdict(Span(self.done, end), 0.9 if self.text[self.done].isdigit() else 0.1))
            self.done = end + 1
        return found

    def finish(self) -> list[Verdict]:
        return [Verdict(Span(self.done, len(self.text)), 0.2)]


class Whole(Echo):
    """Scores responses as a whole."""

    name = "whole"

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        return [Judgement(case.id, self.name, 0.9 if "fly" in case.response else 0.2) for case in cases]


def events(text: str) -> list[tuple[str, Any]]:
    found = []
    for block in text.strip().split("\n\n"):
        name, data = block.split("\n")
        found.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return found


def stream(client: TestClient, first: dict[str, Any], *parts: str) -> list[tuple[str, Any]]:
    lines = [json.dumps(first), *(json.dumps({"text": part}) for part in parts)]
    answer = client.post("/v1/stream", content="\n".join(lines), headers={"Content-Type": "application/x-ndjson"})
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    return events(answer.text)


def all_of(found: list[tuple[str, Any]], field: str) -> list[Any]:
    """The verdicts, or the spans that are judged, of all events."""
    return [each for name, data in found if name == "verdicts" for each in data["judgement"][field]]


def flagged_texts(found: list[tuple[str, Any]], text: str) -> list[str]:
    parts = [data for name, data in found if name == "verdicts"]
    spans = [data["judgement"]["verdicts"][i]["span"] for data in parts for i in data["flagged"]]
    return [text[span["start"] : span["end"]] for span in spans]


def test_sentences_are_judged_while_they_arrive(client: TestClient) -> None:
    parts = ["It rains", " in Rome. Pi", "gs fly.", " It rains ", "at Rome."]
    found = stream(client, {"case": {"sources": RAIN["sources"]}, "explain": True, "include": ["sources"]}, *parts)
    assert [name for name, _ in found] == ["start", "verdicts", "verdicts", "verdicts", "result"]
    text = "".join(parts)
    assert all_of(found, "judged")[0]["end"] == len("It rains in Rome.")
    assert {"Pigs", "fly"} <= set(flagged_texts(found, text))
    checked = decode(found[-1][1])
    assert checked.case.response == text
    assert checked.judgements[0].by == "overlap"


def test_detectors_that_can_judge_words_while_they_arrive(client: TestClient) -> None:
    found = stream(client, {"case": {"response": "12 is "}, "detector": ["online"]}, "not 1", "3 or 14 ", "here")
    verdicts = [data["judgement"]["verdicts"] for name, data in found if name == "verdicts"]
    assert [len(each) for each in verdicts] == [2, 1, 3, 1]
    assert flagged_texts(found, "12 is not 13 or 14 here") == ["12", "13", "14"]


class Again(Echo):
    """Finds words that have been there before: what it says of a sentence depends on those in front of it."""

    name = "again"

    def judgement(self, case: Case) -> Judgement:
        words = [Span(*match.span()) for match in re.finditer(r"\w+", case.response)]
        known = [word.of(case.response) for word in words]
        verdicts = tuple(Verdict(word, 0.9 if known[i] in known[:i] else 0.1) for i, word in enumerate(words))
        return Judgement(case.id, self.name, max(v.score for v in verdicts), verdicts=verdicts)


def test_a_sentence_is_judged_with_those_before_it_and_all_verdicts_are_those_of_a_check(client: TestClient) -> None:
    text = " It rains. Pigs fly. It is dry: pigs swim, it rains. "
    parts = [text[i : i + 7] for i in range(0, len(text), 7)]
    found = stream(client, {"case": {}, "detector": ["again"]}, *parts)
    assert flagged_texts(found, text) == ["It", "rains"]
    (checked,) = client.post("/v1/check", json={"cases": [{"response": text}], "detector": ["again"]}).json()["results"]
    whole = found[-1][1]["judgements"][0]["verdicts"]
    assert all_of(found, "verdicts") == checked["judgements"][0]["verdicts"] == whole
    judged = all_of(found, "judged")
    assert [span["start"] for span in judged] == [0, *(span["end"] for span in judged[:-1])]
    assert judged[-1]["end"] == len(text)


def test_detectors_that_score_whole_responses_score_all_that_is_there(client: TestClient) -> None:
    found = stream(client, {"case": {}, "detector": ["whole"]}, "It rains. ", *RAIN["response"].split(" "), " Yes. No.")
    scores = [verdict["score"] for verdict in all_of(found, "verdicts")]
    assert scores[0] == 0.2
    assert scores[-1] == found[-1][1]["judgements"][0]["hallucination"] == 0.9
    text = found[-1][1]["case"]["response"]
    assert flagged_texts(found, text)[-1] == text


def test_a_character_that_is_cut_in_two_parts_is_joined(client: TestClient) -> None:
    case = {"response": "It rains \ud83d", "sources": RAIN["sources"]}
    found = stream(client, {"case": case}, "\ude00 in Rome. \ud83d", "\ude00")
    assert found[-1][0] == "result"
    assert found[-1][1]["case"]["response"] == "It rains \U0001f600 in Rome. \U0001f600"


def test_one_object_is_a_stream_too(client: TestClient) -> None:
    answer = client.post("/v1/stream", json={"case": RAIN})
    assert events(answer.text)[-1][0] == "result"


@pytest.mark.parametrize(
    ("first", "status", "hint"),
    [
        ({"case": {"sources": 1}}, 400, ""),
        ({"case": {"messages": []}}, 400, ""),
        ({"case": {"messages": [["user", "Hi."]]}}, 400, "a stream is one response; send its sources"),
        ({"cases": [RAIN]}, 400, ""),
        ({"case": RAIN, "detector": ["x"]}, 422, ""),
    ],
)
def test_a_stream_that_cannot_begin_is_refused(
    client: TestClient, first: dict[str, Any], status: int, hint: str
) -> None:
    answer = client.post("/v1/stream", json=first)
    assert answer.status_code == status
    assert set(answer.json()) == {"error", "hint", "request_id"}
    assert hint in (answer.json()["hint"] or "")


def test_a_stream_that_goes_wrong_ends_in_an_error(client: TestClient) -> None:
    for line, part in (("{", "not JSON"), ('{"txt": "a"}', "not a text"), ('{"text": "\\ud800"}', "surrogate")):
        content = json.dumps({"case": RAIN}) + "\n" + line
        answer = client.post("/v1/stream", content=content, headers={"Content-Type": "application/x-ndjson"})
        name, data = events(answer.text)[-1]
        assert name == "error"
        assert part in data["error"]


def test_a_sentence_without_an_end_is_not_read_again_for_every_part(monkeypatch: pytest.MonkeyPatch) -> None:
    read = [0]

    def counting(text: str) -> list[Span]:
        read[0] += len(text)
        return sentences(text)

    class Direct:
        name, detector = "echo", Echo()

        async def call(self, function: Any) -> Any:
            return function(self.detector)

        async def judge(self, cases: Sequence[Case], detector: Any) -> list[Any]:
            return [(judgement, None) for judgement in self.detector.judge(cases)]

    async def run() -> list[Span]:
        session = await open_session(Direct(), Case("1", ""), None)  # type: ignore[arg-type]
        parts = [await session.feed(text) for text in ["word word "] * 10_000 + ["end. "] + ["Next one. "] * 2_000]
        return [span for part in parts if part is not None for span in part.judgement.judged or ()]

    monkeypatch.setattr(sessions, "sentences", counting)
    judged = asyncio.run(run())
    assert judged[0].start == 0
    assert judged[-1].end > 119_900  # once the long sentence has ended, each further one is judged as it comes
    assert read[0] < 30 * 100_000


def test_a_long_stream_costs_its_length_and_its_verdicts_lie_in_the_whole_response(client: TestClient) -> None:
    service: Service = client.app.state.service  # type: ignore[attr-defined]
    characters, judged = [0], service.batcher("again").judge

    async def counting(cases: Sequence[Case], detector: Any) -> Any:
        characters[0] += sum(len(case.response) for case in cases)
        return await judged(cases, detector)

    service.batcher("again").judge = counting  # type: ignore[method-assign]
    parts = [f"Number {i} is new. " for i in range(2000)]
    found = stream(client, {"case": {}, "detector": ["again"]}, *parts)
    text = "".join(parts)
    spans = [verdict["span"] for verdict in all_of(found, "verdicts")]
    assert [text[span["start"] : span["end"]] for span in spans] == re.findall(r"\w+", text)
    joined = all_of(found, "judged")
    assert [span["start"] for span in joined] == [0, *(span["end"] for span in joined[:-1])]
    assert characters[0] < len(parts) * 4200 + len(text)  # not a third of 2,000 times half of the text


def test_lines_are_joined_once_however_they_arrive() -> None:
    async def read(chunks: Sequence[bytes], most: int = 10**7) -> list[bytes]:
        async def arriving() -> AsyncIterator[bytes]:
            for chunk in chunks:
                yield chunk

        return [line async for line in lines(arriving(), most, Refused(413, "too large"))]

    text = b"one\n\ntwo\nthree"
    for size in range(1, len(text)):
        assert asyncio.run(read([text[i : i + size] for i in range(0, len(text), size)])) == text.split(b"\n")
    assert asyncio.run(read([b"a"] * 1_000_000)) == [b"a" * 1_000_000]  # copied again each time, it would take hours
    with pytest.raises(Refused, match="too large"):
        asyncio.run(read([b"ab", b"cd"], most=3))
