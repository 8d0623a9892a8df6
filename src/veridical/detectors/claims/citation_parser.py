"""Citations in a response, and which sources they cite (C §3.2). Rules, not models; linear; never fails on any text.

Read: `Author (year)`, `Author et al. (2009, 2011a)`, `(see Author & Other, 2009; Third, 2010, p. 5)`, `[3]`,
`[3, 5-7]`, `【3】`, footnote marks (`[^3]`, ³), a source's id or citation in square brackets. No reference lists.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from veridical.core.spans import Span
from veridical.core.stopwords import STOP_WORDS
from veridical.core.types import Source

__all__ = ["Citation", "citations", "definitions", "footnotes", "resolve", "without"]


@dataclass(frozen=True, slots=True)
class Citation:
    """One cited work at one place; a group such as "[3, 5-7]" or "(Ling, 2009; Benton, 2010)" gives several.

    `mark` is the number, footnote name or bracketed label, None for author and year. `authors` are the names as they
    stand there, first author first, without "et al."; `several`: there is more than one of them. `year` is as written
    ("2009a"), None for a mark. `whole` is the span of the group, brackets included, with the author's name only if it
    stands inside them. Not `sure`: what may be no citation at all, such as "(World Cup 2010)".
    """

    span: Span
    whole: Span
    mark: str | None = None
    authors: tuple[str, ...] = ()
    year: str | None = None
    several: bool = False
    sure: bool = True


_PARTICLE = r"(?:(?:van|von|de|der|den|del|della|di|da|du|la|le|al|el|bin|ibn|ter|ten|zu|dos|das)\s+)"
_CAPITAL = "A-ZÀ-ÖØ-ÞĀ-Ž\u0370-\u03ff\u0410-\u042f"
_NAME = rf"(?:(?:[{_CAPITAL}]\.[ -]?){{1,3}}\s?)?(?:d['’]|O['’])?[{_CAPITAL}][^\W\d_]*+(?:[-‐–'’](?!s\b)[^\W\d_]++)*+"
_AUTHOR = rf"{_PARTICLE}{{0,2}}{_NAME}(?:\s{_PARTICLE}{{0,2}}{_NAME}){{0,3}}"
_AND = r"(?:\s*,)?\s*(?:&|\band\b|\bund\b|\bet\b(?!\s+al)|,)\s*"
_OTHERS = r"(?:\s*,)?\s+(?:(?:et|and)\s+al\b\.?|(?:and|&)\s+(?:colleagues|others|coworkers|co-workers))"
_AUTHORS = rf"(?P<authors>{_AUTHOR}(?:{_AND}{_AUTHOR}){{0,7}})(?:{_OTHERS})?"
_YEAR = r"(?:(?:1[5-9]|20)\d\d[a-z]?|n\.\s?d\.|in press|forthcoming)"
_PLACE = r"(?:\s*[,:]\s*(?:pp?\.|ch\.|sec\.|§|fig\.|p)?\s?\d+(?:\s?[-–]\s?\d+)?)?"
_YEARS = rf"(?P<years>{_YEAR}(?:\s*(?:,|;|and|&)\s*{_YEAR})*)"
_NARRATIVE = re.compile(rf"(?<![\w.'’‐–-]){_AUTHORS}(?:['’]s?)?\s*[(\[]\s*{_YEARS}{_PLACE}\s*[)\]]")
_GROUP = re.compile(r"[(\[](?=[^()\[\]]{0,600}\d\d|[^()\[\]]{0,600}(?:n\.|press|forth))[^()\[\]]{4,600}[)\]]")
_ENTRY = re.compile(rf"(?:^|(?<=[\s,.]))(?P<cited>{_AUTHORS}(?:['’]s?)?\s*,?\s*{_YEARS})(?![\w-]){_PLACE}\s*$")
_LEAD = re.compile(r"\s*(?:(?:see|cf\.?|e\.g\.|i\.e\.|also|for example|compare|but|and|as in|in|by|after|from)[\s,]+)*")

_NUMBERS = re.compile(r"(?:\[|【)(?P<items>\s*\d{1,3}(?:\s*[,;–-]\s*\d{1,3}){0,40}\s*)(?:\]|】)")
_ITEM = re.compile(r"(\d{1,3})(?:\s*[–-]\s*(\d{1,3}))?")
_FOOTNOTE = re.compile(r"\[\^(?P<mark>[^\]\s^]{1,64})\]")
_RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹"
# a raised number is a mark behind a stop or a word; "km²", "10³" and "x²" are not
_SUPERSCRIPT = re.compile(rf"(?:(?<=[.,;:!?)\]\"”’])|(?<=[^\W\d_]{{4}}))[{_RAISED}]++(?:[⁻˒,–-][{_RAISED}]++)*+")
_LABEL = re.compile(r"[\[【]([^\[\]【】\n]{1,200})[\]】]")
_DEFINITION = re.compile(r"^[ \t]{0,3}\[\^?(?P<mark>[^\]\s^]{1,64})\]:[ \t]+(?P<body>\S.*)$", re.MULTILINE)


def citations(text: str, labels: Sequence[str] = ()) -> list[Citation]:
    """The citations in `text` in order of their place; `labels` also cite where they stand in brackets.

    >>> [(c.authors, c.year, c.mark) for c in citations("Ling et al. (2009) agree [3], unlike others (Benton, 2010).")]
    [(('Ling',), '2009', None), ((), None, '3'), (('Benton',), '2010', None)]
    """
    defined = [place for place, _, _ in definitions(text)]
    found: list[Citation] = []
    taken: list[Span] = list(defined)
    for reader in (_labels(text, labels), _footnotes(text), _numbers(text), _narrative(text), _groups(text)):
        mine = [c for c in reader if not any(c.whole.overlaps(other) for other in taken)]
        found += mine
        taken += [c.whole for c in mine] + [c.span for c in mine]
    return sorted(found, key=lambda c: (c.span, c.mark or "", c.year or ""))


def definitions(text: str) -> list[tuple[Span, str, str]]:
    """The lines that define a footnote (`[^3]: Ling 2009`): place, mark, what stands behind it."""
    return [(Span(*m.span()), m["mark"], m["body"]) for m in _DEFINITION.finditer(text)]


def _labels(text: str, labels: Sequence[str]) -> Iterator[Citation]:
    known = {_folded(label): label for label in labels}
    for match in _LABEL.finditer(text) if known else ():
        label = known.get(_folded(match[1]))
        if label is not None and not re.fullmatch(r"\s*\d{1,3}\s*", match[1]):
            yield Citation(Span(*match.span()), Span(*match.span()), label)


def _footnotes(text: str) -> Iterator[Citation]:
    for match in _FOOTNOTE.finditer(text):
        yield Citation(Span(*match.span()), Span(*match.span()), match["mark"])
    for match in _SUPERSCRIPT.finditer(text):
        digits = unicodedata.normalize("NFKC", match[0])
        plain = "".join(c if c.isdigit() else "," if c in "˒," else "-" for c in digits)
        yield from _items(plain, match.start(), Span(*match.span()))


def footnotes(text: str) -> list[Span]:
    """The places of the footnote marks (`[^3]`, ³), which stand behind the stop of the sentence they belong to."""
    return [Span(*m.span()) for m in (*_FOOTNOTE.finditer(text), *_SUPERSCRIPT.finditer(text))]


def _numbers(text: str) -> Iterator[Citation]:
    for match in _NUMBERS.finditer(text):
        yield from _items(match["items"], match.start("items"), Span(*match.span()))


def _items(items: str, at: int, whole: Span) -> Iterator[Citation]:
    """The numbers of a group, ranges spelled out; none at all where one is 0 or a range runs backwards: an interval."""
    made: list[Citation] = []
    for match in _ITEM.finditer(items):
        first, last = int(match[1]), int(match[2] or match[1])
        if first < 1 or last < first or last - first > 100:
            return
        place = Span(at + match.start(), at + match.end())
        made += [Citation(place, whole, str(n)) for n in range(first, last + 1)]
    if len(made) == 1:
        made = [Citation(whole, whole, made[0].mark)]
    yield from made


def _narrative(text: str) -> Iterator[Citation]:
    for match in _NARRATIVE.finditer(text):
        bracket = Span(text.rindex("(" if match[0][-1] == ")" else "[", match.start(), match.end()), match.end())
        lead = _lead(match["authors"])
        yield from _by_year(match, Span(match.start() + lead, match.end()), bracket, True)


def _groups(text: str) -> Iterator[Citation]:
    for group in _GROUP.finditer(text):
        at = group.start() + 1
        for part in group[0][1:-1].split(";"):
            lead = _LEAD.match(part)
            body = lead.end() if lead else 0
            match = _ENTRY.search(part[body:])
            if match is not None:
                start = at + body + match.start("cited")
                sure = re.search(rf"[,&]|\band\b|{_OTHERS}", match["cited"]) is not None
                yield from _by_year(match, Span(start, at + len(part.rstrip())), Span(*group.span()), sure)
            at += len(part) + 1


def _lead(authors: str) -> int:
    """How many characters before the names only open the sentence: "However, Ling" is no author's name."""
    at = 0
    for match in re.finditer(r"([^\W\d_]+),?\s+(?=\S)", authors):
        if match.start() != at or match[1].lower() not in _NO_NAMES or not match[1][0].isupper():
            break
        at = match.end()
    return at


