"""The records that go into a history and come out of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt

from veridical.records.errors import InputError, VeridicalError
from veridical.records.spans import Span
from veridical.records.types import Case, Judgement
from veridical.workflows.recalibration import Gain

Action = Literal["wrong", "replace", "remove", "add", "keep", "rest"]
Drawn = Literal["flagged", "random"]
Sort = Literal["number", "name", "outcome", "score", "omission", "flagged", "cause", "decided"]
SORTS: tuple[str, ...] = get_args(Sort)
MOST_ON_PAGE = 200  # runs or cases
_Text = Annotated[str, Field(min_length=0)]  # without a limit, pydantic accepts a lone surrogate


class NotKeptError(InputError):
    """Raised if the history has no such run, case or version."""


class StaleError(InputError):
    """Raised if the decisions have changed since they were read."""


class UnavailableError(VeridicalError):
    """Raised if the database cannot be used at present: it is locked, full, read-only, damaged or out of reach.

    The attribute `problem` is the database's message.
    """

    retryable = True

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"the history cannot be used: {problem}", hint="try again later")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRun:
    """The description of a new run.

    Attributes:
        origin: Where the cases come from: "check" (the page or the API), "import" (a file), or "proxy".
        by: The name of the API key that sent the request. "" if there are no keys.
        name: The name of the imported file. "" if there is no file.
        about: How the run judges: detectors with their fingerprints, thresholds, and the fields of the request.
    """

    origin: str
    by: str = ""
    name: str = ""
    about: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """A run as a list shows it. `cases` counts the cases by outcome, including "waiting" and "failed"."""

    id: str
    created: str
    name: str
    origin: str
    by: str
    state: str
    problem: str
    about: dict[str, Any]
    cases: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPage:
    """A page of runs, newest first. `next` is the cursor of the next page, or None on the last page."""

    runs: tuple[RunRow, ...]
    next: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row of an imported file.

    Attributes:
        row: The number of the row in the file, from 1.
        name: The id of the row's case.
        body: The JSON of the case. "" if the row contains no case.
        text: The text of the response.
        search: The text that a search for the case looks through.
        fields: The labels and the group of the row, or the "row" itself if it contains no case.
        label: The label to filter by. None if the row has no label.
        problem: Why the row contains no case. "" if it contains one.
    """

    row: int
    name: str
    body: str = ""
    text: str = ""
    search: str = ""
    fields: dict[str, Any] = field(default_factory=dict)
    label: str | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseRow:
    """A case as a table shows it.

    Attributes:
        number: The number of the case in the run, from 1.
        name: The id of the case.
        outcome: The outcome of the check, or "waiting" before the check, or "failed" if the case could not be checked.
        score: The highest score of the response or of a flagged passage. None if there is no score.
        omission: The highest omission score. None if there is no score.
        flagged: How many spans are flagged, in the response or as omissions in sources.
        cause: What went wrong, as one of `CauseKind`. "" if the cause was not requested.
        decided: How many places people have decided about.
        beginning: The beginning of the response.
        problem: Why the case could not be checked.
    """

    number: int
    name: str
    outcome: str
    score: float | None
    omission: float | None
    flagged: int
    cause: str
    decided: int
    beginning: str
    problem: str


