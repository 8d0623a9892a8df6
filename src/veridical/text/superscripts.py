"""Distinguish the kinds of superscript text: powers and units (10⁶, m²), ordinals (1st), and note marks (the tower²).

A note mark is a number or symbol that refers to a footnote.
"""

from __future__ import annotations

import re

RAISED_DIGITS = "⁰¹²³⁴⁵⁶⁷⁸⁹"
"""The digits of powers and note marks."""
_RAISED = str.maketrans("0123456789+-−–=()n", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁻⁼⁽⁾ⁿ")
_DIGITS = str.maketrans(RAISED_DIGITS, "0123456789")
_POWER = re.compile(r"[+\-−–]?\d{1,4}|n")
_MARK = re.compile(r"(?:\d{1,3}|[*†‡§¶#]{1,3}|[a-z])(?:\s?[,;–-]\s?(?:\d{1,3}|[*†‡§¶]|[a-z]))*+")
_BASE = re.compile(
    r"(?:(?<![\d.,])(?:10|2)|(?<![^\W\d_])[^\W\d_]{1,3}|[)\]])\Z"
)  # 10, 2, a unit or variable, or brackets


def is_note_mark(before: str, text: str) -> bool:
    """Check whether superscript text is a note mark (a reference to a footnote), not a power or an ending ("1st").

    A number after punctuation, a word or another number is a note mark. After 10, 2, a closing bracket, or a unit or
    variable of at most three letters, the number is a power.

    Args:
        before: The text before the superscript.
        text: The superscript text.

    >>> [is_note_mark(*each) for each in (("It is 330", "1"), ("It has 10", "6"), ("the tower", "2"), ("1", "st"))]
    [True, False, True, False]
    """
    mark = text.strip()
    if not _MARK.fullmatch(mark) or (mark.isalpha() and (mark == "n" or before[-1:].isdigit())):
        return False
    return not (_POWER.fullmatch(mark) and _BASE.search(before[-8:]))


def raised(before: str, text: str) -> str:
    """Convert superscript text to plain text, for example when HTML is converted.

    Powers are written with superscript digits, and note marks (references to footnotes) are removed.

    Args:
        before: The text before the superscript.
        text: The superscript text.

    >>> raised("It has 10", "6"), raised("25 m", "2"), raised("5 s", "-1"), raised("the 21", "st"), raised("330", "1")
    ('⁶', '²', '⁻¹', 'st', '')
    """
    if is_note_mark(before, text):
        return ""
    power = text.strip()
    return power.translate(_RAISED) if _POWER.fullmatch(power) else text


def without_mark(word: str) -> str:
    """Remove the note mark, a superscript reference to a footnote, at the end of a word of plain text.

    A power, as in "m²", is kept.

    >>> without_mark("tower²"), without_mark("330¹"), without_mark("m²"), without_mark("10⁶")
    ('tower', '330', 'm²', '10⁶')
    """
    base = word.rstrip(RAISED_DIGITS)
    return base if base and is_note_mark(base, word[len(base) :].translate(_DIGITS)) else word
