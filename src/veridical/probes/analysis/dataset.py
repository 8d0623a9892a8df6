"""A labelled data set as one model reads it: activations, labels, and which sequences are for what.

The activations of a model on a data set are made once; with a folder for stores every analysis finds them there.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np

from veridical.bench.settings import Loaded, Settings, load
from veridical.core.errors import InputError, UnknownNameError
from veridical.datasets.split import content_hash, document_of, split_by_document
from veridical.models.artifact import base_of
from veridical.models.load import LocalModel
from veridical.models.probe_heads import OBJECTIVES
from veridical.models.template import get_template
from veridical.probes.activation_store import Store, as_size, write_store
from veridical.probes.activations import Ids, States, in_memory, run_states, sublayers_of
from veridical.probes.labelled_sequences import Forced, Labels, force, labels_of
from veridical.probes.probe_batch import Options

__all__ = ["Material", "Plan", "Say", "material_of", "objectives_of", "read_data"]

Say = Callable[[str], None]


def _nothing(line: str) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Plan:
    """What all analyses share: `options` but for the objective, which `objectives` lists (None: those that the data
    have labels for), how a case is read, where activations are kept, how figures are made and which seed.

    `store` is a folder of stores, one a model and data set; without it activations are held, up to `memory` bytes.
    """

    options: Options = field(default_factory=Options)
    objectives: tuple[str, ...] | None = None
    template: str = "general"
    sublayers: tuple[int, ...] | None = None
    max_tokens: int | None = None
    max_windows: int | None = 1
    store: Path | None = None
    store_dtype: str = "auto"
    memory: int = 2 << 30
    device: str = "cpu"
    split: str | None = None
    sample: int | None = None
    resamples: int = 1000
    level: float = 0.95
    command: str = ""
    say: Say = field(default=_nothing)

    def __post_init__(self) -> None:
        for objective in self.objectives or ():
            if objective not in OBJECTIVES:
                raise UnknownNameError("objective", objective, OBJECTIVES)
        if self.objectives == ():
            raise InputError("no objective is named", hint=", ".join(OBJECTIVES))
        get_template(self.template)

    @property
    def settings(self) -> Settings:
        """The same for rows of `bench`."""
        return Settings(
            (),
            (),
            split=self.split,
            resamples=self.resamples,
            level=self.level,
            seed=self.options.seed,
            command=self.command,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Material:
    """One data set under one model; `train`, `valid` and `test` are sequences of `forced`.

    `tests` holds the indices of all examples of the test part, those that could not be read among them.
    """

    data: Loaded
    forced: Forced
    labels: Labels
    states: States
    train: Ids
    valid: Ids
    test: Ids
    tests: Sequence[int]


def read_data(spec: str, plan: Plan, name: str | None = None) -> Loaded:
    """The examples of NAME:PATH, or those of `plan.sample` documents, none held back; rows call them `name`."""
    found = replace(load(spec, plan.settings), fitting=[])
    if plan.sample is not None:
        # by another hash than that of the division, which would put all into one part
        names = {document_of(e) for e in found.examples}
        chosen = set(sorted(names, key=lambda n: _hash(f"sample\0{plan.options.seed}\0{n}"))[: plan.sample])
        examples = [e for e in found.examples if document_of(e) in chosen]
        split = f"{plan.sample} documents" if found.split == "all" else f"{found.split}, {plan.sample} documents"
        found = replace(found, examples=examples, hash=content_hash(examples), split=split)
    return replace(found, name=name or found.name)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def material_of(model: LocalModel, data: Loaded, plan: Plan) -> Material:
    """`data` read by `model`, divided 70/10/20 by document; the model runs only where the store lacks something.

    Raises `InputError` for too few documents, or activations that are not finite or too large to hold.
    """
    parts = split_by_document(data.examples, seed=plan.options.seed)
    documents = {name: len({document_of(e) for e in part}) for name, part in parts.items()}
    if not all(documents.values()):
        raise InputError(
            f"{sum(documents.values())} documents in {data.name} are too few: {documents['train']} to train on, "
            f"{documents['valid']} to validate on, {documents['test']} to test on",
            hint="20 documents or more, or another seed",
        )
    forced = force(model, data.examples, plan.template, max_tokens=plan.max_tokens, max_windows=plan.max_windows)
    for line in (*forced.left_out[:3], f"{len(forced.left_out)} in all"):
        if forced.left_out:
            plan.say(f"not judged: {line}")
    ids = {name: {e.case.id for e in part} for name, part in parts.items()}
    at = {name: [i for i, e in enumerate(data.examples) if e.case.id in mine] for name, mine in ids.items()}
    sequences = {name: forced.sequences_of(found) for name, found in at.items()}
    states = _states(model, forced, data, plan)
    return Material(data, forced, labels_of(forced), states, **sequences, tests=at["test"])


def _states(model: LocalModel, forced: Forced, data: Loaded, plan: Plan) -> States:
    chosen = sublayers_of(model, plan.sublayers)
    if plan.store is not None:
        base = {k: v for k, v in asdict(base_of(model)).items() if k != "name"}
        parts = [base, data.hash, plan.template, plan.max_tokens, plan.max_windows, chosen, plan.store_dtype]
        key = _hash(json.dumps(parts))[:12]
        folder = plan.store / key
        write_store(folder, model, forced, sublayers=chosen, dtype=plan.store_dtype, say=plan.say)
        return Store(folder, memory=plan.memory)
    count = int(forced.lengths.sum())
    size = 4 * count * len(chosen) * base_of(model).width
    plan.say(f"activations: {count} tokens of {len(forced.encoded)} sequences = {as_size(size)}, held")
    if size > plan.memory:
        raise InputError(
            f"the activations take {as_size(size)}, more than the {as_size(plan.memory)} allowed",
            hint="keep them on disk (--store FOLDER), or choose sublayers",
        )
    return in_memory(run_states(model, forced, np.arange(len(forced.encoded)), chosen), forced.lengths, chosen)


def objectives_of(material: Material, plan: Plan) -> tuple[str, ...]:
    """The objectives asked for, or all that the data have labels for; `InputError` where one asked for has none."""
    labels, train = material.labels, material.train
    positive = {
        "response": bool((labels.responses[train] * labels.response_weights[train]).any()),
        "token": any(bool((labels.tokens[i] * labels.token_weights[i]).any()) for i in train.tolist()),
    }
    wanted = plan.objectives or tuple(o for o in ("response", "token") if positive[o])
    lacking = [o for o in wanted if not positive[o]]
    if lacking or not wanted:
        what = "spans" if lacking == ["token"] else "responses"
        raise InputError(
            f"no {what} of {material.data.name} are labelled as hallucinated in its training part",
            hint="F1-Sp needs labelled spans: --objective response" if what == "spans" else "other data",
        )
    return wanted
