"""The language everything speaks: a `Case` goes in, a `Judgement` comes out, for detectors, ensembles and people.

Frozen records without policy. All spans are half-open character spans of a text exactly as it was received.
A `score` is in [0, 1] and 1 always means hallucinated (of the response) or omitted (of a source).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum

from veridical.core.errors import InputError, SpanError
from veridical.core.spans import Span, union

__all__ = [
    "DEFAULT_THRESHOLD",
    "GOLD_THRESHOLD",
    "Case",
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
"""From here on a score that is a probability says "more likely than not"."""

GOLD_THRESHOLD = 0.5
"""A gold score (a label, or the share of annotators) counts as positive from here on."""


def _check_score(score: float | None, what: str) -> None:
    if score is not None and not 0.0 <= score <= 1.0:  # also false for NaN
        raise InputError(f"{what} is {score}", hint="a score lies in [0, 1]; 1 = hallucinated or omitted")


@dataclass(frozen=True, slots=True)
class Source:
    """What a response may rest on: a passage, an argument, an abstract, a snippet of knowledge.

    `perspective` groups sources that stand for one side; omissions are scored per perspective and the worst counts.
    Omissions are looked for only where `must_cover` is set. `citation` is how a response would cite it.
    """

    id: str
    text: str
    perspective: str | None = None
    must_cover: bool = False
    citation: str | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """One earlier turn of a conversation."""

    speaker: str
    text: str


class _Index:
    """Room for what a `Case` derives from its sources when it is first asked; no field, so it is in no copy."""

    __slots__ = ("_by_id",)
    _by_id: dict[str, Source]


@dataclass(frozen=True, slots=True)
class Case(_Index):
    """One response with what it is to be judged against.

    `sources=()` is the reference-free setting. `prompt` is the exact text that made the response, where known.
    Raises `InputError` if two sources share an id.
    """

    id: str
    response: str
    sources: tuple[Source, ...] = ()
    question: str | None = None
    history: tuple[Turn, ...] = ()
    prompt: str | None = None

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for source in self.sources:
            if source.id in seen:
                raise InputError(f"case {self.id!r}: two sources share the id {source.id!r}")
            seen.add(source.id)

    def source(self, id: str) -> Source:
        """The source called `id`; `InputError` if there is none."""
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
    """A self-contained statement, and where in the response it is made."""

    text: str
    spans: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class Evidence:
    """A place in a source that bears on a verdict; `weight` in [0, 1], 1 = rests on it wholly."""

    source_id: str
    span: Span
    weight: float = 1.0

    def __post_init__(self) -> None:
        _check_score(self.weight, "the weight of evidence")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found about a span of the response; `score` 0 = supported, 1 = hallucinated."""

    span: Span
    score: float
    label: str | None = None
    claim: Claim | None = None
    evidence: tuple[Evidence, ...] = ()
    reason: str | None = None
    correction: str | None = None

    def __post_init__(self) -> None:
        _check_score(self.score, "the score of a verdict")


@dataclass(frozen=True, slots=True)
class Omission:
    """What was found about a span of a source that had to be covered; `score` 0 = covered, 1 = omitted."""

    source_id: str
    span: Span
    score: float
    reason: str | None = None

    def __post_init__(self) -> None:
        _check_score(self.score, "the score of an omission")


@dataclass(frozen=True, slots=True)
class SourceSpan:
    """Characters of one source."""

    source_id: str
    span: Span


