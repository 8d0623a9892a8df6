from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from veridical.inference.local_model import LocalModel
from veridical.models.load import load, unload
from veridical.records.errors import InputError
from veridical.records.spans import Span
from veridical.text.segment import words
from veridical_lab.models.masked import mask_in_turn
from veridical_lab.models.testing import tiny

TEXT = "the committee met on monday and agreed that the river should be cleaned"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny("modernbert", tmp_path_factory.mktemp("masked"), head="MaskedLM")


@pytest.fixture(scope="module")
def model(folder: Path) -> LocalModel:
    return load(folder, dtype="fp32", kinds=("causal", "masked"))


def test_one_folder_is_an_encoder_and_a_masked_model(folder: Path, model: LocalModel) -> None:
    encoder = load(folder, dtype="fp32", kinds=("encoder",))
    assert (model.kind, encoder.kind) == ("masked", "encoder")
    assert load(folder, dtype="fp32", kinds=("masked",)) is model
    assert load(folder, dtype="fp32", kinds=("encoder", "causal")) is encoder


def test_an_encoder_without_a_head(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="lack"):
        load(tiny("bert", tmp_path / "bert"), kinds=("masked",))
    with pytest.raises(InputError, match="a masked language model"):
        load(tiny("llama", tmp_path / "llama"), kinds=("masked",))


def test_it_is_what_the_model_gives_with_the_word_masked(model: LocalModel) -> None:
    span = next(span for span in words(TEXT) if span.of(TEXT) == "river")
    ((found,),) = mask_in_turn(model, [TEXT], [[span]])
    encoding = model.tokenizer(TEXT, return_offsets_mapping=True)
    ids = torch.tensor([encoding["input_ids"]])
    inside = [i for i, (start, end) in enumerate(encoding["offset_mapping"]) if start < span.end and end > span.start]
    hidden = ids[0, inside].clone()
    ids[0, inside] = model.tokenizer.mask_token_id
    with torch.inference_mode():
        log_p = torch.log_softmax(model.model(input_ids=ids).logits[0, inside].double(), -1)
    assert found.logprob == pytest.approx(log_p[range(len(inside)), hidden].numpy(), abs=1e-4)
    assert found.entropy == pytest.approx(-(log_p.exp() * log_p).sum(-1).numpy(), abs=1e-3)
    assert found.rank.tolist() == [1 + int((row > row[h]).sum()) for row, h in zip(log_p, hidden, strict=True)]


def test_batches_change_nothing(model: LocalModel) -> None:
    texts = [TEXT, "the cat sat", "", "paris"]
    spans = [words(text) for text in texts]
    every = mask_in_turn(model, texts, spans)
    one_by_one = [
        [mask_in_turn(model, [text], [[span]], max_batch_tokens=1)[0][0] for span in of_text]
        for text, of_text in zip(texts, spans, strict=True)
    ]
    for a, b in zip(chain.from_iterable(every), chain.from_iterable(one_by_one), strict=True):
        assert a.logprob == pytest.approx(b.logprob, abs=1e-4)
        assert a.entropy == pytest.approx(b.entropy, abs=1e-4)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.integers(0, 11), rest=st.text("abc xyz", max_size=20))
def test_left_only_hides_what_follows(model: LocalModel, at: int, rest: str) -> None:
    span = words(TEXT)[at]
    cut = TEXT[: span.end] + " " + rest
    results = [mask_in_turn(model, [text], [[span]], left_only=True)[0][0] for text in (TEXT, cut)]
    assert results[0].logprob == pytest.approx(results[1].logprob, abs=1e-4)


def test_it_sees_what_follows_otherwise(model: LocalModel) -> None:
    span = words(TEXT)[3]
    both, left = (mask_in_turn(model, [TEXT], [[span]], left_only=hide)[0][0] for hide in (False, True))
    assert np.abs(both.logprob - left.logprob).max() > 1e-3


def test_a_long_text_is_cut_around_the_word(model: LocalModel) -> None:
    text = " ".join([TEXT] * 40)
    spans = [words(text)[i] for i in (0, 200, -1)]
    (found,) = mask_in_turn(model, [text], [spans])
    assert all(outputs is not None for outputs in found)


def test_what_has_no_token_or_does_not_fit(model: LocalModel) -> None:
    text = " ".join([TEXT] * 40)
    assert mask_in_turn(model, [text, "a  b"], [[Span(0, len(text))], [Span(1, 2)]]) == [[None], [None]]


def test_a_tokenizer_without_a_mask(tmp_path: Path) -> None:
    plain = load(tiny("modernbert", tmp_path), kinds=("masked",))
    with pytest.raises(InputError, match="has no mask"):
        mask_in_turn(plain, [TEXT], [[Span(0, 3)]])
    unload(plain)
