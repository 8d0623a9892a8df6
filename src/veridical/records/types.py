"""The data types (records) that all parts of Veridical share.

A detector, an ensemble of detectors or a person reads a `Case` and returns a `Judgement`. All records are immutable. A
span is a half-open range of characters, counted in the text exactly as received. A `score` lies in [0, 1], where 1
means hallucinated (in a response) or omitted (in a source). A verdict is the score of one span of the response. Only
`records.decide` compares scores with thresholds.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import nan
from numbers import Real
from typing import Any

from veridical.records.errors import InputError, SpanError
from veridical.records.registry import Registry
from veridical.records.spans import Span, TextSpan, union
from veridical.records.strings import shorten

__all__ = [
    "DEFAULT_THRESHOLD",
    "FORMS",
    "GOLD_THRESHOLD",
    "Case",
    "Cause",
    "CauseKind",
    "Checked",
    "Claim",
    "Decision",
    "Edit",
    "Evidence",
    "Example",
    "Judgement",
    "Level",
    "Omission",
    "Outcome",
    "Revision",
    "Source",
    "SourceSpan",
    "Span",
    "TextSpan",
    "Thresholds",
    "Turn",
    "Usage",
    "Verdict",
    "check_judgement",
    "check_threshold",
    "judged_source_spans",
    "judged_spans",
]

DEFAULT_THRESHOLD = 0.5
"""The lowest score that is flagged by default. For a probability, 0.5 means "as likely as not"."""

GOLD_THRESHOLD = 0.5
"""The lowest gold score that counts as positive. Gold scores are labels, or proportions of annotators."""


def _set_score(record: object, name: str, what: str) -> None:
    """Convert a score of any library to a float. Raise `InputError` unless it is a number in [0, 1].

    For speed, records that are created for every word check for a float in that range themselves, and call this
    function only if their check fails.
    """
    score = getattr(record, name)
    try:
        number = nan if isinstance(score, str | bytes) else float(score)
    except (TypeError, ValueError, RuntimeError, OverflowError):  # RuntimeError: a tensor of several numbers
        number = nan
    if not 0.0 <= number <= 1.0:  # also false for NaN
        raise InputError(f"{what} is {score!r:.80}", hint="a number in [0, 1]; 1 = hallucinated or omitted")
    object.__setattr__(record, name, number)


def _set_tuple(record: object, name: str) -> None:
    """Convert a field to a tuple. Raise `InputError` if it holds a text, a mapping or a single record."""
    items = getattr(record, name)
    if not isinstance(items, Iterable) or isinstance(items, str | bytes | Mapping):
        raise InputError(
            f"{name} of {type(record).__name__} is a {type(items).__name__}", hint="give a tuple or a list"
        )
    object.__setattr__(record, name, tuple(items))


@dataclass(frozen=True, slots=True)
class Source:
    """A text that the response is checked against, such as a retrieved passage, a document to summarise or an argument.

    Attributes:
        id: The name by which findings refer to the source. It must be unique within the case.
        text: The text of the source, exactly as received.
        perspective: The side of a debate that the source argues for, such as "pro" or "con". Each perspective gets its
            own omission score, and the score of the response is the highest of them.
        must_cover: If true, the response is expected to cover the content of the source, as a summary covers its
            document. Detectors look for omissions only in these sources.
        citation: The mark by which a response cites the source, such as "[1]".
        metadata: Your own JSON values, by name. They are copied to the results. Identifiers in them, such as web
            addresses, count as part of the source when the response is checked.
        pages: The positions in `text`, in characters, at which the pages begin. Empty for a text without pages.
    """

    id: str
    text: str
    perspective: str | None = None
    must_cover: bool = False
    citation: str | None = None
    metadata: Mapping[str, Any] | None = field(default=None, hash=False)
    pages: tuple[int, ...] = ()

    def page_of(self, span: Span) -> int | None:
        """Return the number of the page on which `span` begins, counted from 1.

        Return None if the source has no pages.

        >>> Source("a.pdf", "One. Two.", pages=(0, 5)).page_of(Span(5, 8))
        2
        """
        return bisect_right(self.pages, span.start) or None

    def name_at(self, span: Span) -> str:
        """Return the source's id, followed by the page on which `span` begins if the source has pages.

        >>> Source("a.pdf", "One. Two.", pages=(0, 5)).name_at(Span(5, 8))
        'a.pdf, page 2'
        """
        page = self.page_of(span)
        return self.id if page is None else f"{self.id}, page {page}"


@dataclass(frozen=True, slots=True)
class Turn:
    """One earlier turn of a conversation, with its speaker ("user", "assistant" or another role) and its text."""

    speaker: str
    text: str


class _Index:
    """Caches the sources of a `Case` by id. The cache is not a dataclass field, so copies start without it."""

    __slots__ = ("_by_id",)
    _by_id: dict[str, Source]


@dataclass(frozen=True, slots=True)
class Case(_Index):
    """One response, together with the sources to judge it against.

    Attributes:
        id: The name of the case. Results repeat this name.
        response: The generated text, exactly as received.
        sources: The texts that the response may rest on. Empty for detectors that need no sources.
        question: The question that the response answers.
        history: The earlier turns of the conversation, oldest first.
        prompt: The exact text from which the response was generated.

    Raises:
        InputError: A source is no `Source`, or two sources have the same id.
    """

    id: str
    response: str
    sources: tuple[Source, ...] = ()
    question: str | None = None
    history: tuple[Turn, ...] = ()
    prompt: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.sources, tuple):
            _set_tuple(self, "sources")
        if not isinstance(self.history, tuple):
            _set_tuple(self, "history")
        seen: set[str] = set()
        for source in self.sources:
            if not isinstance(source, Source):
                message = f"case {self.id!r}: a source is of the type {type(source).__name__}"
                raise InputError(message, hint="make it as Source(id, text)")
            if source.id in seen:
                raise InputError(f"case {self.id!r}: two sources share the id {source.id!r}")
            seen.add(source.id)

    def source(self, id: str) -> Source:
        """Return the source called `id`.

        Raises:
            InputError: The case has no such source.
        """
        try:
            by_id = self._by_id
        except AttributeError:
            by_id = {source.id: source for source in self.sources}
            object.__setattr__(self, "_by_id", by_id)
        if id not in by_id:
            raise InputError(f"case {self.id!r} has no source {id!r}")
        return by_id[id]


@dataclass(frozen=True, slots=True)
class Claim:
    """A statement that can be understood on its own, and the spans of the response that express it."""

    text: str
    spans: tuple[Span, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.spans, tuple):
            _set_tuple(self, "spans")


@dataclass(frozen=True, slots=True)
class Evidence:
    """A passage of a source that supports or contradicts a span of the response.

    Attributes:
        source_id: The id of the source.
        span: The position of the passage in the source's text, in characters.
        weight: The share of the verdict that rests on the passage, from 0 (none) to 1 (all of it).
    """

    source_id: str
    span: Span
    weight: float = 1.0

    def __post_init__(self) -> None:
        if type(self.weight) is not float or not 0.0 <= self.weight <= 1.0:
            _set_score(self, "weight", "the weight of evidence")


@dataclass(frozen=True, slots=True)
class Verdict:
    """The score of one span of the response, with its evidence, reason and correction.

    Attributes:
        span: The judged span, in characters of the response.
        score: How likely the span is hallucinated, from 0 (supported) to 1 (hallucinated).
        label: The type of finding in the detector's own terms, such as "contradiction" if a source contradicts the
            span, or "absence" if no source mentions the span. None if the detector does not distinguish types.
        claim: The checked claim that the span expresses. None if the detector does not extract claims.
        evidence: The passages that support or contradict the span.
        reason: The reason for the score, in one line.
        correction: The text that should replace the span.
        kind: The kind of error in the span, such as "value" or "name" (`detectors.explanation.KINDS`). None if it could
            not be determined.
    """

    span: Span
    score: float
    label: str | None = None
    claim: Claim | None = None
    evidence: tuple[Evidence, ...] = ()
    reason: str | None = None
    correction: str | None = None
    kind: str | None = None

    def __post_init__(self) -> None:
        if type(self.score) is not float or not 0.0 <= self.score <= 1.0:
            _set_score(self, "score", "the score of a verdict")
        if not isinstance(self.evidence, tuple):
            _set_tuple(self, "evidence")


@dataclass(frozen=True, slots=True)
class Omission:
    """The score of one span of a source that the response should cover.

    Attributes:
        source_id: The id of the source.
        span: The judged span, in characters of the source's text.
        score: How likely the response omits the content of the span, from 0 (covered) to 1 (omitted).
        reason: The reason for the score, in one line.
    """

    source_id: str
    span: Span
    score: float
    reason: str | None = None

    def __post_init__(self) -> None:
        if type(self.score) is not float or not 0.0 <= self.score <= 1.0:
            _set_score(self, "score", "the score of an omission")


@dataclass(frozen=True, slots=True)
class SourceSpan:
    """A span of one source."""

    source_id: str
    span: Span


@dataclass(frozen=True, slots=True)
class Usage:
    """The cost of a judgement: calls to a language model, tokens in and out, and money if the prices are known."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = None

    @classmethod
    def total(cls, usages: Iterable[Usage | None]) -> Usage | None:
        """Add up the usages in a list that may also contain None.

        If all of them are None, return None. If a usage with calls has no cost, the total has no cost either, because a
        partial sum would be misleading.

        >>> Usage.total([Usage(1, 10, 2, 0.5), None, Usage(2, 20, 4, 0.25), Usage()])
        Usage(calls=3, prompt_tokens=30, completion_tokens=6, cost=0.75)
        >>> Usage.total([Usage(1, 10, 2, 0.5), Usage(1, 10, 2)]).cost is None
        True
        """
        present = [usage for usage in usages if usage is not None]
        if not present:
            return None
        costs = [usage.cost for usage in present if usage.cost is not None]
        complete = bool(costs) and all(usage.cost is not None for usage in present if usage.calls)
        return cls(
            sum(usage.calls for usage in present),
            sum(usage.prompt_tokens for usage in present),
            sum(usage.completion_tokens for usage in present),
            sum(costs) if complete else None,
        )


