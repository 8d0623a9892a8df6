"""Label Studio's form, its HTTP API on a double, and a real server where one is installed."""

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.lab.annotate.label_studio_round_trip import TEXTS, check_round_trip, predictions, span_examples
from tests.lab.annotate.test_select import item
from veridical.records.errors import DataError, InputError
from veridical.records.types import Case, Example, Judgement, Omission, Source, Span, Thresholds, Verdict
from veridical_lab.annotate.label_studio import QUESTION_KINDS, config_of, read_export, read_tasks, tasks_of
from veridical_lab.annotate.label_studio_server import KEY_ENV, LabellingProject, LabelStudio

ANY_TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=30)


@pytest.mark.parametrize("kind", QUESTION_KINDS)
def test_configs_are_xml_whose_names_the_tasks_fill(kind: str) -> None:
    tree = ElementTree.fromstring(config_of(kind, labels=("a & b", "<c>")))
    wanted = {e.get("value", "")[1:] for e in tree.iter() if e.get("value", "").startswith("$")}
    example = item("1", "small", "large") if kind == "consistency" else span_examples()[0]
    for task in tasks_of([example], kind):
        assert wanted <= task["data"].keys()
        assert "asked" in wanted or kind == "consistency"
    asked = replace(example, case=replace(example.case, question="Which colour?"))
    assert {task["data"]["asked"] for task in tasks_of([asked], kind)} == {"Which colour?"}
    with pytest.raises(InputError, match="unknown kind of question"):
        config_of("emotion")


def exported(tasks: list[dict[str, Any]], results: Any = None, **about: Any) -> list[dict[str, Any]]:
    """Tasks as Label Studio exports them, annotated by accepting the pre-annotations, or with `results`."""
    made = []
    for task in tasks:
        result = task.get("predictions", [{"result": []}])[0]["result"] if results is None else results
        made.append({**task, "annotations": [{"completed_by": 7, "lead_time": 3.5, "result": result, **about}]})
    return made


def test_spans_come_back_equal() -> None:
    examples = span_examples()
    tasks = json.loads(json.dumps(tasks_of(examples, "spans", predictions=predictions(examples))))
    back = read_tasks(exported(tasks), examples)
    for example, wanted in zip(back.examples, predictions(examples).values(), strict=True):
        (person,) = example.annotations
        assert [v.span for v in person.verdicts] == [v.span for v in wanted.verdicts]
        assert (person.by, person.hallucination) == ("human:7", 1.0)
    empty = read_tasks(exported(tasks, []), examples)
    assert empty.examples[0].annotations[0].hallucination == 0.0


def test_the_spans_that_the_thresholds_flag_are_shown_with_a_label_of_the_config() -> None:
    (example, *_) = span_examples()
    text = example.case.response
    low, high = Verdict(Span(0, 2), 0.3, "extrinsic"), Verdict(Span(3, 8), 0.9, "contradiction")
    sentence = Verdict(Span(0, len(text)), 0.8)
    predicted = {"c0": Judgement("c0", "d", 0.9, verdicts=(low, high))}
    alone = {"c0": Judgement("c0", "d", 0.9, verdicts=(low,), sentences=(sentence,))}

    def shown(judgements: dict[str, Judgement], **options: Any) -> list[tuple[str, list[str]]]:
        (task,) = tasks_of([example], "spans", predictions=judgements, **options)
        regions = task.get("predictions", [{"result": []}])[0]["result"]
        return [(region["value"]["text"], region["value"]["labels"]) for region in regions]

    assert shown(predicted) == [("rains", ["hallucinated"])]
    options = {"thresholds": Thresholds(span=0.3), "labels": ("intrinsic", "extrinsic")}
    assert shown(predicted, **options) == [("It", ["extrinsic"]), ("rains", ["intrinsic"])]
    assert shown(alone) == [("It", ["hallucinated"])]  # the highest one of a flagged sentence
    assert shown(alone, thresholds=Thresholds(response=0.9)) == []
    omission = Omission("s", Span(0, 6), 0.4)
    left_out = {"c0": Judgement("c0", "d", omission=0.9, omissions=(omission,))}
    for thresholds, count in ((None, 0), (Thresholds(source=0.4), 1)):
        (task,) = tasks_of([example], "coverage", predictions=left_out, thresholds=thresholds)
        assert len(task.get("predictions", ())) == count


