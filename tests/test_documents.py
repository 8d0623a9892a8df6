"""Sources and cases from the files that people have."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from veridical.core.errors import DataError, MissingExtraError
from veridical.core.spans import Span
from veridical.core.types import Source
from veridical.documents import Document, load_document, read_document


def test_text_is_kept_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("\ufeff  One\r\n\ttwo é \n".encode())
    assert read_document(path) == "  One\r\n\ttwo é \n"


def test_utf16_is_read_by_its_mark(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("Grüße".encode("utf-16"))
    assert read_document(path) == "Grüße"


def test_html_gives_its_text_in_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    path.write_text(
        "<html><head><title>T</title><style>p{}</style></head><body><h1>Head\n line</h1>"
        "<p>One <b>bold</b> word.<br>Next</p><script>alert(1)</script>"
        "<ul><li>a</li><li>b &amp; c</li></ul></body></html>"
    )
    assert read_document(path).split("\n") == [
        *("Head line", "", "One bold word.", "Next", "", "  * a", "  * b & c"),
    ]


PAGES = {
    "a table row is a line": (
        "<table><tr><th>Year<th>Sold<tr><td>2019<td>3.5 m</table>",
        "Year  Sold\n2019  3.5 m",
    ),
    "what a reader does not see": (
        "<p>A</p><noscript>on</noscript><template><p>t</p></template><p style='display:none'>x</p><!-- c --><p>B</p>",
        "A\n\nB",
    ),
    "preformatted text": ("<pre>a  b\n  c</pre><p>x   y\n z</p>", "a  b\n  c\n\nx y z"),
    "inline marks part no word": ("un<b>believ</b>able, H<sub>2</sub>O &amp;c", "unbelievable, H2O &c"),
    "a page that names its encoding": ('<?xml version="1.0" encoding="latin-1"?><html><p>Grüße</p></html>', "Grüße"),
    "text behind 300 open elements": ("<p>a" + "<span>" * 300 + "deep", "adeep"),
}


@pytest.mark.parametrize("name", PAGES)
def test_html_as_a_reader_sees_it(name: str, tmp_path: Path) -> None:
    html, text = PAGES[name]
    path = tmp_path / "a.html"
    path.write_text(html, "utf-8")
    assert read_document(path) == text


def test_html_that_nests_too_deeply_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    path.write_text("<div>" * 20_000 + "x", "utf-8")
    with pytest.raises(DataError, match="nested too deeply"):
        read_document(path)


def test_markdown_gives_its_text(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_text("# Title\n\nSome *bold* [link](http://x) `code`.\nNext line.\n\n- one\n- two\n\n1. first\n")
    assert read_document(path).split("\n\n") == [
        "Title",
        "Some bold link code.\nNext line.",
        "- one",
        "- two",
        "1. first",
    ]


def pdf_of(*pages: str) -> bytes:
    """A PDF, written by hand; a page is a text, or a content stream that begins with BT."""
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b"", b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"]
    kids = []
    for page in pages:
        stream = (page if page.startswith("BT") else f"BT /F1 12 Tf 72 720 Td ({page}) Tj ET").encode()
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream))
        resources = b"<< /Font << /F1 3 0 R >> >>"
        box, content = b"/MediaBox [0 0 612 792]", b"/Contents %d 0 R" % len(objects)
        objects.append(b"<< /Type /Page /Parent 2 0 R %s %s /Resources %s >>" % (box, content, resources))
        kids.append(b"%d 0 R" % len(objects))
    objects[1] = b"<< /Type /Pages /Kids [%s] /Count %d >>" % (b" ".join(kids), len(kids))
    out, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    size = len(objects) + 1
    return out + b"xref\n0 %d\n0000000000 65535 f \n%strailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % (
        size,
        table,
        size,
        len(out),
    )


def lines_of(*lines: str, left: int = 72, top: int = 720) -> str:
    """The content stream of lines, one below the other."""
    return (
        "BT /F1 10 Tf "
        + " ".join(f"1 0 0 1 {left} {top - 14 * i} Tm ({line}) Tj" for i, line in enumerate(lines))
        + " ET"
    )


def test_pdf_gives_its_text_and_where_its_pages_begin(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(pdf_of("The river rose by 3.5 m.", "", "It fell again."))
    document = load_document(path)
    assert document == Document("The river rose by 3.5 m.\n\n\n\nIt fell again.", (0, 26, 28))
    assert document.text[document.pages[2] :] == "It fell again."
    source = Source("a.pdf", document.text, pages=document.pages)
    assert [source.page_of(Span(at, at + 1)) for at in (0, 25, 26, 28, 40)] == [1, 1, 2, 3, 3]


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        (("All infor-", "mation counts."), "All information counts."),
        (("The well-", "known one, a well-known man."), "The well-known one, a well-known man."),
        (("A state-of-", "the-art engine."), "A state-of-the-art engine."),
        (("From Baden-", "Baden, 1990-", "1995."), "From Baden-Baden, 1990-1995."),
        (("The pre-", "fix, prefix and pre-fix."), "The prefix, prefix and pre-fix."),
        (("A dash -", "is no hyphen."), "A dash -\nis no hyphen."),
    ],
)
def test_words_hyphenated_at_the_end_of_a_line_are_joined(tmp_path: Path, lines: tuple[str, ...], text: str) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(pdf_of(lines_of(*lines)))
    assert re.sub(" \n", "\n", load_document(path).text) == text


PROSE = [f"In year {i} the river rose again and flooded the fields." for i in range(12)]


def columns(left: list[str], right: list[str], *, alternate: bool) -> str:
    places = [(72, 720 - 14 * i, line) for i, line in enumerate(left)]
    places += [(330, 720 - 14 * i, line) for i, line in enumerate(right)]
    if alternate:
        places.sort(key=lambda place: (-place[1], place[0]))
    return "BT /F1 9 Tf " + " ".join(f"1 0 0 1 {x} {y} Tm ({line}) Tj" for x, y, line in places) + " ET"


def test_interleaved_columns_are_said(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(pdf_of(columns(PROSE, PROSE, alternate=True), columns(PROSE, PROSE, alternate=False)))
    document = load_document(path)
    assert document.notes == ("a.pdf: the lines of two columns alternate on page 1, so sentences are torn apart",)
    path.write_bytes(pdf_of(columns([f"Year {i}" for i in range(12)], ["3.5 m"] * 12, alternate=True)))
    assert load_document(path).notes == (), "a table is read row by row"


def test_word_files(tmp_path: Path) -> None:
    docx = pytest.importorskip("docx")
    written = docx.Document()
    written.add_heading("Rivers", 1)
    written.add_paragraph("The river rose.")
    written.add_paragraph("by 3.5 m", style="List Bullet")
    table = written.add_table(2, 3)
    for cell, text in zip((cell for row in table.rows for cell in row.cells), "ABCDEF", strict=True):
        cell.text = text
    table.cell(1, 1).merge(table.cell(1, 2))
    written.add_paragraph("It fell.")
    path = tmp_path / "a.docx"
    written.save(path)
    assert read_document(path) == "Rivers\n\nThe river rose.\n\n- by 3.5 m\n\nA\tB\tC\nD\tE F\n\nIt fell.\n"


def test_excel_files_as_sources(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (["Year", None, "Sold"], [2019, None, 3.5]):
        book.active.append(row)
    path = tmp_path / "a.xlsx"
    book.save(path)
    assert read_document(path) == "Year\t\tSold\n2019\t\t3.5"


@pytest.mark.parametrize(
    ("head", "encoding"),
    [
        ('<meta charset="iso-8859-1">', "cp1252"),
        ("<meta http-equiv='Content-Type' content='text/html; charset=windows-1251'>", "cp1251"),
        ('<?xml version="1.0" encoding="Shift_JIS"?>', "shift_jis"),
        ('<meta charset="utf-8">', "utf-8"),
        ("", "utf-16"),
        ("<meta charset=klingon>", "utf-8"),
    ],
)
def test_html_in_the_encoding_that_it_declares(tmp_path: Path, head: str, encoding: str) -> None:
    text = {"cp1252": "“Grüße” – 5 €", "cp1251": "Привет", "shift_jis": "日本語"}.get(encoding, "Grüße")
    path = tmp_path / "a.html"
    path.write_bytes(f"{head}<html><p>{text}</p></html>".encode(encoding))
    assert read_document(path) == text


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("a.txt", b"", "no text in it"),
        ("a.txt", b" \n", "no text in it"),
        ("a.txt", b"\x89PNG\r\n\x1a\n\0\0", "binary data"),
        ("a.txt", "Grüße".encode("latin-1"), "byte 2 is 0xfc"),
        ("a.txt", b"%PDF-1.4 x", "a PDF, not text"),
        ("a.pdf", b"not a pdf", "not a readable PDF"),
        ("a.docx", b"PK\3\4 no", "not a readable Word file"),
        ("a.xlsx", b"PK\3\4 no", "not a readable Excel file"),
        ("a.doc", b"\xd0\xcf\x11\xe0", "an old office document, not text"),
        ("a.rtf", rb"{\rtf1\ansi It is red.}", "an RTF document, not text"),
        ("a.html", "Grüße".encode("latin-1"), "byte 2 is 0xfc"),
        ("a.pdf", pdf_of(""), "no text in it"),
        ("a.html", b"<script>x</script>", "no text in it"),
        ("a.html", b"<!-- only a comment -->", "no text in it"),
    ],
)
def test_what_is_no_text_is_refused(tmp_path: Path, name: str, data: bytes, says: str) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(DataError, match=says) as error:
        read_document(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_missing_file_a_folder_and_a_huge_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        read_document(tmp_path / "none.txt")
    with pytest.raises(DataError, match="a folder"):
        read_document(tmp_path)
    (tmp_path / "big.txt").write_text("x" * 101)
    with pytest.raises(DataError, match="larger than 100 bytes"):
        read_document(tmp_path / "big.txt", max_bytes=100)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("pypdfium2", "a.pdf"),
        ("docx", "a.docx"),
        ("openpyxl", "a.xlsx"),
        ("inscriptis", "a.html"),
        ("markdown_it", "a.md"),
    ],
)
def test_a_missing_library_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, name: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    (tmp_path / name).write_text("text")
    with pytest.raises(MissingExtraError, match=r"pip install 'veridical\[documents\]'"):
        read_document(tmp_path / name)
