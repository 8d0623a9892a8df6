"""Encode labelled cases as sequences for the model to read, with a label for each token and each response.

If the sources of a response do not fit into the model, they are read in several windows, and each window is a sequence.
In all windows, the tokens of the response have the same labels, and their weight is divided by the number of windows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from veridical.inference.local_model import LocalModel
from veridical.records.errors import CannotJudgeError, InputError
from veridical.records.spans import Span
from veridical.records.types import GOLD_THRESHOLD, Example, judged_spans
from veridical_lab.datasets.consensus import majority
from veridical_lab.metrics.unit_labels import unit_labels
from veridical_lab.models.encode import Encoded, encode


@dataclass(frozen=True, slots=True, eq=False)
class EncodedExamples:
    """Examples as token sequences for teacher forcing: the model reads the given response.

    Attributes:
        examples: All examples.
        encoded: The sequences.
        example_of: The index of the example of each sequence. *Shape:* (sequences,)
        skipped: For each example without a sequence, a line with the reason.
    """

    examples: Sequence[Example]
    encoded: list[Encoded]
    example_of: NDArray[np.int64]
    skipped: tuple[str, ...] = ()

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The number of response tokens of each sequence, (sequences,)."""
        return np.array([len(e.spans) for e in self.encoded], dtype=np.int64)

    def sequences_of(self, examples: Sequence[int]) -> NDArray[np.int64]:
        """Return the indices of the sequences of some examples, given by their indices, in order."""
        return np.flatnonzero(np.isin(self.example_of, np.asarray(examples, dtype=np.int64)))


def encode_examples(
    model: LocalModel,
    examples: Sequence[Example],
    template: str = "general",
    *,
    max_tokens: int | None = None,
    max_windows: int | None = 1,
) -> EncodedExamples:
    """Encode examples as inputs of a model.

    Args:
        model: The language model to probe.
        examples: The labelled cases.
        template: The name of the template that turns a case into a text for the model.
        max_tokens: The maximum number of tokens in a sequence. Default: the model's context length.
        max_windows: The maximum number of windows over long sources. None for no limit.

    Returns:
        The sequences. Examples that have no response token or are too long are in `skipped`, with the reason.

    Raises:
        InputError: No example can be encoded.
    """
    sequences: list[Encoded] = []
    example_of: list[int] = []
    skipped: list[str] = []
    for i, example in enumerate(examples):
        try:
            windows = encode(model, example.case, template, max_tokens=max_tokens, max_windows=max_windows)
        except CannotJudgeError as error:
            skipped.append(error.message)
            continue
        if windows[0].spans:
            sequences += windows
            example_of += [i] * len(windows)
        else:
            skipped.append(f"case {example.case.id!r}: no token in the response")
    if not sequences:
        raise InputError(
            f"none of {len(examples)} examples can be read by {model.name!r}",
            hint=skipped[0] if skipped else "there are no examples",
        )
    return EncodedExamples(examples, sequences, np.array(example_of, dtype=np.int64), tuple(skipped))


def with_token_consensus(example: Example, encoded: Encoded) -> Example:
    """Replace gold by a majority vote of the annotators on each token (CH-Wang et al. 2024, §3.3).

    A token is hallucinated if more than half of the annotators mark any part of it. Annotators who mark different parts
    of a token therefore agree. Examples with fewer than two annotators are not changed.
    """
    if len(example.annotations) < 2:
        return example
    tokens = [span for span in encoded.spans if span is not None]
    gold = majority(example.annotations, example.case, tokens=tokens)
    return replace(example, gold=replace(gold, by=f"{gold.by}, by token"))


@dataclass(frozen=True, slots=True, eq=False)
class ProbeLabels:
    """Labels of tokens and responses: 1 for hallucinated, 0 for not hallucinated. A weight of 0 means not labelled.

    Attributes:
        tokens: The labels of the tokens, as an array (tokens,) for each sequence.
        token_weights: The weights of these labels.
        responses: The label of each sequence's response. *Shape:* (sequences,)
        response_weights: The weights of these labels. *Shape:* (sequences,)
    """

    tokens: list[NDArray[np.float32]]
    token_weights: list[NDArray[np.float32]]
    responses: NDArray[np.float32]
    response_weights: NDArray[np.float32]

    def items(self, sequences: NDArray[np.int64], objective: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return labels and weights, (items,) each, of all tokens of `sequences` or of their responses."""
        if objective == "response":
            return self.responses[sequences], self.response_weights[sequences]
        none = np.zeros(0, dtype=np.float32)
        return (
            np.concatenate([none, *(self.tokens[i] for i in sequences.tolist())]),
            np.concatenate([none, *(self.token_weights[i] for i in sequences.tolist())]),
        )


def labels_of(sequences: EncodedExamples) -> ProbeLabels:
    """Label all tokens (by `metrics.unit_labels`) and responses from their gold.

    Examples whose gold is only about coverage get no labels.
    """
    windows = np.bincount(sequences.example_of, minlength=len(sequences.examples))
    tokens, token_weights = [], []
    responses = np.zeros(len(sequences.encoded), dtype=np.float32)
    response_weights = np.zeros(len(sequences.encoded), dtype=np.float32)
    for i, (encoded, example_i) in enumerate(zip(sequences.encoded, sequences.example_of.tolist(), strict=True)):
        example = sequences.examples[example_i]
        gold = example.gold
        only_coverage = gold.omission is not None or bool(gold.omissions)
        judges_response = gold.hallucination is not None or bool(gold.verdicts) or not only_coverage
        judged = judged_spans(example.case, gold) if judges_response else []
        if judged:
            score = gold.hallucination
            score = max((v.score for v in gold.verdicts), default=0.0) if score is None else score
            responses[i], response_weights[i] = score >= GOLD_THRESHOLD, 1.0 / windows[example_i]
        # a token without characters becomes an empty span, which has no label
        label, is_labelled = unit_labels(example, [span or Span(0, 0) for span in encoded.spans])
        tokens.append(label.astype(np.float32))
        token_weights.append(is_labelled.astype(np.float32) / np.float32(windows[example_i]))
    return ProbeLabels(tokens, token_weights, responses, response_weights)
