"""Parse the punctuation and symbols between the words of a text, such as "<", "-" before a number, "++", "✓" and "$".

The module detects whether two texts have the same words but different symbols between them. The symbols between two
words form a gap. Differences in typography are ignored: dashes, quotation marks, full-width forms, soft hyphens,
Markdown, and "<=" for "≤".
"""

from __future__ import annotations

import html
import re
import unicodedata
from array import array
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple

from veridical.records.spans import Span
from veridical.text.recent import Recent
from veridical.text.segment import word_forms, words
from veridical.text.units import CURRENCY_SIGNS

# ---------------------------------------------------------------------------------------------------- typography

_OTHER_FORMS = re.compile(
    r"(?:^|(?<=\n))[ \t]{0,9}[-*+][ \t]\[(?P<box>[xX ])\](?=[ \t])"  # a task of Markdown
    r"|&(?:[A-Za-z]{2,8}|\#[0-9]{1,6});"
    "|[\u00ad\u200b-\u200d\u2060\ufe0e\ufe0f\ufeffº⁰¹²³⁴-⁹⁺⁻−‐-–﹣\uff01-\uff5e\ufb00-\ufb06]"
)
_RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻"


def _plain(match: re.Match[str]) -> str:
    text = match[0]
    if match["box"]:
        return "☐" if match["box"] == " " else "✓"
    if len(text) > 1:
        return html.unescape(text)
    if text in "−‐‑‒–﹣":
        return "-"
    if unicodedata.category(text) in ("Cf", "Mn"):
        return ""
    form = "°" if text == "º" else unicodedata.normalize("NFKC", text)
    return f"^{form}" if text in _RAISED else form


def _in_plain(given: str) -> tuple[str, array[int] | None]:
    """Convert a text to plain typography. If the text changes, also return the original position of each character."""
    if given.isascii() and "&" not in given and "[" not in given:
        return given, None
    parts: list[str] = []
    origins = array("q")
    end = 0
    for match in _OTHER_FORMS.finditer(given):
        form = _plain(match)
        parts += (given[end : match.start()], form)
        origins.extend(range(end, match.start()))
        origins.extend([match.start()] * len(form))
        end = match.end()
    origins.extend(range(end, len(given) + 1))
    return "".join([*parts, given[end:]]), origins if end else None


# ---------------------------------------------------------------------------------------------------- the signs

# Signs that mean the same are in one line, the one by which they are compared first.
_TABLE = """
≤ <= =< ⩽ ≦
≥ >= ⩾ ≧
≠ != !== <> =/=
= == === := ≡
≈ ~= ≃ ≅ ∼ ~ ≊
→ -> --> => ⇒ ⟶ ⟹ ➔ ➜ ➡ ▶ ►
← <- <-- ⇐ ⟵ ⬅
↔ <-> <=> ⇔ ⟷
↑ ⬆ ▲ △ ⇑
↓ ⬇ ▼ ▽ ⇓
✓ ✔ ✅ ☑
✗ ✘ ❌ ✖ ☒ ☐ ❎ ✕
∧ &&
∨ ||
* × ⋅ ∙
^ **
/ ÷ ∕ ⁄
! ¬
± +- +/-
# ♯
★ ⭐ 🌟
"""
_CANONICAL = {sign: line.split()[0] for line in _TABLE.split("\n") for sign in line.split()}
_ALONE = (
    "< > + - ++ -- += -= *= /= ♭ ♮ ∈ ∉ ⊂ ⊃ ⊆ ⊇ ∪ ∩ ∀ ∃ √ ∞ ♀ ♂ ☆ ♥ ♦ ♣ ♠ 👍 👎 🔴 🟢 🟡 🔺 🔻 ∥ ⊥ ∝ ∑ ∏ ∫ ∂ ∅ ⊕ % ‰ °"
)
_CURRENCIES = [sign for sign in CURRENCY_SIGNS if len(sign) == 1 and not sign.isalnum()]
_CANONICAL |= {sign: sign for sign in (*_ALONE.split(), *_CURRENCIES)}
_SIGN = re.compile(
    r"[-=]{3,}+(?!>)|~{2,}+|\*{3,}+|" + "|".join(re.escape(sign) for sign in sorted(_CANONICAL, key=len, reverse=True))
)
_UNITS = frozenset({"%", "‰", "°", *_CURRENCIES})
_ATTACHED = frozenset({"+", "-", "++", "--", "#", "♭", "♮", "!", "±", "≈", "√", "^"})
"""Signs that are part of the word before or after them, if there is no space between."""
_BETWEEN = frozenset({"*", "/"})
"""Signs that count as Markdown or note marks, not as operators, if they touch a word on one side only."""
_MARKUP = "*_`~\"'“”‘’«»"
_ITEM = re.compile(r"\n[ \t]*+(?:(?:[>+*•◦▪·-]|#{1,6})[ \t]++)++")
_LONGEST = 60  # characters of a gap with signs that are read


