"""Read source texts from text, PDF, Word, Excel, HTML or Markdown files.

A source document is converted to text once, before it becomes a `Source`. A response is never converted.
"""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import accumulate, pairwise
from pathlib import Path
from statistics import median
from typing import Any

from veridical.io.files import MAX_BYTES, decode_text, read_bytes
from veridical.records.errors import DataError, MissingExtraError
from veridical.text.superscripts import raised

_HTML_ENDINGS = (".html", ".htm", ".xhtml")
_MARKDOWN_ENDINGS = (".md", ".markdown")
_MOST_GROWTH = 64 * 1024 * 1024  # most bytes that unpacking may add; parsed XML takes up to 20 times as much memory
CONVERTED_ENDINGS = frozenset({".pdf", ".docx", ".xlsx", *_HTML_ENDINGS, *_MARKDOWN_ENDINGS})
"""Endings of files that are converted, so that the text of the source differs from the file."""


@dataclass(frozen=True, slots=True)
class Document:
    """A source document that was converted to text.

    Attributes:
        text: The text.
        pages: The positions in `text`, in characters, at which the pages begin. Empty unless the file is a PDF.
        notes: Remarks for the user, such as "a.xlsx: the hidden sheet 'Old' is left out".
    """

    text: str
    pages: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()


def read_document(
    path: Path, *, encoding: str = "utf-8", max_bytes: int = MAX_BYTES, empty_allowed: bool = False
) -> str:
    """Read a source document from a file and return only its text, without page positions and notes.

    Args:
        path: The file. Its extension decides the format.
        encoding: The encoding of a text file without a byte-order mark.
        max_bytes: The maximum size of the file, in bytes.
        empty_allowed: If true, a file with only white space gives an empty text and no error. A PDF or HTML page
            without text is still an error.

    Raises:
        DataError: The file cannot be read, has another format than its extension says, or contains no text.
    """
    return load_document(path, encoding=encoding, max_bytes=max_bytes, empty_allowed=empty_allowed).text


def load_document(
    path: Path, *, encoding: str = "utf-8", max_bytes: int = MAX_BYTES, empty_allowed: bool = False
) -> Document:
    """Read a source document from a file and convert it to text.

    Text files need no extra, and all other formats need the extra `documents`.

    Args:
        path: The file. Its extension decides the format.
        encoding: The encoding of a text file without a byte-order mark.
        max_bytes: The maximum size of the file, in bytes.
        empty_allowed: If true, a file with only white space gives an empty text and no error. A PDF or HTML page
            without text is still an error.

    Raises:
        DataError: The file cannot be read, has another format than its extension says, or contains no text.
    """
    data = read_bytes(path, max_bytes=max_bytes)
    if empty_allowed and not data.removeprefix(codecs.BOM_UTF8).strip():
        return Document("")
    return document_of(data, path, encoding=encoding)


def document_of(data: bytes, path: Path, *, encoding: str = "utf-8", max_characters: int = MAX_BYTES) -> Document:
    """Convert the bytes of a source document to text.

    `path` is not opened. It only decides the format, by the file extension, and names the file in error messages.

    Raises:
        DataError: The data cannot be read in the format of the extension, contain no text, or contain more than
            `max_characters` characters of text. An office file of a few kilobytes can contain hundreds of megabytes.
    """
    kind = path.suffix.lower()
    if kind == ".pdf":
        document = _pdf(data, path, max_characters)
    elif kind in (".docx", ".xlsx"):
        from veridical.io.tables import check_parts

        check_parts(data, path, len(data) + _MOST_GROWTH, hint="split it, or save it as text")
        document = (_docx if kind == ".docx" else _xlsx)(data, path, max_characters)
    elif kind in _HTML_ENDINGS:
        document = _html(decode_text(data, path, encoding=_html_encoding(data, encoding)), path)
    else:
        text = decode_text(data, path, encoding=encoding)
        document = _html(_rendered(text), path, images=True) if kind in _MARKDOWN_ENDINGS else Document(text)
    if len(document.text) > max_characters:
        raise _too_long(path, max_characters)
    if not document.text.strip():
        hint = "a scan needs character recognition first" if kind == ".pdf" else "a source needs text"
        raise DataError("no text in it", path=path, hint=hint)
    return document


