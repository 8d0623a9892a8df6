"""Train the heads of the detector `align` on labels: logistic regressions over the matches of words.

Data are split by document. Heads are fitted on the training part (scikit-learn); regularisation, calibration and
thresholds come from the validation part; the test part is not used. Each level that the data label with both classes
gets a head; the others keep the untrained mapping.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridical.calibration.calibrated import Scale
from veridical.calibration.fitting import CalibrationOptions, fit_thresholds
from veridical.calibration.thresholding import pairs
from veridical.core.detector import DetectorInfo
from veridical.core.errors import InputError, MissingExtraError
from veridical.core.perspectives import by_perspective
from veridical.core.segment import has_words
from veridical.core.spans import Span
from veridical.core.types import GOLD_THRESHOLD, Case, Example, Judgement, Level, judged_source_spans
from veridical.datasets.split import FRACTIONS, content_hash, document_of, split_by_document
from veridical.metrics.ranking import roc_auc
from veridical.metrics.tokens import any_in, mask, scores_of_characters, unit_labels
from veridical.models.artifact import Artifact, base_of, save_artifact, versions
from veridical.models.encode import tokenize
from veridical.models.linear import LogisticLayer
from veridical.models.load import LocalModel
from veridical_lab.detectors.align.detector import KIND, Align, AlignScorer, grouped
from veridical_lab.detectors.align.reader import AlignReader, CaseMatches, unrelated_cosine
from veridical_lab.detectors.align.scoring import AlignSettings, Floats, pool
from veridical_lab.detectors.align.words import WordMatches, feature_names

__all__ = ["AlignTrainingOptions", "LabelledRows", "fit_head", "train_align", "training_layers"]

_STRENGTHS = (1.0, 0.1, 0.01, 0.001)  # scikit-learn's C
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class AlignTrainingOptions:
    """Options for training the heads.

    Attributes:
        layers: The layers whose states are compared; the last gives the evidence. None: three (`training_layers`).
        window: The most tokens read at once; None: the encoder's limit, at most 512.
        criterion: What the thresholds optimise on validation (`calibration.thresholding.CRITERIA`).
        calibration: How scores become probabilities (`calibration.fitting.CALIBRATIONS`).
        seed: Random seed of the split by document.
        store: A folder for the embeddings of sources; None: not kept.
        progress: Called with lines of text that report progress.
    """

    layers: tuple[int, ...] | None = None
    window: int | None = None
    criterion: str = "f1"
    calibration: str = "platt"
    seed: int = 0
    store: str | Path | None = None
    progress: Callable[[str], None] = lambda line: None


@dataclass(slots=True)
class LabelledRows:
    """Rows of features of one level, with their labels."""

    rows: list[Floats] = field(default_factory=list)
    labels: list[Bools] = field(default_factory=list)

    def add(self, rows: Floats, labels: Bools) -> None:
        """Append rows *(n, features)* with labels *(n,)*."""
        self.rows.append(rows)
        self.labels.append(labels)

    @property
    def label(self) -> Bools:
        """All labels. *Shape:* (rows,)"""
        return np.concatenate(self.labels) if self.labels else np.zeros(0, dtype=bool)

    @property
    def learnable(self) -> bool:
        """Whether there are rows of both classes."""
        return len(set(self.label.tolist())) == 2


def training_layers(model: LocalModel) -> tuple[int, ...]:
    """Return the layers that heads read by default: one a third of the way up, the last but one, and the last."""
    last = int(model.model.config.get_text_config().num_hidden_layers)
    return tuple(sorted({max(1, last // 3), max(1, last - 1), last}))


def train_align(
    model: LocalModel,
    examples: Sequence[Example],
    options: AlignTrainingOptions | None = None,
    *,
    validation: Sequence[Example] | None = None,
    out: str | Path | None = None,
) -> Artifact:
    """Train heads on `examples`.

    Args:
        model: The encoder.
        examples: Labelled cases with sources. Without `validation` they are split by document 70/10/20.
        options: How to train.
        validation: Labelled cases of other documents, for regularisation, calibration and thresholds.
        out: The folder to save the artifact in; None: do not save it.

    Raises:
        InputError: If no level has labels of both classes in the training and the validation part.
        MissingExtraError: If scikit-learn is not installed.
    """
    options = options or AlignTrainingOptions()
    CalibrationOptions(options.criterion, options.calibration)  # raises for unknown names before the work starts
    parts = split_by_document(examples, seed=options.seed)
    train, valid = (parts["train"], parts["valid"]) if validation is None else (list(examples), list(validation))
    layers = options.layers or training_layers(model)
    reader = AlignReader(model, layers, window=options.window, storage=model.dtype_name, store=options.store)
    scorer = AlignScorer(unrelated_cosine(reader), idf=idf_table(model, train))
    heads: dict[Level, LogisticLayer] = {}
    for levels in ((Level.SPAN, Level.SOURCE), (Level.RESPONSE, Level.COVERAGE)):  # heads on wholes read word scores
        tables = []
        for name, part in (("training", train), ("validation", valid)):
            options.progress(f"{' and '.join(levels)}: {len(part)} cases of the {name} part")
            tables.append(labelled_rows(reader, replace(scorer, heads=dict(heads)), part, levels))
        for level in levels:
            if tables[0][level].learnable and tables[1][level].learnable:
                heads[level], auc = fit_head(tables[0][level], tables[1][level])
                options.progress(f"{level}: ROC AUC {auc:.3f} on {len(tables[1][level].label)} validation items")
    if not heads:
        raise InputError(
            "nothing can be learned: no level has labels of both classes in the training and the validation part",
            hint="give labelled data with sources, of more documents; see: veridical data list",
        )
    scales, figures = fit_scales(reader, replace(scorer, heads=heads), valid, options)
    settings = AlignSettings(
        layers=list(layers),
        window=reader.window,
        baseline=scorer.baseline,
        features=feature_names(layers),
        heads=[level.value for level in heads],
        scales={
            level.value: {
                "threshold": scale.threshold,
                "calibration": None if scale.calibration is None else scale.calibration.parameters(),
            }
            for level, scale in scales.items()
        },
    )
    tensors = {f"{level.value}.weight": head.weight for level, head in heads.items()}
    tensors |= {f"{level.value}.bias": np.array([head.bias]) for level, head in heads.items()}
    tensors["idf"] = np.asarray(scorer.idf, dtype=np.float32)
    training = {
        "data": content_hash([*train, *valid]),
        "examples": {"train": len(train), "valid": len(valid)},
        "documents": {n: len({document_of(e) for e in part}) for n, part in (("train", train), ("valid", valid))},
        "fractions": dict(FRACTIONS) if validation is None else None,
        **{name: getattr(options, name) for name in ("criterion", "calibration", "seed")},
        "date": datetime.now(UTC).date().isoformat(),
        "versions": versions(),
    }
    artifact = Artifact(KIND, base_of(model), settings.to_json(), tensors, training, figures)
    if out is not None:
        save_artifact(artifact, out)
    return artifact


def idf_table(model: LocalModel, examples: Sequence[Example]) -> Floats:
    """Return log((n + 1) / (sources with the token + 1)) for each token id, over n distinct sources.

    *Shape:* (vocabulary,)
    """
    texts = dict.fromkeys(source.text for example in examples for source in example.case.sources)
    counts = np.zeros(int(model.model.config.get_text_config().vocab_size))
    for text in texts:
        counts[np.unique(np.array(tokenize(model.tokenizer, text).ids, dtype=np.int64))] += 1
    table: Floats = np.log((len(texts) + 1.0) / (counts + 1.0))
    return table


def labelled_rows(
    reader: AlignReader, scorer: AlignScorer, examples: Sequence[Example], levels: Sequence[Level]
) -> dict[Level, LabelledRows]:
    """Return the features and labels of `levels` over the examples that can be compared."""
    tables = {level: LabelledRows() for level in levels}
    usable = [e for e in examples if e.case.sources and has_words(e.case.response)]
    by_case = {id(example.case): example for example in usable}
    for group in grouped([example.case for example in usable]):
        for case, matched in zip(group, reader.match(group, closest=False), strict=True):
            for level, table in tables.items():
                add_rows(table, level, by_case[id(case)], matched, scorer)
    return tables


def add_rows(table: LabelledRows, level: Level, example: Example, matched: CaseMatches, scorer: AlignScorer) -> None:
    """Append the rows of one level of an example to `table`."""
    case, gold, response = example.case, example.gold, matched.response
    if level is Level.SPAN and response is not None:
        labels, is_labelled = unit_labels(example, response.text.spans)
        is_labelled &= response.text.has_tokens
        table.add(scorer.features(response)[is_labelled], labels[is_labelled] > 0)
    elif level is Level.RESPONSE and response is not None:
        pair = pairs(level, example, Judgement(case.id, "anybody", hallucination=0.0))
        if pair is not None:
            pooled = pool([(scorer.raw(response, Level.SPAN), response)])
            table.add(pooled[None], pair[:, 0] > 0)
    elif level is Level.SOURCE:
        nothing_omitted = gold.omission is not None and gold.omission < GOLD_THRESHOLD
        if gold.omissions or gold.judged_sources or nothing_omitted:
            judged = judged_source_spans(case, gold)
            for id, matches in matched.sources.items():
                rows, omitted = source_rows(id, matches, gold, judged[id], scorer)
                table.add(rows, omitted)
    elif level is Level.COVERAGE and matched.sources:
        pair = pairs(level, example, Judgement(case.id, "anybody", omission=0.0))
        if pair is not None:
            compared = [(s, matched.sources[s.id]) for s in case.sources if s.id in matched.sources]
            parts = [
                [(scorer.raw(matches, Level.SOURCE), matches) for matches in group]
                for group in by_perspective(compared)
            ]
            worst = max((pool(group) for group in parts), key=lambda pooled: float(pooled[0]))
            table.add(worst[None], pair[:, 0] > 0)


def source_rows(
    id: str, matches: WordMatches, gold: Judgement, judged: Sequence[Span], scorer: AlignScorer
) -> tuple[Floats, Bools]:
    """Return the features and labels of the judged words of one source that must be covered."""
    size = len(matches.text.text)
    units = np.array([(span.start, span.end) for span in matches.text.spans], dtype=np.int64)
    scores = scores_of_characters(size, ((o.span, o.score) for o in gold.omissions if o.source_id == id))
    is_judged = any_in(mask(size, judged), units) & matches.text.has_tokens
    return scorer.features(matches)[is_judged], any_in(scores >= GOLD_THRESHOLD, units)[is_judged]


def fit_head(train: LabelledRows, valid: LabelledRows) -> tuple[LogisticLayer, float]:
    """Return the logistic regression with the highest ROC AUC on `valid` over several strengths, and that ROC AUC.

    Features are standardised for the fit; the weights of the head apply to the features as they are.
    """
    try:
        from sklearn.linear_model import LogisticRegression
    except ImportError as error:
        raise MissingExtraError("training an align detector", "stats") from error
    rows, labels, held_out = np.concatenate(train.rows), train.label, np.concatenate(valid.rows)
    mean, spread = rows.mean(0), rows.std(0)
    spread[spread < 1e-9] = 1.0
    best: tuple[float, LogisticLayer] | None = None
    for strength in _STRENGTHS:
        model = LogisticRegression(C=strength, max_iter=5000).fit((rows - mean) / spread, labels)
        weight = model.coef_[0] / spread
        head = LogisticLayer(weight, float(model.intercept_[0] - weight @ mean))
        auc = roc_auc(valid.label, head.scores(held_out))
        if best is None or auc > best[0] + 1e-6:
            best = auc, head
    assert best is not None
    return best[1], best[0]


class _Judged:
    """Judgements of the validation part, made once for all levels."""

    info = DetectorInfo(needs_sources=True)

    def __init__(self, detector: Align, examples: Sequence[Example]) -> None:
        self.name = KIND
        cases = [example.case for example in examples]
        self.judgements = {id(case): judgement for case, judgement in zip(cases, detector.judge(cases), strict=True)}

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        """Return the judgements made before."""
        return [replace(self.judgements[id(case)], by=self.name) for case in cases]


def fit_scales(
    reader: AlignReader, scorer: AlignScorer, examples: Sequence[Example], options: AlignTrainingOptions
) -> tuple[dict[Level, Scale], dict[str, Any]]:
    """Return the calibration and threshold of each level that the validation part labels, and figures."""
    detector = Align(reader.model.name)
    detector.reader, detector.scorer = reader, scorer
    judged = _Judged(detector, examples)
    scales: dict[Level, Scale] = {}
    figures: dict[str, Any] = {}
    for level in (Level.RESPONSE, Level.SPAN, Level.SOURCE, Level.COVERAGE):
        level_options = CalibrationOptions(
            options.criterion, options.calibration, (level.value,), all_data=True, seed=options.seed, resamples=200
        )
        try:
            fitted = fit_thresholds(judged, examples, level_options)
        except InputError as error:
            options.progress(f"{level}: no threshold fitted: {error.message}")
            continue
        scales[level] = fitted.scales[level]
        figures[level.value] = fitted.validation[level.value]
    return scales, figures
