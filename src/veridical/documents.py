"""Read source texts from text, PDF, HTML or Markdown files.

A source document is converted to text once, before it becomes a `Source`; a response is never converted.
"""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

from veridical.core.errors import DataError, MissingExtraError
from veridical.core.files import MAX_BYTES, decode_text, read_bytes

__all__ = ["CONVERTED_ENDINGS", "document_text", "read_document"]

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
