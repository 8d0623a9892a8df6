"""Find citations in a text, and the sources that they refer to.

The rules find `Author (year)`, `Author et al. (2009, 2011a)`, `(see Author & Other, 2009; Third, 2010, p. 5)`, `[3]`,
`[3, 5-7]`, `【3】`, `【2:0†source】`, `[Source 3]`, `(document 3)`, `<source>3</source>`, and footnote marks (`[^3]`,
`[^3^]`, ³, `<sup>3</sup>`). They also find the id, citation, file or title of a source in brackets, with or without a
page, and `Author et al., 2009` without brackets if it matches a source.

A mark is a number, footnote name or bracketed label that cites a source, in contrast to an author and a year. Reference
lists are not parsed. All rules take linear time.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from veridical.records.spans import Span, subtract
from veridical.records.types import Source
from veridical.text.segment import has_words, sentences
from veridical.text.stopwords import STOP_WORDS

DANGLING, MISSING, WRONG = "dangling citation", "missing citation", "wrong citation"


# ------------------------------------------------------------------------------------------- finding citations


@dataclass(frozen=True, slots=True)
class Citation:
    """A reference to one cited work, at one position in a text.

    A group such as "[3, 5-7]" or "(Ling, 2009; Benton, 2010)" consists of several citations.

    Attributes:
        span: The characters that cite this work.
        group: The span of the complete group with its brackets. An author's name outside the brackets is not part of
            the group.
        mark: The number, footnote name or bracketed label. None for a citation by author and year.
        authors: The names as written, first author first, without "et al.". Empty for a citation by mark.
        year: The year as written, such as "2009a". None for a citation by mark.
        has_coauthors: If true, there is more than one author, even if the others are only "et al.".
        certain: If false, the text may not be a citation at all, such as "(World Cup 2010)".
    """

    span: Span
    group: Span
    mark: str | None = None
    authors: tuple[str, ...] = ()
    year: str | None = None
    has_coauthors: bool = False
    certain: bool = True


_PARTICLE = r"(?:(?:van|von|de|der|den|del|della|di|da|du|la|le|al|el|bin|ibn|ter|ten|zu|dos|das)\s++)"
_CAPITAL = "A-ZÀ-ÖØ-ÞĀ-Ž\u0370-\u03ff\u0410-\u042f"
_NAME = rf"(?:(?:[{_CAPITAL}]\.[ -]?){{1,3}}\s?)?(?:d['’]|O['’])?[{_CAPITAL}][^\W\d_]*+(?:[-‐–'’](?!s\b)[^\W\d_]++)*+"
_AUTHOR = rf"{_PARTICLE}{{0,2}}{_NAME}(?:\s{_PARTICLE}{{0,2}}{_NAME}){{0,3}}"
_AND = r"(?:(?<!\s)\s++)?+(?:,\s*+)?(?:&|\band\b|\bund\b|\bet\b(?!\s+al)|,)\s*+"
_OTHERS = r"(?<!\s)(?:\s*+,)?\s++(?:(?:et|and)\s++al\b\.?|(?:and|&)\s++(?:colleagues|others|coworkers|co-workers))"
_AUTHORS = rf"(?P<authors>{_AUTHOR}(?:{_AND}{_AUTHOR}){{0,7}})(?:{_OTHERS})?"
_YEAR = r"(?:(?:1[5-9]|20)\d\d[a-z]?|n\.\s?d\.|in press|forthcoming)"
_PAGES = r"(?:\s*+[,:]\s*+(?:pp?\.|ch\.|sec\.|§|fig\.|p)?\s?\d+(?:\s?[-–]\s?\d+)?)?"
_YEARS = rf"(?P<years>{_YEAR}(?:\s*+(?:,|;|and|&)\s*+{_YEAR})*)"
_NARRATIVE = re.compile(rf"(?<![\w.'’‐–-]){_AUTHORS}(?:['’]s?)?\s*+[(\[]\s*+{_YEARS}{_PAGES}\s*+[)\]]")
_WITHOUT_BRACKETS = re.compile(rf"(?<![\w.'’‐–-]){_AUTHORS}(?:['’]s?)?(?:\s*+,)?\s*+(?<=[\s,]){_YEARS}(?![\w–-])")
_GROUP = re.compile(r"[(\[](?=[^()\[\]]{0,600}\d\d|[^()\[\]]{0,600}(?:n\.|press|forth))[^()\[\]]{4,600}[)\]]")
_ENTRY = re.compile(rf"(?:^|(?<=[\s,.]))(?P<cited>{_AUTHORS}(?:['’]s?)?\s*+,?\s*+{_YEARS})(?![\w-]){_PAGES}\s*+$")
_LEAD = re.compile(r"\s*(?:(?:see|cf\.?|e\.g\.|i\.e\.|also|for example|compare|but|and|as in|in|by|after|from)[\s,]+)*")

_NUMBERED = (
    r"\s*+(?:sources?|documents?|docs?|passages?|contexts?|chunks?|snippets?|excerpts?|papers?|refs?\.?)"
    r"\s*+(?:#\s*+)?+"
)
_NUMBERS = re.compile(
    rf"(?:[\[【](?:{_NUMBERED})?|\({_NUMBERED})"
    rf"(?P<items>\s*+\d{{1,3}}(?:\s*+(?:[,;–-]|and|&)\s*+(?:{_NUMBERED})?\d{{1,3}}){{0,40}}\s*+)(?:†[^\]】\n]{{0,80}})?[\]】)]",
    re.IGNORECASE,
)
_ITEM = re.compile(r"(\d{1,3})(?:\s*[–-]\s*(\d{1,3}))?")
_FOOTNOTE = re.compile(r"\[\^(?P<mark>[^\]\s^]{1,64})\^?\]")
_LIST = r"\d{1,3}(?:\s{0,3}[,;–-]\s{0,3}\d{1,3}){0,40}+"
_TAGGED = re.compile(
    rf"(?:(?<=[.,;:!?)\]\"”’\s])|(?<=[^\W\d_]{{4}}))<(?P<tag>sup|source|cite|ref|citation|doc)\b[^<>]{{0,100}}>"
    rf"\s{{0,3}}\[?(?P<items>{_LIST})\]?\s{{0,3}}</(?P=tag)>",
    re.IGNORECASE,
)
_OF_A_SEARCH = re.compile(r"【\d{1,4}:\d{1,4}(?:†(?P<name>[^】\n]{0,200}))?】")  # OpenAI's, of its search in files
_RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹"
# a raised number is a footnote mark only after punctuation or a longer word, unlike in "km²", "10³" and "x²"
_SUPERSCRIPT = re.compile(rf"(?:(?<=[.,;:!?)\]\"”’])|(?<=[^\W\d_]{{4}}))[{_RAISED}]++(?:[⁻˒,–-][{_RAISED}]++)*+")
_NUMBER = re.compile(r"\s*\d{1,3}\s*")
_LABEL = re.compile(r"[\[【]([^\[\]【】\n]{1,200})[\]】]|\(([^()\n]{1,200})\)")
_BEFORE_LABEL = re.compile(
    r"\s*(?:(?:source|file|document|doc|ref|reference|from|see|cf\.?|per)s?\s*:?\s+)?", re.IGNORECASE
)
_AFTER_LABEL = re.compile(
    r"(?:[,:#]\s{0,3}|\s{1,3})\(?(?:pp?\.?|pages?|slides?|sheets?|sections?|sec\.|§|chapters?|ch\.|lines?|paragraphs?|para\.)"
    r"\s{0,3}[\w.]{1,12}(?:\s?[-–]\s?[\w.]{1,12})?\)?\s*\Z",
    re.IGNORECASE,
)
_NAMES = ("source", "file_name", "filename", "file", "title", "name", "url")
_DEFINITION = re.compile(r"^[ \t]{0,3}\[\^?(?P<mark>[^\]\s^]{1,64})\]:[ \t]+(?P<body>\S.*)$", re.MULTILINE)

_SENTENCE_OPENERS = """
according accordingly additionally also although article besides conversely consequently finally furthermore hence
however indeed later likewise meanwhile moreover nevertheless notably overall paper recently see similarly since
specifically study subsequently though thus whereas yet
"""
_NO_NAMES = STOP_WORDS | frozenset(_SENTENCE_OPENERS.split())


def find_citations(text: str, sources: Sequence[Source] = ()) -> list[Citation]:
    """Find the citations in a text, in order.

    If you pass the sources, two more forms are found: the id, citation, file or title of a source in brackets, and an
    author and a year without brackets that refer to a source.

    >>> [(c.authors, c.year, c.mark) for c in find_citations("Ling et al. (2009) agree [3], unlike (Benton, 2010).")]
    [(('Ling',), '2009', None), ((), None, '3'), (('Benton',), '2010', None)]
    >>> [c.year for c in find_citations("Ling, 2009 agrees.", [Source("a", "…", citation="K. Ling et al., 2009")])]
    ['2009']
    """
    narrative: list[Citation] = []
    for match in _NARRATIVE.finditer(text):
        bracket = max(text.rfind(opening, match.start(), match.end()) for opening in "([")
        narrative += _by_year(match, match.start() + _opener(match["authors"]), Span(bracket, match.end()))
    without_brackets: list[Citation] = []
    for match in _WITHOUT_BRACKETS.finditer(text) if any(source.citation for source in sources) else ():
        span = Span(match.start() + _opener(match["authors"]), match.end())
        without_brackets += [c for c in _by_year(match, span.start, span) if resolve_citation(c, sources)]
    labels = {label for source in sources for label in _labels(source)}
    marked = [citation for match in _LABEL.finditer(text) for citation in _labelled(match, labels)]
    marked += [Citation(Span(*m.span()), Span(*m.span()), m["mark"]) for m in _FOOTNOTE.finditer(text)]
    for match in _OF_A_SEARCH.finditer(text):
        span, name = Span(*match.span()), match["name"] or ""
        marked.append(Citation(span, span, name if _folded(name) in labels else match[0][1:-1], certain=False))
    citations: list[Citation] = []
    taken = bytearray(len(text))  # 1 for each character of a citation; a bytearray is quick to search
    for span, _, _ in footnote_definitions(text):
        taken[span.start : span.end] = b"\1" * len(span)
    for candidates in (marked, _numbers(text), narrative, _groups(text), without_brackets):
        new = [c for c in candidates if taken.find(1, c.group.start, c.group.end) < 0]
        for span in (span for c in new for span in (c.group, c.span)):
            taken[span.start : span.end] = b"\1" * len(span)
        citations += new
    return sorted(citations, key=lambda c: (c.span, c.mark or "", c.year or ""))


@lru_cache(maxsize=4096)
def _names_of(id: str, citation: str, named: tuple[str, ...]) -> frozenset[str]:
    files = {name.replace("\\", "/").rpartition("/")[2] for name in (id, *named)}
    return frozenset(_folded(name) for name in (id, citation, citation.strip("[]^ "), *named, *files) if name)


def _labels(source: Source) -> frozenset[str]:
    """Return the folded names of a source: its id, its citation, and the file, title or address in its metadata."""
    metadata = source.metadata or {}
    named = tuple(text for name in _NAMES if isinstance(text := metadata.get(name), str) and len(text) <= 200)
    return _names_of(source.id, source.citation or "", named)


def _labelled(match: re.Match[str], labels: Collection[str]) -> Iterator[Citation]:
    """Read the names in brackets as citations if there are only names of sources, with or without a page.

    In round brackets, a name must look like that of a file, or stand after a word such as "source".
    """
    inner, is_round, span = match[1] or match[2], match[1] is None, Span(*match.span())
    if _NUMBER.fullmatch(inner):
        return
    names = [inner] if _folded(inner) in labels else inner.split(";")
    bare = []
    for name in names:
        lead = _BEFORE_LABEL.match(name)
        start = lead.end() if lead and _folded(name) not in labels else 0
        bare.append(_AFTER_LABEL.sub("", name[start:]).strip())
        is_work = re.search(rf",\s{{0,3}}{_YEAR}$", bare[-1])  # an author and a year
        is_file = re.search(r"[._/\d]", bare[-1]) and re.search(r"[^\W\d_]", bare[-1]) and not is_work
        if _folded(bare[-1]) not in labels or (is_round and not start and not is_file):
            return
    yield from (Citation(span, span, name) for name in bare)


def footnote_definitions(text: str) -> list[tuple[Span, str, str]]:
    """Find the lines that define a footnote, such as `[^3]: Ling 2009`.

    Returns:
        For each line, its span, its mark ("3"), and the text after the mark ("Ling 2009").
    """
    return [(Span(*m.span()), m["mark"], m["body"]) for m in _DEFINITION.finditer(text)]


def footnotes(text: str) -> dict[str, str]:
    """Map the mark of each footnote that is defined in `text`, such as "3", to the text of the footnote.

    The marks are in lower case and without accents. If several footnotes have the same mark, the first one is used.
    """
    return {_folded(mark): body for _, mark, body in reversed(footnote_definitions(text))}


def footnote_marks(text: str) -> list[Span]:
    """Find the spans of footnote marks, such as `[^3]`, ³ or `<sup>3</sup>`.

    A mark may stand after the full stop of the sentence that it belongs to.
    """
    return [*(Span(*m.span()) for m in (*_FOOTNOTE.finditer(text), *_SUPERSCRIPT.finditer(text))), *tagged_marks(text)]


def tagged_marks(text: str) -> list[Span]:
    """Find the spans of citation numbers in tags, such as `<sup>3</sup>` or `<source>3</source>`."""
    return [Span(*m.span()) for m in _TAGGED.finditer(text)]


def statements(text: str, *, cited: bool = False) -> list[Span]:
    r"""Find the span of each sentence that contains words.

    If `cited` is set, a footnote mark is part of the sentence before it, and lines that define footnotes are skipped.

    >>> [s.of("It rains.\n\n***\n\nIt pours.") for s in statements("It rains.\n\n***\n\nIt pours.")]
    ['It rains.', 'It pours.']
    """
    characters, definitions = list(text), []
    if cited:
        definitions = [span for span, _, _ in footnote_definitions(text)]
        for mark in footnote_marks(text):
            # replaced by closing brackets, which the segmenter keeps with the sentence before them
            characters[mark.start : mark.end] = ")" * len(mark)
    starts, ends = [span.start for span in definitions], [span.end for span in definitions]
    parts = (
        part
        for span in sentences("".join(characters))
        for part in subtract([span], definitions[bisect_right(ends, span.start) : bisect_left(starts, span.end)])
    )
    return [span for span in parts if has_words(span.of(text))]


def _numbers(text: str) -> Iterator[Citation]:
    """Find citations by raised or bracketed numbers, one for each number of a range, leaving out intervals ([0, 1])."""
    tagged = list(_TAGGED.finditer(text))
    insides = {match.start("items") - 1 for match in tagged}
    in_brackets = [match for match in _NUMBERS.finditer(text) if match.start() not in insides]
    groups = [(match["items"], match.start("items"), match) for match in (*in_brackets, *tagged)]
    for match in _SUPERSCRIPT.finditer(text):
        digits = unicodedata.normalize("NFKC", match[0])
        plain = "".join(c if c.isdigit() else "," if c in "˒," else "-" for c in digits)
        groups.append((plain, match.start(), match))
    for items, start, group in groups:
        ranges = [(item.span(), int(item[1]), int(item[2] or item[1])) for item in _ITEM.finditer(items)]
        if any(first < 1 or not first <= last <= first + 100 for _, first, last in ranges):
            continue
        group_span = Span(*group.span())
        numbers = [(Span(*span).shift(start), n) for span, first, last in ranges for n in range(first, last + 1)]
        for span, n in numbers:
            yield Citation(group_span if len(numbers) == 1 else span, group_span, str(n))


def _groups(text: str) -> Iterator[Citation]:
    """Find citations by authors and years inside brackets."""
    for group in _GROUP.finditer(text):
        start = group.start() + 1
        for part in group[0][1:-1].split(";"):
            lead = _LEAD.match(part)
            body = lead.end() if lead else 0
            match = _ENTRY.search(part[body:])
            if match is not None:
                span = Span(start + body + match.start("cited"), start + len(part.rstrip()))
                certain = re.search(rf"[,&]|\band\b|{_OTHERS}", match["cited"]) is not None
                yield from _by_year(match, span.start, Span(*group.span()), span.end, certain)
            start += len(part) + 1


def _opener(authors: str) -> int:
    """Count the characters before the names that only open the sentence, such as "However, " in "However, Ling"."""
    end = 0
    for match in re.finditer(r"(?<![^\W\d_])([^\W\d_]++),?\s++(?=\S)", authors):
        if match.start() != end or match[1].lower() not in _NO_NAMES or not match[1][0].isupper():
            break
        end = match.end()
    return end


def _by_year(
    match: re.Match[str], start: int, group: Span, end: int | None = None, certain: bool = True
) -> Iterator[Citation]:
    """Yield one citation per year that `match` names, from `start` to `end` (None: the end of the group)."""
    written = match["authors"][_opener(match["authors"]) :]
    authors = tuple(name for part in re.split(_AND, written) if (name := part.strip(" ,")))
    has_coauthors = len(authors) > 1 or re.search(_OTHERS, match[0]) is not None
    for year in re.findall(_YEAR, match["years"]):
        yield Citation(Span(start, end or group.end), group, None, authors, year, has_coauthors, certain)


# ------------------------------------------------------------------------------------ which source is meant


def resolve_citation(
    citation: Citation, sources: Sequence[Source], notes: Mapping[str, str] | None = None
) -> list[str]:
    """Find the sources that a citation may refer to, and return their ids in the order of `sources`.

    The list is empty if the citation refers to no source.

    A mark, such as "[3]", refers to the source with this citation or id, or to the source that its footnote cites. If
    no source has a number as its id or citation, [n] is the n-th source.

    An author and a year refer to a source if its citation has the same year or no year, and if the name of its first
    author contains the last name of the cited first author. Accents and letter case are ignored. If several sources
    match, the other authors, "et al." and the letter after the year decide between them.

    Args:
        citation: A citation from `find_citations`.
        sources: The sources of the case.
        notes: The footnotes of the response, from `footnotes`.

    >>> (citation,) = find_citations("Ling (2009)")
    >>> resolve_citation(citation, [Source("a", "…", citation="K. Ling et al., 2009"), Source("b", "…")])
    ['a']
    """
    if citation.mark is None:
        return _by_author(citation, sources)
    mark = _folded(citation.mark)
    marked = [s.id for s in sources if mark in _labels(s)]
    if marked:
        return marked
    reference = (notes or {}).get(mark)
    if reference is not None:
        words = set(_name_words(reference))
        works = [(s.id, _cited_work(s.citation)) for s in sources if s.citation]
        return [
            id
            for id, work in works
            if work.first and max(work.first, key=len) in words and (work.year is None or work.year in reference)
        ]
    numbered = any(re.fullmatch(r"\W*\d{1,3}\W*", name) for s in sources for name in (s.id, s.citation or ""))
    number = int(mark) if mark.isascii() and mark.isdigit() else 0
    return [sources[number - 1].id] if not numbered and 1 <= number <= len(sources) else []


def _by_author(citation: Citation, sources: Sequence[Source]) -> list[str]:
    if not citation.authors or citation.year is None:
        return []
    surname = _folded(citation.authors[0]).split()[-1]
    year = _without_letter(citation.year)
    works = [(s.id, _cited_work(s.citation)) for s in sources if s.citation]
    works = [(id, w) for id, w in works if surname in w.first and (w.year is None or _without_letter(w.year) == year)]
    coauthors = {_folded(name).split()[-1] for name in citation.authors[1:]}
    for better in (
        [(id, w) for id, w in works if w.year is not None],
        [(id, w) for id, w in works if w.year == citation.year],
        [(id, w) for id, w in works if coauthors and coauthors <= w.everyone],
        [(id, w) for id, w in works if w.has_coauthors == citation.has_coauthors],
    ):
        works = [pair for pair in works if pair in better] or works
    return [id for id, _ in works]


def _without_letter(year: str) -> str:
    return re.sub(r"(?<=\d)[a-z]$", "", _folded(year).replace(" ", ""))


@dataclass(frozen=True, slots=True)
class _CitedWork:
    """A source's citation: the words of its first author and of all authors, its year, whether it has coauthors."""

    first: frozenset[str]
    everyone: frozenset[str]
    year: str | None
    has_coauthors: bool


@lru_cache(maxsize=4096)
def _cited_work(citation: str) -> _CitedWork:
    years = re.findall(rf"(?<!\w){_YEAR}(?!\w)", citation)
    people = citation[: citation.rindex(years[-1])] if years else citation
    first = re.split(r"\bet\s+al\b|&|\band\b|,|;|\(", people.lstrip(" ,;(["), maxsplit=1)[0]
    has_coauthors = re.search(r"\bet\s+al\b|&|\band\b|;", people) is not None
    words = frozenset(_name_words(first)), frozenset(_name_words(people))
    return _CitedWork(*words, years[-1] if years else None, has_coauthors)


def _name_words(text: str) -> list[str]:
    return [word for word in re.findall(r"[^\W\d_]+(?:[-'][^\W\d_]+)*", _folded(text)) if len(word) > 1]


@lru_cache(maxsize=4096)
def _folded(text: str) -> str:
    """Normalise `text` to compare names: remove accents, case, extra spaces, variants of dashes and apostrophes."""
    plain = "".join(c for c in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(c))
    return " ".join(plain.replace("’", "'").replace("‐", "-").replace("–", "-").split())
