"""Show result rows as one HTML page, with tables, and plots of curves and groups. This needs the extra `plots`."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from veridical.report.pages import render, render_page
from veridical.report.tables import Table
from veridical_lab.bench.results import ResultRow
from veridical_lab.report.result_plots import by_set, group_bars, reliability_plot, roc_plot
from veridical_lab.report.result_tables import by_data, result_tables


@dataclass(frozen=True, slots=True)
class Section:
    """What the page shows of one data set: a table, plots as (caption, SVG in base 64), and the commands."""

    table: Table
    plots: list[tuple[str, str]]
    commands: list[str]


_METRICS = ("token_f1", "f1", "roc_auc")


def render_results(rows: Iterable[ResultRow], metrics: Sequence[str] | None = None, *, title: str = "Results") -> str:
    """Render the page as one self-contained HTML document.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    sections, sets = [], by_data(rows)
    for group in sets:
        ungrouped = [row for row in group if row.group is None]
        plots = {
            "ROC curves, response level": roc_plot(ungrouped),
            "Reliability, response level": reliability_plot(ungrouped),
        }
        for name in metrics or _METRICS:
            plots[f"{name} by group"] = group_bars(group, name)
        (table,) = result_tables(group, metrics)
        sections.append(Section(table, _images(plots), list(dict.fromkeys(row.command for row in group))))
    together = [row for group in sets for row in group] if len(sets) > 1 else []
    overview = _images({f"{name} by data set": by_set(together, name) for name in metrics or _METRICS})
    return render_page(
        "results.html",
        render("results.css", package="veridical_lab.report"),
        package="veridical_lab.report",
        title=title,
        overview=overview,
        sections=sections,
    )


def _images(plots: Mapping[str, str | None]) -> list[tuple[str, str]]:
    """Encode the plots that exist as (caption, SVG in base 64).

    The page shows plots as images, because the style attributes of an inline SVG would need a weaker
    Content-Security-Policy.
    """
    return [(caption, b64encode(svg.encode()).decode()) for caption, svg in plots.items() if svg]
