"""A name, number or time of the source changed, so that the response no longer rests on it (D §3.2, Conv-FEVER).

The response stays as it was written, and its mention of what was changed is marked. The paper had a chat model rewrite
the knowledge and mended that by hand; here the change is a rule, so it covers entities and circumstances only.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace

from veridical.core.spans import Span
from veridical.core.types import Case, Evidence, Example, Judgement, Omission, Source, Verdict
from veridical.corrupt.mentions import Names, find_mentions, places_of, rival

__all__ = ["Knowledge", "anchors", "names_of"]


class Knowledge:
    """Changes one thing that both the response and its sources mention, everywhere in the sources.

    Drawn evenly from what both mention verbatim. It is used only if none of its words is left in the sources, in
    whatever form, so that nothing there still backs the response. Names come from the sources of all `examples`.
    """

    name = "knowledge"

    def __init__(self, examples: Iterable[Example]) -> None:
        self._names = names_of(examples)

    def change(self, example: Example, draw: random.Random) -> Example | str:
        """The example with a changed source and its gold, or why it cannot be used."""
        case = example.case
        shared = anchors(case)
        if not shared:
            return "no name, number or time is in both texts"
        phrase, kind = draw.choice(shared)
        texts = [case.response, *(source.text for source in case.sources)]
        new = rival(phrase, kind, self._names, texts, draw)
        if new is None:
            return f"no other {kind}"
        sources: list[Source] = []
        evidence: list[Evidence] = []
        for source in case.sources:
            text, places = _replaced(source.text, phrase, new)
            sources.append(replace(source, text=text))
            evidence += [Evidence(source.id, place) for place in places]
        if any(_still_there(source.text, phrase, new) for source in sources):
            return "part of it is left in the sources"
        if any(_still_there(other, phrase, phrase) for other in _beside(case.response, phrase)):
            return "the response mentions part of it again"
        return _made(example, tuple(sources), phrase, new, kind, tuple(evidence))


def names_of(examples: Iterable[Example]) -> Names:
    """The names in the sources of `examples`; each source is read once."""
    return Names(dict.fromkeys(source.text for example in examples for source in example.case.sources))


def anchors(case: Case) -> list[tuple[str, str]]:
    """What the response and a source both mention verbatim, each with its kind, in order of the response."""
    joined = "\n\n".join(source.text for source in case.sources)
    found: dict[str, str] = {}
    for mention in find_mentions(case.response, known=joined):
        phrase = mention.span.of(case.response)
        if any(places_of(source.text, phrase) for source in case.sources):
            found.setdefault(phrase, mention.kind)
    return list(found.items())


def _replaced(text: str, phrase: str, new: str) -> tuple[str, list[Span]]:
    """`text` with `new` for `phrase`, whatever its case, and where that now stands."""
    made, at, places = "", 0, []
    for place in places_of(text, phrase, ignore_case=True):
        made += text[at : place.start]
        places.append(Span(len(made), len(made) + len(new)))
        made += new
        at = place.end
    return made + text[at:], places


def _still_there(text: str, phrase: str, new: str) -> bool:
    """Whether a word of `phrase` (and not of `new`) stands in `text`, alone or at the start of a longer word."""
    taken = {word.lower() for word in new.split()}
    words = [w for w in phrase.lower().split() if len(w) > 1 and (new == phrase or w not in taken)]
    low = text.lower()
    return any(places_of(low, word) or (len(word) > 3 and word[0].isalpha() and word in low) for word in words)


def _beside(response: str, phrase: str) -> list[str]:
    """What of the response stands around the mentions of `phrase`."""
    pieces, at = [], 0
    for place in places_of(response, phrase, ignore_case=True):
        pieces.append(response[at : place.start])
        at = place.end
    return [*pieces, response[at:]]


def _made(
    example: Example, sources: Sequence[Source], phrase: str, new: str, kind: str, evidence: tuple[Evidence, ...]
) -> Example:
    case = replace(example.case, id=f"{example.case.id}/knowledge", sources=tuple(sources), prompt=None)
    reason = f"{phrase!r} was changed to {new!r} in the source"
    places = places_of(case.response, phrase, ignore_case=True)
    verdicts = tuple(Verdict(place, 1.0, kind, evidence=evidence, reason=reason, correction=new) for place in places)
    sizes = {source.id: len(source.text) for source in sources}
    omissions = tuple(
        Omission(o.source_id, Span(0, sizes[o.source_id]), o.score, o.reason) for o in example.gold.omissions
    )
    gold = Judgement(case.id, "corrupt:knowledge", 1.0, example.gold.omission, verdicts, omissions)
    groups = {**dict(example.group), "corrupted": kind, "kind": "intrinsic"}
    return replace(example, case=case, gold=gold, group=tuple(sorted(groups.items())), annotations=())
