"""Read the text of Word files as people see it after all changes are accepted, with insertions and without deletions.

Headers come first and footers last. Text boxes and notes follow the paragraph that they belong to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from veridical.text.superscripts import raised

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_CHARACTERS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-", "ptab": "\t"}
_SYMBOLS = {0xFC: "✓", 0xFB: "✗", 0xFE: "☑", 0xFD: "☒", 0xA8: "☐", 0xB7: "•", 0xE0: "→"}  # of Wingdings
_UNREAD = {
    "drawing": "pictures, not read",
    "pict": "pictures, not read",
    "object": "embedded objects, not read",
    "altChunk": "embedded documents, not read",
    "commentReference": "comments, left out",
    "del": "pieces of deleted text, left out",
    "moveFrom": "pieces of moved text, read where they are now",
}
_SKIPPED = {
    "instrText",
    "delInstrText",
    "delText",
    "fldData",
    "pPr",
    "rPr",
    "tblPr",
    "tblGrid",
    "trPr",
    "tcPr",
    "sdtPr",
    "rt",
}


class WordText:
    """Extracts the text of a Word document that was opened with python-docx.

    Attributes:
        left_out: How often each kind of content was omitted so far, such as "pictures, not read".
    """

    def __init__(self, document: Any) -> None:
        self.left_out: Counter[str] = Counter()
        self._body = document.element.body
        self._lists = {style.style_id for style in document.styles if (style.name or "").startswith("List")}
        self._parts: dict[str, list[Any]] = {}
        for relation in document.part.rels.values():
            if not relation.is_external:
                self._parts.setdefault(relation.reltype.rpartition("/")[2], []).append(relation.target_part)
        self._notes = {
            (f"{kind}Reference", note.get(f"{_W}id")): note
            for kind in ("footnote", "endnote")
            for root in self._roots(f"{kind}s")
            for note in root
        }

    def blocks(self) -> Iterator[str]:
        """Yield each paragraph, with a line break at its end, and each table row, with tabs between the cells."""
        for header in self._roots("header"):
            yield from self._blocks(header)
        yield from self._blocks(self._body)
        for footer in self._roots("footer"):
            yield from self._blocks(footer)

    def _roots(self, kind: str) -> Iterator[Any]:
        from docx.oxml.parser import parse_xml

        for part in self._parts.get(kind, ()):
            yield parse_xml(part.blob)

    def _blocks(self, container: Any) -> Iterator[str]:
        for element in container:
            name = _name(element)
            if name == "p":
                behind: list[Any] = []
                text = "".join(self._texts(element, behind))
                if text.strip():
                    style = element.find(f"{_W}pPr/{_W}pStyle")
                    is_item = element.find(f"{_W}pPr/{_W}numPr") is not None
                    is_item = is_item or (style is not None and style.get(f"{_W}val") in self._lists)
                    yield f"{'- ' * is_item}{text}\n"
                for box in behind:
                    yield from self._blocks(box)
            elif name == "tbl":
                behind = []
                yield from self._rows(element, behind)
                yield ""
                for box in behind:
                    yield from self._blocks(box)
            elif not self._is_left_out(element):
                yield from self._blocks(_chosen(element))

    def _is_left_out(self, element: Any) -> bool:
        name = _name(element)
        if name in _UNREAD:
            self.left_out[_UNREAD[name]] += 1
        return name in _UNREAD or name in _SKIPPED

    def _rows(self, table: Any, behind: list[Any]) -> Iterator[str]:
        """Yield the rows of a table. The text of a cell that spans several rows is repeated in each of them."""
        above: dict[int, str] = {}
        for row in table.iter(f"{_W}tr"):
            if row.getparent() is not table and next(row.iterancestors(f"{_W}tbl")) is not table:
                continue  # of a table in a cell
            if row.find(f"{_W}trPr/{_W}del") is not None:
                self.left_out[_UNREAD["del"]] += 1
                continue
            texts: list[str] = []
            column = 0
            for cell in row.iter(f"{_W}tc"):
                if next(cell.iterancestors(f"{_W}tr")) is not row:
                    continue
                merged = cell.find(f"{_W}tcPr/{_W}vMerge")
                if merged is None or merged.get(f"{_W}val") == "restart":
                    above[column] = " ".join(" ".join(self._inline_blocks(cell, behind)).split())
                texts.append(above.get(column, ""))
                span = cell.find(f"{_W}tcPr/{_W}gridSpan")
                column += int(span.get(f"{_W}val")) if span is not None else 1
            yield "\t".join(texts)

    def _inline_blocks(self, container: Any, behind: list[Any]) -> Iterator[str]:
        """Yield the texts of the paragraphs and the rows of the tables in a cell."""
        for element in container:
            if _name(element) == "p":
                yield "".join(self._texts(element, behind))
            elif _name(element) == "tbl":
                yield from self._rows(element, behind)
            elif not self._is_left_out(element):
                yield from self._inline_blocks(_chosen(element), behind)

    def _texts(self, container: Any, behind: list[Any], before: str = "") -> Iterator[str]:
        """Yield the pieces of text in a paragraph, and add to `behind` the boxes and notes that follow it."""
        for element in container:
            for text in self._pieces(element, behind, before):
                before = (before + text)[-20:]
                yield text

    def _pieces(self, element: Any, behind: list[Any], before: str) -> Iterator[str]:
        name = _name(element)
        note = self._notes.pop((name, element.get(f"{_W}id")), None)
        if note is not None:
            behind.append(note)
        elif element.tag == f"{_W}t":
            yield element.text or ""
        elif name in _CHARACTERS:
            yield _CHARACTERS[name]
        elif name == "sym":
            yield self._symbol(element)
        elif element.tag == f"{_M}oMath":
            yield _equation(element)
        elif boxes := _boxes(element):
            behind += boxes
        elif name == "r":
            yield from self._run(element, behind, before)
        elif not self._is_left_out(element):
            yield from self._texts(_chosen(element), behind, before)

    def _run(self, run: Any, behind: list[Any], before: str) -> Iterator[str]:
        properties = run.find(f"{_W}rPr")
        if properties is not None and _is_on(properties.find(f"{_W}vanish")):
            self.left_out["pieces of hidden text, left out"] += 1
            return
        position = None if properties is None else properties.find(f"{_W}vertAlign")
        if position is None or position.get(f"{_W}val") != "superscript":
            yield from self._texts(run, behind, before)
            return
        text = "".join(self._texts(run, behind, before))
        plain = raised(before, text)
        self.left_out["raised marks of notes, left out"] += bool(text.strip()) and not plain
        yield plain

    def _symbol(self, element: Any) -> str:
        code = int(element.get(f"{_W}char") or "0", 16)
        if not 0xF000 <= code <= 0xF0FF:
            return chr(code) if 0x20 <= code < 0xD800 else ""
        if code - 0xF000 not in _SYMBOLS:
            self.left_out["symbols of special fonts, not read"] += 1
        return _SYMBOLS.get(code - 0xF000, "")


def _name(element: Any) -> str:
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def _is_on(switch: Any) -> bool:
    return switch is not None and switch.get(f"{_W}val") not in ("0", "false", "off")


def _chosen(element: Any) -> Any:
    """Return the first alternative of an `AlternateContent` element. Return any other element unchanged."""
    return element[0] if _name(element) == "AlternateContent" and len(element) else element


def _boxes(element: Any) -> list[Any]:
    """Return the contents of the text boxes in a drawing."""
    if _name(element) not in ("drawing", "pict", "AlternateContent"):
        return []
    boxes = dict.fromkeys(_chosen(element).iter(f"{_W}txbxContent"))
    return [box for box in boxes if not any(outer in boxes for outer in box.iterancestors(f"{_W}txbxContent"))]


def _equation(element: Any) -> str:
    """Write an equation in one line: fractions with a slash, powers with ^, indices with _, roots with √.

    The parts of a fraction, root or power stand in brackets if they have several characters.
    """
    name = _name(element)
    parts = (
        {_name(child): _equation(child) for child in element} if name in ("f", "sSup", "sSub", "sSubSup", "rad") else {}
    )
    if name == "f":
        return f"{_grouped(parts.get('num', ''))}/{_grouped(parts.get('den', ''))}"
    if name in ("sSup", "sSub", "sSubSup"):
        below = f"_{_grouped(parts['sub'])}" if parts.get("sub") else ""
        above = f"^{_grouped(parts['sup'])}" if parts.get("sup") else ""
        return f"{parts.get('e', '')}{below}{above}"
    if name == "rad":
        return f"{parts.get('deg', '')}√{_grouped(parts.get('e', ''))}"
    if name == "t":
        return element.text or ""
    inner = "".join(map(_equation, element))
    return f"({inner})" if name == "d" else inner


def _grouped(text: str) -> str:
    return text if text.isalnum() else f"({text})"
