"""Find references that no source has, such as functions, options, files, versions, addresses, tickets and citations."""

from __future__ import annotations

import re

from veridical.records.spans import Span, furthest_end, union
from veridical.records.turns import turns_of_others
from veridical.records.types import Case
from veridical.text.citations import Citation, find_citations, footnotes, resolve_citation
from veridical.text.identifiers import identifiers, known_identifiers


def invented_references(case: Case) -> list[Span]:
    """Return the references in the response that neither a source nor the user mentions, sorted and without overlaps.

    References are identifiers (functions, files, versions, addresses …) and citations. A citation is known if it refers
    to a source, or if a source or the user makes the same citation.

    >>> from veridical.records.types import Source
    >>> case = Case("1", "Use load_rows() or read_rows().", (Source("api", "def load_rows(path): ..."),))
    >>> [span.of(case.response) for span in invented_references(case)]
    ['read_rows()']
    """
    asked = (case.question or "", *(turn.text for turn in turns_of_others(case)))
    texts = [text.casefold() for text in (*(source.text for source in case.sources), *asked)]
    known = known_identifiers(case)
    cited, uncited = [], []
    notes = footnotes(case.response)
    for citation in find_citations(case.response, case.sources):
        if resolve_citation(citation, case.sources, notes):
            cited.append(citation.group)
        elif citation.certain:
            written = citation.span.of(case.response).casefold()
            if not any(written in text or _cites(text, citation) for text in texts):
                uncited.append(citation.span)
    end_before = furthest_end(cited)
    invented = (each.span for each in identifiers(case.response) if each not in known)
    return union([*uncited, *(span for span in invented if end_before(span.start + 1) < span.end)])


def _cites(text: str, citation: Citation) -> bool:
    """Check whether a casefolded text has the mark of a citation in brackets, or its first author and year."""
    if citation.mark is not None:
        return f"[{citation.mark.casefold()}]" in text
    names = [author.split()[-1] for author in citation.authors[:1]]
    parts = [part.casefold() for part in (*names, citation.year) if part]
    return all(re.search(rf"(?<!\w){re.escape(part)}(?!\w)", text) for part in parts)
