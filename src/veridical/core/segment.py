"""Words and sentences of any text as character spans. Rules, not models; linear; never fails or changes the text.

Scripts written without spaces (Han, kana, Thai, Lao, Khmer, Myanmar) are split into one word per character, with its
combining marks. Sentences end at final punctuation; at blank lines, page breaks and paragraph separators; after a
heading line (Markdown's `#`, a line all in bold, a rule, a line that ends in a colon); and before a list item or table
row. Any other single line break is soft: it is white space, and a list item goes on over it until the next item or
blank line. Thai, Lao and others that mark no sentence end are cut at breaks only.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache

from veridical.core.spans import Span
from veridical.core.vocabulary import MONTHS, WEEKDAYS

__all__ = ["has_words", "sentences", "word_forms", "words"]

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003134f"
)
_ASCII_WORD = re.compile(
    r"[0-9]+(?:[.,][0-9]+)*[A-Za-z0-9]*(?:'[A-Za-z][A-Za-z0-9]*)?|[A-Za-z][A-Za-z0-9]*(?:'[A-Za-z0-9]+)*"
)


@cache
def marks() -> str:
    """All combining marks as the inside of a regular-expression class (computed once, when first needed)."""
    ranges: list[list[int]] = []
    for code in range(0x300, 0x20000):
        if unicodedata.category(chr(code))[0] == "M":
            if ranges and ranges[-1][1] == code - 1:
                ranges[-1][1] = code
            else:
                ranges.append([code, code])
    ranges.append([0xE0100, 0xE01EF])  # variation selectors
    return "".join(f"{chr(a)}-{chr(b)}" if b > a else chr(a) for a, b in ranges)


# what may be a mark, or of a script without spaces, or joined to either
_BEYOND_LATIN = re.compile("[^\x00-\u02ff\u2000-\u200b\u200e-\u20cf\u2100-\u214f\u2190-\u2bff]")
_QUICK = rf"(?>{_ASCII_WORD.pattern})(?!['.,]?[^\x00-\x7f])"  # most words of any text; nothing that could go on


@cache
def _word_pattern(marked: bool = True) -> re.Pattern[str]:
    """The same words as `_ASCII_WORD` where the text is ASCII, so that one accent far away changes nothing.

    Without combining marks and scripts without spaces (`marked`) it takes no table of them.
    """
    mark = f"[{marks()}\u200c\u200d]" if marked else ""
    letter = rf"(?:[^\W_{_UNSPACED}]{mark}*)" if marked else r"[^\W_]"
    joined = rf"{letter}+(?:['’]{letter}+)*"
    number = rf"\d+(?:[.,]\d+)*{letter}*(?:['’](?!\d){letter}+)?"
    unspaced = rf"|(?=[^\W_])[{_UNSPACED}]{mark}*" if marked else ""
    return re.compile(f"{_QUICK}|{number}|{joined}{unspaced}")


def _pattern_for(text: str) -> re.Pattern[str]:
    return _ASCII_WORD if text.isascii() else _word_pattern(_BEYOND_LATIN.search(text) is not None)


def words(text: str) -> list[Span]:
    """The words of `text`, in order: runs of letters, digits and marks, with inner apostrophes and number signs.

    Punctuation, symbols, emoji and underscores stand between words.

    >>> [s.of("Don't pay 1,200.50 to O'Neil.") for s in words("Don't pay 1,200.50 to O'Neil.")]
    ["Don't", 'pay', '1,200.50', 'to', "O'Neil"]
    """
    return [Span(*match.span()) for match in _pattern_for(text).finditer(text)]


def word_forms(text: str) -> list[str]:
    """The same words as texts: for a long text, where nobody asks where they are, several times faster.

    >>> word_forms("Don't pay 1,200.50 to O'Neil.")
    ["Don't", 'pay', '1,200.50', 'to', "O'Neil"]
    """
    return _pattern_for(text).findall(text)


def has_words(text: str) -> bool:
    """Whether `words(text)` finds any, without reading further than the first.

    >>> has_words("… _ 7"), has_words("…!")
    (True, False)
    """
    return _LETTER.search(text) is not None


_LETTER = re.compile(r"[^\W_]")


def _set(names: str) -> frozenset[str]:
    return frozenset(names.split())


# A full stop after one of these does not end a sentence. A capital here counts only with that capital ("Gen. Lee").
_NEVER = _set(
    "Adm Brig Capt Cdr Cmdr Col Cpl Dr Drs Ens Fr Gen Gov Hon Lt Maj Messrs Mlle Mme Mr Mrs Ms Mx Pres Prof Rep Rev "
    "Sen Sgt Supt approx bzw ca cf dr e.g eds eg esp i.e ie mr mrs ms prof resp viz vs z.b"
)
# … after one of these only before a word that opens a sentence and hardly a name, …
_MAYBE = _set(
    "al b.a co corp d.c dept e.u inc jr ltd m.a m.d ph.d u.k u.n u.s Apr Asst Aug Ave Blvd Bros Dec Est Feb Fri Hwy "
    "Jan Jr Jul Jun Mar Mon Mt Nov Oct Rd Sat Sep Sept Sr St Sun Thu Thur Thurs Tue Tues Wed ed"
)
# … after one of these not before a number, …
_BEFORE_NUMBER = _set("art ch chap eq eqs fig figs no nos nr p para pp pt ref refs rs sec sect tab v vol vols")
# … and after a time of day not before these.
_CLOCK = frozenset(WEEKDAYS) | _set(
    "mon tue tues wed thu thurs fri sat sun eastern central mountain pacific local est edt cst cdt mst mdt pst pdt et "
    "ct mt pt gmt utc bst cet cest ist jst"
)
_MONTHS = frozenset(MONTHS) | _set("januar februar märz mai juni juli oktober dezember")
_OPENERS = _set(
    "a after all although an and another as at because before both but by despite during each even every few finally "
    "first for from furthermore he her here his how however i if in instead it its later many meanwhile moreover more "
    "most my no not now of on once one only or other our overall second she since so some such that the their then "
    "there therefore these they this those though thus to today two under until we what when where whether which "
    "while who why with yet you your"
)

_EMOJI = "\u2600-\u27bf\u2b50\u2b55\ufe0f\u200d\U0001f000-\U0001faff"
_STOPS = ".!?\u2026\u203c\u2047-\u2049"
_WIDE = "\u3002\uff01\uff1f\uff61\uff0e\u0589\u061f\u06d4\u0964\u0965\u104b\u1362\u1367\u17d4"
_CLOSING = "\"'“”‘’«»‹›)\\]}*_`"
# Each run of stops is tried once, from its first character, and never given back: what keeps "....…" linear.
_END = re.compile(
    rf"(?<![{_STOPS}])(?P<stop>[{_STOPS}]++)"
    rf"(?P<closing>[{_CLOSING}]*+(?:[ \u00a0\u202f]»)?(?:\[[0-9]{{1,3}}(?:[,;–-] ?[0-9]{{1,3}}){{0,9}}\]){{0,9}})"
    rf"(?=\s|$)(?:[^\S\r\n]?[{_EMOJI}]++(?=\s|$))?"
    rf"|(?<![{_WIDE}])(?P<wide>[{_WIDE}]++)(?P<shut>[{_CLOSING}」』）】》〉］]*+)"
)
_LAST_WORD = re.compile(r"(?:[^\W_]|\.(?=[^\W_]))+$")
_NEXT_WORD = re.compile(r"\s*(?P<sign>[^\w\s]*)_*(?P<word>[^\W_]*)")
_NAME_BEFORE = re.compile(r"\b[A-Z]\. ?[^\W\d_]{2,}(?:[-'’][^\W\d_]+)?(?:,|,? and|,? &)\s+$")  # "E. Sazhenova and "
_ACRONYM = re.compile(r"(?:[^\W\d_]\.)+[^\W\d_]")
_ROMAN = re.compile(r"[IVXLC]+")
_MARK = re.compile(r"[(*_#>|\s-]*(?:[0-9]{1,3}|[^\W\d_]|[ivxIVX]{1,5})")
_INLINE_MARK = re.compile(r"[:;]\s*\(?[0-9]{1,2}$")

_HARD_ENDS = ("\v", "\f", "\x1c", "\x1d", "\x1e", "\u2029")
_ITEM = re.compile(
    rf"\s*+(?:(?:[-*+•‣▪◦●○■–—]|[{_EMOJI}]++|\(?[0-9]{{1,3}}[.)]|\[[0-9]{{1,3}}\]|[a-z]\.|\(?[A-Za-z]\)"
    rf"|\(?[ivx]{{1,5}}\)|\#{{1,6}})\s+\S|\|)"
)
_HEADING = re.compile(r"\s*+(?:\#{1,6}\s|(?P<bold>\*\*|__)(?:(?!(?P=bold)).)++(?P=bold):?\s*$|[=_*-]{3,}+\s*$)")


def sentences(text: str) -> list[Span]:
    """The sentences of `text`, in order, without the white space around them; together they hold every other character.

    A heading or list item begins a sentence of its own; a text with no final stop ends at its end. Closing quotation
    marks, brackets, reference marks ("[3]") and emoji right after a stop belong to it.

    >>> text = "Dr. Smith paid approx. 3.5 million. Did it help? Yes"
    >>> [s.of(text) for s in sentences(text)]
    ['Dr. Smith paid approx. 3.5 million.', 'Did it help?', 'Yes']
    """
    cased = text != text.lower()
    spans: list[Span] = []
    for first, last in _blocks(text):
        start = first
        for match in _END.finditer(text, first, last):
            if _ends_sentence(text, start, match, last, cased):
                spans.append(Span(start, match.end()))
                start = match.end()
                while start < last and text[start].isspace():
                    start += 1
        if start < last:
            spans.append(Span(start, last))
    return spans


def _blocks(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each stretch of lines that only soft breaks part, trimmed of white space."""
    start = at = 0
    hard = False
    for line in text.splitlines(keepends=True):
        if line.isspace():
            hard = True
        else:
            if at > start and (hard or _ITEM.match(line)):
                yield from _trimmed(text, start, at)
                start = at
            hard = line.endswith(_HARD_ENDS) or line.rstrip().endswith((":", "：")) or _HEADING.match(line) is not None
        at += len(line)
    yield from _trimmed(text, start, at)


