"""Run windows through a backbone (a pretrained model), and return the hidden states of the response's tokens.

* Window: one input sequence of the model, a prompt with sources followed by a piece of the response.
* Row: one row of a batch. It is a single window, or several windows with the same prompt, which is then encoded once.
* States: hidden states of the last layer, float32. For a classifier, its logits.
* Engine: computes the states of a batch, with torch (`torch_engine`) or from an ONNX file (`onnx_runtime`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from veridical.inference.local_model import LocalModel, first_position
from veridical.inference.pairs import Window
from veridical.records.errors import InputError, UnknownNameError

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
MODES = ("offline", "online")
ATTENTIONS = ("full", "prefix")
_BATCH_TOKENS = {"cpu": 1024}  # on a CPU larger batches only cost memory traffic
_OTHER_BATCH_TOKENS = 65536
_ROW_TOKENS = 768  # of a prompt with its responses
# architectures that accept position ids and any attention mask, and use both unchanged
_SHARE_PROMPTS = frozenset(
    {"bert", "camembert", "electra", "gpt2", "llama", "mpnet", "qwen2", "roberta", "xlm-roberta"}
)


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """One batch of rows as padded arrays, which an `Engine` converts to the inputs of its model.

    A row contains one prompt, followed by the rest of each of its windows (the response and special tokens). An index
    below is the index of a token in its row, and `width` is the length of the longest row.

    Attributes:
        ids: The token ids, with padding after the end of each row. *Shape:* (rows, width)
        types: The segment ids. *Shape:* (rows, width)
        positions: The position ids, counted from the first token of the prompt in each window. None if each row is a
            single window. *Shape:* (rows, width)
        filled: True for tokens, and False for padding. *Shape:* (rows, width)
        allowed: The attention mask: True where the token of the second axis may attend to the token of the third. None
            if each token attends as the model does by default. *Shape:* (rows, width, width)
        starts: For each window of each row, the index of its first response token.
        wholes: For each window of each row, the index of the token whose state represents the whole response.
        wanted: For each window of each row, the indices of the tokens whose states are needed, in ascending order.
    """

    ids: Ints
    types: Ints
    positions: Ints | None
    filled: NDArray[np.bool_]
    allowed: NDArray[np.bool_] | None
    starts: list[list[int]]
    wholes: list[list[int]]
    wanted: list[list[Ints]]

    @property
    def wanted_by_row(self) -> list[Ints]:
        """For each row, the indices of the tokens whose states are needed, window by window."""
        return [np.concatenate(of_windows) for of_windows in self.wanted]


@dataclass(frozen=True, slots=True, eq=False)
class States:
    """The hidden states of one window (an input sequence of the model), float32.

    For a classifier, `whole` has its logits, and `response` is empty.

    Attributes:
        response: The states of the response's tokens. *Shape:* (tokens, width)
        whole: The state of the token that represents the whole response, such as the first token of a cross-encoder.
            *Shape:* (width,)
    """

    response: Floats
    whole: Floats


class Engine(Protocol):
    """Runs a model on batches and returns hidden states, with torch or ONNX Runtime. `PairRunner` calls it.

    Attributes:
        model: The backbone. For an ONNX file, only its tokenizer and configuration.
        classifies: If true, the engine is a classifier and computes logits instead of states, one vector per row.
        alone: If true, each batch has a single row, with windows of only one case.
        threads: The number of batches that the engine computes at the same time.
        takes_mask: If true, `Batch.allowed` is never None.
    """

    model: LocalModel
    classifies: bool
    alone: bool
    threads: int
    takes_mask: bool

    def states(self, batch: Batch) -> Floats:
        """Run the model, and return one fp32 vector for each token listed in `Batch.wanted`, in that order.

        The result has *shape* (wanted tokens, width). If the model is a classifier, the class logits of each row are
        returned instead, *shape* (rows, classes).
        """
        ...


class PairRunner:
    """Computes the hidden states of windows with a backbone, in batches of windows of similar length.

    A window is one input sequence: a prompt with sources, followed by a piece of the response. The results do not
    depend on the batch (within 1e-4 in fp32).

    * With "full" attention, the prompt and the response attend to each other, as in a cross-encoder.
    * With "prefix" attention, the prompt attends only to itself. It is therefore encoded only once for all responses to
      this prompt, if the architecture allows it.
    * The mode "online" uses "prefix" attention, and each token of the response attends only to the tokens before it. A
      decoder is always online.

    Args:
        engine: The engine that computes the states.
        mode: "offline" or "online".
        attention: "full" or "prefix".
        max_batch_tokens: The maximum number of tokens in a batch, including padding. Default: 1024 on a CPU, 65536 on
            other devices.

    Attributes:
        model: The backbone.
        shares_prompts: If true, windows with the same prompt share a row of the batch.
        by_case: If true, only windows of the same case share a row, so that no case affects another.
    """

    def __init__(
        self,
        engine: Engine,
        mode: str = "offline",
        attention: str = "full",
        *,
        max_batch_tokens: int | None = None,
    ) -> None:
        for what, value, values in (("mode", mode, MODES), ("attention", attention, ATTENTIONS)):
            if value not in values:
                raise UnknownNameError(what, value, values)
        self.model = model = engine.model
        self.engine = engine
        self.mode = "online" if model.kind == "causal" else mode
        self.attention = "prefix" if self.mode == "online" else attention
        self.max_batch_tokens = max_batch_tokens or _BATCH_TOKENS.get(model.device.type, _OTHER_BATCH_TOKENS)
        self.shares_prompts = self.attention == "prefix" and model.model_type in _SHARE_PROMPTS
        self.by_case = self.shares_prompts and engine.alone

    def run(self, windows: Sequence[Window]) -> list[States]:
        """Compute the hidden states of each window, or the logits of a classifier, in the order of `windows`.

        Raises:
            InputError: Some states are not finite.
        """
        results: dict[int, States] = {}
        for numbers, batch, states in self._computed(windows):
            if not np.isfinite(states).all():
                raise InputError(
                    f"the states of {self.model.name!r} are not finite", hint="use dtype=fp32, or another model"
                )
            end = 0
            for i, wanted in zip(numbers, (positions for row in batch.wanted for positions in row), strict=True):
                own = states[end : end + len(wanted)]
                end += len(wanted)
                count = 0 if self.engine.classifies else windows[i].count
                if self.attention == "full":  # the whole comes first, else last
                    results[i] = States(own[len(own) - count :].copy(), own[0].copy())
                else:
                    results[i] = States(own[:count].copy(), own[-1].copy())
        return [results[i] for i in range(len(windows))]

    def _computed(self, windows: Sequence[Window]) -> Iterator[tuple[list[int], Batch, Floats]]:
        """Compute the batches, and yield the indices of the windows, the batch and the states.

        Several batches run at the same time if there are at least two per thread. Fewer batches run one after another,
        because the engine can use all its threads for a single batch.
        """

        def compute(rows: list[list[int]]) -> tuple[list[int], Batch, Floats]:
            batch = self.lay([[windows[i] for i in row] for row in rows])
            return [i for row in rows for i in row], batch, self.engine.states(batch)

        batches = self.batches(windows)
        if self.engine.threads == 1 or len(batches) < 2 * self.engine.threads:
            yield from map(compute, batches)
            return
        with ThreadPoolExecutor(self.engine.threads) as pool:
            running: deque[Future[tuple[list[int], Batch, Floats]]] = deque()
            for rows in batches:
                running.append(pool.submit(compute, rows))
                if len(running) > 2 * self.engine.threads:
                    yield running.popleft().result()
            while running:
                yield running.popleft().result()

    def rows(self, windows: Sequence[Window]) -> list[list[int]]:
        """Group windows into rows of a batch, and return the indices of the windows in each row.

        If `shares_prompts` is false, each row is a single window. If it is true, windows with the same prompt share a
        row, up to a limit of tokens.
        """
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
        """Group windows into rows, and rows into batches, longest rows first.

        Return, for each batch, its rows as lists of indices into `windows`.
        """
        rows = self.rows(windows)
        lengths = [row_length([windows[i] for i in row]) for row in rows]
        batches: list[list[list[int]]] = []
        width = 0
        for row_i in sorted(range(len(rows)), key=lambda row_i: -lengths[row_i]):
            if batches and not self.engine.alone and (len(batches[-1]) + 1) * width <= self.max_batch_tokens:
                batches[-1].append(rows[row_i])
            else:
                batches.append([rows[row_i]])
                width = lengths[row_i]
        return batches

    def lay(self, rows: Sequence[Sequence[Window]]) -> Batch:
        """Build the padded arrays of a batch from its rows. Each row is a list of windows with the same prompt.

        A row begins with the prompt, which is followed by the rest of each of its windows.
        """
        width = max(row_length(row) for row in rows)
        ids = np.full((len(rows), width), self.model.padding_token, dtype=np.int64)
        types, positions = np.zeros_like(ids), np.zeros_like(ids)
        filled = np.zeros((len(rows), width), dtype=bool)
        starts: list[list[int]] = []
        for r, row in enumerate(rows):
            end = row[0].start
            ids[r, :end], types[r, :end], positions[r, :end] = row[0].ids[:end], row[0].types[:end], np.arange(end)
            starts.append([])
            for window in row:
                starts[-1].append(end)
                own = slice(end, end + len(window.ids) - window.start)
                ids[r, own], types[r, own] = window.ids[window.start :], window.types[window.start :]
                positions[r, own] = np.arange(window.start, len(window.ids))
                end = own.stop
            filled[r, :end] = True
        allowed = None
        hides = self.attention == "prefix" and (self.model.kind == "encoder" or any(len(row) > 1 for row in rows))
        if hides or self.engine.takes_mask:
            allowed = self._prefix_mask(rows, starts, width)
        row_starts = [list(zip(*pair, strict=True)) for pair in zip(rows, starts, strict=True)]
        wholes = [[self._whole(*pair) for pair in row] for row in row_starts]
        wanted = [
            [self._wanted(window, start, whole) for (window, start), whole in zip(*pair, strict=True)]
            for pair in zip(row_starts, wholes, strict=True)
        ]
        return Batch(ids, types, positions if self.shares_prompts else None, filled, allowed, starts, wholes, wanted)

    def _whole(self, window: Window, start: int) -> int:
        """Return the place whose state represents the whole response, because it attends to all of the response.

        With "full" attention, this is the first place. With "prefix" attention, it is the token after the response if
        the model is an encoder that adds one, and otherwise the last token of the response.
        """
        if self.attention == "full":
            return 0
        behind = len(window.ids) - window.start > window.count and self.model.kind == "encoder"
        return start + window.count - (0 if behind else 1)

    def _wanted(self, window: Window, start: int, whole: int) -> Ints:
        if self.engine.classifies:
            return np.zeros(1, dtype=np.int64)
        return np.unique(np.append(np.arange(start, start + window.count), whole))

    def _prefix_mask(self, rows: Sequence[Sequence[Window]], starts: list[list[int]], width: int) -> NDArray[np.bool_]:
        """Build the mask of which place may attend to which. A response attends to the prompt and to itself.

        *Shape:* (rows, width, width)
        """
        allowed = np.zeros((len(rows), width, width), dtype=bool)
        left = np.tril(np.ones((width, width), dtype=bool))
        for r, row in enumerate(rows):
            prompt = row[0].start
            allowed[r, :prompt, :prompt] = left[:prompt, :prompt] if self.model.kind == "causal" else True
            for window, start in zip(row, starts[r], strict=True):
                end = start + len(window.ids) - window.start
                allowed[r, start:end, :prompt] = True
                allowed[r, start:end, start:end] = left[start:end, start:end] if self.mode == "online" else True
            allowed[r, end:, 0] = True  # nothing sees padding, but padding has to see something
        return allowed


def row_length(row: Sequence[Window]) -> int:
    """Count the tokens in a row of windows with the same prompt, where the prompt counts only once."""
    return row[0].start + sum(len(window.ids) - window.start for window in row)


def inputs_of(model: LocalModel, batch: Batch) -> dict[str, NDArray[Any]]:
    """Convert a batch to the inputs of a transformers model, by name, such as "input_ids" and "attention_mask"."""
    inputs: dict[str, NDArray[Any]] = {"input_ids": batch.ids, "attention_mask": batch.filled.astype(np.int64)}
    if getattr(model.model.config, "type_vocab_size", 0) > 1:
        inputs["token_type_ids"] = batch.types
    if batch.allowed is not None:
        allowed = batch.allowed[:, None]
        if model.model_type == "mpnet":  # which adds the mask to its scores
            allowed = np.where(allowed, 0.0, -1e9).astype(np.float32)
        inputs["attention_mask"] = allowed
    if batch.positions is not None:
        inputs["position_ids"] = batch.positions + first_position(model.model.config)
    return inputs
