"""BERTScore (Zhang et al. 2020): precision, recall and F1 of greedy matches between contextual embeddings.

The numbers equal those of the package bert-score with the same encoder and layer, except for texts longer than the
encoder's limit: these are read in windows here, while bert-score cuts them. Chang et al. 2024, footnote 5, compare
responses with arguments by it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import log

import numpy as np

from veridical.core.errors import InputError
from veridical.models.encode import special_tokens
from veridical.models.load import LocalModel
from veridical_lab.detectors.align.encoding import TextStates, encode_texts
from veridical_lab.detectors.align.similarity import best_matches

__all__ = ["BertScore", "bert_score", "idf_weights"]


@dataclass(frozen=True, slots=True)
class BertScore:
    """Precision (of the candidate's tokens), recall (of the reference's) and their harmonic mean."""

    precision: float
    recall: float
    f1: float


def idf_weights(texts: Sequence[TextStates]) -> dict[int, float]:
    """Return the inverse document frequency of each token id: log((n + 1) / (texts with it + 1)) over n texts."""
    counts = Counter(int(id) for text in texts for id in np.unique(text.ids))
    return {id: log((len(texts) + 1) / (count + 1)) for id, count in counts.items()}


def bert_score(
    model: LocalModel,
    candidates: Sequence[str],
    references: Sequence[str],
    *,
    layer: int,
    idf: bool = False,
    baseline: tuple[float, float, float] | None = None,
) -> list[BertScore]:
    """Score each candidate against its reference.

    Args:
        model: An encoder.
        candidates: The texts whose tokens count for precision.
        references: As many texts, whose tokens count for recall.
        layer: The block whose output is compared, from 1 (bert-score's `num_layers`).
        idf: Whether to weight tokens by their inverse document frequency in `references`.
        baseline: The (precision, recall, F1) of unrelated texts; each score x becomes (x - b) / (1 - b).

    Raises:
        InputError: If the numbers of candidates and references differ, the model lacks the layer, or its states are
            not finite.
    """
    if len(candidates) != len(references):
        raise InputError(f"{len(candidates)} candidates but {len(references)} references")
    around = special_tokens(model)
    texts = list(dict.fromkeys(text.strip() for text in (*candidates, *references)))
    states = dict(zip(texts, encode_texts(model, texts, (layer,), specials=True), strict=True))
    weights = idf_weights([states[text.strip()] for text in references]) if idf else {}
    unseen = log(len(references) + 1) if idf else 1.0
    if not idf:
        weights = dict.fromkeys((*around.before, *around.after), 0.0)
    scores = []
    for candidate, reference in zip(candidates, references, strict=True):
        a, b = states[candidate.strip()], states[reference.strip()]
        if a.problem or b.problem:
            raise InputError(f"{model.name} cannot read a text: {a.problem or b.problem}")
        if not candidate.strip() or not reference.strip():
            values = [0.0, 0.0, 0.0]
        else:
            matches = best_matches(a.states[0], b.states[0], k=1)
            wa, wb = (np.array([weights.get(int(id), unseen) for id in side.ids]) for side in (a, b))
            precision = float(matches.cosines[:, 0] @ wa / wa.sum()) if wa.any() else float("nan")
            recall = float(matches.column_cosines @ wb / wb.sum()) if wb.any() else float("nan")
            values = [precision, recall, 2 * precision * recall / (precision + recall)]
            if np.isnan(values).any():  # all weights are 0, for example if all references are equal
                values = [0.0 if np.isnan(value) else value for value in values]
        if baseline is not None:
            values = [(value - low) / (1 - low) for value, low in zip(values, baseline, strict=True)]
        scores.append(BertScore(*values))
    return scores
