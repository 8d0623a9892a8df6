"""Turn the scores of probes into the judgements that the detector would give, and fit thresholds on them.

The activations already exist, so the model does not run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from veridical.inference.tokenization import joined_tokens
from veridical.metrics import UndefinedMetricError
from veridical.metrics.alignment import characters
from veridical.metrics.arrays import Floats
from veridical.metrics.confusion import Confusion
from veridical.metrics.measure import Metric, Project
from veridical.metrics.thresholding import threshold_for_f1
from veridical.records.errors import InputError
from veridical.records.types import Example, Judgement
from veridical_lab.detectors.local.probe import judgement_of
from veridical_lab.metrics.registry import LABELLED_SCORES, METRICS
from veridical_lab.metrics.spans import coverage_rows
from veridical_lab.metrics.thresholds import threshold_for_f1_sp
from veridical_lab.probes.activations import Indices
from veridical_lab.probes.fitting import ScoresBySequence
from veridical_lab.probes.labelled_sequences import EncodedExamples, ProbeLabels

Judged = list[tuple[Example, Judgement]]


def best_f1_each(
    scores: ScoresBySequence, sequences: Indices, labels: ProbeLabels, objective: str
) -> NDArray[np.float64]:
    """Return the highest F1 of each probe on `sequences` at any threshold, (probes,).

    If F1 is undefined, it counts as 0.
    """
    joined = np.concatenate([scores[i] for i in sequences.tolist()], 1)
    label, weight = labels.items(sequences, objective)
    labelled = weight > 0
    label, weight = label[labelled], weight[labelled]
    best = np.zeros(len(joined))
    for i, row in enumerate(joined[:, labelled]):
        try:
            best[i] = Confusion.of(label > 0, row >= threshold_for_f1(label, row, weight), weight).f1()
        except UndefinedMetricError:
            continue
    return best


def judgements_of(
    sequences: EncodedExamples, scores: Mapping[int, NDArray[np.float64]], objective: str, *, by: str = "probe"
) -> Judged:
    """Build the judgements that the detector would give, each with its example.

    Args:
        sequences: All sequences.
        scores: For each sequence, the scores of the tokens, or only the score of the response. If an example has
            several windows, the score of each token comes from the window that supports it best.
        objective: "token" or "response".
        by: The name of the detector.
    """
    windows: dict[int, list[int]] = {}
    for i in scores:
        windows.setdefault(int(sequences.example_of[i]), []).append(i)
    judged = []
    for example_i in sorted(windows):
        example = sequences.examples[example_i]
        lowest = np.stack([scores[i] for i in windows[example_i]]).min(0)
        by_response = objective == "response"
        judgement = judgement_of(
            example.case,
            by,
            sequences.encoded[windows[example_i][0]].spans,
            tokens=None if by_response else lowest,
            response=float(lowest[-1]) if by_response else None,
        )
        judged.append((example, judgement))
    return judged


def label_score_pairs(
    judged: Sequence[tuple[Example, Judgement]], project: Project
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Collect the labels and scores, both (items,), that `project` extracts from the judgements."""
    rows = [projected for e, j in judged if (projected := project(e, j, 0.5)) is not None]
    table = np.concatenate(rows) if rows else np.zeros((0, 2))
    return table[:, 0] > 0, table[:, 1]


def fit_threshold(judged: Sequence[tuple[Example, Judgement]], level: str) -> float:
    """Return the threshold with the highest F1 at a level.

    Args:
        judged: The labelled validation examples, each with its judgement.
        level: "response" for F1 over responses, "token" for F1 over white-space tokens, or "span" for F1-Sp.

    Raises:
        InputError: No threshold can be fitted.
    """
    try:
        if level == "span":
            return threshold_for_f1_sp(judged)
        return threshold_for_f1(*label_score_pairs(judged, LABELLED_SCORES[level]))
    except UndefinedMetricError as error:
        raise InputError(f"no threshold can be fitted: {error.message}") from None


def f1_sp_in_model_tokens(sequences: EncodedExamples) -> Metric:
    """Make a metric that computes F1-Sp in the model's tokens, as CH-Wang et al. 2024 do (§4.3).

    The metric works only for these examples. `METRICS["f1_sp"]` counts words between spaces instead, independent
    of the model.
    """
    first = dict(zip(reversed(sequences.example_of.tolist()), reversed(sequences.encoded), strict=True))
    tokens = {
        sequences.examples[example_i].case.id: joined_tokens(encoded.spans) for example_i, encoded in first.items()
    }

    def project(example: Example, judgement: Judgement, threshold: float) -> Floats | None:
        aligned = characters(example, judgement)
        if aligned is None or example.case.id not in tokens:
            return None
        units = np.array([(t.start, t.end) for t in tokens[example.case.id]], dtype=np.int64).reshape(-1, 2)
        return coverage_rows(*aligned.spans(threshold), aligned.judged_units(units))

    definition = "F1-Sp: partial credit by the model's tokens; mean over spans"
    return replace(METRICS["f1_sp"], name="f1_sp_model_tokens", definition=definition, project=project)
