"""Weights rounded for given inputs: multiples of a scale, whose products change less than those rounded one by one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from veridical.inference.local_model import LocalModel
from veridical.inference.pair_runner import PairRunner
from veridical.inference.pairs import PairEncoder, PairEncoding
from veridical.models.torch_engine import TorchEngine
from veridical.records.types import Case, Source
from veridical_lab.models.rounding import rounded, rounded_matrices

SOURCE = Source("a", "The committee met on Monday and agreed that the river should be cleaned before the summer.")


def one_by_one(weights: torch.Tensor, largest: int) -> torch.Tensor:
    scales = weights.abs().amax(1, keepdim=True).clamp_min(1e-12) / largest
    return (weights / scales).round() * scales


@given(st.integers(0, 10_000), st.integers(1, 300), st.sampled_from([7, 64, 127]))
def test_weights_become_multiples_of_the_same_scale(seed: int, inputs: int, largest: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    weights, states = torch.randn(6, inputs, generator=draw), torch.randn(40, inputs, generator=draw)
    weights[0] = 0.0
    result = rounded(weights, states.T @ states, largest)
    assert torch.allclose(result.abs().amax(1), weights.abs().amax(1), rtol=1e-6)
    assert torch.allclose(one_by_one(result, largest), result, atol=1e-6)
    assert not result[0].any()


@pytest.mark.parametrize("inputs", [48, 200])  # of one block of columns, and of two
def test_products_change_less_than_with_each_weight_rounded_by_itself(inputs: int) -> None:
    draw = torch.Generator().manual_seed(1)
    states = torch.randn(2000, 12, generator=draw) @ torch.randn(12, inputs, generator=draw)
    states += 0.1 * torch.randn(2000, inputs, generator=draw)
    weights = torch.randn(32, inputs, generator=draw)
    error = {
        name: float((states @ (w - weights).T).norm())
        for name, w in (("together", rounded(weights, states.T @ states, 64)), ("alone", one_by_one(weights, 64)))
    }
    assert error["together"] < 0.6 * error["alone"]


def test_the_matrices_of_a_model_are_rounded_for_a_while(tiny_model: Callable[..., LocalModel]) -> None:
    model = tiny_model("bert")
    runner = PairRunner(TorchEngine(model))
    cases = [Case(str(i), text, (SOURCE,)) for i, text in enumerate(("The committee met.", "Nobody agreed at all."))]
    windows = [w for each in PairEncoder(model).encode(cases) if isinstance(each, PairEncoding) for w in each.windows]
    before = runner.run(windows)
    originals = {name: weights.clone() for name, weights in model.model.named_parameters()}
    with rounded_matrices(runner, windows, 64):
        changed = {name for name, w in model.model.named_parameters() if not torch.equal(w, originals[name])}
        layers = {f"{name}.weight" for name, part in model.model.named_modules() if isinstance(part, torch.nn.Linear)}
        assert changed == layers
        for one, other in zip(before, runner.run(windows), strict=True):
            assert not np.array_equal(one.response, other.response)
            assert np.abs(one.response - other.response).max() < 0.1
    assert all(torch.equal(weights, originals[name]) for name, weights in model.model.named_parameters())
    for one, other in zip(before, runner.run(windows), strict=True):
        assert np.array_equal(one.response, other.response)
