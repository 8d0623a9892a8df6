"""Show an analysis of word features as tables and plots.

The tables are like Tables 1 and 4 of Liu et al. 2022, and the plots like Table 1B and Figure 4.
"""

from __future__ import annotations

from veridical.report.tables import Table
from veridical_lab.report.plots import INK, as_svg, colour_of, finish_heat_map, new_axes, new_figure
from veridical_lab.report.table_formats import or_dash
from veridical_lab.training.feature_analysis import LABEL, FeatureAnalysis, Spread

_TYPE_COLUMNS, _FEATURE_COLUMNS = 42, 46  # width in characters of the first three columns, and of a feature's two


def feature_tables(analysis: FeatureAnalysis, width: int = 400) -> list[Table]:
    """Make tables of means by label and word type, at most `width` characters wide if possible, and of correlations."""
    tables = []
    step = max(1, (width - _TYPE_COLUMNS) // _FEATURE_COLUMNS)
    left_out = "".join(f"; {count} responses left out: {reason}" for reason, count in analysis.left_out.items())
    foot = (
        f"mean (standard deviation) over hallucinated (H) and other (N) words or phrases; "
        f"model {analysis.model or 'none'}; tagger {analysis.tagger}; data {analysis.data_hash[:12]}; "
        f"{analysis.date}{left_out}"
    )
    for first in range(0, len(analysis.features), step):
        shown = analysis.features[first : first + step]
        lines = []
        for group in analysis.groups:
            total = group.hallucinated + group.other
            cells = [spread_text(spread) for name in shown for spread in group.features[name]]
            lines.append([group.name, str(total), f"{group.hallucinated / total:.0%}", *cells])
        head = ["words", "n", LABEL, *(f"{name} {side}" for name in shown for side in ("H", "N"))]
        last = first + step >= len(analysis.features)
        tables.append(Table(f"{analysis.data}: features by label and word type", head, lines, foot if last else ""))
    names = [LABEL, *analysis.features]
    rows = [
        [name, *(or_dash(value, "+.2f") for value in row)]
        for name, row in zip(names, analysis.correlations, strict=True)
    ]
    foot = f"Pearson's, over {analysis.units} words or phrases"
    return [*tables, Table(f"{analysis.data}: correlations", ["", *names], rows, foot)]


def spread_text(spread: Spread) -> str:
    """Format a mean and its deviation as `2.58 (1.49)`. Small numbers get a power of ten.

    >>> spread_text(Spread(2.581, 1.49)), spread_text(Spread(0.00012, 0.0034))
    ('2.58 (1.49)', '1.2e-04 (3.4e-03)')
    """
    if spread.mean is None or spread.deviation is None:
        return "–"
    form = ".1e" if max(abs(spread.mean), spread.deviation) < 0.01 and spread.deviation else ".2f"
    return f"{spread.mean:{form}} ({spread.deviation:{form}})"


def feature_plots(analysis: FeatureAnalysis) -> dict[str, str]:
    """Plot correlations and word types, each as an <svg> element, by file name.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    return {"correlations": _correlation_plot(analysis), "word-types": _word_type_plot(analysis)}


def _correlation_plot(analysis: FeatureAnalysis) -> str:
    """Plot the correlations between label and features as a heat map."""
    names = [LABEL, *analysis.features]
    size = 2.2 + 0.62 * len(names)
    figure, axes = new_axes(size + 0.8, size)
    grid = [[float("nan") if value is None else value for value in row] for row in analysis.correlations]
    image = axes.imshow(grid, cmap="cividis", vmin=-1, vmax=1)
    for i, row in enumerate(analysis.correlations):
        for j, value in enumerate(row):
            if value is not None:
                ink = "#ffffff" if value < 0.1 else "#000000"
                axes.text(j, i, f"{value:.2f}", ha="center", va="center", color=ink, fontsize=8)
    axes.set_xticks(range(len(names)), names, rotation=45, ha="right", color=INK, fontsize=8)
    axes.set_yticks(range(len(names)), names, color=INK, fontsize=8)
    finish_heat_map(figure, axes, image, "", "")
    return as_svg(figure)


def _word_type_plot(analysis: FeatureAnalysis) -> str:
    """Plot how many words are hallucinated and how many are not, by part of speech and by entity type.

    Most words are in no entity, so the number of these words is only in the title.
    """
    groups = {prefix: [g for g in analysis.groups if g.name.startswith(f"{prefix}:")] for prefix in ("pos", "entity")}
    most = max(len(of_kind) for of_kind in groups.values())
    figure = new_figure(8.4, 1.0 + 0.24 * most)
    titles = {"pos": "part of speech", "entity": "entity type"}
    for group in groups["entity"]:
        if group.name == "entity:none":
            total = group.hallucinated + group.other
            titles["entity"] += f" (none: {total:,} words, {group.hallucinated / total:.0%})"
    for axes, (prefix, of_kind) in zip(figure.subplots(1, 2), groups.items(), strict=True):
        shown = [group for group in of_kind if group.name != "entity:none"]
        ordered = sorted(shown, key=lambda group: group.hallucinated + group.other)
        places = range(len(ordered))
        marked = [group.hallucinated for group in ordered]
        axes.barh(places, marked, color=colour_of(1), label=LABEL)
        axes.barh(places, [group.other for group in ordered], left=marked, color=colour_of(0), label="not")
        for place, group in zip(places, ordered, strict=True):
            total = group.hallucinated + group.other
            axes.text(total, place, f" {group.hallucinated / total:.0%}", va="center", color=INK, fontsize=7)
        axes.set_yticks(places, [group.name.partition(":")[2] for group in ordered], color=INK, fontsize=8)
        axes.tick_params(colors=INK, labelsize=8)
        axes.spines[["top", "right", "left", "bottom"]].set_visible(False)
        axes.set_title(titles[prefix], fontsize=9, color=INK)
        axes.margins(x=0.12)
        if prefix == "entity":
            axes.legend(frameon=False, fontsize=8, loc="lower right", labelcolor=INK)
    return as_svg(figure)