class Gap(NamedTuple):
    """The punctuation and symbols between two adjacent words, in the normalised forms by which texts are compared.

    An attribute is "" if there is no such symbol.

    Attributes:
        suffix: Symbols that belong to the word before them ("C++", "O-").
        operator: Symbols that stand between both words ("<", "→", "✓").
        prefix: Symbols that belong to the word after them ("-20", "!ready").
        unit_before: Symbols for the unit or currency of the word before them ("20 °").
        unit_after: Symbols for the currency of the word after them ("$90").
    """

    suffix: str = ""
    operator: str = ""
    prefix: str = ""
    unit_before: str = ""
    unit_after: str = ""


_NONE = Gap()


def _occurrences(
    gap: str, before: bool, after: bool, before_number: bool, after_number: bool
) -> Iterator[tuple[str, str, int, int]]:
    """Find each sign in `gap`: its part of a `Gap`, the sign itself, its start and its end.

    `before` and `after` tell whether there is a word on that side, `before_number` and `after_number` whether that word
    is a number.
    """
    gap = _ITEM.sub(lambda item: " " * len(item[0]), gap)
    for match in _SIGN.finditer(gap):
        sign = _CANONICAL.get(match[0], "")
        start, end = match.span()
        joined_before = before and not gap[:start].strip(_MARKUP)
        joined_after = after and not gap[end:].strip(_MARKUP + "".join(_CURRENCIES))
        part = "operator"
        if sign in _UNITS:
            right = after_number and sign not in "%‰°" and (joined_after or not before_number)
            part = "unit_after" if right else "unit_before"
        elif sign in _BETWEEN:
            sign = sign if joined_before == joined_after else ""
        elif sign in _ATTACHED and joined_before != joined_after:
            part = "suffix" if joined_before else "prefix"
            if (part == "prefix" and sign == "-" and not after_number) or (sign == "#" and part == "prefix"):
                sign = ""
            if (sign == "^" and not joined_before) or (sign == "!" and (joined_before or after_number)):
                sign = ""
        elif sign in ("!", "#", "--"):
            sign = ""
        if sign:
            yield part, sign, start, end


@lru_cache(maxsize=1 << 12)
def _gap(gap: str, before: bool, after: bool, before_number: bool, after_number: bool) -> Gap:
    parts: dict[str, str] = {}
    for part, sign, _, _ in _occurrences(gap, before, after, before_number, after_number):
        parts[part] = parts.get(part, "") + sign
    return Gap(**parts) if parts else _NONE


