"""Provide what all analyses need: options, data sets prepared for one model, and objectives with labels.

An analysis computes the activations of a model on a data set only once. If you configure a folder for stores, all
analyses share the stored activations.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace

from veridical.inference.local_model import LocalModel
from veridical.models.base_model import base_of
from veridical.records.errors import InputError
from veridical_lab.bench.settings import BenchSettings, Loaded, load_data
from veridical_lab.models.sublayers import check_sublayers
from veridical_lab.probes.dataset import ProbeDataset, build_dataset
from veridical_lab.probes.options import ProbeConfig


@dataclass(frozen=True, slots=True)
class AnalysisConfig(ProbeConfig):
    """Options common to all analyses. They include the options of `ProbeConfig` for training.

    Attributes:
        store: A folder of stores, with one store for each model and data set. Default: activations are held in memory.
        split: The part of the published data to load. Default: all parts.
        sample: The number of documents to draw from each data set. Default: all documents.
        resamples: The number of bootstrap samples for each interval.
        level: The confidence level of intervals, in (0, 1).
        command: The command line to record.
    """

    split: str | None = None
    sample: int | None = None
    resamples: int = 1000
    level: float = 0.95
    command: str = ""

    @property
    def settings(self) -> BenchSettings:
        """These options as `bench` settings, because `bench` loads the data and measures."""
        return BenchSettings(
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
    """Read the examples of NAME:PATH, or of a sample of `config.sample` documents. `name` is used in results."""
    data = load_data(spec, config.settings)
    return replace(data, name=name or data.name)


def dataset_of(model: LocalModel, data: Loaded, config: AnalysisConfig) -> ProbeDataset:
    """Prepare `data` for `model`, split 70/10/20 by document. Raises `InputError` as `build_dataset` does."""
    store = None
    if config.store is not None:
        base = {k: v for k, v in asdict(base_of(model)).items() if k != "name"}
        sublayers = check_sublayers(model, config.sublayers)
        key = [base, data.hash, config.template, config.max_tokens, config.max_windows, sublayers, config.store_dtype]
        store = config.store / hashlib.sha256(json.dumps(key).encode()).hexdigest()[:12]
    return build_dataset(model, data.examples, config, name=data.name, split=data.split, store=store, with_test=True)


def objectives_of(dataset: ProbeDataset, config: AnalysisConfig) -> tuple[str, ...]:
    """Return the requested objectives, or all objectives that have labels.

    Raises:
        InputError: A requested objective has no labels.
    """
    labelled = []
    for objective in ("response", "token"):
        label, weight = dataset.labels.items(dataset.train, objective)
        if (label * weight).any():
            labelled.append(objective)
    objectives = config.objectives or tuple(labelled)
    missing = [o for o in objectives if o not in labelled]
    if missing or not objectives:
        unit = "spans" if missing == ["token"] else "responses"
        raise InputError(
            f"no {unit} of {dataset.name} are labelled as hallucinated in its training part",
            hint="F1-Sp needs labelled spans: --objective response" if unit == "spans" else "other data",
        )
    return objectives
