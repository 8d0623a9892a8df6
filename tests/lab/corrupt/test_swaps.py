"""Names, numbers and times: found, and swapped in the source (`knowledge`) or in the response (`entities`)."""

import os
import random
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.lab.corrupt.examples import restored
from tests.processes import python
from veridical.datasets import read
from veridical.records.errors import InputError, UnknownNameError
from veridical.records.types import Case, Example, Judgement, Omission, Source, Span
from veridical_lab.corrupt import corrupt
from veridical_lab.corrupt.knowledge import TYPES, Knowledge
from veridical_lab.corrupt.mentions import Names, find_mentions, occurrences, substitute_for

PLACES = ["Oslo", "Lima", "Cairo", "Quito", "Hanoi", "Dakar"]
PEOPLE = ["Ann Berg", "Ola Nord", "Eva Lind", "Jon Dahl", "Ida Holm", "Per Moe"]


def example(i: int) -> Example:
    who, place, year = PEOPLE[i % 6], PLACES[(i * 5 + 1) % 6], 1900 + i
    source = f"The architect {who} built a library in {place} in {year}. It has three floors, and {who} liked it."
    response = f"A library was built by {who} in {place}, in {year}."
    case = Case(f"c{i}", response, (Source("a", source), Source("b", "An empty page.")), prompt="made by this")
    return Example(case, Judgement(f"c{i}", "human:a", 0.0), document=f"d{i}")


def examples(count: int = 48) -> list[Example]:
    return [example(i) for i in range(count)]


@pytest.mark.parametrize(
    ("text", "known", "expected"),
    [
        ("In May 1998 Ann Berg saw 1,250 owls.", "", ["May", "1998", "Ann Berg", "1,250"]),
        ("Walking helps. Rain does not.", "", []),
        ("Ronaldo scored.", "It was Ronaldo who scored.", ["Ronaldo"]),
        ("Cristiano Ronaldo scored twice.", "", ["Cristiano Ronaldo"]),
        ("The Bank of England rose 3.5%.", "", ["Bank of England", "3.5"]),
        ("It is Safety first, and safety last.", "", []),
        ("on 3-4 and A1 and v2.0 and 1/2", "", ["A1", "1", "2"]),
        ("Nine of ten", "", ["Nine", "ten"]),
        ("", "", []),
    ],
)
def test_mentions(text: str, known: str, expected: list[str]) -> None:
    assert [m.span.of(text) for m in find_mentions(text, known=known)] == expected


@given(st.text(alphabet="Ab9,. -'é\n", max_size=60))
def test_mentions_do_not_overlap(text: str) -> None:
    spans = [m.span for m in find_mentions(text)]
    assert all(a.end <= b.start for a, b in pairwise(spans))
    assert all(s.of(text).strip() == s.of(text) != "" for s in spans)


@given(st.from_regex(r"[1-9][0-9]{0,2}(,[0-9]{3}){0,2}(\.[0-9]{1,2})?", fullmatch=True), st.integers())
def test_a_number_is_written_like_the_one_it_stands_for(phrase: str, seed: int) -> None:
    new = substitute_for(phrase, "number", Names([]), [phrase], random.Random(seed))
    assert new is None or (re.sub(r"\d", "0", new) == re.sub(r"\d", "0", phrase) and new != phrase)


def test_names_are_drawn_like_for_like() -> None:
    names = Names(["He met Ann Berg in Oslo.", "She met Ola Nord near Lima.", "It is NASA and ESA."])
    drawn = {substitute_for("Oslo", "name", names, ["Oslo"], random.Random(i)) for i in range(20)}
    assert drawn == {"Lima"}
    assert substitute_for("Ann Berg", "name", names, ["Ann Berg", "ola nord"], random.Random(0)) is None
    assert substitute_for("NASA", "name", names, [], random.Random(1)) in ("NASA", "ESA")
    assert substitute_for("three", "number", names, ["three"], random.Random(1)) != "three"
    assert substitute_for("May", "time", names, ["June ", "July "], random.Random(1)) not in ("June", "July")


def test_knowledge_changes_every_source_and_marks_the_response() -> None:
    originals = {e.case.id: e for e in examples()}
    made = corrupt(originals.values(), "knowledge", share=1.0)
    assert (made.changed, made.skipped) == (48, {})
    for new in made.examples:
        old = originals[new.case.id.removesuffix("/knowledge")]
        assert new.case.response == old.case.response
        assert new.case.prompt is None  # it showed the old source
        (verdict,) = new.gold.verdicts
        gone = verdict.span.of(new.case.response)
        assert occurrences(old.case.sources[0].text, gone)
        assert not any(word in s.text for s in new.case.sources for word in gone.split())
        assert {e.span.of(new.case.source(e.source_id).text) for e in verdict.evidence} == {verdict.correction}
        assert verdict.reason == f"{gone!r} was changed to {verdict.correction!r} in the source"
        assert (new.document, new.gold.by, new.gold.hallucination) == (old.document, "corrupt:knowledge", 1.0)
    assert Counter(dict(e.group)["corrupted"] for e in made.examples).keys() == {"name", "number"}


