"""Write tables as Markdown and LaTeX, and numbers as cells of tables."""

from __future__ import annotations

from collections.abc import Sequence

from veridical.report.tables import Table


def or_dash(value: float | None, form: str) -> str:
    """Write a number in the given form, or a dash if there is none.

    >>> or_dash(0.459, ".1%"), or_dash(None, ".1%")
    ('45.9%', '–')
    """
    return "–" if value is None else format(value, form)


def markdown(tables: Sequence[Table]) -> str:
    """Write tables as Markdown."""
    parts = []
    for table in tables:
        align = ["---"] + ["---:" if name in ("n", "not judged") else "---" for name in table.head[1:]]
        body = "\n".join("| " + " | ".join(c.replace("|", "\\|") for c in line) + " |" for line in table.lines)
        head = "| " + " | ".join(table.head) + " |\n|" + "|".join(align) + "|"
        parts.append(f"**{table.title}**\n\n{head}\n{body}\n\n{table.foot}")
    return "\n\n".join(parts)


_LATEX = str.maketrans(
    {c: f"\\{c}" for c in "&%$#_{}"} | {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "–": "--"}
)


def latex(tables: Sequence[Table]) -> str:
    """Write tables as LaTeX (packages booktabs and graphicx). A table that is too wide for the line is scaled down."""
    parts = []
    for table in tables:
        head, *lines = [" & ".join(c.translate(_LATEX) for c in line) + r" \\" for line in [table.head, *table.lines]]
        parts.append(
            "\n".join(
                [
                    r"\begin{table}",
                    rf"\caption{{{table.title.translate(_LATEX)}. {table.foot.translate(_LATEX)}.}}",
                    r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
                    rf"\begin{{tabular}}{{{'l' * len(table.head)}}}",
                    r"\toprule",
                    head,
                    r"\midrule",
                    *lines,
                    r"\bottomrule",
                    r"\end{tabular}}",
                    r"\end{table}",
                ]
            )
        )
    return "\n\n".join(parts)


FORMATS = {"markdown": markdown, "latex": latex}
