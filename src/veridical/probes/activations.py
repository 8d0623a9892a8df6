"""Hidden states of response tokens by sequence: in memory, or made anew by the model at every reading.

`train.store` keeps them on disk. What learns asks for the states of some sequences of one group, which fits in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from veridical.core.errors import InputError
from veridical.models.artifact import base_of
from veridical.models.load import LocalModel
from veridical.models.runner import Runner, Want
from veridical.models.sublayers import sublayer_count
from veridical.probes.labelled_sequences import Forced

if TYPE_CHECKING:
    import torch

__all__ = ["Ids", "States", "Streamed", "check_finite", "grouped", "in_memory", "rows_of", "run_states", "sublayers_of"]

Ids = NDArray[np.int64]


class States(Protocol):
    """Hidden states by sequence. `groups` are sequences that are read together, in order; each fits into memory."""

    sublayers: tuple[int, ...]
    width: int
    lengths: Ids
    groups: list[Ids]

    def read(self, sequences: Ids, sublayers: Sequence[int]) -> torch.Tensor:
        """The states of these sequences (of one group), one after another: fp32, (sublayers, tokens, width)."""
        ...


def sublayers_of(model: LocalModel, chosen: Sequence[int] | None) -> tuple[int, ...]:
    """`chosen` in ascending order, all 2L for None; `InputError` for one that the model does not have."""
    count = sublayer_count(model)
    wrong = [i for i in chosen or () if not 0 <= i < count]
    if wrong:
        raise InputError(f"there is no sublayer {wrong[0]}", hint=f"the model has sublayers 0 to {count - 1}")
    return tuple(sorted(set(chosen))) if chosen else tuple(range(count))


def grouped(lengths: Ids, limit: int) -> list[Ids]:
    """Runs of neighbouring sequences of at most `limit` tokens each (or one sequence)."""
    bounds, held = [0], 0
    for i, n in enumerate(lengths.tolist()):
        if held and held + n > limit:
            bounds.append(i)
            held = 0
        held += n
    return [np.arange(a, b) for a, b in zip(bounds, [*bounds[1:], len(lengths)], strict=True)]


def run_states(
    model: LocalModel, forced: Forced, sequences: Ids, sublayers: tuple[int, ...], runner: Runner | None = None
) -> torch.Tensor:
    """The states of these sequences, (sublayers, tokens, width) in fp32; `InputError` where they are not finite."""
    import torch

    want = Want(logprobs=False, sublayers=sublayers)
    parts = []
    results = (runner or Runner(model)).run([forced.encoded[i] for i in sequences], want)
    for i, result in zip(sequences.tolist(), results, strict=True):
        if result.failed:
            case = forced.examples[forced.example_of[i]].case
            raise InputError(
                f"case {case.id!r} has no activations to train on: {result.failed}",
                hint="run the model in fp32 or bf16 (--dtype), or leave the case out",
            )
        parts.append(torch.from_numpy(np.stack([result.hidden[s] for s in sublayers])))
    return torch.cat(parts, 1)


class Streamed:
    """States that are made by the model at every reading; nothing is stored, every epoch is a pass of the model."""

    def __init__(
        self,
        model: LocalModel,
        forced: Forced,
        sublayers: Sequence[int] | None = None,
        *,
        memory: int = 1 << 30,
    ) -> None:
        self.sublayers = sublayers_of(model, sublayers)
        self.width = base_of(model).width
        self.lengths = forced.lengths
        self.groups = grouped(self.lengths, max(1, memory // (4 * len(self.sublayers) * self.width)))
        self._model, self._forced, self._runner = model, forced, Runner(model)

    def read(self, sequences: Ids, sublayers: Sequence[int]) -> torch.Tensor:
        """See `States`."""
        return run_states(self._model, self._forced, sequences, tuple(sublayers), self._runner)


class _Held:
    """States in memory, (sublayers, tokens, width) in any dtype."""

    def __init__(self, states: torch.Tensor, lengths: Ids, sublayers: tuple[int, ...]) -> None:
        self.sublayers = sublayers
        self.width = int(states.shape[2])
        self.lengths = lengths
        self.groups = [np.arange(len(lengths))]
        self._states = states
        self._starts = np.r_[0, np.cumsum(lengths)]

    def read(self, sequences: Ids, sublayers: Sequence[int]) -> torch.Tensor:
        """See `States`."""
        import torch

        rows = torch.from_numpy(rows_of(self._starts[sequences], self.lengths[sequences]))
        places = [self.sublayers.index(s) for s in sublayers]
        return torch.stack([self._states[i].index_select(0, rows).float() for i in places])


def in_memory(states: Any, lengths: Any, sublayers: Sequence[int]) -> States:
    """Given states, *shape* (sublayers, tokens, width), numpy or torch, the sequences one after another."""
    import torch

    made = torch.as_tensor(states)
    lengths = np.asarray(lengths, dtype=np.int64)
    if made.ndim != 3 or made.shape[0] != len(sublayers) or made.shape[1] != lengths.sum():
        raise InputError(f"states of shape {tuple(made.shape)} for {len(sublayers)} sublayers, {lengths.sum()} tokens")
    check_finite(made, "the states given")
    return _Held(made, lengths, tuple(sublayers))


def check_finite(states: torch.Tensor, what: str) -> None:
    """Nothing, if all of (sublayers, tokens, width) are numbers; `InputError` otherwise."""
    for i in range(states.shape[0]):
        if not bool(states[i].isfinite().all()):
            raise InputError(f"{what} hold numbers that are not finite", hint="keep them in fp32 or bf16")


def rows_of(starts: Ids, lengths: Ids) -> Ids:
    """The rows start, start + 1 … of every run, one run after another."""
    ends = np.cumsum(lengths)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - (ends - lengths), lengths)
