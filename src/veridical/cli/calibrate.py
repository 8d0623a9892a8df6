"""`veridical calibrate`: fit thresholds and a calibration of a detector's scores on labelled data."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from veridical.cli.comma_lists import parse_names
from veridical.cli.delivery import plain_console, print_dry_run
from veridical.cli.option_groups import option_groups
from veridical.cli.options import OUTPUT, ChatOptions, Criterion, DataOptions, LabelledSets, OutFolder, write_line

if TYPE_CHECKING:
    from veridical.records.types import Example


@dataclass(frozen=True, kw_only=True)
class ThresholdOptions:
    """What to fit, and on which part of the data."""

    criterion: Criterion = "f1"
    calibration: Annotated[
        str,
        Option(
            help="How scores become probabilities: isotonic, platt, none (leave the scores as they are), or auto "
            "(platt for fewer than 1000 items, else isotonic)."
        ),
    ] = "auto"
    levels: Annotated[
        str | None,
        Option(
            metavar="LIST",
            help="Levels to fit: response, span, coverage; separated by commas. Default: every level with labels.",
        ),
    ] = None
    all_data: Annotated[
        bool,
        Option(
            "--all-data",
            help="Fit on all of the data instead of the validation split only. Measure on other data afterwards.",
        ),
    ] = False
    seed: Annotated[int, Option(help="Random seed for the split by document and for the bootstrap.")] = 0


@option_groups
def calibrate_command(
    detector: Annotated[
        str, Argument(metavar="DETECTOR", help="The detector to fit, written as for `veridical check --detector`.")
    ],
    data: LabelledSets,
    out: OutFolder,
    options: ThresholdOptions,
    reading: DataOptions,
    chat: ChatOptions,
    as_json: Annotated[
        bool, Option("--json", help="Print the fitted thresholds and figures as JSON.", rich_help_panel=OUTPUT)
    ] = False,
) -> int:
    """Fit the thresholds of a detector on labelled data, and calibrate its scores to probabilities.

    The data are split by document into training, validation and test parts (70/10/20). The command fits on the
    validation part; `veridical bench --fit none` with the same seed measures on the test part. Responses, spans and
    coverage are fitted separately.

    [bold]veridical calibrate logprob:models/reader,template=tldr xsum_token:data/xsum_token --out fitted[/bold]
    [bold]veridical calibrate verify:overlap wice:data/wice --out fitted --criterion precision@0.8[/bold]
    [bold]veridical calibrate judge:cot wice:data/wice --model gpt-4o-mini --cache replies.db --out fitted[/bold]
    [bold]veridical check answer.json --detector calibrated:fitted[/bold]
    """
    from veridical.cli.progress import progress_bar
    from veridical.datasets.split import split_by_document
    from veridical.detectors import load_detector
    from veridical.io.serialization import encode
    from veridical.records.judging import judge
    from veridical.report.calibration_tables import calibration_notes, calibration_tables
    from veridical.report.terminal_tables import print_tables
    from veridical.workflows.calibration import CalibrationOptions, fit_thresholds

    fitting = CalibrationOptions(
        criterion=options.criterion,
        calibration=options.calibration,
        levels=tuple(parse_names(options.levels)) or None,
        all_data=options.all_data,
        seed=options.seed,
    )
    examples: list[Example] = []
    for spec in data:
        with reading.read(spec) as of_spec:
            examples += of_spec
    connection = chat.chosen()
    loaded = load_detector(detector, connection)
    if connection is not None:
        connection.check_model_used([detector])
        if connection.dry_run:
            used = examples if options.all_data else split_by_document(examples, seed=options.seed)["valid"]
            judge(loaded, [example.case for example in used])
            return print_dry_run(connection)
    with progress_bar() as progress:
        fitted = fit_thresholds(
            loaded, examples, fitting, spec=detector, out=out, data=" ".join(data), progress=progress
        )
    if as_json:
        sys.stdout.write(encode(fitted) + "\n")
    else:
        print_tables(calibration_tables(fitted), plain_console())
        for note in calibration_notes(fitted):
            write_line(note)
    write_line(f"wrote {out}; use it as calibrated:{out}")
    return 0
