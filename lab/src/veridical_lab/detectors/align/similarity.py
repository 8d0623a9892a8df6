"""Find the best matches between the embeddings of two texts by cosine, in both directions, block by block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

BLOCK = 4096  # columns of the matrix held at once, in fp32
_ROWS = 1024  # rows held at once
_NONE = -2.0  # below any cosine
_Floats = NDArray[np.float32]
_Ints = NDArray[np.int64]
_Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Matches:
    """The `k` best matches of each row among the columns, best first, and the best row of each column.

    If there is no match, the cosine is -2 and the index is -1.

    *Shape:* `cosines` and `columns` are (rows, k). `column_cosines` and `rows` are (columns,), or empty if they were
    not requested.
    """

    cosines: _Floats
    columns: _Ints
    column_cosines: _Floats
    rows: _Ints


def best_matches(
    rows: torch.Tensor,
    columns: torch.Tensor,
    *,
    rows_allowed: _Bools | None = None,
    columns_allowed: _Bools | None = None,
    both: bool = True,
    k: int = 3,
    block: int = BLOCK,
) -> Matches:
    """Compare every row with every column, and keep only one block of the matrix in memory.

    Args:
        rows: Embeddings of length 1. *Shape:* (rows, width)
        columns: Embeddings of length 1, in any precision, possibly memory-mapped. *Shape:* (columns, width)
        rows_allowed: Which rows may match a column. Default: all rows. *Shape:* (rows,)
        columns_allowed: Which columns may match a row. Default: all columns. *Shape:* (columns,)
        both: Whether to find the best row of each column as well.
        k: How many matches to return for each row.
        block: How many columns to compare at once.
    """
    import torch

    queries = rows.float()
    n, m = len(rows), len(columns)
    best = torch.full((n, k), _NONE)
    index = torch.full((n, k), -1)
    back = torch.full((m if both else 0,), _NONE)
    back_index = torch.full((m if both else 0,), -1)
    # addmm adds a bias within the product, which rules out columns that are not allowed
    bias = torch.zeros(m) if columns_allowed is None else torch.from_numpy(np.where(columns_allowed, 0.0, -4.0)).float()
    forbidden = None if rows_allowed is None else torch.from_numpy(~rows_allowed)
    for first in range(0, m, block):
        part = columns[first : first + block].float().T
        for top in range(0, n, _ROWS):
            some = slice(top, top + _ROWS)
            cosines = torch.addmm(bias[first : first + block], queries[some], part)
            if both:
                free = cosines - bias[first : first + block]
                if forbidden is not None:
                    free = free.masked_fill(forbidden[some, None], _NONE)
                values, places = free.max(0)
                better = values > back[first : first + block]
                back[first : first + block][better] = values[better]
                back_index[first : first + block][better] = places[better] + top
            values, places = cosines.topk(min(k, cosines.shape[1]))
            values, places = torch.cat([best[some], values], 1), torch.cat([index[some], places + first], 1)
            best[some], order = values.topk(k)
            index[some] = places.gather(1, order)
    index[best < -1.5] = -1
    best.clamp_(min=_NONE)
    back_index[back < -1.5] = -1
    return Matches(best.numpy(), index.numpy(), back.numpy(), back_index.numpy())
