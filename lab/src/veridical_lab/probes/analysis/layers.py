"""Measure F1-R and F1-Sp of each sublayer, and find the first sublayer with 95 % of the highest value (the peak).

This follows CH-Wang et al. 2024, Figures 2 and 4. One training run gives the probes of all 2L sublayers.
"""

from __future__ import annotations

from dataclasses import replace

from veridical.inference.local_model import LocalModel
from veridical_lab.probes.analysis.dataset import AnalysisConfig, dataset_of, objectives_of, read_data
from veridical_lab.probes.analysis.peaks import peaks_of
from veridical_lab.probes.analysis.results import COMPARED, Analysis, Recorder, compare_findings, place_of
from veridical_lab.probes.analysis.sublayer_probes import SUBLAYER_TYPES, all_positive, fit_sublayers


def analyse_layers(model: LocalModel, data: str, config: AnalysisConfig) -> Analysis:
    """Measure a probe on each sublayer, an ensemble for each type of sublayer, and an ensemble of all.

    A baseline that flags everything is measured, too.

    Args:
        model: The language model to probe.
        data: The labelled data, NAME:PATH.
        config: The options of the analysis.

    Returns:
        Findings, peaks, and exact tests of the attention ensemble against the feed-forward ensemble ("Hidden State
        Type", CH-Wang et al. 2024, §6).

    Raises:
        InputError: All labels in the data are of one class, or the labels of an objective are missing.
    """
    dataset = dataset_of(model, read_data(data, config), config)
    analysis = Analysis("layers")
    record = Recorder(analysis, model, dataset, config)
    for objective in objectives_of(dataset, config):
        fitted = fit_sublayers(dataset, objective, config)
        evaluations = fitted.evaluate_all()
        baseline = all_positive(dataset, objective)
        for subset, evaluation in evaluations:
            record.add(place_of(subset, objective), evaluation, fitted.training)
        record.add(place_of(None, objective), baseline)
        analysis.peaks.extend(peaks_of("layers", fitted, evaluations, baseline, {}))
        by_type = [
            replace(evaluation, name=f"{subset.name}, {objective}")
            for subset, evaluation in evaluations
            if subset.sublayer is None and subset.sublayer_type in SUBLAYER_TYPES
        ]
        for metric in COMPARED[objective]:
            analysis.comparisons.extend(compare_findings(by_type, metric, config))
    return analysis
