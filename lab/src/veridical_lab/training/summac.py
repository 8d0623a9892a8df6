"""Train the layer of SummaC Conv on labels of whole responses (Laban et al. 2022, §4.2).

A logistic regression reads the histogram of P(entailment) over the premises, averaged over the sentences of a response.
Applied to the histogram of one sentence, it gives that sentence's score.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from veridical.calibration.thresholding import pairs
from veridical.core.errors import InputError
from veridical.core.types import Example, Judgement, Level
from veridical.datasets.split import FRACTIONS, content_hash, split_by_document
from veridical.detectors.entailment.artifact import TrainedLayer, layer_artifact
from veridical.detectors.entailment.comparison import compare
from veridical.detectors.entailment.forms import FORMS, Form, histograms
from veridical.detectors.entailment.scorers import ClassifierScorer, TokensScorer
from veridical.models.artifact import Artifact, save_artifact, versions
from veridical_lab.training.align import LabelledRows, fit_head

__all__ = ["train_summac"]


def train_summac(
    scorer: ClassifierScorer | TokensScorer,
    examples: Sequence[Example],
    form: Form | None = None,
    *,
    validation: Sequence[Example] | None = None,
    seed: int = 0,
    out: str | Path | None = None,
) -> Artifact:
    """Train a layer on the probabilities of `scorer`; validation documents choose its regularisation.

    Args:
        scorer: The cross-encoder, or a classifier of `veridical train tokens`.
        examples: Labelled cases with sources. Without `validation` they are split by document 70/10/20; the last part
            is not used.
        form: The texts to compare, and the number of bins.
        validation: Labelled cases of other documents, to choose the regularisation.
        seed: Random seed of the split by document.
        out: The folder to save the artifact in; None: do not save it.

    Raises:
        InputError: If the training or the validation part lacks responses of one class.
        MissingExtraError: If scikit-learn is not installed.
    """
    form = form or FORMS["summac-conv"]
    parts = split_by_document(examples, seed=seed)
    train, valid = (parts["train"], parts["valid"]) if validation is None else (list(examples), list(validation))
    tables = {name: _table(scorer, form, part) for name, part in (("train", train), ("valid", valid))}
    if not all(table.learnable for table in tables.values()):
        raise InputError(
            "nothing can be learned: supported and hallucinated responses are needed in the training and the "
            "validation part",
            hint="give labelled data with sources, of more documents; see: veridical data list",
        )
    layer, auc = fit_head(tables["train"], tables["valid"])
    training = {
        "data": content_hash([*train, *valid]),
        "examples": {name: len(table.label) for name, table in tables.items()},
        "fractions": dict(FRACTIONS) if validation is None else None,
        "seed": seed,
        "date": datetime.now(UTC).date().isoformat(),
        "versions": versions(),
    }
    figures = {"roc_auc": auc, "responses": len(tables["valid"].label)}
    artifact = layer_artifact(TrainedLayer(scorer.base, form, "|".join(scorer.roles), layer), training, figures)
    if out is not None:
        save_artifact(artifact, out)
    return artifact


def _table(scorer: ClassifierScorer | TokensScorer, form: Form, examples: Sequence[Example]) -> LabelledRows:
    """Return the mean histogram and the label of each response that has both."""
    table = LabelledRows()
    for example, compared in zip(examples, compare(scorer, form, [e.case for e in examples]), strict=True):
        label = pairs(Level.RESPONSE, example, Judgement(example.case.id, "anybody", hallucination=0.0))
        if label is None or compared.matrix is None or not compared.matrix.known.any():
            continue
        counts = histograms(compared.matrix.entailment[compared.matrix.known], form.bins)
        table.add(counts.mean(0, keepdims=True), label[:, 0] > 0)
    return table
