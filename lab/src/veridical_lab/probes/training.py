"""Train probes on the hidden states of a model, and save them for the detector `probe`.

The training follows CH-Wang et al. 2024, §4 and §5.1. The model reads labelled responses (teacher forcing), and each
sublayer gets a probe. You can use the best probe, or combine all probes with a logistic regression. Thresholds are
chosen by F1 on the validation part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridical.datasets.split import FRACTIONS
from veridical.inference.artifact import Artifact
from veridical.inference.local_model import LocalModel
from veridical.inference.saving import versions
from veridical.inference.template import get_template
from veridical.metrics import UndefinedMetricError
from veridical.metrics.calibrators import fit_platt
from veridical.models.base_model import base_of
from veridical.records.types import Example
from veridical_lab.detectors.local.probe_settings import ProbeHeadSettings, ProbeSettings
from veridical_lab.metrics.registry import METRICS
from veridical_lab.models.probe_heads import Head, Probes
from veridical_lab.models.saving import save_artifact
from veridical_lab.probes.dataset import ProbeDataset, build_dataset
from veridical_lab.probes.evaluation import Judged, best_f1_each, fit_threshold, judgements_of, label_score_pairs
from veridical_lab.probes.fitting import FittedProbes, fit, fit_ensemble, scores_of
from veridical_lab.probes.options import TrainingConfig


@dataclass(frozen=True, slots=True, eq=False)
class TrainedProbe:
    """The artifact, and for each objective the probes of all sublayers with their hyper-parameters and losses."""

    artifact: Artifact
    fitted: dict[str, FittedProbes]


def train_probe(
    model: LocalModel,
    examples: Sequence[Example],
    config: TrainingConfig | None = None,
    *,
    out: str | Path | None = None,
) -> TrainedProbe:
    """Train probes on a model's hidden states with labelled cases.

    The cases are split 70/10/20 by document (`datasets.split`, with the seed of the options). The test part is unused.

    Args:
        model: The language model to probe.
        examples: The labelled cases.
        config: The options of training and activations.
        out: Where to save the artifact. Default: it is not saved.

    Raises:
        InputError: There are too few documents, all labels in a part are of one class, or activations are not finite or
            too large to hold.
    """
    config = config or TrainingConfig()
    data = build_dataset(model, examples, config, store=config.store)
    heads: dict[str, ProbeHeadSettings] = {}
    tensors: dict[str, NDArray[Any]] = {}
    fitted: dict[str, FittedProbes] = {}
    validation: dict[str, Any] = {}
    for objective in config.objectives:
        fitted[objective], probes, table = _fit_objective(data, objective, config)
        heads[objective], metrics = _validate(probes, data, config)
        tensors |= {f"{objective}.{name}": array for name, array in probes.tensors().items()}
        validation[objective] = {**metrics, "sublayers": table}
        shown = ", ".join(f"{k} {v:.3f}" for k, v in metrics.items() if isinstance(v, float))
        config.progress(f"{objective}, on validation: {shown}")
    options = {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(config.options).items() if k != "objective"}
    training = {
        "data": data.hash,
        "examples": {name: len(part) for name, part in data.parts.items()},
        "documents": data.documents,
        "fractions": dict(FRACTIONS),
        "left_out": len(data.sequences.skipped),
        "seed": config.options.seed,
        "options": options,
        "token_consensus": config.token_consensus,
        "threshold_metric": config.threshold_metric,
        "store_dtype": config.store_dtype if config.store else None,
        "versions": versions(),
    }
    settings = ProbeSettings(
        template=config.template,
        template_digest=get_template(config.template).digest,
        max_tokens=config.max_tokens,
        max_windows=config.max_windows,
        select=config.select,
        heads=heads,
    )
    artifact = Artifact("probe", base_of(model), settings.to_json(), tensors, training, validation)
    if out is not None:
        save_artifact(artifact, out)
    return TrainedProbe(artifact, fitted)


def _fit_objective(
    data: ProbeDataset, objective: str, config: TrainingConfig
) -> tuple[FittedProbes, Probes, list[dict[str, Any]]]:
    """Fit the probes of all sublayers.

    Return all probes, the selected probes (the best one, or all with their ensemble), and a row of validation figures
    for each sublayer.
    """
    options = replace(config.options, objective=objective)
    fitted = fit(
        data.states, data.labels, data.train, data.valid, options, device=config.device, progress=config.progress
    )
    probes = fitted.probes
    scores = scores_of(data.states, np.r_[data.train, data.valid], probes)
    f1s = best_f1_each(scores, data.valid, data.labels, objective)
    table = [
        {
            "sublayer": sublayer,
            "f1": round(float(f1), 6),
            "loss": round(float(fitted.loss[i]), 6),
            "learning_rate": float(fitted.learning_rate[i]),
            "batch_size": int(fitted.batch_size[i]),
            "epochs": int(fitted.epochs[i]),
        }
        for i, (sublayer, f1) in enumerate(zip(probes.sublayers, f1s, strict=True))
    ]
    best = probes.sublayers[int(np.argmax(f1s))]
    config.progress(f"the best sublayer by {objective} is {best}: F1 {max(f1s):.3f} on validation")
    if config.select == "best":
        return fitted, probes.only(best), table
    return fitted, fit_ensemble(probes, scores, data.labels, data.train, data.valid, options), table


def _validate(probes: Probes, data: ProbeDataset, config: TrainingConfig) -> tuple[ProbeHeadSettings, dict[str, Any]]:
    """Fit threshold and calibration on the validation part. Return the settings of a head and its metrics there."""
    objective = probes.objective
    ranking = "roc_auc" if objective == "response" else "word_roc_auc"
    scores = {i: probes.combine(each) for i, each in scores_of(data.states, data.valid, probes).items()}

    def judged(head: Head) -> Judged:
        calibrated = {i: head.calibrated(score) for i, score in scores.items()}
        return judgements_of(data.sequences, calibrated, objective)

    judgements = judged(Head(probes, 0.5))
    calibration = None
    if config.calibrate:
        calibration = fit_platt(*label_score_pairs(judgements, METRICS[ranking].project)).parameters()
        judgements = judged(Head(probes, 0.5, calibration))
    level = METRICS["f1" if objective == "response" else config.threshold_metric].level
    threshold = fit_threshold(judgements, level)
    settings = ProbeHeadSettings(probes.kind, list(probes.sublayers), float(probes.mix_bias), threshold, calibration)
    metrics: dict[str, Any] = {"threshold": threshold, "n": len(judgements)}
    for name in ("f1", "roc_auc") if objective == "response" else ("f1", "roc_auc", "f1_sp", "token_f1", ranking):
        rows = [r for e, j in judgements if (r := METRICS[name].rows(e, j, threshold)) is not None]
        try:
            metrics[name] = float(METRICS[name].value(np.concatenate(rows))) if rows else None
        except UndefinedMetricError:
            metrics[name] = None
    return settings, metrics