def read_back(text: str, start: int, end: int, quote: str | None = None) -> Span | None:
    """The span that is read where an annotator marked these offsets, or None if the annotation is skipped."""
    example = Example(Case("1", text), Judgement("1", "none"))
    value = {"start": start, "end": end, "text": quote, "labels": ["hallucinated"]}
    region = {"from_name": "hallucination", "type": "labels", "value": value}
    back = read_tasks(exported(tasks_of([example], "spans"), [region]), [example])
    assert back.annotations or back.skipped == {"a span that is not in the text": 1}
    return back.examples[0].annotations[0].verdicts[0].span if back.annotations else None


def utf16(text: str, at: int) -> int:
    return len(text[:at].encode("utf-16-le")) // 2


@given(ANY_TEXT, st.data())
def test_offsets_in_code_points_are_taken_as_they_are(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    assert read_back(text, start, end, text[start:end].replace("\n", "\\n")) == Span(start, end)


def test_offsets_of_older_editors() -> None:
    text = TEXTS[1]
    at = text.index("1899")
    assert read_back(text, utf16(text, at), utf16(text, at) + 4, "1899") == Span(at, at + 4)
    one = at - text[:at].count("\r\n")
    assert read_back(text, one, one + 4, "1899") == Span(at, at + 4)
    assert read_back(text, at, at + 4) == Span(at, at + 4)
    assert read_back(text, at, at + 4, "1900") is None
    assert read_back(text, 0, 10_000) is None


def choice(name: str, value: str, to: str = "response") -> dict[str, Any]:
    return {"from_name": name, "to_name": to, "type": "choices", "value": {"choices": [value]}}


def test_consistency() -> None:
    example = item("1", "small", "large")
    (task,) = tasks_of([example], "consistency")
    assert "“small” consistent with “large”" in task["data"]["question"]
    assert task["predictions"][0]["result"][0]["value"]["text"] == "small"
    for said, label in (("inconsistent", 1.0), ("consistent", 0.0)):
        back = read_tasks(exported([task], [choice("answer", said)]), [example])
        assert back.examples[0].annotations[0].hallucination == label
    assert read_tasks(exported([task], []), [example]).skipped == {"no answer": 1}
    assert read_tasks(exported([task], [], was_cancelled=True), [example]).skipped == {"skipped by the annotator": 1}


def test_coverage_of_arguments() -> None:
    pro, con = Source("pro", "Cheap and fast.", must_cover=True), Source("con", "Loud.", must_cover=True)
    sources = (pro, con, Source("x", "y"))
    example = Example(Case("1", "It is cheap.", sources), Judgement("1", "none"))
    pro, con = tasks_of([example], "coverage")
    mark = {"from_name": "omission", "to_name": "source", "type": "labels"}
    mark["value"] = {"start": 10, "end": 14, "text": "fast", "labels": ["left out"]}  # type: ignore[assignment]
    answers = exported([pro], [choice("coverage", "partly covered"), mark])
    answers += exported([con], [choice("coverage", "left out")])
    (person,) = read_tasks(answers, [example]).examples[0].annotations
    assert [(o.source_id, o.span) for o in person.omissions] == [("pro", Span(10, 14)), ("con", Span(0, 5))]
    assert person.omission == 1.0
    contradiction = exported([pro], [choice("coverage", "covered"), mark])
    assert read_tasks(contradiction, [example]).skipped == {"the annotation contradicts itself": 1}
    with pytest.raises(InputError, match="no source to cover"):
        tasks_of([Example(Case("2", "a"), Judgement("2", "none"))], "coverage")


def test_claims() -> None:
    example = Example(Case("1", "It rains. It snows.", (Source("s", "It rains."),)), Judgement("1", "none"))
    first, second = tasks_of([example], "claims")
    reason = {"from_name": "reason", "to_name": "claim", "type": "textarea", "value": {"text": ["no snow"]}}
    answers = exported([first], [choice("support", "supported")])
    answers += exported([second], [choice("support", "not in the sources"), reason])
    (person,) = read_tasks(answers, [example]).examples[0].annotations
    assert [(v.span, v.score, v.reason) for v in person.verdicts] == [
        (Span(0, 9), 0.0, None),
        (Span(10, 19), 1.0, "no snow"),
    ]
    assert person.hallucination == 1.0


def test_other_exports_are_refused(tmp_path: Path) -> None:
    examples = span_examples()
    tasks = tasks_of(examples, "spans")
    foreign = exported(tasks, [choice("sentiment", "good")])
    with pytest.raises(InputError, match="'sentiment'"):
        read_tasks(foreign, examples)
    with pytest.raises(InputError, match="was not made by Veridical"):
        read_tasks([{"id": 1, "label": "x"}], examples)
    changed = [Example(Case(e.case.id, e.case.response + "!"), e.gold) for e in examples]
    with pytest.raises(InputError, match="not the one that the task was made from"):
        read_tasks(exported(tasks), changed)
    assert read_tasks(exported(tasks), []).skipped == {"the case is not in the data": len(TEXTS)}
    nowhere = exported(tasks[:1], [])
    value = {"start": 0, "end": 3, "text": "xyz", "labels": ["hallucinated"]}
    nowhere[0]["annotations"][0]["result"] = [{"from_name": "hallucination", "type": "labels", "value": value}]
    assert read_tasks(nowhere, examples).skipped == {"a span that is not in the text": 1}
    del value["labels"]  # a region that was drawn without a label
    assert read_tasks(nowhere, examples).skipped == {"a result has no value": 1}
    with pytest.raises(InputError, match="not a list of objects"):
        read_tasks([{**tasks[0], "annotations": ["x"]}], examples)
    path = tmp_path / "export.json"
    path.write_text("{")
    with pytest.raises(DataError, match=r"export\.json: not JSON"):
        read_export(path, examples)
    path.write_text(json.dumps(exported(tasks)))
    assert read_export(path, examples).annotations == len(TEXTS)


class Server:
    """A double of the part of Label Studio's API that is used: what it stores, it gives back."""

    def __init__(self) -> None:
        self.projects: list[dict[str, Any]] = []
        self.tasks: list[dict[str, Any]] = []
        self.fresh = 0

    def __call__(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path.rstrip("/")
        if path == "/api/token/refresh":
            self.fresh += 1
            return httpx.Response(200, json={"access": f"short-{self.fresh}"})
        if request.headers.get("Authorization") not in ("Token good", f"Bearer short-{self.fresh}"):
            return httpx.Response(401, json={})
        body = json.loads(request.content) if request.content else None
        if path == "/api/projects" and request.method == "POST":
            self.projects.append({"id": len(self.projects) + 1, **body})
            return httpx.Response(201, json=self.projects[-1])
        if path == "/api/projects":
            return httpx.Response(200, json={"count": len(self.projects), "results": self.projects})
        project = int(dict(request.url.params).get("project", path.split("/")[3] if "projects" in path else 0))
        of_project = [task for task in self.tasks if task["project"] == project]
        if path.endswith("/import"):
            for task in body:
                self.tasks.append({**task, "id": len(self.tasks) + 1, "project": project, "annotations": []})
            return httpx.Response(201, json={})
        if path == "/api/tasks":
            page, size = int(request.url.params["page"]), 3  # smaller pages than were asked for
            return httpx.Response(
                200, json={"total": len(of_project), "tasks": of_project[(page - 1) * size : page * size]}
            )
        if path.endswith("/export"):
            return httpx.Response(200, json=[task for task in of_project if task["annotations"]])
        if path.endswith("/annotations"):
            self.tasks[int(path.split("/")[3]) - 1]["annotations"].append({"completed_by": {"id": 1}, **body})
            return httpx.Response(201, json={})
        return httpx.Response(404, text="no such page")


def test_round_trip_over_http() -> None:
    with LabelStudio("http://studio", "good", transport=httpx.MockTransport(Server())) as studio:
        assert check_round_trip(studio) == {"spans": 12, "coverage": 12, "consistency": 1}


def test_personal_access_tokens_are_exchanged() -> None:
    server = Server()
    with LabelStudio("http://studio", "a.b.c", transport=httpx.MockTransport(server)) as studio:
        assert studio.projects() == []
        server.fresh += 1  # the short-lived token is no longer valid
        assert studio.projects() == []
    assert server.fresh == 3


def test_what_goes_wrong_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEY_ENV, raising=False)
    with pytest.raises(InputError, match="no access token"):
        LabelStudio("http://studio")
    with pytest.raises(InputError, match="not the address"):
        LabelStudio("studio", "good")
    with pytest.raises(InputError, match="refuses the access token"):
        LabelStudio("http://studio", "bad", transport=httpx.MockTransport(Server())).projects()
    page = httpx.MockTransport(lambda request: httpx.Response(200, text="<html>"))
    with pytest.raises(InputError, match="not Label Studio's answer"):
        LabelStudio("http://studio", "good", transport=page).projects()
    for odd in (None, 3, "x", {"results": 3}, {"results": ["x"]}, {"count": "x", "results": [{}]}, [{"title": "x"}]):
        reply = httpx.MockTransport(lambda request, odd=odd: httpx.Response(200, json=odd))
        with LabelStudio("http://studio", "good", transport=reply) as studio:
            with pytest.raises(InputError, match=r"http://studio/api/projects/ is not Label Studio's answer \(check"):
                studio.projects()
            if odd != [{"title": "x"}]:
                with pytest.raises(InputError, match="/api/projects/1/export is not Label Studio's answer"):
                    studio.pull(LabellingProject(1, "x", ""))
            with pytest.raises(InputError, match="is not Label Studio's answer"):
                studio.create("x", "spans")
        with pytest.raises(InputError, match="is not Label Studio's answer"):
            LabelStudio("http://studio", "a.b.c", transport=reply).projects()
    with pytest.raises(InputError, match="has no project 'x'"):
        LabelStudio("http://studio", "good", transport=httpx.MockTransport(Server())).project("x")

    def down(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    with pytest.raises(InputError, match="cannot be reached: refused"):
        LabelStudio("http://studio", "good", transport=httpx.MockTransport(down)).projects()


@pytest.fixture
def label_studio(tmp_path: Path) -> Iterator[str]:
    """The address of a Label Studio of its own, started with the Python in VERIDICAL_LABEL_STUDIO_PYTHON."""
    python = os.environ.get("VERIDICAL_LABEL_STUDIO_PYTHON")
    if not python:
        pytest.skip("VERIDICAL_LABEL_STUDIO_PYTHON names no Python with label-studio")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = {
        "LABEL_STUDIO_BASE_DATA_DIR": str(tmp_path),
        "LABEL_STUDIO_USERNAME": "tester@example.org",
        "LABEL_STUDIO_PASSWORD": "only-for-this-test",
        "LABEL_STUDIO_USER_TOKEN": "0123456789abcdef" * 2,
        "LABEL_STUDIO_ENABLE_LEGACY_API_TOKEN": "true",
        **dict.fromkeys(("COLLECT_ANALYTICS", "LATEST_VERSION_CHECK"), "False"),
        **dict.fromkeys(("SENTRY_DSN", "FRONTEND_SENTRY_DSN"), ""),
    }
    command = [str(Path(python).parent / "label-studio"), "start", "--no-browser", "--port", str(port)]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            [*command, "--internal-host", "127.0.0.1"], env={**os.environ, **settings}, stdout=log, stderr=log
        )
    transport = httpx.HTTPTransport(retries=12)  # with pauses that grow: it sets up its data base first
    try:
        with httpx.Client(transport=transport, timeout=600) as client:
            client.get(f"http://127.0.0.1:{port}/api/version").raise_for_status()
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(30)


@pytest.mark.realserver
@pytest.mark.timeout(1500)
def test_round_trip_through_a_real_label_studio(label_studio: str) -> None:
    with LabelStudio(label_studio, "0123456789abcdef" * 2, timeout=300) as studio:
        assert check_round_trip(studio) == {"spans": 12, "coverage": 12, "consistency": 1}
