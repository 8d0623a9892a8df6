"""The memory-mapped store of hidden states: a folder of safetensors shards with an index (`store.json`).

It is written shard by shard and goes on where it stopped; a shard that a crash cut short is made again, and refused
when the store is read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from veridical.core.errors import DataError, OutputError, UnknownNameError, WireError
from veridical.core.files import read_text, replacing, write_whole
from veridical.core.serialization import parse
from veridical.models.artifact import base_of
from veridical.models.load import LocalModel
from veridical.models.runner import Runner
from veridical.probes.activations import Ids, check_finite, grouped, rows_of, run_states, sublayers_of
from veridical.probes.labelled_sequences import Forced

if TYPE_CHECKING:
    import torch

__all__ = ["DTYPES", "Store", "as_size", "write_store"]

DTYPES = {"bf16": 2, "fp16": 2, "fp32": 4}
FORMAT = 1
INDEX = "store.json"
SHARD_BYTES = 64 << 20  # what a crash may cost


def as_size(count: float) -> str:
    """A number of bytes for people.

    >>> as_size(3 << 20)
    '3.1 MB'
    """
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            break
        count /= 1000
    return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"


@dataclass(frozen=True, slots=True)
class _Index:
    """What `store.json` says: whose states these are, and which sequences each shard holds."""

    base: dict[str, Any]
    data: str
    sublayers: list[int]
    dtype: str
    lengths: list[int]
    shards: list[int]  # the number of sequences in each

    def path(self, folder: Path, i: int) -> Path:
        return folder / f"shard-{i:05d}-of-{len(self.shards):05d}.safetensors"


def _fingerprint(forced: Forced) -> str:
    """A hash of all that the model reads: any other text, template or window gives another."""
    digest = hashlib.sha256()
    for e in forced.encoded:
        digest.update(np.array([e.response_start, len(e.ids), *e.ids], dtype=np.int64).tobytes())
    return digest.hexdigest()


def write_store(
    folder: str | Path,
    model: LocalModel,
    forced: Forced,
    *,
    sublayers: Sequence[int] | None = None,
    dtype: str = "auto",
    say: Callable[[str], None] = lambda line: None,
) -> Store:
    """The states of all response tokens of `forced` in `folder`; its size is told by `say` before the model runs.

    A store begun before goes on: whole shards stay, others are made again. `dtype` is "fp32", "bf16", "fp16" or "auto"
    (as the model computes). Raises `DataError` if the folder holds a store of other states, naming the difference, and
    `InputError` if states are not finite in `dtype`.
    """
    if dtype != "auto" and dtype not in DTYPES:
        raise UnknownNameError("dtype of a store", dtype, ["auto", *DTYPES])
    named = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}
    base = base_of(model)
    kind = named[base.dtype] if dtype == "auto" else dtype
    chosen = sublayers_of(model, sublayers)
    per_token = len(chosen) * base.width * DTYPES[kind]
    lengths = forced.lengths
    groups = grouped(lengths, max(1, SHARD_BYTES // per_token))
    sizes = [len(g) for g in groups]
    index = _Index(asdict(base), _fingerprint(forced), list(chosen), kind, lengths.tolist(), sizes)
    folder = Path(folder)
    if (folder / INDEX).is_file():
        _same(index, _read_index(folder), folder)
    left = [i for i in range(len(groups)) if _trouble(index, folder, i)]
    total = int(lengths.sum()) * per_token
    say(
        f"activations: {int(lengths.sum())} tokens of {len(lengths)} sequences x {len(chosen)} sublayers x "
        f"{base.width} in {kind} = {as_size(total)} in {folder}"
        + (f"; {len(groups) - len(left)} of {len(groups)} shards are there already" if len(left) < len(groups) else "")
    )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / INDEX, json.dumps({"veridical": f"store/{FORMAT}", **asdict(index)}) + "\n")
        runner = Runner(model)
        for done, i in enumerate(left, 1):
            _write_shard(index.path(folder, i), run_states(model, forced, groups[i], chosen, runner), kind)
            say(f"activations: shard {done} of {len(left)} written")
    except OSError as error:
        raise OutputError(
            f"cannot write {folder}: {error.strerror or error}", hint="make room; what is whole is kept"
        ) from None
    return Store(folder)


def _write_shard(path: Path, states: torch.Tensor, dtype: str) -> None:
    import torch
    from safetensors.torch import save_file

    kinds = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
    made = states.to(kinds[dtype]).contiguous()
    check_finite(made, f"the activations (as {dtype})")
    with replacing(path) as part:
        save_file({"states": made}, part)


def _read_index(folder: Path) -> _Index:
    path = folder / INDEX
    try:
        document = parse(read_text(path))
        name = document.pop("veridical", None)
        if name != f"store/{FORMAT}":
            raise DataError(f"of the format {name!r}; this Veridical reads store/{FORMAT}", path=path)
        return _Index(**document)
    except (WireError, TypeError) as error:
        raise DataError(f"not the index of a store: {error}", path=path) from None


def _same(wanted: _Index, found: _Index, folder: Path) -> None:
    """Nothing, if both speak of the same states."""
    titles = {
        "base": "model",
        "data": "texts (data, template or limits)",
        "sublayers": "choice of sublayers",
        "dtype": "dtype",
        "lengths": "texts",
        "shards": "division into shards",
    }
    for name, title in titles.items():
        left, right = getattr(wanted, name), getattr(found, name)
        if name == "base":
            left, right = ({k: v for k, v in side.items() if k != "name"} for side in (left, right))
        if left != right:
            raise DataError(f"a store of another {title}", path=folder, hint="name another folder or delete this one")


def _trouble(index: _Index, folder: Path, i: int) -> str | None:
    """Why the i-th shard cannot be read, None if it can."""
    from safetensors import SafetensorError, safe_open

    path = index.path(folder, i)
    if not path.is_file():
        return "missing"
    first = sum(index.shards[:i])
    tokens = sum(index.lengths[first : first + index.shards[i]])
    expected = [len(index.sublayers), tokens, index.base["width"]]
    try:
        with safe_open(path, framework="pt") as file:
            found = file.get_slice("states").get_shape()
    except (SafetensorError, OSError):
        return "cut short or damaged"
    return None if list(found) == expected else f"of shape {list(found)}, not {expected}"


class Store:
    """The states in a folder that `write_store` made, memory-mapped; `DataError` if a shard is missing or damaged.

    `memory` bounds what is read at once (in bytes, as fp32, of all sublayers): it decides `groups`.
    """

    def __init__(self, folder: str | Path, *, memory: int = 2 << 30) -> None:
        self.folder = Path(folder)
        if not (self.folder / INDEX).is_file():
            raise DataError(f"no {INDEX} in it", path=folder, hint="name the folder of a store")
        self.index = _read_index(self.folder)
        for i in range(len(self.index.shards)):
            if trouble := _trouble(self.index, self.folder, i):
                raise DataError(
                    f"shard {i + 1} of {len(self.index.shards)} is {trouble}: the store is not whole",
                    path=self.index.path(self.folder, i),
                    hint="run the same training command again, it goes on from the whole shards",
                )
        self.sublayers = tuple(self.index.sublayers)
        self.width = int(self.index.base["width"])
        self.lengths = np.array(self.index.lengths, dtype=np.int64)
        limit = max(1, memory // (4 * len(self.sublayers) * self.width))
        self.groups = [part for shards in self._together(limit) for part in self._parts(shards, limit)]
        self._first = np.r_[0, np.cumsum(self.index.shards)]
        self._starts = np.r_[0, np.cumsum(self.lengths)]

    def _together(self, limit: int) -> Iterator[Ids]:
        """Neighbouring shards as long as they fit together."""
        bounds = np.r_[0, np.cumsum(self.index.shards)].tolist()
        held: list[int] = []
        for a, b in pairwise(bounds):
            if held and self.lengths[held[0] : b].sum() > limit:
                yield np.array(held)
                held = []
            held += range(a, b)
        if held:
            yield np.array(held)

    def _parts(self, sequences: Ids, limit: int) -> list[Ids]:
        return [sequences[part] for part in grouped(self.lengths[sequences], limit)]

    def read(self, sequences: Ids, sublayers: Sequence[int]) -> torch.Tensor:
        """See `States`."""
        import torch

        places = [self.sublayers.index(s) for s in sublayers]
        lengths = self.lengths[sequences]
        made = torch.empty(len(places), int(lengths.sum()), self.width)
        shards = np.searchsorted(self._first, sequences, "right") - 1
        goes = np.cumsum(lengths) - lengths
        for shard in np.unique(shards).tolist():
            mine = shards == shard
            starts = self._starts[sequences[mine]] - self._starts[self._first[shard]]
            self._copy(shard, rows_of(starts, lengths[mine]), places, made, rows_of(goes[mine], lengths[mine]))
        return made

    def _copy(self, shard: int, rows: Ids, places: Sequence[int], into: torch.Tensor, to: Ids) -> None:
        import torch
        from safetensors import safe_open

        source, target = torch.from_numpy(rows), torch.from_numpy(to)
        with safe_open(self.index.path(self.folder, shard), framework="pt") as file:
            states = file.get_tensor("states")  # memory-mapped: only what is copied is read
            for i, place in enumerate(places):
                into[i].index_copy_(0, target, states[place].index_select(0, source).float())
