"""Read source texts from text, PDF, Word, Excel, HTML or Markdown files.

A source document is converted to text once, before it becomes a `Source`; a response is never converted.
"""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import accumulate, pairwise
from pathlib import Path
from statistics import median
from typing import Any

from veridical.core.errors import DataError, MissingExtraError
from veridical.core.files import MAX_BYTES, decode_text, read_bytes
from veridical.rows.tables import DAMAGED_OFFICE_FILE, excel_rows

__all__ = ["CONVERTED_ENDINGS", "Document", "document_of", "load_document", "read_document"]

_HTML_ENDINGS = (".html", ".htm", ".xhtml")
_MARKDOWN_ENDINGS = (".md", ".markdown")
CONVERTED_ENDINGS = frozenset({".pdf", ".docx", ".xlsx", *_HTML_ENDINGS, *_MARKDOWN_ENDINGS})
"""Endings of files that are converted, so that the text of the source differs from the file."""


@dataclass(frozen=True, slots=True)
class Document:
    """The text of a document, the character at which each page begins (PDF only), and what may be wrong in it."""

    text: str
    pages: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()


def read_document(
    path: Path, *, encoding: str = "utf-8", max_bytes: int = MAX_BYTES, empty_allowed: bool = False
) -> str:
    """Return the text of a source document; arguments and errors are those of `load_document`."""
    return load_document(path, encoding=encoding, max_bytes=max_bytes, empty_allowed=empty_allowed).text


def load_document(
    path: Path, *, encoding: str = "utf-8", max_bytes: int = MAX_BYTES, empty_allowed: bool = False
) -> Document:
    """Return a source document; all but text files (by file ending) need the `documents` extra.

    Raises `DataError` for a file that cannot be read, is not what its ending says, or holds no text. With
    `empty_allowed`, a file of zero bytes or white space gives ""; a PDF or page without text is still an error.
    """
    data = read_bytes(path, max_bytes=max_bytes)
    if empty_allowed and not data.strip():
        return Document("")
    return document_of(data, path, encoding=encoding)


def document_of(data: bytes, path: Path, *, encoding: str = "utf-8") -> Document:
    """Return a source document from its bytes; `path` is not opened, only its ending gives the format.

    Raises what `load_document` raises.
    """
    kind = path.suffix.lower()
    if kind == ".pdf":
        document = _pdf(data, path)
    elif kind in (".docx", ".xlsx"):
        document = Document((_docx if kind == ".docx" else _xlsx)(data, path))
    elif kind in _HTML_ENDINGS:
        document = Document(_html(decode_text(data, path, encoding=_html_encoding(data, encoding)), path))
    else:
        text = decode_text(data, path, encoding=encoding)
        document = Document(_markdown(text) if kind in _MARKDOWN_ENDINGS else text)
    if not document.text.strip():
        hint = "a scan needs character recognition first" if kind == ".pdf" else "a source needs text"
        raise DataError("no text in it", path=path, hint=hint)
    return document


def _pdf(data: bytes, path: Path) -> Document:
    try:
        from pypdfium2 import PdfDocument, PdfiumError
    except ImportError:
        raise MissingExtraError("reading PDF", "documents") from None
    texts: list[str] = []
    interleaved: list[str] = []
    try:
        with PdfDocument(data) as pdf:
            for number, page in enumerate(pdf, 1):
                text_page = page.get_textpage()
                texts.append(text_page.get_text_range().replace("\r\n", "\n").replace("\0", ""))
                boxes = [text_page.get_rect(i) for i in range(text_page.count_rects())]
                if columns_are_interleaved(boxes, page.get_width()):
                    interleaved.append(str(number))
                text_page.close()
                page.close()
    except PdfiumError as error:
        if "password" in str(error).lower():
            raise DataError("an encrypted PDF", path=path, hint="save it without a password") from None
        raise DataError(f"not a readable PDF: {error}", path=path) from None
    texts = _joined_words(texts)
    notes: tuple[str, ...] = ()
    if interleaved:
        pages = (
            f"page{'s' if len(interleaved) > 1 else ''} {', '.join(interleaved[:10])}{' …' * (len(interleaved) > 10)}"
        )
        notes = (f"{path.name}: the lines of two columns alternate on {pages}, so sentences are torn apart",)
    starts = accumulate((len(text) + 2 for text in texts[:-1]), initial=0)
    return Document("\n\n".join(texts), tuple(starts) if texts else (), notes)


