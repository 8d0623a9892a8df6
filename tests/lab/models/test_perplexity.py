"""The mean surprisal of texts is what the model gives, whatever else is in the batch."""

import math
from collections.abc import Callable

import pytest
import torch

from veridical.inference.local_model import LocalModel
from veridical_lab.models.perplexity import mean_surprisal

TEXT = "The committee met on Monday and agreed that the river should be cleaned."


def test_it_is_that_of_a_plain_pass(tiny_model: Callable[..., LocalModel]) -> None:
    model = tiny_model("llama")
    first, empty, second = mean_surprisal(model, [TEXT, "", "The cat " * 30])
    ids = [1, *model.tokenizer(TEXT, add_special_tokens=False)["input_ids"]]
    with torch.inference_mode():
        log_p = torch.log_softmax(model.model(input_ids=torch.tensor([ids])).logits[0, :-1], -1)
    expected = -log_p.gather(1, torch.tensor(ids[1:])[:, None]).mean()
    assert first == pytest.approx(float(expected), abs=1e-5)
    assert math.isnan(empty)
    assert mean_surprisal(model, ["The cat " * 30])[0] == pytest.approx(second, abs=1e-5)


def test_a_long_text_is_read_in_pieces(tiny_model: Callable[..., LocalModel]) -> None:
    model = tiny_model("llama")
    text = " ".join([TEXT] * 40)
    ids = model.tokenizer(text, add_special_tokens=False)["input_ids"]
    assert len(ids) > model.max_positions
    (found,) = mean_surprisal(model, [text])
    room = model.max_positions - 1
    total = 0.0
    for at in range(0, len(ids), room):
        piece = [1, *ids[at : at + room]]
        with torch.inference_mode():
            log_p = torch.log_softmax(model.model(input_ids=torch.tensor([piece])).logits[0, :-1], -1)
        total -= float(log_p.gather(1, torch.tensor(piece[1:])[:, None]).sum())
    assert found == pytest.approx(total / len(ids), abs=1e-4)