class CaseQuery(BaseModel):
    """Selects cases of a run, and sets their order. Repeat a parameter to allow several values; none allows all."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, frozen=True)

    sort: Annotated[Sort, Field(description="The column to sort by.")] = "number"
    descending: Annotated[bool, Field(description="Whether the highest values come first.")] = False
    outcome: Annotated[Sequence[str], Field(description="An outcome, waiting or failed.")] = ()
    cause: Annotated[Sequence[str], Field(description="Why the answer failed.")] = ()
    score_min: Annotated[
        float | None, Field(ge=0, le=1, description="The lowest; leaves out cases without a score.")
    ] = None
    score_max: Annotated[
        float | None, Field(ge=0, le=1, description="The highest; leaves out cases without a score.")
    ] = None
    source: Annotated[Sequence[str], Field(description="The id of a source that the case has.")] = ()
    kind: Annotated[Sequence[str], Field(description="A kind of error that is flagged.")] = ()
    label: Annotated[Sequence[str], Field(description="A label of the imported rows.")] = ()
    detector: Annotated[Sequence[str], Field(description="A detector that flags the case.")] = ()
    decided: Annotated[bool | None, Field(description="Whether anyone decided about the case.")] = None
    sampled: Annotated[bool | None, Field(description="Whether a sentence of the case is in the random sample.")] = None
    search: Annotated[
        str, Field(max_length=1000, description="Words that response, question or id have; the last may be incomplete.")
    ] = ""
    limit: Annotated[int, Field(ge=1, le=MOST_ON_PAGE, description="The most cases of a page.")] = 50
    cursor: Annotated[str | None, Field(max_length=5000, description="`next` of the page before.")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CasePage:
    """A page of cases.

    `total` counts all cases that match the query. `next` is the cursor of the next page, or None on the last page.
    """

    cases: tuple[CaseRow, ...]
    total: int
    next: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceDecision:
    """A person's decision about a place in a case. Offsets count code points.

    Attributes:
        action: "wrong" (an error that is left as it is), "replace", "remove" (the sentence), "add" (a left-out
            passage), "keep" (a false alarm), or "rest" (everything else is right).
        start: The beginning of the place. None for "rest".
        end: The end of the place.
        source: The id of the source that contains the place. None for a place in the response.
        text: The new text, for "replace" and "add".
        cut: The sentence to take out, for "remove", as [start, end].
        reason: The reason in the person's words.
        label: The label of the finding.
        error: The kind of error.
        missed: Whether no detector found the error.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    action: Action
    start: StrictInt | None = None
    end: StrictInt | None = None
    source: _Text | None = None
    text: _Text | None = None
    cut: tuple[StrictInt, StrictInt] | None = None
    reason: _Text | None = None
    label: _Text | None = None
    error: _Text | None = None
    missed: StrictBool = False

    @property
    def place(self) -> tuple[str | None, int | None, int | None]:
        """The source, start and end of the place. One decision is kept for each place."""
        return self.source, self.start, self.end


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCase:
    """A case with its texts.

    Attributes:
        row: The case as a table shows it.
        document: The result as JSON ("check"), or only the case as long as it waits to be checked. None for a row that
            contains no case.
        fields: The labels and the group of the imported row, or the "row" itself if it contains no case.
        decisions: People's decisions about the case.
        version: How often the decisions have changed.
        sampled: The unflagged sentences that were drawn at random for review, as (start, end).
    """

    row: CaseRow
    document: dict[str, Any] | None
    fields: dict[str, Any]
    decisions: tuple[PlaceDecision, ...]
    version: int
    sampled: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRow:
    """A decision with its case, and who made it.

    Attributes:
        number: The number of the case in the run.
        case: The case.
        decision: The decision.
        by: The name of the API key that the person used.
        at: The time of the decision.
        drawn: Why the person saw the place: "flagged" (the place was in the list of findings), "random" (it was in a
            random sample of the unflagged sentences), or None for neither.
        probability: The probability that a person sees the place in this way, in (0, 1]. None if `drawn` is None.
    """

    number: int
    case: Case
    decision: PlaceDecision
    by: str
    at: str
    drawn: Drawn | None
    probability: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidedSentence:
    """A sentence of a response that a person decided about.

    Attributes:
        case: The case, as it was checked.
        judgements: The judgements of the run's detectors.
        document: The name of the case's document.
        span: The place of the sentence in the response.
        wrong: Whether the sentence is wrong.
        drawn: Why the person saw the sentence: "flagged" (the sentence was in the list of findings) or "random" (it was
            in a random sample of the unflagged sentences).
    """

    case: Case
    judgements: tuple[Judgement, ...]
    document: str
    span: Span
    wrong: bool
    drawn: Drawn


