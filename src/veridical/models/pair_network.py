"""A backbone with a head on the words of a response: what a token or span classifier computes, and its weights.

Liu et al. 2022, §4.2: the states of a span are pooled (max or mean) and a two-layer perceptron with tanh scores them.
One span may be a token, a word, or a marked phrase. A second head scores the response as a whole, a third says whether
what is wrong in it contradicts the sources or is in none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from veridical.core.errors import InputError, UnknownNameError
from veridical.models.load import OFFSET_POSITIONS, LocalModel
from veridical.models.packed_encoder import PackedEncoder
from veridical.models.pairs import Window

if TYPE_CHECKING:
    import torch

__all__ = [
    "ATTENTIONS",
    "MODES",
    "POOLINGS",
    "HeadSettings",
    "PairHead",
    "PairRunner",
    "States",
    "outputs_of",
    "pool",
    "relative_positions",
    "row_length",
    "torch_head",
]

Floats = NDArray[np.float32]
MODES = ("offline", "online")
ATTENTIONS = ("full", "prefix")
POOLINGS = ("max", "mean")
_BATCH_TOKENS = {"cpu": 1024}  # there larger batches only cost memory traffic
_ROW_TOKENS = 768  # of a prompt with its responses
# architectures that take positions and any mask, and add nothing of their own to either
_SHARE_PROMPTS = frozenset(
    {"bert", "camembert", "electra", "gpt2", "llama", "mpnet", "qwen2", "roberta", "xlm-roberta"}
)


@dataclass(frozen=True, slots=True)
class HeadSettings:
    """The form of the heads.

    Attributes:
        unit: What is scored: "word" (its tokens pooled) or "token".
        pooling: "max" or "mean" over the tokens of a unit.
        hidden: Hidden units of the perceptron; 0: the head is linear.
        features: How many numbers about each unit are appended to its pooled state.
        contradiction: Whether there is a head that tells contradiction from absence.
    """

    unit: Literal["word", "token"] = "word"
    pooling: Literal["max", "mean"] = "mean"
    hidden: int = 0
    features: int = 0
    contradiction: bool = False

    def __post_init__(self) -> None:
        if self.pooling not in POOLINGS:
            raise UnknownNameError("pooling", self.pooling, POOLINGS)
        if self.unit not in ("word", "token"):
            raise UnknownNameError("unit", self.unit, ("word", "token"))
        if self.hidden < 0 or self.features < 0:
            raise InputError(f"a head of {self.hidden} hidden units and {self.features} features", hint="0 or more")


def pool(states: Floats, units: Sequence[tuple[int, int]], pooling: str) -> Floats:
    """The states of each unit pooled.

    Args:
        states: *Shape:* (tokens, width).
        units: First and end token of each unit; none is empty.
        pooling: "max" or "mean".

    Returns:
        *Shape:* (units, width).
    """
    if all(end - first == 1 for first, end in units):
        return states[[first for first, _ in units]]
    reduce = np.max if pooling == "max" else np.mean
    return np.stack([states[first] if end - first == 1 else reduce(states[first:end], axis=0) for first, end in units])


@dataclass(frozen=True, slots=True, eq=False)
class PairHead:
    """The weights of the heads, applied in numpy so that any runtime may compute the states.

    `tensors`: "hidden.weight" (hidden, width + features) and "hidden.bias" where the head has a hidden layer,
    "units.weight" (1, …), "units.bias" (1,), "pair.weight" (1, width + features), "pair.bias" (1,), and
    "contradiction.weight" and "contradiction.bias" like those where there is that head. `transform` is applied to the
    states of tokens before they are pooled, where a published checkpoint has layers of its own there.
    """

    settings: HeadSettings
    tensors: dict[str, Floats]
    transform: Callable[[Floats], Floats] | None = None

    def unit_logits(self, states: Floats, units: Sequence[tuple[int, int]], features: Floats | None) -> Floats:
        """The logit of each unit being hallucinated, (units,), from states (tokens, width)."""
        x = pool(states if self.transform is None else self.transform(states), units, self.settings.pooling)
        if self.settings.features:
            x = np.concatenate([x, features], axis=1)
        if self.settings.hidden:
            x = np.tanh(x @ self.tensors["hidden.weight"].T + self.tensors["hidden.bias"])
        logits: Floats = (x @ self.tensors["units.weight"].T + self.tensors["units.bias"])[:, 0]
        return logits

    def pair_logit(self, state: Floats, features: Floats | None) -> float:
        """The logit of the response being hallucinated, from the state (width,) and the mean features of its units."""
        return self._of_whole("pair", state, features)

    def contradiction_logit(self, state: Floats, features: Floats | None) -> float:
        """The logit of the response, if it is hallucinated, being contradicted by the sources; NaN without that head.

        Args:
            state: As for `pair_logit`.
            features: As for `pair_logit`.
        """
        return self._of_whole("contradiction", state, features) if self.settings.contradiction else np.nan

    def _of_whole(self, head: str, state: Floats, features: Floats | None) -> float:
        x = state if not self.settings.features else np.concatenate([state, features])
        return float(x @ self.tensors[f"{head}.weight"][0] + self.tensors[f"{head}.bias"][0])


@dataclass(frozen=True, slots=True, eq=False)
class States:
    """What the model gives for a window: `response` (tokens, width), `whole` (width,) of the response as a whole.

    Of a classifier `whole` holds the logits, and `response` is empty.
    """

    response: Floats
    whole: Floats


class PairRunner:
    """Runs windows through a backbone in batches by length; results do not depend on the batch (1e-4 in fp32).

    With "full" attention prompt and response see each other, as in a cross-encoder. With "prefix" attention the prompt
    sees only itself, so that one pass over it serves all responses that share it. In the mode "online" a token of a
    response sees what is left of it only; its attention is "prefix". A decoder is always online.

    Args:
        model: The backbone.
        mode: "offline" or "online".
        attention: "full" or "prefix".
        max_batch_tokens: The most tokens that are run at once, padding included; None: by device.

    Attributes:
        by_case: Whether only windows of one case share a row, so that no case has an effect on another.
    """

    by_case = False

    def __init__(
        self, model: LocalModel, mode: str = "offline", attention: str = "full", *, max_batch_tokens: int | None = None
    ) -> None:
        for what, value, known in (("mode", mode, MODES), ("attention", attention, ATTENTIONS)):
            if value not in known:
                raise UnknownNameError(what, value, known)
        self.model = model
        self.mode = "online" if model.kind == "causal" else mode
        self.attention = "prefix" if self.mode == "online" else attention
        self.max_batch_tokens = max_batch_tokens or _BATCH_TOKENS.get(model.device.type, 65536)
        self.shares_prompts = self.attention == "prefix" and model.model_type in _SHARE_PROMPTS
        self._packed = PackedEncoder(model) if PackedEncoder.supports(model) else None
        self._takes_types = getattr(model.model.config, "type_vocab_size", 0) > 1
        tokenizer = model.tokenizer
        self.pad = next((int(i) for i in (tokenizer.pad_token_id, tokenizer.eos_token_id) if i is not None), 0)

    @property
    def caches(self) -> bool:
        """Whether the backbone can go on from what it has read: a decoder with its weights loaded."""
        return self.model.kind == "causal" and self.model.has_weights

    def rows(self, windows: Sequence[Window]) -> list[list[int]]:
        """The indices of windows that share a row of a batch: those with the same prompt, where that is possible."""
        if not self.shares_prompts:
            return [[i] for i in range(len(windows))]
        rows: list[list[int]] = []
        open_rows: dict[tuple[bytes, int], tuple[int, int]] = {}  # a prompt -> its row with room, and the row's tokens
        for i, window in enumerate(windows):
            prompt = window.ids[: window.start].tobytes(), window.case if self.by_case else 0
            own = len(window.ids) - window.start
            row, size = open_rows.get(prompt, (-1, 0))
            if row < 0 or size + own > max(_ROW_TOKENS, 2 * window.start):
                row, size = len(rows), window.start
                rows.append([])
            rows[row].append(i)
            open_rows[prompt] = row, size + own
        return rows

    def batches(self, windows: Sequence[Window]) -> list[list[list[int]]]:
        """The rows that are run together, longest first."""
        rows = self.rows(windows)
        lengths = [row_length([windows[i] for i in row]) for row in rows]
        batches: list[list[list[int]]] = []
        width = 0
        for at in sorted(range(len(rows)), key=lambda at: -lengths[at]):
            if batches and (len(batches[-1]) + 1) * width <= self.max_batch_tokens:
                batches[-1].append(rows[at])
            else:
                batches.append([rows[at]])
                width = lengths[at]
        return batches

    def inputs(self, rows: Sequence[Sequence[Window]]) -> tuple[dict[str, NDArray[Any]], list[list[int]]]:
        """The backbone's inputs, and where each window's response starts in its row.

        Args:
            rows: The windows of each row of the batch; all of a row have the same prompt.
        """
        laid = _Laid.of(rows, self.pad)
        inputs: dict[str, Any] = {"input_ids": laid.ids, "attention_mask": laid.filled.astype(np.int64)}
        if self._takes_types:
            inputs["token_type_ids"] = laid.types
        if self.takes_mask(rows):
            allowed = self._prefix_mask(rows, laid.starts, laid.ids.shape[1])
            if self.model.model_type == "mpnet":  # which adds the mask to its scores
                inputs["attention_mask"] = np.where(allowed, 0.0, -1e9).astype(np.float32)[:, None]
            else:
                inputs["attention_mask"] = allowed[:, None]
        if self.shares_prompts:
            # these count positions from behind the padding index
            shift = self.pad + 1 if self.model.model_type in OFFSET_POSITIONS else 0
            inputs["position_ids"] = laid.positions + shift
        return inputs, laid.starts

    def takes_mask(self, rows: Sequence[Sequence[Window]]) -> bool:
        """Whether the mask says for each position which others it attends to; else it says only what is padding."""
        return self.attention == "prefix" and (self.model.kind == "encoder" or any(len(row) > 1 for row in rows))

    def forward(self, rows: Sequence[Sequence[Window]]) -> tuple[torch.Tensor, list[list[int]]]:
        """Run the backbone, with gradients where they are enabled.

        Args:
            rows: As for `inputs`.

        Returns:
            What `outputs_of` gives, and where each window's response starts in its row.
        """
        import torch

        inputs, starts = self.inputs(rows)
        tensors = {name: torch.from_numpy(array).to(self.model.device) for name, array in inputs.items()}
        if tensors["attention_mask"].is_floating_point():
            tensors["attention_mask"] = tensors["attention_mask"].to(self.model.dtype)
        with relative_positions(self.model, tensors.get("position_ids")):
            return outputs_of(self.model, tensors), starts

    def _prefix_mask(self, rows: Sequence[Sequence[Window]], starts: list[list[int]], width: int) -> NDArray[np.bool_]:
        """Which position may attend to which, (rows, width, width): a response to the prompt and to itself."""
        allowed = np.zeros((len(rows), width, width), dtype=bool)
        left = np.tril(np.ones((width, width), dtype=bool))
        for r, row in enumerate(rows):
            prompt = row[0].start
            allowed[r, :prompt, :prompt] = left[:prompt, :prompt] if self.model.kind == "causal" else True
            for window, start in zip(row, starts[r], strict=True):
                end = start + len(window.ids) - window.start
                allowed[r, start:end, :prompt] = True
                allowed[r, start:end, start:end] = left[start:end, start:end] if self.mode == "online" else True
            allowed[r, end:, 0] = True  # padding, which nothing sees, has to see something
        return allowed

    def whole_position(self, window: Window, start: int) -> int:
        """Where in a row the state of a response as a whole is: where all of it is seen.

        That is the first position with "full" attention, else what is behind the response, or its last token.
        """
        if self.attention == "full":
            return 0
        behind = len(window.ids) - window.start > window.count and self.model.kind == "encoder"
        return start + window.count - (0 if behind else 1)

    def states(self, rows: Sequence[Sequence[Window]]) -> tuple[Floats, list[list[int]]]:
        """As `forward`, without gradients, in fp32; other states than those of responses may be zero."""
        import torch

        if self._packed is None:
            with torch.inference_mode():
                states, in_row = self.forward(rows)
                return states.float().cpu().numpy(), in_row
        laid = _Laid.of(rows, self.pad)
        lengths, width = laid.filled.sum(1).tolist(), laid.ids.shape[1]
        wanted = [
            np.concatenate(
                [np.r_[self.whole_position(w, at), at : at + w.count] for w, at in zip(row, starts, strict=True)]
            )
            for row, starts in zip(rows, laid.starts, strict=True)
        ]
        if self.model.kind == "classifier":
            wanted = [np.zeros(1, dtype=np.int64)] * len(rows)
        masks = None
        if self.takes_mask(rows):
            allowed = self._prefix_mask(rows, laid.starts, width)
            masks = [allowed[r, :length, :length] for r, length in enumerate(lengths)]
        types = laid.types if self._takes_types else np.zeros_like(laid.types)
        ids, types, positions = (array[laid.filled] for array in (laid.ids, types, laid.positions))
        of_wanted = self._packed.states(ids, types, positions, lengths, wanted, masks)
        if self.model.kind == "classifier":
            return self._packed.logits(of_wanted).float().numpy()[:, None], laid.starts
        found = of_wanted.float().numpy()
        full = np.zeros((len(rows), width, found.shape[1]), dtype=np.float32)
        full[np.repeat(np.arange(len(rows)), [len(at) for at in wanted]), np.concatenate(wanted)] = found
        return full, laid.starts

    def each(self, batches: Iterable[Sequence[Sequence[Window]]]) -> Iterator[tuple[Floats, list[list[int]]]]:
        """What `states` gives for each batch, in their order."""
        return map(self.states, batches)

    def run(self, windows: Sequence[Window]) -> list[States]:
        """The states of each window, in fp32. Raises `InputError` where they are not finite."""
        results: dict[int, States] = {}
        batches = self.batches(windows)
        states = self.each([[windows[i] for i in row] for row in batch] for batch in batches)
        for batch, (array, starts) in zip(batches, states, strict=True):
            if not np.isfinite(array).all():
                raise InputError(
                    f"the states of {self.model.name!r} are not finite", hint="use dtype=fp32, or another model"
                )
            for r, row in enumerate(batch):
                for i, start in zip(row, starts[r], strict=True):
                    window = windows[i]
                    whole = array[r, self.whole_position(window, start)]
                    results[i] = States(array[r, start : start + window.count].copy(), whole.copy())
        return [results[i] for i in range(len(windows))]


@dataclass(frozen=True, slots=True, eq=False)
class _Laid:
    """Rows of a batch as arrays *(rows, width)*, and where each window's response starts in its row."""

    ids: NDArray[np.int64]
    types: NDArray[np.int64]
    positions: NDArray[np.int64]
    filled: NDArray[np.bool_]
    starts: list[list[int]]

    @classmethod
    def of(cls, rows: Sequence[Sequence[Window]], pad: int) -> _Laid:
        """The windows of each row, which have the same prompt, behind that; the rest is padding."""
        width = max(row_length(row) for row in rows)
        ids = np.full((len(rows), width), pad, dtype=np.int64)
        types, positions = np.zeros_like(ids), np.zeros_like(ids)
        filled = np.zeros((len(rows), width), dtype=bool)
        starts: list[list[int]] = []
        for r, row in enumerate(rows):
            at = row[0].start
            ids[r, :at], types[r, :at], positions[r, :at] = row[0].ids[:at], row[0].types[:at], np.arange(at)
            starts.append([])
            for window in row:
                own = slice(at, at + len(window.ids) - window.start)
                ids[r, own], types[r, own] = window.ids[window.start :], window.types[window.start :]
                positions[r, own] = np.arange(window.start, len(window.ids))
                starts[-1].append(at)
                at = own.stop
            filled[r, :at] = True
        return cls(ids, types, positions, filled, starts)


