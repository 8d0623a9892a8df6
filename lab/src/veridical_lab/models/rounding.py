"""Round weight matrices so that their products change least (GPTQ: Frantar et al. 2023, arXiv:2210.17323).

Rounding each weight by itself would undo a short training, because most weights change by less than half a step. Here,
when a column is rounded, the columns after it make up for the error, as far as the model's own states allow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from veridical.inference.pair_runner import PairRunner
from veridical.inference.pairs import Window
from veridical.models.torch_engine import TorchEngine

if TYPE_CHECKING:
    import torch

_DAMPING = 0.01  # share of the mean second moment, added to each; as in the paper
_BLOCK = 128  # columns whose errors reach the columns behind them together


@contextmanager
def rounded_matrices(runner: PairRunner, windows: Sequence[Window], largest: int) -> Iterator[None]:
    """While the context lasts, round the weights of the model's linear layers.

    The weights of each output become multiples of a scale, which is the largest of these weights divided by `largest`.
    Rounding them again has no effect, because the largest weight does not change. Layers that do not run on `windows`
    are not changed.

    Args:
        runner: Runs the model, in fp32 on the CPU.
        windows: Compute states on these windows, with about ten thousand tokens like those that the model will read.
        largest: Weights become at most this many times the scale.
    """
    moments = _moments(runner, windows)
    original = {layer: layer.weight.data for layer in moments}
    try:
        for layer, of_layer in moments.items():
            layer.weight.data = rounded(layer.weight.data, of_layer, largest)
        yield
    finally:
        for layer, weights in original.items():
            layer.weight.data = weights


def _moments(runner: PairRunner, windows: Sequence[Window]) -> dict[torch.nn.Linear, torch.Tensor]:
    """Sum the second moments of the inputs of each linear layer. *Shape:* (inputs, inputs)"""
    import torch

    moments: dict[torch.nn.Linear, torch.Tensor] = {}
    latest: list[torch.Tensor] = [torch.empty(0), torch.empty(0)]  # query, key and value have the same inputs

    def add(layer: torch.nn.Linear, inputs: tuple[torch.Tensor, ...]) -> None:
        if inputs[0] is not latest[0]:
            states = inputs[0].flatten(0, -2)
            latest[:] = inputs[0], states.T @ states
        moments[layer] = moments[layer] + latest[1] if layer in moments else latest[1]

    engine = TorchEngine(runner.model)
    layers = [module for module in runner.model.model.modules() if isinstance(module, torch.nn.Linear)]
    with ExitStack() as stack, torch.inference_mode():
        for layer in layers:
            stack.enter_context(layer.register_forward_pre_hook(add))
        for row in runner.rows(windows):  # one by one: nothing is padded
            engine.forward(runner.lay([[windows[i] for i in row]]))
    return moments


def rounded(weights: torch.Tensor, moments: torch.Tensor, largest: int) -> torch.Tensor:
    """Round weights *(outputs, inputs)* column by column.

    The columns of the inputs with the largest moments come first.
    """
    import torch

    order = moments.diagonal().argsort(descending=True)
    w, h = weights[:, order].clone(), moments[order][:, order].double()
    h.diagonal().add_(_DAMPING * h.diagonal().mean() + 1e-12)
    inverse = torch.linalg.cholesky(torch.cholesky_inverse(torch.linalg.cholesky(h)), upper=True).float()
    highest, place = w.abs().max(1)
    scales = (highest / largest).clamp_min(1e-12)
    kept, result = w.gather(1, place[:, None])[:, 0], torch.zeros_like(w)
    for start in range(0, w.shape[1], _BLOCK):
        end = min(start + _BLOCK, w.shape[1])
        errors = torch.zeros(w.shape[0], end - start)
        for i in range(start, end):
            column = (w[:, i] / scales).round().clamp(-largest, largest) * scales
            result[:, i] = torch.where(place == i, kept, column)
            errors[:, i - start] = (w[:, i] - result[:, i]) / inverse[i, i]
            w[:, i:end] -= errors[:, i - start, None] * inverse[i, i:end]
        w[:, end:] -= errors @ inverse[start:end, end:]
    return result[:, order.argsort()]
