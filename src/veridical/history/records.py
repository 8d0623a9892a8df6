"""The records that go into a history and come out of it.

A run is a set of cases that were checked together. A place is a span of the response or of a source, and a decision is
a person's opinion on one place.
"""

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
    """Raised if the history has no run, case or calibration version of the requested id or name."""


class StaleError(InputError):
    """Raised if somebody wants to replace decisions that have been changed since they were loaded."""


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
    """The description of a new run, which is a set of cases that are checked together.

    Attributes:
        origin: Where the cases come from: "check" (the page or the API), "import" (a file), or "proxy".
        by: The name of the API key that sent the request. "" if there are no keys.
        name: The name of the imported file. "" if there is no file.
        about: The settings of the check: detectors with fingerprints and thresholds, and the fields of the request.
    """

    origin: str
    by: str = ""
    name: str = ""
    about: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """A run in a list of runs, without its cases.

    Attributes:
        id: The id of the run.
        created: The time at which the run was begun, in UTC (ISO 8601).
        name: The name of the imported file. "" if there is no file.
        origin: Where the cases come from: "check" (the page or the API), "import" (a file), or "proxy".
        by: The name of the API key that sent the request. "" if there are no keys.
        state: "reading" (the file is being imported), "judging", "paused" or "done".
        problem: Why the run cannot continue, or which rows of the file could not be imported. "" if there is none.
        about: The settings of the check: detectors with fingerprints and thresholds, and the fields of the request.
        cases: The number of cases by outcome, including "waiting" (not judged yet) and "failed" (an error).
    """

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
    """A page of runs, newest first. Pass `next` as `cursor` to load the following page. It is None on the last page."""

    runs: tuple[RunRow, ...]
    next: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row of an imported file, as it is stored before its case is judged.

    Attributes:
        row: The number of the row in the file, from 1.
        name: The id of the row's case.
        body: The JSON of the case. "" if the row contains no case.
        text: The text of the response.
        search: The text that a search for the case looks through.
        fields: The labels and the group of the row, or the "row" itself if it contains no case.
        label: The value of a label column of the file, to filter cases by. None if the row has no label.
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
    """A case in a table of cases, without its full texts.

    Attributes:
        number: The number of the case in the run, from 1.
        name: The id of the case.
        outcome: The outcome of the check, or "waiting" before the check, or "failed" if the case could not be checked.
        score: The highest score of the response or of a flagged passage. None if there is no score.
        omission: The highest omission score. None if there is no score.
        flagged: The number of flagged spans of the response, plus the source passages that are flagged as omitted.
        cause: Why the case failed, as one of `CauseKind`. "" if the cause was not requested.
        decided: The number of places (spans of the response or of sources) that people have decided about.
        beginning: The first characters of the response.
        problem: Why the case could not be checked. "" if there is no problem.
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
    """Filters and sorts the cases of a run: the query parameters of `GET /v1/runs/{run}/cases`.

    A filter with several values matches cases that have any of them. A filter without a value matches all cases.
    """

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

    `total` counts all cases that match the query. Pass `next` as `cursor` to load the following page. It is None on the
    last page.
    """

    cases: tuple[CaseRow, ...]
    total: int
    next: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceDecision:
    """A person's decision about a place, which is a span of the response or of a source. Offsets count code points.

    Attributes:
        action: What the person decided: "wrong" (the place is wrong and stays unchanged), "replace" (it is wrong, and
            `text` is right), "remove" (its sentence is to be deleted), "add" (the response omits this passage of a
            source), "keep" (it is right, so flagging it is a false alarm), or "rest" (everything without a decision is
            right).
        start: The start of the span. None for "rest".
        end: The end of the span. None for "rest".
        source: The id of the source that contains the span. None for a span of the response.
        text: The new text, for "replace" and "add".
        cut: The sentence of the response to delete, for "remove", as (start, end).
        reason: The reason in the person's words.
        label: The label of the detector's finding, such as "contradiction".
        error: The kind of error, such as "value" or "name".
        missed: True if no detector flagged the error.
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
        """The place as (id of the source or None, start, end). A case has at most one decision for each place."""
        return self.source, self.start, self.end


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCase:
    """A case with its texts, its result, and people's decisions about spans of its texts.

    Attributes:
        row: The number, id, outcome and scores of the case, as a table of cases shows them.
        document: The result of the check as JSON, or only the case as JSON as long as it waits to be checked. None for
            a row of a file that contains no case.
        fields: The labels and the group of the imported row, or the "row" itself if it contains no case.
        decisions: People's decisions about the case.
        version: The number of times that the decisions have been changed. Send it along with new decisions, to detect
            that somebody else has changed them in the meantime.
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
    """A person's decision about one place (a span of the response or of a source), with its case and who made it.

    Attributes:
        number: The number of the case in the run, from 1.
        case: The case.
        decision: The decision.
        by: The name of the API key that the person used.
        at: The time of the decision, in UTC (ISO 8601).
        drawn: Why the person saw the decided span: "flagged" (a detector flagged it), "random" (it is in a random
            sample of the unflagged sentences), or None for neither.
        probability: The probability with which such a span is shown to a person, in (0, 1]. It is 1 for flagged spans.
            None if `drawn` is None.
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
        span: The sentence, in characters of the response.
        wrong: Whether the sentence is wrong.
        drawn: Why the person saw the sentence: "flagged" (a detector flagged something in it) or "random" (it is in a
            random sample of the unflagged sentences).
    """

    case: Case
    judgements: tuple[Judgement, ...]
    document: str
    span: Span
    wrong: bool
    drawn: Drawn