_SENTENCE_OPENERS = """
according accordingly additionally also although article besides conversely consequently finally furthermore hence
however indeed later likewise meanwhile moreover nevertheless notably overall paper recently see similarly since
specifically study subsequently though thus whereas yet
"""
_NO_NAMES = STOP_WORDS | frozenset(_SENTENCE_OPENERS.split())


def _by_year(match: re.Match[str], span: Span, whole: Span, sure: bool) -> Iterator[Citation]:
    written = match["authors"]
    authors = _names(written[_lead(written) :])
    several = len(authors) > 1 or re.search(_OTHERS, match[0]) is not None
    for year in re.findall(_YEAR, match["years"]):
        yield Citation(span, whole, None, authors, year, several, sure)


def _names(written: str) -> tuple[str, ...]:
    return tuple(name for part in re.split(_AND, written) if (name := part.strip(" ,")))


def resolve(citation: Citation, sources: Sequence[Source], defined: Sequence[tuple[Span, str, str]] = ()) -> list[str]:
    """The ids of the sources that `citation` can mean, in their order; [] where it cites nothing that is there.

    A mark is a source's citation or id, or what its footnote definition cites; where no source has a number of its own,
    [n] is the n-th. Author and year mean a source whose citation has that year, and the first author's last name among
    the words of its first author (accents and case do not matter); other authors ("et al." too) and the letter of the
    year decide only between several.

    >>> resolve(citations("Ling (2009)")[0], [Source("a", "…", citation="K. Ling et al., 2009"), Source("b", "…")])
    ['a']
    """
    if citation.mark is None:
        return _by_author(citation, sources)
    wanted = _folded(citation.mark)
    own = [s.id for s in sources if wanted in {_folded(s.id), _folded((s.citation or "").strip("[]^ "))}]
    if own:
        return own
    bodies = [body for _, mark, body in defined if _folded(mark) == wanted]
    if bodies:
        return [s.id for s in sources if s.citation and _names_it(bodies[0], s.citation)]
    numbered = any(re.fullmatch(r"\W*\d{1,3}\W*", name) for s in sources for name in (s.id, s.citation or ""))
    place = int(wanted) if wanted.isascii() and wanted.isdigit() else 0
    return [sources[place - 1].id] if not numbered and 1 <= place <= len(sources) else []


