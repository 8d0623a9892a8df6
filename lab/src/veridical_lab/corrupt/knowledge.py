"""Changes a name, number or time of the source, so that it no longer supports the response (Conv-FEVER).

After CH-Wang et al. 2024, §3.2. The response stays as it is, and its mentions of the original are marked. In the paper
a chat model rewrote the knowledge and people corrected it. Here a rule makes the change, so it covers entities and
circumstances only.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace

from veridical.core.spans import Span, cut
from veridical.core.types import Evidence, Example, Judgement, Source, Verdict
from veridical_lab.corrupt.mentions import Names, occurrences, replaced, shared_mentions, substitute_for

__all__ = ["Knowledge"]


class Knowledge:
    """Changes one name, number or time that the response and its sources mention, everywhere in the sources.

    It is drawn from those that both mention verbatim. The example is used only if none of its words is left in the
    sources, in any form, so that nothing there still supports the response. New names come from the sources of all
    `examples`.
    """

    name = "knowledge"

    def __init__(self, examples: Iterable[Example]) -> None:
        self._names = Names.in_sources(examples)

    def change(self, example: Example, draw: random.Random) -> Example | str:
        """Return the example with a changed source and its gold, or why it cannot be used."""
        case = example.case
        shared = shared_mentions(case)
        if not shared:
            return "no name, number or time is in both texts"
        phrase, kind = draw.choice(shared)
        texts = [case.response, *(source.text for source in case.sources)]
        new = substitute_for(phrase, kind, self._names, texts, draw)
        if new is None:
            return f"no other {kind}"
        sources: list[Source] = []
        evidence: list[Evidence] = []
        for source in case.sources:
            text, spans = replaced(source.text, phrase, new, ignore_case=True)
            sources.append(replace(source, text=text))
            evidence += [Evidence(source.id, span) for span in spans]
        mentions = occurrences(case.response, phrase, ignore_case=True)
        if any(_remains(source.text, phrase, new) for source in sources):
            return "part of it is left in the sources"
        if any(_remains(piece, phrase, phrase) for piece, covered in cut(case.response, mentions) if not covered):
            return "the response mentions part of it again"
        reason = f"{phrase!r} was changed to {new!r} in the source"
        verdicts = [Verdict(s, 1.0, kind, evidence=tuple(evidence), reason=reason, correction=new) for s in mentions]
        sizes = {source.id: len(source.text) for source in sources}
        omissions = tuple(replace(o, span=Span(0, sizes[o.source_id])) for o in example.gold.omissions)
        changed = replace(case, id=f"{case.id}/knowledge", sources=tuple(sources), prompt=None)
        gold = Judgement(changed.id, "corrupt:knowledge", 1.0, example.gold.omission, tuple(verdicts), omissions)
        groups = {**dict(example.group), "corrupted": kind, "kind": "intrinsic"}
        return replace(example, case=changed, gold=gold, group=tuple(sorted(groups.items())), annotations=())


def _remains(text: str, phrase: str, new: str) -> bool:
    """Return whether a word of `phrase` that is not in `new` is in `text`, alone or inside a longer word."""
    of_new = {word.lower() for word in new.split()}
    words = [w for w in phrase.lower().split() if len(w) > 1 and (new == phrase or w not in of_new)]
    low = text.lower()
    return any(occurrences(low, word) or (len(word) > 3 and word[0].isalpha() and word in low) for word in words)
