"""Show analyses of probes as tables: findings by objective, peaks over sublayers, and comparisons."""

from __future__ import annotations

from collections.abc import Sequence

from veridical.report.tables import Table, cell
from veridical_lab.probes.analysis.results import Analysis, At, Peak
from veridical_lab.report.result_tables import comparison_table
from veridical_lab.report.table_formats import or_dash


def analysis_tables(analysis: Analysis) -> list[Table]:
    """Make a table for each objective, and tables of peaks and comparisons if there are any."""
    tables = []
    for objective in dict.fromkeys(str(f.at["objective"]) for f in analysis.findings):
        findings = [f for f in analysis.findings if f.at["objective"] == objective]
        metrics = list(dict.fromkeys(m for f in findings for m in f.row.metrics))
        lines = [
            [_label(f.at), str(f.row.n), str(f.row.not_judged), *(cell(f.row.metrics.get(name)) for name in metrics)]
            for f in findings
        ]
        row = findings[0].row
        data = ", ".join(dict.fromkeys(f"{f.row.data} {f.row.data_hash[:12]}" for f in findings))
        foot = (
            f"{row.level:.0%} intervals by bootstrap over documents ({row.resamples} samples, seed {row.seed}); "
            f"data {data}; {', '.join(sorted({f.row.date for f in findings}))}"
        )
        title = f"{analysis.name}, {objective}-level probes, test part"
        tables.append(Table(title, ["detector", "n", "not judged", *metrics], lines, foot))
    if analysis.peaks:
        tables.append(peaks_table(analysis.peaks))
    if analysis.comparisons:
        tables.append(comparison_table(analysis.comparisons))
    return tables


def _label(place: At) -> str:
    """Describe in words what a finding is about."""
    text = str(place["view"])
    if text.startswith("sublayer"):
        text += f" ({place['half']} of block {int(place['sublayer'] or 0) // 2})"
    elif place.get("sublayer") is not None:
        text += f" ({place['sublayer']})"
    if "train" in place:
        return f"{place['train']} → {place['test']}: {text}" if text != "flag all" else f"→ {place['test']}: {text}"
    if "kind" in place:
        return f"{place['kind']} ({place['errors']} errors): {text}"
    if "tokens" in place:
        return f"{place['tokens']} tokens ({place['tokens_read']} read): {text}"
    return f"{place['model']} ({place['parameters']:,} weights): {text}" if "model" in place else text


def peaks_table(peaks: Sequence[Peak]) -> Table:
    """Make a table of the peaks over sublayers, and of the first sublayers that come close to a peak."""
    keys = list(dict.fromkeys(key for p in peaks for key in p.at))
    lines = [
        [
            p.metric,
            *(str(p.at.get(key)) for key in keys),
            p.half,
            f"{p.peak:.3f} at {p.peak_sublayer}",
            f"{p.first}" + ("" if p.low is None else f" [{p.low}, {p.high}]"),
            "–" if p.chosen_value is None else f"{p.chosen_value:.3f} at {p.chosen}",
            or_dash(p.floor, ".3f"),
            or_dash(p.first_above_floor, "d"),
        ]
        for p in peaks
    ]
    share = f"{peaks[0].share:.0%}"
    head = ["metric", *keys, "half", "peak", f"first at {share}", "best on validation", "floor"]
    foot = (
        "sublayers from 0: 2l is the attention of block l, 2l + 1 its feed-forward half; the peak is that of the test "
        f"part; floor: flagging everything; above: {share} of the way from the floor to the peak"
    )
    return Table("peaks over sublayers", [*head, f"first at {share} above"], lines, foot)