def _names_it(reference: str, citation: str) -> bool:
    """Whether a line of references is about the work that is cited so: its first author (longest name) and year."""
    first, _, year, _ = _work(citation)
    return bool(first) and max(first, key=len) in _words(reference) and (year is None or year in reference)


def _by_author(citation: Citation, sources: Sequence[Source]) -> list[str]:
    if not citation.authors or citation.year is None:
        return []
    surname = _folded(citation.authors[0]).split()[-1]
    year = _plain_year(citation.year)
    works = [(s.id, *_work(s.citation)) for s in sources if s.citation]
    found = [w for w in works if surname in w[1] and (w[3] is None or _plain_year(w[3]) == year)]
    others = {_folded(name).split()[-1] for name in citation.authors[1:]}
    for better in (
        [w for w in found if w[3] is not None],
        [w for w in found if w[3] == citation.year],
        [w for w in found if others and others <= w[2]],
        [w for w in found if w[4] == citation.several],
    ):
        kept = [w for w in found if w in better]
        found = kept or found
    return [w[0] for w in found]


def _plain_year(year: str) -> str:
    return re.sub(r"(?<=\d)[a-z]$", "", _folded(year).replace(" ", ""))


@lru_cache(maxsize=4096)
def _work(citation: str) -> tuple[frozenset[str], frozenset[str], str | None, bool]:
    """Of a source's citation: the words of the first author, those of all, the year, and whether they are several."""
    years = re.findall(rf"(?<!\w){_YEAR}(?!\w)", citation)
    people = citation[: citation.rindex(years[-1])] if years else citation
    first = re.split(r"\bet\s+al\b|&|\band\b|,|;|\(", people.lstrip(" ,;(["), maxsplit=1)[0]
    several = re.search(r"\bet\s+al\b|&|\band\b|;", people) is not None
    return frozenset(_words(first)), frozenset(_words(people)), years[-1] if years else None, several


def _words(text: str) -> list[str]:
    return [word for word in re.findall(r"[^\W\d_]+(?:[-'][^\W\d_]+)*", _folded(text)) if len(word) > 1]


@lru_cache(maxsize=4096)
def _folded(text: str) -> str:
    """`text` as names are compared: without accents, case, kinds of dash and apostrophe, doubled or outer blanks."""
    plain = "".join(c for c in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(c))
    return " ".join(plain.replace("’", "'").replace("‐", "-").replace("–", "-").split())


def without(text: str, spans: Sequence[Span]) -> str:
    """`text` without what `spans` cover, blanks closed up: a claim for a checker that knows no citations.

    >>> without("Ling (2009) agrees [3].", [Span(5, 11), Span(19, 22)])
    'Ling agrees.'
    """
    kept = "".join(c for i, c in enumerate(text) if not any(s.start <= i < s.end for s in spans))
    return re.sub(r"\s+([.,;:!?])", r"\1", re.sub(r"[^\S\n]+", " ", kept)).strip()
