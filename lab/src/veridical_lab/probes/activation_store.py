"""Store hidden states in a folder of memory-mapped safetensors files (shards) with an index (`store.json`).

The store is written shard by shard, and an interrupted run can resume. A shard that was only partly written is written
again. An incomplete store cannot be read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from veridical.inference.local_model import DTYPE_NAMES, LocalModel
from veridical.io.files import read_text, replacing, write_whole
from veridical.io.strict_json import parse
from veridical.models.base_model import base_of
from veridical.records.errors import DataError, OutputError, UnknownNameError, WireError
from veridical_lab.models.runner import Runner
from veridical_lab.models.sublayers import check_sublayers
from veridical_lab.probes.activations import (
    Indices,
    as_size,
    check_finite,
    compute_states,
    group_by_length,
    row_indices,
)
from veridical_lab.probes.labelled_sequences import EncodedExamples

if TYPE_CHECKING:
    import torch

STORED_DTYPES = {"bf16": 2, "fp16": 2, "fp32": 4}
STORE_FORMAT = 1
INDEX = "store.json"
_SHARD_BYTES = 64 << 20  # bytes per shard, the maximum that a crash can lose


@dataclass(frozen=True, slots=True)
class _Index:
    """The contents of `store.json`: the model and data that the states come from, and the size of each shard."""

    base: dict[str, Any]
    data: str
    sublayers: list[int]
    dtype: str
    lengths: list[int]
    shards: list[int]  # the number of sequences in each shard

    def path(self, folder: Path, i: int) -> Path:
        return folder / f"shard-{i:05d}-of-{len(self.shards):05d}.safetensors"

    def problem(self, folder: Path, i: int) -> str | None:
        """Check the i-th shard. Return the reason why it cannot be read, or None if it is valid."""
        from safetensors import SafetensorError, safe_open

        path = self.path(folder, i)
        if not path.is_file():
            return "missing"
        first = sum(self.shards[:i])
        tokens = sum(self.lengths[first : first + self.shards[i]])
        expected = [len(self.sublayers), tokens, self.base["width"]]
        try:
            with safe_open(path, framework="pt") as file:
                shape = list(file.get_slice("states").get_shape())
        except (SafetensorError, OSError):
            return "cut short or damaged"
        return None if shape == expected else f"of shape {shape}, not {expected}"


def write_store(
    folder: str | Path,
    model: LocalModel,
    data: EncodedExamples,
    *,
    sublayers: Sequence[int] | None = None,
    dtype: str = "auto",
    progress: Callable[[str], None] = lambda line: None,
) -> ActivationStore:
    """Compute the states of all response tokens and write them to a folder, or complete a store there.

    Args:
        folder: The folder of the store. Complete shards are kept, and all others are written.
        model: The language model to probe.
        data: The sequences.
        sublayers: The sublayers to store. Default: all 2L sublayers of the L blocks.
        dtype: "fp32", "bf16", "fp16", or "auto" (the model's).
        progress: Called with the total size before the model runs, and with a line of text after each shard.

    Returns:
        The store.

    Raises:
        DataError: The folder has a store of other states. The message names the difference.
        InputError: Some states are not finite in `dtype`.
    """
    if dtype != "auto" and dtype not in STORED_DTYPES:
        raise UnknownNameError("dtype of a store", dtype, ["auto", *STORED_DTYPES])
    base = base_of(model)
    if dtype == "auto":
        dtype = DTYPE_NAMES[base.dtype]
    chosen = check_sublayers(model, sublayers)
    bytes_per_token = len(chosen) * base.width * STORED_DTYPES[dtype]
    lengths = data.lengths
    groups = group_by_length(lengths, max(1, _SHARD_BYTES // bytes_per_token))
    digest = hashlib.sha256()  # of all model inputs, so it changes with text, template and windows
    for e in data.encoded:
        digest.update(np.array([e.response_start, len(e.ids), *e.ids], dtype=np.int64).tobytes())
    sizes = [len(g) for g in groups]
    index = _Index(asdict(base), digest.hexdigest(), list(chosen), dtype, lengths.tolist(), sizes)
    folder = Path(folder)
    if (folder / INDEX).is_file():
        _check_same(index, _read_index(folder), folder)
    missing = [i for i in range(len(groups)) if index.problem(folder, i)]
    progress(
        f"activations: {int(lengths.sum())} tokens of {len(lengths)} sequences x {len(chosen)} sublayers x "
        f"{base.width} in {dtype} = {as_size(int(lengths.sum()) * bytes_per_token)} in {folder}"
        + (f"; {len(groups) - len(missing)} of {len(groups)} shards exist" if len(missing) < len(groups) else "")
    )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(
            folder / INDEX,
            json.dumps({"veridical": f"store/{STORE_FORMAT}", **asdict(index)}) + "\n",
            follow_link=False,
        )
        runner = Runner(model)
        for done, i in enumerate(missing, 1):
            _write_shard(index.path(folder, i), compute_states(runner, data, groups[i], chosen), dtype)
            progress(f"activations: shard {done} of {len(missing)} written")
    except OSError as error:
        raise OutputError(
            f"cannot write {folder}: {error.strerror or error}", hint="make room; complete shards are kept"
        ) from None
    return ActivationStore(folder)


def _write_shard(path: Path, states: torch.Tensor, dtype: str) -> None:
    import torch
    from safetensors.torch import save_file

    dtypes = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
    converted = states.to(dtypes[dtype]).contiguous()
    check_finite(converted, f"the activations (as {dtype})")
    with replacing(path, follow_link=False) as part:
        save_file({"states": converted}, part)


def _read_index(folder: Path) -> _Index:
    path = folder / INDEX
    try:
        document = parse(read_text(path))
        name = document.pop("veridical", None)
        if name != f"store/{STORE_FORMAT}":
            raise DataError(f"of the format {name!r}; this Veridical reads store/{STORE_FORMAT}", path=path)
        return _Index(**document)
    except (WireError, TypeError) as error:
        raise DataError(f"not the index of a store: {error}", path=path) from None


def _check_same(expected: _Index, index: _Index, folder: Path) -> None:
    """Raise `DataError` unless both indices describe the same states."""
    titles = {
        "base": "model",
        "data": "texts (data, template or limits)",
        "sublayers": "choice of sublayers",
        "dtype": "dtype",
        "lengths": "texts",
        "shards": "division into shards",
    }
    for name, title in titles.items():
        left, right = getattr(expected, name), getattr(index, name)
        if name == "base":
            left, right = ({k: v for k, v in side.items() if k != "name"} for side in (left, right))
        if left != right:
            raise DataError(f"a store of another {title}", path=folder, hint="name another folder or delete this one")


class ActivationStore:
    """Reads states from a folder that `write_store` wrote (an `ActivationStates`). The files are memory-mapped.

    Args:
        folder: The folder of the store.
        memory: The maximum number of bytes to read at once (as fp32, of all sublayers). It determines `groups`.

    Raises:
        DataError: A shard is missing or damaged.
    """

    def __init__(self, folder: str | Path, *, memory: int = 2 << 30) -> None:
        self.folder = Path(folder)
        if not (self.folder / INDEX).is_file():
            raise DataError(f"no {INDEX} in it", path=folder, hint="name the folder of a store")
        self.index = _read_index(self.folder)
        for i in range(len(self.index.shards)):
            if problem := self.index.problem(self.folder, i):
                raise DataError(
                    f"shard {i + 1} of {len(self.index.shards)} is {problem}: the store is not complete",
                    path=self.index.path(self.folder, i),
                    hint="run the same training command again, it continues from the complete shards",
                )
        self.sublayers = tuple(self.index.sublayers)
        self.width = int(self.index.base["width"])
        self.lengths = np.array(self.index.lengths, dtype=np.int64)
        self._first = np.r_[0, np.cumsum(self.index.shards)]
        self._starts = np.r_[0, np.cumsum(self.lengths)]
        self.groups = self._groups(max(1, memory // (4 * len(self.sublayers) * self.width)))

    def _groups(self, limit: int) -> list[Indices]:
        """Group adjacent shards that fit into memory together, and split shards that are too large."""
        groups: list[Indices] = []
        group_members: list[int] = []
        for first, last in pairwise(self._first.tolist()):
            if group_members and self.lengths[group_members[0] : last].sum() > limit:
                groups.append(np.array(group_members))
                group_members = []
            group_members += range(first, last)
        groups.append(np.array(group_members))
        return [group[part] for group in groups for part in group_by_length(self.lengths[group], limit)]

    def read(self, sequences: Indices, sublayers: Sequence[int]) -> torch.Tensor:
        """Read the states. See `ActivationStates`."""
        import torch
        from safetensors import safe_open

        rows = [self.sublayers.index(s) for s in sublayers]
        lengths = self.lengths[sequences]
        states = torch.empty(len(rows), int(lengths.sum()), self.width)
        shards = np.searchsorted(self._first, sequences, "right") - 1
        targets = np.cumsum(lengths) - lengths
        for shard in np.unique(shards).tolist():
            in_shard = shards == shard
            starts = self._starts[sequences[in_shard]] - self._starts[self._first[shard]]
            source = torch.from_numpy(row_indices(starts, lengths[in_shard]))
            target = torch.from_numpy(row_indices(targets[in_shard], lengths[in_shard]))
            with safe_open(self.index.path(self.folder, shard), framework="pt") as file:
                stored = file.get_tensor("states")  # memory-mapped: only copied rows are read
                for i, row in enumerate(rows):
                    states[i].index_copy_(0, target, stored[row].index_select(0, source).float())
        return states
