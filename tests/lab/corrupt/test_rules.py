"""Errors made by rule: every type, their spans, what is never put in, copied sentences, real texts."""

import random
import re
from collections import Counter
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.lab.corrupt.examples import restored
from veridical.datasets import read
from veridical.records.errors import InputError
from veridical.records.types import Case, Example, Judgement, Source
from veridical.text import quantities
from veridical_lab.corrupt import corrupt
from veridical_lab.corrupt.english import ANTONYMS, UNIT_GROUPS, VALUE_WORDS
from veridical_lab.corrupt.error_types import ERROR_TYPES, implied
from veridical_lab.corrupt.rules import Rules, copied_sentences, text_examples
from veridical_lab.datasets.wikipedia import read_texts

ARTICLE = (
    "In May 2019 the surgeon Ann Berg moved to Oslo, where she opened a clinic with 1,200 beds. "
    "Jon Dahl defeated Ola Nord on 3 May 2021, after the largest match was not shown. "
    "The tower is 300 metres tall and cost $5 million. Eva Lind lived in Lima."
)
OTHER = "Per Moe sold the house in Quito, which had stood empty since the flood. Ida Holm met him in Cairo."


def example(response: str, source: str = ARTICLE, id: str = "c") -> Example:
    return Example(Case(id, response, (Source("a", source),)), Judgement(id, "human:a", 0.0), document=id)


def changes(response: str, kind: str, *, source: str = ARTICLE, seeds: int = 30) -> set[tuple[str, str]]:
    """What is put in the place of what, by the seed."""
    given = example(response, source)
    rules = Rules([given, example("x", OTHER, "o")], types=[kind])
    results = [rules.change(given, random.Random(seed)) for seed in range(seeds)]
    made = [result for result in results if isinstance(result, Example)]
    assert all(restored(changed) == response != changed.case.response for changed in made)
    assert {v.label for changed in made for v in changed.gold.verdicts} <= {kind}
    return {(v.correction or "", v.span.of(m.case.response)) for m in made for v in m.gold.verdicts}


@pytest.mark.parametrize(
    ("kind", "response", "old", "new"),
    [
        ("number", "It has 1,200 beds.", {"1,200"}, r"[1-9],[1-9]00|[1-9],[0-9]{3}"),
        ("number", "He came 3rd of all.", {"3rd"}, r"2nd|[4-9]th"),
        ("number", "She saw three owls.", {"three"}, "two|four|five|six|seven|eight|nine|ten|eleven|twelve"),
        ("date", "It was on 3 May 2021.", {"3", "May", "2021"}, r"\d|[A-Z][a-z]+|[12]\d{3}"),
        ("date", "He left in 2019.", {"2019"}, r"19[89]\d|20\d\d"),
        ("date", "He left on May 29, 2010.", {"May", "29", "2010"}, r"\d\d|[A-Z][a-z]+|[12]\d{3}"),
        ("unit", "It is 300 metres tall.", {"metres"}, "miles|feet|kilometres"),
        ("unit", "It cost $5 million.", {"$", "million"}, "£|€|thousand|billion|trillion"),
        ("name", "A surgeon, Ann Berg, moved.", {"Ann Berg"}, "Jon Dahl|Ola Nord|Eva Lind|Per Moe|Ida Holm"),
        ("negation", "The match was not shown.", {"was not"}, "was"),
        ("negation", "The match wasn’t shown.", {"wasn’t"}, "was"),
        ("negation", "We can't go.", {"can't"}, "can"),
        ("negation", "The tower is tall.", {"is"}, "is not"),
        ("negation", "Later she opened it.", {"opened"}, "never opened"),
        ("antonym", "It was the largest match.", {"largest"}, "smallest"),
        ("antonym", "Early on it rained.", {"Early"}, "Late"),
        ("relation", "In it Jon Dahl defeated Ola Nord.", {"Jon Dahl", "Ola Nord"}, "Jon Dahl|Ola Nord"),
        ("relation", "It was Rome that led. Ola was beaten.", set(), ""),
        ("invented", "The tower is tall.", {""}, ", which had stood empty since the flood|, .*[0-9]+ .*"),
    ],
)
def test_each_type(kind: str, response: str, old: set[str], new: str) -> None:
    made = changes(response, kind)
    assert {before for before, _ in made} == old
    assert all(re.fullmatch(new, after) for _, after in made), made


@pytest.mark.parametrize(
    ("kind", "response"),
    [
        ("number", "One of them came in [3]."),
        ("date", "They may leave, and the Saturday Evening Post wrote so."),
        ("negation", "She asked whether it was so."),
        ("negation", "It is not only tall but wide."),
        ("antonym", "She was named after him, at most."),
        ("relation", "Ann Berg met Ola Nord."),
        ("invented", "Is it tall?"),
    ],
)
def test_what_no_rule_can_change_is_counted(kind: str, response: str) -> None:
    assert changes(response, kind) == set()
    given = [example(response)]
    rules = Rules(given, types=[kind])
    assert rules.change(given[0], random.Random(0)) == f"no {kind} that can be changed"


def test_examples_without_sources_or_words_are_not_used() -> None:
    rules, bare = Rules([]), Example(Case("1", "It is so."), Judgement("1", "h", 0.0))
    assert rules.change(bare, random.Random(0)) == "no source to contradict"
    assert rules.change(example("…"), random.Random(0)) == "the response has no words"