@dataclass(frozen=True, slots=True, kw_only=True)
class Decisions:
    """The numbers of sentences in a run: those that people have decided about, and all.

    Attributes:
        flagged: The number of flagged sentences that people have decided about.
        random: The number of randomly drawn, unflagged sentences that people have decided about.
        sampled: The number of unflagged sentences that were drawn at random for review.
        all_flagged: The number of flagged sentences in the run.
        all_unflagged: The number of unflagged sentences in the run.
    """

    flagged: int
    random: int
    sampled: int
    all_flagged: int
    all_unflagged: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Learning:
    """The gain from recalibrating a detector on people's decisions about the sentences of a run.

    Attributes:
        verdict: "too few decisions", "no gain" or "gain".
        reason: The explanation of the verdict, in a sentence.
        detector: The name of the detector.
        decisions: The numbers of decided sentences and of all sentences.
        threshold: The balanced accuracy before and after fitting a threshold. None if there are too few decisions.
        probabilities: The Brier score before and after calibrating the scores. None if they were not calibrated.
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
    """One version of a detector's calibration: a threshold, and possibly probabilities, fitted to people's decisions.

    Attributes:
        name: The name of the version.
        detector: The name under which the server offers the detector.
        run: The id of the run with the decisions.
        created: The time of fitting.
        by: The name of the API key that asked for the fit.
        active: Whether checks use this version. At most one version of a detector is active.
        threshold: The fitted threshold.
        calibrated: If true, the scores are calibrated to probabilities, too. If false, only the threshold is fitted.
        learning: The gain, with the fields of `Learning`.
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
    """A case that has different outcomes in two runs.

    Attributes:
        name: The id of the case.
        numbers: The numbers of the case in the first and in the second run.
        outcomes: The outcomes in the first and in the second run.
        scores: The scores in the first and in the second run. None for a run without a score.
    """

    name: str
    numbers: tuple[int, int]
    outcomes: tuple[str, str]
    scores: tuple[float | None, float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A proportion of cases or a difference between two runs (`value`), with its 95% interval from `low` to `high`."""

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
        flagged: The proportion of flagged pairs in the first and in the second run.
        difference: The second of these proportions minus the first, with an interval by paired bootstrap.
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
    """The proportion of flagged cases in one run, as a point in a chart over time.

    Attributes:
        run: The id of the run.
        created: The time at which the run was begun, in UTC (ISO 8601).
        detectors: The names of the run's detectors.
        judged: The number of judged cases.
        share: The proportion of the judged cases that are flagged. None if no case was judged.
    """

    run: str
    created: str
    detectors: tuple[str, ...]
    judged: int
    share: Share | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditLine:
    """A line of the audit log: who decided, withdrew or deleted something, and when. It never contains texts.

    Attributes:
        at: The time, in UTC (ISO 8601).
        by: The name of the API key, or the reason if the server itself deleted something.
        what: The action, such as "replace", "withdraw" or "delete run".
        run: The id of the run, which may be deleted by now.
        number: The number of the case in the run. None if the line is about the whole run.
        start: The start of the decided span. None if the line is not about a span.
        end: The end of the decided span.
        in_source: If true, the span is in a source. If false, it is in the response.
    """

    at: str
    by: str
    what: str
    run: str
    number: int | None = None
    start: int | None = None
    end: int | None = None
    in_source: bool = False
