"""Remove or change attributes in the sources, so that the sources no longer support the description (E2E).

This follows CH-Wang et al. 2024, §3.2. The description stays as people wrote it, and mentions of removed or changed
attributes are marked. In the paper, the authors corrected every pair by hand. Here, an example is used only if all
mentions of these attributes are found automatically.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from veridical.records.spans import Span
from veridical.records.types import GOLD_THRESHOLD, Case, Evidence, Example, Judgement, Omission, Verdict
from veridical_lab.corrupt.gold import made_from
from veridical_lab.datasets.e2e_slots import VALUES, Slot, Unplaced, meaning, place_slots, says, slot_of


class Attributes:
    """Removes or changes some of the attributes that the response of an example states.

    Some of the stated attributes are drawn at random, at least one but not all. A fair coin decides whether they are
    all removed or all changed. A new value is drawn from the values of this attribute in all `examples`, by frequency.
    If none of these values fits, a published value is drawn. The response must not state the new value.

    The gold marks each mention of these attributes. The label of a mark is the original attribute, and its reason says
    what was changed.
    """

    name = "attributes"

    def __init__(self, examples: Iterable[Example]) -> None:
        self._values: dict[str, Counter[str]] = {}
        for example in examples:
            for name, value in map(slot_of, example.case.sources):
                self._values.setdefault(name, Counter())[value] += 1

    def change(self, example: Example, draw: random.Random) -> Example | str:
        """Remove or change attributes of the example and mark their mentions, or say why it cannot be used."""
        left_out = {o.source_id for o in example.gold.omissions if o.score >= GOLD_THRESHOLD}
        covered = [source for source in example.case.sources if source.id not in left_out]
        if len(covered) < 2:
            return "fewer than two attributes are said"
        response = example.case.response
        slots = [slot_of(source) for source in covered]
        chosen = sorted(draw.sample(range(len(covered)), draw.randint(1, len(covered) - 1)))
        perturb = draw.random() < 0.5
        spans_of: dict[str, tuple[Span, ...]] = {}
        for i, spans in enumerate(place_slots(response, slots)):
            if i in chosen and isinstance(spans, Unplaced):
                return f"{slots[i][0]}: {spans.why}"
            if not isinstance(spans, Unplaced):
                spans_of[covered[i].id] = spans
        ids = [covered[i].id for i in chosen]
        unchanged = [span for id, spans in spans_of.items() if id not in ids for span in spans]
        if any(span.overlaps(other) for id in ids for span in spans_of[id] for other in unchanged):
            return "one phrase says two attributes"
        new: dict[str, str | None] = dict.fromkeys(ids)
        for i in chosen if perturb else ():
            value = self._other(slots[i], response, slots, draw)
            if value is None:
                return f"{slots[i][0]}: no other value"
            new[covered[i].id] = value
        return _changed(example, {id: spans_of[id] for id in ids}, new)

    def _other(self, slot: Slot, response: str, slots: Sequence[Slot], draw: random.Random) -> str | None:
        """Draw a value with another meaning that the response does not state, or return None if there is none."""
        name = slot[0]
        beside = [other for other in slots if other != slot]
        for pool in (self._values.get(name, Counter()), Counter(list(VALUES.get(name, ())))):
            values = sorted(v for v in pool if meaning((name, v)) != meaning(slot))
            values = [v for v in values if not says(response, (name, v), beside=beside)]
            if values:
                return draw.choices(values, [pool[v] for v in values])[0]
        return None


def _changed(example: Example, spans_of: dict[str, tuple[Span, ...]], new: dict[str, str | None]) -> Example:
    """Give the attributes that are mentioned at `spans_of` the values `new`, where None removes an attribute."""
    case = example.case
    texts = {id: f"{slot_of(case.source(id))[0]}[{value}]" for id, value in new.items() if value is not None}
    sources = tuple(replace(s, text=texts.get(s.id, s.text)) for s in case.sources if s.id in texts or s.id not in new)
    changed = Case(f"{case.id}/attributes", case.response, sources, case.question, case.history)
    verdicts = []
    for id, spans in spans_of.items():
        before = case.source(id).text
        after = f"was changed to {texts[id]}" if id in texts else "was taken out"
        evidence = (Evidence(id, Span(0, len(texts[id]))),) if id in texts else ()
        verdicts += [Verdict(s, 1.0, before, evidence=evidence, reason=f"{before} {after}") for s in spans]
    old = {o.source_id: o for o in example.gold.omissions}
    omissions = tuple(
        Omission(s.id, Span(0, len(s.text)), 1.0 if s.id in new else old[s.id].score) for s in sources if s.id in old
    )
    omission = max((o.score for o in omissions), default=None)
    verdicts.sort(key=lambda v: v.span)
    gold = Judgement(changed.id, "corrupt:attributes", 1.0, omission, tuple(verdicts), omissions)
    if texts:
        return made_from(example, changed, gold, corrupted="perturbed", kind="intrinsic")
    return made_from(example, changed, gold, corrupted="removed", kind="extrinsic")
