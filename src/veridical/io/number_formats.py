"""Show the values of spreadsheet cells as people see them, with the percent sign, currency and date of their format.

Dates without a month name are always written as 2024-03-05, because 05/03/2024 can be read in two ways.
"""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache

_PIECE = re.compile(
    r'"(?P<quoted>[^"]*)"?|\\(?P<escaped>.)|\[\$(?P<currency>[^\[\]-]*+)[^\[\]]*+\]|\[[^\[\]]*+\]|_.|\*.'
    r"|(?P<number>[0#?](?:[0#?,.]*[0#?.])?)(?P<scale>,*)(?P<power>[eE][+-]0+)?|(?P<plain>.)",
    re.DOTALL,
)
_LONGEST = 255  # characters of a format, as in Excel
_PLACES = 15
_MOST = Decimal(10) ** 12  # with `_PLACES`, this fits into the digits of a Decimal


def shown(value: object, number_format: str = "General") -> str | None:
    """Return the text that a spreadsheet shows for a cell, or None for an empty cell.

    `value` is the stored value, and `number_format` is Excel's format code of the cell. A negative number is always
    written with a minus sign, even if its format uses brackets.

    >>> [shown(*cell) for cell in ((0.1275, "0.0%"), (1234.5, '"$"#,##0.00'), (-5, "0;(0)"), (2.0, "General"))]
    ['12.8%', '$1,234.50', '-5', '2']
    >>> shown(datetime(2024, 3, 5), "d mmmm yyyy"), shown(datetime(2024, 3, 5, 14, 30), "dd/mm/yy hh:mm")
    ('5 March 2024', '2024-03-05 14:30')
    """
    if value is None or isinstance(value, str):
        return value or None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime | date | time):
        return _date(value, number_format)
    if isinstance(value, int | float) and not isinstance(value, timedelta):
        return _number(value, number_format)
    return str(value)


def _date(value: datetime | date | time, number_format: str) -> str:
    plain = re.sub(r'"[^"]*+"|\[[^\[\]]*+\]|\\.', "", number_format[:_LONGEST]).lower()
    clock = value.time() if isinstance(value, datetime) else value if isinstance(value, time) else None
    shows_clock = clock is not None and (isinstance(value, time) or clock != time() or "h" in plain)
    hours = clock.isoformat("seconds" if clock.second or "s" in plain else "minutes") if clock and shows_clock else ""
    if isinstance(value, time):
        return hours
    has_month_only = "mmm" in plain and "d" not in plain
    if "mmm" not in plain:
        day = value.strftime("%Y-%m-%d")
    else:
        day = f"{value:%B} {value.year}" if has_month_only else f"{value.day} {value:%B} {value.year}"
    return f"{day} {hours}".rstrip()


@lru_cache(maxsize=256)
def _sections(number_format: str) -> tuple[tuple[re.Match[str], ...], ...]:
    """Split a format into sections of pieces. The first is for positive numbers, the second for negative ones."""
    sections: list[list[re.Match[str]]] = [[]]
    for piece in _PIECE.finditer(number_format[:_LONGEST]):
        if piece["plain"] == ";":
            sections.append([])
        else:
            sections[-1].append(piece)
    return tuple(map(tuple, sections))


def _number(value: float, number_format: str) -> str:
    number = Decimal(repr(value))
    sections = _sections(number_format)
    pieces = sections[1] if number < 0 and len(sections) > 1 else sections[0]
    digits = next((piece for piece in pieces if piece["number"]), None)
    if digits is None or "/" in (piece["plain"] for piece in pieces):
        return _general(value)
    percent = sum(piece["plain"] == "%" for piece in pieces)
    scaled = abs(number) * 100**percent / 1000 ** len(digits["scale"])
    if scaled >= _MOST:
        return _general(value)
    texts = [
        _digits(scaled, piece["number"], piece["power"]) if piece is digits else _literal(piece) for piece in pieces
    ]
    text = "".join(texts).strip()
    return f"-{text}" if number < 0 and re.search(r"[1-9]", text) else text


def _literal(piece: re.Match[str]) -> str:
    """Return the text that a piece of a format adds. Brackets and signs add none, because `_number` writes the sign."""
    text = next((text for text in piece.group("quoted", "escaped", "currency", "plain") if text), "")
    return "" if text in ("(", ")", "-", "+") else text


def _digits(number: Decimal, pattern: str, power: str | None) -> str:
    whole, _, fraction = pattern.partition(".")
    places = min(_PLACES, sum(char in "0#?" for char in fraction))
    if power:
        return f"{number:.{places}E}"
    text = f"{number.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP):{',' if ',' in whole else ''}f}"
    least = places - len(fraction.rstrip("#?")) if fraction else 0
    for _ in range(least):
        text = text.removesuffix("0") if "." in text else text
    integer, dot, rest = text.rstrip(".").partition(".")
    return integer.rjust(whole.count("0"), "0") + dot + rest


def _general(value: float) -> str:
    return str(int(value)) if isinstance(value, int) or value.is_integer() else f"{value:.11g}"
