"""The records of an analysis: findings (points of a plot with result rows), peaks and comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

from veridical.inference.local_model import LocalModel
from veridical.io.serialization import encode, read_documents
from veridical.models.base_model import base_of
from veridical.records.detector import digest_of
from veridical_lab.bench.compare import DetectorComparison, compare_pair, correct
from veridical_lab.bench.evaluation import Evaluation
from veridical_lab.bench.results import ResultRow
from veridical_lab.bench.run import result_rows
from veridical_lab.metrics.registry import METRICS
from veridical_lab.probes.analysis.dataset import AnalysisConfig
from veridical_lab.probes.analysis.sublayer_probes import (
    ALL_POSITIVE,
    METRIC_NAMES,
    ProbeSubset,
)
from veridical_lab.probes.dataset import ProbeDataset
from veridical_lab.probes.evaluation import f1_sp_in_model_tokens

At = dict[str, str | int | float | bool | None]
COMPARED = {"response": ("f1", "roc_auc"), "token": ("token_f1", "word_roc_auc")}  # the metrics of significance tests


@dataclass(frozen=True, slots=True)
class ProbeFinding:
    """One point of a plot, with its measurements in `row`. `at` is its place (sublayer, half, kind, training set …).

    The `seconds` of the row are 0, because the activations are already computed and no model runs. `model` identifies
    the base model (as `inference.artifact.Base` does) and gives its number of weights. `training` identifies the
    probes.
    """

    analysis: str
    at: At
    model: dict[str, Any]
    training: dict[str, Any]
    row: ResultRow


@dataclass(frozen=True, slots=True)
class Peak:
    """The highest value of a metric over sublayers (test part), and the `first` sublayer with `share` of this peak.

    Sublayers are numbered from 0, and 2l is the attention of block l. `low` and `high` are the bootstrap interval of
    `first`. `floor` is the value of a baseline that flags everything. `first_above_floor` is the first sublayer that
    covers `share` of the way from the floor to the peak, or None if the peak is not above the floor. `chosen` is the
    best sublayer on the validation part, and `chosen_value` is the value of that sublayer on the test part.
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
    """All records of one analysis."""

    name: str
    findings: list[ProbeFinding] = field(default_factory=list)
    peaks: list[Peak] = field(default_factory=list)
    comparisons: list[DetectorComparison] = field(default_factory=list)


def weights_of(model: LocalModel) -> int:
    """Count the weights of a model. Shared weights count only once."""
    return sum(int(p.numel()) for p in model.model.parameters())


def name_of(model: LocalModel) -> str:
    """Return a model's name in results: the last part of its folder, or its name on the hub."""
    return Path(model.name).name if Path(model.name).exists() else model.name


def place_of(subset: ProbeSubset | None, objective: str) -> At:
    """Return the place of one or several probes in plots and tables. None means a baseline that flags everything."""
    if subset is None:
        return {"objective": objective, "view": ALL_POSITIVE, "half": "none", "layer": None, "sublayer": None}
    sublayer = subset.sublayer
    layer = None if sublayer is None else sublayer // 2 + 1
    at: At = {"objective": objective, "view": subset.name, "half": subset.sublayer_type}
    return at | {"layer": layer, "sublayer": sublayer}


@dataclass(frozen=True, slots=True)
class Recorder:
    """Measures evaluations, and adds the findings to an analysis.

    Attributes:
        analysis: The analysis to add to.
        model: The base model.
        dataset: The data set. Evaluations are about its test part.
        config: The options of the analysis.
    """

    analysis: Analysis
    model: LocalModel
    dataset: ProbeDataset
    config: AnalysisConfig

    def add(self, at: At, evaluation: Evaluation, training: dict[str, Any] | None = None, *, group: str = "") -> None:
        """Measure an evaluation and add it as a finding.

        Args:
            at: Where the finding belongs in the analysis. `at["objective"]` determines the metrics.
            evaluation: The judgements.
            training: How the probes were trained. None for a baseline.
            group: The group of examples that was judged. "" for all examples.
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
    """Compare each pair of evaluations by an exact test, with Bonferroni's correction for the number of tests."""
    return correct([compare_pair(a, b, metric, config.settings) for a, b in combinations(evaluations, 2)])


def encode_records(analysis: Analysis) -> str:
    """Encode findings, peaks and comparisons as JSON Lines."""
    return "".join(encode(r) + "\n" for r in (*analysis.findings, *analysis.peaks, *analysis.comparisons))


def read_records(path: Path) -> Analysis:
    """Read an analysis from a file written by `encode_records`.

    Raises:
        DataError: A line has other content.
    """
    records: dict[type, list[Any]] = {ProbeFinding: [], Peak: [], DetectorComparison: []}
    hint = "records of analyses are written by `veridical analyse --out`"
    for _, record in read_documents(path, "finding", "peak", "comparison", hint=hint):
        records[type(record)].append(record)
    name = records[ProbeFinding][0].analysis if records[ProbeFinding] else ""
    return Analysis(name, records[ProbeFinding], records[Peak], records[DetectorComparison])