def test_every_type_of_error_in_the_knowledge() -> None:
    """Entity, predicate, circumstance and coreference errors, free ones, and what the source no longer says."""
    source = "Ann Berg lived in Oslo. In 1998 she won the first race. She was happy, and her house was large."
    case = Case("1", "Ann Berg won the first race in 1998, and she was happy.", (Source("a", source),))
    grounded = Example(case, Judgement("1", "h", 0.0), "1")
    others = [Example(Case("2", "x", (Source("b", "He met Ola Nord in May."),)), Judgement("2", "h", 0.0), "2")]
    way = Knowledge([grounded, *others], types=TYPES)
    made = {kind: way.make(kind, grounded, random.Random(3)) for kind in TYPES}
    texts = {}
    for kind, changed in made.items():
        assert isinstance(changed, Example), (kind, changed)
        texts[kind] = changed.case.sources[0].text
        assert texts[kind] != source
        assert changed.case.response == case.response
        assert changed.gold.hallucination == 1.0
        marked = [v.span.of(case.response) for v in changed.gold.verdicts]
        assert marked
        assert not any(occurrences(texts[kind], word) for word in marked)
    assert "Ola Nord lived" in texts["entity"]
    assert "1998" not in texts["circumstance"]
    assert {"sad", "unhappy", "last", "lost"} & set(re.findall(r"\w+", texts["predicate"]))
    assert "In 1998 he won" in texts["coreference"]
    assert "He was happy, and his house" in texts["coreference"]
    assert dict(made["extrinsic"].group)["kind"] == "extrinsic"  # type: ignore[union-attr]
    assert re.search("someone|an unnamed year|several", texts["extrinsic"], re.I)
    assert len(made["freestyle"].gold.verdicts) >= 2  # type: ignore[union-attr]
    drawn = {dict(way.change(grounded, random.Random(i)).group)["type"] for i in range(30)}  # type: ignore[union-attr]
    assert drawn == set(TYPES)
    bare = Example(Case("3", "It rained.", (Source("c", "It rained."),)), Judgement("3", "h", 0.0), "3")
    assert [way.make(kind, bare, random.Random(0)) for kind in ("predicate", "coreference", "freestyle")] == [
        "no word with an opposite",
        "no pronoun is in both texts",
        "fewer than two errors can be made",
    ]
    with pytest.raises(UnknownNameError, match="error type of knowledge"):
        Knowledge([grounded], types=["name"])


def test_what_is_left_elsewhere_in_the_sources_makes_it_unusable() -> None:
    case = Case("1", "He met Ann Berg.", (Source("a", "Ann Berg came."), Source("b", "Berg's house.")))
    given = [Example(case, Judgement("1", "h", 0.0)), *examples(6)]
    made = corrupt(given, "knowledge", share=1.0)
    assert made.skipped == {"part of it is left in the sources": 1}
    again = Case("1", "He met Ann Berg, and Ann left.", (Source("a", "Ann Berg came."),))
    made = corrupt([Example(again, Judgement("1", "h", 0.0)), *examples(6)], "knowledge", share=1.0)
    assert made.skipped == {"the response mentions part of it again": 1}


def test_omissions_keep_pointing_at_their_sources() -> None:
    given = []
    for e in examples(6):
        size = len(e.case.sources[0].text)
        omission = Omission("a", Span(0, size), 0.0)
        gold = Judgement(e.case.id, "human:a", 0.0, 0.0, omissions=(omission,))
        given.append(Example(e.case, gold, e.document))
    for new in corrupt(given, "knowledge", share=1.0).examples:
        assert new.gold.omissions == (Omission("a", Span(0, len(new.case.sources[0].text)), 0.0),)


def test_entities_swap_in_the_response() -> None:
    originals = {e.case.id: e for e in examples()}
    made = corrupt(originals.values(), "entities", share=1.0)
    assert made.changed == 48
    for new in made.examples:
        old = originals[new.case.id.removesuffix("/entities")]
        assert new.case.sources == old.case.sources
        (verdict,) = new.gold.verdicts
        assert restored(new) == old.case.response
        put = verdict.span.of(new.case.response)
        inside = any(put in s.text for s in new.case.sources)
        assert dict(new.group)["kind"] == ("intrinsic" if inside else "extrinsic")
        assert put not in old.case.response


def test_texts_without_anything_to_swap_are_counted() -> None:
    plain = Example(Case("p", "it rained", (Source("a", "it rained a lot"),)), Judgement("p", "h", 0.0))
    made = corrupt([plain, *examples(6)], "knowledge", share=1.0)
    assert made.skipped == {"no name, number or time is in both texts": 1}
    with pytest.raises(InputError, match="none of 1 examples"):
        corrupt([plain], "entities", share=1.0)


@pytest.mark.parametrize(("name", "how", "least"), [("conv_fever", "knowledge", 500), ("bump", "entities", 600)])
def test_real_data(shared_data: Path, name: str, how: str, least: int) -> None:
    given = list(read(f"{name}:{shared_data / name}"))
    made = corrupt(given, how, share=1.0, pairs=True)
    assert made.changed >= least
    assert len(made.examples) == 2 * made.changed
    for old, new in zip(made.examples[::2], made.examples[1::2], strict=True):
        assert new.gold.verdicts
        assert new.document == old.document
        changed, kept = (new.case.sources, old.case.sources) if how == "knowledge" else ("", "")
        assert (changed != kept) == (how == "knowledge")
        for verdict in new.gold.verdicts:
            text = verdict.span.of(new.case.response)
            assert not (how == "knowledge" and any(occurrences(s.text, text) for s in new.case.sources))


def test_the_choice_of_a_word_depends_on_the_seed_alone() -> None:
    """Sets of words have another order in every process (PYTHONHASHSEED)."""
    code = """
import random
from veridical.records.types import Case, Example, Judgement, Source
from veridical_lab.corrupt.knowledge import Knowledge
text = "The new small house is open, hot, old, high, early, light and near."
one = Example(Case("c", text, (Source("a", text),)), Judgement("c", "human:a", 0.0), document="d")
print([Knowledge([one]).make("predicate", one, random.Random(i)).case.sources[0].text for i in range(5)])
"""
    made = {
        python("-c", code, env=os.environ | {"PYTHONHASHSEED": seed}, text=True, check=True).stdout for seed in "12"
    }
    assert len(made) == 1