class _Fit:
    """Caches the case that a `Judgement` was checked against. The cache is not a dataclass field, so copies drop it."""

    __slots__ = ("_checked_case",)
    _checked_case: Case


@dataclass(frozen=True, slots=True)
class Judgement(_Fit):
    """The findings of one detector or one person on a case.

    The labels that a person gives are also a judgement. Its `by` begins with "human:".

    Attributes:
        case_id: The id of the case.
        by: The name of the detector or person, such as "overlap" or "human:ann".
        hallucination: The score of the whole response, from 0 (supported) to 1 (hallucinated). None if the whole
            response was not scored.
        omission: How much of the sources with `must_cover` the response omits, from 0 (nothing) to 1. None if this was
            not scored.
        verdicts: The findings about spans of the response.
        omissions: The findings about spans of the sources.
        judged: The spans of the response that were judged. None means the whole response. Judged text without a verdict
            scores 0.
        notes: Remarks for the user, for example why some sentences could not be judged.
        usage: How many calls to a language model and how many tokens the judgement cost.
        reason: The reason for the score of the whole response, in the judge's words.
        provenance: How the judgement was made, as sorted pairs of name and value, such as the hash of each prompt.
        judged_sources: The spans of sources that were searched for omissions. None means all sources with `must_cover`.
        sentences: One score for each sentence of the response, from detectors that score sentences. For these
            detectors, `hallucination` is the highest sentence score, and the response threshold applies to each
            sentence.
        no_claim: If true, nothing was judged because the response makes no claim, as in "I don't know."
    """

    case_id: str
    by: str
    hallucination: float | None = None
    omission: float | None = None
    verdicts: tuple[Verdict, ...] = ()
    omissions: tuple[Omission, ...] = ()
    judged: tuple[Span, ...] | None = None
    notes: tuple[str, ...] = ()
    usage: Usage | None = None
    reason: str | None = None
    provenance: tuple[tuple[str, str], ...] = ()
    judged_sources: tuple[SourceSpan, ...] | None = None
    sentences: tuple[Verdict, ...] = ()
    no_claim: bool = False

    def __post_init__(self) -> None:
        for name, score in (("hallucination", self.hallucination), ("omission", self.omission)):
            if score is not None and (type(score) is not float or not 0.0 <= score <= 1.0):
                _set_score(self, name, f"the {name} score")
        for name in ("verdicts", "omissions", "judged", "notes", "provenance", "judged_sources", "sentences"):
            items = getattr(self, name)
            if type(items) is not tuple and (items is not None or not name.startswith("judged")):
                _set_tuple(self, name)


