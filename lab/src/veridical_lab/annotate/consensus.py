"""What annotators agree on, which items need another annotator, and how far they agree.

Items (one label each) follow Liu et al. 2022, §3.3: four annotators, two more where these are split evenly, and no
label where six are. Marked spans follow CH-Wang et al. 2024, §3.3: a token counts once two of three mark it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from veridical.core.errors import InputError
from veridical.core.types import Case, Example, Judgement, Verdict
from veridical.metrics import UndefinedMetricError
from veridical_lab.annotate.items import is_item, labelled, says_hallucinated
from veridical_lab.datasets.consensus import at_least
from veridical_lab.datasets.marks import tokens
from veridical_lab.metrics.agreement import fleiss_kappa, krippendorff_alpha

__all__ = [
    "Agreed",
    "Agreement",
    "ConsensusRule",
    "agree",
    "agreement",
    "annotators_of",
    "consensus",
    "join_annotations",
    "needed",
    "reconcile_spans",
    "without_annotators",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsensusRule:
    """When annotators of one item have reached consensus.

    An even number is asked at each step: of five annotators of a yes/no question one side always has a majority, so
    that nobody would ever be asked again (Liu et al. 2022, appendix B).

    Attributes:
        first: How many annotators each item gets.
        most: How many it gets at most.
        step: How many more are asked at once.
        share: One label must have more than this share of the votes.
    """

    first: int = 4
    most: int = 6
    step: int = 2
    share: float = 0.5

    def __post_init__(self) -> None:
        if not 1 <= self.first <= self.most or self.step < 1 or not 0.5 <= self.share < 1.0:
            raise InputError(
                f"first {self.first} annotators, then {self.step} more up to {self.most}, a share above {self.share:g}",
                hint="1 or more, first not above the most, a share from 0.5 to below 1",
            )


def consensus(labels: Sequence[bool], rule: ConsensusRule | None = None) -> bool | None:
    """The label that annotators of one item agree on; None if they do not, or if too few of them were asked.

    >>> consensus([True, True, True, False]), consensus([True, True, False, False])
    (True, None)
    """
    rule = rule or ConsensusRule()
    if needed_by(len(labels), rule):
        return None
    for label in (True, False):
        if sum(given == label for given in labels) > rule.share * len(labels):
            return label
    return None


def needed(labels: Sequence[bool], rule: ConsensusRule | None = None) -> int:
    """How many more annotators an item needs: 0 where there is consensus, or the most have been asked.

    >>> [needed(labels) for labels in ([], [True] * 4, [True, True, False, False], [True] * 3 + [False] * 3)]
    [4, 0, 2, 0]
    """
    rule = rule or ConsensusRule()
    missing = needed_by(len(labels), rule)
    if missing or consensus(labels, rule) is not None:
        return missing
    return min(rule.step, max(0, rule.most - len(labels)))


def needed_by(count: int, rule: ConsensusRule) -> int:
    """How many annotators are missing until the step that `count` of them have begun is complete."""
    if count >= rule.most:
        return 0
    steps = max(0, -(-(count - rule.first) // rule.step))
    return min(rule.most, rule.first + steps * rule.step) - count


def annotators_of(examples: Iterable[Example]) -> list[str]:
    """The names of all annotators (`human:…`), in the order of the alphabet."""
    return sorted({judgement.by for example in examples for judgement in example.annotations})


def without_annotators(examples: Iterable[Example], names: Iterable[str]) -> list[Example]:
    """The examples without what these annotators said."""
    blocked = set(names)
    return [replace(e, annotations=tuple(j for j in e.annotations if j.by not in blocked)) for e in examples]


def join_annotations(examples: Iterable[Example]) -> tuple[list[Example], dict[str, int]]:
    """One example per case with everybody's annotations, in the order in which cases first appear; and what was not
    used, with how often.

    Where one annotator labelled a case more than once, the first time counts; where the labels differ, that annotator
    contradicts themselves and neither counts.

    Raises:
        InputError: If two different cases share an id.
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
        kept = []
        for judgements in by_annotator.values():
            said = {(says_hallucinated(j), tuple(sorted(v.span for v in j.verdicts))) for j in judgements}
            if len(said) > 1:
                unused["an annotator contradicts themselves"] += len(judgements)
                continue
            unused["labelled again in the same way"] += len(judgements) - 1
            kept.append(judgements[0])
        joined.append(replace(parts[0], annotations=tuple(kept)))
    return joined, {reason: n for reason, n in unused.most_common() if n}


