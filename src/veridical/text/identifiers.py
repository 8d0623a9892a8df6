"""Find identifiers in a text, and look them up in other texts.

Identifiers are addresses, versions, hashes, files, flags and code names. Two identifiers are compared as a whole, but
some differences in typography are ignored: `https://`, `www.`, a trailing slash, letter case, hyphens and spaces inside
numbers, and `key: value` for `key=value`. An identifier also matches as part of a longer one ("app.conf" in
"/etc/app.conf"), and a version matches a range that contains it. All functions take linear time.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

from veridical.records.spans import Span
from veridical.records.turns import turns_of_others
from veridical.records.types import Case

_ENDINGS = (
    "c|cc|cfg|conf|cpp|cs|css|csv|docx?|env|go|h|hpp|html?|ini|ipynb|java|jpe?g|js|json|jsonl|kt|log|lua|md|pdf|php"
)
_ENDINGS += "|png|pptx?|py|rb|rs|rst|sh|sql|svg|tex|toml|tsx?|txt|xlsx?|xml|ya?ml|zip"
_DOMAINS = "com|org|net|io|dev|edu|gov|mil|info|biz|app|ai|cloud|tech|xyz|online|site|shop|store|blog|eu|uk|de|fr|nl|no"
_DOMAINS += "|se|dk|fi|pl|ch|es|pt|cz|ru|cn|jp|kr|au|ca|nz|br|mx|za|ie"
_PART = r"[\w.+~-]"
_HEX = "[0-9a-fA-F]"
_CALLED = (
    r"(?:[Pp]hone|[Tt]el|[Tt]elephone|[Cc]all|[Ff]ax|[Mm]obile|[Hh]otline|[Dd]ial)\b[^\w+(]{0,3}"
    r"(?:(?:us|them|him|her|number|is|at|on)\b[^\w+(]{0,3}){0,3}"
)
_FORMS = {
    "code": r"`(?P<inside>[^`\n]+)`",
    "url": r"""(?:https?://|ftp://|www\.)[^\s<>"“”|`]+""",
    "doi": r"""(?<![\w.])10\.[0-9]{4,9}/[^\s<>"“”|]+""",
    "mail": r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+",
    "windows_path": r"""[A-Za-z]:\\[^\s<>"“”|]+""",
    "path": rf"(?<!{_PART})(?<!/)(?:~|\.{{1,2}})?(?:/{_PART}+){{2,}}",
    "file": rf"(?<!{_PART})(?<!/)(?:{_PART}+/)*[\w-]+(?:\.[\w-]+)*\.(?:{_ENDINGS})(?![\w-])",
    "domain": rf"(?<![\w.@/-])(?:[A-Za-z0-9][A-Za-z0-9-]{{0,62}}\.){{1,8}}(?:{_DOMAINS})(?![\w@-]|\.\w)"
    r"""(?:/[^\s<>"“”|]*)?""",
    "uuid": rf"(?<![\w-]){_HEX}{{8}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}}(?![\w-])",
    "mac": rf"(?<![\w:-]){_HEX}{{2}}(?:[:-]{_HEX}{{2}}){{5}}(?![\w:-])",
    "ipv6": rf"(?<![\w:]){_HEX}{{1,4}}(?::{{1,2}}{_HEX}{{1,4}}){{3,7}}(?![\w:])",
    "iban": r"(?<!\w)[A-Z]{2}[0-9]{2}(?:[ -]?[A-Z0-9]{4}){2,7}(?:[ -]?[A-Z0-9]{1,3})?(?!\w)",
    "hash": r"(?<![\w.-])(?=[a-fA-F]{0,128}[0-9])(?=[0-9]{0,128}[a-fA-F])(?:[0-9a-f]{7,128}|[0-9A-F]{16,128})(?![\w-])",
    "token": r"(?<![\w-])(?=[A-Za-z_-]{0,128}[0-9])(?=[0-9A-Z_-]{0,128}[a-z])(?=[0-9a-z_-]{0,128}[A-Z])[\w-]{20,128}"
    r"(?![\w-])",
    "card": r"(?<![\w.,-])(?:[0-9]{4}(?:[ -][0-9]{4}){3}|[0-9]{13,19})(?![\w-]|[.,][0-9])",
    "isbn": r"(?<!\w)(?:ISBN(?:-1[03])?:?\s?[0-9](?:[ -]?[0-9]){8}[ -]?[0-9Xx](?:(?:[ -]?[0-9]){3})?"
    r"|97[89](?:[ -]?[0-9]){10})(?![\w-])",
    "phone": rf"(?<![\w.,+/-])(?:(?:\+|00(?=[1-9]))[0-9]|{_CALLED}\(?[0-9])(?:[ ()./-]{{0,3}}[0-9]){{5,14}}"
    r"(?!\w|[.,-][0-9])"
    r"|(?<![\w.,+/-])\(?[0-9]{3}\)?[ .-][0-9]{3}[ .-][0-9]{4}(?!\w|[.,-][0-9])",
    "flag": r"(?<![\w-])--[A-Za-z][\w-]*",
    "pair": r"(?<![\w.=&?/-])[A-Za-z][\w.-]{1,60}=[\w.:/@%+-]{1,80}(?![\w=*(])",
    "function": r"(?<![\w$.:])(?:[A-Za-z_$][\w$]*(?:\.|::)){0,8}[A-Za-z_$][\w$]*\(\)",
    "name": r"(?<![\w$.:])(?:[a-z_]\w*(?:\.|::)){0,8}(?:[A-Za-z0-9]+_\w+|_\w+|[a-z]{2,}[A-Z][a-z]\w*)",
    "version": r"(?<![\w.])(?:[Vv]ersions?\s|[Rr]elease\s|v\.?\s?)[0-9]+(?:\.[0-9]+)+"
    r"(?:-?(?:alpha|beta|rc|dev)\.?[0-9]*)?"
    r"|(?<![\w.,])(?![0-9]{1,3}(?:\.[0-9]{3}){2,}(?!\w|\.\w))(?![0-9]{1,2}\.[0-9]{1,2}\.[0-9]{4})"
    r"[0-9]+(?:\.[0-9]+){2,}(?:-?(?:alpha|beta|rc|dev)\.?[0-9]*)?(?!\w|,[0-9])",
    "ticket": r"(?<![\w-])(?!COVID)[A-Z]{2,}(?:-[0-9]+)*-[0-9]{2,}(?![\w-])",  # or a CVE
    "number": r"(?<![\w&])#[0-9]+(?!\w|,[0-9])",
    "standard": r"(?<!\w)(?:RFC|PEP|ISO(?:/IEC)?|IEC|DIN|arXiv|ISBN|ISSN|PMID)[: -]{0,2}[0-9][0-9.:Xx-]*",
    "section": r"(?<!§)§{1,2}\s?[0-9]+\w*",
    "item": r"(?<![\w-])(?!(?:FY|CY|AD|EUR|USD|GBP|CHF|JPY|SEK|NOK|DKK|AUD|CAD)[0-9])[A-Z]{1,5}-?[0-9]{3}[A-Z0-9]*+"
    r"(?:-[A-Z0-9]++)*+(?![\w-])",
}
_ANYWHERE = ("code", "url", "windows_path", "section")  # all others never begin inside a word


