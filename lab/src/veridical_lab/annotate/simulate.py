"""Simulate annotation rounds from end to end (select, annotate, agree), with annotators whose error rates are known.

A simulation tests whether rounds balance the labels, and whether the error rates are estimated correctly. It says
nothing about real people.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from math import ceil

from veridical.records.edits import apply
from veridical.records.errors import InputError
from veridical.records.spans import Span
from veridical.records.types import Example, Judgement, Verdict
from veridical_lab.annotate.consensus import Agreement, ConsensusRule, agree, agreement, needed, without_annotators
from veridical_lab.annotate.items import answer, grouped, items_of, says_hallucinated
from veridical_lab.annotate.quality import AnnotatorQuality, annotator_quality
from veridical_lab.annotate.scorer import Scorer, score_pool
from veridical_lab.annotate.select import Selection, SelectOptions, select
from veridical_lab.corrupt import WAYS, Corruptor
from veridical_lab.corrupt.passages import passages_of
from veridical_lab.corrupt.rewrites import rewrite
from veridical_lab.corrupt.rules import Rules
from veridical_lab.corrupt.streams import Recipe, excerpts

_REWRITES = ("synonym", "date_form", "contraction", "voice", "order", "conjuncts")
_TYPES = ("number", "date", "unit", "negation", "antonym", "relation")  # error types that replace something
_LEAST_OF_CLASS = 0.3  # share of the items to annotate that each class must have in the pool
_BLOCK = 200  # texts that are read at once, and that new names are drawn from
_RECIPE = Recipe(responses=1, source_words=(40, 80), response_sentences=(1.0,))


@dataclass(frozen=True, slots=True)
class SimulatedAnnotator:
    """An annotator with known error rates.

    `misses` is the probability of calling a hallucinated item consistent, and `false_alarms` is the probability of
    calling a consistent item hallucinated.
    """

    name: str
    misses: float
    false_alarms: float

    def label(self, hallucinated: bool, draw: random.Random) -> bool:
        """Draw the annotator's label for an item with this true label."""
        return hallucinated != (draw.random() < (self.misses if hallucinated else self.false_alarms))


def team(*, seed: int = 0) -> list[SimulatedAnnotator]:
    """Make eight annotators with error rates from 2 to 15 %, and a spammer who always says "hallucinated"."""
    draw = random.Random(f"team\0{seed}")
    people = [
        SimulatedAnnotator(
            f"human:annotator-{i}", round(draw.uniform(0.02, 0.15), 3), round(draw.uniform(0.02, 0.15), 3)
        )
        for i in range(1, 9)
    ]
    return [*people, SimulatedAnnotator("human:spammer-1", 0.0, 1.0)]


def make_pool(
    texts: Iterable[str],
    count: int,
    *,
    method: str = "rules",
    consistent: float = 0.13,
    seed: int = 0,
) -> list[Example]:
    """Make items from plain texts. The gold of an item is the true label.

    Args:
        texts: The documents.
        count: How many items to make, at most.
        method: How to corrupt texts, a name in `veridical_lab.corrupt.WAYS`. The changes count as hallucinated.
        consistent: The proportion of items in which the change keeps the meaning (a synonym, another form of a number).
        seed: The random seed.
    """
    if not 0.0 < consistent < 1.0:
        raise InputError(f"the share of consistent items is {consistent:g}", hint="between 0 and 1")
    make: Callable[..., Corruptor] = partial(Rules, types=_TYPES) if method == "rules" else WAYS.load(method)
    pool = list(islice(_changed_texts(iter(texts), make, consistent, seed), count))
    if not pool:
        raise InputError("no text could be changed", hint="longer texts, or another way to corrupt")
    return pool


