"""Find the consensus of annotators: which labels they agree on, which items need more annotators, how far they agree.

Yes/no labels follow Liu et al. 2022, §3.3. Four annotators label an item, and two more if the four are split evenly. If
the six are split, too, the item gets no label. Marked spans follow CH-Wang et al. 2024, §3.3: a token is hallucinated
if two of three annotators mark it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from veridical.metrics import UndefinedMetricError
from veridical.records.errors import InputError
from veridical.records.spans import Span
from veridical.records.types import Case, Example, Judgement, Verdict
from veridical_lab.annotate.items import says_hallucinated, with_label
from veridical_lab.datasets.consensus import at_least
from veridical_lab.datasets.marks import tokens
from veridical_lab.metrics.agreement import fleiss_kappa, krippendorff_alpha

_STEP = 2  # annotators that are asked at a time after the first step
_MARKED_BY = 2  # annotators who must mark a token


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsensusRule:
    """How many annotators an item needs, and when they have reached consensus.

    By default, each step asks an even number of annotators. With an odd number such as five, one answer to a yes/no
    question always has a majority, so nobody would ever be asked again (Liu et al. 2022, appendix B).

    Attributes:
        first: How many annotators label each item in the first step.
        most: How many annotators may label an item in the end. Two more are asked at a time.
    """

    first: int = 4
    most: int = 6

    def __post_init__(self) -> None:
        if not 1 <= self.first <= self.most:
            raise InputError(
                f"first {self.first} annotators, then more up to {self.most}",
                hint="1 or more, first not above the most",
            )


def consensus(labels: Sequence[bool], rule: ConsensusRule | None = None) -> bool | None:
    """Find the label on which more than half of the annotators of an item agree.

    Return None if there is no such label, or if too few annotators have answered so far.

    >>> consensus([True, True, True, False]), consensus([True, True, False, False])
    (True, None)
    """
    rule = rule or ConsensusRule()
    if needed_by(len(labels), rule):
        return None
    return next((label for label in (True, False) if 2 * labels.count(label) > len(labels)), None)


def needed(labels: Sequence[bool], rule: ConsensusRule | None = None) -> int:
    """Compute how many more annotators an item needs.

    The result is 0 if there is consensus, or if as many as the rule allows have already answered.

    >>> [needed(labels) for labels in ([], [True] * 4, [True, True, False, False], [True] * 3 + [False] * 3)]
    [4, 0, 2, 0]
    """
    rule = rule or ConsensusRule()
    missing = needed_by(len(labels), rule)
    if missing or consensus(labels, rule) is not None:
        return missing
    return min(_STEP, max(0, rule.most - len(labels)))


def needed_by(count: int, rule: ConsensusRule) -> int:
    """Compute how many more annotators must answer to complete the present step, after `count` have answered."""
    if count >= rule.most:
        return 0
    steps = max(0, -(-(count - rule.first) // _STEP))
    return min(rule.most, rule.first + steps * _STEP) - count


def annotators_of(examples: Iterable[Example]) -> list[str]:
    """Return the names of all annotators (`human:…`) in alphabetical order."""
    return sorted({judgement.by for example in examples for judgement in example.annotations})


def without_annotators(examples: Iterable[Example], names: Iterable[str]) -> list[Example]:
    """Remove the annotations of the annotators in `names` from the examples."""
    blocked = set(names)
    return [replace(e, annotations=tuple(j for j in e.annotations if j.by not in blocked)) for e in examples]


def join_annotations(examples: Iterable[Example]) -> tuple[list[Example], dict[str, int]]:
    """Join all examples of a case into one, and count the annotations that are not used, by reason.

    The cases stay in the order in which they first appear. If an annotator labelled a case more than once, the first
    label is used. If an annotator's labels for the same case differ, none of them is used.

    Raises:
        InputError: Two different cases share an id.
    """
    by_case: dict[str, list[Example]] = {}
    for example in examples:
        by_case.setdefault(example.case.id, []).append(example)
    joined: list[Example] = []
    unused: Counter[str] = Counter()
    for id, parts in by_case.items():
        if any(part.case != parts[0].case for part in parts):
            raise InputError(
                f"two different cases are called {id!r}", hint="annotations of one case share all its texts"
            )
        by_annotator: dict[str, list[Judgement]] = {}
        for part in parts:
            for judgement in part.annotations:
                by_annotator.setdefault(judgement.by, []).append(judgement)
        annotations = []
        for judgements in by_annotator.values():
            answers = {(says_hallucinated(j), tuple(sorted(v.span for v in j.verdicts))) for j in judgements}
            if len(answers) > 1:
                unused["an annotator contradicts themselves"] += len(judgements)
                continue
            unused["labelled again in the same way"] += len(judgements) - 1
            annotations.append(judgements[0])
        joined.append(replace(parts[0], annotations=tuple(annotations)))
    return joined, {reason: n for reason, n in unused.most_common() if n}


@dataclass(frozen=True, slots=True)
class Agreed:
    """Items, sorted by whether their annotators agree.

    Attributes:
        examples: The items with consensus. Their gold is the agreed label.
        waiting: How many more annotators an item needs, by the item's id.
        split: The ids of items on which even the largest number of annotators did not agree.
        unused: How many annotations were not used, by reason.
    """

    examples: tuple[Example, ...]
    waiting: Mapping[str, int] = field(default_factory=dict)
    split: tuple[str, ...] = ()
    unused: Mapping[str, int] = field(default_factory=dict)


def agree(examples: Iterable[Example], rule: ConsensusRule | None = None) -> Agreed:
    """Join the examples of each case, and decide each case by the votes of its annotators."""
    rule = rule or ConsensusRule()
    joined, unused = join_annotations(examples)
    decided: list[Example] = []
    waiting: dict[str, int] = {}
    split: list[str] = []
    for item in joined:
        votes = [label for j in item.annotations if (label := says_hallucinated(j)) is not None]
        label = consensus(votes, rule)
        if label is not None:
            decided.append(with_label(item, label, f"human:{votes.count(label)}-of-{len(votes)}"))
        elif missing := needed(votes, rule):
            waiting[item.case.id] = missing
        else:
            split.append(item.case.id)
    return Agreed(tuple(decided), waiting, tuple(split), unused)


def reconcile_spans(examples: Iterable[Example], *, of: int = 3) -> Agreed:
    """Merge the spans that annotators marked: a token is hallucinated if at least two of them marked it.

    Tokens are separated by white space. A case with fewer than `of` annotators waits for the others.
    """
    if of < _MARKED_BY:
        raise InputError(f"at least {_MARKED_BY} of {of} annotators", hint="two or more for each case")
    joined, unused = join_annotations(examples)
    decided: list[Example] = []
    waiting: dict[str, int] = {}
    for example in joined:
        people = example.annotations
        if len(people) < of:
            waiting[example.case.id] = of - len(people)
            continue
        gold = at_least(_MARKED_BY, people, example.case, tokens=tokens(example.case.response))
        decided.append(replace(example, gold=_trimmed(gold, example.case)))
    return Agreed(tuple(decided), waiting, (), unused)


def _trimmed(gold: Judgement, case: Case) -> Judgement:
    """Join spans with only white space between them, because neighbouring tokens are agreed on one by one."""
    verdicts: list[Verdict] = []
    for verdict in gold.verdicts:
        last = verdicts[-1] if verdicts else None
        if last and last.label == verdict.label and not case.response[last.span.end : verdict.span.start].strip():
            verdicts[-1] = replace(last, span=Span(last.span.start, verdict.span.end))
        else:
            verdicts.append(verdict)
    return replace(gold, verdicts=tuple(verdicts))


@dataclass(frozen=True, slots=True)
class Agreement:
    """How closely the annotators of some cases agree on the labels.

    Attributes:
        cases: How many cases have two or more labels.
        labels: How many labels these cases have in total.
        annotators: How many people gave these labels.
        alpha: Krippendorff's alpha. None if all labels are the same.
        kappa: Fleiss' kappa on the first `kappa_labels` labels of each case. None if these labels are all the same.
        kappa_labels: How many labels every case has at least.
        unanimous: The proportion of cases whose labels are all the same.
        four_fifths: The proportion of cases in which at least 80 % of the labels are the same.
    """

    cases: int
    labels: int
    annotators: int
    alpha: float | None
    kappa: float | None
    kappa_labels: int
    unanimous: float
    four_fifths: float


def agreement(examples: Iterable[Example]) -> Agreement:
    """Measure how far annotators agree on the labels of cases.

    Raises:
        InputError: No case has two labels.
    """
    votes: list[dict[str, bool]] = []
    for example in join_annotations(examples)[0]:
        by_annotator = {j.by: label for j in example.annotations if (label := says_hallucinated(j)) is not None}
        if len(by_annotator) >= 2:
            votes.append(by_annotator)
    if not votes:
        raise InputError("no case has labels of two annotators", hint="agreement needs two or more for a case")
    names = sorted({name for by_annotator in votes for name in by_annotator})
    first = [list(labels) for labels in zip(*map(dict.values, votes), strict=False)]  # as many as every case has
    majorities = [max(Counter(by_annotator.values()).values()) / len(by_annotator) for by_annotator in votes]
    alpha = kappa = None
    with suppress(UndefinedMetricError):
        alpha = krippendorff_alpha([[by_annotator.get(name) for by_annotator in votes] for name in names])
    with suppress(UndefinedMetricError):
        kappa = fleiss_kappa(first)
    return Agreement(
        cases=len(votes),
        labels=sum(map(len, votes)),
        annotators=len(names),
        alpha=alpha,
        kappa=kappa,
        kappa_labels=len(first),
        unanimous=sum(share == 1.0 for share in majorities) / len(votes),
        four_fifths=sum(share >= 0.8 for share in majorities) / len(votes),
    )
