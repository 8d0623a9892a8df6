"""Generate one text token by token, and act when the monitor flags something.

The strategy says whether the loop then stops or goes back. A budget limits the tokens, seconds and interventions.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from time import monotonic
from typing import Literal

from veridical.models.sampling import Sampler
from veridical.records.spans import Span
from veridical.records.types import Verdict
from veridical.text.segment import sentences, words
from veridical_lab.guard.monitors import Monitor
from veridical_lab.guard.types import GuardOptions, Intervention, Sampling, TokenBudget
from veridical_lab.models.stepwise import Generation

_SEGMENT: dict[str, Callable[[str], list[Span]]] = {"word": words, "sentence": sentences}
_SENTENCE_END = re.compile(r"[.!?…。！？][\"'”’»)\]]*+\s*+\Z|(?<!\s)[^\S\n]*+\n\s*+\Z")
_MOST_MASS = 1 - 1e-6
_ACTIONS = {"stop": "stopped", "backtrack": "backtracked", "suppress": "suppressed"}


class BudgetUsage:
    """Counts how much of a budget has been used since this object was created.

    Attributes:
        tokens: The number of sampled tokens.
        interventions: The number of interventions.
    """

    def __init__(self, budget: TokenBudget, sampling: Sampling) -> None:
        self.budget = budget
        self.tokens = 0
        self.interventions = 0
        self._max_tokens = budget.tokens_for(sampling)
        self._start = monotonic()

    @property
    def seconds(self) -> float:
        """Seconds since this object was created."""
        return monotonic() - self._start

    def tokens_left(self) -> int:
        """Return the number of tokens that may still be sampled."""
        return max(0, self._max_tokens - self.tokens)

    def exceeded(self) -> str | None:
        """Return, in words, the limit that is reached, or None while both tokens and seconds are left."""
        if not self.tokens_left():
            return f"the budget of {self._max_tokens} tokens is spent"
        if self.budget.seconds is not None and self.seconds >= self.budget.seconds:
            return f"the budget of {self.budget.seconds:g} seconds is spent"
        return None


@dataclass(slots=True)
class _Event:
    """An intervention at a token of the text. Once the text before this token is discarded, `token_i` is None."""

    token_i: int | None
    rejected: str
    score: float
    action: str


@dataclass(slots=True)
class _Position:
    """The state of a token index where tokens were sampled again.

    Attributes:
        attempts: The score and the tokens of each flagged attempt.
        banned: Tokens that may not be sampled at this index again.
        space: The token of a bare space with which the flagged word began. This token stays allowed, because other
            words begin with it, too.
        banned_after_space: Tokens that may not follow `space` again.
        banned_mass: The total probability of `banned_after_space` after the space. The probability of the space is
            reduced accordingly.
        accepted: Whether the best attempt was accepted because no retry was left.
    """

    attempts: list[tuple[float, list[int]]] = field(default_factory=list)
    banned: set[int] = field(default_factory=set)
    space: int = -1
    banned_after_space: set[int] = field(default_factory=set)
    banned_mass: float = 0.0
    accepted: bool = False


class DecodingLoop:
    """Generates one text. Without a monitor, or once no intervention is left, the text is never stopped or changed.

    Args:
        generation: The text, which is empty at first.
        sampler: Samples the tokens of the text.
        usage: The budget, and its usage so far.
        options: The strategy, and how tokens are sampled.
        monitor: Judges the text while it is generated.
        threshold: The lowest score of a verdict that is flagged.

    Attributes:
        exhausted: Whether something was flagged when no intervention was left.
        end_ids: The tokens that end a text.
    """

    def __init__(
        self,
        generation: Generation,
        sampler: Sampler,
        usage: BudgetUsage,
        options: GuardOptions,
        monitor: Monitor | None = None,
        threshold: float = 1.0,
    ) -> None:
        self.generation = generation
        self.sampler = sampler
        self.usage = usage
        self.sampling = options.sampling
        self.monitor = monitor
        self.action = _ACTIONS.get(options.strategy, "")
        self.unit = "token" if options.strategy == "suppress" else options.unit
        self.threshold = threshold
        self.exhausted = False
        self.end_ids = set(generation.end_ids)
        for stop in self.sampling.stop:
            ids = generation.model.tokenizer.encode(stop, add_special_tokens=False)
            self.end_ids.update(ids if len(ids) == 1 else ())
        self._log = options.log or (lambda line: None)
        self._events: list[_Event] = []
        self._positions: dict[int, _Position] = {}
        self._passed = 0  # characters up to which flags are ignored

    @property
    def text(self) -> str:
        """The text so far, cut before the first stop string."""
        return self.sampling.cut(self.generation.text)[0]

    def run(self) -> str:
        """Generate until the text ends, and return the reason in words."""
        with nullcontext() if self.monitor is None else self.monitor.attached(self.generation):
            while True:
                exceeded = self.usage.exceeded()
                end = exceeded or self._sample()
                if end:
                    self.generation.finish()
                new = self.monitor.verdicts(self.generation, final=bool(end)) if self.monitor else []
                action, length = None, len(self.text)
                for verdict in sorted(new, key=lambda verdict: verdict.span):
                    flagged = verdict.score >= self.threshold and verdict.span.end > self._passed
                    if flagged and verdict.span.start < length:
                        action = self._intervene(verdict, may_retry=exceeded is None)
                        if action:
                            break
                if action == "stopped":
                    return "it was stopped where something was flagged"
                if end and action != "changed":
                    return end

    def _sample(self) -> str | None:
        """Sample one more token and append it to the text. Return None, or the reason why the text ends, in words."""
        import torch

        count = len(self.generation.ids)
        if count >= self.sampling.max_new_tokens:
            return f"max_new_tokens is reached ({count})"
        logits, temperature = self.generation.logits(), self.sampling.temperature
        token_i, bias = self._bias(count)
        if bias:
            tokens = torch.tensor(list(bias), device=logits.device)
            logits = logits.index_add(0, tokens, torch.tensor(list(bias.values()), device=logits.device))
            if not torch.isfinite(logits.max()):  # every token is banned
                self._accept_best(token_i)
                return None
            temperature += self.sampling.temperature_increase * len(self._positions[token_i].attempts)
        (token,) = self.sampler.sample(logits[None], temperature)
        self.usage.tokens += 1
        if token in self.generation.end_ids:
            return "the model ended its text"
        self.generation.append(token)
        return self.sampling.cut(self.generation.text)[1]

    def _bias(self, count: int) -> tuple[int, dict[int, float]]:
        """Return the position to which token `count` belongs, and the logit bias of each token there."""
        here, before = self._positions.get(count), self._positions.get(count - 1)
        bias: dict[int, float] = {}
        token_i = count
        if here:
            bias = dict.fromkeys(here.banned, -math.inf)
            if here.banned_after_space:
                bias[here.space] = math.log1p(-min(here.banned_mass, _MOST_MASS))
        if before and before.banned_after_space and self.generation.ids[-1] == before.space:
            bias |= dict.fromkeys(before.banned_after_space, -math.inf)
            token_i = count if here else count - 1
        if bias and not _SENTENCE_END.search(self.generation.text):
            bias |= dict.fromkeys(self.end_ids, -math.inf)  # otherwise, the model would end in the middle of a sentence
        return token_i, bias

    def _ban(self, count: int) -> None:
        """Prevent the present token at `count` from being sampled there again."""
        position, ids = self._positions[count], self.generation.ids
        if self.unit == "token" or not self.generation.is_space(count) or count + 1 == len(ids):
            position.banned.add(ids[count])
            return
        position.space = ids[count]
        position.banned_after_space.add(ids[count + 1])
        logits = self.generation.logits_before(count + 1)
        if logits is not None:
            position.banned_mass = float(logits.softmax(-1)[list(position.banned_after_space)].sum())

    def _intervene(self, verdict: Verdict, *, may_retry: bool) -> Literal["changed", "stopped"] | None:
        """Act on a flagged verdict. Return None if the text stays unchanged and generation continues."""
        self._passed = verdict.span.end  # `_cut` reduces it if this text is discarded
        for unit in ("sentence", "word", "token") if self.unit == "sentence" else (self.unit,):
            segments = _SEGMENT[unit](self.generation.text) if unit in _SEGMENT else []
            start = next((s.start for s in segments if s.start <= verdict.span.start < s.end), verdict.span.start)
            count = self.generation.token_at(start)  # the token to go back to
            count -= unit != "token" and self.generation.is_space(count - 1)
            accepted = count in self._positions and self._positions[count].accepted
            if count < len(self.generation.ids) and not accepted:
                break
        else:
            return None  # at each of these positions, the best attempt has already been accepted
        allowed = self.usage.interventions < self.usage.budget.interventions
        self.exhausted |= not allowed
        if self.action == "stopped":
            if not allowed:
                return None
            self._record(count, verdict, self.action)
            self._cut(count)
            return "stopped"
        if not allowed and count not in self._positions:
            return None
        position = self._positions.setdefault(count, _Position())
        spans = self.generation.spans
        end = self.generation.token_at(verdict.span.end - 1) + 1
        while end < len(spans) and spans[end] is spans[end - 1]:
            end += 1  # the other tokens of the same character
        position.attempts.append((verdict.score, self.generation.ids[count:end]))
        if allowed and may_retry and len(position.attempts) <= self.usage.budget.retries:
            self._ban(count)
            self._record(count, verdict, self.action)
            self._cut(count)
            return "changed"
        if len(position.attempts) > 1:
            self._record(count, verdict, "accepted")
        return "changed" if self._accept_best(count) else None

    def _accept_best(self, count: int) -> bool:
        """Accept the best attempt at token `count`, and return whether this changed the text."""
        position = self._positions[count]
        position.accepted = True
        _, ids = min(position.attempts, key=lambda attempt: attempt[0])
        if self.generation.ids[count : count + len(ids)] == ids:
            return False
        self._cut(count)
        for token in ids:
            self.generation.append(token)
        self._passed = len(self.generation.text)
        return True

    def _cut(self, count: int) -> None:
        """Discard the text from token `count` on, together with the attempts at later positions."""
        self.generation.rewind(count)
        if self.monitor is not None:
            self.monitor.rewind(self.generation)
        self._positions = {i: position for i, position in self._positions.items() if i <= count}
        self._passed = min(self._passed, len(self.generation.text))
        for event in self._events:
            if event.token_i is not None and event.token_i > count:
                event.token_i = None

    def _record(self, count: int, verdict: Verdict, action: str) -> None:
        start = self.generation.start_of(count)
        rejected = self.generation.text[start : verdict.span.end]
        self._events.append(_Event(count, rejected, verdict.score, action))
        self.usage.interventions += action != "accepted"
        self._log(f"{action} at character {start}: {rejected.strip()!r} {verdict.score:.2f}")

    def interventions(self) -> tuple[Intervention, ...]:
        """List all interventions so far, with their spans in the present text."""
        text = self.text
        segments = _SEGMENT[self.unit](text) if self.unit in _SEGMENT else []

        def span_of(token_i: int) -> Span:
            start = min(self.generation.start_of(token_i), len(text))
            first_token = next((span.end for span in self.generation.spans[token_i:] if span), start)
            first = next((c for c in range(start, len(text)) if not text[c].isspace()), start)
            end = max([first_token, *(s.end for s in segments if s.start <= first < s.end)])
            return Span(start, min(end, len(text)))

        return tuple(
            Intervention(None if e.token_i is None else span_of(e.token_i), e.rejected, e.score, e.action)
            for e in self._events
        )
