"""Rewrites keep what is said: what each does, what it leaves alone, and that nothing else changes."""

import random
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veridical.records.edits import apply, check_edits
from veridical.records.errors import InputError
from veridical.records.types import Case, Example, Judgement, Source
from veridical.text import quantities
from veridical_lab.corrupt import corrupt
from veridical_lab.corrupt.passages import implied, passages_of
from veridical_lab.corrupt.rewrites import REWRITES, rewrite, rewritten
from veridical_lab.corrupt.rules import copied_sentences, text_examples
from veridical_lab.datasets.wikipedia import read_texts

SOURCE = (
    "The surgeon Ann Berg said so on 3 May 2021. Berg beat Ola Nord in 2019. Rolf Moe and Rita Moe live in Lima. "
    "The painter Ida Lindqvist came."
)


def example(response: str, source: str = SOURCE, id: str = "c") -> Example:
    return Example(Case(id, response, (Source("a", source),)), Judgement(id, "human:a", 0.0), document=id)


def results(response: str, kind: str, source: str = SOURCE) -> set[str]:
    """All that one type of rewrite makes of a response."""
    return {
        apply(response, [edit])
        for passage in passages_of(example(response, source).case)
        for seed in range(5)
        for edit in REWRITES[kind](passage, random.Random(seed))
    }


@pytest.mark.parametrize(
    ("kind", "response", "rewrites"),
    [
        ("synonym", "He bought it in order to win.", {"He purchased it in order to win.", "He bought it to win."}),
        ("synonym", "It became an enormous one.", set()),
        ("number_form", "It has 1,200 beds.", {"It has 1200 beds."}),
        ("number_form", "It has 12500 beds.", {"It has 12,500 beds."}),
        ("number_form", "In 1999 she saw three owls.", {"In 1999 she saw 3 owls."}),
        ("number_form", "She saw 3 owls.", {"She saw three owls."}),
        ("number_form", "It is 330 m tall.", {"It is 330 metres tall."}),
        ("number_form", "It is 330 metres tall.", {"It is 330 m tall."}),
        ("number_form", "It fell by 5%.", {"It fell by 5 percent."}),
        ("number_form", "It has 2.5 million.", {"It has 2,500,000."}),
        ("number_form", "It cost $5 million.", {"It cost $5,000,000.", "It cost 5 million dollars."}),
        ("number_form", "The three-year war of Twelve Angry Men, no. 3 [4].", set()),
        ("number_form", "It has R$5 million of ISO 9002 and Apollo 11.", set()),
        ("date_form", "It was between 8 and 14 April 2024.", set()),
        ("cut", "It is found from 300 to 500 (–1000) m there.", set()),
        ("date_form", "On 3 May 2021 it fell.", {"On May 3, 2021 it fell.", "On 2021-05-03 it fell."}),
        ("date_form", "On May 3, 2021, it fell.", {"On 3 May 2021, it fell.", "On 2021-05-03, it fell."}),
        ("date_form", "From March 24 to 30 it fell.", set()),
        ("date_form", "It was in 1990–95.", {"It was in 1990–1995."}),
        ("contraction", "It was not there.", {"It wasn't there."}),
        ("contraction", "It wasn’t there.", {"It was not there."}),
        ("contraction", "She can't go.", {"She cannot go."}),
        ("contraction", "Isn't it so?", set()),
        ("name_form", "Then Ida Lindqvist left.", {"Then Lindqvist left."}),
        ("name_form", "Then Lindqvist left.", {"Then Ida Lindqvist left."}),
        ("name_form", "Then Rolf Moe left, and Moe came.", set()),
        ("voice", "Ann Berg beat Ola Nord in 2019.", {"Ola Nord was beaten by Ann Berg in 2019."}),
        ("voice", "Ola Nord was beaten by Ann Berg in 2019.", {"Ann Berg beat Ola Nord in 2019."}),
        ("voice", "The surgeon Ann Berg beat Ola Nord.", set()),
        ("order", "In 2019, the clinic was opened.", {"The clinic was opened in 2019."}),
        ("order", "The clinic was opened on 3 May 2019.", {"On 3 May 2019, the clinic was opened."}),
        ("order", "Berg had opened it in May 2019.", {"In May 2019, Berg had opened it."}),
        ("order", "In 2019, it was sold, which was wrong.", set()),
        ("order", "It was finished in 1986 to replace the one of the county in 1930.", set()),
        ("order", "It was near a bridge built in 1930.", set()),
        ("order", "It was near a bridge newly built in 1930.", set()),
        ("conjuncts", "It was near Lima and Oslo.", set()),
        ("split", "Ann Berg moved to Lima, and she opened it.", {"Ann Berg moved to Lima. She opened it."}),
        ("cut", "The clinic (a big one) was sold there.", {"The clinic was sold there."}),
        ("cut", "The clinic, which had stood empty, was sold to her.", {"The clinic was sold to her."}),
        ("cut", "It was the first one there in 2019.", set()),
        ("adverb", "She also opened one.", {"She opened one."}),
        ("adverb", "She was not very tall.", set()),
        ("adverb", "However, she left.", {"She left."}),
    ],
)
def test_each_type(kind: str, response: str, rewrites: set[str]) -> None:
    assert results(response, kind) == rewrites


