import random
from collections import Counter
from pathlib import Path

import pytest

from veridical.datasets import read
from veridical.datasets.split import document_of, split_by_document
from veridical.io.serialization import decode, encode
from veridical.records.errors import InputError, UnknownNameError
from veridical.records.types import Case, Example, Judgement, Omission, Source, Span, Verdict
from veridical_lab.corrupt import Corrupted, corrupt
from veridical_lab.corrupt.attributes import slot_of
from veridical_lab.datasets.e2e_slots import Unplaced, meaning, place_slots, says

TEXTS = {
    "The Eagle is a cheap pub in the city centre. It is family friendly.":
        ("name[The Eagle]", "eatType[pub]", "priceRange[cheap]", "area[city centre]", "familyFriendly[yes]"),
    "Cotto, near The Mill, serves Chinese food. Cotto is rated 5 out of 5.":
        ("name[Cotto]", "food[Chinese]", "customer rating[5 out of 5]", "near[The Mill]"),
    "By the river near Ranch is Aromi, which is not family-friendly.":
        ("name[Aromi]", "area[riverside]", "near[Ranch]", "familyFriendly[no]"),
}  # fmt: skip


def example(i: int, text: str, attributes: tuple[str, ...], left_out: tuple[str, ...] = (), **gold: object) -> Example:
    sources = tuple(Source(a.partition("[")[0], a, must_cover=True) for a in attributes)
    omissions = tuple(Omission(s.id, Span(0, len(s.text)), float(s.text in left_out)) for s in sources)
    fields = {"hallucination": 0.0, "omission": float(bool(left_out)), "omissions": omissions, **gold}
    judgement = Judgement(f"c{i}", "human:e2e", **fields)  # type: ignore[arg-type]
    return Example(Case(f"c{i}", text, sources), judgement, document=", ".join(attributes))


def examples(count: int = 60) -> list[Example]:
    return [example(i, *list(TEXTS.items())[i % 3]) for i in range(count)]


def faults(made: Corrupted, originals: dict[str, Example]) -> list[str]:
    """What is wrong with corrupted examples, judged from the texts alone."""
    found = []
    for new in made.examples:
        if not new.gold.by.startswith("corrupt:"):
            continue
        old = originals[new.case.id.removesuffix("/attributes")]
        before = [slot_of(s) for s in old.case.sources]
        after = [slot_of(s) for s in new.case.sources]
        gone = [slot for slot in before if slot not in after]
        text = new.case.response
        marked = {v.span: v.label for v in new.gold.verdicts}
        placed = dict(zip(before, place_slots(text, before), strict=True))
        for slot in gone:
            spans = placed[slot]
            if isinstance(spans, Unplaced) or any(marked.get(s) != f"{slot[0]}[{slot[1]}]" for s in spans):
                found.append(f"{new.case.id}: {slot} is changed and not marked")
        if len(marked) != sum(len(placed[slot]) for slot in gone):  # type: ignore[arg-type]
            found.append(f"{new.case.id}: more is marked than was changed")
        new_values = [slot for slot in after if slot not in before]
        if any(says(text, slot, beside=[s for s in before if s[0] != slot[0]]) for slot in new_values):
            found.append(f"{new.case.id}: the response says a new value")
        if any(meaning(n) == meaning(o) for n in new_values for o in before if n[0] == o[0]):
            found.append(f"{new.case.id}: a new value means the old one")
        if not 0 < len(gone) < len(before) or text != old.case.response or new.document != old.document:
            found.append(f"{new.case.id}: not a corruption of its original")
    return found


def test_what_is_changed_is_marked_and_nothing_else() -> None:
    given = examples()
    made = corrupt(given, "attributes", share=1.0)
    assert (made.changed, made.skipped) == (60, {})
    assert faults(made, {e.case.id: e for e in given}) == []
    kinds = Counter(dict(e.group)["corrupted"] for e in made.examples)
    assert kinds.keys() == {"removed", "perturbed"}
    assert min(kinds.values()) > 15
    assert {dict(e.group)["kind"] for e in made.examples if dict(e.group)["corrupted"] == "removed"} == {"extrinsic"}


def test_the_gold_says_what_was_what() -> None:
    made = corrupt(examples(), "attributes", share=1.0)
    new = next(e for e in made.examples if "perturbed" in dict(e.group).values())
    verdict = new.gold.verdicts[0]
    assert verdict.label is not None
    source = new.case.source(verdict.evidence[0].source_id)
    assert verdict.reason == f"{verdict.label} was changed to {source.text}"
    assert verdict.evidence[0].span.of(source.text) == source.text
    assert {o.source_id: o.score for o in new.gold.omissions}[source.id] == 1.0
    removed = next(e for e in made.examples if "removed" in dict(e.group).values())
    assert all(v.reason == f"{v.label} was taken out" for v in removed.gold.verdicts)
    assert all(s.text != v.label for s in removed.case.sources for v in removed.gold.verdicts)
    assert decode(encode(new)) == new


def test_it_is_the_seed_that_decides_and_not_the_order() -> None:
    given = examples()
    once = corrupt(given, "attributes", seed=1)
    again = corrupt(given[::-1], "attributes", seed=1)
    assert sorted(map(encode, once.examples)) == sorted(map(encode, again.examples))
    assert corrupt(given, "attributes", seed=2).examples != once.examples


