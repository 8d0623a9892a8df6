"""What people have their texts in: cases as JSON or JSON Lines, sources as text, PDF, HTML or Markdown files.

A response is never converted; a source document is, once, before it becomes a `Source`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import Any

from veridical.core.errors import DataError, InputError, MissingExtraError, WireError
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
"""Files of these are not the text of the source that is read from them."""


def read_document(
    path: Path, *, encoding: str = "utf-8", max_bytes: int = MAX_BYTES, empty_allowed: bool = False
) -> str:
    """Return the text of a source document; PDF, HTML and Markdown (by file ending) need the `documents` extra.

    Raises `DataError` for a file that cannot be read, is not what its ending says, or holds no text. With
    `empty_allowed` a file that holds nothing at all is an empty text; one whose text cannot be found is still an error.
    """
    data = read_bytes(path, max_bytes=max_bytes)
    if empty_allowed and not data.strip():
        return ""
    return document_text(data, path, encoding=encoding)


def document_text(data: bytes, path: Path, *, encoding: str = "utf-8") -> str:
    """The text of a source document of which the bytes are there; `path` says what kind it is, and is not opened.

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
    unseen = dict.fromkeys(("noscript", "template"), HtmlElement(display=Display.none))
    parser = HTMLParser(encoding="utf-8", huge_tree=True)  # without it, deeply nested text would be lost silently
    try:
        page = document_fromstring(text.encode(), parser=parser)
        lines = Inscriptis(page, ParserConfig(css={**STRICT_CSS_PROFILE, **unseen})).get_text().split("\n")
    except ParserError:  # nothing that could be seen
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
    item = ""
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        if token.type == "list_item_open":
            item = "- " if token.markup in "-*+" else f"{token.info}{token.markup} "
        elif token.type == "inline":
            text_of_item = "".join(
                "\n" if child.type in ("softbreak", "hardbreak") else child.content for child in token.children or ()
            )
            lines.append(item + text_of_item)
            item = ""
        elif token.type in ("fence", "code_block"):
            lines.append(token.content.rstrip("\n"))
    return "\n\n".join(lines)


def read_cases(path: Path, *, max_bytes: int = MAX_BYTES) -> Iterator[Case]:
    """The cases in a file ("-" is standard input): JSON Lines, or one JSON object, or an array of them.

    JSON Lines are read one by one, so that the file may be of any size (`max_bytes` then bounds a line).
    A case without an id is named by its line or position. Raises `DataError` with file and line for what is not a
    case, for an id that was there before, and for a file without cases.
    """
    first: dict[str, int] = {}
    for number, case in _numbered_cases(path, max_bytes):
        if case.id in first:
            raise DataError(f"the case id {case.id!r} was there before, at {first[case.id]}", path=path, line=number)
        first[case.id] = number
        yield case
    if not first:
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
        at = getattr(error, "lineno", None)
        raise DataError(f"not JSON: {getattr(error, 'msg', error)}", path=path, line=at) from None
    except RecursionError:
        raise DataError("the JSON is nested too deeply", path=path) from None
    for number, item in enumerate(value if isinstance(value, list) else [value], 1):
        if not isinstance(item, dict):
            raise DataError(f"item {number} is not a JSON object", path=path, hint="a case is an object")
        yield number, _case(item, path, number)


@dataclass(frozen=True, slots=True)
class CasePlace:
    """A case in a file: its JSON begins at index `at` of `text`, or after white space there.

    `text` is a part of the file: it begins at character `start` of it, the first one of `line` (from 1).
    """

    text: str
    at: int
    start: int
    line: int


def case_places(path: Path) -> Iterator[CasePlace]:
    """Where each case is in a file that `read_cases` has read, in the same order; a stream for JSON Lines."""
    start = 0
    first = True
    with open_bytes(path) as file:
        for number, raw in enumerate(file, 1):
            text = decode_text(raw, path)
            if raw.strip() and first and _spans_lines(text.removesuffix("\n")):
                text += decode_text(file.read(), path)
                begins = [at for _, at in members(text, text.index("["))] if text.lstrip().startswith("[") else [0]
                yield from (CasePlace(text, at, start, number) for at in begins)
                return
            if raw.strip():
                first = False
                yield CasePlace(text, 0, start, number)
            start += len(text)


def _spans_lines(line: str) -> bool:
    """Whether a file that begins with this line is one JSON value rather than one per line."""
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
    except WireError as error:
        raise DataError(error.message, path=path, line=number, hint=error.hint) from None
    except InputError as error:  # a record's own invariant
        raise DataError(error.message, path=path, line=number, hint=error.hint) from None
