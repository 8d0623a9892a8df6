"""Masked words: what is masked, gold exact to the character, ranking, and the same result in any batch."""

import random
from itertools import pairwise
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lab.corrupt.examples import restored
from veridical.inference.local_model import LocalModel
from veridical.models.load import load
from veridical.records.errors import InputError
from veridical.records.types import Case, Example, Judgement, Source
from veridical.text.segment import sentences, words
from veridical.text.stopwords import STOP_WORDS
from veridical_lab.corrupt import attempts, corrupt, masked
from veridical_lab.corrupt.masked import Masked, MaskedOptions, maskable
from veridical_lab.models.filling import PieceSampling
from veridical_lab.models.perplexity import mean_surprisal
from veridical_lab.models.testing import tiny

TEXT = (
    "The committee met on Monday. Dr. Anna Berg led the study. Paris is the capital of France, and it has 1,250 tonnes "
    "of mud. The cat sat on the mat near the lake; Marta Kowalska won the race on 3 May 1998. The dogs slept in the "
    "house near the river with Anna Berg's brother, who had read the answer."
)


@pytest.fixture(scope="module")
def fills(tmp_path_factory: pytest.TempPathFactory) -> LocalModel:

    return load(tiny("bert", tmp_path_factory.mktemp("fills"), head="MaskedLM"), dtype="fp32", kinds=("masked",))


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> LocalModel:
    return load(tiny("gpt2", tmp_path_factory.mktemp("ranks")), dtype="fp32")


def example(text: str, id: str) -> Example:
    return Example(Case(id, text, (Source("s", text),)), Judgement(id, "human:a", 0.0), document=id)


EXAMPLES = [example(TEXT.replace("cat", f"cat of {i} years"), f"c{i}") for i in range(7)]


@settings(max_examples=30)
@given(st.text(st.sampled_from("aB é1,.'’\n İ\U0001f600") | st.characters(codec="utf-8"), max_size=60))
def test_what_may_be_masked_of_any_text(text: str) -> None:
    units = maskable(text)
    assert [span for span, _ in units] == sorted(span for span, _ in units)
    assert all(a.end <= b.start for (a, _), (b, _) in pairwise(units))
    assert all(span.of(text).strip() == span.of(text) != "" for span, _ in units)
    assert not {span.of(text).lower() for span, _ in units} & STOP_WORDS


def test_gold_is_exact_and_only_later_sentences_are_changed(fills: LocalModel, ranks: LocalModel) -> None:
    way = Masked(model=fills, ranker=ranks, options=MaskedOptions(ratio=0.3, candidates=3))
    made = corrupt(EXAMPLES, lambda _: way, share=1.0, seed=3)
    assert made.changed == len(EXAMPLES)
    labels = set()
    for before, after in zip(EXAMPLES, made.examples, strict=True):
        assert restored(after) == before.case.response != after.case.response
        assert after.case.sources == before.case.sources
        begin = sentences(before.case.response)[2].start
        assert after.case.response[:begin] == before.case.response[:begin]
        allowed = {span.of(before.case.response) for span, _ in maskable(before.case.response)}
        assert {verdict.correction for verdict in after.gold.verdicts} <= allowed
        assert (after.gold.by, after.gold.hallucination) == ("corrupt:masked", 1.0)
        assert [key for key, _ in after.gold.provenance] == ["fill_model", "rank_model"]
        changed = sum(len(words(verdict.correction or "")) for verdict in after.gold.verdicts)
        assert changed <= round(0.3 * len(words(before.case.response[begin:])))
        labels |= {verdict.label for verdict in after.gold.verdicts}
    assert labels == {"word", "name", "number", "date"}


def test_the_same_seed_gives_the_same_whatever_the_batch(fills: LocalModel, ranks: LocalModel) -> None:
    def made(batch_size: int, seed: int) -> list[object]:
        way = Masked(model=fills, ranker=ranks, options=MaskedOptions(candidates=4))
        return list(attempts(EXAMPLES, way, share=0.7, seed=seed, batch_size=batch_size))

    assert made(1, 0) == made(3, 0) == made(100, 0)
    assert made(100, 0) != made(100, 1)


