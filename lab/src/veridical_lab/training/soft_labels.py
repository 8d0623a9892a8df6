"""Soft labels: what a detector says of words and responses, mixed with the labels of the data.

A small classifier that is trained on them learns of every word how sure the larger one is, also where the data label
whole responses alone (Hinton, Vinyals and Dean 2015, "Distilling the knowledge in a neural network").
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from veridical.core.types import Example, Judgement
from veridical.metrics.tokens import unit_labels
from veridical_lab.training.token_evaluation import response_target

__all__ = ["mixed"]


def mixed(example: Example, judgement: Judgement, weight: float) -> Example:
    """The example with soft labels: `weight` of the detector's scores, the rest of its own labels.

    Where the data say nothing of a word, or of the response, the detector's score counts alone; what it did not judge
    has no label. An example of which it judged nothing stays as it is.

    Args:
        example: A labelled example.
        judgement: What the detector says of it.
        weight: From 0 to 1.
    """
    if judgement.judged == ():
        return example
    labels, known = unit_labels(example, [verdict.span for verdict in judgement.verdicts])
    weights = np.where(known, weight, 1.0).tolist()
    verdicts = tuple(
        replace(verdict, score=w * verdict.score + (1 - w) * label)
        for verdict, label, w in zip(judgement.verdicts, labels.tolist(), weights, strict=True)
    )
    whole, target = judgement.hallucination, response_target(example)
    if whole is not None and np.isfinite(target):
        whole = weight * whole + (1 - weight) * target
    return replace(example, gold=replace(judgement, hallucination=whole, verdicts=verdicts), annotations=())
