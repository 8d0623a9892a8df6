"""The page's files without a browser: all there, nothing from elsewhere, nothing that its content policy would stop."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from html.parser import HTMLParser
from pathlib import Path

import pytest

import veridical
from tests.processes import LIMIT
from veridical.records.types import Outcome
from veridical.workflows.rate.labels import read_labels
from veridical.workflows.rate.rows import Run, RunRow

PAGE = Path(veridical.__file__).parent / "server" / "page"
FILES = sorted(path for path in PAGE.iterdir())
SCRIPTS = [path for path in FILES if path.suffix == ".js"]
ROOT = Path(__file__).parents[2]
VOID = {"meta", "link", "input", "br", "hr", "img"}
MARKUP = (
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|DOMParser|\beval\(|new Function"
)


class Reader(HTMLParser):
    """Elements in order with their attributes; notes what is not closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.problems: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.problems.append(f"</{tag}> at line {self.getpos()[0]}")


def run_module(code: str) -> str:
    """What a module prints; `module("a.js")` in it is the address of a module of the page."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node to run the module")
    code = re.sub(r'module\("(.*?)"\)', lambda name: json.dumps((PAGE / name[1]).as_uri()), code)
    done = subprocess.run([node, "--input-type=module", "-e", code], capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def index() -> Reader:
    reader = Reader()
    reader.feed((PAGE / "index.html").read_text("utf-8"))
    return reader


def test_the_index_is_well_formed(index: Reader) -> None:
    assert (index.problems, index.open) == ([], [])
    ids = [attributes["id"] for _, attributes in index.elements if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_no_script_style_or_handler_is_in_the_markup(index: Reader) -> None:
    for tag, attributes in index.elements:
        assert tag != "style"
        assert not [name for name in attributes if name.startswith("on") or name == "style"], tag
        assert tag != "script" or attributes.get("src"), "a script in the markup"


def test_labels_and_references_lead_somewhere(index: Reader) -> None:
    ids = {attributes["id"] for _, attributes in index.elements if "id" in attributes}
    wanted = {
        attributes[name]
        for _, attributes in index.elements
        for name in ("for", "aria-labelledby", "aria-controls", "aria-describedby")
        if name in attributes
    }
    assert wanted <= ids


def test_what_the_index_and_the_modules_load_is_there(index: Reader) -> None:
    loaded = {attributes.get("src") or attributes.get("href") for _, attributes in index.elements}
    loaded = {name for name in loaded if name and not name.startswith("#")}
    imported = {name for script in SCRIPTS for name in re.findall(r'from "\./([^"]+)"', script.read_text("utf-8"))}
    names = {path.name for path in FILES}
    assert loaded | imported <= names
    assert names == loaded | imported | {"index.html"}, "a file that nothing uses"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_nothing_comes_from_elsewhere(path: Path) -> None:
    text = path.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"(?:https?:)?//[\w-]+\.|@import|url\(|data:\w+/", text)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_texts_never_become_markup(path: Path) -> None:
    assert not re.search(MARKUP, path.read_text("utf-8"))


def test_elements_that_the_script_asks_for_are_in_the_index(index: Reader) -> None:
    ids = {attributes["id"] for _, attributes in index.elements if "id" in attributes}
    parts = {attributes["data-part"] for _, attributes in index.elements if "data-part" in attributes}
    text = "\n".join(path.read_text("utf-8") for path in SCRIPTS)
    assert set(re.findall(r'\$\("#([\w-]+)"\)|querySelector\("#([\w-]+)"\)', text))
    wanted = {a or b for a, b in re.findall(r'\$\("#([\w-]+)"\)|root\.querySelector\("#([\w-]+)"\)', text)}
    assert wanted <= ids
    assert set(re.findall(r'part\("([\w-]+)"\)', text)) <= parts


def test_every_row_of_a_file_is_read_or_named() -> None:
    lines = [json.dumps({"response": f"answer {i}", "sources": ["a", None, {"text": "c"}]}) for i in range(1, 26)]
    texts = {
        "cases.jsonl": "\n".join([*lines[:2], "", "{broken", '{"answer": "x"}', *lines[2:]]),
        "cases.json": f"[{','.join(lines)}]",
        "pretty.json": json.dumps(json.loads(lines[0]), indent=1),
        "data.json": '{"rows": []}',
        "ragas.json": '{"user_input": "Q", "retrieved_contexts": ["a", "b"], "response": "R"}',
        "squad.json": '{"question": "Q", "context": "a", "answer": "R"}',
    }
    read = run_module(
        'import { readRows } from module("cases.js");'
        f"const read = Object.entries({json.dumps(texts)}).map(([name, text]) => readRows(name, text));"
        "console.log(JSON.stringify(read));"
    )
    by_line, by_item, pretty, other, *renamed = json.loads(read)
    contents = [each["rows"][0]["content"] for each in renamed]
    assert [(c["question"], [s["text"] for s in c["sources"]], c["response"]) for c in contents] == [
        ("Q", ["a", "b"], "R"),
        ("Q", ["a"], "R"),
    ]
    assert [row["content"]["response"] for row in by_line["rows"]] == [f"answer {i}" for i in range(1, 26)]
    assert [row["where"] for row in by_line["rows"]][1:3] == ["cases.jsonl:2", "cases.jsonl:6"]
    assert by_line["problems"] == [f"cases.jsonl:{i}: neither a case, a conversation nor a result" for i in (4, 5)]
    assert (len(by_item["rows"]), by_item["problems"]) == (25, [])
    assert [(s["id"], s["text"]) for s in pretty["rows"][0]["content"]["sources"]] == [
        ("1", "a"),
        ("2", ""),
        ("3", "c"),
    ]
    assert other is None, "no case: a text like any other"


def test_conversations_are_told_from_other_texts() -> None:
    messages = [{"role": "user", "content": "Hi."}, {"lc": 1, "id": ["AIMessage"], "kwargs": {"content": "Hello."}}]
    pairs = [["user", "Hi."], ["assistant", "Hello."]]
    case = {"response": "Hello.", "sources": []}
    conversation = {"id": "c", "messages": messages}
    texts = {
        "messages": json.dumps(messages),
        "lines of messages": "\n".join(map(json.dumps, messages)),
        "pairs": json.dumps(pairs, indent=1),
        "conversation": json.dumps(conversation),
        "conversations": "\n".join(map(json.dumps, [conversation, {"messages": pairs}])),
        "mixed": "\n".join(map(json.dumps, [conversation, case])),
        "case": json.dumps(case),
        "list": "[]",
        "text": "It is red.",
        "empty": "",
    }
    printed = run_module(
        'import { conversationsIn, readRows } from module("cases.js");'
        f"const read = Object.entries({json.dumps(texts)})"
        ".map(([name, text]) => [conversationsIn(text), readRows(name, text)]);"
        "console.log(JSON.stringify(read));"
    )
    read = dict(zip(texts, json.loads(printed), strict=True))
    assert {name: [each["messages"] for each in conversations] for name, (conversations, _) in read.items()} == {
        **{name: [messages] for name in ("messages", "lines of messages", "conversation")},
        "pairs": [pairs],
        "conversations": [messages, pairs],
        **{name: [] for name in ("mixed", "case", "list", "text", "empty")},
    }
    rows = read["mixed"][1]["rows"]
    assert json.loads(rows[0]["content"]["response"]) == conversation
    assert rows[1]["content"]["response"] == "Hello."
    assert read["list"][1] is None


def test_a_tab_keeps_the_version_of_its_decisions() -> None:
    """After a reload, the decisions are not taken for those of somebody else."""
    kept = run_module(
        "const kept = new Map();"
        "const getItem = (key) => kept.get(key) ?? null;"
        "globalThis.sessionStorage = { getItem, setItem: (key, text) => kept.set(key, text) };"
        'const page = await import(module("kept.js"));'
        "const { keepCases, keepCase, keepReview, keptCases } = page;"
        "const row = (run) => ({ where: '', document: {}, review: null, stored: { run, number: 2, version: 0 } });"
        "const rows = [row('a'), row('b'), { where: '' }];"
        "keepCases('tab', rows);"
        "rows[0].stored.version = 3;"
        "keepReview('tab', 0, rows[0]);"
        "rows[1].stored.version = 5;"
        "keepReview('tab', 1, rows[1]);"
        "keepCase('tab', 1, row('c'));"  # checked again, so another run has it
        "console.log(JSON.stringify(keptCases('tab').map(({ stored }) => stored ?? null)));"
    )
    assert json.loads(kept) == [
        {"run": "a", "number": 2, "version": 3},
        {"run": "c", "number": 2, "version": 0},
        None,
    ]


def test_the_wheel_has_the_page() -> None:
    build = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["build"]
    assert any(PAGE.is_relative_to(ROOT / folder) for folder in build["targets"]["wheel"]["packages"])
    assert not build["targets"]["wheel"].get("exclude")
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("no git checkout to ask which files are left out")
    # what git ignores is left out of the wheel
    ignored = subprocess.run(
        [git, "check-ignore", *map(str, FILES)], cwd=ROOT, capture_output=True, text=True, timeout=LIMIT
    )
    assert ignored.stdout == ""


def test_labels_of_a_sheet_are_written_as_they_are_read(tmp_path: Path) -> None:
    sheet = [{"row": i, "id": f"x{i}", "response": "r", "sources": "s", "wrong": None} for i in (1, 2, 3)]
    text = "\n".join(map(json.dumps, [*sheet, {"response": "no label is asked of a plain case"}]))
    labels = run_module(
        'import { readRows } from module("cases.js"); import { labelLines } from module("labels.js");'
        f"const {{ rows }} = readRows('sheet.jsonl', {json.dumps(text)});"
        "rows[0].label.wrong = true; rows[2].label.wrong = false;"
        "process.stdout.write(labelLines(rows));"
    )
    (tmp_path / "labels.jsonl").write_text(labels)
    run = Run("run", tuple(RunRow(i, f"x{i}", Outcome.CLEAR) for i in (1, 2, 3)))
    assert read_labels([tmp_path / "labels.jsonl"], run).wrong == {1: True, 3: False}