@dataclass(frozen=True, slots=True)
class Example:
    """A case together with its gold judgement.

    Attributes:
        case: The response and its sources.
        gold: The correct judgement. If there were several annotators, it is merged from `annotations`.
        document: The name of the document that the case is about. Several cases may share a document, and splits and
            bootstrap samples keep them together.
        group: Sorted pairs of key and value by which results can be broken down, such as ("task", "summary").
        annotations: One judgement per annotator, if there were several annotators.

    Raises:
        InputError: The gold judgement is about another case.
        SpanError: A span runs past the end of its text.
    """

    case: Case
    gold: Judgement
    document: str | None = None
    group: tuple[tuple[str, str], ...] = ()
    annotations: tuple[Judgement, ...] = ()

    def __post_init__(self) -> None:
        for judgement in (self.gold, *self.annotations):
            check_judgement(self.case, judgement)


class Level(StrEnum):
    """The object that a score, label or threshold applies to: the response, the sources together, or spans of either.

    Each level has its own scores and its own threshold.
    """

    RESPONSE = "response"  # the response as a whole: `Judgement.hallucination`
    SPAN = "span"  # spans of the response: `Judgement.verdicts`
    COVERAGE = "coverage"  # the sources that must be covered, as a whole: `Judgement.omission`
    SOURCE = "source"  # spans of the sources that must be covered: `Judgement.omissions`


