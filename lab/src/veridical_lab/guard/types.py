"""The types of guarded generation: options, sampling and budget go in; guarded texts and interventions come out."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from veridical.core.errors import InputError, UnknownNameError
from veridical.core.spans import Span
from veridical.core.types import Case, Judgement, Outcome, Thresholds

__all__ = [
    "STRATEGIES",
    "UNITS",
    "GuardOptions",
    "Guarded",
    "Intervention",
    "Log",
    "Sampling",
    "TokenBudget",
    "Unguarded",
]

STRATEGIES = ("stop", "backtrack", "suppress", "rerank")
UNITS = ("token", "word", "sentence")
Log = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are sampled.

    Attributes:
        max_new_tokens: The most tokens of a text, from 1.
        temperature: From 0, which takes the most probable token.
        top_k: Sample from this many most probable tokens; 0: from all.
        top_p: In (0, 1]. Sample from the most probable tokens that together have this probability; 1: from all.
        seed: The same seed gives the same text.
        temperature_increase: Added to the temperature with every retry at the same position.
        stop: The text ends before the first of these strings, such as a line break after a few-shot prompt.
    """

    max_new_tokens: int = 128
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0
    temperature_increase: float = 0.0
    stop: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.stop, str) or not all(self.stop):
            raise InputError(f"stop is {self.stop!r}", hint="a tuple of strings, none of them empty")
        _check_least("max_new_tokens", self.max_new_tokens, 1)
        _check_least("top_k", self.top_k, 0)
        _check_least("seed", self.seed, 0)
        _check_least("temperature", self.temperature, 0.0)
        _check_least("temperature_increase", self.temperature_increase, 0.0)
        if not 0.0 < self.top_p <= 1.0:
            raise InputError(f"top_p is {self.top_p}", hint="above 0 and at most 1")

    def cut(self, text: str) -> tuple[str, str | None]:
        """Return `text` up to the first of `stop`, and why it ends there; None where it has none of them."""
        stop = min((string for string in self.stop if string in text), key=text.index, default=None)
        return (text, None) if stop is None else (text[: text.index(stop)], f"the text reached {stop!r}")


@dataclass(frozen=True, slots=True)
class TokenBudget:
    """The most that guarding may cost; whichever limit is reached first applies.

    Attributes:
        interventions: After the last one, the rest is generated unguarded; 0: all of it.
        retries: Retries at the same position, after which the best attempt is accepted.
        tokens: Tokens sampled in total, discarded ones included; at the limit the text ends. None: eight times
            `max_new_tokens`.
        seconds: Time per text, checked before each token; at the limit the text ends. None: no limit.
    """

    interventions: int = 20
    retries: int = 3
    tokens: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        _check_least("the budget of interventions", self.interventions, 0)
        _check_least("the budget of retries", self.retries, 0)
        _check_least("the budget of tokens", self.tokens or 0, 0)
        _check_least("the budget of seconds", self.seconds or 0.0, 0.0)

    def tokens_for(self, sampling: Sampling) -> int:
        """Return how many tokens may be sampled in total."""
        return 8 * sampling.max_new_tokens if self.tokens is None else self.tokens


def _check_least(what: str, value: float, least: float) -> None:
    if not least <= value < math.inf:  # also false for NaN
        raise InputError(f"{what} is {value}", hint=f"a number from {least}")


@dataclass(frozen=True, slots=True)
class GuardOptions:
    """What to do where the detector flags something.

    Attributes:
        strategy: "stop" ends the text before the flagged part. "backtrack" goes back to the start of its `unit` and
            samples something else there. "suppress" samples another token in place of the flagged one. "rerank"
            generates several whole texts and chooses the one with the lowest score.
        unit: Where "stop" and "backtrack" cut: at the start of the flagged "token", "word" or "sentence".
        threshold: The score from which something is flagged, in [0, 1], or one per level; None: the detector's own.
        samples: How many texts "rerank" chooses from, from 2.
        beams: Whether "rerank" chooses from the beams of a beam search instead of samples.
        template: The prompt template; None: the detector's own, else "raw" where a case has a prompt, else "general".
        sampling: How tokens are sampled.
        budget: The most that guarding may cost.
        compare: Whether to generate and judge the text without a guard, too.
        log: Called with a line of text for each intervention.
    """

    strategy: str = "backtrack"
    unit: str = "word"
    threshold: float | Mapping[str, float] | None = None
    samples: int = 4
    beams: bool = False
    template: str | None = None
    sampling: Sampling = field(default_factory=Sampling)
    budget: TokenBudget = field(default_factory=TokenBudget)
    compare: bool = False
    log: Log | None = None

    def __post_init__(self) -> None:
        if self.strategy not in STRATEGIES:
            raise UnknownNameError("strategy", self.strategy, STRATEGIES)
        if self.unit not in UNITS:
            raise UnknownNameError("unit to go back to", self.unit, UNITS)
        if self.strategy != "rerank":
            if self.beams:
                raise InputError(f"the strategy {self.strategy} has no beams", hint="beams go with the strategy rerank")
            return
        if self.samples < 2:
            raise InputError(f"{self.samples} samples to choose from", hint="at least 2")
        if not self.beams and self.sampling.temperature == 0:
            raise InputError(
                "at temperature 0 all samples are the same", hint="set a temperature such as 0.7, or use beams"
            )


@dataclass(frozen=True, slots=True)
class Intervention:
    """One place where something was flagged, and what was done about it.

    Attributes:
        span: The place in the final text, empty if nothing is there; None if that part of the draft was discarded
            later.
        rejected: The text of the draft from the start of `span` to the end of the flagged part.
        score: The score of the flagged part (rerank: of the sample; None if it could not be judged).
        action: "stopped": the text ends there. "backtracked", "suppressed": it was sampled again. "accepted": no retry
            was left, and the best of all attempts was accepted (`rejected` may be the same text). "not chosen": another
            sample was better.
    """

    span: Span | None
    rejected: str
    score: float | None
    action: str


@dataclass(frozen=True, slots=True)
class Unguarded:
    """The text that the model generates with the same seed but without a guard, and its judgement."""

    case: Case
    judgement: Judgement


@dataclass(frozen=True, slots=True)
class Guarded:
    """A guarded text.

    Attributes:
        case: The case with the text as its response.
        judgement: The detector's judgement of the final text as a whole.
        thresholds: The score from which something is flagged, per level.
        outcome: The outcome of that judgement at these thresholds.
        strategy: The strategy of the options.
        interventions: All interventions, in order.
        reason: Why the text ends, and which budget was used up.
        tokens_drawn: Tokens sampled in total.
        forward_passes: Forward passes of the generating model; the detector's own passes only count in `seconds`.
        seconds: The time that the text took.
        notes: Notes on how the prompt was made.
        unguarded: The text without a guard, if asked for; its cost is not counted.
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
        """The final text."""
        return self.case.response
