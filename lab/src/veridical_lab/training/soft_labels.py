"""Make soft labels for distillation by mixing a detector's scores of words and responses with the data's labels.

A small classifier that is trained on soft labels learns the certainty of a larger one about each word, even if the data
have only labels of whole responses (Hinton, Vinyals and Dean 2015, "Distilling the knowledge in a neural network").
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from veridical.records.types import Example, Judgement
from veridical_lab.metrics.unit_labels import unit_labels
from veridical_lab.training.token_evaluation import response_target


def mixed(example: Example, judgement: Judgement, weight: float) -> Example:
    """Replace an example's labels by soft labels, which mix the detector's scores with the example's own labels.

    A word or response without a label gets the detector's score. Parts that the detector did not judge get no label. If
    the detector judged nothing at all, the example is not changed.

    Args:
        example: A labelled example.
        judgement: The detector's judgement of the example.
        weight: The weight of the detector's scores, from 0 to 1.
    """
    if judgement.judged == ():
        return example
    labels, labelled = unit_labels(example, [verdict.span for verdict in judgement.verdicts])
    weights = np.where(labelled, weight, 1.0).tolist()
    verdicts = tuple(
        replace(verdict, score=w * verdict.score + (1 - w) * label)
        for verdict, label, w in zip(judgement.verdicts, labels.tolist(), weights, strict=True)
    )
    whole, target = judgement.hallucination, response_target(example)
    if whole is not None and np.isfinite(target):
        whole = weight * whole + (1 - weight) * target
    return replace(example, gold=replace(judgement, hallucination=whole, verdicts=verdicts), annotations=())
