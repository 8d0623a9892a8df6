"""Pad rows of token ids to one tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from veridical.inference.local_model import LocalModel

if TYPE_CHECKING:
    import torch


def rectangle(
    model: LocalModel, rows: Sequence[Sequence[int] | NDArray[np.integer[Any]]], *, left: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """Pad rows of ids, on the right or on the `left`, and return them with the mask. *Shape:* (rows, tokens) each"""
    import torch

    width = max(1, *map(len, rows))
    ids = np.full((len(rows), width), model.padding_token, dtype=np.int64)
    mask = np.zeros((len(rows), width), dtype=np.int64)
    for i, row in enumerate(rows):
        columns = slice(width - len(row), width) if left else slice(0, len(row))
        ids[i, columns], mask[i, columns] = row, 1
    return torch.from_numpy(ids).to(model.device), torch.from_numpy(mask).to(model.device)
