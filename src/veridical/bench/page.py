"""Result rows as one page: tables, and figures where the `plots` extra is installed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from veridical.bench.figures import bars, reliability, roc
from veridical.bench.results import Row
from veridical.bench.table import Table, by_data, tables

__all__ = ["render_tables"]


@dataclass(frozen=True, slots=True)
class Part:
    """What the page shows of one data set."""

    table: Table
    figures: list[tuple[str, str]]
    commands: list[str]


def render_tables(rows: Iterable[Row], metrics: Sequence[str] | None = None, *, title: str = "Results") -> str:
    """The page as one HTML document that loads nothing from elsewhere; `MissingExtraError` without matplotlib."""
    from jinja2 import Environment, PackageLoader

    parts = [
        Part(table, _figures(found, metrics), list(dict.fromkeys(row.command for row in found)))
        for found in by_data(rows)
        for table in tables(found, metrics)
    ]
    loader = PackageLoader("veridical.bench", "templates")
    return Environment(loader=loader, autoescape=True).get_template("tables.html").render(title=title, parts=parts)


def _figures(rows: Sequence[Row], metrics: Sequence[str] | None) -> list[tuple[str, str]]:
    from markupsafe import Markup

    whole = [row for row in rows if row.group is None]
    drawn = {"ROC curves, response level": roc(whole), "Reliability, response level": reliability(whole)}
    shown = metrics or [name for name in ("token_f1", "f1", "roc_auc") if any(name in row.metrics for row in rows)]
    for name in shown:
        drawn[f"{name} by group"] = bars(rows, name)
    # the SVG is ours: matplotlib escapes the texts in it
    return [(caption, Markup(svg)) for caption, svg in drawn.items() if svg]
