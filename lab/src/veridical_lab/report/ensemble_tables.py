"""A fitted ensemble as tables: one per level with each member alone and all together, and the cascade."""

from __future__ import annotations

from veridical.core.types import Level
from veridical.metrics.measure import Measured
from veridical.report.calibration_tables import NEARLY_ALL
from veridical.report.tables import Table, cell
from veridical_lab.detectors.ensemble.artifact import FittedEnsemble

__all__ = ["ensemble_tables"]


def ensemble_tables(fitted: FittedEnsemble) -> list[Table]:
    """Return one table per level, with weights and ROC AUC on validation, and one with the stages of the cascade."""
    tables = []
    for level in (level for level in Level if level.value in fitted.validation):
        fit = fitted.validation[level.value]
        lines = [
            [name, f"{member['weight']:.3f}", cell(Measured(**member["roc_auc"]))]
            for name, member in fit["members"].items()
        ]
        foot = f"{fit['items']} items, {fit['share_of_positives']:.0%} positive, of {fit['documents']} documents; "
        if "note" in fit:
            tables.append(Table(level.value, ["on validation", "weight", "ROC AUC"], lines, foot + fit["note"]))
            continue
        ensemble = fit["ensemble"]
        lines.append(["ensemble", "", cell(Measured(**ensemble["roc_auc"]))])
        held_out = f"cross-fitted over {fit['folds']} folds of documents" if fit["folds"] else "not cross-fitted"
        test = "" if fit["p"] is None else f"against {fit['best']}: p = {fit['p']:.3g}; "
        foot += (
            f"the ensemble is {held_out}; {test}ECE {ensemble['ece']['value']:.3f}; regularisation "
            f"{fit['strength']:g}; the threshold {fitted.levels[level].threshold:.4g} flags {fit['share_flagged']:.0%}"
        )
        if fit["share_flagged"] > NEARLY_ALL:
            foot += "; --criterion balanced_accuracy flags fewer"
        tables.append(Table(level.value, ["on validation", "weight", "ROC AUC"], lines, foot))
    return [*tables, _members(fitted)]


def _members(fitted: FittedEnsemble) -> Table:
    """Return the members in the order of their cost, and the stages of the cascade."""
    figures = fitted.validation.get("cascade")
    lines = []
    for i, member in enumerate(fitted.members):
        line = [member.detector, f"{member.seconds:.3g} ({member.clock})"]
        if figures is not None:
            stage = fitted.cascade[i] if i < len(fitted.cascade) else None
            never = "the rest" if stage is None else "never"
            line += [
                f"{figures['asked'][i]:.0%}",
                f"below {stage.clear_below:.3g}" if stage is not None and stage.clear_below > 0 else never,
                f"from {stage.flag_from:.3g}" if stage is not None and stage.flag_from is not None else never,
            ]
        lines.append(line)
    if figures is None:
        return Table("members", ["member", "seconds per response"], lines, "no cascade was fitted")
    foot = (
        f"the cascade takes {figures['share_of_seconds']:.0%} of the seconds and has a ROC AUC of "
        f"{figures['roc_auc']:.3f}, all members together {figures['roc_auc_of_all']:.3f}"
    )
    return Table("cascade", ["member", "seconds per response", "asked", "clear", "flagged"], lines, foot)