def _counted(texts: Iterable[str], path: Path, most: int) -> Iterator[str]:
    """Yield `texts`, and raise `DataError` once they have more than `most` characters in total."""
    size = 0
    for text in texts:
        size += len(text)
        if size > most:
            raise _too_long(path, most)
        yield text


def _too_long(path: Path, most: int) -> DataError:
    return DataError(f"more than {most:,} characters of text", path=path, hint="split it")


def _pdf(data: bytes, path: Path, max_characters: int) -> Document:
    try:
        from pypdfium2 import PdfDocument, PdfiumError
    except ImportError:
        raise MissingExtraError("reading PDF", "documents") from None
    texts: list[str] = []
    interleaved: list[str] = []
    size = 0
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
                size += len(texts[-1])
                if size > max_characters:
                    raise _too_long(path, max_characters)
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


# a word that is hyphenated at the end of a line; PDFium replaces the hyphen by U+FFFE or leaves it
_BROKEN = re.compile(r"(?<!\w)(\w++)(?:\ufffe|[-\u00ad\u2010]\n(?=[a-zß-ÿ0-9]))(\w+)")


def _joined_words(texts: Sequence[str]) -> list[str]:
    """Join words that are hyphenated at the end of a line.

    The hyphen stays before a capital letter or a digit. Otherwise, it is removed if the document contains the joined
    word elsewhere. If not, it stays if the document contains the hyphenated word elsewhere, or if the word has another
    hyphen.
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
    """Return whether the extracted text of a PDF page mixes two columns of prose.

    This happens if the PDF stores each line across both columns, so that sentences are torn apart.

    Args:
        boxes: The left, bottom, right and top edge of each run of text, in reading order.
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


def _docx(data: bytes, path: Path, max_characters: int) -> Document:
    try:
        from docx import Document as open_docx
        from docx.opc.exceptions import PackageNotFoundError
    except ImportError:
        raise MissingExtraError("reading Word files", "documents") from None
    from veridical.io.tables import DAMAGED_OFFICE_FILE
    from veridical.io.word import WordText

    try:
        word = WordText(open_docx(BytesIO(data)))
        text = "\n".join(_counted(word.blocks(), path, max_characters))
    except DataError:
        raise
    except (PackageNotFoundError, RecursionError, *DAMAGED_OFFICE_FILE) as error:
        raise DataError(f"not a readable Word file: {error}", path=path) from None
    return Document(text, notes=tuple(f"{path.name}: {count} {what}" for what, count in word.left_out.items() if count))


def _xlsx(data: bytes, path: Path, max_characters: int) -> Document:
    from veridical.io.tables import excel_sheets

    notes: list[str] = []

    def lines() -> Iterator[str]:
        for name, is_hidden, rows, find_unseen in excel_sheets(data, path):
            if is_hidden:
                notes.append(f"{path.name}: the hidden sheet {name!r} is left out")
                continue
            unseen = find_unseen()
            notes.extend(f"{path.name}, sheet {name!r}: {note}" for note in unseen.notes())
            named = False
            for row, cells in enumerate(rows, 1):
                if row in unseen.rows:
                    continue
                line = "\t".join(cell or "" for i, cell in enumerate(cells, 1) if i not in unseen.columns).rstrip()
                if line and not named and not _UNNAMED.fullmatch(name):
                    yield f"\n{name}\n"
                named = named or bool(line)
                yield line
            yield ""

    text = "\n".join(_counted(lines(), path, max_characters)).strip("\n")
    return Document(text, notes=tuple(notes))


_UNNAMED = re.compile(r"(?:Sheet|Tabelle|Feuil|Hoja|Foglio|Planilha|Blad|Лист|シート)\s?\d*")


