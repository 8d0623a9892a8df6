"""Compare probes on base models of different sizes ("Model Size", CH-Wang et al. 2024, §6)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from veridical.inference.local_model import LocalModel
from veridical.records.errors import InputError
from veridical_lab.bench.evaluation import Evaluation
from veridical_lab.probes.analysis.dataset import AnalysisConfig, dataset_of, objectives_of, read_data
from veridical_lab.probes.analysis.peaks import peaks_of
from veridical_lab.probes.analysis.results import (
    COMPARED,
    Analysis,
    At,
    Recorder,
    compare_findings,
    name_of,
    weights_of,
)
from veridical_lab.probes.analysis.sublayer_probes import ALL_POSITIVE, all_positive, fit_sublayers


def analyse_model_size(models: Iterable[LocalModel], data: str, config: AnalysisConfig) -> Analysis:
    """Measure the best sublayer and the ensemble of several base models on the same data.

    Args:
        models: Two or more language models. Each model is requested only when the previous one is finished, so an
            iterator may load them lazily.
        data: The labelled data, NAME:PATH.
        config: The options of the analysis.

    Returns:
        Findings and peaks for each model, and an exact test between the ensembles of every two models.

    Raises:
        InputError: There is only one model.
    """
    analysis = Analysis("size")
    ensembles: dict[str, list[Evaluation]] = {}
    examples = read_data(data, config)
    for model in models:
        config.progress(f"model {model.name}: {weights_of(model)} weights")
        dataset = dataset_of(model, examples, config)
        where: At = {"model": name_of(model), "parameters": weights_of(model)}
        for objective in objectives_of(dataset, config):
            ensemble = add_best_and_ensemble(Recorder(analysis, model, dataset, config), objective, where)
            ensembles.setdefault(objective, []).append(replace(ensemble, name=f"ensemble on {name_of(model)}"))
        del model  # so that only one model is in memory at a time
    if len({str(f.model["weights"]) + str(f.at["model"]) for f in analysis.findings}) < 2:
        raise InputError("one model is named", hint="size takes two or more: --model A --model B")
    for objective, evaluations in ensembles.items():
        for metric in COMPARED[objective]:
            analysis.comparisons.extend(compare_findings(evaluations, metric, config))
    return analysis


def add_best_and_ensemble(record: Recorder, objective: str, where: At) -> Evaluation:
    """Add findings for the best sublayer (by validation), the ensemble and the baseline.

    Return the evaluation of the ensemble.
    """
    fitted = fit_sublayers(record.dataset, objective, record.config)
    evaluations = fitted.evaluate_all(by_type=False)
    baseline, ensemble = all_positive(record.dataset, objective), evaluations[-1][1]
    best = fitted.best
    for name, sublayer, evaluation, training in (
        ("best sublayer", fitted.probes.sublayers[best], evaluations[best][1], fitted.training),
        ("ensemble of all", None, ensemble, fitted.training),
        (ALL_POSITIVE, None, baseline, None),
    ):
        record.add({"objective": objective, **where, "view": name, "sublayer": sublayer}, evaluation, training)
    analysis = record.analysis
    analysis.peaks.extend(peaks_of(analysis.name, fitted, evaluations, baseline, where, types=("all",)))
    return ensemble
