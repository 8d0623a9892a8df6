"""Train the layer of SummaC Conv on labels of whole responses (Laban et al. 2022, §4.2).

The layer is a logistic regression on the histogram of P(entailment) over the premises. In training, histograms are
averaged over the sentences of a response. In judging, the layer scores the histogram of a single sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from veridical.datasets.split import FRACTIONS, content_hash, split_by_document
from veridical.detectors.entailment.artifact import KIND
from veridical.detectors.entailment.comparison import compare
from veridical.detectors.entailment.forms import FORMS, Form, histograms
from veridical.detectors.entailment.scorers import ClassifierScorer, TokensScorer
from veridical.inference.artifact import Artifact
from veridical.inference.heads import LogisticLayer
from veridical.inference.saving import versions
from veridical.metrics.arrays import Bools, Floats
from veridical.metrics.ranking import roc_auc
from veridical.metrics.thresholding import pairs
from veridical.records.errors import InputError, MissingExtraError
from veridical.records.types import Example, Judgement, Level
from veridical_lab.models.saving import save_artifact

_STRENGTHS = (1.0, 0.1, 0.01, 0.001)  # scikit-learn's C


def train_summac(
    scorer: ClassifierScorer | TokensScorer,
    examples: Sequence[Example],
    form: Form | None = None,
    *,
    validation: Sequence[Example] | None = None,
    seed: int = 0,
    out: str | Path | None = None,
) -> Artifact:
    """Train a layer on a scorer's entailment probabilities. The regularisation is chosen on validation documents.

    Args:
        scorer: The cross-encoder, or a classifier of `veridical train tokens`.
        examples: The labelled cases with sources. Without `validation`, they are split 70/10/20 by document, and the
            test part is not used.
        form: Which texts to compare, and the number of histogram bins. Default: the form of "summac-conv".
        validation: Labelled cases of other documents, for choosing the regularisation.
        seed: The random seed for the split by document.
        out: Where to save the artifact. Default: it is not saved.

    Raises:
        InputError: Supported or hallucinated responses are missing in the training or the validation part.
        MissingExtraError: scikit-learn is not installed.
    """
    form = form or FORMS["summac-conv"]
    parts = split_by_document(examples, seed=seed)
    train, valid = (parts["train"], parts["valid"]) if validation is None else (list(examples), list(validation))
    tables = {name: _table(scorer, form, part) for name, part in (("train", train), ("valid", valid))}
    if any(len(set(labels.tolist())) < 2 for _, labels in tables.values()):
        raise InputError(
            "nothing can be learned: supported and hallucinated responses are needed in the training and the "
            "validation part",
            hint="give labelled data with sources, of more documents; see: veridical data list",
        )
    layer, auc = _fit(tables["train"], tables["valid"])
    training = {
        "data": content_hash([*train, *valid]),
        "examples": {name: len(labels) for name, (_, labels) in tables.items()},
        "fractions": dict(FRACTIONS) if validation is None else None,
        "seed": seed,
        "date": datetime.now(UTC).date().isoformat(),
        "versions": versions(),
    }
    figures = {"roc_auc": auc, "responses": len(tables["valid"][1])}
    settings = {"form": asdict(form), "labels": "|".join(scorer.roles)}
    tensors = {"weight": layer.weight, "bias": np.array([layer.bias])}
    artifact = Artifact(KIND, scorer.base, settings, tensors, training, figures)
    if out is not None:
        save_artifact(artifact, out)
    return artifact


def _table(scorer: ClassifierScorer | TokensScorer, form: Form, examples: Sequence[Example]) -> tuple[Floats, Bools]:
    """Compute the mean histogram of each response with a label, and the labels. *Shapes:* (rows, bins), (rows,)"""
    rows: list[Floats] = []
    labels: list[bool] = []
    for example, compared in zip(examples, compare(scorer, form, [e.case for e in examples]), strict=True):
        label = pairs(Level.RESPONSE, example, Judgement(example.case.id, "anybody", hallucination=0.0))
        if label is None or compared.matrix is None or not compared.matrix.is_read.any():
            continue
        rows.append(histograms(compared.matrix.entailment[compared.matrix.is_read], form.bins).mean(0))
        labels.append(bool(label[0, 0] > 0))
    return np.array(rows), np.array(labels, dtype=bool)


def _fit(train: tuple[Floats, Bools], valid: tuple[Floats, Bools]) -> tuple[LogisticLayer, float]:
    """Fit regressions with several strengths of regularisation. Return the best on `valid`, and its ROC AUC."""
    try:
        from sklearn.linear_model import LogisticRegression
    except ImportError as error:
        raise MissingExtraError("training SummaC's layer", "stats") from error
    rows, labels = train
    mean, spread = rows.mean(0), rows.std(0)
    spread[spread < 1e-9] = 1.0
    best: tuple[float, LogisticLayer] | None = None
    for strength in _STRENGTHS:
        model = LogisticRegression(C=strength, max_iter=5000).fit((rows - mean) / spread, labels)
        weight = model.coef_[0] / spread
        layer = LogisticLayer(weight, float(model.intercept_[0] - weight @ mean))
        auc = roc_auc(valid[1], layer.scores(valid[0]))
        if best is None or auc > best[0] + 1e-6:
            best = auc, layer
    assert best is not None
    return best[1], best[0]
