"""Scores of probes on examples at hand as the judgements that the detector will give, with the thresholds for them.

`train.probe` and `analyses` ask these of activations that are there already, without another pass of the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridical.core.errors import InputError
from veridical.core.types import Example, Judgement
from veridical.detectors.local.probe import judgement_of
from veridical.metrics import UndefinedMetricError
from veridical.metrics.calibration import threshold_for_f1
from veridical.metrics.registry import METRICS
from veridical.models.probe_heads import Probes
from veridical.probes.activations import Ids, in_memory
from veridical.probes.fitting import fit
from veridical.probes.labelled_sequences import Forced, Labels
from veridical.probes.probe_batch import Options

__all__ = ["Each", "best_f1", "flat", "judged", "level_of", "mixed", "pairs_of", "threshold_of"]

Each = dict[int, NDArray[np.float64]]  # scores (probes, tokens or 1) by sequence


def level_of(objective: str) -> str:
    """The metric whose rows are the (gold, score) pairs that a threshold is fitted on: responses, or words."""
    return "roc_auc" if objective == "response" else "word_roc_auc"


def flat(each: Each, sequences: Ids, labels: Labels, objective: str) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Scores (probes, items), labels and weights (items,) of the items that are labelled."""
    scores = np.concatenate([each[i] for i in sequences.tolist()], 1)
    if objective == "response":
        label, weight = labels.responses[sequences], labels.response_weights[sequences]
    else:
        label = np.concatenate([labels.tokens[i] for i in sequences])
        weight = np.concatenate([labels.token_weights[i] for i in sequences])
    kept = weight > 0
    return scores[:, kept], label[kept], weight[kept]


def best_f1(label: NDArray[Any], scores: NDArray[Any], weight: NDArray[Any]) -> float:
    """The highest F1 that a threshold can have; 0 where none is defined."""
    from veridical.metrics.response import f1

    try:
        return f1(label > 0, scores >= threshold_for_f1(label, scores, weight), weight)
    except UndefinedMetricError:
        return 0.0


def mixed(probes: Probes, each: Each, labels: Labels, train: Ids, valid: Ids, options: Options) -> Probes:
    """The probes, frozen, with the weights of a logistic regression over their probabilities.

    It is fitted as a linear probe whose hidden state is the vector of probabilities, on the same training part with
    the same options (D §4.1, §5.1).
    """
    order = np.sort(np.r_[train, valid])
    joint = np.concatenate([each[i] for i in order.tolist()], 1).T.astype(np.float32)[None]
    lengths = np.array([each[i].shape[1] for i in order.tolist()])
    if options.objective == "response":
        tokens = [labels.responses[[i]] for i in order]
        weights = [labels.response_weights[[i]] for i in order]
    else:
        tokens, weights = [labels.tokens[i] for i in order], [labels.token_weights[i] for i in order]
    mine = Labels(tokens, weights, labels.responses[order], labels.response_weights[order])
    linear = replace(options, kind="linear", objective="token")
    found = fit(
        in_memory(joint, lengths, [0]), mine, np.searchsorted(order, train), np.searchsorted(order, valid), linear
    )
    return replace(probes, mix=found.probes.projection[0, 0], mix_bias=float(found.probes.offset[0, 0]))


def judged(
    forced: Forced, scored: Mapping[int, NDArray[np.float64]], objective: str, *, by: str = "probe"
) -> list[tuple[Example, Judgement]]:
    """What the detector says, with its gold, given one score a token (or the response's alone) by sequence.

    Of several windows over one example the one that supports a token best counts.
    """
    windows: dict[int, list[int]] = {}
    for i in scored:
        windows.setdefault(int(forced.example_of[i]), []).append(i)
    made = []
    for of in sorted(windows):
        example = forced.examples[of]
        scores = np.stack([scored[i] for i in windows[of]]).min(0)
        whole = objective == "response"
        judgement = judgement_of(
            example.case,
            by,
            forced.encoded[windows[of][0]].spans,
            tokens=None if whole else scores,
            response=float(scores[-1]) if whole else None,
        )
        made.append((example, judgement))
    return made


def pairs_of(judgements: Sequence[tuple[Example, Judgement]], level: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Labels and scores of all that counts at `level` (a metric of `level_of`)."""
    rows = [r for e, j in judgements if (r := METRICS[level].rows(e, j, 0.5)) is not None]
    table = np.concatenate(rows) if rows else np.zeros((0, 2))
    return table[:, 0] > 0, table[:, 1]


def threshold_of(judgements: Sequence[tuple[Example, Judgement]], objective: str) -> float:
    """The threshold with the best F1 over words, or over responses; `InputError` where none can be fitted."""
    try:
        return threshold_for_f1(*pairs_of(judgements, level_of(objective)))
    except UndefinedMetricError as error:
        raise InputError(f"no threshold can be fitted: {error.message}") from None
