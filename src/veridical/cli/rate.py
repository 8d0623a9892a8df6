"""`veridical rate`: estimate the proportion of a run's answers that are really wrong, from labels of a few of them."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar

from typer import Argument, Option

from veridical.cli.delivery import plain_console, write_page
from veridical.cli.option_groups import option_groups
from veridical.cli.options import EXIT_CODE, OUTPUT, check_share, write_line

_BOUNDS = ("lower", "estimate", "upper")


@dataclass(frozen=True, kw_only=True)
class LabelOptions:
    """Options of `veridical rate` for labels: choose answers to label, or pass the labels of people."""

    PANEL: ClassVar[str] = "Labels"

    sheet: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="Choose answers to label and write them to a new FILE: .csv, .tsv, .jsonl, or .json for Label Studio "
            "(with its labelling config in .xml). Fill in the column wrong with yes or no.",
        ),
    ] = None
    count: Annotated[
        int,
        Option(
            metavar="N",
            help="With --sheet, the total number of labels, including the labels that you already have.",
            min=1,
        ),
    ] = 100
    seed: Annotated[int, Option(help="With --sheet: the seed of the random choice.")] = 0
    labels: Annotated[
        list[Path],
        Option(
            metavar="FILE",
            help="The labels, as a sheet that was filled in, an export of Label Studio, or a JSON Lines file of "
            "examples or of judgements by people. Repeatable.",
        ),
    ] = field(default_factory=list)
    by: Annotated[
        list[str],
        Option(
            metavar="COLUMN",
            help="Also estimate each value of this column, such as model. For a column of times, write NAME:week, "
            "NAME:day or NAME:month. Use the same option with --sheet, so that every group has labels. "
            "Repeatable.",
        ),
    ] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class RateOutputOptions:
    """Options of `veridical rate` for its output, and for the rate above which the command fails (the alarm)."""

    PANEL: ClassVar[str] = OUTPUT

    json: Annotated[bool, Option("--json", help="Print one JSON document instead of tables.")] = False
    prometheus: Annotated[
        Path | None,
        Option(metavar="FILE", help="Also write the rates for the textfile collector of Prometheus' node exporter."),
    ] = None
    fail_over: Annotated[
        float | None,
        Option(
            metavar="SHARE",
            help="Exit with 1 if the proportion of wrong answers is over SHARE (0 to below 1).",
            rich_help_panel=EXIT_CODE,
        ),
    ] = None
    bound: Annotated[
        str,
        Option(
            help="What to compare with --fail-over. lower: fail as soon as the labels show that the proportion is "
            "above it. upper: fail until the labels show that it is not. estimate: compare the estimate "
            "itself.",
            rich_help_panel=EXIT_CODE,
        ),
    ] = "lower"

    def __post_init__(self) -> None:
        from veridical.records.errors import UnknownNameError

        if self.fail_over is not None:
            check_share("--fail-over", self.fail_over)
        if self.bound not in _BOUNDS:
            raise UnknownNameError("bound", self.bound, _BOUNDS)


@option_groups
def rate_command(
    run: Annotated[
        Path,
        Argument(
            metavar="RUN",
            help="A folder that `veridical batch` wrote, or a JSON Lines file of results, judgements, or rows with an "
            "id and score or flagged.",
        ),
    ],
    label: LabelOptions,
    output: RateOutputOptions,
) -> int:
    """Estimate how many answers of a run are really wrong, with an interval, from labels of a few of them.

    [bold]veridical rate results/ --sheet to_label.csv --count 100 --by model[/bold]
    [bold]veridical rate results/ --labels to_label.csv --by model --by created:week[/bold]
    [bold]veridical rate results/ --labels to_label.csv --fail-over 0.1 --prometheus rate.prom[/bold]

    First draw a sheet of answers to label, as in the first example. The answers are chosen at random from the flagged,
    the clear and the unjudged ones. Then run the command with the labelled sheet, as in the other examples. It uses
    your labels to correct for the detector's false alarms and misses.

    Exit codes: 0 done, 1 over --fail-over, 2 usage or input error, 3 too few labels.
    """
    import numpy as np

    from veridical.io.serialization import encode
    from veridical.records.errors import InputError
    from veridical.report.rate import prometheus_text, rate_tables
    from veridical.report.terminal_tables import print_tables
    from veridical.workflows.rate.estimate import estimate
    from veridical.workflows.rate.labels import read_labels
    from veridical.workflows.rate.rows import read_run
    from veridical.workflows.rate.sheet import write_sheet
    from veridical.workflows.rate.strata import draw

    if label.sheet is None and not label.labels:
        raise InputError(
            "neither --sheet nor --labels", hint="--sheet FILE chooses answers to label, --labels FILE reads them"
        )
    judged = read_run(run, label.by)
    labels = read_labels(label.labels, judged)
    if label.sheet is not None:
        labelled = np.array([row.row in labels.wrong for row in judged.rows], dtype=np.int64)
        chosen = [judged.rows[i] for i in draw(judged.rows, label.count, labelled, label.seed)]
        write_sheet(label.sheet, judged, chosen)
        write_line(
            f"wrote {len(chosen)} answers to {label.sheet}: fill in wrong, then give it as --labels {label.sheet}"
        )
        return 0
    report = estimate(judged, labels.wrong, label.by, skipped=labels.skipped)
    compared = {"lower": report.wrong.low, "estimate": report.wrong.value, "upper": report.wrong.high}[output.bound]
    alarm = None if output.fail_over is None or compared is None else compared > output.fail_over
    if output.json:
        sys.stdout.write(encode(report) + "\n")
    else:
        print_tables(rate_tables(report), plain_console())
    if output.prometheus is not None:
        write_page(output.prometheus, prometheus_text(report, alarm))
    if alarm:
        write_line(f"the proportion of wrong answers ({output.bound}: {compared:.3g}) is over {output.fail_over:.3g}")
    return int(bool(alarm))
