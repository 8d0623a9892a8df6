"""Use the citations of a response, so that a claim with citations is checked against the sources that it cites.

The method follows George and Stuhlmüller 2023, §3.2.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Self

from veridical.records.errors import InputError
from veridical.records.spans import Span
from veridical.records.types import Case, Claim, Source, Verdict
from veridical.text.citations import DANGLING, Citation, find_citations, footnotes, resolve_citation, statements
from veridical.text.segment import has_words


def remove_spans(text: str, spans: Sequence[Span]) -> str:
    """Remove the characters in `spans` from a text, and the white space that would remain around them.

    >>> remove_spans("Ling (2009) agrees [3].", [Span(5, 11), Span(19, 22)])
    'Ling agrees.'
    """
    rest = "".join(c for i, c in enumerate(text) if not any(s.start <= i < s.end for s in spans))
    return re.sub(r"(?<!\s)\s++([.,;:!?])", r"\1", re.sub(r"[^\S\n]+", " ", rest)).strip()


@dataclass(frozen=True, slots=True)
class CitationPolicy:
    """How `Verify` uses citations: a claim with citations is checked only against the sources that it cites.

    Attributes:
        uncited: What to do with a claim without citations. "skip" leaves it unjudged (George and Stuhlmüller 2023,
            §3.2), and "all" checks it against all sources.
        missing: If true, claims without a citation are reported as errors (`MISSING`).
        each: If true, each cited source is also checked alone, to find citations of sources that do not support the
            claim (`WRONG`). If a claim is supported only by several sources together, its citations are reported, too.
    """

    uncited: Literal["skip", "all"] = "skip"
    missing: bool = False
    each: bool = False

    def __post_init__(self) -> None:
        if self.uncited not in ("skip", "all"):
            raise InputError(f"uncited is {self.uncited!r}", hint="skip or all")

    def __str__(self) -> str:
        """Write the policy as in an option ("skip+missing")."""
        return self.uncited + ("+missing" if self.missing else "") + ("+each" if self.each else "")

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Parse the option `citations` of `Verify` into a policy.

        The text is "skip" or "all", optionally followed by "+missing", "+each" or both. For "off", return None.

        Raises:
            InputError: The text has another form.

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
    """The citations of one response, and lookups for the citations of a claim.

    Attributes:
        case: The case with the response.
        citations: Each citation with the ids of the sources that it refers to. There are no ids if there is no such
            source.
        sentences: The sentences of the response, each with the footnote marks that follow it.
    """

    case: Case
    citations: tuple[tuple[Citation, tuple[str, ...]], ...]
    sentences: tuple[Span, ...]

    @classmethod
    def of_case(cls, case: Case) -> Self:
        """Find the citations of the case's response.

        Texts that may not be citations at all, such as "(World Cup 2010)", are skipped if they refer to no source.
        """
        notes = footnotes(case.response)
        pairs = [
            (citation, tuple(resolve_citation(citation, case.sources, notes)))
            for citation in find_citations(case.response, case.sources)
        ]
        citations = tuple((citation, ids) for citation, ids in pairs if ids or citation.certain)
        return cls(case, citations, tuple(statements(case.response, cited=True)))

    def in_claim(self, claim: Claim) -> list[tuple[Citation, tuple[str, ...]]]:
        """Return the citations of a claim, each with the ids of the sources that it refers to.

        A citation belongs to the claim if it overlaps the claim's spans. If there is none, all citations in the
        sentences that the claim overlaps belong to it.
        """
        claim_sentences = [s for s in self.sentences if any(s.overlaps(span) for span in claim.spans)]
        for spans in (claim.spans, claim_sentences):
            inside = [(c, ids) for c, ids in self.citations if any(c.span.overlaps(span) for span in spans)]
            if inside:
                return inside
        return []

    def cited_by(self, claim: Claim) -> tuple[Source, ...]:
        """Return the sources that a claim cites, in the order of the case."""
        cited = {id for _, ids in self.in_claim(claim) for id in ids}
        return tuple(source for source in self.case.sources if source.id in cited)

    def links(self, claim: Claim) -> list[tuple[Span, str]]:
        """Return the citations of a claim as pairs: the span of the citation, and the id of a source that it refers to.

        Repeated pairs are returned only once.
        """
        return list(dict.fromkeys((citation.span, id) for citation, ids in self.in_claim(claim) for id in ids))

    def dangling(self) -> list[Verdict]:
        """Return a verdict with score 1 for each citation that refers to no source."""
        reason = "no source is cited so"
        return [Verdict(citation.span, 1.0, DANGLING, reason=reason) for citation, ids in self.citations if not ids]

    def without_citations(self, claim: Claim) -> str:
        """Return the text of the claim without its citations, or "" if no words remain."""
        citations = [citation for citation, _ in self.in_claim(claim)]
        (span,) = claim.spans
        if claim.text != span.of(self.case.response):  # the claim is worded differently from the response
            citations = find_citations(claim.text, self.case.sources)
            span = Span(0, len(claim.text))
        marks = (mark for citation in citations for mark in (citation.span, citation.group) if mark.overlaps(span))
        inside = [Span(max(m.start, span.start), min(m.end, span.end)).shift(-span.start) for m in marks]
        rest = remove_spans(claim.text, inside)
        return rest if has_words(rest) else ""
