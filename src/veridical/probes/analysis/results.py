"""What an analysis leaves: findings (a result row and its place on the plot), peaks, comparisons."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

from veridical.bench import evaluation as bench
from veridical.bench.compare import Comparison, compare_pair, correct
from veridical.bench.results import ResultRow
from veridical.bench.run import result_rows
from veridical.bench.settings import Loaded
from veridical.core.serialization import encode, read_documents
from veridical.core.types import Level
from veridical.metrics.registry import METRICS
from veridical.models.artifact import base_of
from veridical.models.load import LocalModel
from veridical.probes.analysis.dataset import AnalysisConfig
from veridical.probes.analysis.sublayer_probes import (
    ALL_POSITIVE,
    LEVELS,
    METRIC_NAMES,
    Evaluation,
    ProbeSubset,
)

__all__ = [
    "COMPARED",
    "Analysis",
    "At",
    "Finding",
    "Peak",
    "compare",
    "encode_records",
    "finding_of",
    "name_of",
    "place_of",
    "read_records",
    "weights_of",
]

At = dict[str, str | int | float | bool | None]
COMPARED = {"response": ("f1", "roc_auc"), "token": ("token_f1", "word_roc_auc")}  # the metrics that are tested


@dataclass(frozen=True, slots=True)
class Finding:
    """One point: `at` says where (sublayer, half, kind, training set …), `row` what was measured there.

    The row's `seconds` are 0: no model is run to judge, activations are at hand.
    `model` identifies the base model (`models.artifact.Base`, and its number of weights), `training` the probes.
    """

    analysis: str
    at: At
    model: dict[str, Any]
    training: dict[str, Any]
    row: ResultRow


@dataclass(frozen=True, slots=True)
class Peak:
    """Where a curve over sublayers peaks on the test part, and where it first reaches `share` of that.

    Sublayers are numbers from 0 (2l is the attention of block l); `low` and `high` are the bootstrap interval of
    `first`. `floor` is the value of flagging everything, `first_above_floor` the first sublayer that covers `share` of
    the way from there to the peak (None where the peak is not above it). `chosen` is the sublayer that is best on the
    validation part, and `chosen_value` its value on the test part.
    """

    analysis: str
    data: str
    data_hash: str
    objective: str
    metric: str
    half: str
    at: At
    peak: float
    peak_sublayer: int
    share: float
    first: int
    low: int | None
    high: int | None
    floor: float | None
    first_above_floor: int | None
    chosen: int
    chosen_value: float | None
    n: int
    resamples: int
    seed: int
    command: str


@dataclass(frozen=True, slots=True)
class Analysis:
    """All that one analysis found."""

    name: str
    findings: list[Finding] = field(default_factory=list)
    peaks: list[Peak] = field(default_factory=list)
    comparisons: list[Comparison] = field(default_factory=list)


def weights_of(model: LocalModel) -> int:
    """The number of weights of a model; shared ones count once."""
    return sum(int(p.numel()) for p in model.model.parameters())


def name_of(model: LocalModel) -> str:
    """The name of a model in results: a folder's last part (its fingerprint says which it is), or the hub's name."""
    return Path(model.name).name if Path(model.name).is_dir() else model.name


def place_of(subset: ProbeSubset | None, objective: str) -> At:
    """The place of one or several probes (None: of flagging everything) in plots and tables."""
    if subset is None:
        return {"objective": objective, "view": ALL_POSITIVE, "half": "none", "layer": None, "sublayer": None}
    sublayer = subset.sublayer
    layer = None if sublayer is None else sublayer // 2 + 1
    at: At = {"objective": objective, "view": subset.name, "half": subset.sublayer_type}
    return at | {"layer": layer, "sublayer": sublayer}


def finding_of(
    analysis: str,
    at: At,
    model: LocalModel,
    training: dict[str, Any],
    evaluation: Evaluation,
    config: AnalysisConfig,
    *,
    group: str = "",
) -> Finding:
    """Measure an evaluation.

    Args:
        analysis: The name of the analysis.
        at: The finding's place in it.
        model: The base model.
        training: How the probes were trained.
        evaluation: The judgements.
        config: The options.
        group: The group of examples that was judged; "" for all.
    """
    base = {**asdict(base_of(model)), "name": name_of(model), "parameters": weights_of(model)}
    judged = _for_bench(evaluation)
    parts: list[Any] = [analysis, at, {k: v for k, v in base.items() if k != "name"}]
    parts += [evaluation.dataset.hash, judged.data.split, group]
    parts += [{k: v for k, v in training.items() if k != "seconds"}, config.resamples, config.level]
    run_id = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]
    metrics = {name: METRICS[name] for name in METRIC_NAMES[evaluation.objective]}
    everything = range(len(evaluation.examples))
    (row,) = result_rows(run_id, judged, config.settings, metrics, [(group or None, everything)])
    return Finding(analysis, at, base, training, row)


def compare(evaluations: Sequence[Evaluation], metric: str, config: AnalysisConfig) -> list[Comparison]:
    """The exact tests of every two evaluations, with Bonferroni's correction for their number."""
    judged = [_for_bench(evaluation) for evaluation in evaluations]
    return correct([compare_pair(a, b, metric, config.command) for a, b in combinations(judged, 2)])


def _for_bench(evaluation: Evaluation) -> bench.Evaluation:
    """An evaluation in the form that `bench` measures."""
    dataset = evaluation.dataset
    split = "test part" if dataset.split == "all" else f"{dataset.split}, test part"
    data = Loaded(dataset.name, split, evaluation.examples, [], dataset.hash, (), 0)
    level = Level(LEVELS[evaluation.objective])
    source = "f1 on the validation part of what was trained on"
    return bench.Evaluation(
        evaluation.detector, (level,), data, evaluation.judgements, {level.value: evaluation.threshold}, source
    )


def encode_records(analysis: Analysis) -> str:
    """Findings, peaks and comparisons as JSON Lines."""
    return "".join(encode(r) + "\n" for r in (*analysis.findings, *analysis.peaks, *analysis.comparisons))


def read_records(path: Path) -> Analysis:
    """The analysis in a file of `encode_records`; `DataError` with its line for anything else."""
    records: dict[type, list[Any]] = {Finding: [], Peak: [], Comparison: []}
    hint = "records of analyses are written by `veridical analyse --out`"
    for _, record in read_documents(path, "finding", "peak", "comparison", hint=hint):
        records[type(record)].append(record)
    name = records[Finding][0].analysis if records[Finding] else ""
    return Analysis(name, records[Finding], records[Peak], records[Comparison])
