"""Soft labels: what a larger classifier, the teacher, says of words and responses, mixed with the labels of the data.

A small classifier that is trained on them learns of every word how sure the larger one is, also where the data label
whole responses alone (Hinton, Vinyals and Dean 2015, "Distilling the knowledge in a neural network").
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from veridical.core.errors import DataError
from veridical.core.files import read_bytes, write_whole
from veridical.core.serialization import encode, read_documents
from veridical.core.types import Example, Judgement, Verdict
from veridical.detectors.tokens.detector import Tokens
from veridical.metrics.tokens import unit_labels
from veridical.training.checkpoint import TrainingStopped
from veridical.training.token_evaluation import response_target
from veridical.training.tokens import given_units

__all__ = ["mixed", "soft_labels", "teach"]

_SHARD = 256  # examples between two questions whether to end


def teach(teacher: Tokens, examples: Sequence[Example]) -> list[Judgement]:
    """What the teacher says of each response and its words: the probabilities of its heads, not calibrated.

    A word that its tokenizer does not know is not judged; neither is a response that it cannot read.
    """
    by = f"teacher/{teacher.fingerprint()['tokens']}"
    scored = teacher.score_units([e.case for e in examples], [given_units(e) for e in examples])
    judgements = []
    for example, one in zip(examples, scored, strict=True):
        known = np.isfinite(one.logits)
        if one.problem or not known.any():
            judgements.append(Judgement(example.case.id, by, judged=(), notes=(one.problem or "no word is known",)))
            continue
        spans = tuple(unit for unit, there in zip(one.units, known.tolist(), strict=True) if there)
        scores = _probabilities(one.logits[known])
        verdicts = tuple(Verdict(span, score) for span, score in zip(spans, scores, strict=True))
        (whole,) = _probabilities(np.array([one.whole]))
        judgements.append(Judgement(example.case.id, by, whole, verdicts=verdicts, judged=spans))
    return judgements


def _probabilities(logits: NDArray[np.float64]) -> list[float]:
    """To four digits, which keeps files short."""
    return [round(float(p), 4) for p in np.exp(-np.logaddexp(0.0, -logits))]


def mixed(example: Example, judgement: Judgement, weight: float) -> Example:
    """The example with soft labels: `weight` of the teacher's scores, the rest of its own labels.

    Where the data say nothing of a word, or of the response, the teacher's score counts alone; what it did not judge
    has no label. An example of which it judged nothing stays as it is.

    Args:
        example: A labelled example.
        judgement: What the teacher, or any detector, says of it.
        weight: From 0 to 1.
    """
    if judgement.judged == ():
        return example
    labels, known = unit_labels(example, [verdict.span for verdict in judgement.verdicts])
    weights = np.where(known, weight, 1.0).tolist()
    verdicts = tuple(
        replace(verdict, score=w * verdict.score + (1 - w) * label)
        for verdict, label, w in zip(judgement.verdicts, labels.tolist(), weights, strict=True)
    )
    whole, target = judgement.hallucination, response_target(example)
    if whole is not None and np.isfinite(target):
        whole = weight * whole + (1 - weight) * target
    return replace(example, gold=replace(judgement, hallucination=whole, verdicts=verdicts), annotations=())


def soft_labels(
    teacher: Tokens,
    sets: Mapping[str, Sequence[Example]],
    folder: Path,
    *,
    stop: Callable[[], bool] = lambda: False,
    progress: Callable[[str], None] = lambda line: None,
) -> tuple[dict[str, list[Judgement]], str]:
    """What the teacher says of each set's examples (`teach`), and the SHA-256 of all that.

    A set's judgements are written to `folder`/SET.jsonl, and read from there when they are there already.

    Args:
        teacher: The larger classifier.
        sets: The examples of each set by its name.
        folder: Where the judgements are kept.
        stop: Asked now and then whether to end; `TrainingStopped` is raised then, and whole sets are kept.
        progress: Called with a line of text per set.

    Raises:
        DataError: If a file holds the judgements of other examples or of another teacher.
    """
    folder.mkdir(parents=True, exist_ok=True)
    by = f"teacher/{teacher.fingerprint()['tokens']}"
    digest, found = hashlib.sha256(), {}
    for name, examples in sets.items():
        path = folder / f"{name}.jsonl"
        if not path.is_file():
            made: list[Judgement] = []
            for at in range(0, len(examples), _SHARD):
                if stop():
                    raise TrainingStopped(f"stopped before the soft labels of {name}", hint="the same command goes on")
                made += teach(teacher, examples[at : at + _SHARD])
            write_whole(path, "".join(f"{encode(judgement)}\n" for judgement in made))
            progress(f"{name}: soft labels of {len(made)} examples")
        judgements = [record for _, record in read_documents(path, "judgement")]
        if [(j.case_id, j.by) for j in judgements] != [(e.case.id, by) for e in examples]:
            raise DataError(
                "soft labels of other examples or of another teacher",
                path=path,
                hint="delete the file to make it again",
            )
        found[name] = judgements
        digest.update(read_bytes(path))
    return found, digest.hexdigest()