def test_the_most_fluent_candidate_is_kept(
    fills: LocalModel, ranks: LocalModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, float] = {}

    def surprisal(model: LocalModel, texts: list[str]) -> list[float]:
        found = mean_surprisal(model, texts)
        given.update(zip(texts, found, strict=True))
        return found

    monkeypatch.setattr(masked, "mean_surprisal", surprisal)
    way = Masked(model=fills, ranker=ranks, options=MaskedOptions(candidates=6))
    result = way.change(EXAMPLES[0], random.Random(0))
    assert isinstance(result, Example)
    assert len(given) == 6
    assert given[result.case.response] == min(given.values())


def test_texts_as_fluent_as_each_other_are_read_alone(
    fills: LocalModel, ranks: LocalModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def surprisal(model: LocalModel, texts: list[str]) -> list[float]:
        """Numbers that differ by less than rounding, in an order that depends on the batch."""
        return [1 + 1e-6 * ((crc32(text.encode()) if len(texts) == 1 else i) % 97) for i, text in enumerate(texts)]

    monkeypatch.setattr(masked, "mean_surprisal", surprisal)
    way = Masked(model=fills, ranker=ranks, options=MaskedOptions(candidates=6))
    together = way.change_many(EXAMPLES, [random.Random(i) for i in range(7)])
    assert together == [way.change(one, random.Random(i)) for i, one in enumerate(EXAMPLES)]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("It rains. It snows.", "fewer than 3 sentences"),
        ("", "fewer than 3 sentences"),
        ("Rain falls. Snow falls. It is as it was, and so on!", "nothing that can be masked from sentence 3 on"),
        ("Rain falls. Snow falls. Слово это дома.", "the model's tokenizer splits all that can be masked"),
    ],
)
def test_texts_that_cannot_be_used_are_counted(text: str, reason: str, fills: LocalModel) -> None:
    result = Masked(model=fills).change(example(text, "x"), random.Random(0))
    assert isinstance(result, str)
    assert result.startswith(reason)


def test_what_says_the_same_is_put_back(fills: LocalModel, monkeypatch: pytest.MonkeyPatch) -> None:
    def filled(gaps: list[object], names: list[str], count: int) -> list[list[tuple[str, ...]]]:
        return [[tuple(span.of(g.text) + "s" for span in g.spans)] for g in gaps]  # type: ignore[attr-defined]

    way = Masked(model=fills)
    monkeypatch.setattr(way._filler, "fill", filled)
    text = "Rain falls. Snow falls. The river met the committee."
    assert way.change(example(text, "x"), random.Random(0)) == "the model proposes nothing that says anything else"


def test_one_unit_at_least_and_none_next_to_another(fills: LocalModel) -> None:
    text = "Rain falls. Snow falls. " + "It " + " ".join(["river lake house cat"] * 5) + "."
    for ratio, most in ((0.001, 1), (1.0, 10)):
        way = Masked(model=fills, options=MaskedOptions(ratio=ratio, sampling=PieceSampling(top_k=3)))
        result = way.change(example(text, "x"), random.Random(1))
        assert isinstance(result, Example)
        spans = [verdict.span for verdict in result.gold.verdicts]
        assert 1 <= len(spans) <= most
        assert all(words(result.case.response[a.end : b.start]) for a, b in pairwise(spans))


def test_models_that_do_not_fit(fills: LocalModel, ranks: LocalModel, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--fill-model"):
        corrupt(EXAMPLES, "masked")
    with pytest.raises(InputError, match="--rank-model"):
        Masked(model=fills, options=MaskedOptions(candidates=2))
    with pytest.raises(InputError, match="cannot rank texts"):
        Masked(model=fills, ranker=fills)
    for wrong in ({"ratio": 0.0}, {"first_sentence": 0}, {"candidates": 0}):
        with pytest.raises(InputError, match=r"above 0|from 1"):
            MaskedOptions(**wrong)  # type: ignore[arg-type]
