"""Sources and cases from the files that people have."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from datetime import datetime, time
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import pytest
from hypothesis import given
from hypothesis import strategies as st

import veridical
from veridical import Outcome
from veridical.io import documents
from veridical.io.documents import Document, document_of, load_document, read_document
from veridical.io.number_formats import shown
from veridical.io.sources import as_sources
from veridical.records.errors import DataError, MissingExtraError
from veridical.records.spans import Span
from veridical.records.types import Source

TEXTS: dict[str, tuple[str, bytes, str]] = {
    "text is kept as it is": (".txt", "\ufeff  One\r\n\ttwo é \n".encode(), "  One\r\n\ttwo é \n"),
    "UTF-16 by its mark": (".txt", "Grüße".encode("utf-16"), "Grüße"),
}
PAGES = {
    "lines": (
        "<html><head><title>T</title><style>p{}</style></head><body><h1>Head\n line</h1><p>One <b>bold</b> word.<br>"
        "Next</p><script>alert(1)</script><ul><li>a</li><li>b &amp; c</li></ul></body></html>",
        "Head line\n\nOne bold word.\nNext\n\n  * a\n  * b & c",
    ),
    "a table row is a line": ("<table><tr><th>Year<th>Sold<tr><td>2019<td>3 m</table>", "Year\tSold\n2019\t3 m"),
    "a table row with line breaks is a line": (
        "<table><tr><td>a<br>b<p>c</p>d<td><ul><li>1<li>2</ul><tr><td>e<td>un<b>believ</b>able</table>",
        "a b c d\t1 2\ne\tunbelievable",
    ),
    "a table for layout keeps its lines": (
        f"<table><tr><td><div>One.</div><div>Two {'long ' * 50}.</div></table>",
        f"One.\nTwo {'long ' * 50}.",
    ),
    "what a reader does not see": (
        "<p>A</p><noscript>on</noscript><template><p>t</p></template><p style='display:none'>x</p><!-- c --><p>B</p>",
        "A\n\nB",
    ),
    "words of terms and of what can be pressed": (
        "<dl><dt>Price<dd>5 euros<dt>Size<dd>3 m</dl><details><summary>More</summary>Text</details>"
        "<select><option>a<option>b</select><p>x<button>Buy</button><button>Sell</button>y",
        "Price\n5 euros\nSize\n3 m\nMore\nText\na\nb\n\nx Buy Sell y",
    ),
    "deleted text": ("<p>It costs <del>6</del><s>7</s><strike>8</strike> 5 euros.", "It costs 5 euros."),
    "powers and ordinals": (
        "10<sup>6</sup>, 3 × 10<sup>-3</sup>, 25 m<sup>2</sup>, x<sup>n</sup>, the 21<sup>st</sup>",
        "10⁶, 3 × 10⁻³, 25 m², xⁿ, the 21st",
    ),
    "marks of notes": (
        "330<sup>1</sup> m, a tower<sup>2,3</sup> here.<sup>4</sup> So<sup>*</sup> 5<sup><a href='#n'>5</a></sup>",
        "330 m, a tower here. So 5",
    ),
    "preformatted text": ("<pre>a  b\n  c</pre><p>x   y\n z</p>", "a  b\n  c\n\nx y z"),
    "inline marks part no word": ("un<b>believ</b>able, H<sub>2</sub>O &amp;c", "unbelievable, H2O &c"),
    "a page that names its encoding": ('<?xml version="1.0" encoding="latin-1"?><html><p>Grüße</p></html>', "Grüße"),
    "text behind 300 open elements": ("<p>a" + "<span>" * 300 + "deep", "adeep"),
}


def test_html_that_nests_too_deeply_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    path.write_text("<div>" * 20_000 + "x", "utf-8")
    with pytest.raises(DataError, match="nested too deeply"):
        read_document(path)


MARKDOWN = {
    "lines": (
        "# Title\n\nSome *bold* [link](http://x) `code`.\nNext line.\n\n- one\n- two\n\n1. first\n",
        "Title\n\nSome bold link code. Next line.\n\n  * one\n  * two\n 1. first",
    ),
    "a table row is a line": ("| Name | Price |\n|---|---|\n| Ann | 3 |\n| Ben | |", "Name\tPrice\nAnn\t3\nBen"),
    "a block of HTML": ("A\n\n<div>\nB <b>c</b>.\n</div>\n\n<!-- d -->\nE", "A\n\nB c.\n\nE"),
    "a table of HTML": ("<table><tr><td>x</td><td>y</td></tr></table>", "x\ty"),
    "code keeps its lines": ("```py\na = 1\n  b = 2\n```", "a = 1\n  b = 2"),
    "signs stay signs": ("3 < 5 & 7 > 6 \\* `<b>`", "3 < 5 & 7 > 6 * <b>"),
    "the text of an image": ("![A map](map.png)", "[A map]"),
    "deleted text is left out": ("It costs ~~6~~ 5 euros.", "It costs 5 euros."),
    "raised text": ("10<sup>6</sup> cells", "10⁶ cells"),
}


TEXTS |= {f"HTML: {name}": (".html", html.encode(), text) for name, (html, text) in PAGES.items()}
TEXTS |= {f"Markdown: {name}": (".md", markdown.encode(), text) for name, (markdown, text) in MARKDOWN.items()}


@pytest.mark.parametrize("name", TEXTS)
def test_documents_as_a_reader_sees_them(name: str, tmp_path: Path) -> None:
    ending, data, text = TEXTS[name]
    path = tmp_path / f"a{ending}"
    path.write_bytes(data)
    assert read_document(path) == text


TABLE = [("Item", "Oslo", "Bergen"), ("Helmet", "9", "31"), ("Glove", "75", "60")]


@pytest.mark.parametrize("ending", [".md", ".html"])
def test_a_value_of_another_row_is_flagged_in_every_format(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"a{ending}"
    if ending == ".md":
        rows = [f"| {' | '.join(row)} |" for row in TABLE]
        path.write_text("\n".join([rows[0], "|---|---|---|", *rows[1:]]))
    else:
        rows = [f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in TABLE]
        path.write_text(f"<table>{''.join(rows)}</table>")
    assert veridical.check("There are 31 helmets in Oslo.", path).outcome is Outcome.FLAGGED
    assert veridical.check("There are 9 helmets in Oslo.", path).outcome is Outcome.CLEAR


def test_what_is_left_out_of_a_page_is_noted(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    path.write_text("<p>It is 330<sup>1</sup> m tall and costs <del>6</del> 5 euros<sup><a href='#n2'>2</a></sup>.</p>")
    document = load_document(path)
    assert document.text == "It is 330 m tall and costs 5 euros."
    assert document.notes == (
        "a.html: 2 raised marks of notes are left out",
        "a.html: text that is marked as deleted is left out",
    )
    with pytest.warns(UserWarning, match="left out") as warned:
        as_sources(path)
    assert tuple(str(each.message) for each in warned) == document.notes


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
    size = len(objects) + 1
    table = b"xref\n0 %d\n0000000000 65535 f \n" % size + b"".join(b"%010d 00000 n \n" % place for place in places)
    return out + table + b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % (size, len(out))


def lines_of(*lines: str, left: int = 72, top: int = 720) -> str:
    """The content stream of lines, one below the other."""
    placed = " ".join(f"1 0 0 1 {left} {top - 14 * i} Tm ({line}) Tj" for i, line in enumerate(lines))
    return f"BT /F1 10 Tf {placed} ET"


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


def excel_of(book: Any) -> Document:
    data = BytesIO()
    book.save(data)
    return document_of(data.getvalue(), Path("a.xlsx"))


CELLS = [
    (0.25, "0%", "25%"),
    (0.1275, "0.0%", "12.8%"),
    (1234.5, '"$"#,##0.00', "$1,234.50"),
    (1234.5, "[$€-407]#,##0.00", "€1,234.50"),
    (1234.5, '#,##0.00\\ "€"', "1,234.50 €"),
    (-1234.5, '_("$"* #,##0.00_);_("$"* \\(#,##0.00\\);_("$"* "-"??_);_(@_)', "-$1,234.50"),
    (0, '_("$"* #,##0.00_);_("$"* \\(#,##0.00\\);_("$"* "-"??_);_(@_)', "$0.00"),
    (-3, "[Red]-0;0", "-3"),
    (-3, "0;(0)", "-3"),
    (49, "00000", "00049"),
    (0.125, "0.00", "0.13"),
    (3.5, "0.0##", "3.5"),
    (12_300_000, '0.0,,"M"', "12.3M"),
    (1.5e6, "0.00E+00", "1.50E+6"),
    (0.1 + 0.2, "General", "0.3"),
    (2019, "General", "2019"),
    (3.0, "General", "3"),
    (True, "General", "true"),
    (datetime(2024, 3, 5), "d mmmm yyyy", "5 March 2024"),
    (datetime(2024, 3, 5), "mmm-yy", "March 2024"),
    (datetime(2024, 3, 5), "mm-dd-yy", "2024-03-05"),
    (datetime(2024, 3, 5, 14, 30), "dd/mm/yyyy hh:mm", "2024-03-05 14:30"),
    (time(9, 5), "h:mm", "09:05"),
]


def test_cells_of_excel_as_a_person_sees_them() -> None:
    book = pytest.importorskip("openpyxl").Workbook()
    for row, (value, number_format, _) in enumerate(CELLS, 1):
        book.active.cell(row, 1, value).number_format = number_format
        book.active.cell(row, 3, "after an empty column")
    assert excel_of(book).text.split("\n") == [f"{text}\t\tafter an empty column" for _, _, text in CELLS]


def test_sheets_of_excel_have_their_names_and_hidden_ones_are_left_out_with_a_note() -> None:
    book = pytest.importorskip("openpyxl").Workbook()
    book.active.title = "Draft"
    book.active.sheet_state = "hidden"
    for title, cell in (("Prices 2024", "40 euros"), ("Stock", "12")):
        book.create_sheet(title).append(["Chair", cell])
    book.worksheets[0].append(["Chair", "90 euros"])
    book.active = 1
    document = excel_of(book)
    assert document.text == "Prices 2024\n\nChair\t40 euros\n\n\nStock\n\nChair\t12"
    assert document.notes == ("a.xlsx: the hidden sheet 'Draft' is left out",)


def test_hidden_rows_and_columns_and_formulas_without_a_value_of_excel_are_named() -> None:
    book = pytest.importorskip("openpyxl").Workbook()
    for row in (["Item", "Cost", "Price"], ["Chair", 20, 40], ["Draft", 1, 2], ["Total", "=SUM(B2)", "=SUM(C2)"]):
        book.active.append(row)
    book.active.row_dimensions[3].hidden = True
    book.active.column_dimensions["B"].hidden = True
    document = excel_of(book)
    assert document.text == "Item\tPrice\nChair\t40\nTotal"
    assert document.notes == (
        "a.xlsx, sheet 'Sheet': 1 hidden row, left out",
        "a.xlsx, sheet 'Sheet': 1 hidden column, left out",
        "a.xlsx, sheet 'Sheet': no stored value of the formulas in B4, C4",
    )


@given(st.text('0#?.,%;"\\\\[]$€-_*()E+/ dmy@', max_size=30), st.floats(allow_nan=False, allow_infinity=False))
def test_any_format_of_a_number_gives_a_text(number_format: str, value: float) -> None:
    assert shown(value, number_format) is not None
    assert shown(value, f"0.{'0' * 200}") is not None
    assert shown(value, "0.00%%%%") is not None


def expanded(data: bytes, part: str, element: bytes, times: int) -> bytes:
    """An office file in which the first `element` of a part comes many times."""
    packed = BytesIO()
    with ZipFile(BytesIO(data)) as file, ZipFile(packed, "w", ZIP_DEFLATED) as written:
        for name in file.namelist():
            text = file.read(name)
            if name == part:
                first = re.search(rb"<%b[ >].*?</%b>" % (element, element), text, re.DOTALL)
                assert first is not None
                text = text.replace(first[0], re.sub(rb' r="[^"]*"', b"", first[0]) * times, 1)
            written.writestr(name, text)
    return packed.getvalue()


def bombs() -> dict[str, bytes]:
    """Small office files of millions of characters, by file name."""
    docx, openpyxl = pytest.importorskip("docx"), pytest.importorskip("openpyxl")
    word, book = docx.Document(), openpyxl.Workbook(write_only=True)  # names no size of the sheet
    word.add_paragraph("a" * 1000)
    book.create_sheet().append(["a" * 32_000])
    plain = [BytesIO(), BytesIO()]
    word.save(plain[0])
    book.save(plain[1])
    return {
        "a.docx": expanded(plain[0].getvalue(), "word/document.xml", b"w:p", 5000),
        "a.xlsx": expanded(plain[1].getvalue(), "xl/worksheets/sheet1.xml", b"row", 150),
    }


@pytest.mark.parametrize("name", ["a.docx", "a.xlsx"])
def test_parts_that_are_huge_or_have_one_name_are_not_unpacked(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = BytesIO(bombs()[name])
    with ZipFile(data, "a") as parts, pytest.warns(UserWarning, match="Duplicate name"):
        parts.writestr(parts.namelist()[-1], b"")
    with pytest.raises(DataError, match=r"two of its parts have the same name \(open it and save it again\)"):
        document_of(data.getvalue(), Path(name))
    monkeypatch.setattr(documents, "_MOST_GROWTH", 1_000_000)
    with pytest.raises(DataError, match=r"bytes in its parts \(split it, or save it as text\)"):
        document_of(data.getvalue(), Path(name))


def test_the_text_of_a_small_file_is_counted_while_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = 0
    counted = documents._counted

    def counting(texts: Iterable[str], path: Path, most: int) -> Iterator[str]:
        nonlocal seen
        for text in counted(texts, path, most):
            seen += len(text)
            yield text

    monkeypatch.setattr(documents, "_counted", counting)
    for name, data in bombs().items():
        assert len(data) < 500_000
        with pytest.raises(DataError, match=r"more than 70,000 characters of text \(split it\)"):
            document_of(data, Path(name), max_characters=70_000)
    assert seen <= 2 * 70_000
    for name in ("a.txt", "a.md", "a.html"):
        with pytest.raises(DataError, match="more than 9 characters"):
            document_of(b"It rains. It snows.", Path(name), max_characters=9)
    with pytest.raises(DataError, match="more than 9 characters"):
        document_of(pdf_of("It rains. It snows."), Path("a.pdf"), max_characters=9)


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


LIBRARIES = {".pdf": "pypdfium2", ".docx": "docx", ".xlsx": "openpyxl", ".html": "inscriptis", ".md": "markdown_it"}


@pytest.mark.parametrize("ending", LIBRARIES)
def test_a_missing_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch, ending: str) -> None:
    monkeypatch.setitem(sys.modules, LIBRARIES[ending], None)
    with pytest.raises(MissingExtraError, match=r"pip install 'veridical\[documents\]'"):
        document_of(b"text", Path(f"a{ending}"))