@dataclass(frozen=True, slots=True, kw_only=True)
class Decisions:
    """How many sentences of a run are decided, and how many there are.

    Attributes:
        flagged: How many flagged sentences are decided.
        random: How many of the sentences drawn at random are decided.
        sampled: How many sentences were drawn at random.
        all_flagged: How many sentences of the run are flagged.
        all_unflagged: How many sentences of the run are not flagged.
    """

    flagged: int
    random: int
    sampled: int
    all_flagged: int
    all_unflagged: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Learning:
    """The gain from recalibrating a detector on the decisions about a run.

    Attributes:
        verdict: "too few decisions", "no gain" or "gain".
        reason: The verdict in a sentence.
        detector: The name of the detector.
        decisions: How many sentences are decided.
        threshold: How much a fitted threshold improves balanced accuracy. None if there are too few decisions.
        probabilities: How much calibrated scores improve the Brier score. None if scores were not calibrated.
        level: The level that was fitted: "response", whose threshold also holds for sentences, or "span". None if there
            are too few decisions.
        version: The name under which the fit was stored. None if there is no gain.
    """

    verdict: Literal["too few decisions", "no gain", "gain"]
    reason: str
    detector: str
    decisions: Decisions
    threshold: Gain | None = None
    probabilities: Gain | None = None
    level: str | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationVersion:
    """A threshold and perhaps probabilities of a detector, fitted to people's decisions.

    Attributes:
        name: The name of the version.
        detector: The detector, as the server names it.
        run: The id of the run with the decisions.
        created: The time of fitting.
        by: The name of the API key that asked for the fit.
        active: Whether checks use this version. At most one version of a detector is active.
        threshold: The fitted threshold.
        calibrated: Whether the scores are calibrated, too.
        learning: What was gained, with the fields of `Learning`.
    """

    name: str
    detector: str
    run: str
    created: str
    by: str
    active: bool
    threshold: float
    calibrated: bool
    learning: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedCase:
    """A case that has different outcomes in two runs. Each pair has the value in the first and in the second run."""

    name: str
    numbers: tuple[int, int]
    outcomes: tuple[str, str]
    scores: tuple[float | None, float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A proportion of cases, with its 95% interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How two runs over the same cases differ. A pair is a case that both runs contain.

    Attributes:
        runs: The ids of both runs.
        pairs: How many cases both runs contain, by their ids.
        unpaired: How many cases only the first run contains, and how many only the second.
        outcomes: How many pairs have each outcome in the first run (outer key) and in the second run (inner key).
        judged: How many pairs were judged in both runs. The figures from `agreement` to `score_difference` are about
            these pairs.
        agreement: The proportion of pairs that are flagged in both runs or in neither. None if no pair was judged.
        kappa: Cohen's kappa of flagging. None if it is undefined.
        flagged: The proportion that each run flags.
        difference: How much more the second run flags, with an interval by paired bootstrap.
        only: How many pairs only the first run flags, and how many only the second.
        p: The two-sided p-value of McNemar's exact test. The null hypothesis is that both runs flag equally many cases.
        score_difference: How much higher the scores of the second run are on average, with a normal interval.
        changed: How many pairs have different outcomes.
        cases: Some of the pairs with different outcomes. Those whose scores differ most come first.
    """

    runs: tuple[str, str]
    pairs: int
    unpaired: tuple[int, int]
    outcomes: dict[str, dict[str, int]]
    judged: int
    agreement: float | None
    kappa: float | None
    flagged: tuple[Share, Share] | None
    difference: Share | None
    only: tuple[int, int]
    p: float | None
    score_difference: Share | None
    changed: int
    cases: tuple[ComparedCase, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendPoint:
    """The proportion of flagged cases among the judged cases of one run. `share` is None if no case was judged."""

    run: str
    created: str
    detectors: tuple[str, ...]
    judged: int
    share: Share | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditLine:
    """Records who decided, withdrew or deleted something, and when. It never contains texts."""

    at: str
    by: str
    what: str
    run: str
    number: int | None = None
    start: int | None = None
    end: int | None = None
    in_source: bool = False
