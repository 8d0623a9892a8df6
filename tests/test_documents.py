"""Sources and cases from the files that people have."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from veridical.core.errors import DataError, MissingExtraError
from veridical.documents import read_document


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


def pdf_of(text: str) -> bytes:
    """A one-page PDF, written by hand."""
    stream = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET".encode()
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R "
        b"/Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
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


def test_pdf_gives_its_text(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(pdf_of("The river rose by 3.5 m."))
    assert read_document(path).strip() == "The river rose by 3.5 m."


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("a.txt", b"", "no text in it"),
        ("a.txt", b" \n", "no text in it"),
        ("a.txt", b"\x89PNG\r\n\x1a\n\0\0", "binary data"),
        ("a.txt", "Grüße".encode("latin-1"), "byte 2 is 0xfc"),
        ("a.txt", b"%PDF-1.4 x", "a PDF, not text"),
        ("a.pdf", b"not a pdf", "not a readable PDF"),
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


@pytest.mark.parametrize(("module", "name"), [("pypdf", "a.pdf"), ("inscriptis", "a.html"), ("markdown_it", "a.md")])
def test_a_missing_library_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, name: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    (tmp_path / name).write_text("text")
    with pytest.raises(MissingExtraError, match=r"pip install 'veridical\[documents\]'"):
        read_document(tmp_path / name)
