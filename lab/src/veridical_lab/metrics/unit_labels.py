"""Transfer the gold labels of a response to its units, such as tokens or words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from veridical.metrics.arrays import Bools, Floats
from veridical.metrics.tokens import any_in, highest_in, mask, scores_of_characters
from veridical.records.spans import Span
from veridical.records.types import GOLD_THRESHOLD, Example, judged_spans
from veridical.text.segment import words

_PHRASE_WORDS = 12


def unit_labels(example: Example, units: Sequence[Span], *, soft: bool = False) -> tuple[Floats, Bools]:
    """Return the gold label of each unit of a response, and whether the unit has a label.

    White space is ignored. A unit has a label if the gold judgement covers at least one of its other characters. The
    label is 1 if any of these lies in a gold span with a score of 0.5 or more, and 0 otherwise. No unit has a label if
    the gold judgement calls the response hallucinated but marks no span, or if it is only about coverage. Both results
    have *shape* (units,).

    Args:
        example: The case with its gold judgement.
        units: The units, as spans of the response. Empty spans have no label.
        soft: Whether the label of a unit is the highest score of the verdicts on it, instead of 0 or 1.

    >>> from veridical.records.types import Case, Judgement, Verdict
    >>> gold = Judgement("1", "human:a", verdicts=(Verdict(Span(3, 7), 0.8),))
    >>> unit_labels(Example(Case("1", "In Rome"), gold), [Span(0, 2), Span(3, 7)])
    (array([0., 1.]), array([ True,  True]))
    """
    text, gold = example.case.response, example.gold
    bounds = np.array([(unit.start, unit.end) for unit in units], dtype=np.int64).reshape(-1, 2)
    scored = [(verdict.span, verdict.score) for verdict in gold.verdicts if soft or verdict.score >= GOLD_THRESHOLD]
    only_coverage = gold.omission is not None or bool(gold.omissions)
    silent = gold.hallucination is None and not gold.verdicts and only_coverage
    if silent or (not scored and (gold.hallucination or 0.0) >= GOLD_THRESHOLD):
        return np.zeros(len(bounds)), np.zeros(len(bounds), dtype=bool)
    visible = mask(len(text), judged_spans(example.case, gold)) & ~np.array(
        [char.isspace() for char in text], dtype=bool
    )
    labelled = any_in(visible, bounds)
    scores = np.where(visible, scores_of_characters(len(text), scored), 0.0)
    labels = np.zeros(len(bounds))
    filled = bounds[:, 1] > bounds[:, 0]
    if filled.any():
        labels[filled] = highest_in(scores, bounds[filled])
    return (labels if soft else (labels >= GOLD_THRESHOLD).astype(np.float64)), labelled


def labelled_phrase(example: Example) -> Span | None:
    """Return the phrase of a response if the gold judgement covers just one phrase (HaDes, Liu et al. 2022, §3.1).

    A phrase has at most 12 words and is not the whole response. Return None if the gold judgement covers anything else.

    >>> from veridical.records.types import Case, Judgement
    >>> labelled_phrase(Example(Case("1", "In Rome"), Judgement("1", "human:a", 1.0, judged=(Span(3, 7),))))
    Span(start=3, end=7)
    """
    text, judged = example.case.response, example.gold.judged
    if judged is None or len(judged) != 1 or len(judged[0]) >= len(text):
        return None
    return judged[0] if len(words(judged[0].of(text))) <= _PHRASE_WORDS else None