def test_share_and_pairs() -> None:
    given = examples(200)
    half = corrupt(given, "attributes")
    assert len(half.examples) == 200
    assert 70 < half.changed < 130
    pairs = corrupt(given, "attributes", share=0.5, pairs=True)
    assert len(pairs.examples) == 2 * pairs.changed == 2 * half.changed
    assert [e.case.response for e in pairs.examples[::2]] == [e.case.response for e in pairs.examples[1::2]]
    assert {e.gold.hallucination for e in pairs.examples[::2]} == {0.0}
    assert {dict(e.group)["corrupted"] for e in pairs.examples[::2]} == {"no"}
    for part in split_by_document(pairs.examples).values():
        twins = Counter(e.case.id.removesuffix("/attributes") for e in part)
        assert set(twins.values()) <= {2}
        assert not {document_of(e) for e in part} & {document_of(e) for e in pairs.examples if e not in part}


def test_what_cannot_be_placed_is_counted_and_not_used() -> None:
    vague = example(0, "The Eagle is for those on a budget.", ("name[The Eagle]", "priceRange[cheap]"))
    wrong = example(1, "The Eagle is cheap.", ("name[The Eagle]", "priceRange[cheap]"), hallucination=1.0)
    unsaid = example(2, "The Eagle.", ("name[The Eagle]", "priceRange[cheap]"), ("priceRange[cheap]",))
    fine = [example(i, *next(iter(TEXTS.items()))) for i in range(3, 6)]
    made = corrupt([vague] * 1 + [wrong, unsaid, *fine], "attributes", share=1.0)
    assert made.changed + sum(made.skipped.values()) == 6
    assert made.skipped["not labelled as grounded"] == 1
    assert made.skipped["fewer than two attributes are said"] == 1
    assert not {"c1", "c2"} & {e.case.id.partition("/")[0] for e in made.examples}
    budget = [example(i, "The Eagle has a low rating.", ("name[The Eagle]", "priceRange[cheap]")) for i in range(40)]
    made = corrupt([*budget, *fine], "attributes", share=1.0)
    assert made.skipped["priceRange: not found"] > 5
    assert all(v.label == "name[The Eagle]" for e in made.examples if e.case.id < "c3" for v in e.gold.verdicts)


def test_an_attribute_that_the_response_leaves_out_is_never_drawn() -> None:
    slots = ("name[The Eagle]", "eatType[pub]", "priceRange[cheap]", "food[English]")
    given = [example(i, "The Eagle is a cheap pub.", slots, ("food[English]",)) for i in range(40)]
    for new in corrupt(given, "attributes", share=1.0).examples:
        assert new.case.source("food").text == "food[English]"
        assert {o.source_id: o.score for o in new.gold.omissions}["food"] == 1.0


def test_a_new_value_is_none_that_the_response_says() -> None:
    text = "Aromi, once called Cotto, is rated 5 out of 5. It is by the river and not in the city centre."
    given = [example(i, text, ("name[Aromi]", "customer rating[5 out of 5]")) for i in range(60)]
    others = [example(i, *item) for i, item in enumerate(TEXTS.items(), 60)]
    made = corrupt([*given, *others], "attributes", share=1.0)
    names = {s.text for e in made.examples for s in e.case.sources if s.id == "name" and e.case.response == text}
    assert names == {"name[Aromi]", "name[The Eagle]"}


def test_one_phrase_for_two_attributes_is_not_used() -> None:
    slots = ("name[The Eagle]", "area[riverside]", "near[riverside]")
    given = [example(i, "The Eagle is by the riverside.", slots) for i in range(20)]
    made = corrupt([*given, *examples()], "attributes", share=1.0)
    # near[riverside] is read as a name, so that nothing is left to say the area
    assert made.skipped["area: not found"] > 0


def test_refusals() -> None:
    with pytest.raises(UnknownNameError, match="attributes"):
        corrupt(examples(), "attribute")
    with pytest.raises(InputError, match="share is 0"):
        corrupt(examples(), "attributes", share=0.0)
    with pytest.raises(InputError, match="is no attribute"):
        corrupt([Example(Case("1", "x", (Source("a", "text"),)), Judgement("1", "a", 0.0))], "attributes")
    gold = Judgement("1", "a", 1.0, verdicts=(Verdict(Span(0, 1), 1.0),))
    with pytest.raises(InputError, match=r"none of 1 examples.*not labelled as grounded \(1\)"):
        corrupt([Example(Case("1", "x", (Source("a", "area[x]"),)), gold)], "attributes")


def test_an_attribute_with_one_value_in_the_data_gets_a_published_one() -> None:
    given = [example(i, "The Eagle is a pub.", ("name[The Eagle]", "eatType[pub]")) for i in range(40)]
    made = corrupt(given, "attributes", share=1.0)
    texts = {s.text for e in made.examples for s in e.case.sources if s.id == "eatType"}
    assert texts == {"eatType[pub]", "eatType[coffee shop]", "eatType[restaurant]"}
    assert made.skipped["name: no other value"] > 0


def test_real_references(shared_data: Path) -> None:
    given = list(read(f"e2e:{shared_data / 'e2e'}"))
    grounded = sum(e.gold.hallucination == 0.0 for e in given)
    made = corrupt(given, "attributes", share=1.0, seed=3)
    assert made.changed > 0.97 * grounded
    assert made.changed + sum(made.skipped.values()) == len(given)
    assert faults(made, {e.case.id: e for e in given}) == []


def test_real_slots_are_placed(shared_data: Path) -> None:
    total: Counter[str] = Counter()
    found: Counter[str] = Counter()
    for e in random.Random(0).sample(list(read(f"e2e:{shared_data / 'e2e'}")), 1500):
        if e.gold.hallucination == 0.0:
            out = {o.source_id for o in e.gold.omissions if o.score}
            slots = [slot_of(s) for s in e.case.sources if s.id not in out]
            for slot, places in zip(slots, place_slots(e.case.response, slots), strict=True):
                total[slot[0]] += 1
                found[slot[0]] += not isinstance(places, Unplaced)
    assert {name: found[name] / total[name] > 0.96 for name in total} == dict.fromkeys(total, True)
