"""What guarded writing is asked for and what comes of it: sampling, budget, interventions, result."""

from __future__ import annotations

from dataclasses import dataclass

from veridical.core.errors import InputError
from veridical.core.spans import Span
from veridical.core.types import Case, Judgement, Outcome, Thresholds

__all__ = ["Budget", "Guarded", "Intervention", "Sampling", "Unguarded"]


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are drawn.

    `temperature` 0 takes the likeliest token. `top_k` (0 = all) and `top_p` (1 = all) say which are drawn from.
    `reheat` is added to the temperature with every retry at one place. The same `seed` gives the same text.
    """

    max_new_tokens: int = 128
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0
    reheat: float = 0.0

    def __post_init__(self) -> None:
        _from("max_new_tokens", self.max_new_tokens, 1)
        _from("top_k", self.top_k, 0)
        _from("seed", self.seed, 0)
        _from("temperature", self.temperature, 0.0)
        _from("reheat", self.reheat, 0.0)
        if not 0.0 < self.top_p <= 1.0:
            raise InputError(f"top_p is {self.top_p}", hint="it lies above 0 and at most at 1")


@dataclass(frozen=True, slots=True)
class Budget:
    """What writing may cost at most; whichever ends first ends it.

    `interventions`: after the last one the rest is written unguarded (0: all of it). `tokens`: drawn in all, drafts
    that were thrown away included (None: eight times `max_new_tokens`); `seconds`: of the clock, looked at before each
    token. Both end the text. `retries`: redrawings at one place, after which the best of them stands.
    """

    interventions: int = 20
    retries: int = 3
    tokens: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        _from("the budget of interventions", self.interventions, 0)
        _from("the budget of retries", self.retries, 0)
        _from("the budget of tokens", self.tokens or 0, 0)
        _from("the budget of seconds", self.seconds or 0.0, 0.0)

    def tokens_for(self, sampling: Sampling) -> int:
        """How many tokens may be drawn in all."""
        return 8 * sampling.max_new_tokens if self.tokens is None else self.tokens


def _from(what: str, value: float, least: float) -> None:
    if not least <= value < float("inf"):  # also false for NaN
        raise InputError(f"{what} is {value}", hint=f"a number from {least}")


@dataclass(frozen=True, slots=True)
class Intervention:
    """One place where something was flagged, and what was done about it.

    `rejected` is what stood there: put behind the text before `span` it is the draft of that time, up to the end of
    what was flagged. `span` is what stands there now in the final text, empty where nothing does; None where that part
    of the draft was thrown away later. `score` is that of what was flagged (rerank: of the whole sample, None where it
    could not be judged). `action`:

    - "stopped": the text ends there. "backtracked", "suppressed": it was redrawn.
    - "settled": no retry was left; of all that was drawn there the best stands (`rejected` may be that itself).
    - "not chosen": another sample was better.
    """

    span: Span | None
    rejected: str
    score: float | None
    action: str


@dataclass(frozen=True, slots=True)
class Unguarded:
    """What the model writes by itself with the same seed, and how that is judged."""

    case: Case
    judgement: Judgement


@dataclass(frozen=True, slots=True)
class Guarded:
    """What guarded writing came to.

    `case` has the text as its response; `judgement` is of that text as a whole, `outcome` what is decided on it.
    `reason` says why the text ends and which budget ran out. `forward_passes` are those of the writing; what the
    detector ran by itself is not counted in them, but in `seconds`. `unguarded` is there where it was asked for, and
    costs nothing of the rest.
    """

    case: Case
    judgement: Judgement
    thresholds: Thresholds
    outcome: Outcome
    strategy: str
    interventions: tuple[Intervention, ...]
    reason: str
    tokens_drawn: int
    forward_passes: int
    seconds: float
    notes: tuple[str, ...] = ()
    unguarded: Unguarded | None = None

    @property
    def text(self) -> str:
        """The text that stands."""
        return self.case.response
