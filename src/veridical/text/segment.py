"""Split any text into words and sentences, as character spans, by rules that take linear time.

In scripts without spaces (Han, kana, Thai, Lao, Khmer, Myanmar), each character is a word, together with its combining
marks.

A sentence ends at final punctuation, and at a blank line, page break or paragraph separator. It also ends after a
heading line (Markdown's `#`, a line all in bold, a rule, or a line that ends in a colon) and before a list item or
table row. Any other single line break is treated as a space, even inside a list item. Thai, Lao and other scripts that
do not mark the end of a sentence are only cut at breaks.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator
from functools import cache

from veridical.records.spans import Span
from veridical.text.recent import Recent
from veridical.text.vocabulary import MONTHS, WEEKDAYS

UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003134f"
)
"""The characters of scripts without spaces between words, for a character class of a regular expression."""
_ASCII_WORD = re.compile(
    r"[0-9]+(?:[.,][0-9]+)*[A-Za-z0-9]*(?:'[A-Za-z][A-Za-z0-9]*)?|[A-Za-z][A-Za-z0-9]*(?:'[A-Za-z0-9]+)*"
)


@cache
def marks() -> str:
    """Return all combining marks of Unicode, for use inside a character class of a regular expression.

    They are computed on the first call.
    """
    ranges: list[list[int]] = []
    for code in range(0x300, 0x20000):
        if unicodedata.category(chr(code))[0] == "M":
            if ranges and ranges[-1][1] == code - 1:
                ranges[-1][1] = code
            else:
                ranges.append([code, code])
    ranges.append([0xE0100, 0xE01EF])  # variation selectors
    return "".join(f"{chr(a)}-{chr(b)}" if b > a else chr(a) for a, b in ranges)


# characters that may be a mark, belong to a script without spaces, or be joined to either
_BEYOND_LATIN = re.compile("[^\x00-\u02ff\u2000-\u200b\u200e-\u20cf\u2100-\u214f\u2190-\u2bff]")
_QUICK = rf"(?>{_ASCII_WORD.pattern})(?!['.,]?[^\x00-\x7f])"  # an ASCII word that no other character continues


@cache
def _word_pattern(marked: bool = True) -> re.Pattern[str]:
    """Return the pattern of a word. In ASCII text it finds the same words as `_ASCII_WORD`.

    Set `marked` to False for a shorter pattern if the text has neither combining marks nor scripts without spaces.
    """
    mark = f"[{marks()}\u200c\u200d]" if marked else ""
    letter = rf"(?:[^\W_{UNSPACED}]{mark}*)" if marked else r"[^\W_]"
    joined = rf"{letter}+(?:['’]{letter}+)*"
    number = rf"\d+(?:[.,]\d+)*{letter}*(?:['’](?!\d){letter}+)?"
    unspaced = rf"|(?=[^\W_])[{UNSPACED}]{mark}*" if marked else ""
    return re.compile(f"{_QUICK}|{number}|{joined}{unspaced}")


def _pattern_for(text: str) -> re.Pattern[str]:
    return _ASCII_WORD if text.isascii() else _word_pattern(_BEYOND_LATIN.search(text) is not None)


def words(text: str) -> list[Span]:
    """Find the words of `text`, in order.

    A word consists of letters, digits and combining marks, and may contain apostrophes. The points and commas inside a
    number are part of the number. Other punctuation, symbols, emoji and underscores are not words.

    >>> [s.of("Don't pay 1,200.50 to O'Neil.") for s in words("Don't pay 1,200.50 to O'Neil.")]
    ["Don't", 'pay', '1,200.50', 'to', "O'Neil"]
    """
    return [Span(*match.span()) for match in _pattern_for(text).finditer(text)]


def word_forms(text: str) -> list[str]:
    """Return the words of `text` as strings instead of spans (`words`).

    For a long text, this is several times faster.

    >>> word_forms("Don't pay 1,200.50 to O'Neil.")
    ["Don't", 'pay', '1,200.50', 'to', "O'Neil"]
    """
    return _pattern_for(text).findall(text)


def has_words(text: str) -> bool:
    """Check whether `text` contains a letter or digit, and so a word. The search stops at the first one.

    >>> has_words("… _ 7"), has_words("…!")
    (True, False)
    """
    return _LETTER.search(text) is not None


_LETTER = re.compile(r"[^\W_]")


def _set(names: str) -> frozenset[str]:
    return frozenset(names.split())


# A full stop after one of these does not end a sentence. Those with a capital match only with it ("Gen. Lee").
_NEVER = _set(
    "Adm Brig Capt Cdr Cmdr Col Cpl Dr Drs Ens Fr Gen Gov Hon Lt Maj Messrs Mlle Mme Mr Mrs Ms Mx Pres Prof Rep Rev "
    "Sen Sgt Supt approx bzw ca cf dr e.g eds eg esp i.e ie mr mrs ms prof resp viz vs z.b"
)
# A full stop after one of these ends a sentence only before a word that often opens sentences and is rarely a name.
_MAYBE = _set(
    "al b.a co corp d.c dept e.u inc jr ltd m.a m.d ph.d u.k u.n u.s Apr Asst Aug Ave Blvd Bros Dec Est Feb Fri Hwy "
    "Jan Jr Jul Jun Mar Mon Mt Nov Oct Rd Sat Sep Sept Sr St Sun Thu Thur Thurs Tue Tues Wed ed"
)
# A full stop after one of these does not end a sentence before a number.
_BEFORE_NUMBER = _set("art ch chap eq eqs fig figs no nos nr p para pp pt ref refs rs sec sect tab v vol vols")
# A full stop after "a.m." or "p.m." does not end a sentence before one of these.
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
# Possessive quantifiers try each run of stops once, from its first character, so that "....…" takes linear time.
_END = re.compile(
    rf"(?<![{_STOPS}])(?P<stop>[{_STOPS}]++)"
    rf"(?P<closing>[{_CLOSING}]*+(?:[ \u00a0\u202f]»)?(?:\[[0-9]{{1,3}}(?:[,;–-] ?[0-9]{{1,3}}){{0,9}}\]){{0,9}})"
    rf"(?=\s|$)(?:[^\S\r\n]?[{_EMOJI}]++(?=\s|$))?"
    rf"|(?<![{_WIDE}])(?P<wide>[{_WIDE}]++)(?P<shut>[{_CLOSING}」』）】》〉］]*+)"
)
_NEAR = 24  # characters before a mark that are looked at
_LAST_WORD = re.compile(rf"(?:[^\W_]|\.(?=[^\W_])){{1,{_NEAR}}}$")
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
    """Split `text` into sentences, in order. Together they cover all of the text except the white space around them.

    A heading or list item begins a new sentence, and the last sentence needs no full stop. Closing quotation marks,
    brackets, reference marks ("[3]") and emoji right after a full stop are part of the sentence. The sentences of
    recent texts are cached.

    >>> text = "Dr. Smith paid approx. 3.5 million. Did it help? Yes"
    >>> [s.of(text) for s in sentences(text)]
    ['Dr. Smith paid approx. 3.5 million.', 'Did it help?', 'Yes']
    """
    return list(_cached(text))


def sentence_at(text: str, position: int) -> Span:
    """Return the span of the sentence of a text that contains the character at `position`.

    For white space between two sentences, this is the sentence before it.
    """
    spans = _cached(text)
    i = bisect_right(spans, position, key=lambda sentence: sentence.start) - 1
    return spans[max(i, 0)]


def _cached(text: str) -> list[Span]:
    return _split.get(text, len(text), lambda: _sentences(text))


_split: Recent[str, list[Span]] = Recent(most=1_000_000)  # detectors, explanations and reports read the same texts


def _sentences(text: str) -> list[Span]:
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
    """Find the start and end of each run of lines without a hard break between them, trimmed of white space."""
    start = position = 0
    hard = False
    for line in text.splitlines(keepends=True):
        if line.isspace():
            hard = True
        else:
            if position > start and (hard or _ITEM.match(line)):
                yield from _trimmed(text, start, position)
                start = position
            hard = line.endswith(_HARD_ENDS) or line.rstrip().endswith((":", "：")) or _HEADING.match(line) is not None
        position += len(line)
    yield from _trimmed(text, start, position)


def _trimmed(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    part = text[start:end]
    end = start + len(part.rstrip())
    start += len(part) - len(part.lstrip())
    if start < end:
        yield start, end


def _ends_sentence(text: str, start: int, match: re.Match[str], last: int, cased: bool) -> bool:
    """Check whether the stop in `match` ends the sentence that began at `start`, in a block that ends at `last`.

    `cased` tells whether the text has any capitals. In a text without capitals, a small letter may open a sentence.
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


def _full_stop_ends(text: str, start: int, stop: int, word: str, cased: bool) -> bool:
    """Check whether the full stop at `stop`, before `word`, ends a sentence, not an abbreviation or list number."""
    if stop - start <= 8 and _MARK.fullmatch(text, start, stop):
        return False
    near = max(start, stop - _NEAR)
    if _INLINE_MARK.search(text, near, stop):
        return False
    last_word = _LAST_WORD.search(text, near, stop)
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
    if before == "I":  # an initial only after a name such as "E. Sazhenova and"; the pronoun may end a sentence
        initial = _NAME_BEFORE.search(text, max(start, stop - 48), stop - 1) is not None
    if initial or (forms & _MAYBE) or _ACRONYM.fullmatch(before):
        return opens
    return True
