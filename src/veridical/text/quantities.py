"""Parse numbers, dates, times, quantities, money and acronyms as values, so that "1.2 thousand" equals "1,200".

The parser takes lower-case English text and uses regular expressions and tables. It ignores the context of a value,
except that a number in JSON or settings may have its unit at the end of its key ("price_eur": 40).

A value is treated as one word and compared as one, so "1,200" is never found in "1" and "200". Values are compared by
keys, which are canonical forms such as "n:1200", "q:length:5000" (5 km) or "d:2021-5-3". The key of any other word is
its stem. A value *implies* all keys that it supports in another text: "3 may 2021" implies "may 2021", "may" and
"2021", and "5 km" implies the number 5, but not the other way round.

All comparisons of values in the package use `keys` and `implies`. You can find examples in `tests/value_pairs.py`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import cache, lru_cache, partial

from veridical.text.stemmer import stem
from veridical.text.stopwords import STOP_WORDS
from veridical.text.superscripts import RAISED_DIGITS, without_mark
from veridical.text.units import CURRENCIES, CURRENCY_CODES, CURRENCY_SIGNS, KEY_UNITS, UNITS
from veridical.text.vocabulary import MONTHS, SHORT_MONTHS

Value = tuple[tuple[str, ...], tuple[str, ...]]  # (keys, implied): a text supports it if it implies one of the keys

# ---------------------------------------------------------------------------------------------------- tables

_ONES = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
_ONES += "seventeen eighteen nineteen"
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_CARDINAL = {word: i for i, word in enumerate(_ONES.split())}
_CARDINAL |= {word: 10 * i for i, word in enumerate(_TENS.split(), 2)}
_ORDINALS = "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth "
_ORDINALS += "fifteenth sixteenth seventeenth eighteenth nineteenth"
_ORDINAL = {word: i for i, word in enumerate(_ORDINALS.split(), 1)}
_ORDINAL |= {word[:-1] + "ieth": 10 * i for i, word in enumerate(_TENS.split(), 2)}
_MAGNITUDE = {
    "dozen": 12,
    "hundred": 100,
    "k": 1000,
    "thousand": 1000,
    "lakh": 10**5,
    **dict.fromkeys(("m", "mn", "mln", "mio", "million", "millions", "millionen"), 10**6),
    "crore": 10**7,
    **dict.fromkeys(("b", "bn", "mrd", "billion", "billions", "milliarde", "milliarden"), 10**9),
    **dict.fromkeys(("tn", "trillion"), 10**12),
}
_VULGAR = {c: Fraction(unicodedata.numeric(c)).limit_denominator(10) for c in "½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞"}
_PARTS = {"half": 2, "quarter": 4, **{word: n for word, n in _ORDINAL.items() if 3 <= n <= 10}}

# -------------------------------------------------------------------------------------------------- patterns


def _any(words: Iterable[str]) -> str:
    """Build a pattern for any of `words`, the longest first, as a tree of letters, which fails fast.

    A space in a word stands for `_GAP`.
    """
    tails: dict[str, list[str]] = {}
    for word in dict.fromkeys(words):
        tails.setdefault(word[:1], []).append(word[1:])
    heads: dict[str, list[str]] = {}  # the letters before each tail
    for head in sorted(tails.keys() - {"", " "}):
        heads.setdefault(_any(tails[head]), []).append(re.escape(head))
    branches = [(of[0] if len(of) == 1 else f"[{''.join(of)}]") + tail for tail, of in heads.items()]
    branches += [_GAP + _any(tails[" "])] if " " in tails else []
    if not branches:
        return ""
    tree = branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})"
    if "" not in tails:
        return tree
    return f"{tree}?" if len(branches) > 1 or "" in heads else f"(?:{tree})?"


_SP = "[ \t\xa0]"
_GAP = "[ \t\xa0-]"
_END = r"(?![^\W_])"
_MARK = "(?:(?<=[0-9]{2})(?<!10)[⁰¹²³⁴⁵⁶⁷⁸⁹]{1,2})?"  # of a note: "330¹ m" is no power
_HALVES = f"[{''.join(_VULGAR)}]"
_NUM = (
    rf"(?:(?:[0-9]{{1,3}}{_GAP}?)?{_HALVES}|(?:[0-9]{{1,3}}{_GAP})?[1-9]/(?:10|[2-9])|0,[0-9]+"  # 2½, 2 1/2, 0,125
    r"|[1-9][0-9]{0,2}(?:,[0-9]{3})+(?![0-9])(?:\.[0-9]+)?"  # 1,234.5
    r"|[0-9]{1,3}(?:(?:\.[0-9]{3}){2,}(?![0-9])(?:,[0-9]+)?|\.[0-9]{3},[0-9]+)"  # 1.234.567,8
    r"|[0-9]{1,3}(?:['’\xa0][0-9]{3})+(?![0-9])(?:[.,][0-9]+)?"  # 1'234
    r"|(?<![0-9][ \t])[1-9][0-9]{0,2}(?: [0-9]{3})+(?![0-9])(?:[.,][0-9]{1,2})?"  # 1 234, or two numbers
    r"|[0-9]+(?:\.[0-9]+|,(?:[0-9]{1,2}|[0-9]{4,}))?|\.[0-9]+)"
    r"(?![0-9]|[.,:/'’][0-9])"
)
_MAG = _any([word for word in _MAGNITUDE if len(word) > 1])
_NUMERAL = rf"{_NUM}(?:(?:{_GAP}?{_MAG}|[kmb]){_END})?"
_UP_TO_9 = _any(list(_CARDINAL)[1:10])
_TEENS = _any([w for w, n in _CARDINAL.items() if n < 20])
_TY = _any(_TENS.split())
_BELOW_100 = rf"(?:{_TY}(?:{_GAP}{_UP_TO_9}{_END})?|{_TEENS}){_END}"
_BELOW_1000 = rf"(?:{_BELOW_100}{_SP}hundred{_END}(?:{_SP}(?:and{_SP})?{_BELOW_100})?|{_BELOW_100})"
_BIG = _any([word for word, n in _MAGNITUDE.items() if len(word) > 1 and n != 100])
_WORDED = (
    rf"(?:{_BELOW_1000}(?:{_GAP}{_BIG}{_END}(?:,?{_SP}(?:and{_SP})?{_BELOW_1000}{_SP}{_BIG}{_END})*"
    rf"(?:{_SP}(?:and{_SP})?{_BELOW_1000})?)?|(?:half{_SP})?an?{_SP}{_MAG}{_END}|half{_SP}an?{_END})"
)
_AND_HALF = rf"(?: and a half{_END}(?:{_SP}{_BIG}{_END})?)"
_MINUS = rf"""(?:(?<![^\s(\["'“‘|,;:=])[-−–]|minus{_SP})"""
_SIGN = rf"(?:{_MINUS}(?=\.?[0-9])|minus{_SP})"
NUMBER = rf"(?:{_SIGN}?(?:{_NUMERAL}|{_WORDED}){_AND_HALF}?)"
"""A number in lower-case text, in digits or words, with its magnitude ("1.2 million") and without a unit."""


def _unit(names: Iterable[str]) -> str:
    return f"(?:{_any(names)}){_END}"


_UNIT = _unit(UNITS)
_CURRENCY = rf"(?:{_any([*CURRENCY_SIGNS, *CURRENCY_CODES])}{_SP}?)"
# "1 hour 30 minutes": the smaller unit that may follow each unit, and short names that are units only there
_LESSER = {"h": "min", "min": "sec", "days": "h", "weeks": "days", "years": "months", "ft": "inches", "lb": "oz"}
_LESSER["stone"] = "lb"
_ONLY_JOINED = {"m": "min", "s": "sec", "in": "inches"}


def _spelled(unit: str) -> str:
    others = [name for name, whole in _ONLY_JOINED.items() if whole == unit]
    return _unit([name for name, meanings in UNITS.items() if meanings[0] == UNITS[unit][0]] + others).removesuffix(
        _END
    )


_THEN = rf"(?:,?{_SP}(?:and{_SP})?|{_SP}?)(?:[0-9]{{1,3}}|{_BELOW_100}){_GAP}?"
_HALF_MORE = " and a half"
_JOINED = "|".join(f"{_spelled(unit)}(?:{_THEN}{_spelled(less)}|{_HALF_MORE}){_END}" for unit, less in _LESSER.items())
_JOINED = rf"(?:(?:{_JOINED})(?:{_THEN}{_spelled('sec')}{_END})?)"
_MONTH = rf"(?:{_any(MONTHS)}{_END}|{_any(SHORT_MONTHS)}{_END}\.?)"
_YEAR = r"[12][0-9]{3}(?![0-9]|[.,:/][0-9])" + _END
_DAY = r"(?:3[01]|[12][0-9]|0?[1-9])(?:st|nd|rd|th)?(?![0-9]|[.:/][0-9])" + _END
_MODAL = rf"(?!(?<=may){_SP}(?:be|have|not|also|well|still|yet){_END})"  # "3 may have died" is no date
_AMPM = rf"(?:[ap]m{_END}|[ap]\.{_SP}?m\.?{_END})"


def _ends(number: str, between: str) -> str:
    """Build a pattern for a range: `number`, `between`, `number`. Each number may have a currency or a unit."""
    first = rf"(?P<sign>{_CURRENCY})?(?P<a>{number})(?:{_GAP}?(?P<of_a>{_UNIT}))?"
    return rf"{first}{between}{_CURRENCY}?(?P<b>{number})(?![-–—][0-9])(?:{_GAP}?(?P<unit>{_UNIT}))?{_END}"


_WORDED_END = rf"(?:{_SIGN}?{_NUMERAL}|{_BELOW_100}(?:{_SP}{_BIG}{_END})?)"

_CENTURY_YEARS = list(_CARDINAL)[10:20]
_NUMBERED = (
    *("act", "annex", "appendix", "article", "book", "chapter", "class", "grade", "level"),
    *("part", "phase", "section", "stage", "title", "type", "volume", "war"),
)
_PERIODS = {
    "hourly": "hour",
    "daily": "day",
    "nightly": "night",
    "weekly": "week",
    "monthly": "month",
    "yearly": "year",
}
_PERIODS |= {"annually": "year"}
_WITH_COINS = ("$", "dollar", "dollars", "€", "euro", "euros", "£", "pound", "pounds", "usd", "eur", "gbp")

# The forms of a value, tried in this order; the first match counts.
_FORMS = {
    "power": rf"(?P<minus>{_MINUS})?(?:(?P<n>{_NUM}){_SP}?[×x*·⋅]{_SP}?)?10"
    rf"(?:(?:\^|\*\*)\(?(?P<e>[-−+]?[0-9]{{1,2}})\)?|(?P<raised>[⁻⁺]?[⁰¹²³⁴⁵⁶⁷⁸⁹]{{1,2}}))(?![0-9⁰¹²³⁴⁵⁶⁷⁸⁹]|[.,:/][0-9])(?:{_GAP}?(?P<unit>{_UNIT}))?{_END}",
    "iso": r"(?P<y>[12][0-9]{3})[-/](?P<m>0[1-9]|1[0-2])[-/](?P<d>3[01]|[12][0-9]|0[1-9])(?![0-9])",
    "dotted": r"(?P<d>3[01]|[12][0-9]|0?[1-9])\.(?P<m>0?[1-9]|1[0-2])\.(?P<y>[12][0-9]{3})(?![0-9])",
    "day_first": r"(?P<d>3[01]|2[0-9]|1[3-9])/(?P<m>0?[1-9]|1[0-2])/(?P<y>[12][0-9]{3})(?![0-9])",
    "month_first": r"(?P<m>0?[1-9]|1[0-2])/(?P<d>3[01]|2[0-9]|1[3-9])/(?P<y>[12][0-9]{3})(?![0-9])",
    "either_first": r"(?P<a>0?[1-9]|1[0-2])/(?P<b>0?[1-9]|1[0-2])/(?P<y>[12][0-9]{3})(?![0-9])",
    "day_month": rf"(?P<d>{_DAY}){_SP}(?:of{_SP})?(?P<m>{_MONTH}){_MODAL}(?:,?{_SP}(?P<y>{_YEAR}))?",
    "month_day": rf"(?P<m>{_MONTH}){_SP}(?P<d>{_DAY})(?!,[0-9]{{3}}{_END})(?:(?:,{_SP}?|{_SP})(?P<y>{_YEAR}))?",
    "month_year": rf"(?P<m>{_MONTH}),?{_SP}(?:of{_SP})?(?P<y>{_YEAR})",
    "clock": r"t?(?P<h>[01]?[0-9]|2[0-4]):(?P<min>[0-5][0-9])"  # with the "T", seconds and zone of a time stamp
    r"(?::(?P<s>[0-5][0-9])(?:[.,][0-9]{1,9})?(?:[+-][0-9]{2}:?[0-9]{2})?)?(?![0-9:])"
    rf"(?:z|{_SP}?(?P<half>{_AMPM}))?{_END}",
    "hour": rf"(?P<h>1[0-2]|[1-9])(?:\.(?P<min>[0-5][0-9]))?{_SP}?(?P<half>{_AMPM})",
    "h_clock": rf"(?P<h>[01]?[0-9]|2[0-4])h(?P<min>[0-5][0-9]){_END}",
    "feet": rf"""(?P<ft>[1-9][0-9]?)['′’]{_SP}?(?P<inch>1[01]|[0-9])(?:["″”]|'')""",
    "decade": rf"(?P<c>1[0-9]|20)?(?P<d>[0-9]0)['’]?s{_END}",
    "year_words": rf"(?P<century>(?:six|seven|eigh|nine)teen|twenty){_GAP}"
    rf"(?P<rest>(?:oh|o){_GAP}{_UP_TO_9}|{_any(_CENTURY_YEARS)}|{_TY}(?:{_GAP}{_UP_TO_9})?){_END}",
    "noon": rf"(?:12{_SP})?(?P<noon>noon|midday|midnight){_END}",
    "roman": rf"(?P<noun>{_any(_NUMBERED)}){_SP}"
    rf"(?P<roman>x{{0,3}}(?:ix|iv|vi{{1,3}}|i{{2,3}})|x{{1,3}}[vi]|x{{2,3}}){_END}",
    "frequency": rf"(?:(?P<adverb>once|twice|thrice)|(?P<n>{NUMBER}){_SP}times){_SP}"
    rf"(?:(?:an?|per|each|every){_SP}(?P<per>{_any(_PERIODS.values())})|(?P<ly>{_any(_PERIODS)})){_END}",
    "coins": rf"(?P<n>{NUMBER}){_GAP}?(?P<unit>{_unit(_WITH_COINS)})(?:,?{_SP}(?:and{_SP})?)"
    rf"(?P<coins>[0-9]{{1,2}}|{_BELOW_100}){_SP}?(?:cents?|¢|pence|p){_END}",
    "joined": rf"(?:{NUMBER}{_GAP}?|an?{_SP}){_JOINED}",
    "between": rf"between{_SP}{_ends(_WORDED_END, f'{_SP}and{_SP}')}",
    "to": _ends(_WORDED_END, f"{_SP}to{_SP}"),
    "range": _ends(rf"{_SIGN}?{_NUMERAL}", "[-–—]"),
    "money": rf"(?P<minus>{_MINUS})?(?P<sign>{_CURRENCY})(?P<n>-?{_NUMERAL})",
    "hash": rf"\#{_SP}?(?P<n>{_NUMERAL})",  # "# 42 million": the pound sign of tokenised texts, or "number"
    "age": rf"(?P<n>{NUMBER}){_GAP}years?{_GAP}olds?{_END}",
    "ordinal": rf"(?P<n>[0-9]+)(?:st|nd|rd|th){_END}",
    "share": rf"(?P<num>{_UP_TO_9}|[1-9]){_SP}(?:in|out{_SP}of){_SP}(?:every{_SP})?(?P<den>{_UP_TO_9}|ten|10|[2-9])"
    rf"(?![0-9]|[.,:/'’–-][0-9]){_END}",
    "ordinal_word": rf"(?:(?P<tens>{_TY})-)?(?P<word>{_any(_ORDINAL)}){_END}",
    "version": rf"(?:version{_SP}|release{_SP}|v\.?{_SP}?)(?P<n>[0-9]+(?:\.[0-9]+)+){_END}",
    "quantity": rf"(?P<n>{NUMBER}){_MARK}{_GAP}?(?P<unit>{_UNIT})",
    "fraction": rf"half{_END}(?!{_SP}an?{_END})|(?P<num>{_UP_TO_9}|[1-9])(?:{_GAP}(?P<dens>{_any(_PARTS)})s{_END}"
    rf"|(?:-|(?<=one){_SP})(?P<den>{_any(_PARTS)}){_END})|an?{_SP}(?P<part>{_any(_PARTS)}){_END}(?={_SP}of{_END}|[.,;:!?)]|\Z)",
    "number": rf"(?P<n>{NUMBER}){_MARK}{_END}",
    "digits": r"[0-9]+(?:[.,:/'’–-][0-9]+)*[a-z0-9]*",  # other digits are compared as written
    "keyed": rf"(?:(?<=[_\"'])|\A)(?P<key>{_any(KEY_UNITS)})[\"']?{_SP}?[:=]{_SP}?[\"']?(?P<n>-?{_NUMERAL})"
    rf"(?![-–][0-9]){_END}",
    "acronym": rf"[a-z]\.(?:[a-z]\.)+(?:[a-z]{_END})?|[a-z](?:\.[a-z])+{_END}",
}
_SYMBOLS = "".join([*_VULGAR, *(sign for sign in CURRENCY_SIGNS if len(sign) == 1)])
_WORDS = ["a ", "an ", "half", "minus ", "between ", "version ", "release ", "v ", "v.", *(f"v{n}" for n in range(10))]
_WORDS += ["noon", "midday", "midnight", "once ", "twice ", "thrice ", *(f"{noun} " for noun in _NUMBERED)]
_WORDS += [sign for sign in CURRENCY_SIGNS if len(sign) > 1]
_OPENING = _any([*_CARDINAL, *_ORDINAL, *(m[:3] for m in MONTHS), *CURRENCY_CODES, *_WORDS])
_NAMELESS = re.sub(r"\?P<\w+>", "?:", "|".join(_FORMS.values()))
PATTERN = rf"(?=[0-9{_SYMBOLS}#.−–-]|{_OPENING}|[a-z]\.[a-z]|(?<=[_\"'])[a-z]|(?<=[0-9])t[0-9])(?:{_NAMELESS})"


# --------------------------------------------------------------------------------------------------- reading


def fold(text: str) -> str:
    """Lower-case `text`, and convert full-width forms and the digits of every script to ASCII, for matching `PATTERN`.

    Thin spaces become no-break spaces. Every character keeps its position.

    >>> fold("İ ٢٠٢٤ Ａ％")
    'i 2024 a%'
    """
    lowered = text.lower()
    if lowered.isascii():
        return lowered
    if len(lowered) != len(text):  # only "İ" becomes two characters
        lowered = text.replace("İ", "i").lower()
    return lowered.translate(_digits())


@cache
def _digits() -> dict[int, str]:
    """Build the table that translates digits, number signs, thin spaces and full-width forms to those of Latin-1."""
    decimals = ((code, unicodedata.decimal(chr(code), None)) for code in range(0x660, 0x1FBFA))
    signs = {"٫": ".", "٬": ",", "￥": "¥", "￡": "£", "º": "°", "\u2009": "\xa0", "\u202f": "\xa0"}
    wide = {code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}
    return wide | {code: str(n) for code, n in decimals if n is not None} | {ord(a): b for a, b in signs.items()}


def keys(word: str) -> tuple[str, ...]:
    """Return the keys under which to look up a word or value in another text, best key first.

    A key is the stem of a word, or the canonical form of a value, such as "q:length:5000" for "5 km". The other text
    supports the word if one of its words `implies` one of the keys. A stop word has no keys.

    Args:
        word: A value (a match of `PATTERN`) or a plain word, in lower case.
    """
    return _read(word)[0]


def implies(word: str) -> tuple[str, ...]:
    """Return all keys that a word or value supports in another text.

    A key is the stem of a word, or the canonical form of a value. For example, "5 km" supports the keys of the length
    5 km and of the number 5. A stop word supports none.
    """
    return _read(word)[1]


def ends(word: str) -> tuple[str, ...]:
    """Return the keys of the two ends of a range in words, such as "3 to 5 km".

    `CompoundMatches` uses this, because another text may state the ends separately. The result is empty for ranges with
    a dash, and for any other word.

    >>> ends("1901 to 1911"), ends("3 to 5 km"), ends("1901-1911")
    (('n:1901', 'n:1911'), ('q:length:3000', 'q:length:5000'), ())
    """
    if " to " not in word and " and " not in word:
        return ()
    keys, implied = _read(word)
    amounts = [key for key in implied if key.startswith("q:")] or [key for key in implied if key.startswith("n:")]
    return tuple(amounts[:2]) if keys[:1] and keys[0].startswith("r:") else ()


def is_value(word: str) -> bool:
    """Check whether a lower-case word is a number, date, time or quantity, or at least contains a digit ("b12").

    >>> is_value("300 m"), is_value("twelve"), is_value("tower")
    (True, True, False)
    """
    return any(char.isdigit() for char in word) or any(":" in key for key in keys(word))


def keyed(word: str) -> tuple[int, str]:
    """Parse a number from JSON or settings that is matched together with its field name, such as `price_eur": 40`.

    Returns:
        The position of the number in `word`, and the unit that the field name ends in. The unit of an amount of money
        is "" if the name does not say the currency. For any other word, the result is (0, "").

    >>> keyed('duration_ms": 1500'[9:]), keyed('price": 40'), keyed("1500 ms")
    ((5, 'ms'), (8, ''), (0, ''))
    """
    match = _compiled(_FORMS["keyed"]).fullmatch(fold(word)) if ":" in word or "=" in word else None
    return (match.start("n"), KEY_UNITS[match["key"]]) if match else (0, "")


def numeral(word: str) -> int:
    """Return the position of the Roman numeral in a value such as "chapter iv", or 0 for any other word.

    >>> numeral("chapter iv"), numeral("iv"), numeral("3 km")
    (8, 0, 0)
    """
    match = _compiled(_FORMS["roman"]).fullmatch(fold(word)) if word[:1].isalpha() else None
    return match.start("roman") if match else 0


def in_sentence(word: str) -> str:
    """Rewrite a value from JSON, settings or a time stamp as a sentence would write it.

    Note marks, which are raised numbers that refer to footnotes, are removed.

    >>> in_sentence('eur": 40'), in_sentence('price": 40'), in_sentence("T19:05:00Z"), in_sentence("330¹ m")
    ('40 eur', '40', '19:05', '330 m')
    """
    word = _compiled(_MARK).sub("", word)
    number_start, unit = keyed(word)
    if number_start:
        return f"{word[number_start:]} {unit}".rstrip()
    clock = _compiled(_FORMS["clock"]).fullmatch(fold(word))
    if clock is None or clock["half"]:
        return word
    return word[clock.start("h") : clock.end("s" if int(clock["s"] or 0) else "min")]


# A cheap test for each form whose pattern takes long to compile. Only words that pass are matched with the pattern.
_NEEDS = {
    "power": r"10(?:\^|\*\*|[⁻⁺⁰¹²³⁴⁵⁶⁷⁸⁹])",
    "frequency": "once|twice|thrice|times",
    "coins": "cent|¢|pence|p$",
    "joined": "[a-z][^a-z]",
    "between": "^between",
    "to": r"\sto\s",
    "range": ".[-–—]",
    "age": "old",
    "keyed": "[:=]",
}
_LONGEST = 100  # characters of a value; longer words are compared as written
_ALPHA = {*_CARDINAL, *_ORDINAL, "half", "noon", "midday", "midnight"}


@lru_cache(maxsize=1 << 12)  # about 2 MB, which a stream of distinct numbers fills
def _read(word: str) -> Value:
    if word in STOP_WORDS or not word.strip(RAISED_DIGITS):
        return (), ()
    may_be_value = len(word) <= _LONGEST and (not word.isalpha() or word in _ALPHA)
    for form, pattern in _FORMS.items() if may_be_value else ():
        match = _compiled(_NEEDS.get(form, "")).search(word) and _compiled(pattern).fullmatch(word)
        if match:
            return _FORM_VALUES[form](match)
    return _one(stem(word if word.isascii() else _without_accents(without_mark(word))))


def _without_accents(word: str) -> str:
    """Return "jose" for "josé" and "o" for "ø", without soft hyphens; marks of other scripts stay."""
    decomposed = unicodedata.normalize("NFD", word.translate(_LETTERS))
    return unicodedata.normalize("NFC", "".join(c for c in decomposed if not "\u0300" <= c <= "\u036f"))


_compiled: Callable[[str], re.Pattern[str]] = cache(re.compile)


_LETTERS = str.maketrans(
    {"\u00ad": "", "ß": "ss", "ø": "o", "đ": "d", "ð": "d", "ł": "l", "æ": "ae", "œ": "oe", "þ": "th", "ı": "i"}
)


def _fraction(text: str) -> Fraction:
    """Return the number in `text`, a match of `NUMBER`."""
    sign = re.match(r"[-−–]|minus\s", text)
    text = text[sign.end() if sign else 0 :]
    text, and_half, more = text.partition(" and a half")
    half_of = text.startswith("half ")
    digits = _compiled(_NUM).match(text)
    total = part = Fraction(0)
    for word in re.split(r"[\s,-]+", text[digits.end() :] if digits else text):
        if word == "hundred" and not digits:
            part = (part or Fraction(1)) * 100
        elif word in _MAGNITUDE:
            total += (part or 1) * _MAGNITUDE[word]
            part = Fraction(0)
        elif word in ("a", "an"):
            part = Fraction(1)
        else:
            part += _CARDINAL.get(word, 0)  # "and" adds nothing
    n = _in_digits(digits[0]) * ((total + part) or 1) if digits else total + part
    n = (n + Fraction(1, 2) if and_half else n / 2 if half_of else n) * _MAGNITUDE.get(more.strip(), 1)
    return -n if sign else n


def _in_digits(text: str) -> Fraction:
    """Return the number in `text`, a match of `_NUM`."""
    if text[-1] in _VULGAR:
        return int(text[:-1].rstrip("- \t\xa0") or 0) + _VULGAR[text[-1]]
    *whole, fraction = re.split(r"[\s-]", text) if "/" in text else (text,)
    if "/" in fraction:
        return sum(map(int, whole)) + Fraction(fraction)
    text = re.sub(r"['’\s]", "", text)
    if re.fullmatch(r"[1-9][0-9]{0,2}(?:,[0-9]{3})+(?:\.[0-9]+)?", text):
        return Fraction(text.replace(",", ""))
    if re.search(r"\..*[.,]", text):
        text = text.replace(".", "")
    return Fraction(text.replace(",", "."))


def _measures(unit: str) -> list[tuple[str, Fraction]]:
    return UNITS[re.sub(r"[\s-]", " ", unit)]


def _currency(sign: str) -> str:
    sign = sign.strip()
    return CURRENCY_SIGNS.get(sign, sign)


_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺−", "0123456789-+-")


def _power(match: re.Match[str]) -> Value:
    """Return the value of a power of ten ("3 × 10⁶ m", "10^-3")."""
    exponent = int((match["e"] or match["raised"]).translate(_RAISED))
    n = (_fraction(match["n"]) if match["n"] else 1) * Fraction(10) ** exponent * (-1 if match["minus"] else 1)
    if match["unit"]:
        return _one(*(f"q:{kind}:{n * size}" for kind, size in _measures(match["unit"])))
    return _one(f"n:{n}")


def _decade(match: re.Match[str]) -> Value:
    """Return the value of "the 1990s". "The 90s" are the 1990s, too, or 90 seconds."""
    century, decade = match["c"], f"dec:{match['d']}"
    dated = f"dec:{century or ''}{match['d']}"
    if century in ("19", "20"):
        return (dated, decade), (dated, decade)
    return _one(dated) if century else ((dated, seconds := f"q:time:{match['d']}"), (dated, seconds))


def _keyed_number(match: re.Match[str]) -> Value:
    """Return the value of a number with the key of its field, which names the unit."""
    n, key = _fraction(match["n"]), match["key"]
    if not KEY_UNITS[key]:  # money, and the key stays a word
        amounts = (*(f"q:{currency}:{n}" for currency in sorted(CURRENCIES)), f"n:{n}")
        return amounts, (*amounts, stem(key))
    amounts = tuple(f"q:{kind}:{n * size}" for kind, size in UNITS[KEY_UNITS[key]])
    return amounts, (*amounts, f"n:{n}")


def _hash(match: re.Match[str]) -> Value:
    n = _fraction(match["n"])
    return _one(f"n:{n}", f"q:gbp:{n}")


def _money(match: re.Match[str]) -> Value:
    n = _fraction(match["n"]) * (-1 if match["minus"] else 1)
    return _one(f"q:{_currency(match['sign'])}:{n}", f"n:{n}")


def _age(match: re.Match[str]) -> Value:
    """Return the value of an age. "A 23-year-old man" says the same as "a man, 23,", so its number alone is a key."""
    n = _fraction(match["n"])
    keys = (f"q:month:{12 * n}", f"n:{n}")
    return keys, keys


def _quantity(match: re.Match[str]) -> Value:
    """Return the value of a number with a unit."""
    n = _fraction(match["n"])
    amounts = tuple(f"q:{kind}:{n * size}" for kind, size in _measures(match["unit"]))
    if amounts[0].startswith("q:data:"):  # 2,048 MB are 2 GB, too
        amounts += (f"q:data:{n * _BINARY[_measures(match['unit'])[0][1]]}",)
    if re.search("[0-9]m$", match[0]):  # "5m": five metres, or five million
        amounts = (f"n:{n * 10**6}", *amounts)
        return amounts, amounts
    return amounts, (*amounts, f"n:{n}")


def _number(match: re.Match[str]) -> Value:
    n = _fraction(match["n"])
    if re.fullmatch(r"[0-9]+\.[0-9]+", match[0]):  # or a version
        return (f"n:{n}", match[0]), (f"n:{n}", match[0])
    parts = match[0].split(" ") if re.fullmatch(r"[0-9]{1,3}(?: [0-9]{3})+", match[0]) else ()
    return _one(f"n:{n}", *(f"n:{int(part)}" for part in parts))  # "1 234" may be two numbers in a row


def _year_words(match: re.Match[str]) -> Value:
    century = _CARDINAL[match["century"]]
    rest = sum(_CARDINAL.get(word, 0) for word in re.split(r"[\s-]+", match["rest"]))
    return _one(f"n:{100 * century + rest}")


def _noon(match: re.Match[str]) -> Value:
    if match["noon"] == "midnight":
        return ("t:0:0", "t:24:0"), ("t:0:0", "t:24:0", stem("midnight"))
    return ("t:12:0",), ("t:12:0", "t:?0:0", stem(match["noon"]))


def _roman(match: re.Match[str]) -> Value:
    """Return the value of "chapter iv", which is chapter 4, and of "war ii", the second war."""
    digits = [{"i": 1, "v": 5, "x": 10}[letter] for letter in match["roman"]]
    number = sum(-n if n < max(digits[i:]) else n for i, n in enumerate(digits))
    keys = (f"o:{number}", f"n:{number}") if match["noun"] == "war" else (f"n:{number}",)
    return keys, (*keys, stem(match["noun"]))


def _frequency(match: re.Match[str]) -> Value:
    times = ("once", "twice", "thrice").index(match["adverb"]) + 1 if match["adverb"] else _fraction(match["n"])
    period = match["per"] or _PERIODS[match["ly"]]
    adverbs = (stem(adverb) for adverb, each in _PERIODS.items() if each == period and times == 1)
    keys = (f"f:{times}:{period}", *adverbs)
    return keys, keys


def _coins(match: re.Match[str]) -> Value:
    """Return the value of "5 euros and 50 cents"."""
    (currency, _), *_ = _measures(match["unit"])
    n = _fraction(match["n"]) + _fraction(match["coins"]) / 100
    return _one(f"q:{currency}:{n}", f"n:{n}")


def _range(form: str, match: re.Match[str]) -> Value:
    """Return the value of a range. It implies its ends only if they are years or the range is in words ("5 to 10")."""
    a, b = _fraction(match["a"]), _fraction(match["b"])
    magnitude = re.search(r"(?<![^\W\d_])[^\W\d_]++$", match["b"])
    scale = _MAGNITUDE.get(magnitude[0], 1) if magnitude else 1
    if scale > 1 and not re.search(r"[^\W\d_]$", match["a"]) and a * scale < b:
        a *= scale  # "3–5 million"
    if re.fullmatch("[12][0-9]{3}", match["a"]) and re.fullmatch("[0-9]{2}", match["b"]):
        b += a // 100 * 100  # "2010-15"
    measures = [(_currency(match["sign"]), Fraction(1))] if match["sign"] else []
    measures = measures or (_measures(match["unit"]) if match["unit"] else [])
    of_a = dict(_measures(match["of_a"])) if match["of_a"] else {}
    sized = [(f"{kind}:", a * of_a.get(kind, size), b * size) for kind, size in measures]
    if re.search("[0-9]m$", match[0]):  # as in an amount
        sized.append(("length:", a / scale, b / scale))
    keys = [f"r:{kind}{first}:{last}" for kind, first, last in sized]
    if not measures:
        keys.insert(0, f"r:{a}:{b}")
    implied = [f"r:{a}:{b}"]
    if form != "range" or (not sized and all(1000 <= end <= 2100 for end in (a, b))):
        implied += (f"q:{kind}{end}" for kind, *ends in sized for end in ends)
        implied += (f"n:{end}" for end in (a, b))
    return tuple(keys), (*keys, *implied)


def _part_of_whole(form: str, match: re.Match[str]) -> Value:
    """Return the value of a share such as "two thirds", "one in four" or "half"; it equals its rounded percentages."""
    named = match.groupdict()
    number = named["num"] or "one"
    count = int(number) if number.isdecimal() else _CARDINAL.get(number, 1)
    if form == "share":
        whole = int(named["den"]) if named["den"].isdecimal() else _CARDINAL[named["den"]]
    else:
        whole = _PARTS[named["dens"] or named["den"] or named["part"] or "half"]
    fraction = Fraction(count, whole)
    percents = [100 * fraction, *(Fraction(round(100 * fraction * 10**n), 10**n) for n in range(3))]
    percents += [Fraction(100 * fraction * 10**n // 1, 10**n) for n in range(3)]
    keys = (*dict.fromkeys(f"q:percent:{percent}" for percent in percents), f"n:{fraction}")
    keys = (stem("half"), *keys) if match[0] == "half" else keys
    return keys, keys


def _joined(text: str) -> str:
    """Return the key of a quantity in several units ("1 hour 30 minutes", "an hour and a half")."""
    total, kind, size = Fraction(0), "", Fraction(0)
    text, and_half, _ = text.partition(" and a half")
    for piece in _compiled(_PIECE).finditer(text):
        kind, size = _measures(_ONLY_JOINED.get(piece["unit"], piece["unit"]))[0]
        total += size * (_fraction(piece["n"]) if piece["n"] else 1)
    return f"q:{kind}:{total + (size / 2 if and_half else 0)}"


_PIECE = rf"(?:(?P<n>{NUMBER})|an?){_GAP}?(?P<unit>{_unit([*UNITS, *_ONLY_JOINED]).removesuffix(_END)})"


def _time(form: str, match: re.Match[str]) -> Value:
    """Return the value of a time of day; without am or pm it may be either, and "1h30" may be a duration."""
    named = match.groupdict()
    hour, minute, second = int(match["h"]), int(match["min"] or 0), int(named.get("s") or 0)
    half = named.get("half")
    if half:
        hour = hour % 12 + (12 if half[0] == "p" else 0)
        plain = [] if match["min"] else [f"n:{int(match['h'])}"]  # "open at six"
        written = (f"t:{hour}:{minute}", f"t:?{hour % 12}:{minute}", *plain)
        keys = written[:1]
    else:
        written = keys = (f"t:{hour}:{minute}", *([f"t:?{hour % 12}:{minute}"] if hour <= 12 else []))
    if form == "h_clock":
        written = keys = (f"q:time:{3600 * hour + 60 * minute}", *written)
    if second:  # implies the minute
        keys = (f"t:{hour}:{minute}:{second}",)
        written = (*keys, *written)
    return keys, written


_BINARY = {Fraction(1000) ** k: Fraction(1024) ** k for k in range(4)}


def _either_date(match: re.Match[str]) -> Value:
    """Return the value of a date whose day and month may be in either order."""
    year, orders = match["y"], ((int(match["a"]), int(match["b"])), (int(match["b"]), int(match["a"])))
    keys = tuple(dict.fromkeys(f"d:{year}-{month}-{day}" for month, day in orders))
    parts = (key for month, day in orders for key in (f"d:{year}-{month}", f"d:{month}-{day}"))
    return keys, (*keys, *dict.fromkeys(parts), f"n:{year}")


def _one(key: str, *implied: str) -> Value:
    return (key,), (key, *implied)


def _date(match: re.Match[str]) -> Value:
    named = match.groupdict()
    month = int(named["m"]) if named["m"].isdigit() else 1 + [m[:3] for m in MONTHS].index(named["m"][:3])
    day = int(re.match("[0-9]+", named["d"])[0]) if named.get("d") else None  # type: ignore[index]
    year = named.get("y")
    implied = [stem(MONTHS[month - 1])]
    if year:
        implied += [f"n:{year}", f"d:{year}-{month}"]
    if day:
        implied.append(f"d:{month}-{day}")
        if year:
            implied.append(f"d:{year}-{month}-{day}")
    return (implied[-1],), tuple(implied)


_FORM_VALUES: dict[str, Callable[[re.Match[str]], Value]] = {
    **dict.fromkeys(("iso", "dotted", "day_first", "month_first", "day_month", "month_day", "month_year"), _date),
    "either_first": _either_date,
    **{form: partial(_time, form) for form in ("clock", "hour", "h_clock")},
    **{form: partial(_range, form) for form in ("between", "to", "range")},
    **{form: partial(_part_of_whole, form) for form in ("fraction", "share")},
    "year_words": _year_words,
    "noon": _noon,
    "roman": _roman,
    "frequency": _frequency,
    "coins": _coins,
    "digits": lambda match: _one(match[0].replace("–", "-")),
    "acronym": lambda match: _one(stem(match[0].replace(".", ""))),
    "power": _power,
    "ordinal_word": lambda match: _one(f"o:{_CARDINAL.get(match['tens'] or '', 0) + _ORDINAL[match['word']]}"),
    "ordinal": lambda match: _one(f"o:{int(match['n'])}"),
    "version": lambda match: _one(match["n"]),
    "decade": _decade,
    "feet": lambda match: _one(f"q:length:{Fraction(127, 5000) * (12 * int(match['ft']) + int(match['inch']))}"),
    "joined": lambda match: _one(_joined(match[0])),
    "keyed": _keyed_number,
    "hash": _hash,
    "money": _money,
    "age": _age,
    "quantity": _quantity,
    "number": _number,
}
"""For each form of `_FORMS`, the function that converts a match to its value."""
