"""Prepare labelled examples for probes of one model: split by document, encode, label, and compute activations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from veridical.datasets.split import content_hash, document_of, split_by_document
from veridical.inference.local_model import LocalModel
from veridical.records.errors import InputError
from veridical.records.types import Example
from veridical_lab.models.runner import Runner
from veridical_lab.models.sublayers import check_sublayers
from veridical_lab.probes.activation_store import ActivationStore, write_store
from veridical_lab.probes.activations import (
    ActivationStates,
    Indices,
    RecomputedStates,
    as_size,
    compute_states,
    in_memory,
)
from veridical_lab.probes.labelled_sequences import (
    EncodedExamples,
    ProbeLabels,
    encode_examples,
    labels_of,
    with_token_consensus,
)
from veridical_lab.probes.options import ProbeConfig, TrainingConfig

REPORTED = 256  # sequences between two lines of progress


@dataclass(frozen=True, slots=True, eq=False)
class ProbeDataset:
    """A data set that is ready to train and test probes of one model.

    Attributes:
        name: The name of the data set in results.
        split: The part of the published set that was loaded.
        hash: The `content_hash` of all examples.
        parts: The examples of "train", "valid" and "test", including those that could not be encoded.
        sequences: The token sequences that the model reads.
        labels: The labels of tokens and responses.
        states: The activations.
        train: The indices of the sequences of the training part.
        valid: The indices of the sequences of the validation part.
        test: The indices of the sequences of the test part. Empty if the test part was not requested.
    """

    name: str
    split: str
    hash: str
    parts: dict[str, list[Example]]
    sequences: EncodedExamples
    labels: ProbeLabels
    states: ActivationStates
    train: Indices
    valid: Indices
    test: Indices

    @property
    def documents(self) -> dict[str, int]:
        """The number of documents in each part."""
        return {name: len({document_of(e) for e in part}) for name, part in self.parts.items()}

    def labelled(self, sequences: Indices, objective: str) -> Indices:
        """Return the `sequences` with a labelled response or, for the objective "token", any labelled token."""
        if objective == "response":
            return sequences[self.labels.response_weights[sequences] > 0]
        return np.array([i for i in sequences.tolist() if self.labels.token_weights[i].any()], dtype=np.int64)


def build_dataset(
    model: LocalModel,
    examples: Sequence[Example],
    config: ProbeConfig,
    *,
    name: str = "the data",
    split: str = "all",
    store: Path | None = None,
    with_test: bool = False,
) -> ProbeDataset:
    """Split examples 70/10/20 by document, encode and label them, and compute their activations.

    Args:
        model: The language model to probe.
        examples: The labelled cases.
        config: How to encode the examples, and where to keep activations.
        name: The name of the data in messages and results.
        split: The part of the published set that `examples` are.
        store: A folder for the activations of this data set. The model runs only for activations that are missing
            there. Default: activations are held in memory.
        with_test: Whether to encode the test part as well. Training does not use it.

    Raises:
        InputError: There are too few documents, or activations are not finite or too large to hold.
    """
    parts = split_by_document(examples, seed=config.options.seed)
    documents = {part: len({document_of(e) for e in members}) for part, members in parts.items()}
    purposes = {"train": "to train on", "valid": "to validate on"} | ({"test": "to test on"} if with_test else {})
    if not all(documents[part] for part in purposes):
        counts = ", ".join(f"{documents[part]} {purpose}" for part, purpose in purposes.items())
        raise InputError(
            f"{sum(documents.values())} documents in {name} are too few: {counts}",
            hint="20 documents or more, or another seed",
        )
    used = list(examples) if with_test else [*parts["train"], *parts["valid"]]
    sequences = encode_examples(
        model, used, config.template, max_tokens=config.max_tokens, max_windows=config.max_windows
    )
    if sequences.skipped:
        for line in (*sequences.skipped[:3], f"{len(sequences.skipped)} in all"):
            config.progress(f"not used: {line}")
    part_of = {id(e): part for part, members in parts.items() for e in members}
    ids = {
        part: sequences.sequences_of([i for i, e in enumerate(used) if part_of[id(e)] == part])
        for part in ("train", "valid", "test")
    }
    if config.token_consensus:
        consensus = {
            id(used[i]): with_token_consensus(used[i], encoded)
            for i, encoded in zip(sequences.example_of.tolist(), sequences.encoded, strict=True)
        }
        parts = {name: [consensus.get(id(e), e) for e in part] for name, part in parts.items()}
        sequences = replace(sequences, examples=[consensus.get(id(e), e) for e in used])
    states = _load_states(model, sequences, config, store)
    return ProbeDataset(name, split, content_hash(examples), parts, sequences, labels_of(sequences), states, **ids)


def _load_states(
    model: LocalModel, sequences: EncodedExamples, config: ProbeConfig, store: Path | None
) -> ActivationStates:
    """Report the size of activations, then provide them from a store, from memory, or by running the model."""
    import torch

    chosen = check_sublayers(model, config.sublayers)
    if store is not None:
        write_store(store, model, sequences, sublayers=chosen, dtype=config.store_dtype, progress=config.progress)
        return ActivationStore(store, memory=config.memory)
    stream = isinstance(config, TrainingConfig) and config.stream
    recomputed = RecomputedStates(model, sequences, chosen, memory=config.memory)
    size = 4 * int(sequences.lengths.sum()) * len(chosen) * recomputed.width
    config.progress(
        f"activations: {int(sequences.lengths.sum())} tokens of {len(sequences.encoded)} sequences x {len(chosen)} "
        f"sublayers x {recomputed.width} in fp32 = {as_size(size)}, "
        + ("computed again in every epoch" if stream else "held in memory")
    )
    if stream:
        return recomputed
    if size > config.memory:
        raise InputError(
            f"the activations take {as_size(size)}, more than the {as_size(config.memory)} allowed",
            hint="keep them on disk (--store FOLDER), choose fewer sublayers, or (in training) --stream",
        )
    runner, number = Runner(model), len(sequences.encoded)
    states = []
    for start in range(0, number, REPORTED):
        some = np.arange(start, min(start + REPORTED, number))
        states.append(compute_states(runner, sequences, some, chosen))
        config.progress(f"activations: {some[-1] + 1} of {number} sequences")
    return in_memory(torch.cat(states, 1), sequences.lengths, chosen)
