"""What an analysis leaves: findings (a result row and its place on the plot), peaks, comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

from veridical.core.detector import digest_of
from veridical.core.serialization import encode, read_documents
from veridical.metrics.registry import METRICS
from veridical.models.artifact import base_of
from veridical.models.load import LocalModel
from veridical_lab.bench.compare import DetectorComparison, compare_pair, correct
from veridical_lab.bench.evaluation import Evaluation
from veridical_lab.bench.results import ResultRow
from veridical_lab.bench.run import result_rows
from veridical_lab.probes.analysis.dataset import AnalysisConfig
from veridical_lab.probes.analysis.sublayer_probes import (
    ALL_POSITIVE,
    METRIC_NAMES,
    ProbeSubset,
)
from veridical_lab.probes.dataset import ProbeDataset
from veridical_lab.probes.evaluation import f1_sp_in_model_tokens

__all__ = [
    "COMPARED",
    "Analysis",
    "At",
    "Peak",
    "ProbeFinding",
    "Recorder",
    "compare_findings",
    "encode_records",
    "name_of",
    "place_of",
    "read_records",
    "weights_of",
]

At = dict[str, str | int | float | bool | None]
COMPARED = {"response": ("f1", "roc_auc"), "token": ("token_f1", "word_roc_auc")}  # the metrics that are tested


@dataclass(frozen=True, slots=True)
class ProbeFinding:
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
    findings: list[ProbeFinding] = field(default_factory=list)
    peaks: list[Peak] = field(default_factory=list)
    comparisons: list[DetectorComparison] = field(default_factory=list)


def weights_of(model: LocalModel) -> int:
    """The number of weights of a model; shared ones count once."""
    return sum(int(p.numel()) for p in model.model.parameters())


def name_of(model: LocalModel) -> str:
    """The name of a model in results: a folder's last part (its fingerprint says which it is), or the hub's name."""
    return Path(model.name).name if Path(model.name).exists() else model.name


def place_of(subset: ProbeSubset | None, objective: str) -> At:
    """The place of one or several probes (None: of flagging everything) in plots and tables."""
    if subset is None:
        return {"objective": objective, "view": ALL_POSITIVE, "half": "none", "layer": None, "sublayer": None}
    sublayer = subset.sublayer
    layer = None if sublayer is None else sublayer // 2 + 1
    at: At = {"objective": objective, "view": subset.name, "half": subset.sublayer_type}
    return at | {"layer": layer, "sublayer": sublayer}


@dataclass(frozen=True, slots=True)
class Recorder:
    """Measures evaluations for an analysis and adds the findings to it.

    Attributes:
        analysis: What is added to.
        model: The base model.
        dataset: The data set whose test part is evaluated.
        config: The options.
    """

    analysis: Analysis
    model: LocalModel
    dataset: ProbeDataset
    config: AnalysisConfig

    def add(self, at: At, evaluation: Evaluation, training: dict[str, Any] | None = None, *, group: str = "") -> None:
        """Add a finding.

        Args:
            at: Its place in the analysis; `at["objective"]` decides what is measured.
            evaluation: The judgements.
            training: How the probes were trained; None for a baseline.
            group: The group of examples that was judged; "" for all.
        """
        config, data, trained = self.config, evaluation.data, training or {}
        base = {**asdict(base_of(self.model)), "name": name_of(self.model), "parameters": weights_of(self.model)}
        parts: list[Any] = [self.analysis.name, at, {k: v for k, v in base.items() if k != "name"}]
        parts += [data.hash, data.split, group, {k: v for k, v in trained.items() if k != "seconds"}]
        parts += [config.resamples, config.level]
        run_id = digest_of(parts)
        metrics = {name: METRICS[name] for name in METRIC_NAMES[str(at["objective"])]}
        if at["objective"] == "token":
            metrics["f1_sp_model_tokens"] = f1_sp_in_model_tokens(self.dataset.sequences)
        everything = range(len(data.examples))
        (row,) = result_rows(run_id, evaluation, config.settings, metrics, [(group or None, everything)])
        self.analysis.findings.append(ProbeFinding(self.analysis.name, at, base, trained, row))


def compare_findings(
    evaluations: Sequence[Evaluation], metric: str, config: AnalysisConfig
) -> list[DetectorComparison]:
    """The exact tests of every two evaluations, with Bonferroni's correction for their number."""
    return correct([compare_pair(a, b, metric, config.settings) for a, b in combinations(evaluations, 2)])


def encode_records(analysis: Analysis) -> str:
    """Findings, peaks and comparisons as JSON Lines."""
    return "".join(encode(r) + "\n" for r in (*analysis.findings, *analysis.peaks, *analysis.comparisons))


def read_records(path: Path) -> Analysis:
    """The analysis in a file of `encode_records`; `DataError` with its line for anything else."""
    records: dict[type, list[Any]] = {ProbeFinding: [], Peak: [], DetectorComparison: []}
    hint = "records of analyses are written by `veridical analyse --out`"
    for _, record in read_documents(path, "finding", "peak", "comparison", hint=hint):
        records[type(record)].append(record)
    name = records[ProbeFinding][0].analysis if records[ProbeFinding] else ""
    return Analysis(name, records[ProbeFinding], records[Peak], records[DetectorComparison])