@dataclass(frozen=True, slots=True)
class Usage:
    """What a judgement cost: calls to a language model, tokens in and out, and money where prices are known."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = None

    @classmethod
    def total(cls, usages: Iterable[Usage | None]) -> Usage | None:
        """Sum several usages; None if all of them are None.

        The cost is None as soon as one that made calls has no known cost: part of a cost is never shown as all of it.

        >>> Usage.total([Usage(1, 10, 2, 0.5), None, Usage(2, 20, 4, 0.25), Usage()])
        Usage(calls=3, prompt_tokens=30, completion_tokens=6, cost=0.75)
        >>> Usage.total([Usage(1, 10, 2, 0.5), Usage(1, 10, 2)]).cost is None
        True
        """
        known = [usage for usage in usages if usage is not None]
        if not known:
            return None
        costs = [usage.cost for usage in known if usage.cost is not None]
        complete = bool(costs) and all(usage.cost is not None for usage in known if usage.calls)
        return cls(
            sum(usage.calls for usage in known),
            sum(usage.prompt_tokens for usage in known),
            sum(usage.completion_tokens for usage in known),
            sum(costs) if complete else None,
        )


@dataclass(frozen=True, slots=True)
class Judgement:
    """What one detector or one person (`by`) says of a case. Human gold is a `Judgement` too (`by="human:…"`).

    `hallucination` and `omission` are the response-level scores in [0, 1], None where the judge does not say.
    `sentences` are verdicts on the sentences of the response, from judges that score these apart; `hallucination` is
    then the highest of their scores, and the threshold of the response is that of each sentence.
    `judged` holds the spans of the response that were really judged, None = all of it, () = nothing; inside
    them a character with no verdict has score 0. `judged_sources` does the same for omissions: the spans of the sources
    with `must_cover` whose coverage was judged, None = all of them. What could not be judged also leaves a line in
    `notes`. `reason` is why, in the judge's words, where it judged the response as a whole. `provenance` says in sorted
    pairs how the judgement came about, such as the hash of each prompt and what each stage cost.
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

    def __post_init__(self) -> None:
        _check_score(self.hallucination, "the hallucination score")
        _check_score(self.omission, "the omission score")


@dataclass(frozen=True, slots=True)
class Example:
    """A case with its gold judgement.

    `annotations` keeps what each annotator said where there were several; `gold` is then their merger.
    `document` names the document that the case is about: splits and bootstrap samples are drawn by document.
    `group` holds what results may be broken down by (system, task, error type …) as sorted (key, value) pairs.
    Raises `InputError` if the gold is about another case, `SpanError` if it points outside its texts.
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
    """What a score, a label or a threshold is about; the four are scored, fitted and decided apart."""

    RESPONSE = "response"  # the response as a whole: `Judgement.hallucination`
    SPAN = "span"  # spans of the response: `Judgement.verdicts`
    COVERAGE = "coverage"  # the sources that must be covered, as a whole: `Judgement.omission`
    SOURCE = "source"  # spans of those sources: `Judgement.omissions`


def check_threshold(threshold: float) -> float:
    """Give back `threshold`; raise `InputError` unless it lies in [0, 1]. At 0 whatever has a score is flagged."""
    if not 0.0 <= threshold <= 1.0:  # also false for NaN
        raise InputError(f"the threshold is {threshold}", hint="a number from 0 to 1")
    return threshold


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The score from which something is flagged, per level, each in [0, 1].

    The default is the point at which a score that is a probability says "more likely than not".

    >>> Thresholds(span=0.4)[Level.SPAN], Thresholds.same(0.7).response
    (0.4, 0.7)
    """

    response: float = DEFAULT_THRESHOLD
    span: float = DEFAULT_THRESHOLD
    coverage: float = DEFAULT_THRESHOLD
    source: float = DEFAULT_THRESHOLD

    def __post_init__(self) -> None:
        for level in Level:
            check_threshold(self[level])

    def __getitem__(self, level: Level) -> float:
        value: float = getattr(self, Level(level).value)
        return value

    @classmethod
    def same(cls, threshold: float) -> Thresholds:
        """The same threshold for every level."""
        return cls(threshold, threshold, threshold, threshold)


class Outcome(Enum):
    """What a judgement results in at its thresholds."""

    CLEAR = "clear"  # all of it judged, nothing flagged
    FLAGGED = "flagged"
    UNJUDGED = "unjudged"  # nothing flagged, but not all of it could be judged: never the same as clear


