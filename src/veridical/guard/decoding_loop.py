"""One text on its way: drawn token by token; stopped or cut back where the detector flags something; in a budget."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING

from veridical.core.segment import sentences, words
from veridical.core.spans import Span
from veridical.core.types import Verdict
from veridical.guard.generation import Writer
from veridical.guard.monitors import Online
from veridical.guard.types import Budget, Intervention, Sampling

if TYPE_CHECKING:
    import torch

__all__ = ["UNITS", "Course", "Say", "Spending"]

UNITS = ("token", "word", "sentence")
Say = Callable[[str], None]
_PARTS: dict[str, Callable[[str], list[Span]]] = {"word": words, "sentence": sentences}
_CLOSED = re.compile(r"[.!?…。！？][\"'”’»)\]]*\s*$|\n\s*$")
_SURE = 1 - 1e-6
_ACTIONS = {"stop": "stopped", "backtrack": "backtracked", "suppress": "suppressed"}


class Spending:
    """What was drawn since it was made, against the budget."""

    def __init__(self, budget: Budget, sampling: Sampling) -> None:
        self.budget = budget
        self.tokens = 0
        self.interventions = 0
        self._limit = budget.tokens_for(sampling)
        self._since = monotonic()

    @property
    def seconds(self) -> float:
        """Since it was made."""
        return monotonic() - self._since

    def left(self) -> int:
        """How many tokens may still be drawn."""
        return max(0, self._limit - self.tokens)

    def over(self) -> str | None:
        """Which budget ended the text; None while there is something left."""
        if not self.left():
            return f"the budget of {self._limit} tokens is spent"
        if self.budget.seconds is not None and self.seconds >= self.budget.seconds:
            return f"the budget of {self.budget.seconds:g} seconds is spent"
        return None


@dataclass(slots=True)
class _Event:
    """An intervention at a token of the text; `token_i` is None once what stood before it was thrown away."""

    token_i: int | None
    rejected: str
    score: float
    action: str


@dataclass(slots=True)
class _Place:
    """A token of the text at which something was redrawn: what was tried there, and with which scores.

    Where a word began with a bare `blank`, that may stand again, but what followed it may not (`behind`): other words
    and numbers begin with the blank, too. The blank is then less likely by `mass`, the probability of what is banned.
    """

    tried: list[tuple[float, list[int]]] = field(default_factory=list)
    banned: set[int] = field(default_factory=set)
    blank: int = -1
    behind: set[int] = field(default_factory=set)
    mass: float = 0.0
    settled: bool = False


class Course:
    """Writes one text with `online` in the loop; without it, or where no interventions are left, as the model would."""

    def __init__(
        self,
        writer: Writer,
        online: Online | None,
        spending: Spending,
        sampling: Sampling,
        random: torch.Generator,
        *,
        strategy: str = "backtrack",
        unit: str = "word",
        threshold: float = 1.0,
        say: Say | None = None,
    ) -> None:
        self.writer = writer
        self.online = online
        self.spending = spending
        self.sampling = sampling
        self.random = random
        self.action = _ACTIONS[strategy]
        self.unit = "token" if strategy == "suppress" else unit
        self.threshold = threshold
        self.exhausted = False  # something was flagged and no intervention was left
        self._say = say or (lambda line: None)
        self._events: list[_Event] = []
        self._places: dict[int, _Place] = {}
        self._passed = 0  # characters up to which flags are let pass

    def run(self) -> str:
        """Writes to the end, and says why it is one."""
        if self.online is None:
            return self._write()
        with self.online.attached(self.writer):
            return self._write()

    def _write(self) -> str:
        while True:
            spent = self.spending.over()
            end = spent or self._draw()
            if end:
                self.writer.finish()
            then = self._look(final=bool(end), may_draw=spent is None)
            if then == "stopped":
                return "it was stopped where something was flagged"
            if end and then != "redraw":
                return end

    def _draw(self) -> str | None:
        """One more token, or why there is none."""
        count = len(self.writer.ids)
        if count >= self.sampling.max_new_tokens:
            return f"max_new_tokens is reached ({count})"
        place, bias = self._banned(count)
        heat = self.sampling.temperature + self.sampling.reheat * (len(self._places[place].tried) if bias else 0)
        token = self.writer.draw(self.sampling, self.random, heat=heat, bias=bias)
        if token is None:
            self._settle(place)
            return None
        self.spending.tokens += 1
        if token in self.writer.ends:
            return "the model ended its text"
        self.writer.append(token)
        return None

    def _banned(self, count: int) -> tuple[int, dict[int, float]]:
        """The place that token `count` belongs to, and what is added to the logits there."""
        here, before = self._places.get(count, _Place()), self._places.get(count - 1, _Place())
        bias = dict.fromkeys(here.banned, -math.inf)
        if here.behind:
            bias[here.blank] = math.log1p(-min(here.mass, _SURE))
        place = count
        if before.behind and self.writer.ids[-1] == before.blank:
            bias |= dict.fromkeys(before.behind, -math.inf)
            place = count if count in self._places else count - 1
        if bias and not _CLOSED.search(self.writer.text):
            bias |= dict.fromkeys(self.writer.ends, -math.inf)  # to end in the middle of a sentence is no way out
        return place, bias

    def _ban(self, count: int) -> None:
        """Keeps what stands at token `count` from being drawn there again."""
        place, ids = self._places[count], self.writer.ids
        if self.unit == "token" or not self.writer.is_blank(count) or count + 1 == len(ids):
            place.banned.add(ids[count])
            return
        place.blank = ids[count]
        place.behind.add(ids[count + 1])
        logits = self.writer.logits_before(count + 1)
        if logits is not None:
            place.mass = float(logits.softmax(-1)[list(place.behind)].sum())

    # --- what was flagged -----------------------------------------------------------------------------------------

    def _look(self, *, final: bool, may_draw: bool) -> str | None:
        """Reads what the detector has to say and acts on it: "redraw", "stopped", or None where the text goes on."""
        if self.online is None:
            return None
        found = sorted(self.online.read(self.writer, final=final), key=lambda verdict: verdict.span)
        for verdict in found:
            if verdict.score >= self.threshold and verdict.span.end > self._passed:
                then = self._act(verdict, may_draw)
                if then:
                    return then
        return None

    def _act(self, verdict: Verdict, may_draw: bool) -> str | None:
        self._passed = verdict.span.end  # unless it is thrown away
        count = self._place_of(verdict.span)
        if count is None:
            return None
        left = self.spending.interventions < self.spending.budget.interventions
        self.exhausted |= not left
        if self.action == "stopped":
            if left:
                self._note(count, verdict, self.action)
                self._cut(count)
            return "stopped" if left else None
        if not left and count not in self._places:
            return None
        place = self._places.setdefault(count, _Place())
        end = self.writer.token_at(verdict.span.end - 1) + 1
        while end < len(self.writer.spans) and self.writer.spans[end] is self.writer.spans[end - 1]:
            end += 1  # the other tokens of the same character
        place.tried.append((verdict.score, self.writer.ids[count:end]))
        if left and may_draw and len(place.tried) <= self.spending.budget.retries:
            self._ban(count)
            self._note(count, verdict, self.action)
            self._cut(count)
            return "redraw"
        if len(place.tried) > 1:
            self._note(count, verdict, "settled")
        return "redraw" if self._settle(count) else None

    def _place_of(self, span: Span) -> int | None:
        """The token to go back to; None where all that comes into question is settled."""
        units = UNITS[UNITS.index(self.unit) :: -1] if self.unit == "sentence" else (self.unit,)
        for unit in units:
            parts = _PARTS[unit](self.writer.text) if unit in _PARTS else []
            start = next((p.start for p in parts if p.start <= span.start < p.end), span.start)
            count = self.writer.token_at(start)
            count -= unit != "token" and self.writer.is_blank(count - 1)
            if count < len(self.writer.ids) and not self._places.get(count, _Place()).settled:
                return count
        return None

    def _settle(self, count: int) -> bool:
        """Lets the best of what was tried there stand; whether that changed the text."""
        place = self._places[count]
        place.settled = True
        _, ids = min(place.tried, key=lambda one: one[0])
        if self.writer.ids[count : count + len(ids)] == ids:
            return False
        self._cut(count)
        for token in ids:
            self.writer.append(token)
        self._passed = len(self.writer.text)
        return True

    def _cut(self, count: int) -> None:
        """Throws away what stands from token `count` on, and what is known of places behind it."""
        self.writer.rewind(count)
        if self.online is not None:
            self.online.rewind(self.writer)
        self._places = {i: place for i, place in self._places.items() if i <= count}
        self._passed = min(self._passed, len(self.writer.text))
        for event in self._events:
            if event.token_i is not None and event.token_i > count:
                event.token_i = None

    def _note(self, count: int, verdict: Verdict, action: str) -> None:
        rejected = self.writer.text[self.writer.start_of(count) : verdict.span.end]
        self._events.append(_Event(count, rejected, verdict.score, action))
        self.spending.interventions += action != "settled"
        self._say(f"{action} at character {self.writer.start_of(count)}: {rejected.strip()!r} {verdict.score:.2f}")

    def interventions(self) -> tuple[Intervention, ...]:
        """All that was done, with places in the text as it stands."""
        return tuple(Intervention(self._span(e), e.rejected, e.score, e.action) for e in self._events)

    def _span(self, event: _Event) -> Span | None:
        if event.token_i is None:
            return None
        text, start = self.writer.text, self.writer.start_of(event.token_i)
        spans = [span for span in self.writer.spans[event.token_i :] if span]
        end = spans[0].end if spans else start
        parts = _PARTS[self.unit](text) if self.unit in _PARTS else []
        first = next((c for c in range(start, len(text)) if not text[c].isspace()), start)
        return Span(start, max([end, *(part.end for part in parts if part.start <= first < part.end)]))
