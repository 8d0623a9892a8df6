"""Measure how fluent a causal language model finds texts, by the logarithm of perplexity (the mean of -log p)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from veridical.inference.local_model import LocalModel
from veridical.inference.tokenization import special_tokens, tokenize_texts
from veridical_lab.models.encode import Encoded
from veridical_lab.models.runner import Runner


def mean_surprisal(model: LocalModel, texts: Sequence[str]) -> list[float]:
    """Average -log p over the tokens of each text, in nats. NaN for a text in which no token is predicted.

    A text that is longer than the model's limit is read in consecutive pieces. The results do not depend on which texts
    are run together (within 1e-5 in fp32).
    """
    before = special_tokens(model).before
    room = model.max_positions - len(before)
    encoded: list[Encoded] = []
    owners: list[int] = []
    for i, tokens in enumerate(tokenize_texts(model.tokenizer, texts)):
        for start in range(0, len(tokens.ids), room):
            piece = tokens.ids[start : start + room]
            encoded.append(Encoded((*before, *piece), len(before), (None,) * len(piece)))
            owners.append(i)
    sums = np.zeros((2, len(texts)))
    results = Runner(model).run(encoded)
    for owner, sequence, result in zip(owners, encoded, results, strict=True):
        logprob = np.full(1, np.nan) if result.logprob is None else result.logprob[sequence.scored_from :]
        sums[:, owner] += -logprob.astype(np.float64).sum(), len(logprob)
    with np.errstate(invalid="ignore", divide="ignore"):
        means: list[float] = (sums[0] / sums[1]).tolist()
    return means