def _any_of(kinds: Iterable[str]) -> str:
    return "|".join(f"(?P<{kind}>{_FORMS[kind]})" for kind in kinds)


_PATTERN = re.compile(
    rf"{_any_of(_ANYWHERE)}|(?<!\w)(?=\S)(?:{_any_of(kind for kind in _FORMS if kind not in _ANYWHERE)})"
)
_LEAD = re.compile(rf"^(?:(?:versions?|release)\s+|v\.?\s?(?=[0-9])|{_CALLED}(?=\(?[0-9]))", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Identifier:
    """An identifier in a text, such as a file name, version, address or function.

    Attributes:
        kind: The kind of identifier, such as "url", "file", "version" or "function".
        span: The characters of the identifier as written.
        name: The text to search for in other texts, such as "1.2" for "version 1.2".
    """

    kind: str
    span: Span
    name: str


@lru_cache(maxsize=64)
def identifiers(text: str) -> tuple[Identifier, ...]:
    """Find the identifiers in a text, in order. Results for recent texts are cached.

    >>> [each.name for each in identifiers("Call `read()` or parse_rows(), see https://a.org/b.")]
    ['read', 'parse_rows', 'https://a.org/b']
    """
    found = []
    for match in _PATTERN.finditer(text):
        kind = str(match.lastgroup)
        if match["inside"] is not None and " " in match["inside"].strip():  # a command: its flags and files count
            start = match.start("inside")
            found += [replace(each, span=each.span.shift(start)) for each in identifiers(match["inside"])]
            continue
        group = "inside" if match["inside"] is not None else 0
        written = match[group] if match[group].endswith("()") else match[group].rstrip(".,;:!?'’\"”)]}*")
        lead = _LEAD.match(written) if kind in ("version", "phone") else None
        name = written[lead.end() if lead else 0 :].removesuffix("()").strip()
        if any(char.isalnum() for char in name):
            start = match.start(group) + (lead.end() if lead and kind == "phone" else 0)
            span = Span(start, match.start(group) + len(written))
            found.append(Identifier("code" if group else kind, span, name))
    return tuple(found)


# ------------------------------------------------------------------------------------------------------ looking up

_CHANGES = (
    (re.compile("[\u00ad\u200b-\u200d\u2060\ufeff]"), ""),
    (re.compile("[‐‑−]"), "-"),
    (re.compile(r"(?<![\w–—-])[–—](?=[a-z])"), "--"),  # a word processor makes a dash of the two hyphens of a flag
    (re.compile(r"\\(?=[_.*#-])"), ""),
    (re.compile(r"\\"), "/"),
    (re.compile(r"(?:https?|ftp)://|\bwww\.|\bmailto:"), ""),
)
_SPACED = frozenset({"phone", "iban", "card", "isbn", "ticket", "standard", "item", "mac"})
_NAMES = frozenset({"code", "name", "function", "file"})
_ADDRESSES = frozenset({"url", "domain", "path", "windows_path", "file"})
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])|[\W_]+")
_RANGE = re.compile(
    r"(?<![0-9])(?<![0-9]\.)(?P<least>[0-9]++(?:\.[0-9]++)*+)(?:\.x)?"
    r"\s{0,2}(?:-|–|to|through|until|up to|and)\s{0,2}(?:version\s)?v?"
    r"(?P<most>[0-9]++(?:\.[0-9]++)*+)"
    r"|(?:>=?|≥|from|since|after|at least|(?P<below><=?|≤|until|before|below|up to|at most))\s{0,2}(?:version\s)?v?"
    r"(?P<bound>[0-9]++(?:\.[0-9]++)*+)"
    r"|(?<![0-9])(?<![0-9]\.)(?:version\s)?v?(?P<open>[0-9]++(?:\.[0-9]++)*+)"
    r"(?:\+|\s(?:or|and)\s(?:(?P<older>older|earlier|lower|below)|later|newer|higher|above|up|greater))"
)
_PARTS_OF_VERSION = 6


