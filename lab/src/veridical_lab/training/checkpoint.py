"""Save checkpoints of a training run, and resume the run from them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from veridical.io.files import read_text, replacing, write_whole
from veridical.records.errors import DataError, InputError

if TYPE_CHECKING:
    import torch

CHECKPOINT = "checkpoint"
_STATE = "state.json"
Tensors = dict[str, "torch.Tensor"]


class TrainingStopped(InputError):
    """Raised when training stops early because the caller asked for it. The checkpoint is kept."""


@dataclass(slots=True)
class Reached:
    """The progress of a training run.

    Attributes:
        step: The number of steps taken.
        without_gain: The number of evaluations since the best one.
        best: The best validation figure so far, or None if nothing was measured yet.
        history: The figures of all evaluations.
        passes: The number of batches in each pass over the data, for all passes that have begun.
    """

    step: int = 0
    without_gain: int = 0
    best: float | None = None
    history: list[dict[str, Any]] = field(default_factory=list)
    passes: list[int] = field(default_factory=list)


def save_checkpoint(
    folder: Path,
    training: str,
    reached: Reached,
    weights: Mapping[str, Mapping[str, torch.Tensor]],
    optimiser: Sequence[Mapping[str, torch.Tensor]],
) -> None:
    """Write a checkpoint. An earlier checkpoint is replaced.

    Args:
        folder: The folder to write to.
        training: A digest that identifies the training. It is compared when the training resumes.
        reached: The progress of the training.
        weights: Sets of weights by name, such as the current and the best weights.
        optimiser: The state of each parameter in the optimiser, in the optimiser's order.
    """
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    sets = {**weights, **{f"optimiser.{i}": state for i, state in enumerate(optimiser)}}
    # copies: a file cannot hold two tensors that share memory
    tensors = {
        f"{group}.{name}": tensor.detach().clone().contiguous()
        for group, members in sets.items()
        for name, tensor in members.items()
    }
    file = f"state-{reached.step}.safetensors"
    with replacing(folder / file, follow_link=False) as path:
        save_file(tensors, path)
    document = {"training": training, **asdict(reached), "tensors": file}
    write_whole(folder / _STATE, json.dumps(document) + "\n", follow_link=False)
    for old in folder.glob("state-*.safetensors"):
        if old.name != file:
            old.unlink()


def resume_checkpoint(
    folder: Path, training: str, parameters: int
) -> tuple[Reached, dict[str, Tensors], list[Tensors]] | None:
    """Read a checkpoint: the progress, the sets of weights, and the optimiser's state for `parameters` parameters.

    Return None if there is no checkpoint.

    Raises:
        InputError: The checkpoint belongs to another training.
        DataError: The checkpoint is damaged.
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
        group, _, name = key.partition(".")
        if group == "optimiser":
            number, _, name = name.partition(".")
            optimiser[int(number)][name] = tensor
        else:
            sets.setdefault(group, {})[name] = tensor
    return reached, sets, optimiser
