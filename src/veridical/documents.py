"""Read cases from JSON or JSON Lines, and source texts from text, PDF, HTML or Markdown files.

A source document is converted to text once, before it becomes a `Source`; a response is never converted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import Any

from veridical.core.errors import DataError, InputError, MissingExtraError
from veridical.core.files import MAX_BYTES, decode_text, open_bytes, read_bytes
from veridical.core.json_places import members
from veridical.core.jsonl import read_lines
from veridical.core.serialization import decode_case
from veridical.core.types import Case

__all__ = [
    "CASE_ENDINGS",
    "CONVERTED_ENDINGS",
    "CasePlace",
    "case_places",
    "document_text",
    "read_cases",
    "read_document",
]

CASE_ENDINGS = frozenset({".json", ".jsonl", ".ndjson"})
_HTML_ENDINGS = frozenset({".html", ".htm", ".xhtml"})
_MARKDOWN_ENDINGS = frozenset({".md", ".markdown"})
CONVERTED_ENDINGS = frozenset({".pdf"}) | _HTML_ENDINGS | _MARKDOWN_ENDINGS
"""Endings of files that are converted, so that the text of the source differs from the file."""


def read_document(
    path: Path, *, encoding: str = "utf-8", max_bytes: int = MAX_BYTES, empty_allowed: bool = False
) -> str:
    """Return the text of a source document; PDF, HTML and Markdown (by file ending) need the `documents` extra.

    Raises `DataError` for a file that cannot be read, is not what its ending says, or holds no text. With
    `empty_allowed`, a file of zero bytes or white space gives ""; a PDF or page without text is still an error.
    """
    data = read_bytes(path, max_bytes=max_bytes)
    if empty_allowed and not data.strip():
        return ""
    return document_text(data, path, encoding=encoding)


def document_text(data: bytes, path: Path, *, encoding: str = "utf-8") -> str:
    """Return the text of a source document from its bytes; `path` is not opened, only its ending gives the format.

    Raises what `read_document` raises.
    """
    kind = path.suffix.lower()
    if kind == ".pdf":
        text = _pdf(data, path)
    else:
        text = decode_text(data, path, encoding=encoding)
        if kind in _HTML_ENDINGS:
            text = _html(text, path)
        elif kind in _MARKDOWN_ENDINGS:
            text = _markdown(text)
    if not text.strip():
        hint = "a scan needs character recognition first" if kind == ".pdf" else "a source needs text"
        raise DataError("no text in it", path=path, hint=hint)
    return text


def _pdf(data: bytes, path: Path) -> str:
    try:
        from pypdf import PdfReader
        from pypdf.errors import PyPdfError
    except ImportError:
        raise MissingExtraError("reading PDF", "documents") from None
    try:
        reader = PdfReader(BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise DataError("an encrypted PDF", path=path, hint="save it without a password")
        return "\n\n".join(page.extract_text() for page in reader.pages)
    except (PyPdfError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"not a readable PDF: {error}", path=path) from None


def _html(text: str, path: Path) -> str:
    try:
        from inscriptis import Inscriptis
        from inscriptis.css_profiles import STRICT_CSS_PROFILE
        from inscriptis.html_properties import Display
        from inscriptis.model.config import ParserConfig
        from inscriptis.model.html_element import HtmlElement
        from lxml.etree import ParserError
        from lxml.html import HTMLParser, document_fromstring
    except ImportError:
        raise MissingExtraError("reading HTML", "documents") from None
    hidden = dict.fromkeys(("noscript", "template"), HtmlElement(display=Display.none))
    parser = HTMLParser(encoding="utf-8", huge_tree=True)  # else deeply nested text is lost silently
    try:
        page = document_fromstring(text.encode(), parser=parser)
        lines = Inscriptis(page, ParserConfig(css={**STRICT_CSS_PROFILE, **hidden})).get_text().split("\n")
    except ParserError:  # the page has no content
        return ""
    except RecursionError:
        raise DataError("HTML that is nested too deeply", path=path) from None
    return "\n".join(line.rstrip() for line in lines).strip("\n")


def _markdown(text: str) -> str:
    try:
        from markdown_it import MarkdownIt
    except ImportError:
        raise MissingExtraError("reading Markdown", "documents") from None
    lines: list[str] = []
    bullet = ""
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        if token.type == "list_item_open":
            bullet = "- " if token.markup in "-*+" else f"{token.info}{token.markup} "
        elif token.type == "inline":
            text_of_block = "".join(
                "\n" if child.type in ("softbreak", "hardbreak") else child.content for child in token.children or ()
            )
            lines.append(bullet + text_of_block)
            bullet = ""
        elif token.type in ("fence", "code_block"):
            lines.append(token.content.rstrip("\n"))
    return "\n\n".join(lines)


def read_cases(path: Path, *, max_bytes: int = MAX_BYTES) -> Iterator[Case]:
    """Read the cases of a file ("-" is standard input): JSON Lines, or one JSON object, or an array of objects.

    JSON Lines are read one at a time, so the file may have any size; `max_bytes` then bounds each line.
    A case without an id gets its line or position as its id. Raises `DataError` with file and line for a line or item
    that is not a case, for a repeated id, and for a file without cases.
    """
    line_of: dict[str, int] = {}
    for number, case in _numbered_cases(path, max_bytes):
        if case.id in line_of:
            raise DataError(f"the case id {case.id!r} was there before, at {line_of[case.id]}", path=path, line=number)
        line_of[case.id] = number
        yield case
    if not line_of:
        raise DataError("no cases in it", path=path, hint='one per line, such as {"response": "…", "sources": ["…"]}')


def _numbered_cases(path: Path, max_bytes: int) -> Iterator[tuple[int, Case]]:
    lines = read_lines(path, max_bytes=max_bytes)
    first = next(lines, None)
    if first is None or not _spans_lines(first.text):
        for line in chain([first] if first else [], lines):
            yield line.number, _case(line.text, path, line.number)
        return
    try:
        value = json.loads("\n".join(line.text for line in chain([first], lines)))
    except ValueError as error:
        line_number = getattr(error, "lineno", None)
        raise DataError(f"not JSON: {getattr(error, 'msg', error)}", path=path, line=line_number) from None
    except RecursionError:
        raise DataError("the JSON is nested too deeply", path=path) from None
    for number, item in enumerate(value if isinstance(value, list) else [value], 1):
        if not isinstance(item, dict):
            raise DataError(f"item {number} is not a JSON object", path=path, hint="a case is an object")
        yield number, _case(item, path, number)


@dataclass(frozen=True, slots=True)
class CasePlace:
    """The position of a case in a file: its JSON begins at index `at` of `text`, or after white space there.

    `text` is a part of the file that begins at character `start`, the first character of line `line` (from 1).
    """

    text: str
    at: int
    start: int
    line: int


def case_places(path: Path) -> Iterator[CasePlace]:
    """Yield the position of each case in a file that `read_cases` has read, in its order; JSON Lines are streamed."""
    start = 0
    first = True
    with open_bytes(path) as file:
        for number, raw in enumerate(file, 1):
            text = decode_text(raw, path)
            if raw.strip() and first and _spans_lines(text.removesuffix("\n")):
                text += decode_text(file.read(), path)
                is_array = text.lstrip().startswith("[")
                positions = [position for _, position in members(text, text.index("["))] if is_array else [0]
                yield from (CasePlace(text, position, start, number) for position in positions)
                return
            if raw.strip():
                first = False
                yield CasePlace(text, 0, start, number)
            start += len(text)


def _spans_lines(line: str) -> bool:
    """Return whether a file that begins with `line` holds one JSON value, not one per line."""
    if line.lstrip().startswith("["):
        return True
    try:
        json.loads(line)
    except ValueError:
        return line.strip() == "{" or (line.lstrip().startswith("{") and line.rstrip().endswith((",", "[", "{", ":")))
    except RecursionError:
        return False
    return False


def _case(document: Any, path: Path, number: int) -> Case:
    try:
        return decode_case(document, default_id=str(number))
    except InputError as error:  # not a case document, or one that `Case` refuses
        raise DataError(error.message, path=path, line=number, hint=error.hint) from None
