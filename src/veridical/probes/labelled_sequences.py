"""Labelled cases as sequences for forced decoding, and the label of each token and each response.

A response whose sources do not fit into the model is read in several windows: one sequence each. Its tokens' labels are
the same in all of them, each with its share of the weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from veridical.core.errors import CannotJudgeError, InputError
from veridical.core.types import Example, Judgement
from veridical.metrics.alignment import characters, response_pair
from veridical.models.encode import Encoded, encode
from veridical.models.load import LocalModel
from veridical.models.template import get_template

__all__ = ["Forced", "Labels", "force", "labels_of"]


@dataclass(frozen=True, slots=True, eq=False)
class Forced:
    """Examples as sequences: `encoded[i]` is (a window of) the example `example_of[i]`; `left_out` says what is not."""

    examples: Sequence[Example]
    encoded: list[Encoded]
    example_of: NDArray[np.int64]
    left_out: tuple[str, ...] = ()

    @property
    def lengths(self) -> NDArray[np.int64]:
        """How many response tokens each sequence has."""
        return np.array([len(e.spans) for e in self.encoded], dtype=np.int64)

    def sequences_of(self, examples: Sequence[int]) -> NDArray[np.int64]:
        """The sequences of these examples, in order."""
        return np.flatnonzero(np.isin(self.example_of, np.asarray(examples, dtype=np.int64)))


def force(
    model: LocalModel,
    examples: Sequence[Example],
    template: str = "general",
    *,
    max_tokens: int | None = None,
    max_windows: int | None = 1,
) -> Forced:
    """The examples as the model will read them; what has no token or does not fit is left out and told.

    Raises `InputError` if nothing is left.
    """
    get_template(template)
    encoded: list[Encoded] = []
    of: list[int] = []
    left_out: list[str] = []
    for i, example in enumerate(examples):
        try:
            made = encode(model, example.case, template, max_tokens=max_tokens, max_windows=max_windows)
        except CannotJudgeError as error:
            left_out.append(error.message)
            continue
        if made[0].spans:
            encoded += made
            of += [i] * len(made)
        else:
            left_out.append(f"case {example.case.id!r}: no token in the response")
    if not encoded:
        raise InputError(
            f"none of {len(examples)} examples can be read by {model.name!r}",
            hint=left_out[0] if left_out else "there are no examples",
        )
    return Forced(examples, encoded, np.array(of, dtype=np.int64), tuple(left_out))


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """1 = hallucinated; a weight of 0 = not labelled. `tokens[i]` and `token_weights[i]` are (tokens,) of sequence i.

    `responses` and `response_weights` are (sequences,).
    """

    tokens: list[NDArray[np.float32]]
    token_weights: list[NDArray[np.float32]]
    responses: NDArray[np.float32]
    response_weights: NDArray[np.float32]


def labels_of(forced: Forced) -> Labels:
    """The labels of every sequence, by overlap of its tokens (without the white space around them) with gold spans.

    A gold that calls a response hallucinated without saying where labels no token.
    """
    windows = np.bincount(forced.example_of, minlength=len(forced.examples))
    tokens, weights = [], []
    responses = np.zeros(len(forced.encoded), dtype=np.float32)
    response_weights = np.zeros(len(forced.encoded), dtype=np.float32)
    for i, (encoded, of) in enumerate(zip(forced.encoded, forced.example_of.tolist(), strict=True)):
        example = forced.examples[of]
        label, weight = _token_labels(example, encoded)
        tokens.append(label)
        weights.append(weight / np.float32(windows[of]))
        pair = response_pair(example, Judgement(example.case.id, "nobody", 0.0))
        if pair is not None:
            responses[i], response_weights[i] = pair[0], 1.0 / windows[of]
    return Labels(tokens, weights, responses, response_weights)


def _token_labels(example: Example, encoded: Encoded) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    count = len(encoded.spans)
    label, weight = np.zeros(count, dtype=np.float32), np.zeros(count, dtype=np.float32)
    found = characters(example, Judgement(example.case.id, "nobody", 0.0))
    if found is None:
        return label, weight
    marked, text = found.gold_mask(), found.text
    inked = np.array([not c.isspace() for c in text], dtype=bool)
    for j, span in enumerate(encoded.spans):
        if span is None:
            continue
        here = slice(span.start, span.end)
        weight[j] = (found.judged[here] & inked[here]).any()
        label[j] = (marked[here] & inked[here]).any()
    return label, weight
