"""Measure which types of error probes detect, by testing each type against all clean responses.

This follows CH-Wang et al. 2024, Figure 3. F1 depends on the frequency of a type. Recall at a fixed threshold and ROC
AUC do not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from veridical.inference.local_model import LocalModel
from veridical.records.errors import InputError
from veridical.records.spans import subtract
from veridical.records.types import GOLD_THRESHOLD, Example, judged_spans
from veridical_lab.bench.evaluation import Evaluation
from veridical_lab.probes.analysis.dataset import AnalysisConfig, dataset_of, objectives_of, read_data
from veridical_lab.probes.analysis.peaks import peaks_of
from veridical_lab.probes.analysis.results import Analysis, At, Recorder, place_of
from veridical_lab.probes.analysis.sublayer_probes import all_positive, fit_sublayers


def analyse_error_types(
    model: LocalModel,
    data: str,
    config: AnalysisConfig,
    *,
    merge: Mapping[str, str] | None = None,
    by: str | None = None,
) -> Analysis:
    """Measure, for each type of error and each sublayer, how well probes separate errors from all clean responses.

    The probes are trained on all types together, so probes and thresholds are those of `analyse_layers`.

    Args:
        model: The language model to probe.
        data: The labelled data, NAME:PATH.
        config: The options of the analysis.
        merge: For each type, a text. All labels that contain the text belong to the type (see `error_types_of`).
        by: The name of a group of the examples. If given, its values are compared instead of types, each with its own
            clean examples.

    Raises:
        InputError: No error has a type, or no error has one of the named types.
    """
    dataset = dataset_of(model, read_data(data, config), config)
    everything = [e for part in dataset.parts.values() for e in part]
    types = error_types_of(everything, merge or {}, by)
    analysis = Analysis("labels")
    record = Recorder(analysis, model, dataset, config)
    for objective in objectives_of(dataset, config):
        fitted = fit_sublayers(dataset, objective, config)
        evaluations = fitted.evaluate_all()
        for name, labels in types.items():
            baseline = _restricted(all_positive(dataset, objective), labels, by)
            if not baseline.data.examples:
                continue
            of_type = [(subset, _restricted(evaluation, labels, by)) for subset, evaluation in evaluations]
            errors = sum((e.gold.hallucination or 0.0) >= GOLD_THRESHOLD for e in baseline.data.examples)
            where: At = {"kind": name, "errors": errors}
            group = f"{by or 'label'}={name}"
            for subset, evaluation in (*of_type, (None, baseline)):
                at = {**place_of(subset, objective), **where}
                record.add(at, evaluation, None if subset is None else fitted.training, group=group)
            analysis.peaks.extend(peaks_of("labels", fitted, of_type, baseline, {"kind": name}))
    return analysis


def _restricted(evaluation: Evaluation, labels: set[str], by: str | None) -> Evaluation:
    """Restrict an evaluation to the examples of one type."""
    pairs = []
    for example, judgement in zip(evaluation.data.examples, evaluation.judgements, strict=True):
        if by is None:
            of_type = with_errors_of(example, labels)
        else:
            of_type = example if dict(example.group).get(by) in labels else None
        if of_type is not None:
            pairs.append((of_type, judgement))
    data = replace(evaluation.data, examples=[e for e, _ in pairs])
    return replace(evaluation, data=data, judgements=[j for _, j in pairs])


def error_types_of(examples: Sequence[Example], merge: Mapping[str, str], by: str | None = None) -> dict[str, set[str]]:
    """Map each type of error to the verdict labels that belong to it. By default, every label is a type.

    Args:
        examples: The labelled cases.
        merge: For each type, a text that its labels contain, in any letter case ("intrinsic" for "Intrinsic Entity
            Error" …).
        by: The name of a group of the examples. If given, its values are the types.

    Raises:
        InputError: There are no types.
    """
    if by is not None:
        values = {value for e in examples for key, value in e.group if key == by}
        if not values:
            groups = sorted({key for e in examples for key, _ in e.group})
            raise InputError(f"no group {by!r} in the data", hint=f"there are: {', '.join(groups) or 'none'}")
        return {value: {value} for value in sorted(values)}
    labels = {v.label for e in examples for v in e.gold.verdicts if v.label and v.score >= GOLD_THRESHOLD}
    if not labels:
        raise InputError(
            "no error in the data is labelled by type", hint="bump and summedits are; or --by a group, such as system"
        )
    if not merge:
        return {label: {label} for label in sorted(labels)}
    types = {name: {label for label in labels if part.lower() in label.lower()} for name, part in merge.items()}
    empty = [name for name, members in types.items() if not members]
    if empty:
        raise InputError(f"no label contains {merge[empty[0]]!r}", hint=f"labels: {', '.join(sorted(labels))}")
    return types


def with_errors_of(example: Example, labels: set[str]) -> Example | None:
    """Keep only an example's errors with these labels. Return None if all of its errors have other labels.

    Errors with other labels become unjudged, so that they count neither as hits nor as false alarms.
    """
    gold = example.gold
    errors = [v for v in gold.verdicts if v.score >= GOLD_THRESHOLD]
    if not errors:
        return example if (gold.hallucination or 0.0) < GOLD_THRESHOLD else None
    chosen = tuple(v for v in errors if v.label in labels)
    if not chosen:
        return None
    others = subtract([v.span for v in errors if v.label not in labels], [v.span for v in chosen])
    if not others:
        return replace(example, gold=replace(gold, verdicts=chosen))
    judged = tuple(subtract(judged_spans(example.case, gold), others))
    return replace(example, gold=replace(gold, verdicts=chosen, judged=judged))
