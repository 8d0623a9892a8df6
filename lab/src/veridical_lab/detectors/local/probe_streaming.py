"""Judge a response with probes while it grows, from text or from the base model's tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from veridical.inference.local_model import LocalModel
from veridical.models.cached_forward import CachedForward
from veridical.records.errors import CannotJudgeError, InputError
from veridical.records.spans import Span
from veridical.records.types import Case, Verdict
from veridical_lab.detectors.local.probe_settings import ProbeSettings
from veridical_lab.detectors.local.word_scores import word_verdicts
from veridical_lab.models.encode import encode
from veridical_lab.models.monitor import ProbeMonitor, check_causal
from veridical_lab.models.probe_heads import Head
from veridical_lab.models.stepwise import IncrementalDecoder


class ProbeSession:
    """Judges a response while it grows.

    Call `feed` with text or with the token ids that the base model samples, as often as you like, and then `finish`.
    The base model reads only what is new (with a cache). Token ids are judged at once. Text is held back until the next
    white space, because its last tokens may change until then.

    Args:
        model: The base model.
        heads: The probes by objective.
        settings: How cases are presented to the model.
        case: The case. Its response is ignored.
        unit: Give a verdict to each "token" or each "word".
        prompt_ids: The tokens before the response. Default: the template's prompt without a space at its end. If that
            does not fit, it is cut to its first window.

    Attributes:
        text: The response so far. The spans of verdicts refer to this text.
        scores: The score of every token read so far, by objective. These scores are the same as if the whole response
            were judged at once (within 1e-5 in fp32).
        notes: Notes about the prompt.
    """

    def __init__(
        self,
        model: LocalModel,
        heads: Mapping[str, Head],
        settings: ProbeSettings,
        case: Case,
        *,
        unit: str = "token",
        prompt_ids: Sequence[int] | None = None,
    ) -> None:
        check_causal(model)
        self.text = ""
        self.notes: tuple[str, ...] = ()
        self.scores: dict[str, list[float]] = {objective: [] for objective in heads}
        self._model, self._settings, self._case = model, settings, replace(case, response="")
        self._unit = unit
        self._monitor = ProbeMonitor(heads, device=model.device)
        self._forward = CachedForward(model)
        self._prompt = None if prompt_ids is None else list(prompt_ids)
        self._decoder: IncrementalDecoder | None = None  # only if token ids are fed
        self._input: str | None = None  # "text" or "tokens"
        self._ids: list[int] = []
        self._spans: list[Span | None] = []
        self._emitted = 0  # the character up to which verdicts were given
        self._first = 0  # tokens before this one end at or before `_emitted`

    @property
    def response_score(self) -> float | None:
        """The score of the response so far, or None if no token was read yet."""
        if self.scores.get("response"):
            return self.scores["response"][-1]
        return max(self.scores.get("token", ()), default=None)

    def feed(self, more: str | Sequence[int]) -> list[Verdict]:
        """Add text or token ids, and return the new verdicts. You cannot mix the two in one session.

        Raises:
            CannotJudgeError: The model's context is full, or the tokens of a text changed while the text grew.
        """
        kind = "text" if isinstance(more, str) else "tokens"
        if self._input not in (None, kind):
            raise InputError(f"a session was fed {self._input} and then {kind}", hint="feed it only one of them")
        self._input = kind
        if isinstance(more, str):
            self.text += more
            return self._process_text(final=False)
        if self._prompt is None:
            self._prompt = list(self._encode("").ids)
            if self._prompt and self._model.tokenizer.decode(self._prompt[-1:]) == " ":
                self._prompt.pop()  # the model writes the space with the first word
        if self._decoder is None:
            self._decoder = IncrementalDecoder(self._model.tokenizer, self._prompt)
        ids = [int(i) for i in more]
        self._process(ids)
        for token in ids:
            self._decoder.append(token)
        self.text, self._spans = self._decoder.text, self._decoder.spans
        return self._verdicts(final=False)

    def finish(self) -> list[Verdict]:
        """Return the verdicts that were held back until the end of the response."""
        if self._input == "text":
            return self._process_text(final=True)
        if self._decoder is not None:
            self._decoder.finish()
            self.text, self._spans = self._decoder.text, self._decoder.spans
        return self._verdicts(final=True)

    def _process_text(self, *, final: bool) -> list[Verdict]:
        text = self.text
        if not final:  # the last white space may grow or belong to the next token
            text = text[: next((i for i in reversed(range(len(text))) if text[i].isspace()), 0)].rstrip()
        if not text.strip():
            return []
        encoded = self._encode(text)
        ids = list(encoded.ids[encoded.response_start : encoded.response_end])
        if ids[: len(self._ids)] != self._ids:
            raise CannotJudgeError(
                "the tokens of the text changed as it grew", hint="feed the session token ids, or the text at once"
            )
        if self._prompt is None:
            self._prompt = list(encoded.ids[: encoded.response_start])
        self._process(ids[len(self._ids) :])
        self._spans = list(encoded.spans)
        return self._verdicts(final=final)

    def _encode(self, response: str) -> Any:
        case, template, limit = (
            replace(self._case, response=response),
            self._settings.template,
            self._settings.max_tokens,
        )
        encoded = encode(self._model, case, template, max_tokens=limit)[0]
        if self._prompt is None and encoded.notes:  # leave room for the response to grow
            room = min(limit or self._model.max_positions, self._model.max_positions) * 3 // 4
            encoded = encode(self._model, case, template, max_tokens=room, max_windows=1)[0]
            self.notes = encoded.notes
        return encoded

    def _process(self, ids: list[int]) -> None:
        """Let the model read the prompt, unless it already has, and then `ids`. Keep the scores of `ids`."""
        import torch

        prompt = self._prompt or []
        count = len(prompt) + len(self._ids) + len(ids)
        if count > self._model.max_positions:
            raise CannotJudgeError(
                f"prompt and response have {count} tokens, the model reads {self._model.max_positions} at once",
                hint="a model with a longer context is needed",
            )
        unread = [*prompt[self._forward.length :], *ids]
        if not unread:
            return
        with self._monitor.attached(self._model, lambda: self._forward.length - len(prompt)):
            self._forward(torch.tensor([unread], device=self._model.device), head=False)
        self._ids += ids
        for objective, history in self._monitor.history.items():
            self.scores[objective] += [float(score[0]) for score in history[len(self.scores[objective]) :]]

    def _verdicts(self, *, final: bool) -> list[Verdict]:
        """Return verdicts on complete words or tokens that had none before."""
        if "token" not in self.scores:
            return []
        spans, first = self._spans, self._first
        while first < len(spans) and ((span := spans[first]) is None or span.end <= self._emitted):
            first += 1
        self._first = first
        scores = np.array(self.scores["token"][first : len(spans)])
        verdicts, _ = word_verdicts(self.text, spans[first:], scores, unit=self._unit)
        end = max((span.end for span in spans[first:] if span), default=0)
        # the last word may grow with the next tokens
        end -= self._unit == "word" and self._input == "tokens" and not final
        new = [v for v in verdicts if v.span.start >= self._emitted and v.span.end <= end]
        if new:
            self._emitted = new[-1].span.end
        return new
