"""Score each token with probes on hidden states while a local model generates, with constant memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from veridical.inference.local_model import LocalModel
from veridical.records.errors import CannotJudgeError, InputError
from veridical_lab.models.probe_heads import Head, StreamingProbes
from veridical_lab.models.sublayers import capture_sublayers

if TYPE_CHECKING:
    import torch

Scores = dict[str, NDArray[np.float64]]  # by objective


def check_causal(model: LocalModel) -> None:
    """Check that `model` is a causal language model, the only kind that generates token by token.

    Raises:
        InputError: The model is of another kind.
    """
    if model.kind != "causal":
        raise InputError(
            f"{model.name} is an encoder: it reads a text at once, not while it is generated",
            hint="judge the whole text, or train the probe on a causal language model",
        )


class ProbeMonitor:
    """Scores every token of responses that are being generated.

    Attach the monitor to a model, or pass the hidden states of each token to `step` in your own decoding loop. The
    monitor keeps a few numbers for each probe, but no hidden states.

    A token is scored when the model reads it, one step after the token was sampled. The last token of a text therefore
    gets a score only if the model reads it, too. Beam search is not supported, because it permutes the rows of a batch,
    which are identified by their index.

    Args:
        heads: The probes by objective.
        batch: How many responses are generated side by side.
        device: The device of the hidden states.
        rewindable: Whether to keep the numbers after every token, so that `rewind` can go back.

    Attributes:
        sublayers: The sublayers whose outputs `step` needs, in order.
        history: The score of each token ("token"), or of the response up to it ("response"), by objective. Each has the
            *shape* (batch,).
    """

    def __init__(
        self, heads: Mapping[str, Head], *, batch: int = 1, device: Any = "cpu", rewindable: bool = False
    ) -> None:
        import torch

        self.heads = dict(heads)
        self.batch = batch
        self.sublayers = tuple(sorted({s for head in heads.values() for s in head.probes.sublayers}))
        self.history: dict[str, list[NDArray[np.float64]]] = {objective: [] for objective in heads}
        self._running = {objective: StreamingProbes(head.probes, batch) for objective, head in heads.items()}
        self._history: list[dict[str, StreamingProbes]] | None = [] if rewindable else None
        # all probes are projected in one product
        outputs = sum(head.probes.projection.shape[1] for head in heads.values())
        width = next(iter(heads.values())).probes.width
        projection = np.zeros((len(self.sublayers), width, outputs), dtype=np.float32)
        offset = np.zeros((len(self.sublayers), 1, outputs), dtype=np.float32)
        self._slices: dict[str, tuple[list[int], slice]] = {}
        first_column = 0
        for objective, head in heads.items():
            probes = head.probes
            rows = [self.sublayers.index(s) for s in probes.sublayers]
            columns = slice(first_column, first_column + probes.projection.shape[1])
            projection[rows, :, columns] = probes.projection.transpose(0, 2, 1)
            offset[rows, 0, columns] = probes.offset
            self._slices[objective] = rows, columns
            first_column = columns.stop
        self._projection, self._offset = (torch.from_numpy(a).to(device) for a in (projection, offset))

    def __len__(self) -> int:
        """Count the scored tokens of each response."""
        return len(next(iter(self.history.values())))

    @property
    def scores(self) -> Scores:
        """All scores so far, by objective. *Shape:* (tokens, batch)"""
        return {name: np.array(rows).reshape(len(rows), self.batch) for name, rows in self.history.items()}

    def step(self, states: torch.Tensor) -> Scores:
        """Score the next token of each response, by objective.

        Each result has *shape* (batch,).

        Args:
            states: The hidden states of the token. *Shape:* (sublayers, batch, width)

        Raises:
            CannotJudgeError: A projection is not finite.
        """
        import torch

        z = torch.baddbmm(self._offset, states.to(self._projection.dtype), self._projection).double().cpu().numpy()
        if not np.isfinite(z).all():
            raise CannotJudgeError("the model's numbers are not finite", hint="run it in fp32 or bf16")
        if self._history is not None:
            # a step replaces the arrays of the running numbers, so a shallow copy keeps them
            self._history.append({objective: copy(running) for objective, running in self._running.items()})
        for objective, (rows, columns) in self._slices.items():
            combined = self._running[objective].step(z[rows, :, columns])
            self.history[objective].append(self.heads[objective].calibrated(combined))
        return {objective: scores[-1] for objective, scores in self.history.items()}

    def rewind(self, count: int) -> None:
        """Forget all but the first `count` tokens of a rewindable monitor."""
        if self._history is None:
            raise InputError("the monitor cannot go back", hint="ProbeMonitor(…, rewindable=True)")
        if count < len(self._history):
            self._running = self._history[count]
            del self._history[count:]
        for scores in self.history.values():
            del scores[count:]

    @contextmanager
    def attached(self, model: LocalModel, pass_start: Callable[[], int] | None = None) -> Iterator[ProbeMonitor]:
        """While the context lasts, score the tokens of all forward passes of a model.

        Args:
            model: A causal language model.
            pass_start: Called during a pass. It returns at which token of the response the pass begins, or a number
                below 0 in the prompt. Tokens of the prompt and tokens that already have a score are skipped. Default:
                the first pass is the prompt, and every other pass has new tokens of the response, as in `generate()`.
        """
        import torch

        check_causal(model)
        captured: dict[int, torch.Tensor] = {}
        skip: int | None = None if pass_start is None else 0  # tokens of a pass; None: all

        def capture(sublayer: int, output: torch.Tensor) -> None:
            nonlocal skip
            if pass_start is not None:
                skip = max(0, len(self) - pass_start())
            if skip is not None:  # copies, because a block may add to its output in place, as Falcon's does
                captured[sublayer] = output.reshape(self.batch, -1, output.shape[-1])[:, skip:].detach().clone()

        def score(module: Any, arguments: Any, output: Any) -> None:
            nonlocal skip
            if skip is None:
                skip = 0
                return
            with torch.inference_mode():
                states = torch.stack([captured[sublayer] for sublayer in self.sublayers])
                for token_i in range(states.shape[2]):
                    self.step(states[:, :, token_i])

        with capture_sublayers(model, self.sublayers, capture), model.model.base_model.register_forward_hook(score):
            yield self

    def stop_above(self, threshold: float | None = None, objective: str | None = None) -> Any:
        """Make a stopping criterion for `generate()`, which ends a row when its latest score reaches the threshold.

        Args:
            threshold: Stop from this score in [0, 1]. Default: the threshold of the probes.
            objective: Which probes to use. Default: "token" if there are token-level probes, or else "response".
        """
        import torch
        from transformers import StoppingCriteria

        chosen = objective or next(o for o in ("token", "response") if o in self.heads)
        if chosen not in self.heads:
            raise InputError(f"there are no {chosen}-level probes", hint=f"there are: {', '.join(self.heads)}")
        limit = self.heads[chosen].threshold if threshold is None else threshold

        monitor = self

        class StopAbove(StoppingCriteria):
            def __call__(self, input_ids: Any, logits: Any, **kwargs: Any) -> Any:
                scores = monitor.history[chosen][-1] if len(monitor) else np.zeros(input_ids.shape[0]) - 1
                return torch.from_numpy(scores >= limit).to(input_ids.device)

        return StopAbove()
