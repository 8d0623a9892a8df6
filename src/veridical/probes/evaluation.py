"""Probe scores of encoded examples as the judgements that the detector will give, with the thresholds for them.

No pass of the model is needed: the activations are there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridical.calibration.thresholding import threshold_for_f1
from veridical.core.errors import InputError
from veridical.core.types import Example, Judgement
from veridical.detectors.local.probe import judgement_of
from veridical.metrics import UndefinedMetricError
from veridical.metrics.registry import METRICS
from veridical.metrics.response import f1
from veridical.probes.activations import Ids
from veridical.probes.fitting import ScoresBySequence
from veridical.probes.labelled_sequences import EncodedExamples, Labels

__all__ = ["Judged", "best_f1_each", "fit_threshold", "judgements_of", "label_score_pairs"]

Judged = list[tuple[Example, Judgement]]


def best_f1_each(scores: ScoresBySequence, sequences: Ids, labels: Labels, objective: str) -> NDArray[np.float64]:
    """The highest F1 that any threshold gives each probe on `sequences`, (probes,); 0 where it is not defined."""
    joined = np.concatenate([scores[i] for i in sequences.tolist()], 1)
    label, weight = labels.items(sequences, objective)
    labelled = weight > 0
    label, weight = label[labelled], weight[labelled]
    found = np.zeros(len(joined))
    for i, row in enumerate(joined[:, labelled]):
        try:
            found[i] = f1(label > 0, row >= threshold_for_f1(label, row, weight), weight)
        except UndefinedMetricError:
            continue
    return found


def judgements_of(
    sequences: EncodedExamples, scores: Mapping[int, NDArray[np.float64]], objective: str, *, by: str = "probe"
) -> Judged:
    """The judgements that the detector gives, each with its example.

    Args:
        sequences: All sequences.
        scores: By sequence, the score of each token, or that of the response alone. Of several windows over one
            example the one that supports a token best counts.
        objective: "token" or "response".
        by: The name of the detector.
    """
    windows: dict[int, list[int]] = {}
    for i in scores:
        windows.setdefault(int(sequences.example_of[i]), []).append(i)
    judged = []
    for of in sorted(windows):
        example = sequences.examples[of]
        lowest = np.stack([scores[i] for i in windows[of]]).min(0)
        by_response = objective == "response"
        judgement = judgement_of(
            example.case,
            by,
            sequences.encoded[windows[of][0]].spans,
            tokens=None if by_response else lowest,
            response=float(lowest[-1]) if by_response else None,
        )
        judged.append((example, judgement))
    return judged


def label_score_pairs(judged: Sequence[tuple[Example, Judgement]], metric: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Labels and scores, both (items,), of what `metric` ranks: responses ("roc_auc") or words ("word_roc_auc")."""
    rows = [r for e, j in judged if (r := METRICS[metric].rows(e, j, 0.5)) is not None]
    table = np.concatenate(rows) if rows else np.zeros((0, 2))
    return table[:, 0] > 0, table[:, 1]


def fit_threshold(judged: Sequence[tuple[Example, Judgement]], objective: str) -> float:
    """The threshold with the best F1 over words, or over responses; `InputError` where none can be fitted."""
    metric = "roc_auc" if objective == "response" else "word_roc_auc"
    try:
        return threshold_for_f1(*label_score_pairs(judged, metric))
    except UndefinedMetricError as error:
        raise InputError(f"no threshold can be fitted: {error.message}") from None