def _changed_texts(
    texts: Iterator[str], make: Callable[..., Corruptor], consistent: float, seed: int
) -> Iterator[Example]:
    number = made = kept_meaning = 0
    while block := list(islice(texts, _BLOCK)):
        faithful = [
            excerpt
            for i, text in enumerate(block, number)
            for excerpt in excerpts(text, f"text/{i}", _RECIPE, seed=seed)
        ]
        number += len(block)
        way = make(faithful)
        for example in faithful:
            draw = random.Random(f"{seed}\0pool\0{example.case.id}")
            rewritten = _rewritten(example, draw) if kept_meaning < consistent * (made + 1) else None
            kept_meaning += rewritten is not None
            changed = rewritten or way.change(example, draw)
            for item in () if isinstance(changed, str) else items_of([changed]):
                made += 1
                yield item


def _rewritten(example: Example, draw: random.Random) -> Example | None:
    """Make one change that keeps the meaning, and mark it as a consistent place. Return None if there is none."""
    case = example.case
    for passage in draw.sample(passages := passages_of(case), len(passages)):
        edits = rewrite(passage, draw, most=1, types=_REWRITES)
        if not edits:
            continue
        response = apply(case.response, edits)
        before = Span(edits[0].span.start, edits[-1].span.end)
        end = before.end + len(response) - len(case.response)
        if end <= before.start:
            continue
        verdict = Verdict(Span(before.start, end), 0.0, edits[0].because, correction=before.of(case.response))
        changed = replace(case, id=f"{case.id}/rewritten", response=response)
        gold = Judgement(changed.id, "corrupt:rewritten", 0.0, verdicts=(verdict,))
        return grouped(replace(example, case=changed, gold=gold), corrupted="no")
    return None


@dataclass(frozen=True, slots=True)
class SimulatedRound:
    """The results of one round.

    Attributes:
        number: The number of the round, from 1.
        selection: The items that were annotated, and how they were chosen.
        agreed: How many of these items reached consensus.
        hallucinated: The proportion of hallucinated items among those with consensus.
        cumulative: The same proportion in all rounds so far.
        total: How many items reached consensus in all rounds so far.
        agreement: How closely annotators agree in this round.
    """

    number: int
    selection: Selection
    agreed: int
    hallucinated: float
    cumulative: float
    total: int
    agreement: Agreement


@dataclass(frozen=True, slots=True)
class Loop:
    """The result of a simulation of several rounds.

    `people` are the annotators, with their true and their estimated error rates. `examples` are the items with
    consensus, and `right` is the proportion of these items whose label is true. `blocked` are the annotators who were
    excluded as spammers.
    """

    rounds: tuple[SimulatedRound, ...]
    people: tuple[tuple[SimulatedAnnotator, AnnotatorQuality], ...]
    examples: tuple[Example, ...]
    blocked: tuple[str, ...]
    right: float


