"""Compute the probabilities that the parts of the sources entail the texts to check, as one matrix for each case.

The matrix has a row for each hypothesis (a text to check, such as a sentence of the response) and a column for each
premise (a part of the sources, such as a chunk of a few sentences).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from veridical.detectors.claims.claims import nothing_to_check
from veridical.detectors.entailment.forms import Floats, Form, hypotheses_of, premises_of
from veridical.detectors.entailment.scorers import PairScorer
from veridical.records.types import Case, Claim, SourceSpan


@dataclass(frozen=True, slots=True, eq=False)
class Matrix:
    """The class probabilities for all pairs of texts of one case. *Shape:* (hypotheses, premises) for each array.

    A hypothesis is a text to check, such as a sentence of the response. A premise is a part of the sources.

    Attributes:
        entailment: The probability in [0, 1] that the premise entails the hypothesis. NaN if the hypothesis has no
            tokens.
        contradiction: The probability in [0, 1] that the premise contradicts the hypothesis. None if the model has no
            class for contradiction.
        read: The number of characters of the hypothesis that the model processed. Fewer than all if it is too long.
        whole: True where the model processed the complete premise.
    """

    entailment: Floats
    contradiction: Floats | None
    read: NDArray[np.int64]
    whole: NDArray[np.bool_]

    @property
    def is_read(self) -> NDArray[np.bool_]:
        """A mask of the hypotheses that have probabilities. *Shape:* (hypotheses,)"""
        return np.asarray(np.isfinite(self.entailment).all(axis=1))


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """A case with its texts to check (hypotheses), the parts of its sources (premises), and their probabilities.

    Attributes:
        case: The case.
        hypotheses: The texts to check, with their spans in the response.
        premises: The spans of the sources.
        matrix: The probabilities of all pairs. None if there is nothing to compare.
        problem: The reason why there is no matrix.
    """

    case: Case
    hypotheses: tuple[Claim, ...] = ()
    premises: tuple[SourceSpan, ...] = ()
    matrix: Matrix | None = None
    problem: str | None = None


def compare(scorer: PairScorer, form: Form, cases: Sequence[Case]) -> list[Compared]:
    """Compute the entailment probabilities of each case, for every pair of a text to check and a part of the sources.

    The pairs of all cases are scored in one call. The result has one `Compared` for each case. If a case has nothing to
    check or no sources, its `Compared` has no matrix, and `problem` says why.

    Args:
        scorer: The scorer for pairs of texts.
        form: The published method, which determines how responses and sources are split.
        cases: The cases.
    """
    texts: list[tuple[tuple[Claim, ...], list[SourceSpan]]] = []
    pairs: list[tuple[str, str]] = []
    problems = [nothing_to_check(case) for case in cases]
    for case, problem in zip(cases, problems, strict=True):
        if problem:
            texts.append(((), []))
            continue
        premises = premises_of(case.sources, form, scorer.most_words, scorer.count)
        texts.append((hypotheses_of(case.response, form), premises))
        shown = [premise.span.of(case.source(premise.source_id).text) for premise in premises]
        pairs += [(text, claim.text) for claim in texts[-1][0] for text in shown]
    scores = scorer.score(pairs) if pairs else None
    compared, end = [], 0
    for case, problem, (hypotheses, premises) in zip(cases, problems, texts, strict=True):
        shape = len(hypotheses), len(premises)
        part = slice(end, end + shape[0] * shape[1])
        end = part.stop
        if problem or scores is None:
            compared.append(Compared(case, problem=problem))
            continue
        contradiction = None if scores.contradiction is None else scores.contradiction[part].reshape(shape)
        read, whole = scores.read[part].reshape(shape), scores.whole[part].reshape(shape)
        matrix = Matrix(scores.entailment[part].reshape(shape), contradiction, read, whole)
        compared.append(Compared(case, hypotheses, tuple(premises), matrix))
    return compared