# a word that goes on in the next line, where PDFium puts U+FFFE for the hyphen, or leaves another one
_BROKEN = re.compile(r"(\w+)(?:\ufffe|[-\u00ad\u2010]\n(?=[a-zß-ÿ0-9]))(\w+)")


def _joined_words(texts: Sequence[str]) -> list[str]:
    """Join words that are hyphenated at the end of a line.

    The hyphen stays where the document has the word with a hyphen elsewhere, but not without, where the word has
    another hyphen, and before a capital letter or a digit.
    """
    if not any(map(_BROKEN.search, texts)):
        return list(texts)
    words = Counter(word.lower() for text in texts for word in re.findall(r"\w+(?:-\w+)*", text))

    def joined(match: re.Match[str]) -> str:
        first, second = match[1], match[2]
        text, start, end = match.string, match.start(), match.end()
        compound = text[max(0, start - 1) : start] == "-" or text[end : end + 1] == "-"
        whole, hyphenated = words[(first + second).lower()], words[f"{first}-{second}".lower()]
        keeps = not second[0].islower() or (not whole and (hyphenated or compound))
        return f"{first}-{second}" if keeps else first + second

    return [_BROKEN.sub(joined, text).replace("\ufffe", "-") for text in texts]


Box = tuple[float, float, float, float]


def columns_are_interleaved(boxes: Sequence[Box], width: float) -> bool:
    """Return whether a page is read across two columns of prose.

    Args:
        boxes: Left, bottom, right and top of each run of text, in the order in which they are read.
        width: The width of the page.
    """
    pairs = [
        (left, right)
        for left, right in pairwise(boxes)
        if min(left[3], right[3]) - max(left[1], right[1]) > 0.5 * (left[3] - left[1]) and right[0] > left[2]
    ]
    if len(pairs) < 5 or 2 * len(pairs) < 0.6 * len(boxes):
        return False
    wide = min(median(right - left for left, _, right, _ in side) for side in zip(*pairs, strict=True))
    gutter = sum(left[2] < median(right[0] for _, right in pairs) for left, _ in pairs)
    return wide > 0.2 * width and gutter > 0.9 * len(pairs)


def _docx(data: bytes, path: Path) -> str:
    try:
        from docx import Document as open_docx
        from docx.opc.exceptions import PackageNotFoundError
        from docx.table import Table
    except ImportError:
        raise MissingExtraError("reading Word files", "documents") from None

    def blocks(container: Any) -> Iterator[str]:
        for block in container.iter_inner_content():
            if isinstance(block, Table):
                for row in block.rows:
                    cells = dict.fromkeys(cell._tc for cell in row.cells)  # a merged cell comes once
                    yield "\t".join(" ".join(text.text for text in cell.p_lst) for cell in cells)
                yield ""
            elif block.text.strip():
                bullet = "- " if (block.style.name or "").startswith("List") else ""
                yield f"{bullet}{block.text}\n"

    try:
        return "\n".join(blocks(open_docx(BytesIO(data))))
    except (PackageNotFoundError, *DAMAGED_OFFICE_FILE) as error:
        raise DataError(f"not a readable Word file: {error}", path=path) from None


def _xlsx(data: bytes, path: Path) -> str:
    lines = ("\t".join(cell or "" for cell in cells).rstrip() for _, _, cells in excel_rows(data, path))
    return "\n".join(lines).strip("\n")


def _html_encoding(data: bytes, encoding: str) -> str:
    """Return the encoding of a page: UTF-8 if it can be, else the one that it declares, else `encoding`."""
    try:
        data.decode()
    except UnicodeDecodeError:
        declared = re.search(rb"""(?:charset|encoding)\s*=\s*["']?\s*([\w.:-]+)""", data[:4096], re.IGNORECASE)
        if declared is None or encoding != "utf-8":
            return encoding
        try:
            name = codecs.lookup(declared[1].decode()).name
        except LookupError:
            return encoding
        return "cp1252" if name in ("ascii", "iso8859-1") else name  # as browsers read them
    return encoding


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
