"""Which sources a claim is checked against where it cites some (C §3.2), and what is wrong with citations.

Findings of their own, told apart by their label: `DANGLING`, `MISSING` and `WRONG`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from veridical.core.errors import InputError
from veridical.core.spans import Span
from veridical.core.types import Case, Claim, Source, Verdict
from veridical.detectors.claims.citation_parser import Citation, citations, definitions, resolve, without
from veridical.detectors.claims.claims import has_words, statements

__all__ = ["DANGLING", "MISSING", "WRONG", "Cited", "Citing", "cited_in", "citing"]

DANGLING, MISSING, WRONG = "dangling citation", "missing citation", "wrong citation"


@dataclass(frozen=True, slots=True)
class Citing:
    """How citations are used: a cited claim is checked against the sources that it cites, and no others.

    `uncited` claims are left out ("skip", C §3.2: they are then not judged) or checked against all sources ("all").
    `missing`: a claim without a citation is a finding. `each`: where a claim cites several sources, each is checked
    alone, too, so that one that backs nothing is found; a claim that only all of them back together is then found, too.
    """

    uncited: Literal["skip", "all"] = "skip"
    missing: bool = False
    each: bool = False

    def __post_init__(self) -> None:
        if self.uncited not in ("skip", "all"):
            raise InputError(f"uncited is {self.uncited!r}", hint="skip or all")

    def __str__(self) -> str:
        """As options write it, such as "skip+missing"."""
        return self.uncited + ("+missing" if self.missing else "") + ("+each" if self.each else "")

    @classmethod
    def read(cls, text: str) -> Citing | None:
        """What "skip" or "all" says, with "+missing" and "+each" or none of them behind; None for "off".

        >>> Citing.read("all+each"), Citing.read("off")
        (Citing(uncited='all', missing=False, each=True), None)
        """
        uncited, *more = (part.strip() for part in text.replace(",", "+").split("+"))
        wrong = uncited not in ("off", "skip", "all") or not set(more) <= {"missing", "each"}
        if wrong or (uncited == "off" and more) or len(set(more)) < len(more):
            hint = "off, skip (uncited claims) or all (check them, too); then +missing, +each, such as skip+missing"
            raise InputError(f"citations are {text!r}", hint=hint)
        return None if uncited == "off" else cls(uncited, "missing" in more, "each" in more)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Cited:
    """The citations of one response: each with the ids of the sources that it means, [] = it dangles."""

    sources: tuple[Source, ...]
    found: tuple[tuple[Citation, tuple[str, ...]], ...]
    sentences: tuple[Span, ...]

    def of(self, claim: Claim) -> list[tuple[Citation, tuple[str, ...]]]:
        """The citations of a claim: those in its place, else those in the sentences that it lies in."""
        inside = self._within(claim.spans)
        return inside or self._within([s for s in self.sentences if any(s.overlaps(place) for place in claim.spans)])

    def _within(self, places: Sequence[Span]) -> list[tuple[Citation, tuple[str, ...]]]:
        return [(c, ids) for c, ids in self.found if any(c.span.overlaps(place) for place in places)]

    def cited_by(self, claim: Claim) -> tuple[Source, ...]:
        """The sources that the claim cites, in the case's order."""
        ids = {id for _, several in self.of(claim) for id in several}
        return tuple(source for source in self.sources if source.id in ids)

    def dangling(self) -> Iterator[Verdict]:
        """A verdict of 1 on each citation of what is not there."""
        for citation, ids in self.found:
            if not ids:
                yield Verdict(citation.span, 1.0, DANGLING, reason="no source is cited so")

    def bare(self, text: str, claim: Claim) -> str:
        """The claim without its citations, as they stand in the response `text`; "" where no word is left."""
        marks = [span for citation, _ in self.of(claim) for span in (citation.span, citation.whole)]
        (place,) = claim.spans
        if claim.text != place.of(text):  # worded anew: it is read anew
            marks = [span for citation in citations(claim.text) for span in (citation.span, citation.whole)]
            place = Span(0, len(claim.text))
        inside = [Span(max(m.start, place.start), min(m.end, place.end)) for m in marks if m.overlaps(place)]
        left = without(claim.text, [span.shift(-place.start) for span in inside])
        return left if has_words(left) else ""


def citing(case: Case) -> Cited:
    """The citations of the case's response; what merely looks like one and means no source is passed over."""
    labels = [label for s in case.sources for label in (s.id, s.citation) if label]
    defined = definitions(case.response)
    pairs = [(c, tuple(resolve(c, case.sources, defined))) for c in citations(case.response, labels)]
    kept = tuple((c, ids) for c, ids in pairs if ids or c.sure)
    return Cited(case.sources, kept, tuple(statements(case.response, cited=True)))


def cited_in(pairs: Sequence[tuple[Citation, tuple[str, ...]]]) -> Iterator[tuple[Citation, str]]:
    """Each citation with each source that it means; a group that names a source twice gives it once a place."""
    seen: set[tuple[Span, str]] = set()
    for citation, ids in pairs:
        for id in ids:
            if (citation.span, id) not in seen:
                seen.add((citation.span, id))
                yield citation, id
