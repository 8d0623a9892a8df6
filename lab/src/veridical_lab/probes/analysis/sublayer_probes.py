"""Fit the probes of all sublayers once, and evaluate them on a test part, each by itself or several together."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridical.records.spans import Span
from veridical.records.types import Judgement, Level, Verdict
from veridical_lab.bench.evaluation import Evaluation
from veridical_lab.bench.settings import Loaded
from veridical_lab.models.probe_heads import Probes, from_tensors
from veridical_lab.probes.analysis.dataset import AnalysisConfig
from veridical_lab.probes.dataset import ProbeDataset
from veridical_lab.probes.evaluation import best_f1_each, fit_threshold, judgements_of
from veridical_lab.probes.fitting import ScoresBySequence, fit, fit_ensemble, scores_of

SUBLAYER_TYPES = ("attention", "feed-forward")
METRIC_NAMES = {"response": ("f1", "recall", "roc_auc"), "token": ("f1_sp", "token_f1", "word_roc_auc")}
PROBE_METRIC_LEVELS = {"response": ("response",), "token": ("token", "span")}  # levels of metrics that need a threshold
ALL_POSITIVE = "flag all"


def type_of(sublayer: int) -> str:
    """Return whether a sublayer is the "attention" or the "feed-forward" part of its block."""
    return SUBLAYER_TYPES[sublayer % 2]


def _evaluation(
    detector: str,
    dataset: ProbeDataset,
    objective: str,
    judgements: Mapping[str, Judgement],
    thresholds: Mapping[str, float],
) -> Evaluation:
    """Evaluate judgements (by case id) on the whole test part. Cases without a judgement could not be encoded."""
    examples = dataset.parts["test"]
    unread = ("it could not be read",)
    all_judgements = [
        judgements.get(e.case.id) or Judgement(e.case.id, detector, judged=(), notes=unread) for e in examples
    ]
    split = "test part" if dataset.split == "all" else f"{dataset.split}, test part"
    data = Loaded(dataset.name, split, examples, [], dataset.hash, (), 0)
    level = Level.RESPONSE if objective == "response" else Level.SPAN
    source = "f1 on the validation part of what was trained on"
    return Evaluation(detector, (level,), data, all_judgements, thresholds, source)


def all_positive(dataset: ProbeDataset, objective: str) -> Evaluation:
    """Evaluate a baseline that flags everything, which a useful probe must beat."""
    judgements = {}
    for example in dataset.parts["test"]:
        case = example.case
        verdicts = (Verdict(Span(0, len(case.response)), 1.0),) if case.response else ()
        judgements[case.id] = Judgement(case.id, ALL_POSITIVE, 1.0, verdicts=verdicts)
    return _evaluation(ALL_POSITIVE, dataset, objective, judgements, dict.fromkeys(PROBE_METRIC_LEVELS[objective], 0.5))


@dataclass(frozen=True, slots=True, eq=False)
class ProbeSubset:
    """One probe, or several probes and the ensemble that combines them.

    Attributes:
        name: The name of the subset in results.
        indices: The indices of these probes among all probes.
        sublayer_type: "attention", "feed-forward" or "all".
        probes: The probes themselves.
    """

    name: str
    indices: tuple[int, ...]
    sublayer_type: str
    probes: Probes

    @property
    def sublayer(self) -> int | None:
        """The sublayer of a single probe, or None for an ensemble."""
        return self.probes.sublayers[0] if len(self.indices) == 1 else None

    def scores(self, each: NDArray[np.float64]) -> NDArray[np.float64]:
        """Combine the scores of all probes, (probes, tokens or 1), to scores of this subset, (tokens or 1,)."""
        return np.asarray(self.probes.combine(each[list(self.indices)]), dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class SublayerProbes:
    """A probe for each sublayer, fitted on the training part of a data set.

    Attributes:
        dataset: The data set on which the probes were fitted.
        probes: All probes.
        scores: The scores that the probes give to the training and the validation part.
        f1: The highest F1 of each probe at any threshold on the validation part, over tokens or responses. *Shape:*
            (probes,)
        training: A record of how the probes were fitted.
        config: The options of the analysis.
    """

    dataset: ProbeDataset
    probes: Probes
    scores: ScoresBySequence
    f1: NDArray[np.float64]
    training: dict[str, Any]
    config: AnalysisConfig

    @property
    def best(self) -> int:
        """The index of the probe that is best on the validation part (SL in CH-Wang et al. 2024, §5.1)."""
        return int(np.argmax(self.f1))

    def single(self, index: int, name: str | None = None) -> ProbeSubset:
        """Return one probe as a subset."""
        sublayer = self.probes.sublayers[index]
        return ProbeSubset(name or f"sublayer {sublayer}", (index,), type_of(sublayer), self.probes.only(sublayer))

    def ensemble(self, sublayer_type: str = "all") -> ProbeSubset | None:
        """Fit the ensemble of all probes or of those of one type. Return None if there are fewer than two."""
        sublayers = self.probes.sublayers
        indices = [i for i, s in enumerate(sublayers) if sublayer_type in (type_of(s), "all")]
        if len(indices) < 2:
            return None
        tensors = {name: array[indices] for name, array in self.probes.tensors().items() if name != "mix"}
        chosen = tuple(sublayers[i] for i in indices)
        probes = from_tensors(self.probes.kind, self.probes.objective, chosen, tensors)
        scores = {i: each[indices] for i, each in self.scores.items()}
        data, options = self.dataset, replace(self.config.options, objective=probes.objective)
        probes = fit_ensemble(probes, scores, data.labels, data.train, data.valid, options)
        return ProbeSubset(f"ensemble of {sublayer_type}", tuple(indices), sublayer_type, probes)

    def subsets(self, *, by_type: bool = True) -> list[ProbeSubset]:
        """List each single probe and the ensemble of all probes.

        With `by_type`, also list the ensembles of attention and of feed-forward sublayers.
        """
        ensembles = [self.ensemble(t) for t in (*(SUBLAYER_TYPES if by_type else ()), "all")]
        return [*(self.single(i) for i in range(len(self.f1))), *(e for e in ensembles if e is not None)]

    def thresholds_of(self, subset: ProbeSubset) -> dict[str, float]:
        """Fit thresholds on the validation part of the probes' data set, one for each level of metrics.

        The threshold of "response" maximises F1 over responses, that of "token" F1 over white-space tokens, and that of
        "span" F1-Sp.
        """
        scores = {i: subset.scores(self.scores[i]) for i in self.dataset.valid.tolist()}
        judged = judgements_of(self.dataset.sequences, scores, self.probes.objective)
        return {level: fit_threshold(judged, level) for level in PROBE_METRIC_LEVELS[self.probes.objective]}

    def evaluate(
        self, subset: ProbeSubset, dataset: ProbeDataset, scores: ScoresBySequence, thresholds: Mapping[str, float]
    ) -> Evaluation:
        """Evaluate a subset on the test part of `dataset`. `scores` are the scores of all probes there."""
        objective = self.probes.objective
        name = f"{self.probes.kind} {objective} probe of {self.dataset.name}, {subset.name}"
        of_subset = {i: subset.scores(scores[i]) for i in dataset.test.tolist()}
        judged = judgements_of(dataset.sequences, of_subset, objective, by=name)
        return _evaluation(name, dataset, objective, {e.case.id: j for e, j in judged}, thresholds)

    def evaluate_all(self, *, by_type: bool = True) -> list[tuple[ProbeSubset, Evaluation]]:
        """Evaluate all `subsets` on the test part of the probes' data set."""
        scores = scores_of(self.dataset.states, self.dataset.test, self.probes)
        subsets = self.subsets(by_type=by_type)
        return [(s, self.evaluate(s, self.dataset, scores, self.thresholds_of(s))) for s in subsets]


