"""Find references that no source has: functions, options, files, versions, addresses, tickets, standards, citations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from veridical.core.messages import turns_of_others
from veridical.core.spans import Span, union
from veridical.core.types import Case
from veridical.detectors.claims.citations import Citation, find_citations, footnote_definitions, resolve_citation

__all__ = ["invented_references", "references"]

_ENDINGS = (
    "c|cc|cfg|conf|cpp|cs|css|csv|docx?|env|go|h|hpp|html?|ini|ipynb|java|jpe?g|js|json|jsonl|kt|log|lua|md|pdf|php"
)
_ENDINGS += "|png|pptx?|py|rb|rs|rst|sh|sql|svg|tex|toml|tsx?|txt|xlsx?|xml|ya?ml|zip"
_PART = r"[\w.+~-]"
_PATTERN = re.compile(
    "|".join(
        (
            r"`(?P<code>[^`\n]+)`",
            r"""(?:https?://|www\.)[^\s<>"“”|]+""",
            r"""(?<![\w.])10\.[0-9]{4,9}/[^\s<>"“”|]+""",  # a DOI
            r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+",
            r"""[A-Za-z]:\\[^\s<>"“”|]+""",
            rf"(?<!{_PART})(?<!/)(?:~|\.{{1,2}})?(?:/{_PART}+){{2,}}",
            rf"(?<!{_PART})(?<!/)(?:{_PART}+/)*[\w-]+(?:\.[\w-]+)*\.(?:{_ENDINGS})(?![\w-])",
            r"(?<![\w-])--[a-z][\w-]*",
            r"(?<![\w$.:])(?:[A-Za-z_$][\w$]*(?:\.|::)){0,8}[A-Za-z_$][\w$]*\(\)",
            r"(?<![\w$.:])(?:[a-z_]\w*(?:\.|::)){0,8}(?:[A-Za-z0-9]+_\w+|_\w+|[a-z]{2,}[A-Z][a-z]\w*)",
            r"(?<![\w.])(?:[Vv]ersion\s|[Rr]elease\s|v\.?\s?)[0-9]+(?:\.[0-9]+)+(?:-?(?:alpha|beta|rc|dev)\.?[0-9]*)?",
            r"(?<![\w.,])(?![0-9]{1,3}(?:\.[0-9]{3}){2,}(?![\w.]))(?![0-9]{1,2}\.[0-9]{1,2}\.[0-9]{4})"
            r"[0-9]+(?:\.[0-9]+){2,}(?:-?(?:alpha|beta|rc|dev)\.?[0-9]*)?(?!\w|,[0-9])",
            r"(?<![\w-])(?!COVID)[A-Z]{2,}(?:-[0-9]+)*-[0-9]{2,}(?![\w-])",  # a ticket, a CVE
            r"(?<![\w&])#[0-9]+(?!\w|,[0-9])",
            r"(?<!\w)(?:RFC|PEP|ISO(?:/IEC)?|IEC|DIN|arXiv|ISBN|ISSN|PMID)[: -]{0,2}[0-9][0-9.:Xx-]*",
            r"(?<!§)§{1,2}\s?[0-9]+\w*",
        )
    )
)
_LEAD = re.compile(r"^(?:(?:version|release)\s+|v\.?\s?(?=[0-9]))", re.IGNORECASE)


def references(text: str) -> Iterator[tuple[Span, str]]:
    """Yield each identifier, file, version or address in `text`, in order: its span, and what a source must have.

    >>> [name for _, name in references("Call `read()` or parse_rows(), see https://a.org/b.")]
    ['read', 'parse_rows', 'https://a.org/b']
    """
    for match in _PATTERN.finditer(text):
        group = "code" if match["code"] is not None else 0
        written = match[group] if match[group].endswith("()") else match[group].rstrip(".,;:!?'’\"”)]}*")
        name = _LEAD.sub("", written, count=1).removesuffix("()").strip()
        if any(char.isalnum() for char in name):
            start = match.start(group)
            yield Span(start, start + len(written)), name


def invented_references(case: Case) -> list[Span]:
    """Return the references in the response that neither a source nor the user has, sorted and disjoint.

    A citation counts as known if it refers to a source, or if a source makes it, too.

    >>> from veridical.core.types import Source
    >>> case = Case("1", "Use load_rows() or read_rows().", (Source("api", "def load_rows(path): ..."),))
    >>> [span.of(case.response) for span in invented_references(case)]
    ['read_rows()']
    """
    texts = [source.text for source in case.sources]
    asked = (case.question or "", *(turn.text for turn in turns_of_others(case)))
    known = [text.casefold() for text in (*texts, *asked)]
    found = list(references(case.response))
    missing = {name for name in {name for _, name in found} if not _has(known, name)}
    spans = [span for span, name in found if name in missing]
    definitions = footnote_definitions(case.response)
    for citation in find_citations(case.response, case.sources):
        if citation.certain and not resolve_citation(citation, case.sources, definitions):
            written = citation.span.of(case.response).casefold()
            if not any(written in text or _cites(text, citation) for text in known):
                spans.append(citation.span)
    return union(spans)


def _has(texts: Iterable[str], name: str) -> bool:
    """Check whether one of some casefolded texts has `name`, not as a part of a longer word or number."""
    folded = name.casefold()
    before = r"(?<![0-9])" if folded[0].isdigit() else r"(?<!\w)" if folded[0].isalpha() else ""
    word = re.compile(before + re.escape(folded) + (r"(?!\w)" if folded[-1].isalnum() else ""))
    return any(folded in text and word.search(text) for text in texts)


def _cites(text: str, citation: Citation) -> bool:
    """Check whether a casefolded text has the mark of a citation in brackets, or its first author and year."""
    if citation.mark is not None:
        return f"[{citation.mark.casefold()}]" in text
    names = [author.split()[-1] for author in citation.authors[:1]]
    return all(_has([text], part) for part in (*names, citation.year) if part)