def check_threshold(threshold: float) -> float:
    """Check that `threshold` lies in [0, 1], and return it as a float.

    With a threshold of 0, every score is flagged.

    Raises:
        InputError: The threshold lies outside [0, 1].
    """
    if not isinstance(threshold, Real) or not 0.0 <= threshold <= 1.0:  # also false for NaN
        raise InputError(f"the threshold is {threshold!r}", hint="a number from 0 to 1")
    return float(threshold)


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The decision threshold of each `Level`: scores of this level that reach the threshold are flagged.

    Thresholds lie in [0, 1] and are 0.5 by default. Read them by attribute or by level.

    Attributes:
        response: The threshold for the score of the whole response (`Judgement.hallucination`).
        span: The threshold for the scores of spans of the response (`Judgement.verdicts`).
        coverage: The threshold for the score of how much the response omits (`Judgement.omission`).
        source: The threshold for the scores of spans of the sources (`Judgement.omissions`).

    >>> Thresholds(span=0.4)[Level.SPAN], Thresholds.same(0.7).response
    (0.4, 0.7)
    """

    response: float = DEFAULT_THRESHOLD
    span: float = DEFAULT_THRESHOLD
    coverage: float = DEFAULT_THRESHOLD
    source: float = DEFAULT_THRESHOLD

    def __post_init__(self) -> None:
        for level in Level:
            object.__setattr__(self, level.value, check_threshold(self[level]))

    def __getitem__(self, level: Level) -> float:
        value: float = getattr(self, Level(level).value)
        return value

    @classmethod
    def same(cls, threshold: float) -> Thresholds:
        """Build thresholds that use the same number, `threshold`, for every level."""
        return cls(threshold, threshold, threshold, threshold)


class Outcome(StrEnum):
    """The result of comparing the scores of a judgement with their thresholds."""

    CLEAR = "clear"  # everything was judged, nothing is flagged
    FLAGGED = "flagged"
    NO_CLAIM = "no_claim"  # nothing is flagged, and the response says nothing that could be wrong
    UNJUDGED = "unjudged"  # nothing is flagged, but a part could not be judged, so it is not "clear"

    @property
    def passes(self) -> bool:
        """True for `CLEAR` and `NO_CLAIM`, False for `FLAGGED` and `UNJUDGED`."""
        return self in (Outcome.CLEAR, Outcome.NO_CLAIM)


@dataclass(frozen=True, slots=True)
class Decision:
    """The scores of one judgement that are flagged, because they reach the threshold for their level.

    To make a decision, use `records.decide.decide`.

    Attributes:
        thresholds: The thresholds that were applied.
        outcome: The result for the case if this judgement is the only one, such as `Outcome.FLAGGED`.
        hallucination: True if the judgement's `hallucination` score is flagged. None if it has no such score.
        omission: True if the judgement's `omission` score is flagged. None if it has no such score.
        verdicts: The indices of the flagged verdicts in `Judgement.verdicts`, in ascending order.
        omissions: The indices of the flagged omissions in `Judgement.omissions`, in ascending order.
    """

    thresholds: Thresholds
    outcome: Outcome
    hallucination: bool | None = None
    omission: bool | None = None
    verdicts: tuple[int, ...] = ()
    omissions: tuple[int, ...] = ()


class CauseKind(StrEnum):
    """The kinds of reasons why a response fails its check, as `veridical.workflows.causes` distinguishes them.

    They separate errors of retrieval (the passages lack the answer) from errors of generation.
    """

    NOT_RETRIEVED = "not retrieved"  # no passage has what the response says, and none answers the question
    RANKED_TOO_LOW = "ranked too low"  # the same, but a passage that was not shown has it
    MISREAD = "misread"  # a passage says otherwise
    ADDED = "added"  # no passage says so, although the passages answer the question
    STITCHED = "stitched"  # facts of two passages are joined
    CONFLICTING = "conflicting sources"  # passages contradict each other
    WRONG_REFUSAL = "wrong refusal"  # the passages have the answer
    RIGHT_REFUSAL = "right refusal"  # the passages do not have it
    NOT_ANSWERED = "question not answered"  # supported, but beside the question
    NOT_JUDGED = "not judged"  # the check could not judge the response
    NONE = "none"  # nothing failed


@dataclass(frozen=True, slots=True)
class Cause:
    """The reason why the response of a case failed its check.

    Attributes:
        kind: The kind of reason, such as `CauseKind.NOT_RETRIEVED`.
        reason: The reason in one line.
        evidence: The passages that show the cause. For the kind `RANKED_TOO_LOW`, these passages were retrieved but not
            shown to the model, so they are not among the sources of the case.
    """

    kind: CauseKind
    reason: str
    evidence: tuple[Evidence, ...] = ()


FORMS = Registry("form", {}, group="veridical.forms")
"""The functions that convert a `Checked` to JSON, text or HTML, by the name of the format ("json", "text", "html").

