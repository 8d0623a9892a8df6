"""Show reproduced tables and figures of papers beside the originals, and an overview of all of them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from veridical.records.strings import visible
from veridical.report.tables import Table
from veridical_lab.report.table_formats import or_dash
from veridical_lab.reproduce import PAPERS, Exhibit, Reproduction, Setting, load_plan, reproduce
from veridical_lab.reproduce.running import Reproduced

_MOST = 3  # figures of an exhibit that the matrix shows; those that the paper prints come first


def reproduction_tables(made: Reproduction) -> list[Table]:
    """Make tables of a paper's numbers beside ours, and of our examples, for one table or figure of the paper."""
    title = f"{made.paper}, {made.exhibit}: {made.title}"
    foot = [f"{made.data} data; {made.status}"]
    foot += [f"differs: {'; '.join(made.differs)}"] if made.differs else []
    foot += [f"missing: {'; '.join(made.notes)}"] if made.notes else []
    foot += [f"picture: {made.plot}"] if made.plot else []
    sources = dict.fromkeys(f"{cell.command} ({cell.date})" for cell in made.cells if cell.command)
    foot += [f"measured by: {source}" for source in sources]
    tables = []
    if made.cells or not made.examples:
        lines = [
            [
                visible(cell.row),
                visible(cell.column),
                _number(cell.printed),
                "not yet measured" if cell.ours is None else _number(cell.ours[0]),
                _interval(cell),
                or_dash(cell.difference, "+.3g"),
            ]
            for cell in made.cells
        ]
        head = ["row", "column", f"the paper's {made.metric}".strip(), "ours", "95 % interval", "difference"]
        tables.append(Table(title, head, lines or [["–", "–", "–", made.status, "–", "–"]], "\n".join(foot)))
    if made.examples:
        lines = [[visible(shown.about), visible(shown.text)] for shown in made.examples]
        tables.append(Table(title, ["example", "text"], lines, "\n".join(foot)))
    return tables


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}" if abs(value) < 100 else f"{value:,.0f}"


def _interval(cell: Reproduced) -> str:
    if cell.ours is None or cell.ours[1] is None or cell.ours[2] is None:
        return "–"
    return f"[{_number(cell.ours[1])}, {_number(cell.ours[2])}]"


def matrix(rows: Path, papers: Iterable[str] = PAPERS) -> str:
    """Write an overview in Markdown: for every table and data figure, what it needs, its state, and our numbers."""
    nowhere = Setting(data=Path("DATA"), models=Path("MODELS"), out=Path("OUT"), rows=(rows,))
    parts = []
    for paper in papers:
        lines = [
            "| what | command here | needs | state | our figures (the paper's) | elsewhere |",
            "|---|---|---|---|---|---|",
        ]
        for exhibit in load_plan(paper).exhibits:
            made = reproduce(paper, exhibit, "local", nowhere, measure=False)
            command = f"`veridical reproduce {paper} {_option(exhibit)} --data local`"
            needs = ", ".join(name.partition(":")[2] or name for name in exhibit.versions["local"].needs)
            published = exhibit.versions["published"]
            there = ", ".join(name.partition(":")[2] or "a chat server" for name in published.needs)
            measured = [cell for cell in made.cells if cell.ours is not None]
            if measured:
                dates = sorted({cell.date for cell in measured if cell.date})
                state = f"{len(measured)} of {len(made.cells)} measured" + (f", {dates[-1]}" if dates else "")
                shown = sorted(measured, key=lambda cell: cell.printed is None)[:_MOST]
                figures = "; ".join(map(_figure, shown))
            elif exhibit.versions["local"].examples is not None:
                state, figures = "printed by the command", "examples of ours"
            elif not made.cells:
                state, figures = "drawn by the command", "a picture"
            else:
                state, figures = "not yet measured", "the command gives them"
            elsewhere = f"`… {_option(exhibit)}` with {there}"
            lines.append(
                f"| {exhibit.name}: {exhibit.title} | {command} | {needs} | {state} | {figures} | {elsewhere} |"
            )
        parts.append(f"**{paper}**: {PAPERS[paper]}\n\n" + "\n".join(lines))
    return "\n\n".join(parts)


def _option(exhibit: Exhibit) -> str:
    kind, _, number = exhibit.name.partition(" ")
    return f"--{kind} {number}"


def _figure(cell: Reproduced) -> str:
    assert cell.ours is not None
    column = re.sub(r"\s+", " ", cell.column)
    return f"{cell.row}, {column}: {_number(cell.ours[0])} ({_number(cell.printed)})"