def outputs_of(model: LocalModel, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    """The last hidden states of a batch, (rows, width, size); of a classifier its logits, (rows, 1, classes).

    HHEM-2 has logits at every token; those of the first one are the pair's.
    """
    if model.kind == "classifier":
        logits: torch.Tensor = model.model(**inputs).logits
        return logits[:, None] if logits.ndim == 2 else logits[:, :1]
    options = {} if model.kind == "encoder" else {"use_cache": False}
    states: torch.Tensor = model.model.base_model(**inputs, **options).last_hidden_state
    return states


@contextmanager
def relative_positions(model: LocalModel, positions: torch.Tensor | None) -> Iterator[None]:
    """Let MPNet, whose attention looks at distances, count them by `positions` (rows, width) in the context."""
    if positions is None or model.model_type != "mpnet":
        yield
        return
    encoder = model.model.base_model.encoder

    def bias(states: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
        buckets = encoder.relative_position_bucket(positions[:, None, :] - positions[:, :, None])
        values: torch.Tensor = encoder.relative_attention_bias(buckets).permute(0, 3, 1, 2).contiguous()
        return values

    encoder.compute_position_bias = bias
    try:
        yield
    finally:
        del encoder.compute_position_bias


def row_length(row: Sequence[Window]) -> int:
    """The tokens of a row of windows that share a prompt."""
    return row[0].start + sum(len(window.ids) - window.start for window in row)


def torch_head(width: int, settings: HeadSettings, seed: int) -> Any:
    """A module with the parameters of a `PairHead`, initialised by `seed`.

    Called with states of units and of whole responses it gives the logits of both, and those of contradiction (None
    where the settings have no such head).
    """
    import torch

    class Head(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            size = width + settings.features
            self.hidden = torch.nn.Linear(size, settings.hidden) if settings.hidden else None
            self.units = torch.nn.Linear(settings.hidden or size, 1)
            self.pair = torch.nn.Linear(size, 1)
            self.contradiction = torch.nn.Linear(size, 1) if settings.contradiction else None

        def forward(
            self, units: torch.Tensor, whole: torch.Tensor
        ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
            hidden = units if self.hidden is None else torch.tanh(self.hidden(units))
            kinds = None if self.contradiction is None else self.contradiction(whole)[:, 0]
            return self.units(hidden)[:, 0], self.pair(whole)[:, 0], kinds

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Head()
