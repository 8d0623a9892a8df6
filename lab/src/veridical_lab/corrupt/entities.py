"""Replace a name, number or time in the response by another one that the sources do not support there.

In BUMP, people wrote such entity and circumstance errors (Ma et al. 2023), and CH-Wang et al. 2024, §3.2, use them as
synthetic summaries. Here they are made automatically. An error is intrinsic if the case's own sources have the new
mention elsewhere, and extrinsic if they do not have it.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

from veridical.records.types import Case, Edit, Example
from veridical_lab.corrupt.gold import grouped, with_errors
from veridical_lab.corrupt.mentions import Names, find_mentions, occurrences, shared_mentions, substitute_for


class Entities:
    """Swaps one name, number or time that the response and its sources mention, everywhere in the response.

    The new mention is of the same kind. A fair coin decides whether it is taken from the case's own sources or from
    elsewhere. If nothing suitable is found in one of these places, the other one is tried. The `correction` of a
    verdict is the original mention.
    """

    name = "entities"

    def __init__(self, examples: Iterable[Example]) -> None:
        self._names = Names.in_sources(examples)

    def change(self, example: Example, draw: random.Random) -> Example | str:
        """Replace a mention in the response and mark the new one, or return why the example cannot be used."""
        case = example.case
        shared = shared_mentions(case)
        if not shared:
            return "no name, number or time is in both texts"
        phrase, kind = draw.choice(shared)
        intrinsic_first = draw.random() < 0.5
        texts = [case.response, *(source.text for source in case.sources)]
        for intrinsic in (intrinsic_first, not intrinsic_first):
            if intrinsic:
                new = _from_sources(case, phrase, kind, draw)
            else:
                new = substitute_for(phrase, kind, self._names, texts, draw)
            if new is not None:
                edits = [Edit(span, new, kind) for span in occurrences(case.response, phrase)]
                return grouped(with_errors(example, edits, self.name), kind="intrinsic" if intrinsic else "extrinsic")
        return f"no other {kind}"


def _from_sources(case: Case, phrase: str, kind: str, draw: random.Random) -> str | None:
    """Draw a mention of this kind in the sources that is not in the response and shares no word with `phrase`."""
    mentioned = {
        m.span.of(source.text)
        for source in case.sources
        for m in find_mentions(source.text, known=case.response)
        if m.kind == kind
    }
    words = {word.lower() for word in phrase.split()}
    options = sorted(
        other
        for other in mentioned
        if not words & {word.lower() for word in other.split()}
        and other[0].isdigit() == phrase[0].isdigit()
        and (kind != "name" or abs(len(other.split()) - len(phrase.split())) <= 1)
        and not occurrences(case.response, other, ignore_case=True)
    )
    return draw.choice(options) if options else None