def simulate(
    pool: Sequence[Example],
    people: Sequence[SimulatedAnnotator],
    sizes: Sequence[int] = (100, 100, 150, 200, 250),
    *,
    options: SelectOptions | None = None,
    scorer: Scorer | None = None,
    progress: Callable[[str], None] = lambda line: None,
) -> Loop:
    """Run one annotation round after another.

    Args:
        pool: The items, whose gold is the true label (`make_pool`).
        people: The simulated annotators. The annotators of each item are drawn at random.
        sizes: How many items to annotate in each round. The first round is a random sample.
        options: How to choose items (`count` comes from `sizes`).
        scorer: Extracts features for the classifiers. If you pass the same scorer to several runs, they share its
            features. Default: a new scorer.
        progress: A function that receives a line of text after each round.

    Raises:
        InputError: There are too few annotators, or the pool has too few items of a class. To balance the rounds, the
            pool must have at least three tenths as many items of each class as there are items to annotate.
    """
    options, rule = options or SelectOptions(), ConsensusRule()
    if len(people) < rule.most:
        raise InputError(f"{len(people)} annotators, and an item may need {rule.most}", hint="name more annotators")
    truth = {item.case.id: bool(says_hallucinated(item.gold)) for item in pool}
    _check_size(truth, sizes)
    scorer = scorer or Scorer(pool)
    unlabelled = {item.case.id: item for item in pool}
    annotated: list[Example] = []
    caught: dict[str, AnnotatorQuality] = {}
    rounds: list[SimulatedRound] = []
    for number, size in enumerate(sizes, 1):
        chosen = _choose(scorer, agree(annotated, rule).examples, list(unlabelled.values()), size, options)
        items = [grouped(item, round=str(number)) for item in chosen.items]
        for item in items:
            del unlabelled[item.case.id]
        asked = _annotate(items, people, caught, truth, rule, options.seed)
        while signs := [q for q in annotator_quality([*annotated, *asked], resamples=50) if q.signs]:
            caught |= {quality.name: quality for quality in signs}
            # drop their earlier labels, too, and let other annotators label their items of this round
            annotated = without_annotators(annotated, caught)
            asked = _annotate(items, people, caught, truth, rule, options.seed)
        annotated += asked
        agreed = agree(asked, rule)
        total = agree(annotated, rule).examples
        rounds.append(
            SimulatedRound(
                number,
                chosen,
                len(agreed.examples),
                _share(agreed.examples),
                _share(total),
                len(total),
                agreement(asked),
            )
        )
        progress(
            f"round {number}: {len(items)} items, {rounds[-1].hallucinated:.1%} hallucinated, "
            f"{rounds[-1].cumulative:.1%} of {len(total)} so far"
        )
    qualities = {quality.name: quality for quality in annotator_quality(annotated)} | caught
    return Loop(
        tuple(rounds),
        tuple((person, qualities[person.name]) for person in people if person.name in qualities),
        total,
        tuple(sorted(caught)),
        sum(says_hallucinated(item.gold) == truth[item.case.id] for item in total) / max(len(total), 1),
    )


def _check_size(truth: Mapping[str, bool], sizes: Sequence[int]) -> None:
    """Raise `InputError` if the pool has too few items of a class to fill the rounds."""
    wanted, wrong = ceil(_LEAST_OF_CLASS * sum(sizes)), sum(truth.values())
    fewest, rarer = min((wrong, "hallucinated"), (len(truth) - wrong, "consistent"))
    if fewest < wanted:
        enough = -(-wanted * len(truth) // max(fewest, 1))
        raise InputError(
            f"the rounds need {wanted} {rarer} items, and the pool of {len(truth)} has {fewest}",
            hint=f"{enough} items or more, or smaller rounds",
        )


def _choose(
    scorer: Scorer, labelled: Sequence[Example], left: Sequence[Example], size: int, options: SelectOptions
) -> Selection:
    """Choose the items of the next round. The first round is a random sample."""
    options_here = replace(options, count=size, seed=options.seed + len(labelled))
    if not labelled:
        return select(left, replace(options_here, strategy="random"))
    scores = score_pool(scorer, labelled, left, seed=options.seed)
    return select(left, options_here, scores=scores.pool.tolist(), annotated=scores.annotated)


def _share(items: Sequence[Example]) -> float:
    return sum(bool(says_hallucinated(item.gold)) for item in items) / max(len(items), 1)


def _annotate(
    items: Sequence[Example],
    people: Sequence[SimulatedAnnotator],
    blocked: Collection[str],
    truth: Mapping[str, bool],
    rule: ConsensusRule,
    seed: int,
) -> list[Example]:
    """Let as many annotators answer each item as the rule asks for. Blocked annotators are not asked."""
    results = []
    for item in items:
        draw = random.Random(f"{seed}\0annotate\0{item.case.id}")
        answers: list[Judgement] = []
        labels: list[bool] = []
        for person in draw.sample(people, len(people)):
            label = person.label(truth[item.case.id], draw)
            if person.name in blocked or not needed(labels, rule):
                continue
            labels.append(label)
            answers.append(answer(item, person.name, label, seconds=draw.uniform(12, 40)))
        results.append(replace(item, annotations=tuple(answers)))
    return results
