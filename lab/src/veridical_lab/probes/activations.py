"""Read the hidden states of response tokens by sequence, from memory or by running the model for every read.

To keep states on disk, use `activation_store`. Sequences are grouped so that each group fits into memory, and training
reads sequences of one group at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from veridical.inference.local_model import LocalModel
from veridical.records.errors import InputError
from veridical_lab.models.runner import RequestedOutputs, Runner
from veridical_lab.models.sublayers import check_sublayers
from veridical_lab.probes.labelled_sequences import EncodedExamples

if TYPE_CHECKING:
    import torch

Indices = NDArray[np.int64]
_READ_AT_ONCE = 64  # sequences read at once when only their means are kept


class ActivationStates(Protocol):
    """A vector for each response token and sublayer, by sequence. You can number things other than sublayers, too.

    Attributes:
        sublayers: The numbers of the sublayers, in ascending order.
        width: The dimension of a vector.
        lengths: The number of vectors of each sequence. *Shape:* (sequences,)
        groups: The sequences to read together, in order. Each group fits into memory.
    """

    sublayers: tuple[int, ...]
    width: int
    lengths: Indices
    groups: list[Indices]

    def read(self, sequences: Indices, sublayers: Sequence[int]) -> torch.Tensor:
        """Read the states of sequences of one group, concatenated, in fp32, (sublayers, tokens, width)."""
        ...


def as_size(count: float) -> str:
    """Format a number of bytes.

    >>> as_size(3 << 20)
    '3.1 MB'
    """
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            break
        count /= 1000
    return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"


def group_by_length(lengths: Indices, limit: int) -> list[Indices]:
    """Group adjacent sequences. Each group has at most `limit` tokens in total, or is a single sequence."""
    bounds, tokens = [0], 0
    for i, length in enumerate(lengths.tolist()):
        if tokens and tokens + length > limit:
            bounds.append(i)
            tokens = 0
        tokens += length
    return [np.arange(a, b) for a, b in zip(bounds, [*bounds[1:], len(lengths)], strict=True)]


def row_indices(starts: Indices, lengths: Indices) -> Indices:
    """Return the row indices of all sequences, given their first rows and lengths, concatenated."""
    ends = np.cumsum(lengths)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - (ends - lengths), lengths)


def check_finite(states: torch.Tensor, what: str) -> None:
    """Check that all of `states` (sublayers, tokens, width) are finite.

    Raises:
        InputError: A number is not finite.
    """
    for i in range(states.shape[0]):
        if not bool(states[i].isfinite().all()):
            raise InputError(f"{what} hold numbers that are not finite", hint="keep them in fp32 or bf16")


def compute_states(
    runner: Runner, data: EncodedExamples, sequences: Indices, sublayers: tuple[int, ...]
) -> torch.Tensor:
    """Compute the states of `sequences`, (sublayers, tokens, width) in fp32.

    Raises:
        InputError: Some states are not finite.
    """
    import torch

    parts = []
    results = runner.run([data.encoded[i] for i in sequences], RequestedOutputs(logprobs=False, sublayers=sublayers))
    for i, result in zip(sequences.tolist(), results, strict=True):
        if result.failed:
            case = data.examples[data.example_of[i]].case
            raise InputError(
                f"case {case.id!r} has no activations to train on: {result.failed}",
                hint="run the model in fp32 or bf16 (--dtype), or leave the case out",
            )
        parts.append(torch.from_numpy(np.stack([result.hidden[s] for s in sublayers])))
    return torch.cat(parts, 1)


class RecomputedStates:
    """Runs the model to compute states for every read, that is, in every epoch of training. Nothing is stored.

    A group takes at most `memory` bytes (as fp32, of all sublayers).
    """

    def __init__(
        self,
        model: LocalModel,
        data: EncodedExamples,
        sublayers: Sequence[int] | None = None,
        *,
        memory: int = 1 << 30,
    ) -> None:
        self.sublayers = check_sublayers(model, sublayers)
        self.width = int(model.model.config.get_text_config().hidden_size)
        self.lengths = data.lengths
        self.groups = group_by_length(self.lengths, max(1, memory // (4 * len(self.sublayers) * self.width)))
        self._data, self._runner = data, Runner(model)

    def read(self, sequences: Indices, sublayers: Sequence[int]) -> torch.Tensor:
        """Compute the states. See `ActivationStates`."""
        return compute_states(self._runner, self._data, sequences, tuple(sublayers))


class _StatesInMemory:
    """States in memory, (sublayers, tokens, width) in any dtype."""

    def __init__(self, states: torch.Tensor, lengths: Indices, sublayers: tuple[int, ...]) -> None:
        self.sublayers = sublayers
        self.width = int(states.shape[2])
        self.lengths = lengths
        self.groups = [np.arange(len(lengths))]
        self._states = states
        self._starts = np.r_[0, np.cumsum(lengths)]

    def read(self, sequences: Indices, sublayers: Sequence[int]) -> torch.Tensor:
        import torch

        rows = torch.from_numpy(row_indices(self._starts[sequences], self.lengths[sequences]))
        indices = [self.sublayers.index(s) for s in sublayers]
        return torch.stack([self._states[i].index_select(0, rows).float() for i in indices])


def in_memory(states: Any, lengths: Any, sublayers: Sequence[int]) -> ActivationStates:
    """Wrap states (numpy or torch) of shape (sublayers, tokens, width) with concatenated sequences.

    Raises:
        InputError: The shapes do not fit together, or a number is not finite.
    """
    import torch

    tensor = torch.as_tensor(states)
    lengths = np.asarray(lengths, dtype=np.int64)
    if tensor.ndim != 3 or tensor.shape[0] != len(sublayers) or tensor.shape[1] != lengths.sum():
        raise InputError(
            f"states of shape {tuple(tensor.shape)} for {len(sublayers)} sublayers, {lengths.sum()} tokens"
        )
    check_finite(tensor, "the given states")
    return _StatesInMemory(tensor, lengths, tuple(sublayers))


def mean_states(states: ActivationStates, sequences: Indices, sublayers: Sequence[int]) -> ActivationStates:
    """Average the states over the tokens of each sequence, in memory, so that each sequence has a single token.

    Sequences that are not in `sequences` have no token in the result. If there would be more means than tokens in the
    largest group, `states` is returned unchanged.
    """
    import torch

    distinct = np.unique(sequences)
    if len(distinct) > max(int(states.lengths[group].sum()) for group in states.groups):
        return states
    means = torch.zeros(len(sublayers), len(distinct), states.width)
    for group in states.groups:
        part = group[np.isin(group, distinct)]
        for start in range(0, len(part), _READ_AT_ONCE):
            few = part[start : start + _READ_AT_ONCE]
            tokens = states.read(few, sublayers).split(states.lengths[few].tolist(), 1)
            for i, of_sequence in zip(np.searchsorted(distinct, few).tolist(), tokens, strict=True):
                means[:, i] = of_sequence.mean(1)
    lengths = np.zeros_like(states.lengths)
    lengths[distinct] = 1
    return _StatesInMemory(means, lengths, tuple(sublayers))