def _plain(text: str) -> str:
    """Convert a text to the form in which identifiers are compared."""
    text = html.unescape(text).casefold() if "&" in text else text.casefold()
    for pattern, replacement in _CHANGES:
        text = pattern.sub(replacement, text)
    return text


class KnownIdentifiers:
    """A searchable collection of the identifiers in some texts. Write `identifier in known` to look one up.

    The lookup ignores letter case, `https://`, `www.`, a trailing slash, and hyphens and spaces inside numbers. It also
    finds an identifier as part of a longer one ("app.conf" in "/etc/app.conf"), and a version inside a range.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._text = _plain("\n".join(texts))

    def __contains__(self, identifier: Identifier) -> bool:
        """Check whether a text has the identifier, alone or as part of a longer one."""
        name, kind = _plain(identifier.name).rstrip("/"), identifier.kind
        if self._has(name, version=kind == "version"):
            return True
        if kind == "hash":
            return re.search(rf"(?<![0-9a-z]){re.escape(name)}", self._text) is not None
        if kind in _SPACED:
            return self._has_spaced(name, kind)
        if kind == "section":
            return self._has(name.lstrip("§ "))
        if kind == "pair":
            return self._has_pair(name)
        if kind == "flag":
            return "-" in name.strip("-") and self._has(name.strip("-"))
        if kind == "version":
            return (name.endswith(".0") and self._has(name.removesuffix(".0"), version=True)) or self._in_range(name)
        if kind in _ADDRESSES and self._has_in_parts(name.removeprefix("./")):
            return True
        return kind in _NAMES and self._has_words(identifier.name)

    def _has(self, name: str, *, version: bool = False) -> bool:
        """Check whether a text has `name` as a whole word or number."""
        if not name or name not in self._text:
            return False
        before = r"(?<![\w-])" if name[0] == "-" else r"(?<!\w)" if name[0].isalpha() else ""
        if name[0].isdigit():
            before = r"(?<![0-9.])" if version else r"(?<![0-9])"
        after = r"(?![\w-])" if name.startswith("--") else r"(?!\w)" if name[-1].isalnum() else ""
        return re.search(before + re.escape(name) + after, self._text) is not None

    def _has_spaced(self, name: str, kind: str) -> bool:
        """Check whether a text has a number, even with other spaces, hyphens or brackets in it."""
        signs = re.sub(r"[\W_]+", "", name)
        if kind == "phone":  # with or without the code of the country
            tails = (signs.lstrip("0")[i:].lstrip("0") for i in range(4))
            return any(self._has_row(tail, r"(?<![1-9])") for tail in tails if len(tail) >= 7)
        return self._has_row(signs)

    def _has_row(self, pieces: Iterable[str], before: str = r"(?<![^\W_])") -> bool:
        """Check whether a text has these pieces in a row, with at most three spaces or marks between two of them."""
        pattern = before + r"[\W_]{0,3}".join(map(re.escape, pieces)) + r"(?![^\W_])"
        return re.search(pattern, self._text) is not None

    def _has_pair(self, name: str) -> bool:
        key, _, value = name.partition("=")
        between = r"[\"'`*]{0,3}\s{0,3}(?:=|:|\bis\b|\bto\b|\bof\b)?\s{0,3}[\"'`*]{0,3}"
        pattern = rf"(?<![\w-])(?:--)?{re.escape(key)}{between}{re.escape(value)}(?!\w|\.[0-9])"
        return re.search(pattern, self._text) is not None

    def _has_in_parts(self, name: str) -> bool:
        """Check whether the texts have a path or address, either whole or as a prefix and a rest in two places."""
        if self._has(name):
            return True
        slashes = [match.start() for match in re.finditer("/", name)][:20]
        return any(
            len(name) - i > 2 and self._has(name[:i]) and (self._has(name[i:]) or self._has(name[i + 1 :]))
            for i in slashes
            if i and "." in name
        )

    def _has_words(self, name: str) -> bool:
        """Check whether a text has the words of a code name with other marks between them ("user ID", `user_id`)."""
        words = [word.casefold() for word in _HUMP.split(name) if word]
        return len(words) > 1 and words[0] in self._text and self._has_row(words)

    @cached_property
    def _ranges(self) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        """The lowest and the highest version of each range in the texts."""
        ranges = []
        for match in _RANGE.finditer(self._text):
            if "." not in match[0] and "version" not in match[0]:
                continue
            least, most = match["least"] or match["open"] or match["bound"], match["most"]
            lower, upper = _version(least), _version(most) if most else (10**9,)
            if match["below"] or match["older"]:
                lower, upper = (0,), lower
            ranges.append((lower, upper))
        return ranges

    def _in_range(self, name: str) -> bool:
        version = _version(name)
        return any(lower <= version and version[: len(upper)] <= upper for lower, upper in self._ranges)


def _version(name: str) -> tuple[int, ...]:
    return tuple(int(part[:9]) for part in re.findall("[0-9]+", name)[:_PARTS_OF_VERSION])


def known_identifiers(case: Case) -> KnownIdentifiers:
    """Collect the identifiers that the sources and the user mention, to find identifiers that a response invents.

    The ids, citations and metadata of the sources are included.
    """
    asked = (case.question or "", *(turn.text for turn in turns_of_others(case)))
    about = (text for source in case.sources for text in (source.id, source.citation or "", *_texts(source.metadata)))
    return KnownIdentifiers((*(source.text for source in case.sources), *about, *asked))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str | int):
        yield str(value)
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)