def _trimmed(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    part = text[start:end]
    end = start + len(part.rstrip())
    start += len(part) - len(part.lstrip())
    if start < end:
        yield start, end


def _ends_sentence(text: str, start: int, match: re.Match[str], last: int, cased: bool) -> bool:
    """Whether the stop found by `match` ends the sentence that began at `start` of the block that ends at `last`.

    `cased` is whether the text has capitals at all: without any, a small letter may open a sentence.
    """
    if match["wide"] is not None:
        after = text[match.end() : match.end() + 1]
        if after and after in "，、,；：":
            return False
        if match["wide"] == "\uff0e":  # the wide full stop is a decimal point, too
            return not after.isdigit()
        # 「はい。」と言った。 goes on: the quotation is followed by its particle
        return not (match["shut"].endswith(("」", "』")) and "\u3041" <= after <= "\u309f")
    following = _NEXT_WORD.match(text, match.end(), last)
    sign, word = (following["sign"], following["word"]) if following else ("", "")
    stop = match["stop"]
    if sign.startswith(tuple(".!?…,;")):
        return False  # ". . ." or "Yes!" , …
    shouted = "!" in stop or "?" in stop
    if cased and word and word[0].islower() and (not shouted or match["closing"]):
        return False
    if stop != "." or not word:
        return True
    return _full_stop_ends(text, start, match.start(), word, cased)


def _full_stop_ends(text: str, start: int, at: int, word: str, cased: bool) -> bool:
    """Whether the full stop at `at`, before `word`, ends a sentence and no abbreviation or list number."""
    if at - start <= 8 and _MARK.fullmatch(text, start, at):
        return False
    near = max(start, at - 24)
    if _INLINE_MARK.search(text, near, at):
        return False
    last_word = _LAST_WORD.search(text, near, at)
    if last_word is None:
        return True
    before, opens = last_word[0], word.lower() in _OPENERS and (word[0].isupper() or not cased)
    small = before.lower()
    forms = {before, small} if cased else {small, small.capitalize()}
    if forms & _NEVER:
        return False
    if small in ("a.m", "p.m"):
        return (opens or cased) and word.lower() not in _CLOCK and not word[0].isdigit()
    if small in _BEFORE_NUMBER and (word[0].isdigit() or _ROMAN.fullmatch(word)):
        return False
    if small.isdigit() and word.lower() in _MONTHS:
        return False
    initial = len(before) == 1 and before.isalpha() and not (cased and before.islower())
    if before == "I":  # else it is the pronoun, which may well end a sentence
        initial = _NAME_BEFORE.search(text, max(start, at - 48), at - 1) is not None
    if initial or (forms & _MAYBE) or _ACRONYM.fullmatch(before):
        return opens
    return True