def test_places_and_people_change_order_only_with_their_kind() -> None:
    source = "They live in Lima. They live in Oslo. The city of Lima and the city of Oslo are far."
    assert results("It was near Lima and Oslo.", "conjuncts", source) == {"It was near Oslo and Lima."}
    assert results("It was near Lima and Oslo, respectively.", "conjuncts", source) == set()


def test_a_frame_keeps_names_and_opens_the_response_only() -> None:
    made = results("The clinic was sold. It was empty.", "framing")
    assert made
    assert all(text.endswith(" the clinic was sold. It was empty.") for text in made)
    assert all(text.endswith(" Lima is far.") for text in results("Lima is far.", "framing"))


def test_values_stay_what_they_are() -> None:
    """Whatever form a number or date takes, no value is implied that was not implied before."""
    text = "It cost $5 million on May 3, 2021 and weighs 1,200 kg, 12% of three tonnes, in 1990–95."
    for kind in ("number_form", "date_form"):
        for new in results(text, kind):
            values = {key for key in implied(new) if ":" in key}
            assert values & {key for key in implied(text) if ":" in key}
            gone = {key for key in implied(text) if key[:2] in ("d:", "q:")} - values
            assert not gone, (new, gone)


WORDS = [*"""
Ann Berg|Berg|Ola Nord|3 May 2021|5 km|1,200|three|12|was not|wasn't|beat|bought|In 2019,|also|(née Moe)|
, which was big,|, and she left|about 30|is|Lima and Oslo|a|an|.|?|İstanbul|😀|"|However,|$5 million|5%|many owls|
the film|1990–95
""".replace("\n", "").split("|"), "\n"]  # fmt: skip


@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=25).map(" ".join), st.integers(0, 2**32))
def test_only_the_edits_change_anything(response: str, seed: int) -> None:
    case = example(response).case
    for passage in passages_of(case):
        edits = rewrite(passage, random.Random(seed), most=3)
        check_edits(response, edits)
        assert edits == rewrite(passage, random.Random(seed), most=3)
        assert all(passage.span.contains(edit.span) for edit in edits)
        assert all(edit.span.of(response) != edit.replacement for edit in edits)
        assert len({edit.because for edit in edits}) <= 3


def test_what_is_rewritten_stays_faithful_and_can_be_corrupted() -> None:
    given = [example(f"However, Ann Berg bought {i} owls on 3 May 2021.", id=f"c{i}") for i in range(20, 60)]
    new = list(rewritten(given, share=0.5, seed=2))
    kinds = [dict(e.group).get("rewritten") for e in new]
    assert 0.2 < kinds.count(None) / 40 < 0.8
    for old, changed, kind in zip(given, new, kinds, strict=True):
        assert changed.gold == replace(old.gold, case_id=changed.case.id)
        assert (changed == old) == (kind is None)
        assert changed.case.sources == old.case.sources
    assert list(rewritten(given[::-1], share=0.5, seed=2))[::-1] == new
    assert [e.case.response for e in rewritten(given, share=0.5, seed=3)] != [e.case.response for e in new]
    assert corrupt(new, "rules", share=1.0, types=["number"]).changed == 40
    wrong = replace(given[0], gold=Judgement("c20", "human:a", 1.0))
    assert list(rewritten([wrong], share=1.0)) == [wrong]


def test_a_share_out_of_range() -> None:
    with pytest.raises(InputError, match="the share is"):
        list(rewritten([example("It is.")], share=1.5))


def test_wikipedia(shared_data: Path) -> None:
    """No rewrite of a real sentence says a number, date or quantity that is not in its article."""
    texts = islice(read_texts(shared_data / "wikipedia"), 5000, 5150)
    copies = list(copied_sentences(text_examples(texts, "w"), 2))
    changed = 0
    for old, new in zip(copies, rewritten(copies, share=1.0), strict=True):
        changed += new.case.response != old.case.response
        known = implied(old.case.sources[0].text)
        added = {key for key in implied(new.case.response) - implied(old.case.response) if ":" in key} - known
        # "1.5 million dollars" is money twice over; the number alone is in the article
        assert not {key for key in added if key.startswith(("n:", "d:", "o:"))}, (old.case.response, new.case.response)
    assert changed > 0.6 * len(copies)
    assert quantities.keys("5 km") == quantities.keys("5 kilometres")
