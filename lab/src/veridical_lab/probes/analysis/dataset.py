"""What analyses share: their options, the data sets as one model processes them, and which objectives have labels.

The activations of a model on a data set are computed once; with a folder for stores every analysis finds them there.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace

from veridical.core.errors import InputError
from veridical.models.artifact import base_of
from veridical.models.load import LocalModel
from veridical_lab.bench.settings import Loaded, Settings, load_data
from veridical_lab.probes.activations import check_sublayers
from veridical_lab.probes.dataset import ProbeDataset, build_dataset
from veridical_lab.probes.options import ProbeConfig

__all__ = ["AnalysisConfig", "dataset_of", "objectives_of", "read_data"]


@dataclass(frozen=True, slots=True)
class AnalysisConfig(ProbeConfig):
    """What all analyses share, beside what they share with training.

    Attributes:
        store: A folder of stores, one per model and data set; None: activations are held in memory.
        split: The part of the published data to load; None: all.
        sample: How many documents of each data set are used; None: all.
        resamples: Bootstrap samples per interval.
        level: The level of intervals.
        command: The command line, for the record.
    """

    split: str | None = None
    sample: int | None = None
    resamples: int = 1000
    level: float = 0.95
    command: str = ""

    @property
    def settings(self) -> Settings:
        """The same for `bench`, which loads data and measures."""
        return Settings(
            (),
            (),
            split=self.split,
            sample=self.sample,
            resamples=self.resamples,
            level=self.level,
            seed=self.options.seed,
            command=self.command,
        )


def read_data(spec: str, config: AnalysisConfig, name: str | None = None) -> Loaded:
    """The examples of NAME:PATH, or of as many documents as `config.sample` says; results call them `name`."""
    data = load_data(spec, config.settings)
    return replace(data, name=name or data.name)


def dataset_of(model: LocalModel, data: Loaded, config: AnalysisConfig) -> ProbeDataset:
    """`data` as `model` processes it, split 70/10/20 by document; `InputError` as `build_dataset` raises it."""
    store = None
    if config.store is not None:
        base = {k: v for k, v in asdict(base_of(model)).items() if k != "name"}
        sublayers = check_sublayers(model, config.sublayers)
        key = [base, data.hash, config.template, config.max_tokens, config.max_windows, sublayers, config.store_dtype]
        store = config.store / hashlib.sha256(json.dumps(key).encode()).hexdigest()[:12]
    return build_dataset(model, data.examples, config, name=data.name, split=data.split, store=store, with_test=True)


def objectives_of(dataset: ProbeDataset, config: AnalysisConfig) -> tuple[str, ...]:
    """The objectives asked for, or all that the data have labels for; `InputError` where one asked for has none."""
    labelled = []
    for objective in ("response", "token"):
        label, weight = dataset.labels.items(dataset.train, objective)
        if (label * weight).any():
            labelled.append(objective)
    objectives = config.objectives or tuple(labelled)
    missing = [o for o in objectives if o not in labelled]
    if missing or not objectives:
        what = "spans" if missing == ["token"] else "responses"
        raise InputError(
            f"no {what} of {dataset.name} are labelled as hallucinated in its training part",
            hint="F1-Sp needs labelled spans: --objective response" if what == "spans" else "other data",
        )
    return objectives
