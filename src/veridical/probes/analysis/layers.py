"""F1-R and F1-Sp by sublayer, and the first that reaches 95 % of the peak (D Figures 2 and 4).

All 2L probes come out of one training.
"""

from __future__ import annotations

from dataclasses import replace

from veridical.bench.compare import Comparison, pair_of
from veridical.models.load import LocalModel
from veridical.probes.analysis.dataset import Material, Plan, material_of, objectives_of, read_data
from veridical.probes.analysis.peaks import peaks_of
from veridical.probes.analysis.probing import (
    HALVES,
    Probing,
    Trials,
    View,
    flag_all,
    probe,
    renamed,
    threshold_for,
    trial_of,
    views_of,
)
from veridical.probes.analysis.results import Analysis, At, finding_of
from veridical.probes.fitting import scores_of

__all__ = ["NOWHERE", "layers", "place_of", "probed"]


def probed(material: Material, objective: str, plan: Plan, *, halves: bool = True) -> tuple[Probing, Trials]:
    """The probes fitted on the training part of `material`, and the trial of each view of them on its test part."""
    about = {"data": material.data.name, "data_hash": material.data.hash}
    found = probe(
        material.data.name, material.states, material.labels, material.train, material.valid, objective, plan, **about
    )
    each = scores_of(material.states, material.test, found.probes)
    views = views_of(found, plan, halves=halves)
    return found, [
        (view, trial_of(view, found, each, threshold_for(view, found, material.forced), material)) for view in views
    ]


def place_of(view: View, found: Probing, objective: str) -> At:
    """Where a view stands in plots and tables."""
    one = view.mix is None
    sublayer = found.probes.sublayers[view.places[0]] if one else None
    layer = None if sublayer is None else sublayer // 2 + 1
    return {"objective": objective, "view": view.name, "half": view.half, "layer": layer, "sublayer": sublayer}


NOWHERE: At = {"objective": "", "view": "flag all", "half": "none", "layer": None, "sublayer": None}


def layers(model: LocalModel, spec: str, plan: Plan) -> Analysis:
    """Findings for each sublayer, for ensembles of each half and of all, and for flagging everything; and the peaks.

    Raises `InputError` for data with labels of one class only, or without the labels that an objective needs.
    """
    material = material_of(model, read_data(spec, plan), plan)
    made = Analysis("layers")
    for objective in objectives_of(material, plan):
        found, trials = probed(material, objective, plan)
        floor = flag_all(material, objective)
        for view, trial in trials:
            at = place_of(view, found, objective)
            made.findings.append(finding_of("layers", at, model, found.training, trial, plan))
        at = {**NOWHERE, "objective": objective}
        made.findings.append(finding_of("layers", at, model, {}, floor, plan))
        made.peaks.extend(peaks_of("layers", found, trials, floor, plan, {}))
        made.comparisons.extend(_halves(trials, objective, plan))
    return made


def _halves(trials: Trials, objective: str, plan: Plan) -> list[Comparison]:
    """The ensembles of attention and of feed-forward on the same cases (D §6, "Hidden State Type")."""
    both = [renamed(trial, f"{view.name}, {objective}") for view, trial in trials if view.mix and view.half in HALVES]
    if len(both) < 2:
        return []
    metrics = ("f1", "roc_auc") if objective == "response" else ("token_f1", "word_roc_auc")
    pairs = [pair_of(both[0], both[1], metric, plan.settings) for metric in metrics]
    return [replace(pair, p_bonferroni=pair.p) for pair in pairs]  # one pair a metric