def _html_encoding(data: bytes, encoding: str) -> str:
    """Return the encoding that a page declares if `encoding` is "utf-8" but the page is not UTF-8, else `encoding`."""
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


def _html(text: str, path: Path, *, images: bool = False) -> Document:
    """Convert a page to the text that a reader sees. If `images` is set, alternative texts stand in place of images."""
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
    hidden = dict.fromkeys((*_UNSEEN, *_DELETED), HtmlElement(display=Display.none))
    blocks = dict.fromkeys(_BLOCKS, HtmlElement(display=Display.block))
    apart = dict.fromkeys(_APART, HtmlElement(prefix=" ", suffix=" ", limit_whitespace_affixes=True))
    table = HtmlElement(display=Display.block, margin_before=1, margin_after=1)
    css = {**STRICT_CSS_PROFILE, **blocks, **apart, **hidden, "table": table}
    parser = HTMLParser(encoding="utf-8", huge_tree=True)  # else deeply nested text is lost silently
    try:
        page = document_fromstring(text.encode(), parser=parser)
        marks = _raise(page)
        _keep_rows(page)
        for code in page.xpath("//pre//code"):  # it would lose its line breaks
            code.drop_tag()
        config = ParserConfig(css=css, display_images=images, table_cell_separator="\t")
        lines = Inscriptis(page, config).get_text().split("\n")
    except ParserError:  # the page has no content
        return Document("")
    except RecursionError:
        raise DataError("HTML that is nested too deeply", path=path) from None
    notes = [f"{path.name}: {marks} raised marks of notes are left out"] * (marks > 0)
    if next(page.iter(*_DELETED), None) is not None:
        notes.append(f"{path.name}: text that is marked as deleted is left out")
    return Document("\n".join(map(_cells, lines)).strip("\n"), notes=tuple(notes))


_UNSEEN = ("noscript", "template")
_DELETED = ("del", "s", "strike")
_BLOCKS = (
    "dl",
    "dt",
    "dd",
    "details",
    "summary",
    "option",
    "optgroup",
    "fieldset",
    "legend",
    "section",
    "form",
    "caption",
)
_APART = ("button", "label", "select", "textarea")


def _cells(line: str) -> str:
    """Remove the padding from the cells of a line."""
    return "\t".join(cell.rstrip(" ") for cell in line.split("\t")).rstrip()


def _keep_rows(page: Any) -> None:
    """Put each short table cell on one line. Long cells, as in tables that are used for layout, keep their lines."""
    for cell in page.iter("td", "th"):
        if next(cell.iter("table", "pre"), None) is None and len(cell.text_content()) <= _SHORT_CELL:
            for element in list(cell.iter("br", "p", "div", "ul", "ol", "li", *_BLOCKS)):
                element.text = f" {element.text or ''}"
                element.tail = f" {element.tail or ''}"
                element.drop_tag()


_SHORT_CELL = 200  # characters


def _raise(page: Any) -> int:
    """Replace superscripts by raised digits, remove footnote marks, and return how many marks were removed."""
    marks = 0
    for element in list(page.iter("sup")):
        text, before = element.text_content(), _text_before(element)
        is_link = any("#" in link.get("href", "") for link in element.iter("a"))
        plain = "" if is_link and "[" not in text else raised(before, text)
        marks += bool(text.strip()) and not plain
        for child in list(element):
            element.remove(child)
        element.text = plain
    return marks


def _text_before(element: Any) -> str:
    """Return the last characters before an element, inside its parent."""
    previous = element.getprevious()
    if previous is None:
        parent = element.getparent()
        return "" if parent is None else (parent.text or "")[-20:]
    return str(previous.tail or previous.text or "")[-20:]


def _rendered(text: str) -> str:
    """Convert Markdown to HTML."""
    try:
        from markdown_it import MarkdownIt
    except ImportError:
        raise MissingExtraError("reading Markdown", "documents") from None
    return str(MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(text))
