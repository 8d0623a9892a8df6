"""Options and results of guarded generation, in which a detector watches a text while a model generates it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from veridical.records.errors import InputError, UnknownNameError
from veridical.records.spans import Span
from veridical.records.types import Case, Judgement, Outcome, Thresholds

STRATEGIES = ("stop", "backtrack", "suppress", "rerank")
UNITS = ("token", "word", "sentence")
Log = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Sampling:
    """Options for sampling tokens.

    Attributes:
        max_new_tokens: The maximum number of tokens in a text, at least 1.
        temperature: The sampling temperature, at least 0. With 0, the most probable token is always taken.
        top_k: Sample only from this number of most probable tokens. 0 means all tokens.
        top_p: Sample only from the smallest set of most probable tokens with this total probability, in (0, 1].
            1 means all tokens.
        seed: The random seed. The same seed gives the same text.
        temperature_increase: The increase in temperature for each retry at the same position.
        stop: Stop strings, such as a line break after a few-shot prompt. The text ends before the first of them.
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
        """Cut `text` before the first stop string, and return the text and why it ends there.

        If `text` contains no stop string, it is returned whole, with None as the reason.
        """
        stop = min((string for string in self.stop if string in text), key=text.index, default=None)
        return (text, None) if stop is None else (text[: text.index(stop)], f"the text reached {stop!r}")


@dataclass(frozen=True, slots=True)
class TokenBudget:
    """Limits on the cost of guarding a text. Each limit applies as soon as it is reached.

    Attributes:
        interventions: After this many interventions, the rest of the text is generated without a guard. With 0, the
            whole text is unguarded.
        retries: After this many retries at the same position, the best attempt is accepted.
        tokens: The text ends when this many tokens have been sampled in total, including discarded ones. Default: eight
            times `max_new_tokens`.
        seconds: The text ends after this many seconds, which are checked before each token. Default: no limit.
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
    """Options for guarded generation.

    Attributes:
        strategy: "stop" ends the text before the flagged part. "backtrack" goes back to the start of the flagged `unit`
            and samples something else there. "suppress" samples another token in place of the flagged token. "rerank"
            generates several whole texts and chooses the text with the lowest score.
        unit: Where "stop" and "backtrack" cut: at the start of the flagged "token", "word" or "sentence".
        threshold: The lowest score that is flagged, in [0, 1], for all levels or by level. Default: the detector's own
            thresholds.
        samples: The number of texts that "rerank" chooses from, at least 2.
        beams: Whether "rerank" chooses from the beams of a beam search instead of samples.
        template: The prompt template. Default: the detector's own template. If it has none, "raw" for a case with a
            prompt, and "general" for any other case.
        sampling: The options for sampling tokens.
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
    """A flagged place, and the action that was taken.

    Attributes:
        span: The place in the final text. Empty if nothing is there now. None if that part of the draft was discarded
            later.
        rejected: The text of the draft from the start of `span` to the end of the flagged part.
        score: The score of the flagged part. For "rerank", the score of the whole text, or None if that could not be
            judged.
        action: "stopped" if the text ends there. "backtracked" or "suppressed" if other tokens were sampled there.
            "accepted" if no retry was left and the best of all attempts was accepted, which may be `rejected` itself.
            "not chosen" if "rerank" chose another text.
    """

    span: Span | None
    rejected: str
    score: float | None
    action: str


@dataclass(frozen=True, slots=True)
class Unguarded:
    """The text that the model generates with the same seed but without a guard, and the judgement of that text."""

    case: Case
    judgement: Judgement


@dataclass(frozen=True, slots=True)
class Guarded:
    """A text from guarded generation, with a record of the process.

    Attributes:
        case: The case with the text as the response.
        judgement: The detector's judgement of the final text as a whole.
        thresholds: For each level, the lowest score that is flagged.
        outcome: The outcome of the judgement at these thresholds.
        strategy: The strategy of the options.
        interventions: All interventions, in order.
        reason: Why the text ends, and the part of the budget that was used up, if any.
        tokens_drawn: The number of sampled tokens in total.
        forward_passes: The number of forward passes of the generating model. The detector's own passes count only in
            `seconds`.
        seconds: The time that the text took, in seconds.
        notes: Notes on how the prompt was made.
        unguarded: The text without a guard, if you asked for it (`compare`). Its cost is not included.
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