def fit_sublayers(dataset: ProbeDataset, objective: str, config: AnalysisConfig, **about: Any) -> SublayerProbes:
    """Fit a probe on every sublayer. `about` is added to the record of this training."""
    options = replace(config.options, objective=objective)
    train, valid = dataset.train, dataset.valid
    started = time.perf_counter()
    fitted = fit(dataset.states, dataset.labels, train, valid, options, device=config.device, progress=config.progress)
    seconds = round(time.perf_counter() - started, 2)
    scores = scores_of(dataset.states, np.r_[train, valid], fitted.probes)
    training = {
        "data": dataset.name,
        "data_hash": dataset.hash,
        **about,
        "on": dataset.name,
        "objective": objective,
        "kind": options.kind,
        "sequences": {"train": len(train), "valid": len(valid)},
        "learning_rates": list(options.learning_rates),
        "batch_sizes": list(options.batch_sizes),
        "patience": options.patience,
        "max_epochs": options.max_epochs,
        "balanced": options.balanced,
        "template": config.template,
        "token_consensus": config.token_consensus,
        "max_tokens": config.max_tokens,
        "seed": options.seed,
        "seconds": seconds,
    }
    f1 = best_f1_each(scores, valid, dataset.labels, objective)
    return SublayerProbes(dataset, fitted.probes, scores, f1, training, config)
