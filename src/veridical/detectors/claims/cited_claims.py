"""Use the citations of a response: a claim that cites is checked against the sources that it cites.

After George and Stuhlmüller 2023, §3.2.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Self

from veridical.core.errors import InputError
from veridical.core.segment import has_words
from veridical.core.spans import Span
from veridical.core.types import Case, Claim, Source, Verdict
from veridical.detectors.claims.citations import (
    DANGLING,
    Citation,
    find_citations,
    footnote_definitions,
    resolve_citation,
    statements,
)

__all__ = ["CitationPolicy", "ResponseCitations", "remove_spans"]


def remove_spans(text: str, spans: Sequence[Span]) -> str:
    """Return `text` without the characters in `spans` and the spaces they leave.

    >>> remove_spans("Ling (2009) agrees [3].", [Span(5, 11), Span(19, 22)])
    'Ling agrees.'
    """
    rest = "".join(c for i, c in enumerate(text) if not any(s.start <= i < s.end for s in spans))
    return re.sub(r"\s+([.,;:!?])", r"\1", re.sub(r"[^\S\n]+", " ", rest)).strip()


@dataclass(frozen=True, slots=True)
class CitationPolicy:
    """How citations are used: a claim that cites is checked only against the sources that it cites.

    Attributes:
        uncited: Whether claims without a citation are not judged ("skip", George and Stuhlmüller 2023, §3.2) or checked
            against all sources ("all").
        missing: Whether a claim without a citation is an error of its own (`MISSING`).
        each: Whether to check each source alone, too, if a claim cites several, to find those that do not back it
            (`WRONG`). A claim that its sources back only together then gets such errors, too.
    """

    uncited: Literal["skip", "all"] = "skip"
    missing: bool = False
    each: bool = False

    def __post_init__(self) -> None:
        if self.uncited not in ("skip", "all"):
            raise InputError(f"uncited is {self.uncited!r}", hint="skip or all")

    def __str__(self) -> str:
        """Return the policy as options write it, such as "skip+missing"."""
        return self.uncited + ("+missing" if self.missing else "") + ("+each" if self.each else "")

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Parse "skip" or "all", followed by "+missing", "+each" or both; None for "off".

        >>> CitationPolicy.parse("all+each"), CitationPolicy.parse("off")
        (CitationPolicy(uncited='all', missing=False, each=True), None)
        """
        uncited, *more = (part.strip() for part in text.replace(",", "+").split("+"))
        wrong = uncited not in ("off", "skip", "all") or not set(more) <= {"missing", "each"}
        if wrong or (uncited == "off" and more) or len(set(more)) < len(more):
            hint = "off, skip (uncited claims) or all (check them, too); then +missing, +each, such as skip+missing"
            raise InputError(f"citations are {text!r}", hint=hint)
        return None if uncited == "off" else cls(uncited, "missing" in more, "each" in more)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class ResponseCitations:
    """The citations of one response, each with the ids of its sources; () if it dangles."""

    case: Case
    citations: tuple[tuple[Citation, tuple[str, ...]], ...]
    sentences: tuple[Span, ...]

    @classmethod
    def of_case(cls, case: Case) -> Self:
        """Find the citations of the case's response; uncertain ones that refer to no source are left out."""
        definitions = footnote_definitions(case.response)
        pairs = [
            (citation, tuple(resolve_citation(citation, case.sources, definitions)))
            for citation in find_citations(case.response, case.sources)
        ]
        citations = tuple((citation, ids) for citation, ids in pairs if ids or citation.certain)
        return cls(case, citations, tuple(statements(case.response, cited=True)))

    def in_claim(self, claim: Claim) -> list[tuple[Citation, tuple[str, ...]]]:
        """Return the citations inside the claim's spans; if there are none, those in the sentences that it overlaps."""
        claim_sentences = [s for s in self.sentences if any(s.overlaps(span) for span in claim.spans)]
        for spans in (claim.spans, claim_sentences):
            inside = [(c, ids) for c, ids in self.citations if any(c.span.overlaps(span) for span in spans)]
            if inside:
                return inside
        return []

    def cited_by(self, claim: Claim) -> tuple[Source, ...]:
        """Return the sources that the claim cites, in the case's order."""
        cited = {id for _, ids in self.in_claim(claim) for id in ids}
        return tuple(source for source in self.case.sources if source.id in cited)

    def links(self, claim: Claim) -> list[tuple[Span, str]]:
        """Return each citation in the claim with the id of each of its sources, without repetitions."""
        return list(dict.fromkeys((citation.span, id) for citation, ids in self.in_claim(claim) for id in ids))

    def dangling(self) -> list[Verdict]:
        """Return a verdict with score 1 on each citation that refers to no source."""
        reason = "no source is cited so"
        return [Verdict(citation.span, 1.0, DANGLING, reason=reason) for citation, ids in self.citations if not ids]

    def without_citations(self, claim: Claim) -> str:
        """Return the text of the claim without its citations; "" if no word is left."""
        citations = [citation for citation, _ in self.in_claim(claim)]
        (span,) = claim.spans
        if claim.text != span.of(self.case.response):  # the claim is worded differently from the response
            citations = find_citations(claim.text, self.case.sources)
            span = Span(0, len(claim.text))
        marks = (mark for citation in citations for mark in (citation.span, citation.group) if mark.overlaps(span))
        inside = [Span(max(m.start, span.start), min(m.end, span.end)).shift(-span.start) for m in marks]
        rest = remove_spans(claim.text, inside)
        return rest if has_words(rest) else ""
