"""Probes of all sublayers fitted once, and what each of them, or several together, says of a test part.

A `View` is one probe or an ensemble; `trial_of` is its trial on some material, in the form that `bench` makes rows of.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridical.bench.evaluation import Trial
from veridical.bench.settings import Loaded
from veridical.core.detector import DetectorInfo, info_of
from veridical.core.spans import Span
from veridical.core.types import Case, Judgement, Level, Verdict
from veridical.metrics.measure import Metric
from veridical.metrics.registry import METRICS
from veridical.models.probe_heads import Probes, from_tensors
from veridical.probes.activations import Ids, States
from veridical.probes.analysis.dataset import Material, Plan
from veridical.probes.evaluation import Each, best_f1, flat, judged, mixed, threshold_of
from veridical.probes.fitting import fit, scores_of
from veridical.probes.labelled_sequences import Forced, Labels

__all__ = [
    "HALVES",
    "Probing",
    "View",
    "best_and_all",
    "flag_all",
    "half_of",
    "headline",
    "metrics_of",
    "probe",
    "threshold_for",
    "trial_of",
    "views_of",
]

HALVES = ("attention", "feed-forward")
_METRICS = {"response": ("f1", "recall", "roc_auc"), "token": ("f1_sp", "token_f1", "word_roc_auc")}
_LEVEL = {"response": Level.RESPONSE, "token": Level.SPAN}


def half_of(sublayer: int) -> str:
    """Which half of its block a sublayer is."""
    return HALVES[sublayer % 2]


def headline(objective: str) -> str:
    """The paper's metric for an objective: F1-R of response-level probes, F1-Sp of token-level ones."""
    return _METRICS[objective][0]


def metrics_of(objective: str) -> dict[str, Metric]:
    """What is measured of probes with this objective."""
    return {name: METRICS[name] for name in _METRICS[objective]}


