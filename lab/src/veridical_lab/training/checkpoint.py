"""What a training has reached, as a folder from which the same training goes on."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from veridical.core.errors import DataError, InputError
from veridical.core.files import read_text, replacing, write_whole

if TYPE_CHECKING:
    import torch

__all__ = [
    "CHECKPOINT",
    "Reached",
    "TrainingStopped",
    "remaining_steps",
    "resume_checkpoint",
    "save_checkpoint",
    "scale_at",
]

CHECKPOINT = "checkpoint"
_STATE = "state.json"
Tensors = dict[str, "torch.Tensor"]


class TrainingStopped(InputError):
    """Training ended before its last step because it was asked to; its checkpoint is kept."""


@dataclass(slots=True)
class Reached:
    """How far a training is.

    Attributes:
        step: How many steps were taken.
        without_gain: How many evaluations in a row were not better than the best.
        best: The best figure on validation so far; None before the first evaluation, or if none is measured.
        history: The figures of all evaluations.
    """

    step: int = 0
    without_gain: int = 0
    best: float | None = None
    history: list[dict[str, Any]] = field(default_factory=list)


def remaining_steps(
    reached: Reached, steps: int, save: Callable[[], None], *, stop: Callable[[], bool], checkpoint_minutes: float
) -> Iterator[int]:
    """The steps that are still to be taken; between two of them, what was reached is saved now and then.

    Args:
        reached: How far the training is at the beginning.
        steps: How many steps it has.
        save: Saves what was reached.
        stop: Asked after every step whether to save and end; `TrainingStopped` is raised then.
        checkpoint_minutes: How often what was reached is saved.
    """
    saved = time.monotonic()
    for step in range(reached.step, steps):
        yield step
        if stop():
            save()
            raise TrainingStopped(f"stopped after step {step + 1} of {steps}", hint="the same command goes on")
        if time.monotonic() - saved > 60 * checkpoint_minutes:
            save()
            saved = time.monotonic()


def scale_at(step: int, steps: int, warmup: float) -> float:
    """The share of the highest learning rate at a step: rising to 1 over `warmup` of all steps, then falling to 0.

    >>> [round(scale_at(step, 10, 0.2), 2) for step in (0, 1, 6)]
    [0.5, 1.0, 0.5]
    """
    warm = max(1, round(warmup * steps))
    return min((step + 1) / warm, (steps - step) / max(1, steps - warm))


def save_checkpoint(
    folder: Path,
    training: str,
    reached: Reached,
    weights: Mapping[str, Mapping[str, torch.Tensor]],
    optimiser: Sequence[Mapping[str, torch.Tensor]],
) -> None:
    """Write a checkpoint in place of the one that is there.

    Args:
        folder: Where to write.
        training: What must be equal for the checkpoint to be of the same training.
        reached: How far it is.
        weights: Sets of weights by name, such as those of now and the best ones.
        optimiser: The optimiser's state of each parameter, in the optimiser's order.
    """
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    sets = {**weights, **{f"optimiser.{i}": state for i, state in enumerate(optimiser)}}
    # copies: a file cannot hold two tensors that share memory
    tensors = {
        f"{of}.{name}": tensor.detach().clone().contiguous() for of, s in sets.items() for name, tensor in s.items()
    }
    file = f"state-{reached.step}.safetensors"
    with replacing(folder / file) as path:
        save_file(tensors, path)
    document = {"training": training, **asdict(reached), "tensors": file}
    write_whole(folder / _STATE, json.dumps(document) + "\n")
    for old in folder.glob("state-*.safetensors"):
        if old.name != file:
            old.unlink()


def resume_checkpoint(
    folder: Path, training: str, parameters: int
) -> tuple[Reached, dict[str, Tensors], list[Tensors]] | None:
    """What `save_checkpoint` wrote (the optimiser's state for so many parameters); None where there is no checkpoint.

    Raises:
        InputError: If the checkpoint is of another training.
        DataError: If it is damaged.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    path = folder / _STATE
    if not path.is_file():
        return None
    try:
        document = json.loads(read_text(path))
        if document.pop("training") != training:
            raise InputError(
                f"{folder} is a checkpoint of another training (other data, options or model)",
                hint="name another folder, or delete the checkpoint",
            )
        tensors = load_file(folder / str(document.pop("tensors")))
        reached = Reached(**document)
    except (AttributeError, KeyError, OSError, TypeError, json.JSONDecodeError, SafetensorError) as error:
        raise DataError(f"a damaged checkpoint: {error}", path=path, hint="delete the folder to start again") from None
    sets: dict[str, Tensors] = {}
    optimiser: list[Tensors] = [{} for _ in range(parameters)]
    for key, tensor in tensors.items():
        of, _, name = key.partition(".")
        if of == "optimiser":
            number, _, name = name.partition(".")
            optimiser[int(number)][name] = tensor
        else:
            sets.setdefault(of, {})[name] = tensor
    return reached, sets, optimiser