class SignedText:
    """Splits a text into its words and the punctuation and symbols between them, so that two texts can be compared.

    Words are referred to by their index, `i`. The methods return spans of the original text.

    Args:
        given: The original text.

    Attributes:
        text: The text after normalising its typography, for example its dashes and quotation marks.
        forms: The words of `text` in lower case, in order.
    """

    def __init__(self, given: str) -> None:
        self.text, self._origins = _in_plain(given)
        self.forms = [form.lower() for form in word_forms(self.text)]
        self._joined = f" {' '.join(self.forms)} "

    @cached_property
    def words(self) -> list[Span]:
        """The spans of the words in `text`, the text with normalised typography."""
        return words(self.text)

    def word(self, i: int) -> str:
        """Return word `i` as written, or "" if there is no such word."""
        return self.words[i].of(self.text) if 0 <= i < len(self.words) else ""

    def gap(self, i: int) -> Gap:
        """Return the symbols between word `i` and the word before it.

        To get the symbols at the end of the text, pass the number of words.
        """
        return _gap(*self._around(i))

    def span(self, first: int, last: int) -> Span:
        """Return the span of the original text from word `first` to word `last`, both included."""
        return self._given(self.words[first].start, self.words[last].end)

    def signs(self, i: int, part: str) -> Span | None:
        """Return the span of the symbols before word `i` that belong to one field of its `Gap`, such as "operator".

        Return None if there are no such symbols.
        """
        found = [(start, end) for each, _, start, end in _occurrences(*self._around(i)) if each == part]
        offset = self.words[i - 1].end if i else -1
        return self._given(found[0][0] + offset, found[-1][1] + offset) if found else None

    def occurrences(self, forms: Sequence[str], most: int = 100) -> Iterator[int]:
        """Yield the index of the first word of each occurrence of a sequence of words.

        Args:
            forms: The sequence to search for, in lower case.
            most: At most this many occurrences are returned.
        """
        wanted = f" {' '.join(forms)} "
        at = i = 0
        for _ in range(most):
            found = self._joined.find(wanted, at)
            if found < 0:
                return
            i += self._joined.count(" ", at, found)
            yield i
            at, i = found + 1, i + 1

    def _given(self, start: int, end: int) -> Span:
        if self._origins is None:
            return Span(start, end)
        return Span(self._origins[start], max(self._origins[end], self._origins[start] + 1))

    def _around(self, i: int) -> tuple[str, bool, bool, bool, bool]:
        """Return the characters before word `i`, and for both sides whether there is a word and whether it is a number.

        Before the first word, a line break is added, because the characters may be the mark of a list item.
        """
        before, after = i > 0, i < len(self.words)
        start = self.words[i - 1].end if before else 0
        end = self.words[i].start if after else len(self.text)
        gap = self.text[start:end] if end - start <= _LONGEST else ""
        numbers = before and self.text[start - 1].isdigit(), after and self.text[end].isdigit()
        return gap if before else f"\n{gap}", before, after, *numbers


_read: Recent[str, SignedText] = Recent(most=2_000_000)


def signed(text: str) -> SignedText:
    """Return a text as a `SignedText`: its words and the symbols between them. Recent results are cached."""
    return _read.get(text, len(text), lambda: SignedText(text))


# ------------------------------------------------------------------------------------------------- comparison

_MATHS = frozenset(["+", "*", "/", "=", "≠", "<", ">", "≤", "≥", "^", "∧", "∨"])
_CODE = re.compile(r"[A-Z][A-Za-z]?|[A-Z]{1,4}|[A-Z][A-Za-z]?[0-9]")  # "C" of "C++", "BBB", "Na", "Ca2"


def contradicts(gap: Gap, other_gap: Gap, before: str, after: str) -> str | None:
    """Check whether two texts contradict each other in the symbols between the same two words.

    If only one of the texts has a symbol there, this is a contradiction only if the word means something else without
    the symbol ("20" for "-20").

    Args:
        gap: The symbols in one text.
        other_gap: The symbols in the other text.
        before: The word before the symbols, as written. "" at the beginning of a text.
        after: The word after the symbols, as written.

    Returns:
        The name of the field of `Gap` in which they contradict each other, such as "operator". None if they do not.
    """
    if gap == other_gap:
        return None
    one, other = gap.operator, other_gap.operator
    if one and other and one != other and not _is_dash(one, other, before, after):
        marks = len(one) != len(other) and set(one + other) <= {"✓", "✗"}  # a row may have more of them
        return None if marks else "operator"
    one, other = gap.prefix, other_gap.prefix
    if one != other and (
        (one and other) or (one or other) in ("!", "√") or ("-" in (one, other) and after[:1].isdigit())
    ):
        return "prefix"
    one, other = gap.suffix, other_gap.suffix
    if one != other and before:
        code = _CODE.fullmatch(before) is not None and (before.isupper() or "-" not in (one, other))
        if (one and other) or (code and (one or other) in ("+", "-", "++", "#", "♭")):
            return "suffix"
    return None


def _is_dash(one: str, other: str, before: str, after: str) -> bool:
    """Check whether one of two operators is only a dash, a hyphen or a slash in a text, not a sign of arithmetic."""
    if not {one, other} & {"-", "/"}:
        return False
    arithmetic = any(len(word) == 1 or word[:1].isdigit() for word in (before, after))
    return not (arithmetic and {one, other} & _MATHS - {"/"})
