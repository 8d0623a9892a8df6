"""Words and sentences of any text as character spans. Rules, not models; never fails, never changes the text.

Scripts written without spaces (Han, kana, Thai, Lao, Khmer, Myanmar) give one word a character, with its combining
marks. Sentences end at final punctuation, at blank lines and before list items; a single line break does not end one.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import cache

from veridical.core.spans import Span

__all__ = ["sentences", "words"]

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\U00020000-\U0003134f"
)
_ASCII_WORD = re.compile(r"[0-9]+(?:[.,][0-9]+)*[A-Za-z0-9]*(?:'[A-Za-z]+)?|[A-Za-z][A-Za-z0-9]*(?:'[A-Za-z0-9]+)*")


@cache
def marks() -> str:
    """All combining marks as the inside of a regular-expression class (computed once, when first needed)."""
    ranges: list[list[int]] = []
    for code in range(0x300, min(0xE0200, sys.maxunicode)):
        if code == 0x20000:
            break
        if unicodedata.category(chr(code))[0] == "M":
            if ranges and ranges[-1][1] == code - 1:
                ranges[-1][1] = code
            else:
                ranges.append([code, code])
    ranges.append([0xE0100, 0xE01EF])  # variation selectors
    return "".join(f"{chr(a)}-{chr(b)}" if b > a else chr(a) for a, b in ranges)


@cache
def _word_pattern() -> re.Pattern[str]:
    mark = f"[{marks()}\u200c\u200d]"
    letter = rf"(?:[^\W_{_UNSPACED}]{mark}*)"
    joined = rf"{letter}+(?:['’]{letter}+)*"
    number = rf"\d+(?:[.,]\d+)*{letter}*(?:['’]{letter}+)?"
    return re.compile(rf"{number}|{joined}|[{_UNSPACED}]{mark}*")


def words(text: str) -> list[Span]:
    """The words of `text`, in order: runs of letters, digits and marks, with inner apostrophes and number signs.

    Punctuation, symbols, emoji and underscores stand between words.

    >>> [s.of("Don't pay 1,200.50 to O'Neil.") for s in words("Don't pay 1,200.50 to O'Neil.")]
    ["Don't", 'pay', '1,200.50', 'to', "O'Neil"]
    """
    pattern = _ASCII_WORD if text.isascii() else _word_pattern()
    return [Span(*match.span()) for match in pattern.finditer(text)]


# A full stop after one of these does not end a sentence …
_TITLES = frozenset(
    "adm asst brig capt cdr cmdr col cpl dr drs ens fr gen gov hon lt maj messrs mlle mme mr mrs ms mx pres prof "
    "rep rev sen sgt sr st supt".split()
)
_NEVER = _TITLES | frozenset("al approx bzw ca cf ed eds e.g eg esp fig figs i.e ie resp viz vol vols vs z.b".split())
# … after one of these only where the next word can only open a sentence, …
_MAYBE = frozenset(
    "a.m p.m am pm co corp dept est etc inc jr ltd u.s u.k u.n e.u d.c ph.d b.a m.a m.d jan feb mar apr jun jul aug "
    "sept sep oct nov dec mon tue tues wed thu thur thurs fri sat sun ave blvd rd hwy bros mt".split()
)
# … and after one of these never before a number.
_BEFORE_NUMBER = frozenset("no nos nr art sec ch chap p pp para pt eq tab ref refs".split())
_OPENERS = frozenset(
    "a after all although an and another as at because before both but by during each even every few for from he her "
    "here his how however i if in it its many meanwhile more most my no not now of on once one only or other our she "
    "since so some such that the their then there these they this those though to two under until we what when "
    "where which while who why with you your".split()
)

_END = re.compile(
    r"""(?P<stop>[.!?\u2026\u203c\u2047-\u2049\u0964\u0965\u06d4\u061f\u1362\u1367]+["'”’»)\]]*)(?=\s|$)"""
    r"""|(?P<wide>[\u3002\uff01\uff1f\uff61]+[”’」』）"']*)"""
    r"""|(?P<break>\r?\n[^\S\n]*(?:\r?\n\s*)+|[\u2029\f\v]|\r(?!\n)\s*)"""
    r"""|(?P<item>\r?\n(?=[^\S\n]*(?:[-*+•‣▪–—]|\(?[0-9]{1,3}[.)]|\(?[A-Za-z][)])[^\S\n]+\S))"""
)
_LAST_WORD = re.compile(r"""(?:[^\W_]|\.(?=[^\W_]))+$""")
_NEXT_WORD = re.compile(r"""\s*["'“‘«(\[]*(?P<word>[^\W_]+)?""")
_LIST_MARK = re.compile(r"""\s*\(?(?:[0-9]{1,3}|[A-Za-z])$""")


def sentences(text: str) -> list[Span]:
    """The sentences of `text`, in order, without the white space around them; together they hold every other character.

    A heading or list item is a sentence of its own; a text with no final stop ends at its end.

    >>> text = "Dr. Smith paid approx. 3.5 million. Did it help? Yes"
    >>> [s.of(text) for s in sentences(text)]
    ['Dr. Smith paid approx. 3.5 million.', 'Did it help?', 'Yes']
    """
    found: list[Span] = []
    start = 0
    for match in _END.finditer(text):
        if match["stop"] is not None and not _ends_sentence(text, start, match):
            continue
        # a list item's line break lies between two sentences, all other ends belong to the first
        _add(found, text, start, match.end())
        start = match.end()
    _add(found, text, start, len(text))
    return found


def _add(found: list[Span], text: str, start: int, end: int) -> None:
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    if start < end:
        found.append(Span(start, end))


def _ends_sentence(text: str, start: int, match: re.Match[str]) -> bool:
    """Whether the stop found by `match` ends the sentence that began at `start`."""
    following = _NEXT_WORD.match(text, match.end())
    word = following["word"] if following else None
    if word is not None and word[0].islower():
        return False
    if not match["stop"].startswith(".") or match["stop"].startswith(".."):
        return True
    at = match.start("stop")
    line = max(text.rfind("\n", start, at) + 1, start)
    if at - line <= 6 and _LIST_MARK.match(text[line:at]):
        return False
    last = _LAST_WORD.search(text, max(start, at - 24), at)
    if last is None or word is None:
        return True
    before = last[0].lower()
    if before in _NEVER or (len(before) == 1 and last[0].isupper() and last[0] != "I"):
        return False
    if before in _BEFORE_NUMBER:
        return not word[0].isdigit()
    if before in _MAYBE or re.fullmatch(r"(?:[a-z]\.)+[a-z]", before):
        return word.lower() in _OPENERS
    return True
