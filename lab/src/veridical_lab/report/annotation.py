"""Show labels of annotators as tables, a released data set as a card, and a simulated annotation loop as a plot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from veridical.report.tables import Table
from veridical_lab.annotate.consensus import Agreement
from veridical_lab.annotate.quality import AnnotatorQuality, QuizScore
from veridical_lab.annotate.release import Release, TagCount
from veridical_lab.report.plots import INK, as_svg, new_axes, style_of
from veridical_lab.report.table_formats import markdown, or_dash


def agreement_line(agreement: Agreement) -> str:
    """Write one line on agreement: labels, alpha, kappa, and how often all annotators agree."""
    return (
        f"{agreement.labels} labels of {agreement.cases} cases by {agreement.annotators} annotators: "
        f"alpha {or_dash(agreement.alpha, '.2f')}, kappa {or_dash(agreement.kappa, '.2f')} "
        f"(first {agreement.kappa_labels} labels), all the same {agreement.unanimous:.0%}, "
        f"four of five the same {agreement.four_fifths:.0%}"
    )


def quality_table(qualities: Sequence[AnnotatorQuality]) -> Table:
    """Make a table with a line for each annotator: labels, error rates with intervals, and signs of spam."""
    lines = [
        [
            quality.name.removeprefix("human:"),
            str(quality.labels),
            f"{quality.hallucinated:.0%}",
            _rate(quality.misses, quality.misses_interval),
            _rate(quality.false_alarms, quality.false_alarms_interval),
            or_dash(quality.conflict, ".0%"),
            "; ".join(quality.signs) or "–",
        ]
        for quality in qualities
    ]
    head = ["annotator", "labels", "hallucinated", "misses", "false alarms", "against the others", "look at"]
    foot = "Error rates are estimated together with the labels (Dawid & Skene 1979); 95 % intervals by document."
    return Table("Annotators", head, lines, foot)


def _rate(rate: float, interval: tuple[float, float] | None) -> str:
    return f"{rate:.1%}" if interval is None else f"{rate:.1%} ({interval[0]:.1%} to {interval[1]:.1%})"


def quiz_table(scores: Sequence[QuizScore]) -> Table:
    """Make a table with a line for each candidate: right answers, and whether the candidate passed."""
    lines = [
        [score.name.removeprefix("human:"), f"{score.right} of {score.asked}", "passed" if score.passed else "failed"]
        for score in scores
    ]
    return Table("Quiz", ["candidate", "right", "result"], lines, "A question without an answer counts as wrong.")


def release_card(release: Release) -> str:
    """Describe a released data set in Markdown: licence, parts, agreement, labels by tag, types."""
    texts = "" if release.text_licence is None else f" Texts: {release.text_licence}."
    parts = [
        [name, str(part.examples), str(part.documents), _share(part.hallucinated, part.examples), part.hash[:12]]
        for name, part in release.statistics.items()
    ]
    total = sum(part.examples for part in release.statistics.values())
    wrong = sum(part.hallucinated for part in release.statistics.values())
    tables = [
        Table(
            "Parts",
            ["part", "examples", "documents", "hallucinated", "hash"],
            parts,
            f"Split by document, seed {release.seed}. {total} examples, {_share(wrong, total)} hallucinated.",
        ),
        _tag_table("Parts of speech", release.parts_of_speech),
        _tag_table("Named entities", release.entities),
    ]
    if release.types:
        lines = [
            [t.type, str(t.places), _share(t.hallucinated, t.places), f"{_cell(t.original)} → {_cell(t.replaced)}"]
            for t in release.types
        ]
        head = ["type", "places", "hallucinated", "example (original → text)"]
        tables.append(Table("Types of change", head, lines, "Types are those of what changed the text."))
    agreed = "" if release.agreement is None else f"{agreement_line(release.agreement)}.\n\n"
    return f"# {release.name}\n\nLicence: {release.licence}.{texts}\n\n{agreed}{markdown(tables)}\n"


def _tag_table(title: str, counts: Sequence[TagCount]) -> Table:
    lines = [[count.tag, str(count.places), _share(count.hallucinated, count.places)] for count in counts]
    return Table(title, ["tag", "places", "hallucinated"], lines, "Tagged by rules.")


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "–"


def _cell(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 40 else line[:39] + "…"


def loop_tables(rows: Sequence[dict[str, Any]]) -> list[Table]:
    """Make tables of a simulated loop's rounds, annotators and repetitions (rows of `benchmarks/annotate_loop.py`)."""

    def rows_about(what: str) -> list[dict[str, Any]]:
        return [row for row in rows if row["what"] == what]

    (loop,) = rows_about("loop")
    rounds = [
        [
            *(str(row[name]) for name in ("round", "annotated", "agreed")),
            *(or_dash(row[name], ".1%") for name in ("tpr", "tnr", "precision")),
            or_dash(row["exact"], ".2f"),
            *(f"{row[name]:.1%}" for name in ("hallucinated", "cumulative")),
            or_dash(row["alpha"], ".2f"),
        ]
        for row in rows_about("round")
    ]
    head = ["round", "items", "consensus", "TPR", "TNR", "precision", "ratio R", "hallucinated", "so far", "alpha"]
    foot = (
        f"{loop['pool']:,} items made by the method {loop['method']}, {loop['consistent']:.0%} consistent; "
        f"{loop['right']:.1%} of the {loop['total']} consensus labels are the true ones; "
        f"left out as spammers: {', '.join(loop['blocked']).replace('human:', '') or 'none'}"
    )
    tables = [Table("Rounds", head, rounds, foot)]
    people = [
        [
            row["name"].removeprefix("human:"),
            str(row["labels"]),
            *(f"{row[r]:.1%}; {_rate(row[f'{r}_estimate'], row[f'{r}_interval'])}" for r in ("misses", "false_alarms")),
            row["signs"] or "–",
        ]
        for row in rows_about("annotator")
    ]
    head = ["annotator", "labels", "misses: true; estimated", "false alarms: true; estimated", "look at"]
    foot = (
        f"95 % intervals, sampled by document; {loop['rates_inside']} of {loop['rates']} true rates of those who were "
        "not left out are inside"
    )
    tables.append(Table("Annotators", head, people, foot))
    repetitions = [
        [
            str(row["seed"]),
            str(row["total"]),
            *(f"{share:.1%}" for share in row["cumulative"]),
            f"{row['rates_inside']} of {row['rates']}",
        ]
        for row in rows_about("repetition")
    ]
    if repetitions:
        head = ["seed", "items", *(f"after round {i}" for i in range(1, len(rounds) + 1)), "rates inside"]
        foot = "Share of hallucinated items so far; the same pool, other annotators and other samples"
        tables.append(Table("Repetitions", head, repetitions, foot))
    return tables


def loop_plot(rows: Sequence[dict[str, Any]]) -> str:
    """Plot the share of hallucinated items in each round and so far, as an <svg> element.

    This needs matplotlib.
    """
    rounds = [row for row in rows if row["what"] == "round"]
    figure, axes = new_axes(5.5, 3.0)
    numbers = [row["round"] for row in rounds]
    axes.axhspan(0.45, 0.55, color=INK, alpha=0.2, linewidth=0)
    for i, (key, label) in enumerate((("hallucinated", "in the round"), ("cumulative", "so far"))):
        axes.plot(numbers, [row[key] for row in rounds], marker="o", label=label, **style_of(i))
    axes.set_xticks(numbers)
    axes.set_ylim(0, 1)
    axes.set_xlabel("round", color=INK)
    axes.set_ylabel("hallucinated (consensus)", color=INK)
    axes.tick_params(colors=INK)
    axes.legend(frameon=False, labelcolor=INK)
    return as_svg(figure)
