"""Fit ensembles and cascades on labels: logistic regressions on the scores of detectors, and stopping rules.

Only the validation part of the split by document is used, because members may have been trained on the training part.
Cross-validation by document chooses the regularisation (log loss). Figures, thresholds and cascades rest on
cross-fitted probabilities: each document is scored by a model fitted on the others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from veridical.calibration.thresholding import pairs, threshold_fitter
from veridical.core.detector import Detector, fingerprint_of, info_of
from veridical.core.errors import InputError, MissingExtraError
from veridical.core.judging import judge
from veridical.core.spec import parse_spec
from veridical.core.stopwords import STOP_WORDS
from veridical.core.types import GOLD_THRESHOLD, Example, Judgement, Level, judged_source_spans
from veridical.datasets.split import content_hash, document_of, split_by_document
from veridical.detectors import load_detector
from veridical.llm.connection import REMOTE_OPTIONS
from veridical.metrics import UndefinedMetricError
from veridical.metrics.arrays import Bools, Floats
from veridical.metrics.measure import measure_rows
from veridical.metrics.ranking import roc_auc
from veridical.metrics.registry import METRICS
from veridical.metrics.significance import hanley_mcneil
from veridical.metrics.tokens import any_in, mask, scores_of_characters, unit_labels
from veridical.models.artifact import save_record, versions
from veridical.models.linear import LinearClassifier
from veridical_lab.bench.evaluation import identity, judge_all
from veridical_lab.bench.journal import Journal
from veridical_lab.bench.settings import Settings
from veridical_lab.detectors.ensemble.artifact import KIND, FittedEnsemble, Member, Stage
from veridical_lab.detectors.ensemble.combination import Combination, LevelCombinations
from veridical_lab.detectors.ensemble.detector import columns_by_level
from veridical_lab.detectors.ensemble.scores import (
    WordScores,
    coverage_scores,
    response_scores,
    source_word_scores,
    word_scores,
)

__all__ = [
    "EnsembleOptions",
    "ScoreTable",
    "fit_cascade",
    "fit_combination",
    "fit_ensemble",
    "labelled_tables",
    "load_members",
]

_STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
_FOLDS = 5
_ALL_SUBSETS = 4  # up to this many members, every subset gets its own combination
_QUANTILES = 20  # candidates for each threshold of a cascade
_SWEEPS = 4
_NO_LABELS = "no level that a member scores has labels of both classes"


@dataclass(frozen=True, slots=True)
class EnsembleOptions:
    """Options for fitting an ensemble.

    Attributes:
        criterion: What the thresholds optimise (`calibration.thresholding.CRITERIA`).
        keep: The share of the ensemble's response-level ROC AUC that its cascade must keep, in (0, 1].
        negative_weights: Whether a member's weight may be negative, so that a higher score lowers suspicion.
        all_data: Whether to fit on all examples, not only on the validation part of the split by document.
        seed: Random seed of the split, the folds and the bootstrap.
        resamples: Bootstrap samples of the intervals.
        data: The name of the data in the artifact.
        journal: A folder that keeps the members' judgements, so that an interrupted run resumes; None: not kept.
        progress: Called with a member's name, the number of cases it has judged, and their total number.
    """

    criterion: str = "f1"
    keep: float = 0.99
    negative_weights: bool = False
    all_data: bool = False
    seed: int = 0
    resamples: int = 1000
    data: str = ""
    journal: Path | None = None
    progress: Callable[[str, int, int], None] = field(default=lambda label, done, total: None)

    def __post_init__(self) -> None:
        threshold_fitter(self.criterion)
        if not 0.0 < self.keep <= 1.0:
            raise InputError(f"keep is {self.keep}", hint="a number above 0 and at most 1")


@dataclass(frozen=True, slots=True, eq=False)
class ScoreTable:
    """Labelled items of one level.

    *Shape:* `rows` (items, members), NaN without a score; `labels` and `documents` (items,).
    """

    rows: Floats
    labels: Bools
    documents: np.ndarray

    @property
    def learnable(self) -> bool:
        """Whether there are items of both classes."""
        return len(set(self.labels.tolist())) == 2

    def folds(self, seed: int) -> np.ndarray | None:
        """Return the fold of each item, the same for all items of a document; None for fewer documents than folds."""
        names = np.unique(self.documents)
        if len(names) < _FOLDS:
            return None
        fold_of = dict(zip(np.random.default_rng(seed).permutation(names), np.arange(len(names)) % _FOLDS, strict=True))
        return np.array([fold_of[name] for name in self.documents])


def load_members(specs: Sequence[str]) -> dict[str, Detector]:
    """Load the detectors by spec; `InputError` for fewer than two, a repeated one, or an ensemble."""
    if len(specs) < 2:
        raise InputError(f"{len(specs)} members for an ensemble", hint="name two or more: --members A --members B")
    loaded = [load_detector(spec) for spec in specs]
    names = [detector.name for detector in loaded]
    if len(set(names)) < len(names):
        raise InputError(f"a member is named twice: {', '.join(names)}", hint="name each detector once")
    if any(parse_spec(spec).name == KIND for spec in specs):
        raise InputError("an ensemble cannot be a member of an ensemble", hint="name its members")
    return dict(zip(specs, loaded, strict=True))


def fit_ensemble(
    members: Mapping[str, Detector],
    examples: Sequence[Example],
    options: EnsembleOptions | None = None,
    *,
    out: str | Path | None = None,
) -> FittedEnsemble:
    """Fit an ensemble and its cascade, and save them in `out` if it is given.

    Args:
        members: The detectors by the spec that loads them again (`load_members`).
        examples: Labelled data; only the validation part is used, unless `options.all_data` is set.
        options: How to fit.
        out: The folder to write.

    Raises:
        InputError: For fewer than two members, too few documents, or no level with labels of both classes.
        MissingExtraError: If SciPy is not installed.
    """
    options = options or EnsembleOptions()
    if len(members) < 2:
        raise InputError(f"{len(members)} members for an ensemble", hint="name two or more detectors")
    used = list(examples) if options.all_data else split_by_document(examples, seed=options.seed)["valid"]
    if not used:
        raise InputError(
            f"none of {len(examples)} examples lies in the validation part",
            hint="give more documents, another seed, or use all of them (--all-data) and measure on other data",
        )
    judged = {spec: _judge(spec, detector, used, options) for spec, detector in members.items()}
    order = sorted(judged, key=lambda spec: judged[spec][0].seconds)  # stable: equal costs keep the given order
    tables = labelled_tables(used, [judged[spec][1] for spec in order])
    scored = columns_by_level({i: info_of(members[spec]) for i, spec in enumerate(order)})
    levels: dict[Level, LevelCombinations] = {}
    figures: dict[str, Any] = {}
    stages: tuple[Stage, ...] = ()
    for level, table in tables.items():
        if level not in scored or not table.learnable:
            continue
        fit, figures[level.value] = _fit_level(level, table, scored[level], order, options)
        if fit is not None:
            levels[level] = fit
    response = levels.get(Level.RESPONSE)
    if response is not None and len(response.members) == len(order):
        table, strength = tables[Level.RESPONSE], figures[Level.RESPONSE.value]["strength"]
        prefixes = _prefixes(table, strength, options)
        if prefixes is not None:
            seconds = [judged[spec][0].seconds for spec in order]
            stages, figures["cascade"] = fit_cascade(
                prefixes, table.labels, seconds, response.threshold, keep=options.keep
            )
    if not levels:
        raise InputError(
            f"nothing can be fitted on {len(used)} examples: "
            + ("no member's scores rise with the labels" if figures else _NO_LABELS),
            hint="give labelled data of more documents; see: veridical data list",
        )
    training = {
        "data": options.data,
        "hash": content_hash(examples),
        "examples": len(used),
        "documents": len({document_of(example) for example in used}),
        "part": "all" if options.all_data else "validation part",
        **{name: getattr(options, name) for name in ("criterion", "keep", "negative_weights", "seed", "resamples")},
        "date": datetime.now(UTC).date().isoformat(),
        "versions": versions(),
    }
    fitted = FittedEnsemble(tuple(judged[spec][0] for spec in order), levels, stages, training, figures)
    if out is not None:
        save_record(fitted, out)
    return fitted


def _judge(
    spec: str, detector: Detector, examples: Sequence[Example], options: EnsembleOptions
) -> tuple[Member, list[Judgement]]:
    """Return the member with its cost, and its judgements of `examples`.

    One case is judged first, untimed, so that the cost leaves out loading a model.
    """
    remote = info_of(detector).needs_chat_model
    cases = [example.case for example in examples]
    journal = None
    if options.journal is not None:
        journal = Journal.open(options.journal, identity(detector), content_hash(examples), KIND)
    if not remote and (journal is None or len(journal.judgements) < len(cases)):
        judge(detector, cases[:1])
    judgements, seconds = judge_all(
        detector,
        cases,
        detector.name,
        Settings([spec], [options.data], progress=options.progress),
        journal=journal,
        clock=time.perf_counter if remote else time.process_time,
    )
    if remote:  # the artifact must not say how to reach a chat model: the user does, each time
        spec = str(parse_spec(spec).split(REMOTE_OPTIONS)[1])
    return Member(spec, fingerprint_of(detector), seconds / len(cases), "wall" if remote else "processor"), judgements


def labelled_tables(examples: Sequence[Example], by_member: Sequence[Sequence[Judgement]]) -> dict[Level, ScoreTable]:
    """Return the labelled items of each level with the score of each member.

    Items that no member scored are left out. Words are content words (not NLTK's stop words), as in `veridical
    calibrate`.
    """
    rows: dict[Level, list[Floats]] = {level: [] for level in Level}
    labels: dict[Level, list[Bools]] = {level: [] for level in Level}
    documents: dict[Level, list[str]] = {level: [] for level in Level}

    def add(level: Level, scores: Floats, label: Bools, example: Example) -> None:
        usable = ~np.isnan(scores).all(axis=1)
        rows[level].append(scores[usable])
        labels[level].append(label[usable])
        documents[level] += [document_of(example)] * int(usable.sum())

    for example, *judgements in zip(examples, *by_member, strict=True):
        case, gold = example.case, example.gold
        for level, scores, anything in (
            (Level.RESPONSE, response_scores(judgements), Judgement(case.id, "anybody", hallucination=0.0)),
            (Level.COVERAGE, coverage_scores(judgements), Judgement(case.id, "anybody", omission=0.0)),
        ):
            pair = pairs(level, example, anything)
            if pair is not None:
                add(level, scores[None], pair[:, 0] > 0, example)
        table = word_scores(case, judgements)
        label, is_labelled = unit_labels(example, table.spans())
        content = is_labelled & _content_words(case.response, table)
        add(Level.SPAN, table.scores[content], label[content] >= GOLD_THRESHOLD, example)
        if gold.omissions or gold.judged_sources or (gold.omission is not None and gold.omission < GOLD_THRESHOLD):
            judged = judged_source_spans(case, gold)
            for id, table in source_word_scores(case, judgements).items():
                text = case.source(id).text
                omitted = scores_of_characters(
                    len(text), ((o.span, o.score) for o in gold.omissions if o.source_id == id)
                )
                content = any_in(mask(len(text), judged[id]), table.units) & _content_words(text, table)
                wrong = any_in(omitted >= GOLD_THRESHOLD, table.units)
                add(Level.SOURCE, table.scores[content], wrong[content], example)
    return {
        level: ScoreTable(np.concatenate(rows[level]), np.concatenate(labels[level]), np.array(documents[level]))
        for level in Level
        if documents[level]
    }


def _content_words(text: str, table: WordScores) -> Bools:
    plain = (span.of(text).lower().replace("’", "'") for span in table.spans())
    return np.array([word not in STOP_WORDS for word in plain], dtype=bool)


def fit_combination(
    table: ScoreTable,
    members: Sequence[int],
    strength: float,
    *,
    negative_weights: bool = False,
    scale: LinearClassifier | None = None,
) -> Combination:
    """Fit a logistic regression of the labels on the standardised scores of `members`.

    It minimises the mean log loss plus strength / 2 * sum of weights² by L-BFGS-B. Weights are at least 0 unless
    `negative_weights` is set. `scale` holds the means and deviations to use; by default they come from `table`. Raise
    `MissingExtraError` if SciPy is not installed.
    """
    try:
        from scipy.optimize import minimize
    except ImportError as error:
        raise MissingExtraError("fitting an ensemble", "stats") from error
    plain = scale or LinearClassifier.standardising(table.rows[:, list(members)])
    values = np.column_stack([plain.standardise(table.rows[:, list(members)]), np.ones(len(table.labels))])
    signs = np.where(table.labels, 1.0, -1.0)
    penalty = np.append(np.full(len(members), strength), 0.0)

    def loss(weights: Floats) -> tuple[float, Floats]:
        margin = signs * (values @ weights)
        slope = -signs * np.exp(-np.logaddexp(0.0, margin)) / len(signs)
        value = float(np.logaddexp(0.0, -margin).mean() + 0.5 * penalty @ weights**2)
        return value, values.T @ slope + penalty * weights

    bounds = [(None if negative_weights else 0.0, None)] * len(members) + [(None, None)]
    solution = minimize(
        loss,
        np.zeros(len(penalty)),
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": 1000, "ftol": 1e-15, "gtol": 1e-9},
    ).x
    numbers = (plain.mean, plain.scale, solution[:-1])
    mean, deviation, weights = (tuple(float(x) for x in array) for array in numbers)
    return Combination(tuple(members), mean, deviation, weights, float(solution[-1]))


def _held_out(table: ScoreTable, members: Sequence[int], strength: float, options: EnsembleOptions) -> Floats | None:
    """Return the cross-fitted probability of each item; None if a fold lacks a class.

    Means, deviations and the intercept come from all items. With an intercept per fold, the rate of positives in the
    other folds would change the order of items of different folds.
    """
    folds = table.folds(options.seed)
    if folds is None:
        return None
    signed = options.negative_weights
    whole = fit_combination(table, members, strength, negative_weights=signed)
    probabilities = np.full(len(table.labels), np.nan)
    for fold in range(_FOLDS):
        inside = folds == fold
        rest = ScoreTable(table.rows[~inside], table.labels[~inside], table.documents[~inside])
        if not rest.learnable:
            return None
        fitted = fit_combination(rest, members, strength, negative_weights=signed, scale=whole.classifier)
        probabilities[inside] = replace(fitted, intercept=whole.intercept).probabilities(table.rows[inside])
    return probabilities


def _log_loss(labels: Bools, probabilities: Floats) -> float:
    likely = np.where(labels, probabilities, 1.0 - probabilities)
    return float(-np.log(np.maximum(likely, 1e-12)).mean())


def _subsets(members: Sequence[int]) -> list[tuple[int, ...]]:
    """Return the sets of members that get a combination, the full set first.

    With few members these are all subsets; with many, the sets that lack one member, those that a cascade asks, and
    single members.
    """
    full = tuple(members)
    if len(full) <= _ALL_SUBSETS:
        return [subset for size in range(len(full), 0, -1) for subset in combinations(full, size)]
    without_one = [tuple(m for m in full if m != left_out) for left_out in full]
    prefixes = [full[:size] for size in range(1, len(full))]
    return list(dict.fromkeys([full, *without_one, *prefixes, *((m,) for m in full)]))


def _fit_level(
    level: Level, table: ScoreTable, members: Sequence[int], names: Sequence[str], options: EnsembleOptions
) -> tuple[LevelCombinations | None, dict[str, Any]]:
    """Return the combinations of one level, and figures; no combinations if no member's scores rise with the labels."""
    usable = ~np.isnan(table.rows[:, list(members)]).all(axis=1)
    table = ScoreTable(table.rows[usable], table.labels[usable], table.documents[usable])
    tried = {strength: _held_out(table, members, strength, options) for strength in _STRENGTHS}
    losses = {s: _log_loss(table.labels, scores) for s, scores in tried.items() if scores is not None}
    strength = min(losses, key=losses.__getitem__, default=_STRENGTHS[1])
    fitted = tuple(
        fit_combination(table, subset, strength, negative_weights=options.negative_weights)
        for subset in _subsets(members)
    )
    held_out = tried[strength]
    probabilities = fitted[0].probabilities(table.rows) if held_out is None else held_out
    weights = dict(zip(fitted[0].members, fitted[0].weights, strict=True))
    alone: dict[str, Any] = {
        names[i]: {
            "weight": round(weights[i], 6),
            "roc_auc": _measured("roc_auc", table, table.rows[:, i], options),
        }
        for i in members
    }
    figures: dict[str, Any] = {
        "items": len(table.labels),
        "documents": len(set(table.documents.tolist())),
        "share_of_positives": round(float(table.labels.mean()), 6),
        "strength": strength,
        "folds": _FOLDS if held_out is not None else 0,
        "members": alone,
    }
    if not any(weights.values()):
        return None, {**figures, "note": "not fitted: no member's scores rise with the labels"}
    try:
        threshold = float(threshold_fitter(options.criterion)(table.labels, probabilities))
    except UndefinedMetricError as error:
        raise InputError(
            f"{level.value}: {error.message} ({len(table.labels)} items)", hint="choose another criterion"
        ) from None
    ranked = {i: auc for i in members if (auc := alone[names[i]]["roc_auc"]["value"]) is not None}
    best = max(ranked, key=ranked.__getitem__, default=members[0])
    figures |= {
        "share_flagged": round(float(np.mean(probabilities >= threshold)), 6),
        "ensemble": {name: _measured(name, table, probabilities, options) for name in ("roc_auc", "brier", "ece")},
        "best": names[best],
        "p": _p_value(table, probabilities, best),
    }
    return LevelCombinations(threshold, fitted), figures


def _measured(name: str, table: ScoreTable, scores: Floats, options: EnsembleOptions) -> dict[str, Any]:
    """Return the fields of `Measured` for a metric of the scored items, with its interval by document."""
    scored = ~np.isnan(scores)
    rows = np.column_stack([table.labels, scores])[scored].astype(np.float64)
    documents = table.documents[scored].tolist()
    measured = asdict(
        measure_rows(METRICS[name], list(rows[:, None, :]), documents, resamples=options.resamples, seed=options.seed)
    )
    return {key: round(value, 6) if isinstance(value, float) else value for key, value in measured.items()}


def _p_value(table: ScoreTable, probabilities: Floats, member: int) -> float | None:
    """Return the p value of Hanley and McNeil's test of ensemble against member, on the items the member scored."""
    scored = ~np.isnan(table.rows[:, member])
    try:
        return round(hanley_mcneil(table.labels[scored], probabilities[scored], table.rows[scored, member]).p, 6)
    except UndefinedMetricError:
        return None


def _prefixes(table: ScoreTable, strength: float, options: EnsembleOptions) -> Floats | None:
    """Return the cross-fitted probability of each item after each member of a cascade. *Shape:* (items, members)"""
    columns = []
    for size in range(1, table.rows.shape[1] + 1):
        column = _held_out(table, range(size), strength, options)
        if column is None:
            return None
        column[np.isnan(table.rows[:, :size]).all(axis=1)] = np.nan  # no score so far
        columns.append(column)
    return np.column_stack(columns)


def fit_cascade(
    probabilities: Floats, labels: Bools, seconds: Sequence[float], threshold: float, *, keep: float = 0.99
) -> tuple[tuple[Stage, ...], dict[str, Any]]:
    """Find the cheapest stages whose ROC AUC is at least `keep` times that of asking every member.

    Candidate thresholds of a stage are quantiles of the probabilities after it, on both sides of the final threshold.
    The search starts from asking every member and optimises one stage after the other, several times over.

    Args:
        probabilities: The probability of each item after each member, NaN before the first score. *Shape:* (items,
            members)
        labels: Whether each item is hallucinated. *Shape:* (items,)
        seconds: The seconds per item of each member.
        threshold: The probability from which an item is flagged.
        keep: The share of the ROC AUC to keep, in (0, 1].

    Returns:
        The stages, and figures: both ROC AUCs, the share of the seconds, and the share of the items that each member
        is asked about.
    """
    cost = np.array(seconds, dtype=np.float64)
    stages = [Stage() for _ in cost[1:]]
    whole = roc_auc(labels, probabilities[:, -1])
    _, spent = _run(probabilities, stages, cost)
    for _ in range(_SWEEPS):
        before = list(stages)
        for i in range(len(stages)):
            after = probabilities[~np.isnan(probabilities[:, i]), i]
            for stage in _candidates(after, threshold):
                tried = [*stages[:i], stage, *stages[i + 1 :]]
                scores, seconds_spent = _run(probabilities, tried, cost)
                if seconds_spent < spent - 1e-12 and roc_auc(labels, scores) >= keep * whole:
                    stages, spent = tried, seconds_spent
        if stages == before:
            break
    scores, _ = _run(probabilities, stages, cost)
    asked = _asked(probabilities, stages)
    total = float(cost.sum())
    return tuple(stages), {
        "roc_auc_of_all": round(whole, 6),
        "roc_auc": round(roc_auc(labels, scores), 6),
        "keep": keep,
        "asked": [round(float(share), 6) for share in asked.mean(axis=0)],
        "share_of_seconds": round(float(spent / total), 6) if total else 1.0,
    }


def _candidates(probabilities: Floats, threshold: float) -> list[Stage]:
    """Return pairs of thresholds for one stage: none, or a quantile on each side of `threshold`."""
    if not probabilities.size:
        return []
    quantiles = np.unique(np.quantile(probabilities, np.linspace(0.0, 1.0, _QUANTILES + 1))).tolist()
    lows = [0.0, *(q for q in quantiles if 0.0 < q <= threshold), threshold]
    highs = [None, *(q for q in quantiles if q >= threshold), threshold]
    return [Stage(low, high) for low in dict.fromkeys(lows) for high in dict.fromkeys(highs)]


def _asked(probabilities: Floats, stages: Sequence[Stage]) -> Bools:
    """Return which members each item is given to. *Shape:* that of `probabilities`"""
    asked = np.ones(probabilities.shape, dtype=bool)
    for i, stage in enumerate(stages):
        after = probabilities[:, i]
        stops = after < stage.clear_below
        if stage.flag_from is not None:
            stops |= after >= stage.flag_from
        asked[:, i + 1] = asked[:, i] & ~stops
    return asked


def _run(probabilities: Floats, stages: Sequence[Stage], cost: Floats) -> tuple[Floats, float]:
    """Return the probability of each item at the end of a cascade, and the seconds per item."""
    asked = _asked(probabilities, stages)
    last = asked.sum(axis=1) - 1
    return probabilities[np.arange(len(last)), last], float(asked.mean(axis=0) @ cost)
