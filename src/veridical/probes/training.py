"""Probes trained on a model's hidden states and labelled cases, as an artifact that the detector `probe` reads.

Chwang et al. 2024, sections 4 and 5.1: forced decoding, a probe for each sublayer, the best one or a logistic
regression over all of them once they are frozen, thresholds by F1 on the validation part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridical.core.errors import InputError, UnknownNameError
from veridical.core.types import Example, Judgement
from veridical.datasets.split import FRACTIONS, content_hash, document_of, split_by_document
from veridical.detectors.local.probe import Head
from veridical.metrics import UndefinedMetricError
from veridical.metrics.calibration import fit_platt
from veridical.metrics.registry import METRICS
from veridical.models.artifact import Artifact, base_of, save_artifact, versions
from veridical.models.load import LocalModel
from veridical.models.probe_heads import OBJECTIVES, Probes
from veridical.models.template import get_template
from veridical.probes.activation_store import Store, as_size, write_store
from veridical.probes.activations import Ids, States, Streamed, in_memory, run_states, sublayers_of
from veridical.probes.evaluation import best_f1, flat, judged, level_of, mixed, pairs_of, threshold_of
from veridical.probes.fitting import Fitted, fit, scores_of
from veridical.probes.labelled_sequences import Forced, Labels, force, labels_of
from veridical.probes.probe_batch import Options

__all__ = ["SELECTIONS", "Plan", "Trained", "train_probe"]

SELECTIONS = ("ensemble", "best")


@dataclass(frozen=True, slots=True)
class Plan:
    """What to train: `options` but for the objective, which `objectives` lists; and on which activations.

    `select`: all sublayers in an ensemble, or the best single one on validation. `store` keeps the activations in a
    folder (as `store_dtype`); without it they are held in memory up to `memory` bytes, or made anew every epoch with
    `stream`. `max_windows` is how many windows over long sources are read (None: all).
    """

    options: Options = field(default_factory=Options)
    objectives: tuple[str, ...] = OBJECTIVES
    select: str = "ensemble"
    template: str = "general"
    sublayers: tuple[int, ...] | None = None
    max_tokens: int | None = None
    max_windows: int | None = 1
    store: Path | None = None
    store_dtype: str = "auto"
    stream: bool = False
    memory: int = 2 << 30
    calibrate: bool = False
    device: str = "cpu"

    def __post_init__(self) -> None:
        if self.select not in SELECTIONS:
            raise UnknownNameError("selection", self.select, SELECTIONS)
        for objective in self.objectives:
            if objective not in OBJECTIVES:
                raise UnknownNameError("objective", objective, OBJECTIVES)
        if not self.objectives:
            raise InputError("no objective is named", hint=", ".join(OBJECTIVES))


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """The artifact, and all probes of each objective with their grid and losses, by sublayer."""

    artifact: Artifact
    fitted: dict[str, Fitted]


def train_probe(
    model: LocalModel,
    examples: Sequence[Example],
    plan: Plan | None = None,
    *,
    out: str | Path | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Trained:
    """Probes of `model` trained on `examples`, saved in `out` where it is given.

    Documents are divided 70/10/20 (`datasets.split`, by the options' seed); the test part is not looked at. Raises
    `InputError` for too few documents, a part with labels of one class, activations that are not finite or too large.
    """
    plan = plan or Plan()
    parts = split_by_document(examples, seed=plan.options.seed)
    documents = {name: len({document_of(e) for e in part}) for name, part in parts.items()}
    if not (documents["train"] and documents["valid"]):
        raise InputError(
            f"{sum(documents.values())} documents are too few: {documents['train']} to train on, "
            f"{documents['valid']} to validate on",
            hint="20 documents or more, or another seed",
        )
    used = [*parts["train"], *parts["valid"]]
    forced = force(model, used, plan.template, max_tokens=plan.max_tokens, max_windows=plan.max_windows)
    for line in (*forced.left_out[:3], f"{len(forced.left_out)} in all"):
        if forced.left_out:
            say(f"left out: {line}")
    train = forced.sequences_of(range(len(parts["train"])))
    valid = forced.sequences_of(range(len(parts["train"]), len(used)))
    material = _Material(_states(model, forced, plan, say), labels_of(forced), forced, train, valid)
    settings: dict[str, Any] = {"template": plan.template, "max_tokens": plan.max_tokens}
    settings["template_digest"] = get_template(plan.template).digest
    settings |= {"max_windows": plan.max_windows, "select": plan.select, "heads": {}}
    tensors: dict[str, NDArray[Any]] = {}
    fitted: dict[str, Fitted] = {}
    validation: dict[str, Any] = {}
    for objective in plan.objectives:
        options = replace(plan.options, objective=objective)
        fitted[objective], probes, table = _train(material, options, plan, say)
        settings["heads"][objective], metrics = _finish(probes, material, plan.calibrate)
        tensors |= {f"{objective}.{name}": array for name, array in probes.tensors().items()}
        validation[objective] = {**metrics, "sublayers": table}
        shown = ", ".join(f"{k} {v:.3f}" for k, v in metrics.items() if isinstance(v, float))
        say(f"{objective}, on validation: {shown}")
    training = {
        "data": content_hash(examples),
        "examples": {name: len(part) for name, part in parts.items()},
        "documents": documents,
        "fractions": dict(FRACTIONS),
        "left_out": len(forced.left_out),
        "seed": plan.options.seed,
        "options": _json({k: v for k, v in asdict(plan.options).items() if k != "objective"}),
        "store_dtype": plan.store_dtype if plan.store else None,
        "versions": versions(),
    }
    artifact = Artifact("probe", base_of(model), settings, tensors, training, validation)
    if out is not None:
        save_artifact(artifact, out)
    return Trained(artifact, fitted)


@dataclass(frozen=True, slots=True, eq=False)
class _Material:
    """What all trainings of one run share: activations, labels, and which sequences are for what."""

    states: States
    labels: Labels
    forced: Forced
    train: Ids
    valid: Ids


def _json(options: dict[str, Any]) -> dict[str, Any]:
    return {k: list(v) if isinstance(v, tuple) else v for k, v in options.items()}


def _states(model: LocalModel, forced: Forced, plan: Plan, say: Callable[[str], None]) -> States:
    """The activations as the plan wants them; their size is said before the model runs."""
    if plan.store is not None:
        write_store(plan.store, model, forced, sublayers=plan.sublayers, dtype=plan.store_dtype, say=say)
        return Store(plan.store, memory=plan.memory)
    chosen = sublayers_of(model, plan.sublayers)
    streamed = Streamed(model, forced, chosen, memory=plan.memory)
    size = 4 * int(forced.lengths.sum()) * len(chosen) * streamed.width
    say(
        f"activations: {int(forced.lengths.sum())} tokens of {len(forced.encoded)} sequences x {len(chosen)} "
        f"sublayers x {streamed.width} in fp32 = {as_size(size)}, {'made anew every epoch' if plan.stream else 'held'}"
    )
    if plan.stream:
        return streamed
    if size > plan.memory:
        raise InputError(
            f"the activations take {as_size(size)}, more than the {as_size(plan.memory)} allowed",
            hint="keep them in a store (--store FOLDER), make them anew every epoch (--stream), or choose sublayers",
        )
    everything = np.arange(len(forced.encoded))
    return in_memory(run_states(model, forced, everything, chosen), forced.lengths, chosen)


# --- one probe or all -----------------------------------------------------------------------------------------------


def _train(
    material: _Material, options: Options, plan: Plan, say: Callable[[str], None]
) -> tuple[Fitted, Probes, list[dict[str, Any]]]:
    """All probes; the chosen ones with their mix; and what each sublayer came to on validation (its best F1)."""
    states, labels, train, valid = material.states, material.labels, material.train, material.valid
    fitted = fit(states, labels, train, valid, options, device=plan.device, progress=say)
    probes = fitted.probes
    each = scores_of(states, np.r_[train, valid], probes)
    scores, label, weight = flat(each, valid, labels, options.objective)
    f1s = [best_f1(label, row, weight) for row in scores]
    table = [
        {
            "sublayer": s,
            "f1": round(f, 6),
            "loss": round(float(fitted.loss[i]), 6),
            "learning_rate": float(fitted.learning_rate[i]),
            "batch_size": int(fitted.batch_size[i]),
            "epochs": int(fitted.epochs[i]),
        }
        for i, (s, f) in enumerate(zip(probes.sublayers, f1s, strict=True))
    ]
    best = probes.sublayers[int(np.argmax(f1s))]
    say(f"the best sublayer by {options.objective} is {best}: F1 {max(f1s):.3f} on validation")
    if plan.select == "best":
        return fitted, probes.only(best), table
    return fitted, mixed(probes, each, labels, train, valid, options), table


# --- thresholds -----------------------------------------------------------------------------------------------------


def _finish(probes: Probes, material: _Material, calibrate: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """The settings of a head, and its metrics on the validation part, both in the units that the detector judges in."""
    level = level_of(probes.objective)
    made = _judged(Head(probes, 0.5), material)
    calibration = None
    if calibrate:
        calibration = fit_platt(*pairs_of(made, level)).parameters()
        made = _judged(Head(probes, 0.5, calibration), material)
    threshold = threshold_of(made, probes.objective)
    settings = {
        "kind": probes.kind,
        "sublayers": list(probes.sublayers),
        "mix_bias": float(probes.mix_bias),
        "threshold": threshold,
        "calibration": calibration,
    }
    metrics: dict[str, Any] = {"threshold": threshold, "n": len(made)}
    wanted = ("f1", "roc_auc") if probes.objective == "response" else ("f1", "roc_auc", "f1_sp", "token_f1", level)
    for name in wanted:
        rows = [r for e, j in made if (r := METRICS[name].rows(e, j, threshold)) is not None]
        try:
            metrics[name] = float(METRICS[name].value(np.concatenate(rows))) if rows else None
        except UndefinedMetricError:
            metrics[name] = None
    return settings, metrics


def _judged(head: Head, material: _Material) -> list[tuple[Example, Judgement]]:
    """What the detector will say of the validation part, from the activations at hand."""
    found = scores_of(material.states, material.valid, head.probes)
    scored = {i: head.calibrated(head.probes.combine(each)) for i, each in found.items()}
    return judged(material.forced, scored, head.probes.objective)
