"""Word files as a person sees them once all changes are accepted; what is not read is noted."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import pytest

import veridical
from tests.server.services import client_of
from veridical.cli import main
from veridical.io.documents import Document, document_of
from veridical.records.errors import DataError

pytest.importorskip("docx")

OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006"
WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
SPACES = (
    f'xmlns:w="{WORD}" xmlns:m="{OFFICE}/math" xmlns:r="{OFFICE}/relationships" '
    'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" xmlns:v="urn:schemas-microsoft-com:vml"'
)
TYPES = "http://schemas.openxmlformats.org/package/2006/content-types"
RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"
PARTS = {"footnotes": "footnotes", "endnotes": "endnotes", "header": "hdr", "footer": "ftr"}


def word_file(body: str, **parts: str) -> bytes:
    """A Word file with this body, and with parts of these kinds; all are raw XML."""
    kind = "application/vnd.openxmlformats-officedocument.wordprocessingml"
    names = "".join(f'<Override PartName="/word/{name}.xml" ContentType="{kind}.{name}+xml"/>' for name in parts)
    links = "".join(
        f'<Relationship Id="r{i}" Type="{OFFICE}/relationships/{name}" Target="{name}.xml"/>'
        for i, name in enumerate(parts)
    )
    files = {
        "[Content_Types].xml": f'<Types xmlns="{TYPES}"><Default Extension="rels" '
        'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Override PartName="/word/document.xml" ContentType="{kind}.document.main+xml"/>{names}</Types>',
        "_rels/.rels": f'<Relationships xmlns="{RELATIONS}"><Relationship Id="r" '
        f'Type="{OFFICE}/relationships/officeDocument" Target="word/document.xml"/></Relationships>',
        "word/_rels/document.xml.rels": f'<Relationships xmlns="{RELATIONS}">{links}</Relationships>',
        "word/document.xml": f"<w:document {SPACES}><w:body>{body}</w:body></w:document>",
    }
    for name, text in parts.items():
        files[f"word/{name}.xml"] = f"<w:{PARTS[name]} {SPACES}>{text}</w:{PARTS[name]}>"
    packed = BytesIO()
    with ZipFile(packed, "w") as file:
        for name, text in files.items():
            file.writestr(name, text)
    return packed.getvalue()


def read(body: str, **parts: str) -> Document:
    return document_of(word_file(body, **parts), Path("a.docx"))


def run(text: str, properties: str = "") -> str:
    return f'<w:r><w:rPr>{properties}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'


def paragraph(*runs: str) -> str:
    return f"<w:p>{''.join(each if each.startswith('<') else run(each) for each in runs)}</w:p>"


def table(*rows: tuple[str, ...]) -> str:
    lines = (
        "".join(each if each.startswith("<w:tc>") else f"<w:tc>{paragraph(each)}</w:tc>" for each in row)
        for row in rows
    )
    return f"<w:tbl>{''.join(f'<w:tr>{line}</w:tr>' for line in lines)}</w:tbl>"


RAISED = '<w:vertAlign w:val="superscript"/>'
FORTY = run("40")
BOX = f"<w:txbxContent>{paragraph('In a box.')}</w:txbxContent>"
IN_PLACE = {
    "inserted": f"<w:ins>{FORTY}</w:ins>",
    "inserted beside deleted": "<w:del><w:r><w:delText>30</w:delText></w:r></w:del>" + f"<w:ins>{FORTY}</w:ins>",
    "moved here": f"<w:moveTo>{FORTY}</w:moveTo>",
    "a content control": f"<w:sdt><w:sdtPr><w:alias/></w:sdtPr><w:sdtContent>{FORTY}</w:sdtContent></w:sdt>",
    "a simple field": f'<w:fldSimple w:instr="REF x">{FORTY}</w:fldSimple>',
    "a field": '<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText>REF x</w:instrText></w:r>'
    f'<w:r><w:fldChar w:fldCharType="separate"/></w:r>{FORTY}<w:r><w:fldChar w:fldCharType="end"/></w:r>',
    "a smart tag": f"<w:smartTag>{FORTY}</w:smartTag>",
    "a link": f"<w:hyperlink>{FORTY}</w:hyperlink>",
    "custom XML": f"<w:customXml>{FORTY}</w:customXml>",
    "several layers": f"<w:ins><w:smartTag><w:hyperlink>{FORTY}</w:hyperlink></w:smartTag></w:ins>",
    "an equation": "<m:oMathPara><m:oMath><m:r><m:t>40</m:t></m:r></m:oMath></m:oMathPara>",
    "two forms": f"<mc:AlternateContent><mc:Choice>{FORTY}</mc:Choice><mc:Fallback>{FORTY}</mc:Fallback>"
    "</mc:AlternateContent>",
}


@pytest.mark.parametrize("form", IN_PLACE)
def test_text_is_read_in_its_place(form: str) -> None:
    document = read(paragraph("The monthly fee is ", IN_PLACE[form], " euros."))
    assert document.text == "The monthly fee is 40 euros.\n"


def test_what_is_not_read_is_noted_at_every_door(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    deleted = "<w:del><w:r><w:delText>30</w:delText></w:r></w:del>"
    moved = f"<w:moveFrom>{FORTY}</w:moveFrom>"
    others = "<w:r><w:drawing/></w:r><w:r><w:object/></w:r><w:r><w:commentReference/></w:r>" + run(
        "secret", "<w:vanish/>"
    )
    body = paragraph("It is red.", deleted, moved, others, '<w:r><w:sym w:font="Wingdings" w:char="F04A"/></w:r>')
    (tmp_path / "a.docx").write_bytes(word_file(body))
    notes = read(body).notes
    assert read(body).text == "It is red.\n"
    assert notes == (
        "a.docx: 1 pieces of deleted text, left out",
        "a.docx: 1 pieces of moved text, read where they are now",
        "a.docx: 1 pictures, not read",
        "a.docx: 1 embedded objects, not read",
        "a.docx: 1 comments, left out",
        "a.docx: 1 pieces of hidden text, left out",
        "a.docx: 1 symbols of special fonts, not read",
    )
    with pytest.warns(UserWarning, match="a.docx: 1 "):
        veridical.check("It is red.", tmp_path / "a.docx", detector="overlap")
    (tmp_path / "r.txt").write_text("It is red.")
    assert main(["check", str(tmp_path / "r.txt"), str(tmp_path / "a.docx"), "-d", "overlap"]) == 0
    told = capsys.readouterr().err
    assert all(note in told for note in notes)
    with client_of("overlap") as client:
        answer = client.post("/v1/documents", files={"file": ("a.docx", word_file(body))}).json()
    assert (answer["text"], tuple(answer["notes"])) == ("It is red.\n", notes)


def test_boxes_and_notes_follow_their_paragraph() -> None:
    forms = f"<mc:Choice><w:drawing>{BOX}</w:drawing></mc:Choice><mc:Fallback><w:pict>{BOX}</w:pict></mc:Fallback>"
    box = f"<w:r><mc:AlternateContent>{forms}</mc:AlternateContent></w:r>"
    marks = '<w:r><w:footnoteReference w:id="2"/></w:r><w:r><w:endnoteReference w:id="2"/></w:r>'
    document = read(
        paragraph("It costs 5", marks, " euros.", box) + paragraph("It fell."),
        footnotes=f'<w:footnote w:id="2">{paragraph("Since May.")}</w:footnote>',
        endnotes=f'<w:endnote w:id="2">{paragraph("In Oslo.", marks)}</w:endnote>',
        header=paragraph("Price list 2024"),
        footer=paragraph("Page 1"),
    )
    lines = ["Price list 2024", "It costs 5 euros.", "Since May.", "In Oslo.", "In a box.", "It fell.", "Page 1"]
    assert document.text.split("\n\n") == [*lines[:-1], "Page 1\n"]
    assert document.notes == ()


def test_tables_in_cells_and_merged_cells_keep_their_rows() -> None:
    inner = f"<w:tc>{table(('a', 'b'), ('c', 'd'))}{paragraph('e')}</w:tc>"
    top = f'<w:tc><w:tcPr><w:vMerge w:val="restart"/></w:tcPr>{paragraph("Oslo")}</w:tc>'
    below = f"<w:tc><w:tcPr><w:vMerge/></w:tcPr>{paragraph()}</w:tc>"
    gone = f"<w:tr><w:trPr><w:del/></w:trPr><w:tc>{paragraph('gone')}</w:tc></w:tr>"
    last = f"<w:tr><w:tc>{paragraph('x')}</w:tc><w:tc>{paragraph('y')}</w:tc></w:tr>"
    controlled = f"<w:sdt><w:sdtContent>{last}</w:sdtContent></w:sdt>"
    body = table((top, "9"), (below, "31"), (inner, "f")).removesuffix("</w:tbl>") + gone + controlled + "</w:tbl>"
    assert read(body).text == "Oslo\t9\nOslo\t31\na b c d e\tf\nx\ty\n"


def test_raised_text_and_symbols() -> None:
    runs = ("It has 10", run("6", RAISED), " cells, 330", run("1", RAISED), " m, 25 m", run("2", RAISED), " and ")
    document = read(paragraph(*runs, '<w:r><w:sym w:font="Wingdings" w:char="F0FC"/></w:r>'))
    assert document.text == "It has 10⁶ cells, 330 m, 25 m² and ✓\n"
    assert document.notes == ("a.docx: 1 raised marks of notes, left out",)


def test_equations_are_read_in_one_line() -> None:
    def part(name: str, text: str) -> str:
        return f"<m:{name}><m:r><m:t>{text}</m:t></m:r></m:{name}>"

    fraction = f"<m:f>{part('num', 'a+b')}{part('den', '2')}</m:f>"
    power = f"<m:sSup>{part('e', 'r')}{part('sup', '2')}</m:sSup>"
    root = f"<m:rad>{part('e', 'x')}</m:rad>"
    assert read(paragraph(f"<m:oMath>{fraction}{power}{root}</m:oMath>")).text == "(a+b)/2r^2√x\n"


def test_a_file_that_nests_too_deeply_is_refused() -> None:
    with pytest.raises(DataError, match="not a readable Word file"):
        read("<w:sdt><w:sdtContent>" * 5000 + paragraph("x") + "</w:sdtContent></w:sdt>" * 5000)
