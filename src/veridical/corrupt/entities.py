"""A name, number or time of the response swapped for another, so that it says what its source does not.

The automatic kin of BUMP's entity and circumstance errors (Ma et al. 2023), the synthetic summaries of D §3.2, which
people wrote. Intrinsic: what is put in stands elsewhere in the source. Extrinsic: it stands in another source only.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace

from veridical.core.spans import Span
from veridical.core.types import Example, Judgement, Verdict
from veridical.corrupt.knowledge import anchors, names_of
from veridical.corrupt.mentions import find_mentions, places_of, rival

__all__ = ["Entities"]


class Entities:
    """Swaps one thing that the response and its sources mention, everywhere in the response.

    A fair coin decides whether another one of the same kind comes from the case's own sources or from elsewhere; where
    the one has none to offer the other is taken. The verdicts' `correction` is what stood there.
    """

    name = "entities"

    def __init__(self, examples: Iterable[Example]) -> None:
        self._names = names_of(examples)

    def change(self, example: Example, draw: random.Random) -> Example | str:
        """The example with a changed response and its gold, or why it cannot be used."""
        case = example.case
        shared = anchors(case)
        if not shared:
            return "no name, number or time is in both texts"
        phrase, kind = draw.choice(shared)
        inner = draw.random() < 0.5
        texts = [case.response, *(source.text for source in case.sources)]
        new = None
        for intrinsic in (inner, not inner):
            new = self._own(example, phrase, kind, draw) if intrinsic else rival(phrase, kind, self._names, texts, draw)
            if new is not None:
                break
        if new is None:
            return f"no other {kind}"
        return _made(example, phrase, new, kind, "intrinsic" if intrinsic else "extrinsic")

    def _own(self, example: Example, phrase: str, kind: str, draw: random.Random) -> str | None:
        """Another mention of the kind in the sources that the response does not make and that shares no word."""
        case = example.case
        found = {
            m.span.of(source.text)
            for source in case.sources
            for m in find_mentions(source.text, known=case.response)
            if m.kind == kind
        }
        words = {word.lower() for word in phrase.split()}
        options = sorted(
            other
            for other in found
            if not words & {word.lower() for word in other.split()}
            and other[0].isdigit() == phrase[0].isdigit()
            and (kind != "name" or abs(len(other.split()) - len(phrase.split())) <= 1)
            and not places_of(case.response, other, ignore_case=True)
        )
        return draw.choice(options) if options else None


def _made(example: Example, phrase: str, new: str, kind: str, origin: str) -> Example:
    case = example.case
    response, at = "", 0
    spans: list[Span] = []
    for place in places_of(case.response, phrase):
        response += case.response[at : place.start]
        spans.append(Span(len(response), len(response) + len(new)))
        response += new
        at = place.end
    response += case.response[at:]
    made = replace(case, id=f"{case.id}/entities", response=response)
    reason = f"{phrase!r} was changed to {new!r} in the response"
    verdicts = tuple(Verdict(span, 1.0, kind, reason=reason, correction=phrase) for span in spans)
    gold = Judgement(made.id, "corrupt:entities", 1.0, verdicts=verdicts)
    groups = {**dict(example.group), "corrupted": kind, "kind": origin}
    return replace(example, case=made, gold=gold, group=tuple(sorted(groups.items())), annotations=())
