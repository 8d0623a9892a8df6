"""The types for guarded generation: options, sampling and budget, and guarded texts and interventions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from veridical.records.errors import InputError, UnknownNameError
from veridical.records.spans import Span
from veridical.records.types import Case, Judgement, Outcome, Thresholds

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
        max_new_tokens: The largest number of tokens in a text, at least 1.
        temperature: The sampling temperature, at least 0. 0 takes the most probable token.
        top_k: The number of most probable tokens from which to sample. 0 means all tokens.
        top_p: The total probability, in (0, 1], of the most probable tokens from which to sample. 1 means all tokens.
        seed: The random seed. The same seed gives the same text.
        temperature_increase: The amount added to the temperature with every retry at the same position.
        stop: Strings before the first of which the text ends, such as a line break after a few-shot prompt.
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
        """Return `text` up to the first of the `stop` strings, and the reason why it ends there.

        If it contains none of them, the reason is None.
        """
        stop = min((string for string in self.stop if string in text), key=text.index, default=None)
        return (text, None) if stop is None else (text[: text.index(stop)], f"the text reached {stop!r}")


@dataclass(frozen=True, slots=True)
class TokenBudget:
    """The limits on the cost of guarding. As soon as one of them is reached, it applies.

    Attributes:
        interventions: The largest number of interventions. After that, the rest is generated without a guard. With 0,
            the whole text is unguarded.
        retries: The largest number of retries at the same position. After that, the best attempt is accepted.
        tokens: The largest number of tokens to sample in total, including discarded ones. Then the text ends. Default:
            eight times `max_new_tokens`.
        seconds: The time per text in seconds, checked before each token. Then the text ends. Default: no limit.
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
    """What to do if the detector flags something.

    Attributes:
        strategy: "stop" ends the text before the flagged part. "backtrack" goes back to the start of its `unit` and
            samples something else there. "suppress" samples another token in place of the flagged token. "rerank"
            generates several whole texts and chooses the text with the lowest score.
        unit: Where "stop" and "backtrack" cut: at the start of the flagged "token", "word" or "sentence".
        threshold: The score from which something is flagged, in [0, 1], or one per level. Default: the detector's own
            thresholds.
        samples: The number of texts from which "rerank" chooses, at least 2.
        beams: Whether "rerank" chooses from the beams of a beam search instead of samples.
        template: The prompt template. Default: the detector's own template, or "raw" if a case has a prompt, or
            "general".
        sampling: How tokens are sampled.
        budget: The limits on the cost of guarding.
        compare: Whether to also generate and judge the text without a guard.
        log: A function that is called with a line of text for each intervention.
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
        span: The place in the final text. It is empty if nothing is there, and None if that part of the draft was
            discarded later.
        rejected: The text of the draft from the start of `span` to the end of the flagged part.
        score: The score of the flagged part. For rerank, the score of the sample, or None if it could not be judged.
        action: "stopped" if the text ends there. "backtracked" or "suppressed" if it was sampled again. "accepted" if
            no retry was left, so that the best of all attempts was accepted (`rejected` may be the same text). "not
            chosen" if another sample was better.
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
        thresholds: The score from which something is flagged, for each level.
        outcome: The outcome of the judgement at these thresholds.
        strategy: The strategy of the options.
        interventions: All interventions, in order.
        reason: Why the text ends, and which budget was used up.
        tokens_drawn: The number of tokens sampled in total.
        forward_passes: The number of forward passes of the generating model. The detector's own passes only count in
            `seconds`.
        seconds: The time that the text took, in seconds.
        notes: Notes on how the prompt was made.
        unguarded: The text without a guard, if it was requested. Its cost is not counted.
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