@dataclass(frozen=True, slots=True)
class Agreed:
    """What annotators of some items agree on.

    Attributes:
        examples: The items with consensus; their gold is the label.
        waiting: How many more annotators an item needs, by its id.
        split: The ids of items without consensus after the most annotators.
        unused: Annotations that do not count, by reason.
    """

    examples: tuple[Example, ...]
    waiting: Mapping[str, int] = field(default_factory=dict)
    split: tuple[str, ...] = ()
    unused: Mapping[str, int] = field(default_factory=dict)


def agree(examples: Iterable[Example], rule: ConsensusRule | None = None) -> Agreed:
    """Decide each item by the votes of its annotators; cases of several examples are joined first."""
    rule = rule or ConsensusRule()
    joined, unused = join_annotations(examples)
    decided: list[Example] = []
    waiting: dict[str, int] = {}
    split: list[str] = []
    for item in joined:
        votes = [label for j in item.annotations if (label := says_hallucinated(j)) is not None]
        label = consensus(votes, rule)
        if label is not None:
            of_label = sum(vote == label for vote in votes)
            decided.append(_with_label(item, label, f"human:{of_label}-of-{len(votes)}"))
        elif missing := needed(votes, rule):
            waiting[item.case.id] = missing
        else:
            split.append(item.case.id)
    return Agreed(tuple(decided), waiting, tuple(split), unused)


def _with_label(example: Example, label: bool, by: str) -> Example:
    if is_item(example):
        return labelled(example, label, by, example.annotations)
    return replace(example, gold=Judgement(example.case.id, by, float(label)))


def reconcile_spans(examples: Iterable[Example], *, least: int = 2, of: int = 3) -> Agreed:
    """Merge marked spans: a token is hallucinated where at least `least` annotators mark it, two of three by default.

    Tokens are those between white space. A case with fewer than `of` annotators waits for the others.
    """
    if not 1 <= least <= of:
        raise InputError(f"at least {least} of {of} annotators", hint="from 1 to their number")
    joined, unused = join_annotations(examples)
    decided: list[Example] = []
    waiting: dict[str, int] = {}
    for example in joined:
        people = example.annotations
        if len(people) < of:
            waiting[example.case.id] = of - len(people)
            continue
        gold = at_least(least, people, example.case, tokens=tokens(example.case.response))
        decided.append(replace(example, gold=_trimmed(gold, example.case)))
    return Agreed(tuple(decided), waiting, (), unused)


def _trimmed(gold: Judgement, case: Case) -> Judgement:
    """Spans with only white space between them as one (neighbouring tokens are agreed on one by one)."""
    verdicts: list[Verdict] = []
    for verdict in gold.verdicts:
        last = verdicts[-1] if verdicts else None
        if last and last.label == verdict.label and not case.response[last.span.end : verdict.span.start].strip():
            verdicts[-1] = replace(last, span=type(last.span)(last.span.start, verdict.span.end))
        else:
            verdicts.append(verdict)
    return replace(gold, verdicts=tuple(verdicts))


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far annotators of some cases agree on the label of each.

    Attributes:
        cases: Cases with two or more labels.
        labels: All labels of them.
        annotators: How many people gave them.
        alpha: Krippendorff's alpha; None where all labels are the same.
        kappa: Fleiss' kappa on the first labels of each case, as many as every case has; None as above.
        kappa_labels: How many that is.
        unanimous: The share of cases whose labels are all the same.
        four_fifths: The share of cases with at least 80 % of the labels the same.
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
    """How far annotators agree; `InputError` where no case has two labels."""
    votes: list[dict[str, bool]] = []
    for example in join_annotations(examples)[0]:
        given = {j.by: label for j in example.annotations if (label := says_hallucinated(j)) is not None}
        if len(given) >= 2:
            votes.append(given)
    if not votes:
        raise InputError("no case has labels of two annotators", hint="agreement needs two or more of each case")
    names = sorted({name for given in votes for name in given})
    least = min(map(len, votes))
    first = [[list(given.values())[i] for given in votes] for i in range(least)]
    majorities = [max(Counter(given.values()).values()) / len(given) for given in votes]
    try:
        alpha = krippendorff_alpha([[given.get(name) for given in votes] for name in names])
    except UndefinedMetricError:
        alpha = None
    try:
        kappa = fleiss_kappa(first)
    except UndefinedMetricError:
        kappa = None
    return Agreement(
        cases=len(votes),
        labels=sum(map(len, votes)),
        annotators=len(names),
        alpha=alpha,
        kappa=kappa,
        kappa_labels=least,
        unanimous=sum(share == 1.0 for share in majorities) / len(votes),
        four_fifths=sum(share >= 0.8 for share in majorities) / len(votes),
    )
