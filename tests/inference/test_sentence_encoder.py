"""Sentence embeddings: the mean of the states of a text, whatever stands beside it."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from veridical.inference.pair_runner import PairRunner  # noqa: E402
from veridical.inference.sentence_encoder import SentenceEncoder  # noqa: E402
from veridical.models.load import load  # noqa: E402
from veridical.models.torch_engine import TorchEngine  # noqa: E402
from veridical_lab.models.testing import tiny  # noqa: E402

TEXTS = ["query: When was the bridge opened?", "passage: The bridge was opened in 1893.", "passage: " + "long " * 500]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> SentenceEncoder:
    folder = tiny("bert", tmp_path_factory.mktemp("sentence") / "model", tokenizer="unigram")
    model = load(folder, kinds=("encoder",), dtype="fp32", device="cpu")
    return SentenceEncoder(lambda: PairRunner(TorchEngine(model)))


def test_an_embedding_is_the_mean_of_the_states_of_all_tokens(encoder: SentenceEncoder) -> None:
    found = encoder.embed(TEXTS)
    for text, embedding, window in zip(TEXTS, found, encoder.windows(TEXTS), strict=True):
        assert len(window.ids) <= encoder.runner.model.max_positions, text
        with torch.inference_mode():
            states = encoder.runner.model.model(torch.from_numpy(window.ids).long()[None]).last_hidden_state[0]
        mean = states.mean(0).numpy()
        assert embedding == pytest.approx(mean / np.linalg.norm(mean), abs=1e-4)
        assert float(np.linalg.norm(embedding)) == pytest.approx(1.0, abs=1e-5)
    assert encoder.embed([]).shape == (0, 0)


def test_the_same_texts_are_read_once(encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    first = encoder.embed(TEXTS)
    monkeypatch.setattr(PairRunner, "run", lambda *_: pytest.fail("it is read again"))
    assert np.array_equal(encoder.embed(TEXTS), first)


def test_a_reader_with_a_shared_prompt_embeds_texts_alike(encoder: SentenceEncoder) -> None:
    runner = PairRunner(TorchEngine(encoder.runner.model), attention="prefix")
    assert SentenceEncoder(lambda: runner).embed(TEXTS) == pytest.approx(encoder.embed(TEXTS), abs=1e-4)


def test_the_most_similar_text_is_found(encoder: SentenceEncoder) -> None:
    others = ["The bridge was opened in 1893.", "A small boat.", "The river rises slowly."]
    assert [encoder.most_similar(text, others) for text in reversed(others)] == [2, 1, 0]
