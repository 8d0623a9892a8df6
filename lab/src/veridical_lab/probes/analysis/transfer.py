"""Train probes on each of N data sets and test them on all N (CH-Wang et al. 2024, Tables 6 and 8).

All probes read the same model. Thresholds are fitted on the validation part of the training set, so nothing is fitted
on the test set.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from veridical.datasets.split import document_of
from veridical.inference.local_model import LocalModel
from veridical.records.errors import InputError
from veridical_lab.probes.activations import ActivationStates, Indices
from veridical_lab.probes.analysis.dataset import AnalysisConfig, dataset_of, objectives_of, read_data
from veridical_lab.probes.analysis.results import Analysis, At, Recorder
from veridical_lab.probes.analysis.sublayer_probes import ALL_POSITIVE, SublayerProbes, all_positive, fit_sublayers
from veridical_lab.probes.dataset import ProbeDataset
from veridical_lab.probes.fitting import scores_of
from veridical_lab.probes.labelled_sequences import EncodedExamples, ProbeLabels

if TYPE_CHECKING:
    import torch


def analyse_transfer(
    model: LocalModel,
    data: Mapping[str, str],
    config: AnalysisConfig,
    *,
    mixtures: Sequence[str] = (),
    equal: bool = True,
) -> Analysis:
    """Train on every data set and mixture, and test on the test part of every data set.

    Args:
        model: The language model to probe.
        data: Two or more sets of labelled data (NAME:PATH), by name.
        config: The options of the analysis.
        mixtures: Also train on these even mixtures of data sets, written "a+b".
        equal: Whether to train on equally many responses of each set (Table 8), about as many as the smallest set has,
            in whole documents.

    Raises:
        InputError: Fewer than two sets have the same kind of labels, or a mixture names unknown sets.
    """
    if len(data) < 2:
        raise InputError(f"{len(data)} data set is named", hint="transfer takes two or more")
    for mixture in mixtures:
        members = mixture.split("+")
        if not set(members) <= set(data) or len(set(members)) < 2:
            raise InputError(f"the mixture {mixture!r} does not name data sets", hint=f"NAME+NAME of {', '.join(data)}")
    datasets = {name: dataset_of(model, read_data(spec, config, name), config) for name, spec in data.items()}
    objectives = {name: objectives_of(dataset, config) for name, dataset in datasets.items()}
    analysis = Analysis("transfer")
    records = {name: Recorder(analysis, model, dataset, config) for name, dataset in datasets.items()}
    for objective in ("response", "token"):
        usable = {name: datasets[name] for name in data if objective in objectives[name]}
        if len(usable) < 2:
            continue
        if len(usable) < len(datasets):
            without = ", ".join(sorted(set(datasets) - set(usable)))
            config.progress(f"{objective}: {without} has no such labels and is left out")
        count = min(len(d.labelled(d.train, objective)) for d in usable.values()) if equal else None
        for name in (*usable, *(m for m in mixtures if set(m.split("+")) <= set(usable))):
            trained = training_mixture(name, usable, objective, count, config.options.seed)
            config.progress(f"{objective}: training on {len(trained.train)} responses of {name}")
            fitted = fit_sublayers(trained, objective, config, equal=equal)
            _test_on_all(fitted, {test: records[test] for test in usable})
        for test, dataset in usable.items():
            at: At = {"objective": objective, "train": ALL_POSITIVE, "test": test}
            at |= {"view": ALL_POSITIVE, "sublayer": None}
            records[test].add(at, all_positive(dataset, objective))
    if not analysis.findings:
        raise InputError("fewer than two of the data sets have the same kind of labels", hint="responses, or spans")
    return analysis


def _test_on_all(fitted: SublayerProbes, records: Mapping[str, Recorder]) -> None:
    """Test the best sublayer and the ensemble of one training set on all test parts, and add the findings."""
    subsets = [fitted.single(fitted.best, "best sublayer"), fitted.ensemble() or fitted.single(0, "ensemble of all")]
    with_thresholds = [(subset, fitted.thresholds_of(subset)) for subset in subsets]
    for name, record in records.items():
        scores = scores_of(record.dataset.states, record.dataset.test, fitted.probes)
        for subset, thresholds in with_thresholds:
            at: At = {"objective": fitted.probes.objective, "train": fitted.dataset.name, "test": name}
            at |= {"view": subset.name, "sublayer": subset.sublayer}
            record.add(at, fitted.evaluate(subset, record.dataset, scores, thresholds), fitted.training)


def sample_documents(dataset: ProbeDataset, sequences: Indices, count: int, seed: int) -> Indices:
    """Draw at most `count` of `sequences`, in whole documents. The seed determines the order of documents."""
    by_document: dict[str, list[int]] = {}
    for i in sequences.tolist():
        name = document_of(dataset.sequences.examples[int(dataset.sequences.example_of[i])])
        by_document.setdefault(name, []).append(i)
    order = sorted(by_document, key=lambda n: hashlib.sha256(f"{seed}\0{n}".encode("utf-8", "surrogatepass")).digest())
    chosen: list[int] = []
    for name in order:
        if len(chosen) + len(by_document[name]) <= count:
            chosen += by_document[name]
    return np.sort(np.array(chosen, dtype=np.int64))


def training_mixture(
    name: str, datasets: Mapping[str, ProbeDataset], objective: str, count: int | None, seed: int
) -> ProbeDataset:
    """Build the training data for "a" or "a+b", with equally many labelled sequences from each data set.

    Args:
        name: The names of the data sets, joined by "+".
        datasets: The data sets by name.
        objective: What must be labelled, "token" or "response".
        count: The maximum number of training sequences in total. Default: the size of the smallest set for each set.
        seed: The random seed for drawing documents.

    Returns:
        A data set without a test part.
    """
    members = [datasets[part] for part in name.split("+")]
    train = [m.labelled(m.train, objective) for m in members]
    valid = [m.labelled(m.valid, objective) for m in members]
    if count is not None or len(members) > 1:
        count_each = min(len(part) for part in train) if count is None else count // len(members)
        train = [sample_documents(m, part, count_each, seed) for m, part in zip(members, train, strict=True)]
    if len(members) == 1:
        return replace(members[0], train=train[0], valid=valid[0])
    count_each = min(len(part) for part in valid)
    valid = [sample_documents(m, part, count_each, seed) for m, part in zip(members, valid, strict=True)]
    first_sequence = np.r_[0, np.cumsum([len(m.sequences.encoded) for m in members])].tolist()
    first_example = np.r_[0, np.cumsum([len(m.sequences.examples) for m in members])].tolist()
    sequences = EncodedExamples(
        [e for m in members for e in m.sequences.examples],
        [e for m in members for e in m.sequences.encoded],
        np.concatenate([m.sequences.example_of + f for m, f in zip(members, first_example, strict=False)]),
    )
    labels = ProbeLabels(
        [t for m in members for t in m.labels.tokens],
        [t for m in members for t in m.labels.token_weights],
        np.concatenate([m.labels.responses for m in members]),
        np.concatenate([m.labels.response_weights for m in members]),
    )
    return ProbeDataset(
        name=name,
        split=members[0].split,
        hash="+".join(m.hash for m in members),
        parts={},
        sequences=sequences,
        labels=labels,
        states=_ConcatenatedStates([m.states for m in members]),
        train=np.concatenate([ids + f for ids, f in zip(train, first_sequence, strict=False)]),
        valid=np.concatenate([ids + f for ids, f in zip(valid, first_sequence, strict=False)]),
        test=np.zeros(0, dtype=np.int64),
    )


class _ConcatenatedStates:
    """The concatenated states of several data sets. Each group is from one data set."""

    def __init__(self, parts: Sequence[ActivationStates]) -> None:
        self.parts = parts
        self.sublayers, self.width = parts[0].sublayers, parts[0].width
        self.lengths = np.concatenate([part.lengths for part in parts])
        self.starts = np.r_[0, np.cumsum([len(part.lengths) for part in parts])]
        self.groups = [group + s for part, s in zip(parts, self.starts, strict=False) for group in part.groups]

    def read(self, sequences: Indices, sublayers: Sequence[int]) -> torch.Tensor:
        part = int(np.searchsorted(self.starts, sequences[0], "right")) - 1
        return self.parts[part].read(sequences - self.starts[part], sublayers)
