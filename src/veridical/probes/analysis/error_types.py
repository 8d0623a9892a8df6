"""Which kinds of error probes see: one kind at a time against all clean responses (D Figure 3).

F1 depends on how common a kind is; recall at the same threshold, and ROC AUC, do not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from veridical.bench.evaluation import Trial
from veridical.core.errors import InputError
from veridical.core.spans import Span, subtract
from veridical.core.types import GOLD_THRESHOLD, Example, judged_spans
from veridical.models.load import LocalModel
from veridical.probes.analysis.dataset import Plan, material_of, objectives_of, read_data
from veridical.probes.analysis.layers import NOWHERE, place_of, probed
from veridical.probes.analysis.peaks import peaks_of
from veridical.probes.analysis.probing import flag_all
from veridical.probes.analysis.results import Analysis, At, finding_of

__all__ = ["kinds_of", "labels", "restricted"]


def kinds_of(examples: Sequence[Example], merge: Mapping[str, str], by: str | None = None) -> dict[str, set[str]]:
    """Kind -> the labels of verdicts that it takes together; without `merge` every label is a kind.

    `merge` says NAME -> a part of labels, in any case ("intrinsic" -> "Intrinsic Entity Error" …). With `by` kinds are
    the values of that group of the examples. `InputError` where there are none.
    """
    if by is not None:
        values = {value for e in examples for key, value in e.group if key == by}
        if not values:
            known = sorted({key for e in examples for key, _ in e.group})
            raise InputError(f"no group {by!r} in the data", hint=f"there are: {', '.join(known) or 'none'}")
        return {value: {value} for value in sorted(values)}
    found = {v.label for e in examples for v in e.gold.verdicts if v.label and v.score >= GOLD_THRESHOLD}
    if not found:
        raise InputError(
            "no error in the data is labelled by kind", hint="bump and summedits are; or --by a group, such as system"
        )
    if not merge:
        return {label: {label} for label in sorted(found)}
    made = {name: {label for label in found if part.lower() in label.lower()} for name, part in merge.items()}
    empty = [name for name, chosen in made.items() if not chosen]
    if empty:
        raise InputError(f"no label holds {merge[empty[0]]!r}", hint=f"labels: {', '.join(sorted(found))}")
    return made


def restricted(example: Example, chosen: set[str]) -> Example | None:
    """The example with errors of the labels `chosen` alone; None where it has others only.

    Errors of other labels are not judged: they are neither hits nor false alarms.
    """
    gold = example.gold
    errors = [v for v in gold.verdicts if v.score >= GOLD_THRESHOLD]
    if not errors:
        return example if (gold.hallucination or 0.0) < GOLD_THRESHOLD else None
    mine = tuple(v for v in errors if v.label in chosen)
    if not mine:
        return None
    others = subtract([v.span for v in errors if v.label not in chosen], [v.span for v in mine])
    if not others:
        return replace(example, gold=replace(gold, verdicts=mine))
    everything = judged_spans(example.case, gold)
    inside: tuple[Span, ...] = tuple(subtract(everything, others))
    return replace(example, gold=replace(gold, verdicts=mine, judged=inside))


def labels(
    model: LocalModel, spec: str, plan: Plan, *, merge: Mapping[str, str] | None = None, by: str | None = None
) -> Analysis:
    """Findings by kind of error and sublayer: the errors of one kind against all clean responses.

    With `by` the kinds are groups of the examples, each with its own clean ones. Probes and thresholds are those of
    `layers`, trained on all kinds.
    """
    material = material_of(model, read_data(spec, plan), plan)
    kinds = kinds_of(material.data.examples, merge or {}, by)
    made = Analysis("labels")
    for objective in objectives_of(material, plan):
        found, trials = probed(material, objective, plan)
        for kind, chosen in kinds.items():
            parts = [(view, _part(trial, chosen, by)) for view, trial in trials]
            floor = _part(flag_all(material, objective), chosen, by)
            errors = sum((e.gold.hallucination or 0.0) >= GOLD_THRESHOLD for e in floor.data.examples)
            where: At = {"kind": kind, "errors": errors}
            group = f"{by or 'label'}={kind}"
            for view, trial in parts if floor.data.examples else ():
                at = {**place_of(view, found, objective), **where}
                made.findings.append(finding_of("labels", at, model, found.training, trial, plan, group=group))
            if floor.data.examples:
                at = {**NOWHERE, "objective": objective, **where}
                made.findings.append(finding_of("labels", at, model, {}, floor, plan, group=group))
                made.peaks.extend(peaks_of("labels", found, parts, floor, plan, {"kind": kind}))
    return made


def _part(trial: Trial, chosen: set[str], by: str | None) -> Trial:
    """The trial on one kind alone."""
    kept = []
    for example, judgement in zip(trial.data.examples, trial.judgements, strict=True):
        mine = restricted(example, chosen) if by is None else example
        if by is not None and dict(example.group).get(by) not in chosen:
            mine = None
        if mine is not None:
            kept.append((mine, judgement))
    data = replace(trial.data, examples=[e for e, _ in kept])
    return replace(trial, data=data, judgements=[j for _, j in kept])
