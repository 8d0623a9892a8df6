"""Train a linear classifier on word features for the detector `features`.

This follows Liu et al. 2022, §4: a logistic regression or a support vector machine on features of the marked phrase,
trained for at most 100 iterations, with early stopping after 5 iterations without a lower loss. Both use standardised
features and stochastic gradient descent (scikit-learn). Regularisation, calibration and thresholds are chosen on
validation documents.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridical.datasets.split import FRACTIONS, content_hash, document_of, split_by_document
from veridical.inference.heads import LinearClassifier
from veridical.inference.local_model import LocalModel
from veridical.inference.saving import versions
from veridical.inference.template import get_template
from veridical.metrics import UndefinedMetricError
from veridical.metrics.arrays import Floats
from veridical.metrics.ranking import roc_auc
from veridical.metrics.thresholding import threshold_fitter
from veridical.models.base_model import base_of
from veridical.records.errors import InputError, MissingExtraError, UnknownNameError
from veridical.records.spans import Span
from veridical.records.types import Example
from veridical.text.segment import words
from veridical.workflows.calibration import CalibrationOptions, fit_scale
from veridical_lab.detectors.features.detector import TrainedFeatures
from veridical_lab.detectors.features.extraction import FeatureExtractor, FeatureSettings, TokenScores
from veridical_lab.detectors.features.settings import CLASSIFIERS, CONTEXTS, KIND, DetectorSettings
from veridical_lab.detectors.features.statistics import WordStatistics, count_words
from veridical_lab.detectors.features.tagger import load_tagger
from veridical_lab.metrics.unit_labels import labelled_phrase, unit_labels
from veridical_lab.models.encode import default_template
from veridical_lab.models.saving import write_folder

LABEL_UNITS = ("auto", "word", "phrase")
MAX_ITERATIONS = 100  # Liu et al. 2022, §4
PATIENCE = 5  # iterations without a lower loss, ibid.
_STRENGTHS = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
_LOSSES = {"lr": "log_loss", "svm": "hinge"}
_BATCH = 256


@dataclass(frozen=True, slots=True)
class FeatureOptions:
    """Options for training a feature detector.

    Attributes:
        classifier: "lr" (logistic regression) or "svm".
        features: The names of the features. `probability` is adapted to the kind of language model.
        tagger: "rules" or "spacy:PIPELINE".
        unit: What a label applies to: each "word", or the judged part of a response as one "phrase" (HaDes). "auto"
            takes the phrase if gold judges a single short one, and words otherwise.
        balanced: Whether to give both classes the same total weight.
        criterion: The criterion by which thresholds are chosen on the validation part
            (`metrics.thresholding.CRITERIA`).
        seed: The random seed for the split by document and the gradient descent.
    """

    classifier: str = "lr"
    features: FeatureSettings = field(default_factory=FeatureSettings)
    tagger: str = "rules"
    unit: str = "auto"
    balanced: bool = True
    criterion: str = "f1"
    seed: int = 0

    def __post_init__(self) -> None:
        for what, value, allowed in (
            ("classifier", self.classifier, CLASSIFIERS),
            ("unit", self.unit, LABEL_UNITS),
            ("context", self.features.context, CONTEXTS),
        ):
            if value not in allowed:
                raise UnknownNameError(what, value, allowed)
        threshold_fitter(self.criterion)
        load_tagger(self.tagger)
        if self.features.template is not None:
            get_template(self.features.template)


@dataclass(frozen=True, slots=True)
class Inputs:
    """Inputs for computing features, besides the cases.

    Attributes:
        model: A causal or masked language model. Default: none, and no features that need a model.
        statistics: Word counts. Default: the words of the training documents are counted.
        token_scores: The scores of the generator's tokens, by case.
        progress: Called with lines of text that report progress.
    """

    model: LocalModel | None = None
    statistics: WordStatistics | None = None
    token_scores: TokenScores | None = None
    progress: Callable[[str], None] = lambda line: None


@dataclass(frozen=True, slots=True, eq=False)
class FeatureTable:
    """Features and labels of the units (words or phrases) of several examples.

    Attributes:
        names: The names of the features.
        values: The features, NaN where a unit lacks one. *Shape:* (units, features)
        labels: Whether each unit is hallucinated. *Shape:* (units,)
        example: The index of each unit's example. *Shape:* (units,)
        left_out: The number of examples that could not be used, by reason.
    """

    names: tuple[str, ...]
    values: Floats
    labels: NDArray[np.bool_]
    example: NDArray[np.int64]
    left_out: dict[str, int]


def labelled_units(example: Example, unit: str) -> tuple[list[Span], list[bool]]:
    """Return the words of a response that gold judges, and whether each word is hallucinated.

    If gold judges only a phrase, return the phrase instead. If gold marks no spans, both results are empty.
    """
    judged = example.gold.judged
    phrase = labelled_phrase(example) if unit == "auto" else None
    if phrase is not None:
        spans = [phrase]
    else:
        spans = list(judged) if unit == "phrase" and judged is not None else words(example.case.response)
    labels, is_judged = unit_labels(example, spans)
    return [span for span, flag in zip(spans, is_judged, strict=True) if flag], (labels[is_judged] > 0).tolist()


def feature_table(extractor: FeatureExtractor, examples: Sequence[Example], unit: str = "auto") -> FeatureTable:
    """Extract the features and labels of all units of `examples`. `unit` is one of `LABEL_UNITS`."""
    rows: list[Floats] = []
    labels: list[bool] = []
    owners: list[int] = []
    left_out: dict[str, int] = {}
    for first in range(0, len(examples), _BATCH):
        batch = examples[first : first + _BATCH]
        marked = [labelled_units(example, unit) for example in batch]
        results = extractor.extract([example.case for example in batch], [spans for spans, _ in marked])
        for i, (extracted, (spans, gold)) in enumerate(zip(results, marked, strict=True), first):
            problem = extracted.problem or (None if spans else "no label marks words")
            if problem is not None:
                left_out[problem] = left_out.get(problem, 0) + 1
                continue
            has_values = ~np.all(np.isnan(extracted.values), axis=1)
            rows.append(extracted.values[has_values])
            labels += [label for label, usable in zip(gold, has_values.tolist(), strict=True) if usable]
            owners += [i] * int(has_values.sum())
    names = extractor.settings.names
    values = np.concatenate(rows) if rows else np.zeros((0, len(names)))
    return FeatureTable(names, values, np.array(labels, dtype=bool), np.array(owners, dtype=np.int64), left_out)


def train_features(
    examples: Sequence[Example],
    options: FeatureOptions | None = None,
    inputs: Inputs | None = None,
    *,
    validation: Sequence[Example] | None = None,
    out: str | Path | None = None,
) -> TrainedFeatures:
    """Train a classifier of words (or phrases) on their features.

    Args:
        examples: The labelled cases. Without `validation`, they are split 70/10/20 by document (`datasets.split`), and
            the test part is not used.
        options: How to train.
        inputs: The language model, word statistics and token scores.
        validation: Labelled cases of other documents, for choosing regularisation, calibration and thresholds.
        out: Where to save the detector. Default: it is not saved.

    Raises:
        InputError: A part lacks labels of one class, or the features do not correlate with the labels.
        MissingExtraError: scikit-learn is not installed, or an extra that the model or the tagger needs is not.
    """
    options, inputs = options or FeatureOptions(), inputs or Inputs()
    parts = split_by_document(examples, seed=options.seed)
    train, valid = (parts["train"], parts["valid"]) if validation is None else (list(examples), list(validation))
    extractor = make_extractor(train, options, inputs)
    tables = {}
    for name, part in (("training", train), ("validation", valid)):
        inputs.progress(f"features of the {name} part: {len(part)} responses")
        table = tables[name] = feature_table(extractor, part, options.unit)
        if len(set(table.labels.tolist())) < 2:
            reasons = "".join(f"; {count} left out: {reason}" for reason, count in table.left_out.items())
            raise InputError(
                f"the {name} part has {len(table.labels)} labelled words or phrases, not of both classes{reasons}",
                hint="give more documents, or another seed",
            )
    classifier, strength = fit_classifier(tables["training"], tables["validation"], options)
    settings, figures = fit_settings(classifier, tables["validation"], valid, extractor, options)
    shown = ", ".join(f"{name} {value:.3f}" for name, value in figures.items() if isinstance(value, float))
    inputs.progress(f"on validation: {shown}")
    training = {
        "data": content_hash([*train, *valid]),
        "examples": {"train": len(train), "valid": len(valid)},
        "documents": {n: len({document_of(e) for e in part}) for n, part in (("train", train), ("valid", valid))},
        "fractions": dict(FRACTIONS) if validation is None else None,
        "units": {name: len(table.labels) for name, table in tables.items()},
        "left_out": {name: table.left_out for name, table in tables.items()},
        "unit": options.unit,
        "regularisation": strength,
        "balanced": options.balanced,
        "criterion": options.criterion,
        "seed": options.seed,
        "max_iterations": MAX_ITERATIONS,
        "patience": PATIENCE,
        "date": datetime.now(UTC).date().isoformat(),
        "versions": versions(),
    }
    base = None if inputs.model is None else base_of(inputs.model)
    trained = TrainedFeatures(settings, classifier, extractor.statistics, base, training, figures)
    if out is not None:
        save_features(trained, out)
    return trained


def make_extractor(train: Sequence[Example], options: FeatureOptions, inputs: Inputs) -> FeatureExtractor:
    """Build the extractor for the options. If there are no word statistics, the training texts are counted first."""
    model = inputs.model
    probability = None if model is None else "masked" if model.kind == "masked" else "causal"
    template = options.features.template
    if probability == "causal" and template is None and model is not None:
        template = default_template(model)
    token_scores = inputs.token_scores is not None
    features = replace(options.features, probability=probability, template=template, token_scores=token_scores)
    statistics = inputs.statistics
    if statistics is None:
        texts = dict.fromkeys(text for e in train for text in (e.case.response, *(s.text for s in e.case.sources)))
        inputs.progress(f"word statistics of {len(texts)} training texts")
        statistics = count_words(texts)
    return FeatureExtractor(features, load_tagger(options.tagger), statistics, model, inputs.token_scores)


def fit_classifier(train: FeatureTable, valid: FeatureTable, options: FeatureOptions) -> tuple[LinearClassifier, float]:
    """Fit classifiers at several regularisation strengths. Return the best by ROC AUC on `valid`, and its strength."""
    try:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import SGDClassifier
    except ImportError:
        raise MissingExtraError("training a feature detector", "stats") from None
    plain = LinearClassifier.standardising(train.values)
    rows = plain.standardise(train.values)
    best, best_auc, best_strength = plain, -1.0, 0.0
    for strength in _STRENGTHS:
        model = SGDClassifier(
            loss=_LOSSES[options.classifier],
            alpha=strength,
            max_iter=MAX_ITERATIONS,
            n_iter_no_change=PATIENCE,
            tol=1e-4,
            average=True,
            class_weight="balanced" if options.balanced else None,
            random_state=options.seed,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the limit on iterations is intended
            model.fit(rows, train.labels)
        fitted = replace(
            plain, weights=model.coef_[0].astype(np.float64), intercept=model.intercept_.astype(np.float64)
        )
        auc = roc_auc(valid.labels, fitted.decide(valid.values))
        if auc > best_auc + 1e-6:
            best, best_auc, best_strength = fitted, auc, strength
    return best, best_strength


def fit_settings(
    classifier: LinearClassifier,
    table: FeatureTable,
    examples: Sequence[Example],
    extractor: FeatureExtractor,
    options: FeatureOptions,
) -> tuple[DetectorSettings, dict[str, Any]]:
    """Fit calibration and thresholds on the validation part. Return the settings that contain them, and figures.

    Raises:
        InputError: The classifier's distances do not rise with the labels, or no threshold meets the criterion.
    """
    distances = classifier.decide(table.values)
    auc = roc_auc(table.labels, distances)
    calibration_options = CalibrationOptions(options.criterion, "platt")
    try:
        scale = fit_scale(table.labels, distances, calibration_options)
    except UndefinedMetricError as error:
        raise InputError(
            f"nothing can be fitted to the features on validation: {error.message}",
            hint="give more labelled documents, more features (--model, --token-scores), or another criterion",
        ) from None
    assert scale.calibration is not None
    scores = np.array(scale.apply(distances.tolist()))
    thresholds = {"span": scale.threshold}
    figures: dict[str, Any] = {"n": len(scores), "share_of_positives": float(table.labels.mean()), "roc_auc": auc}
    whole = [i for i in np.unique(table.example).tolist() if examples[i].gold.judged is None]
    worst = np.array([scores[table.example == i].max() for i in whole])
    gold = np.array([table.labels[table.example == i].any() for i in whole])
    try:
        thresholds["response"] = float(threshold_fitter(options.criterion)(gold, worst))
    except UndefinedMetricError as error:
        figures["response"] = f"no threshold: {error.message}"
        thresholds["response"] = thresholds["span"]
    settings = DetectorSettings(
        classifier=options.classifier,
        features=extractor.settings,
        names=list(extractor.settings.names),
        tagger=extractor.tagger.name,
        tagger_identity=extractor.tagger.identity(),
        calibration=scale.calibration.parameters(),
        thresholds=thresholds,
        template_digest=None
        if extractor.settings.template is None
        else get_template(extractor.settings.template).digest,
    )
    return settings, {**figures, "thresholds": thresholds}


def save_features(trained: TrainedFeatures, folder: str | Path) -> Path:
    """Write a trained detector to `folder`, and return the folder. Each file is written whole or not at all."""
    about = {
        "base": None if trained.base is None else asdict(trained.base),
        "settings": trained.settings.to_json(),
        "training": trained.training,
        "validation": trained.validation,
    }
    return write_folder(folder, KIND, about, trained.tensors)