@dataclass(frozen=True, slots=True)
class View:
    """One probe (`places` has one index) or an ensemble of several with their `mix`."""

    name: str
    places: tuple[int, ...]
    half: str
    mix: Probes | None = None

    def scores(self, each: NDArray[np.float64]) -> NDArray[np.float64]:
        """The scores (tokens or 1,) that all probes' scores (probes, tokens or 1) come to."""
        if self.mix is None:
            return each[self.places[0]]
        return np.asarray(self.mix.combine(each[list(self.places)]), dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Probing:
    """Probes of all sublayers, fitted on `train` with `valid` to stop by; `each` holds their scores on both.

    `f1` is each probe's best F1 on the validation part, by token or response, (probes,).
    """

    probes: Probes
    name: str
    each: Each
    f1: NDArray[np.float64]
    labels: Labels
    train: Ids
    valid: Ids
    training: dict[str, Any]

    @property
    def chosen(self) -> int:
        """The place of the probe that is best on the validation part (the paper's SL)."""
        return int(np.argmax(self.f1))


def probe(
    name: str, states: States, labels: Labels, train: Ids, valid: Ids, objective: str, plan: Plan, **about: Any
) -> Probing:
    """The probes of all sublayers of `states`; `about` says what they were trained on."""
    options = replace(plan.options, objective=objective)
    begun = time.perf_counter()
    fitted = fit(states, labels, train, valid, options, device=plan.device, progress=plan.say)
    seconds = round(time.perf_counter() - begun, 2)
    each = scores_of(states, np.r_[train, valid], fitted.probes)
    scores, label, weight = flat(each, valid, labels, objective)
    f1 = np.array([best_f1(label, row, weight) for row in scores])
    training = {
        **about,
        "on": name,
        "objective": objective,
        "kind": options.kind,
        "sequences": {"train": len(train), "valid": len(valid)},
        "learning_rates": list(options.learning_rates),
        "batch_sizes": list(options.batch_sizes),
        "patience": options.patience,
        "max_epochs": options.max_epochs,
        "balanced": options.balanced,
        "template": plan.template,
        "max_tokens": plan.max_tokens,
        "seed": options.seed,
        "seconds": seconds,
    }
    return Probing(fitted.probes, name, each, f1, labels, train, valid, training)


def views_of(found: Probing, plan: Plan, *, halves: bool = True) -> list[View]:
    """A view for each sublayer, the ensembles of attention and of feed-forward alone (`halves`), and that of all."""
    sublayers = found.probes.sublayers
    views = [View(f"sublayer {s}", (i,), half_of(s)) for i, s in enumerate(sublayers)]
    groups = {half: tuple(i for i, s in enumerate(sublayers) if half_of(s) == half) for half in HALVES if halves}
    for half, places in (*groups.items(), ("all", tuple(range(len(sublayers))))):
        if len(places) > 1:
            views.append(View(f"ensemble of {half}", places, half, _mixed(found, places, plan)))
    return views


def best_and_all(found: Probing, plan: Plan) -> list[View]:
    """The sublayer that is best on validation (the paper's SL), and the ensemble of all (its E)."""
    best = found.chosen
    everything = tuple(range(len(found.probes.sublayers)))
    views = [View("best sublayer", (best,), half_of(found.probes.sublayers[best]))]
    return [*views, View("ensemble of all", everything, "all", _mixed(found, everything, plan))]


def _mixed(found: Probing, places: tuple[int, ...], plan: Plan) -> Probes:
    probes, picked = found.probes, list(places)
    tensors = {name: array[picked] for name, array in probes.tensors().items() if name != "mix"}
    chosen = from_tensors(probes.kind, probes.objective, tuple(probes.sublayers[i] for i in picked), tensors)
    each = {i: scores[picked] for i, scores in found.each.items()}
    options = replace(plan.options, objective=probes.objective)
    return mixed(chosen, each, found.labels, found.train, found.valid, options)


Trials = list[tuple[View, Trial]]


@dataclass(slots=True, eq=False)
class _Said:
    """A detector that says what it said before."""

    name: str
    info: DetectorInfo
    judgements: Mapping[str, Judgement]

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        return [self.judgements[case.id] for case in cases]


def _trial(name: str, material: Material, said: Mapping[str, Judgement], objective: str, threshold: float) -> Trial:
    data = material.data
    examples = [data.examples[i] for i in material.tests]
    split = "test part" if data.split == "all" else f"{data.split}, test part"
    tested = Loaded(data.name, split, examples, [], data.hash, data.levels, data.skipped)
    unread = {e.case.id: Judgement(e.case.id, name, judged=(), notes=("it could not be read",)) for e in examples}
    detector = _Said(name, DetectorInfo((_LEVEL[objective],)), {**unread, **said})
    judgements = detector.judge([e.case for e in examples])
    source = "f1 on the validation part of what was trained on"
    return Trial(detector, tested, judgements, {_LEVEL[objective]: threshold}, source, 0.0)


def threshold_for(view: View, found: Probing, forced: Forced) -> float:
    """The view's threshold, by F1 over the words or responses of the validation part (sequences of `forced`)."""
    scored = {i: view.scores(found.each[i]) for i in found.valid.tolist()}
    return threshold_of(judged(forced, scored, found.probes.objective), found.probes.objective)


def trial_of(view: View, found: Probing, each: Each, threshold: float, on: Material) -> Trial:
    """The view's trial on the test part of `on`, given all probes' scores on it."""
    objective = found.probes.objective
    name = f"{found.probes.kind} {objective} probe of {found.name}, {view.name}"
    scored = {i: view.scores(each[i]) for i in on.test.tolist()}
    made = judged(on.forced, scored, objective, by=name)
    return _trial(name, on, {e.case.id: j for e, j in made}, objective, threshold)


def renamed(trial: Trial, name: str) -> Trial:
    """The same trial under another name."""
    judgements = {e.case.id: j for e, j in zip(trial.data.examples, trial.judgements, strict=True)}
    return replace(trial, detector=_Said(name, info_of(trial.detector), judgements))


def flag_all(on: Material, objective: str) -> Trial:
    """The trial of flagging everything: the coin with the highest F1 (D §5.2), which a probe has to beat."""
    said = {}
    for i in on.tests:
        case = on.data.examples[i].case
        verdicts = (Verdict(Span(0, len(case.response)), 1.0),) if case.response else ()
        said[case.id] = Judgement(case.id, "flag all", 1.0, verdicts=verdicts)
    return _trial("flag all", on, said, objective, 0.5)