def test_no_value_is_put_in_that_a_source_has() -> None:
    source = "There were 2, three, 4 and 5 of 6; 7, eight and then 9.5 or ten."
    assert {new for _, new in changes("There were 2.", "number", source=source)} == {"9"}
    assert {new for _, new in changes("It took ten.", "number", source=source)} == {"nine", "eleven", "twelve"}
    # 300 metres is 0.3 kilometres, and the source has the other length, too
    lengths = "It is 300 metres tall and 300 kilometres away, 300 miles by sea."
    assert changes("It is 300 metres tall.", "unit", source=lengths) == {("metres", "feet")}


def test_no_name_or_antonym_is_put_in_that_the_source_sentence_has() -> None:
    source = "Ann Berg and Eva Lind won, and lost, in Oslo. It rained on Per Moe."
    names = {new for _, new in changes("Ann Berg won in Oslo.", "name", source=source) if " " in new}
    assert names <= {"Per Moe", "Ida Holm"}
    assert changes("Ann Berg won in Oslo.", "antonym", source=source) == set()


def test_articles_stay_right() -> None:
    assert changes("It was an early day.", "antonym") == set()
    assert {new for _, new in changes("It was an 8-hour day.", "number", seeds=200)} <= {"11", "18"}


def test_word_lists_have_no_fixed_points() -> None:
    assert all(word != opposite for word, opposite in ANTONYMS.items())
    for groups in (VALUE_WORDS, UNIT_GROUPS):
        assert all(word not in others for word, others in groups.items())


def test_share_types_and_order() -> None:
    given = [example(f"Jon Dahl won {i} games in May 2019.", id=f"c{i}") for i in range(20, 90)]
    made = corrupt(given, "rules", share=0.6, types=["number", "date"], seed=4)
    kinds = Counter(dict(e.group)["corrupted"] for e in made.examples)
    assert set(kinds) == {"no", "number", "date"}
    assert 0.4 < made.changed / len(given) < 0.8
    unchanged = [e for e in made.examples if not e.gold.verdicts]
    assert all(e.case in [g.case for g in given] for e in unchanged)
    back = corrupt(given[::-1], "rules", share=0.6, types=["number", "date"], seed=4)
    assert back.examples[::-1] == made.examples
    one = next(e for e in made.examples if e.gold.verdicts)
    alone = [g for g in given if one.case.id == f"{g.case.id}/rules"]
    assert corrupt(alone, "rules", share=0.6, types=["number", "date"], seed=4).examples == (one,)


@pytest.mark.parametrize(
    ("how", "types", "says"),
    [
        ("rules", ["nmber"], "did you mean number"),
        ("rules", [], "no error type"),
        ("entities", ["name"], "no error types"),
    ],
)
def test_types_that_do_not_fit_are_refused(how: str, types: list[str], says: str) -> None:
    with pytest.raises(InputError, match=says):
        corrupt([example("It is 3 km.")], how, types=types)


def test_copied_sentences() -> None:
    texts = [*text_examples([ARTICLE, OTHER, ARTICLE], "set")]
    copies = list(copied_sentences(texts, 2, seed=1))
    assert [e.document for e in copies] == ["set/0", "set/0", "set/1", "set/1"]
    for copy in copies:
        assert copy.case.response in copy.case.sources[0].text
        assert dict(copy.group) == {"response": "copied"}
        assert copy.gold.hallucination == 0.0
    assert len({e.case.id for e in copies}) == 4
    assert list(copied_sentences(texts[:1], 2, seed=1)) == copies[:2]


WORDS = [*"""
Ann Berg|3 May 2021|5 km|was|not|won|$5 million|Ola|defeated|a|an|first|8|née|İstanbul|😀|before|12th|.|May|he|opened|
isn’t|"|3,5|1990s|-
""".replace("\n", "").split("|"), "\n"]  # fmt: skip


@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=25).map(" ".join), st.integers(0, 2**32))
def test_only_what_is_marked_differs(response: str, seed: int) -> None:
    given = example(response)
    rules = Rules([given, example("x", OTHER, "o")])
    changed = rules.change(given, random.Random(seed))
    assert changed == rules.change(given, random.Random(seed))
    if isinstance(changed, str):
        return
    assert changed.case.response != response
    assert restored(changed) == response
    kind = dict(changed.group)["corrupted"]
    for verdict in changed.gold.verdicts:
        assert len(verdict.span) > 0
        assert (verdict.score, verdict.label) == (1.0, kind)
        assert verdict.span.of(changed.case.response) != verdict.correction


def test_wikipedia(shared_data: Path) -> None:
    texts = islice(read_texts(shared_data / "wikipedia"), 200)
    copies = list(copied_sentences(text_examples(texts, "wikipedia"), 2))
    made = corrupt(copies, "rules", share=1.0, pairs=True)
    assert made.changed > 0.98 * len(copies)
    for old, new in zip(made.examples[::2], made.examples[1::2], strict=True):
        assert restored(new) == old.case.response
        (source,) = new.case.sources
        assert new.case.response.rstrip(".!") not in source.text
        kind = dict(new.group)["corrupted"]
        if kind in ("number", "date", "unit"):
            (verdict,) = new.gold.verdicts
            added = implied(new.case.response) - implied(old.case.response)
            assert added - implied(source.text), (verdict, added)
    counts = Counter(dict(e.group)["corrupted"] for e in made.examples[1::2])
    assert all(counts[kind] > 0.02 * len(copies) for kind in ERROR_TYPES if kind not in ("unit", "relation"))


def test_given_responses(shared_data: Path) -> None:
    given = list(read(f"xsum_token:{shared_data / 'xsum_token'}"))
    made = corrupt(given, "rules", share=1.0)
    assert made.changed > 140
    assert all(e.gold.verdicts for e in made.examples)


def test_values_are_read_in_lower_case() -> None:
    assert quantities.fold("İSTANBUL 5 KM") == "istanbul 5 km"
