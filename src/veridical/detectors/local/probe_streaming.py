"""Probes while a response is written: a session fed with text or tokens, and a listener on `generate()`.

Each keeps a few running numbers for every probe, never a hidden state of an earlier token.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from veridical.core.errors import CannotJudgeError, InputError
from veridical.core.spans import Span
from veridical.core.types import Case, Verdict
from veridical.models.encode import encode
from veridical.models.load import LocalModel
from veridical.models.probe_heads import Live
from veridical.models.sublayers import tapped

if TYPE_CHECKING:
    import torch

    from veridical.detectors.local.probe import Head, Probe

__all__ = ["Attached", "ProbeSession", "Watch"]

Scores = dict[str, NDArray[np.float64]]  # by objective, (batch,)


class Watch:
    """The hook for any decoding loop: give it each token's states, it gives the scores; O(width) state.

    `sublayers` says which states, in which order. All probes are projected in one product.
    """

    def __init__(self, heads: Mapping[str, Head], *, batch: int = 1, device: Any = "cpu") -> None:
        import torch

        self.heads = dict(heads)
        self.batch = batch
        self.sublayers = tuple(sorted({s for head in heads.values() for s in head.probes.sublayers}))
        self._live = {objective: Live(head.probes, batch) for objective, head in heads.items()}
        widest = sum(head.probes.projection.shape[1] for head in heads.values())
        width = next(iter(heads.values())).probes.width
        joint = np.zeros((len(self.sublayers), width, widest), dtype=np.float32)
        offset = np.zeros((len(self.sublayers), 1, widest), dtype=np.float32)
        self._where: dict[str, tuple[list[int], slice]] = {}
        at = 0
        for objective, head in heads.items():
            probes = head.probes
            rows = [self.sublayers.index(s) for s in probes.sublayers]
            columns = slice(at, at + probes.projection.shape[1])
            joint[rows, :, columns] = probes.projection.transpose(0, 2, 1)
            offset[rows, 0, columns] = probes.offset
            self._where[objective] = rows, columns
            at = columns.stop
        self._joint, self._offset = (torch.from_numpy(a).to(device) for a in (joint, offset))

    def step(self, states: torch.Tensor) -> Scores:
        """The scores after the next token, whose states are (sublayers, batch, width)."""
        import torch

        z = torch.baddbmm(self._offset, states.to(self._joint.dtype), self._joint).double().cpu().numpy()
        if not np.isfinite(z).all():
            raise CannotJudgeError("the model's numbers are not finite", hint="run it in fp32 or bf16")
        found = {}
        for objective, (rows, columns) in self._where.items():
            combined = self._live[objective].step_projected(z[rows, :, columns])
            found[objective] = self.heads[objective].calibrated(combined)
        return found


class Attached:
    """Judges every token that passes through the model while the context lasts; `scores[objective]` (tokens, batch).

        with probe.attach() as live:
            model.generate(**prompt, stopping_criteria=[live.stop_above(0.9)])
        live.scores["token"]

    The first forward pass is taken for the prompt and not judged. A token is judged when the model reads it: one step
    after it was drawn, so the last one drawn has no score. One sequence a row, no beams: their rows change places.
    """

    def __init__(self, model: LocalModel, heads: Mapping[str, Head], *, batch: int = 1) -> None:
        if model.kind != "causal":
            raise InputError(
                f"{model.name} is an encoder: it reads a text at once, not while it is written",
                hint="judge the whole text, or train the probe on a causal language model",
            )
        self.model = model
        self.watch = Watch(heads, batch=batch, device=model.device)
        self.found: dict[str, list[NDArray[np.float64]]] = {objective: [] for objective in heads}
        self._held: list[Any] = [None] * len(self.watch.sublayers)
        self._place = {s: i for i, s in enumerate(self.watch.sublayers)}
        self.prompt_read = False
        self._copy = True
        self._taps: Any = None
        self._hook: Any = None

    @property
    def scores(self) -> Scores:
        """All scores so far, by objective: (tokens, batch)."""
        return {
            objective: np.array(found).reshape(len(found), self.watch.batch) for objective, found in self.found.items()
        }

    def __enter__(self) -> Self:
        self._taps = tapped(self.model, self.watch.sublayers, self._take)
        self._taps.__enter__()
        self._hook = self.model.model.base_model.register_forward_hook(self._read)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._hook.remove()
        self._taps.__exit__(kind, error, trace)

    def _take(self, sublayer: int, output: torch.Tensor) -> None:
        # Outputs may be added to in place by the block (Falcon does); a token's row is small.
        self._held[self._place[sublayer]] = output.detach().clone() if self.prompt_read else None

    def _read(self, module: Any, arguments: Any, output: Any) -> None:
        import torch

        if not self.prompt_read:
            self.prompt_read = True
            return
        batch = self.watch.batch
        with torch.inference_mode():
            states = torch.stack([h.reshape(batch, -1, h.shape[-1]) for h in self._held])
            for t in range(states.shape[2]):
                for objective, score in self.watch.step(states[:, :, t]).items():
                    self.found[objective].append(score)

    def stop_above(self, threshold: float | None = None, objective: str | None = None) -> Any:
        """A stopping criterion for `generate()`: ends a row once its last score is at least `threshold`.

        By default the probes' own threshold, of the token-level ones where there are any.
        """
        import torch
        from transformers import StoppingCriteria

        chosen = objective or next(o for o in ("token", "response") if o in self.found)
        if chosen not in self.found:
            raise InputError(f"there are no probes by {chosen}", hint=f"there are: {', '.join(self.found)}")
        limit = self.watch.heads[chosen].threshold if threshold is None else threshold
        found = self.found[chosen]

        class Above(StoppingCriteria):
            def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
                last = found[-1] >= limit if found else np.zeros(input_ids.shape[0], dtype=bool)
                return torch.from_numpy(np.asarray(last)).to(input_ids.device)

        return Above()


class ProbeSession:
    """Judges a response while it grows: `feed` it text, or the token ids that the base model draws; then `finish`.

    The base model reads along with its cache. `scores[objective]` has a score for every token read, equal to those of
    the whole response read at once (to 1e-5 in fp32). Verdicts are of spans of `text`, the response so far.

    Text is held back until the next white space, for only then are its tokens sure. Token ids follow `prompt_ids`
    (default: the template's prompt without a blank at its end) and are judged at once. A prompt that does not fit is
    cut to its first window, which `notes` tells.
    """

    def __init__(
        self, probe: Probe, case: Case, *, unit: str = "token", prompt_ids: Sequence[int] | None = None
    ) -> None:
        self.text = ""
        self.notes: tuple[str, ...] = ()
        self.scores: dict[str, list[float]] = {objective: [] for objective in probe.heads}
        self._probe, self._case, self._unit = probe, replace(case, response=""), unit
        self._model = probe.base()
        self._attached = Attached(self._model, probe.heads)
        self._prompt = None if prompt_ids is None else list(prompt_ids)
        self._cache: Any = None
        self._begun = False
        self._fed: str | None = None  # "text" or "tokens"
        self._ids: list[int] = []
        self._spans: list[Span | None] = []
        self._decoded = 0  # tokens whose characters are known
        self._told = 0  # characters up to which verdicts were given

    @property
    def response_score(self) -> float | None:
        """The score of the response so far; None before anything was read."""
        if self.scores.get("response"):
            return self.scores["response"][-1]
        return max(self.scores.get("token", ()), default=None)

    def feed(self, more: str | Sequence[int]) -> list[Verdict]:
        """The verdicts that are new after more text or token ids; the one or the other in one session.

        Raises `CannotJudgeError` where the model's context is full.
        """
        kind = "text" if isinstance(more, str) else "tokens"
        if self._fed not in (None, kind):
            raise InputError(f"a session was fed {self._fed} and then {kind}", hint="one or the other")
        self._fed = kind
        if isinstance(more, str):
            self.text += more
            return self._read_text(final=False)
        self._begin()
        self._advance([int(i) for i in more])
        self._decode(final=False)
        return self._verdicts(final=False)

    def finish(self) -> list[Verdict]:
        """The verdicts that were held back until the end of the response."""
        if self._fed == "text":
            return self._read_text(final=True)
        self._decode(final=True)
        return self._verdicts(final=True)

    def _read_text(self, *, final: bool) -> list[Verdict]:
        sure = self.text if final else _before_last_blank(self.text)
        if not sure.strip():
            return []
        encoded = self._encode(sure)
        ids = list(encoded.ids[encoded.response_start : encoded.response_end])
        if ids[: len(self._ids)] != self._ids:
            raise CannotJudgeError(
                "the tokens of the text changed as it grew", hint="feed the session token ids, or the text at once"
            )
        if self._prompt is None:
            self._prompt = list(encoded.ids[: encoded.response_start])
        self._begin()
        self._advance(ids[len(self._ids) :])
        self._spans = list(encoded.spans)
        self._decoded = len(ids)
        return self._verdicts(final=final)

    def _encode(self, response: str) -> Any:
        settings = self._probe.settings
        case, limit = replace(self._case, response=response), settings.max_tokens
        made = encode(self._model, case, settings.template, max_tokens=limit)
        if self._prompt is None and made[0].notes:  # leave room for the response to grow
            budget = min(limit or self._model.max_positions, self._model.max_positions)
            made = encode(self._model, case, settings.template, max_tokens=budget * 3 // 4, max_windows=1)
            self.notes = made[0].notes
        return made[0]

    def _begin(self) -> None:
        """Reads the prompt, once."""
        if self._begun:
            return
        self._begun = True
        if self._prompt is None:
            self._prompt = list(self._encode("").ids)
            if self._prompt and self._model.tokenizer.decode(self._prompt[-1:]) == " ":
                self._prompt.pop()  # the model draws the blank with the first word
        if self._prompt:
            self._forward(self._prompt)
        else:
            self._attached.prompt_read = True

    def _advance(self, ids: list[int]) -> None:
        if not ids:
            return
        count = len(self._prompt or ()) + len(self._ids) + len(ids)
        if count > self._model.max_positions:
            raise CannotJudgeError(
                f"prompt and response have {count} tokens, the model reads {self._model.max_positions} at once",
                hint="a model with a longer context is needed",
            )
        self._forward(ids)
        self._ids += ids
        for objective, found in self._attached.found.items():
            self.scores[objective] += [float(score[0]) for score in found[len(self.scores[objective]) :]]

    def _forward(self, ids: list[int]) -> None:
        import torch

        given = torch.tensor([ids], device=self._model.device)
        with torch.inference_mode(), self._attached:
            made = self._model.model.base_model(input_ids=given, past_key_values=self._cache, use_cache=True)
        self._cache = made.past_key_values

    def _decode(self, *, final: bool) -> None:
        """Gives the tokens that have none yet their characters; part of a character waits for its other tokens."""
        decode = self._model.tokenizer.decode
        while self._decoded < len(self._ids):
            first = max(0, self._decoded - 4)  # a little context, for some tokenizers strip a text's first blank
            known = decode(self._ids[first : self._decoded], skip_special_tokens=True)
            for last in range(self._decoded + 1, len(self._ids) + 1):
                new = decode(self._ids[first:last], skip_special_tokens=True)[len(known) :]
                if not new.endswith("\ufffd") or (final and last == len(self._ids)):
                    break
            else:
                return
            span = Span(len(self.text), len(self.text) + len(new)) if new else None
            self._spans += [span] * (last - self._decoded)
            self.text += new
            self._decoded = last

    def _verdicts(self, *, final: bool) -> list[Verdict]:
        """Verdicts of what is complete and was not given one yet."""
        from veridical.detectors.local.probe import judgement_of

        if "token" not in self.scores:
            return []
        scores = np.array(self.scores["token"][: len(self._spans)])
        case = replace(self._case, response=self.text)
        made = judgement_of(case, self._probe.name, self._spans, tokens=scores, response=None, unit=self._unit)
        read = max((span.end for span in self._spans if span), default=0)
        # The last word of what was drawn may go on.
        open_end = self._unit == "word" and self._fed == "tokens" and not final
        new = [v for v in made.verdicts if v.span.start >= self._told and v.span.end <= read - int(open_end)]
        if new:
            self._told = new[-1].span.end
        return new


def _before_last_blank(text: str) -> str:
    """`text` up to the last white space in it, which may go on or belong to the next token."""
    for i in range(len(text) - 1, -1, -1):
        if text[i].isspace():
            return text[:i].rstrip()
    return ""
