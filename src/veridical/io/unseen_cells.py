"""Find cells of a sheet that a person does not see: hidden rows and columns, and formulas without a stored value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO
from xml.etree.ElementTree import Element, iterparse

_COLUMNS = 16_384  # most columns of a sheet
_NAMED = 5  # most formulas that a note names


@dataclass(frozen=True, slots=True)
class UnseenCells:
    """The cells of an Excel sheet that a person does not see, so that they are not read as part of the source.

    Attributes:
        rows: The numbers of the hidden rows, from 1.
        columns: The numbers of the hidden columns, from 1.
        formulas: The cells with a formula whose value is not in the file, such as "B3".
    """

    rows: frozenset[int] = frozenset()
    columns: frozenset[int] = frozenset()
    formulas: tuple[str, ...] = ()

    def notes(self) -> Iterator[str]:
        """Yield a remark for the user on each kind of cell that is omitted.

        >>> list(UnseenCells(frozenset({2, 3}), formulas=("B1",)).notes())
        ['2 hidden rows, left out', 'no stored value of the formula in B1']
        """
        for count, what in ((len(self.rows), "row"), (len(self.columns), "column")):
            if count:
                yield f"{count} hidden {what}{'s' * (count > 1)}, left out"
        if self.formulas:
            named = ", ".join(self.formulas[:_NAMED]) + (" …" if len(self.formulas) > _NAMED else "")
            yield f"no stored value of the formula{'s' * (len(self.formulas) > 1)} in {named}"


def unseen_cells(sheet: IO[bytes]) -> UnseenCells:
    """Find hidden rows and columns, and formulas without a stored value, in the XML of an Excel sheet.

    The XML is parsed as a stream.
    """
    rows: set[int] = set()
    columns: set[int] = set()
    formulas: list[str] = []
    data: Element | None = None
    row = 0
    for event, element in iterparse(sheet, events=("start", "end")):
        tag = element.tag.rpartition("}")[2]
        if event == "start":
            data = element if tag == "sheetData" else data
        elif tag == "col" and _is_hidden(element):
            last = min(int(element.get("max", 0)), _COLUMNS)
            columns.update(range(int(element.get("min", 1)), last + 1))
        elif tag == "row":
            row = int(element.get("r", row + 1))
            if _is_hidden(element):
                rows.add(row)
            else:
                formulas += [cell.get("r", "") for cell in element if _lacks_value(cell)]
            if data is not None:
                data.clear()
    return UnseenCells(frozenset(rows), frozenset(columns), tuple(formulas))


def _is_hidden(element: Element) -> bool:
    return element.get("hidden") in ("1", "true")


def _lacks_value(cell: Element) -> bool:
    parts = {part.tag.rpartition("}")[2]: part for part in cell}
    return "f" in parts and ("v" not in parts or not parts["v"].text)
