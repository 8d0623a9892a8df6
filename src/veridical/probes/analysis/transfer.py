"""From one data set to another: N training sets by N test sets under one model (D Tables 6 and 8).

Thresholds come from the training set's own validation part: nothing of the test set is seen.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from veridical.core.errors import InputError
from veridical.datasets.split import document_of
from veridical.models.load import LocalModel
from veridical.probes.activations import Ids, States
from veridical.probes.analysis.dataset import Material, Plan, material_of, objectives_of, read_data
from veridical.probes.analysis.probing import Probing, best_and_all, flag_all, probe, threshold_for, trial_of
from veridical.probes.analysis.results import Analysis, At, finding_of
from veridical.probes.fitting import scores_of
from veridical.probes.labelled_sequences import Forced, Labels

__all__ = ["Course", "course_of", "drawn", "transfer"]


@dataclass(frozen=True, slots=True, eq=False)
class Course:
    """What one set of probes is trained on: one data set, or an even mixture of several."""

    name: str
    data_hash: str
    forced: Forced
    labels: Labels
    states: States
    train: Ids
    valid: Ids


class _Joined:
    """States of several data sets one after another; each group lies in one of them."""

    def __init__(self, parts: Sequence[States]) -> None:
        self.parts = parts
        self.sublayers, self.width = parts[0].sublayers, parts[0].width
        self.lengths = np.concatenate([part.lengths for part in parts])
        self.starts = np.r_[0, np.cumsum([len(part.lengths) for part in parts])]
        self.groups = [group + s for part, s in zip(parts, self.starts, strict=False) for group in part.groups]

    def read(self, sequences: Ids, sublayers: Sequence[int]):  # type: ignore[no-untyped-def]
        """See `States`."""
        k = int(np.searchsorted(self.starts, sequences[0], "right")) - 1
        return self.parts[k].read(sequences - self.starts[k], sublayers)


def _labelled(material: Material, sequences: Ids, objective: str) -> Ids:
    """Those of `sequences` that have a label."""
    labels = material.labels
    if objective == "response":
        return sequences[labels.response_weights[sequences] > 0]
    return np.array([i for i in sequences.tolist() if labels.token_weights[i].any()], dtype=np.int64)


def drawn(material: Material, sequences: Ids, count: int, seed: int) -> Ids:
    """At most `count` of `sequences`, whole documents in an order drawn by `seed`."""
    by_document: dict[str, list[int]] = {}
    for i in sequences.tolist():
        name = document_of(material.forced.examples[int(material.forced.example_of[i])])
        by_document.setdefault(name, []).append(i)
    order = sorted(by_document, key=lambda n: hashlib.sha256(f"{seed}\0{n}".encode("utf-8", "surrogatepass")).digest())
    taken: list[int] = []
    for name in order:
        if len(taken) + len(by_document[name]) <= count:
            taken += by_document[name]
    return np.sort(np.array(taken, dtype=np.int64))


def course_of(name: str, materials: Mapping[str, Material], objective: str, count: int | None, seed: int) -> Course:
    """The course "a" or "a+b": `count` labelled sequences to train on (None: all), the same share of each data set."""
    members = [materials[part] for part in name.split("+")]
    train = [_labelled(m, m.train, objective) for m in members]
    valid = [_labelled(m, m.valid, objective) for m in members]
    if count is not None or len(members) > 1:
        share = min(len(part) for part in train) if count is None else count // len(members)
        train = [drawn(m, part, share, seed) for m, part in zip(members, train, strict=True)]
    if len(members) > 1:
        share = min(len(part) for part in valid)
        valid = [drawn(m, part, share, seed) for m, part in zip(members, valid, strict=True)]
    if len(members) == 1:
        m = members[0]
        return Course(name, m.data.hash, m.forced, m.labels, m.states, train[0], valid[0])
    starts = np.r_[0, np.cumsum([len(m.forced.encoded) for m in members])].tolist()
    firsts = np.r_[0, np.cumsum([len(m.forced.examples) for m in members])].tolist()
    forced = Forced(
        [e for m in members for e in m.forced.examples],
        [e for m in members for e in m.forced.encoded],
        np.concatenate([m.forced.example_of + first for m, (first, _) in zip(members, pairwise(firsts), strict=True)]),
    )
    labels = Labels(
        [t for m in members for t in m.labels.tokens],
        [t for m in members for t in m.labels.token_weights],
        np.concatenate([m.labels.responses for m in members]),
        np.concatenate([m.labels.response_weights for m in members]),
    )
    moved = [np.concatenate([ids + s for ids, s in zip(part, starts, strict=False)]) for part in (train, valid)]
    hashes = "+".join(m.data.hash for m in members)
    return Course(name, hashes, forced, labels, _Joined([m.states for m in members]), *moved)


def transfer(
    model: LocalModel, specs: Mapping[str, str], plan: Plan, *, mixes: Sequence[str] = (), equal: bool = True
) -> Analysis:
    """Findings for every training set (and mixture "a+b") on the test part of every set in `specs` (name -> spec).

    With `equal` all are trained on as many responses as the smallest has, in whole documents (D Table 8). Raises
    `InputError` where fewer than two sets have the labels of any objective.
    """
    if len(specs) < 2:
        raise InputError(f"{len(specs)} data set is named", hint="transfer takes two or more")
    for mix in mixes:
        unknown = [part for part in mix.split("+") if part not in specs]
        if unknown or len(set(mix.split("+"))) < 2:
            raise InputError(f"the mixture {mix!r} does not name data sets", hint=f"NAME+NAME of {', '.join(specs)}")
    materials = {name: material_of(model, read_data(spec, plan, name), plan) for name, spec in specs.items()}
    having = {name: objectives_of(material, plan) for name, material in materials.items()}
    made = Analysis("transfer")
    for objective in ("response", "token"):
        usable = {name: materials[name] for name, found in having.items() if objective in found}
        if len(usable) < 2:
            continue
        if len(usable) < len(materials):
            plan.say(
                f"{objective}: {', '.join(sorted(set(materials) - set(usable)))} has no such labels and is left out"
            )
        mine = [mix for mix in mixes if set(mix.split("+")) <= set(usable)]
        _matrix(made, model, usable, [*usable, *mine], objective, plan, equal=equal)
    if not made.findings:
        raise InputError("fewer than two of the data sets have the same kind of labels", hint="responses, or spans")
    return made


def _matrix(
    made: Analysis,
    model: LocalModel,
    materials: Mapping[str, Material],
    courses: Sequence[str],
    objective: str,
    plan: Plan,
    *,
    equal: bool,
) -> None:
    least = min(len(_labelled(m, m.train, objective)) for m in materials.values()) if equal else None
    for name in courses:
        course = course_of(name, materials, objective, least, plan.options.seed)
        plan.say(f"{objective}: training on {len(course.train)} responses of {name}")
        about = {"data": name, "data_hash": course.data_hash, "equal": equal}
        found = probe(name, course.states, course.labels, course.train, course.valid, objective, plan, **about)
        _tests(made, model, materials, course, found, plan)
    for test, material in materials.items():
        at: At = {"objective": objective, "train": "flag all", "test": test, "view": "flag all", "sublayer": None}
        made.findings.append(finding_of("transfer", at, model, {}, flag_all(material, objective), plan))


def _tests(
    made: Analysis,
    model: LocalModel,
    materials: Mapping[str, Material],
    course: Course,
    found: Probing,
    plan: Plan,
) -> None:
    """The findings of one training on all test parts."""
    views = best_and_all(found, plan)
    thresholds = [threshold_for(view, found, course.forced) for view in views]
    for test, material in materials.items():
        each = scores_of(material.states, material.test, found.probes)
        for view, threshold in zip(views, thresholds, strict=True):
            trial = trial_of(view, found, each, threshold, material)
            sublayer = found.probes.sublayers[view.places[0]] if view.mix is None else None
            at: At = {"objective": found.probes.objective, "train": course.name, "test": test}
            at |= {"view": view.name, "sublayer": sublayer}
            made.findings.append(finding_of("transfer", at, model, found.training, trial, plan))
