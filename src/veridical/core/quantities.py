"""Numbers, dates, times, quantities, money and acronyms as values, so that "1.2 thousand" is "1,200".

Reads lower-case English text with regular expressions and tables; nothing is guessed from context. A value is one word:
it is compared as a whole, and "1,200" is never found in "1" and "200". What a value *implies* is what it supports in
another text: "3 may 2021" implies "may 2021", "may" and "2021", and "5 km" implies the number 5, but not the reverse.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Container, Iterable, Iterator
from fractions import Fraction
from functools import cache, lru_cache
from itertools import pairwise

from veridical.core.stemmer import stem
from veridical.core.stopwords import STOP_WORDS
from veridical.core.vocabulary import MONTHS

__all__ = ["NUMBER", "PATTERN", "adjacent_words", "fold", "implies", "is_value", "keys", "split_compound"]

Value = tuple[tuple[str, ...], tuple[str, ...]]  # the keys of which one must be implied, and what is implied

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
    "hundred": 100,
    "k": 1000,
    "thousand": 1000,
    **dict.fromkeys(("m", "mn", "mln", "million"), 10**6),
    **dict.fromkeys(("b", "bn", "billion"), 10**9),
    **dict.fromkeys(("tn", "trillion"), 10**12),
}
_MONEY = {"$": "usd", "£": "gbp", "€": "eur", "¥": "jpy", "a": "aud", "c": "cad", "nz": "nzd", "hk": "hkd", "s": "sgd"}

# Spellings of a unit, then what it measures and how many of the base unit it is, as exact fractions.
_UNIT_TABLE = """
mm millimetre millimetres millimeter millimeters = length 1/1000
cm centimetre centimetres centimeter centimeters = length 1/100
m metre metres meter meters = length 1
km kms kilometre kilometres kilometer kilometers = length 1000
inch inches = length 127/5000
ft foot feet = length 381/1250
yd yds yard yards = length 1143/1250
mi mile miles = length 201168/125
mg milligram milligrams = mass 1/1000
g gram grams gramme grammes = mass 1
kg kgs kilo kilos kilogram kilograms kilogramme kilogrammes = mass 1000
tonne tonnes = mass 1000000
oz ounce ounces = mass 45359237/1600000
lb lbs = mass 45359237/100000
stone = mass 317514659/50000
sec secs second seconds = time 1
min mins minute minutes = time 60
hr hrs hour hours = time 3600
day days = time 86400
week weeks = time 604800
month months = month 1
yr yrs year years = month 12
decade decades = month 120
°c ℃ degrees_celsius degrees_centigrade degrees_c = celsius 1
°f ℉ degrees_fahrenheit degrees_f = fahrenheit 1
° degree degrees = degree 1
mph miles_per_hour miles_an_hour = mph 1
km/h kmh kph km_per_hour kilometres_per_hour kilometers_per_hour kilometres_an_hour kilometers_an_hour = kmh 1
% percent per_cent pct pc percentage_point percentage_points = percent 1
dollar dollars usd us_dollars = usd 1
gbp pounds_sterling = gbp 1
euro euros eur = eur 1
yen jpy = jpy 1
pound pounds = gbp 1 | mass 45359237/100000
"""
_UNITS: dict[str, list[tuple[str, Fraction]]] = {}
for _line in _UNIT_TABLE.split("\n"):
    _names, _, _meanings = _line.partition(" = ")
    for _name in _names.split():
        _pairs = (meaning.split() for meaning in _meanings.split("|"))
        _UNITS[_name.replace("_", " ")] = [(kind, Fraction(size)) for kind, size in _pairs]

# -------------------------------------------------------------------------------------------------- patterns


def _any(words: Iterable[str]) -> str:
    """A pattern for any of `words`, the longest first, as a tree of letters (fast where none begins here)."""
    tails: dict[str, list[str]] = {}
    for word in words:
        tails.setdefault(word[:1], []).append(word[1:])
    branches = [re.escape(head) + _any(rest) for head, rest in sorted(tails.items()) if head]
    tree = branches[0] if len(branches) == 1 and "" not in tails else f"(?:{'|'.join(branches)})" if branches else ""
    return f"(?:{tree})?" if "" in tails and tree else tree


_SP = "[ \t\xa0\u2009\u202f]"
_END = r"(?![^\W_])"
_NUM = r"(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])(?:\.[0-9]+)?|[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?![0-9]|[.,:/'][0-9])"
_MAG = _any(["hundred", "thousand", "million", "billion", "trillion", "mln", "mn", "bn", "tn"])
_NUMERAL = rf"{_NUM}(?:(?:(?:{_SP}|-)?{_MAG}|[kmb]){_END})?"
_UP_TO_9 = _any(list(_CARDINAL)[1:10])
_TEENS = _any([w for w, n in _CARDINAL.items() if n < 20])
_TY = _any(_TENS.split())
_BELOW_100 = rf"(?:{_TY}(?:(?:{_SP}|-){_UP_TO_9}{_END})?|{_TEENS}){_END}"
_BELOW_1000 = rf"(?:{_UP_TO_9}{_SP}hundred{_END}(?:{_SP}(?:and{_SP})?{_BELOW_100})?|{_BELOW_100})"
_BIG = _any(["thousand", "million", "billion", "trillion"])
_WORDED = (
    rf"(?:{_BELOW_1000}(?:(?:{_SP}|-){_BIG}{_END}(?:,?{_SP}(?:and{_SP})?{_BELOW_1000}{_SP}{_BIG}{_END})*"
    rf"(?:{_SP}(?:and{_SP})?{_BELOW_1000})?)?|an?{_SP}{_any(['hundred', *_MAGNITUDE])}{_END}(?<!{_SP}[kmb]))"
)
_SIGN = r"""(?:(?<![^\s(\["'“‘])[-−](?=\.?[0-9]))"""
NUMBER = rf"(?:{_SIGN}?{_NUMERAL}|{_WORDED})"
"""A number in lower-case text, in digits or words, with its magnitude ("1.2 million") and without a unit."""
_UNIT = rf"(?:{_any(name.replace(' ', chr(0)) for name in _UNITS)})".replace(re.escape(chr(0)), _SP) + _END
_MONTH = rf"(?:{_any([*MONTHS, *(m[:3] for m in MONTHS), 'sept'])}{_END}\.?)"
_YEAR = r"[12][0-9]{3}(?![0-9]|[.,:/][0-9])" + _END
_DAY = r"(?:3[01]|[12][0-9]|0?[1-9])(?:st|nd|rd|th)?(?![0-9]|[.:/][0-9])" + _END
_MODAL = rf"(?!(?<=may){_SP}(?:be|have|not|also|well|still|yet){_END})"  # "3 may have died" is no date
_AMPM = rf"(?:[ap]m{_END}|[ap]\.{_SP}?m\.?{_END})"

# In the order in which they are tried; the first that matches is the value.
_FORMS = {
    "iso": r"(?P<y>[12][0-9]{3})[-/](?P<m>0[1-9]|1[0-2])[-/](?P<d>3[01]|[12][0-9]|0[1-9])(?![0-9])",
    "day_month": rf"(?P<d>{_DAY}){_SP}(?:of{_SP})?(?P<m>{_MONTH}){_MODAL}(?:,?{_SP}(?P<y>{_YEAR}))?",
    "month_day": rf"(?P<m>{_MONTH}){_SP}(?P<d>{_DAY})(?!,[0-9]{{3}}{_END})(?:(?:,{_SP}?|{_SP})(?P<y>{_YEAR}))?",
    "month_year": rf"(?P<m>{_MONTH}),?{_SP}(?:of{_SP})?(?P<y>{_YEAR})",
    "clock": rf"(?P<h>[01]?[0-9]|2[0-4]):(?P<min>[0-5][0-9])(?![0-9:])(?:{_SP}?(?P<half>{_AMPM}))?{_END}",
    "hour": rf"(?P<h>1[0-2]|[1-9])(?:\.(?P<min>[0-5][0-9]))?{_SP}?(?P<half>{_AMPM})",
    "money": rf"(?P<sign>(?:(?:us|nz|hk|[acs])?\$|[£€¥])){_SP}?(?P<n>{_NUM}(?:(?:{_SP}|-)?(?:{_MAG}|[kmb]){_END})?)",
    "range": rf"(?P<a>{_NUM})(?:[-–—]|{_SP}to{_SP})(?P<b>{_NUM})(?![-–—][0-9])(?!{_SP}?(?:{_MAG}|[kmb]){_END}){_END}",
    "age": rf"(?P<n>{NUMBER})(?:{_SP}|-)years?(?:{_SP}|-)olds?{_END}",
    "ordinal": rf"(?P<n>[0-9]+)(?:st|nd|rd|th){_END}",
    "ordinal_word": rf"(?:(?P<tens>{_TY})-)?(?P<word>{_any(_ORDINAL)}){_END}",
    "quantity": rf"(?P<n>{NUMBER})(?:{_SP}|-)?(?P<unit>{_UNIT})",
    "number": rf"(?P<n>{NUMBER}){_END}",
    "digits": r"[0-9]+(?:[.,:/'’–-][0-9]+)*[a-z0-9]*",  # what no form above matches is compared as it is written
    "acronym": rf"[a-z]\.(?:[a-z]\.)+(?:[a-z]{_END})?|[a-z](?:\.[a-z])+{_END}",
}


_OPENING = _any([*_CARDINAL, *_ORDINAL, *(m[:3] for m in MONTHS), "a ", "an ", "us$", "nz$", "hk$", "a$", "c$", "s$"])
_NAMELESS = re.sub(r"\?P<\w+>", "?:", "|".join(_FORMS.values()))
PATTERN = rf"(?=[0-9$£€¥.−-]|{_OPENING}|[a-z]\.[a-z])(?:{_NAMELESS})"


# --------------------------------------------------------------------------------------------------- reading


def fold(text: str) -> str:
    """`text` in lower case with every character at its place ("İ" alone would become two)."""
    lowered = text.lower()
    return lowered if len(lowered) == len(text) else text.replace("İ", "i").lower()


def keys(word: str) -> tuple[str, ...]:
    """What `word` (a match of `PATTERN`, or a plain word) may be found by, best first; () for a stop word."""
    return _read(word)[0]


def implies(word: str) -> tuple[str, ...]:
    """What `word` supports in another text; () for a stop word."""
    return _read(word)[1]


def is_value(word: str) -> bool:
    """Whether `word` (in lower case) is a number, date, time or quantity, or holds a digit ("b12").

    >>> is_value("300 m"), is_value("twelve"), is_value("tower")
    (True, True, False)
    """
    return any(char.isdigit() for char in word) or any(":" in key for key in keys(word))


_LONGEST = 1000  # characters; a longer number is compared as it is written: Python reads none of more than 4,300 digits


@lru_cache(maxsize=1 << 14)
def _read(word: str) -> Value:
    if word in STOP_WORDS:
        return (), ()
    if len(word) > _LONGEST and not word.isalpha():
        return _one(word)
    for form, pattern in _FORMS.items() if not word.isalpha() or word in _CARDINAL or word in _ORDINAL else ():
        match = _compiled(pattern).fullmatch(word)
        if match is None:
            continue
        if form in ("iso", "day_month", "month_day", "month_year"):
            return _date(match)
        if form in ("clock", "hour"):
            hour, minute, half = int(match["h"]), int(match["min"] or 0), match["half"]
            as_written = f"t:{hour}:{minute}"
            if not half:
                return _one(as_written)
            key = f"t:{hour % 12 + (12 if half[0] == 'p' else 0)}:{minute}"
            return _one(key) if key == as_written else _one(key, as_written)
        if form == "digits":
            return _one(word.replace("–", "-"))
        if form == "acronym":
            return _one(stem(word.replace(".", "")))
        return _amount(form, match)
    if not word.isascii():  # "josé" is "jose", "ø" is "o"; marks of other scripts stay
        decomposed = unicodedata.normalize("NFD", word.translate(_LETTERS))
        word = unicodedata.normalize("NFC", "".join(c for c in decomposed if not "\u0300" <= c <= "\u036f"))
    return _one(stem(word))


_compiled: Callable[[str], re.Pattern[str]] = cache(re.compile)


_LETTERS = str.maketrans({"ß": "ss", "ø": "o", "đ": "d", "ð": "d", "ł": "l", "æ": "ae", "œ": "oe", "þ": "th", "ı": "i"})


def _fraction(text: str) -> Fraction:
    """The number that `text` (a match of `NUMBER`) says."""
    text = text.replace(",", "").replace("−", "-")
    digits = re.match(r"-?[0-9.]+", text)
    if digits:
        magnitude = _MAGNITUDE.get(text[digits.end() :].strip("- \t\xa0\u2009\u202f"), 1)
        return Fraction(digits[0]) * magnitude
    total = part = 0
    for word in re.split(r"[\s-]+", text):
        if word == "hundred":
            part = (part or 1) * 100
        elif word in _MAGNITUDE:
            total += (part or 1) * _MAGNITUDE[word]
            part = 0
        elif word in ("a", "an"):
            part = 1
        else:
            part += _CARDINAL.get(word, 0)  # "and" adds nothing
    return Fraction(total + part)


def _amount(form: str, match: re.Match[str]) -> Value:
    """The value of a match of a form that holds a number: an amount of something, its place in an order, or a range."""
    if form == "range":
        a, b = match["a"].replace(",", ""), match["b"].replace(",", "")
        if len(a) == 4 and len(b) == 2 and "." not in a + b:
            b = a[:2] + b  # "2010-15"
        return _one(f"r:{Fraction(a)}:{Fraction(b)}", f"n:{Fraction(a)}", f"n:{Fraction(b)}")
    if form == "ordinal_word":
        return _one(f"o:{_CARDINAL.get(match['tens'] or '', 0) + _ORDINAL[match['word']]}")
    if form == "ordinal":
        return _one(f"o:{int(match['n'])}")
    n = _fraction(match["n"])
    if form == "money":
        sign = match["sign"]
        return _one(f"q:{_MONEY.get(sign, _MONEY.get(sign.rstrip('$'), 'usd'))}:{n}", f"n:{n}")
    if form == "age":  # "a man, 23," says the same as "a 23-year-old man"
        return (f"q:month:{12 * n}", f"n:{n}"), (f"q:month:{12 * n}", f"n:{n}")
    if form == "quantity":
        meanings = _UNITS[re.sub(r"\s", " ", match["unit"])]
        amounts = tuple(f"q:{kind}:{n * size}" for kind, size in meanings)
        if re.search("[0-9]m$", match[0]):  # "5m": five metres, or five million
            amounts = (f"n:{n * 10**6}", *amounts)
            return amounts, amounts
        return amounts, (*amounts, f"n:{n}")
    return _one(f"n:{n}")


def _one(key: str, *implied: str) -> Value:
    return (key,), (key, *implied)


def _date(match: re.Match[str]) -> Value:
    named = match.groupdict()
    month = int(named["m"]) if named["m"].isdigit() else 1 + [m[:3] for m in MONTHS].index(named["m"][:3])
    day = int(re.match("[0-9]+", named["d"])[0]) if named.get("d") else None  # type: ignore[index]
    year = named.get("y")
    less = [stem(MONTHS[month - 1])]
    if year:
        less += [f"n:{year}", f"d:{year}-{month}"]
    if day:
        less.append(f"d:{month}-{day}")
        if year:
            less.append(f"d:{year}-{month}-{day}")
    return (less[-1],), tuple(less)


# -------------------------------------------------------------------------------------------- other spellings


def adjacent_words(text: str, known: Container[str]) -> Iterator[tuple[str, str]]:
    """Pairs of words of `text`, both `known`, with only a hyphen or a space between them."""
    for (a, end, _), (b, _, start) in pairwise((m[0], m.end(), m.start()) for m in _LETTER_RUN.finditer(text)):
        if start == end + 1 and text[end] in " -‐‑" and a in known and b in known:
            yield a, b


_LETTER_RUN = re.compile(r"[^\W\d_]+")


def split_compound(word: str, text: str, known: Container[str]) -> Iterator[tuple[str, str, int]]:
    """The pairs of `known` words that make up `word` and are in `text` with a hyphen or a space between, and where."""
    if len(word) < 5 or not word.isalpha():
        return
    for i in range(2, len(word) - 1):
        a, b = word[:i], word[i:]
        if a in known and b in known:
            match = re.search(rf"(?<![^\W_]){a}[ ‐‑-]{b}(?![^\W_])", text)
            if match:
                yield a, b, match.start()