@dataclass(frozen=True, slots=True)
class Decision:
    """What one judgement results in (`core.decide.decide`): each score compared with the threshold of its own level.

    `verdicts` and `omissions` are the indices of those that are flagged, in the order of the judgement.
    `hallucination` and `omission` say whether the response-level scores are flagged, None where there is no score.
    """

    thresholds: Thresholds
    outcome: Outcome
    hallucination: bool | None = None
    omission: bool | None = None
    verdicts: tuple[int, ...] = ()
    omissions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Checked:
    """The answer to one check: a case, the judgement of each detector, what was decided on each, and the outcome.

    `decisions[i]` is about `judgements[i]`. Raises `InputError` unless there are as many of both, and whatever
    `check_judgement` raises.
    """

    case: Case
    judgements: tuple[Judgement, ...]
    decisions: tuple[Decision, ...]
    outcome: Outcome

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
                raise InputError(f"case {self.case.id!r}: a decision flags what {judgement.by!r} did not find")

    @property
    def flagged(self) -> tuple[Span, ...]:
        """The spans of the response that any detector's decision flags, in order, overlapping ones joined."""
        pairs = zip(self.judgements, self.decisions, strict=True)
        return tuple(union(j.verdicts[i].span for j, d in pairs for i in d.verdicts))

    @property
    def omitted(self) -> Mapping[str, tuple[Span, ...]]:
        """The spans left out of each source, by source id, in the order of the sources."""
        spans: dict[str, list[Span]] = {source.id: [] for source in self.case.sources}
        for judgement, decision in zip(self.judgements, self.decisions, strict=True):
            for i in decision.omissions:
                spans[judgement.omissions[i].source_id].append(judgement.omissions[i].span)
        return {id: tuple(union(of_source)) for id, of_source in spans.items() if of_source}


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the characters of `span` in the response by `replacement`, because of `because`."""

    span: Span
    replacement: str
    because: str


@dataclass(frozen=True, slots=True)
class Revision:
    """The response of a case after `edits`; `text` is the result."""

    case_id: str
    edits: tuple[Edit, ...]
    text: str


def check_judgement(case: Case, judgement: Judgement) -> None:
    """Raise unless `judgement` is about `case` and every span of it lies inside the text that it speaks of."""
    if judgement.case_id != case.id:
        raise InputError(f"the judgement by {judgement.by!r} is of case {judgement.case_id!r}, not {case.id!r}")
    sizes = {source.id: len(source.text) for source in case.sources}
    where = f"case {case.id!r}, judged by {judgement.by!r}"
    size = len(case.response)
    claimed = (span for v in judgement.verdicts if v.claim for span in v.claim.spans)
    verdicts = (*judgement.verdicts, *judgement.sentences)
    for span in (*(v.span for v in verdicts), *claimed, *(judgement.judged or ())):
        if span.end > size:
            raise SpanError(f"{where}: span [{span.start}, {span.end}) runs past the response of {size} characters")
    for verdict in verdicts:
        for evidence in verdict.evidence:
            _check_source_span(where, sizes, evidence.source_id, evidence.span)
    for omission in judgement.omissions:
        _check_source_span(where, sizes, omission.source_id, omission.span)
    for judged in judgement.judged_sources or ():
        _check_source_span(where, sizes, judged.source_id, judged.span)


def _check_source_span(where: str, sizes: dict[str, int], source_id: str, span: Span) -> None:
    if source_id not in sizes:
        raise InputError(f"{where}: there is no source {source_id!r}")
    if span.end > sizes[source_id]:
        raise SpanError(
            f"{where}: span [{span.start}, {span.end}) runs past source {source_id!r} of {sizes[source_id]} characters"
        )


def judged_spans(case: Case, judgement: Judgement) -> list[Span]:
    """The spans of the response that were judged, in normal form.

    >>> judged_spans(Case("1", "abc"), Judgement("1", "someone"))
    [Span(start=0, end=3)]
    """
    if judgement.judged is None:
        return union([Span(0, len(case.response))])
    return union(judgement.judged)


def judged_source_spans(case: Case, judgement: Judgement) -> dict[str, list[Span]]:
    """The spans whose coverage was judged, in normal form, for each source with `must_cover`; [] where none was.

    >>> case = Case("1", "abc", (Source("a", "In Rome", must_cover=True), Source("b", "Tall", must_cover=True)))
    >>> judged_source_spans(case, Judgement("1", "someone", judged_sources=(SourceSpan("a", Span(0, 2)),)))
    {'a': [Span(start=0, end=2)], 'b': []}
    """
    required = [source for source in case.sources if source.must_cover]
    if judgement.judged_sources is None:
        return {source.id: union([Span(0, len(source.text))]) for source in required}
    places = judgement.judged_sources
    return {source.id: union(p.span for p in places if p.source_id == source.id) for source in required}
