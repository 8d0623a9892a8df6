"""Training cases from plain text: gold exact to the character, sources as wanted, the same cases for the same seed."""

import random
from collections import Counter
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lab.corrupt.examples import restored
from veridical.records.errors import InputError
from veridical.records.types import Case, Example, Judgement, Omission, Source, Span
from veridical.text.segment import sentences, words
from veridical_lab.corrupt.error_types import ERROR_TYPES
from veridical_lab.corrupt.streams import Recipe, cluttered, excerpt, excerpts, training_examples
from veridical_lab.datasets import plain, wikipedia


def document(i: int) -> str:
    years = [f"In {1900 + 7 * i + j} the town of Moe{chr(97 + j)} built {10 + i * j} stone houses." for j in range(12)]
    return " ".join(years) + " They were sold later to people from the coast."


TEXTS = [document(i) for i in range(1, 25)]


@settings(max_examples=15)
@given(st.integers(0, 1000), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1), st.lists(st.floats(0, 1), max_size=3))
def test_gold_is_exact(seed: int, faithful: float, rewrite: float, clutter: float, errors: list[float]) -> None:
    recipe = Recipe(faithful=faithful, rewrite=rewrite, clutter=clutter, errors=[1.0, *errors], source_words=(20, 80))
    made = list(training_examples(TEXTS[:6], recipe, seed=seed))
    assert made == list(training_examples(TEXTS[:6], recipe, seed=seed))
    for example in made:
        (source,) = example.case.sources
        group = dict(example.group)
        assert (example.gold.hallucination == 1.0) == bool(example.gold.verdicts) == (group["corrupted"] != "no")
        assert len(example.gold.verdicts) <= 2 * len(recipe.errors)
        assert all(verdict.label in ERROR_TYPES and len(verdict.span) for verdict in example.gold.verdicts)
        if group.get("rewritten", "no") == "no":
            for sentence in sentences(restored(example)):
                assert sentence.of(restored(example)) in source.text
        if not example.gold.verdicts and group.get("rewritten", "no") == "no":
            assert example.case.response == restored(example)


def test_shares_are_as_asked() -> None:
    recipe = Recipe(faithful=0.3, rewrite=0.5, errors=(0.5, 0.5), responses=8, source_words=(60, 200))
    made = list(training_examples(TEXTS, recipe))
    assert len(made) > 150
    assert 0.2 < sum(not e.gold.verdicts for e in made) / len(made) < 0.4
    assert 0.35 < sum("rewritten" in dict(e.group) for e in made) / len(made) < 0.65
    several = [e for e in made if "+" in dict(e.group)["corrupted"] or len(e.gold.verdicts) > 1]
    assert 0.2 < len(several) / sum(bool(e.gold.verdicts) for e in made) < 0.6
    assert len({e.case.id for e in made}) == len(made)
    assert {e.document for e in made} == {f"text/{i}" for i in range(24)}


def test_blocks_are_read_one_at_a_time() -> None:
    read = Counter[str]()

    def texts() -> object:
        for text in TEXTS:
            read["texts"] += 1
            yield text

    stream = training_examples(texts(), block=4)  # type: ignore[arg-type]
    next(stream)
    assert read["texts"] == 4


def test_sources_have_the_words_that_are_asked_for() -> None:
    long = " ".join(TEXTS)
    made = list(excerpts(long, "d", Recipe(source_words=(50, 400), responses=1)))
    sizes = [len(words(e.case.sources[0].text)) for e in made]
    assert min(sizes) >= 50
    assert max(sizes) <= 420
    assert max(sizes) > 2 * min(sizes)
    assert all(e.case.sources[0].text in long for e in made)


def test_pronouns_come_with_the_sentence_before() -> None:
    text = "Ann Berg opened a small clinic there. She sold it to the town of Lima later. It rained on all of the roofs."
    spans = sentences(text)
    responses = {excerpt(text, spans, 1, random.Random(seed)) for seed in range(40)}
    assert responses == {"Ann Berg opened a small clinic there.", text[: spans[1].end]}
    assert excerpt(text, spans[1:2], 1, random.Random(0)) == ""


def test_clutter() -> None:
    gold = Judgement("c", "human:a", 0.0)
    given = Example(Case("c", "It is.", (Source("a", "It is so in Lima."), Source("b", "All."))), gold, "d")
    pool = ["It rained on the roofs of Oslo.", "It is so in Lima."]
    (new,) = cluttered([given], pool, words_around=60)
    for source, old in zip(new.case.sources, given.case.sources, strict=True):
        assert old.text in source.text.split("\n")
        assert "roofs of Oslo" in source.text
        assert source.text.count("It is so in Lima.") == (1 if source.id == "a" else source.text.count("Lima"))
    assert list(cluttered([given], pool, words_around=60)) == [new]
    assert list(cluttered([given], pool, share=0.0)) == [given]
    assert list(cluttered([given], [])) == [given]
    covered = Example(
        Case("c", "It is.", (Source("a", "It is.", must_cover=True), Source("b", "All."))),
        Judgement("c", "human:a", 0.0, 1.0, omissions=(Omission("b", Span(0, 3), 1.0),)),
    )
    assert list(cluttered([covered], pool)) == [covered]
    with pytest.raises(InputError, match="the share is 2"):
        list(cluttered([given], pool, share=2))


@pytest.mark.parametrize("options", [{"faithful": 1.2}, {"source_words": (9, 2)}, {"responses": 0}])
def test_recipes_out_of_range(options: dict[str, object]) -> None:
    with pytest.raises(InputError):
        Recipe(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["wikipedia", "plain"])
def test_real_texts(name: str, shared_data: Path) -> None:
    read = {"wikipedia": wikipedia.read_texts, "plain": plain.read_texts}[name]
    made = list(training_examples(islice(read(shared_data / name), 60), name=name))
    counts = Counter(verdict.label for example in made for verdict in example.gold.verdicts)
    assert len(made) > 150
    assert set(counts) == set(ERROR_TYPES)
    for example in made:
        if dict(example.group).get("rewritten", "no") == "no":
            (source,) = example.case.sources
            unchanged = restored(example)
            for sentence in sentences(source.text):
                unchanged = unchanged.replace(sentence.of(source.text), "")
            assert not unchanged.strip()