The package `veridical` registers them.
"""


@dataclass(frozen=True, slots=True, repr=False)
class Checked:
    """The result of one check: the case, each detector's judgement, the decisions, and the outcome.

    If you print a result, you see the same as on the command line. Using a result as a condition (`if result:`) raises
    `InputError`, so compare its `outcome` instead.

    Attributes:
        case: The case that was checked.
        judgements: One judgement from each detector, with its scores.
        decisions: One decision for each judgement, in the same order, which lists the scores that are flagged.
        outcome: The outcome of all judgements together.
        cause: Why the response failed. None if the cause was not requested.

    Raises:
        InputError: The numbers of judgements and decisions differ, a judgement is about another case, or a decision
            flags a finding that its judgement does not have.
        SpanError: A span runs past the end of its text.
    """

    case: Case
    judgements: tuple[Judgement, ...]
    decisions: tuple[Decision, ...]
    outcome: Outcome
    cause: Cause | None = None

    def __post_init__(self) -> None:
        if len(self.decisions) != len(self.judgements):
            raise InputError(
                f"case {self.case.id!r}: {len(self.judgements)} judgements but {len(self.decisions)} decisions",
                hint="give each judgement its decision",
            )
        for judgement, decision in zip(self.judgements, self.decisions, strict=True):
            check_judgement(self.case, judgement)
            if max(decision.verdicts, default=-1) >= len(judgement.verdicts) or (
                max(decision.omissions, default=-1) >= len(judgement.omissions)
            ):
                raise InputError(
                    f"case {self.case.id!r}: a decision flags a verdict or omission that {judgement.by!r} did not find"
                )

    def __repr__(self) -> str:
        words = ", ".join(repr(shorten(span.text, 40)) for span in self.flagged[:5])
        return f"<Checked {self.case.id!r}: {self.outcome.value}{' ' * bool(words)}{words}>"

    def __str__(self) -> str:
        return self._form("text")

    def _repr_html_(self) -> str:
        return self._form("html")

    def __bool__(self) -> bool:
        raise InputError(
            "a result of a check is neither true nor false", hint="compare its outcome: result.outcome is Outcome.CLEAR"
        )

    def to_json(self, *, indent: int | None = None) -> str:
        """Convert the result to a JSON document, as `veridical check --json` prints it."""
        return self._form("json", indent=indent)

    def to_dict(self) -> dict[str, Any]:
        """Convert the result to a dictionary with the contents of its JSON document."""
        document: dict[str, Any] = json.loads(self.to_json())
        return document

    def _form(self, name: str, **options: Any) -> str:
        text: str = FORMS.load(name)(self, **options)
        return text

    @property
    def flagged(self) -> tuple[TextSpan, ...]:
        """The spans of the response that at least one detector flags, sorted and with overlapping spans joined."""
        pairs = zip(self.judgements, self.decisions, strict=True)
        return _with_texts(self.case.response, (j.verdicts[i].span for j, d in pairs for i in d.verdicts))

    @property
    def omitted(self) -> Mapping[str, tuple[TextSpan, ...]]:
        """The passages that the response should have mentioned but did not, by the id of their source.

        They are the spans of all omissions that at least one detector flags, sorted and with overlapping spans joined.
        The sources are in the order of the case. Sources without such a passage do not appear.
        """
        spans: dict[str, list[Span]] = {source.id: [] for source in self.case.sources}
        for judgement, decision in zip(self.judgements, self.decisions, strict=True):
            for i in decision.omissions:
                spans[judgement.omissions[i].source_id].append(judgement.omissions[i].span)
        return {id: _with_texts(self.case.source(id).text, omitted) for id, omitted in spans.items() if omitted}


def _with_texts(text: str, spans: Iterable[Span]) -> tuple[TextSpan, ...]:
    return tuple(TextSpan(span.start, span.end, span.of(text)) for span in union(spans))


@dataclass(frozen=True, slots=True)
class Edit:
    """A change to a text.

    Attributes:
        span: The characters to replace.
        replacement: The text that takes their place. An empty text deletes the characters.
        because: The reason for the change.
    """

    span: Span
    replacement: str
    because: str


@dataclass(frozen=True, slots=True)
class Revision:
    """A corrected response.

    Attributes:
        case_id: The id of the case.
        edits: The changes to the response, in order.
        text: The response after the changes.
    """

    case_id: str
    edits: tuple[Edit, ...]
    text: str


def check_judgement(case: Case, judgement: Judgement) -> None:
    """Check that a judgement is about `case` and that its spans fit the texts of the case.

    A second call with the same two objects returns at once, because the judgement was already checked.

    Raises:
        InputError: The judgement is about another case, or names a source that the case does not have.
        SpanError: A span runs past the end of its text.
    """
    if getattr(judgement, "_checked_case", None) is case:
        return
    if judgement.case_id != case.id:
        raise InputError(f"the judgement by {judgement.by!r} is about case {judgement.case_id!r}, not {case.id!r}")
    sizes = {source.id: len(source.text) for source in case.sources}
    where = f"case {case.id!r}, judged by {judgement.by!r}"
    size = len(case.response)
    claim_spans = (span for v in judgement.verdicts if v.claim for span in v.claim.spans)
    verdicts = (*judgement.verdicts, *judgement.sentences)
    for span in (*(v.span for v in verdicts), *claim_spans, *(judgement.judged or ())):
        if span.end > size:
            raise SpanError(f"{where}: span [{span.start}, {span.end}) runs past the response of {size} characters")
    for verdict in verdicts:
        for evidence in verdict.evidence:
            _check_source_span(where, sizes, evidence.source_id, evidence.span)
    for omission in judgement.omissions:
        _check_source_span(where, sizes, omission.source_id, omission.span)
    for judged in judgement.judged_sources or ():
        _check_source_span(where, sizes, judged.source_id, judged.span)
    object.__setattr__(judgement, "_checked_case", case)


def _check_source_span(where: str, sizes: dict[str, int], source_id: str, span: Span) -> None:
    if source_id not in sizes:
        raise InputError(f"{where}: there is no source {source_id!r}")
    if span.end > sizes[source_id]:
        raise SpanError(
            f"{where}: span [{span.start}, {span.end}) runs past source {source_id!r} of {sizes[source_id]} characters"
        )


def judged_spans(case: Case, judgement: Judgement) -> list[Span]:
    """Return the spans of the response that were judged, sorted and without overlaps.

    >>> judged_spans(Case("1", "abc"), Judgement("1", "someone"))
    [Span(start=0, end=3)]
    """
    if judgement.judged is None:
        return union([Span(0, len(case.response))])
    return union(judgement.judged)


def judged_source_spans(case: Case, judgement: Judgement) -> dict[str, list[Span]]:
    """Map the id of each source with `must_cover` to the spans of its text that were searched for omissions.

    The spans are sorted and do not overlap. If no part of a source was searched, its list is empty.

    >>> case = Case("1", "abc", (Source("a", "In Rome", must_cover=True), Source("b", "Tall", must_cover=True)))
    >>> judged_source_spans(case, Judgement("1", "someone", judged_sources=(SourceSpan("a", Span(0, 2)),)))
    {'a': [Span(start=0, end=2)], 'b': []}
    """
    required = [source for source in case.sources if source.must_cover]
    if judgement.judged_sources is None:
        return {source.id: union([Span(0, len(source.text))]) for source in required}
    places = judgement.judged_sources
    return {source.id: union(p.span for p in places if p.source_id == source.id) for source in required}
