"""Nothing to judge is unjudged in every interface, with a reason, and the strict interfaces fail on it."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import veridical
from tests import interfaces
from tests.llm.loopback import completion, serving
from tests.server.services import client_of
from veridical.cli import main
from veridical.io.serialization import decode
from veridical.records.errors import InputError
from veridical.records.types import Checked
from veridical.report.findings import unjudged_reasons
from veridical.server.settings import ProxySettings
from veridical.testing import assert_grounded
from veridical.workflows.checking import check_cases

pytestmark = pytest.mark.filterwarnings("ignore")  # what a framework deprecates of its own

Texts = Sequence[str | None] | None
EXIT_CODES = {code: outcome for outcome, code in interfaces.CODES.items()}
RED = "It is red."


@dataclass
class Interface:
    """What an interface needs, and what it gave: an outcome, and why where it could not judge."""

    detector: str
    folder: Path
    output: pytest.CaptureFixture[str]

    def outcome_of(self, checked: Checked) -> tuple[str, str]:
        return checked.outcome.value, "; ".join(unjudged_reasons(checked))

    def python(self, response: str | None, sources: Texts) -> tuple[str, str]:
        return self.outcome_of(veridical.check(response, sources, detector=self.detector))

    def assertion(self, response: str | None, sources: Texts) -> tuple[str, str]:
        try:
            return assert_grounded(response, sources, detector=self.detector).outcome.value, ""
        except AssertionError as error:
            return "unjudged" if "could not be judged" in str(error) else "flagged", str(error)

    def command(self, *arguments: str) -> tuple[str, str]:
        code = main([*arguments, "-d", self.detector])
        return EXIT_CODES[code], self.output.readouterr().out

    def check_text(self, response: str | None, sources: Texts) -> tuple[str, str]:
        (self.folder / "answer.txt").write_text(response or "")
        names = []
        for i, text in enumerate(sources or (), 1):
            names.append(str(self.folder / f"{i}.txt"))
            Path(names[-1]).write_text(text or "")
        return self.command("check", str(self.folder / "answer.txt"), *names)

    def case_file(self, response: str | None, sources: Texts) -> str:
        path = self.folder / "cases.jsonl"
        path.write_text(json.dumps({"response": response, "sources": sources}) + "\n")
        return str(path)

    def check_jsonl(self, response: str | None, sources: Texts) -> tuple[str, str]:
        return self.command("check", self.case_file(response, sources))

    def batch(self, response: str | None, sources: Texts) -> tuple[str, str]:
        out = self.folder / "out"
        code = main(["batch", self.case_file(response, sources), str(out), "-d", self.detector])
        (row,) = "".join(file.read_text("utf-8") for file in out.glob("results-*.jsonl")).splitlines()
        outcome, reason = self.outcome_of(decode(row))
        assert EXIT_CODES[code] == outcome
        return outcome, reason

    def batch_columns(self, response: str | None, sources: Texts) -> tuple[str, str]:
        rows, out = self.folder / "rows.jsonl", self.folder / "out"
        rows.write_text(json.dumps({"answer": response, "passages": sources}) + "\n")
        main(["batch", str(rows), str(out), "-d", self.detector, "--response", "answer", "--source", "passages"])
        (row,) = "".join(file.read_text("utf-8") for file in out.glob("results-*.jsonl")).splitlines()
        return self.outcome_of(decode(row))

    def service(self, response: str | None, sources: Texts) -> tuple[str, str]:
        with client_of(self.detector) as client:
            body = {"cases": [{"response": response, "sources": sources}], "include": ["sources"]}
            answer = client.post("/v1/check", json=body)
        assert answer.status_code == 200, answer.text
        return self.outcome_of(decode(answer.json()["results"][0]))

    def proxy(self, response: str | None, sources: Texts) -> tuple[str, str]:
        messages = [{"role": "user", "content": "What is it like?"}]
        chat = {"messages": messages, "sources": sources, "include": ["sources"]}
        with (
            serving(lambda body: completion(response)) as server,
            client_of(self.detector, proxy=ProxySettings(base_url=server.url)) as client,
        ):
            answer = client.post("/v1/chat/completions", json=chat)
        assert answer.status_code == 200, answer.text
        (choice,) = answer.json()["veridical"]["choices"]
        assert answer.headers["x-veridical-status"] == choice["status"]
        reason = choice["reason"] if "reason" in choice else self.outcome_of(decode(choice["check"]))[1]
        return choice["status"], reason

    def langchain(self, response: str | None, sources: Texts) -> tuple[str, str]:
        pytest.importorskip("langchain_core")
        from veridical.integrations.langchain import groundedness_check

        runnable = groundedness_check(detector=self.detector)
        return self.outcome_of(runnable.invoke({"answer": response, "context": sources})["check"])

    def langchain_strict(self, response: str | None, sources: Texts) -> tuple[str, str]:
        pytest.importorskip("langchain_core")
        from langchain_core.documents import Document
        from langchain_core.language_models import FakeListChatModel
        from langchain_core.prompts import PromptTemplate
        from langchain_core.retrievers import BaseRetriever

        from veridical.integrations.langchain import GroundednessCallback, NotGroundedError

        class Shelf(BaseRetriever):
            def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
                return [Document(text or "") for text in sources or ()]

        retrieved = {"context": Shelf() if sources is not None else (lambda question: "")}
        chain = retrieved | PromptTemplate.from_template("{context}") | FakeListChatModel(responses=[response or ""])
        callback = GroundednessCallback(detector=self.detector, strict=True)
        try:
            chain.invoke("red", config={"callbacks": [callback]})
        except NotGroundedError as error:
            return error.checked.outcome.value, str(error)
        (checked,) = callback.results
        return self.outcome_of(checked)

    def llama_index(self, response: str | None, sources: Texts) -> tuple[str, str]:
        pytest.importorskip("llama_index.core")
        from veridical.integrations.llama_index import GroundednessEvaluator

        contexts = None if sources is None else [text or "" for text in sources]
        result = GroundednessEvaluator(self.detector).evaluate(response=response, contexts=contexts)
        assert result.invalid_result is (result.passing is None)
        outcome = {True: "clear", False: "flagged", None: "unjudged"}[result.passing]
        return outcome, result.invalid_reason or ""

    def inspect(self, response: str | None, sources: Texts) -> tuple[str, str]:
        pytest.importorskip("inspect_ai")
        from inspect_ai.model import ModelOutput
        from inspect_ai.scorer import Target
        from inspect_ai.solver import TaskState

        from veridical.integrations.inspect_ai import grounded

        state = TaskState("mockllm/model", "1", 1, "What is it like?", [], metadata={"sources": sources})
        state.output = ModelOutput.from_content("mockllm/model", response or "")
        score: Any = asyncio.run(grounded(self.detector)(state, Target("")))  # type: ignore[arg-type]
        outcome = {"C": "clear", "I": "flagged"}.get(score.value, "unjudged")
        return outcome, str(score.reason or "")


INTERFACES: dict[str, Callable[[Interface, str | None, Texts], tuple[str, str]]] = {
    name: getattr(Interface, name)
    for name in (
        *("python", "assertion", "check_text", "check_jsonl", "batch", "batch_columns", "service", "proxy"),
        *("langchain", "langchain_strict", "llama_index", "inspect"),
    )
}
NO_RESPONSE = {"empty": "", "blank": " \n", "invisible": "\u200b", "missing": None}
NO_SOURCES: dict[str, Texts] = {
    "none": [],
    "missing": None,
    "empty": [""],
    "blank": [" ", "\n"],
    "null": [None],
}


@pytest.fixture(params=INTERFACES)
def interface(
    request: pytest.FixtureRequest, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[[str, str | None, Texts], tuple[str, str]]:
    def through(detector: str, response: str | None, sources: Texts) -> tuple[str, str]:
        return INTERFACES[request.param](Interface(detector, tmp_path, capsys), response, sources)

    return through


Through = Callable[[str, str | None, Texts], tuple[str, str]]


@pytest.mark.parametrize("kind", NO_RESPONSE)
@pytest.mark.parametrize("detector", ["overlap", "coin"])  # coin alone flags every response
def test_no_response(interface: Through, kind: str, detector: str) -> None:
    outcome, reason = interface(detector, NO_RESPONSE[kind], [RED])
    assert outcome == "unjudged"
    assert "the response is empty" in reason or "the reply has no text" in reason


@pytest.mark.parametrize("kind", NO_SOURCES)
def test_no_sources(interface: Through, kind: str) -> None:
    outcome, reason = interface("overlap", RED, NO_SOURCES[kind])
    assert outcome == "unjudged"
    assert "there are no sources" in reason or "the sources are empty" in reason


@pytest.mark.parametrize("kind", NO_SOURCES)
def test_a_detector_that_needs_no_sources_judges_without(interface: Through, kind: str) -> None:
    assert interface("majority", RED, NO_SOURCES[kind])[0] == "clear"


@pytest.mark.parametrize(("response", "outcome"), [(RED, "clear"), ("It is purple.", "flagged")])
def test_something_to_judge(interface: Through, response: str, outcome: str) -> None:
    if outcome == "flagged":
        assert interface("overlap", response, [RED])[0] == "flagged"
    else:
        assert interface("overlap", response, ["", RED])[0] == "clear"  # a further source without text is none


def outcome_of(answer: Any) -> str:
    """The outcome in an answer of the service, which may refuse the request."""
    if answer.status_code != 200:
        assert answer.status_code in (400, 422), answer.text
        return "could not run"
    return str(answer.json()["results"][0]["outcome"])


def row_interface(name: str, path: Path, interface: Interface, monkeypatch: pytest.MonkeyPatch) -> str:
    """The outcome of a file of rows in one of the interfaces that take it."""
    if name == "service":
        items = path.read_text("utf-8")
        body = items if path.name == "broken.jsonl" else f'{{"cases": {items if items[0] == "[" else f"[{items}]"}}}'
        with client_of(interface.detector) as client:
            headers = {"Content-Type": "application/json"}
            return outcome_of(client.post("/v1/check", content=body, headers=headers))
    if name == "proxy":
        with client_of(interface.detector, proxy=ProxySettings(base_url="http://127.0.0.1:9/v1")) as client:
            headers = {"Content-Type": "application/json"}
            answer = client.post("/v1/chat/completions", content=path.read_bytes(), headers=headers)
        return outcome_of(answer)
    arguments = {
        "check_rows": ["check", str(path)],
        "stdin": ["check", "--cases", "-"],
        "batch": ["batch", str(path), str(interface.folder / "out")],
    }[name]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
    code = main([*arguments, "-d", interface.detector])
    return EXIT_CODES[code]


def document_interface(name: str, path: Path, interface: Interface) -> str:
    """The outcome of a source in a file in one of the interfaces that take it."""
    if name == "check_text":
        (interface.folder / "answer.txt").write_text(interfaces.RED)
        code = main(["check", str(interface.folder / "answer.txt"), str(path), "-d", interface.detector])
        return EXIT_CODES[code]
    if name == "service":
        with client_of(interface.detector) as client:
            answer = client.post("/v1/documents", files={"file": (path.name, path.read_bytes())})
            if answer.status_code != 200:
                return outcome_of(answer)
            case = {
                "response": interfaces.RED,
                "sources": [{"text": answer.json()["text"], "pages": answer.json()["pages"]}],
            }
            return outcome_of(client.post("/v1/check", json={"cases": [case]}))
    sources: Any = [path]
    return getattr(interface, name)(interfaces.RED, sources)[0]  # type: ignore[no-any-return]


CELLS = [
    (name, kind)
    for name in interfaces.INTERFACES
    for kind in interfaces.KINDS
    if interfaces.cell(name, kind) in interfaces.CODES
]


@pytest.mark.parametrize(("name", "kind"), CELLS)
def test_every_cell_of_the_table(
    name: str, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = interfaces.KINDS[kind]
    interface = Interface("nobody" if kind == "an unknown detector" else "overlap", tmp_path, capsys)
    try:
        if given.file is not None:
            path = tmp_path / given.file
            interfaces.FILES[given.file](path)
            rows = name in interfaces.ROWS or (
                given.differs.get("check_rows") != interfaces.IN_ROWS and name in ("service", "proxy")
            )
            outcome = (
                row_interface(name, path, interface, monkeypatch) if rows else document_interface(name, path, interface)
            )
        elif name in interfaces.ROWS:
            path = Path(interface.case_file(given.response, given.sources))
            outcome = row_interface(name, path, interface, monkeypatch)
        else:
            outcome = getattr(interface, name)(given.response, list(given.sources))[0]
    except InputError:
        outcome = "could not run"
    assert outcome == interfaces.cell(name, kind)


def test_a_detector_is_not_asked_about_nothing() -> None:
    """One that would pass an empty response, or miss its sources, does not get the chance."""
    from veridical.records.types import Case, Judgement, Source

    class Passes:
        name = "passes"

        def judge(self, cases: Sequence[Case]) -> list[Judgement]:
            asked.extend(case.id for case in cases)
            return [Judgement(case.id, self.name, 0.0, 0.0) for case in cases]

    asked: list[str] = []
    red, rusts = Source("a", RED), Source("b", "It rusts.", must_cover=True)
    cases = [Case("1", "", (red,)), Case("2", RED, (red,)), Case("3", RED), Case("4", "", (red, rusts))]
    checked = list(check_cases(cases, Passes()))
    assert [each.outcome.value for each in checked] == ["unjudged", "clear", "unjudged", "unjudged"]
    assert asked == ["2", "4"], "an empty response may leave out what it has to cover"
