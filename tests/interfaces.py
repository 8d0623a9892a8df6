"""What each interface does with each kind of input: the table in docs/interfaces.md, each cell a test or a reason."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["CODES", "FILES", "INTERFACES", "KINDS", "Kind", "cell", "table"]

RED, BLUE = "It is red.", "It is blue."
CODES = {"clear": 0, "flagged": 1, "could not run": 2, "unjudged": 3}
INTERFACES = {
    "check_text": "`check` of texts",
    "check_rows": "`check` of rows",
    "stdin": "`check --cases -`",
    "batch": "`batch`",
    "python": "Python",
    "assertion": "pytest",
    "langchain": "LangChain",
    "llama_index": "LlamaIndex",
    "inspect": "Inspect",
    "service": "HTTP",
    "proxy": "proxy",
    "page": "page",
}
ONE = "one case at a time"
TEXTS = "takes texts, not files of rows"
JSON = "takes JSON"
LOADS = "takes texts; the framework reads documents"
IN_ROWS = "sources are texts in the rows"
STARTED = "has its detectors from the start"
FROM_MODEL = "the response is the model's"
PAGE = "sends what HTTP gets, in a browser (`make browser`)"

FRAMEWORKS = ("langchain", "llama_index", "inspect")
ROWS = ("check_rows", "stdin", "batch")


@dataclass(frozen=True)
class Kind:
    """A kind of input: its outcome by interface, or the reason why an interface does not get it."""

    outcome: str
    differs: dict[str, str]
    response: str | None = RED
    sources: tuple[str | None, ...] = (BLUE,)
    file: str | None = None


def _differs(**interfaces: str) -> dict[str, str]:
    return {"page": PAGE, **interfaces}


def _rows(json: bool, **interfaces: str) -> dict[str, str]:
    texts = dict.fromkeys(("check_text", "python", "assertion", *FRAMEWORKS, "proxy"), TEXTS)
    return _differs(**{**texts, **({} if json else {"stdin": JSON, "service": JSON}), **interfaces})


def _documents() -> dict[str, str]:
    return _differs(**dict.fromkeys(ROWS, IN_ROWS), **dict.fromkeys(FRAMEWORKS, LOADS), proxy=LOADS)


MANY = dict.fromkeys(("check_text", "python", "assertion", *FRAMEWORKS, "service", "proxy"), ONE)
KINDS = {
    "a supported answer": Kind("clear", _differs(), sources=(RED,)),
    "an unsupported answer": Kind("flagged", _differs()),
    "an empty answer": Kind("unjudged", _differs(), response=""),
    "no sources": Kind("unjudged", _differs(), sources=()),
    "a null among the sources": Kind("clear", _differs(), sources=(None, RED)),
    "flagged and unjudged cases": Kind("flagged", _differs(**MANY), file="many.jsonl"),
    "clear and unjudged cases": Kind("unjudged", _differs(**MANY), file="clear.jsonl"),
    "JSON over several lines": Kind("flagged", _rows(True), file="pretty.json"),
    "a number as id": Kind("flagged", _rows(True), file="number.jsonl"),
    "RAGAS columns": Kind("flagged", _rows(True, service="could not run"), file="ragas.json"),
    "NaN in another column": Kind("flagged", _rows(True, service="could not run"), file="nan.json"),
    "CSV with semicolons": Kind("flagged", _rows(False), file="semicolon.csv"),
    "CSV in UTF-16": Kind("flagged", _rows(False), file="utf-16.csv"),
    "an Excel file of rows": Kind("flagged", _rows(False), file="rows.xlsx"),
    "a PDF source": Kind("flagged", _documents(), file="source.pdf"),
    "a Word source": Kind("flagged", _documents(), file="source.docx"),
    "an HTML source in Latin-1": Kind("flagged", _documents(), file="source.html"),
    "broken JSON": Kind("could not run", _rows(True, batch="unjudged", proxy="could not run"), file="broken.jsonl"),
    "binary data as a source": Kind("could not run", _documents(), file="binary.txt"),
    "an unknown detector": Kind("could not run", _differs()),
}


def cell(interface: str, kind: str) -> str:
    """The outcome of a kind of input in an interface, or the reason why it does not apply."""
    return KINDS[kind].differs.get(interface, KINDS[kind].outcome)


def table() -> str:
    """The table of all interfaces and kinds, with the reasons below it."""
    reasons: dict[str, str] = {}
    lines = [f"| input | {' | '.join(INTERFACES.values())} |", f"|---{'|:-:' * len(INTERFACES)}|"]
    for kind in KINDS:
        cells = []
        for interface in INTERFACES:
            text = cell(interface, kind)
            cells.append(text if text in CODES else reasons.setdefault(text, chr(ord("a") + len(reasons))))
        lines.append(f"| {kind} | {' | '.join(cells)} |")
    below = "; ".join(f"{letter}: {reason}" for reason, letter in reasons.items())
    return "\n".join(lines) + f"\n\nNot applicable: {below}."


def _line(**row: Any) -> str:
    return json.dumps(row) + "\n"


def _excel(path: Path) -> None:
    from openpyxl import Workbook

    book = Workbook()
    for row in (["response", "sources"], [RED, BLUE]):
        book.active.append(row)
    book.save(path)


def _word(path: Path) -> None:
    from docx import Document

    document = Document()
    document.add_paragraph(BLUE)
    document.save(path)


def _pdf(path: Path) -> None:
    from tests.io.test_documents import pdf_of

    path.write_bytes(pdf_of(BLUE))


def _text(text: str, encoding: str = "utf-8") -> Callable[[Path], Any]:
    return lambda path: path.write_bytes(text.encode(encoding))


CASE = {"response": RED, "sources": [BLUE]}
RAGAS = {"user_input": "What?", "response": RED, "retrieved_contexts": [BLUE]}
FILES: dict[str, Callable[[Path], Any]] = {
    "many.jsonl": _text(_line(**CASE) + _line(response=RED) + _line(response="", sources=[RED])),
    "clear.jsonl": _text(_line(response=RED, sources=[RED]) + _line(response=RED)),
    "pretty.json": _text(json.dumps(CASE, indent=2)),
    "number.jsonl": _text(_line(id=7, **CASE)),
    "ragas.json": _text(json.dumps([RAGAS])),
    "nan.json": _text(json.dumps([{**RAGAS, "faithfulness": float("nan")}])),
    "semicolon.csv": _text(f"response;sources\n{RED};{BLUE}\n"),
    "utf-16.csv": _text(f"response\tsources\n{RED}\t{BLUE}\n", "utf-16"),
    "rows.xlsx": _excel,
    "source.pdf": _pdf,
    "source.docx": _word,
    "source.html": _text('<meta charset="iso-8859-1"><p>It is blue: Grüße.</p>', "cp1252"),
    "broken.jsonl": _text('{"response": '),
    "binary.txt": _text("\0\1\2"),
}
