"""`veridical calibrate`: fit thresholds and a calibration of a detector's scores on labelled data."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from typer import Argument, Option

from veridical.cli.comma_lists import parse_names
from veridical.cli.delivery import plain_console, print_dry_run
from veridical.cli.option_groups import option_groups
from veridical.cli.options import OUTPUT, ChatOptions, Criterion, DataOptions, OutFolder, write_line
from veridical.records.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from veridical.detectors.calibrated import FittedCalibration
    from veridical.history.records import Learning
    from veridical.records.detector import Detector
    from veridical.records.types import Example


@dataclass(frozen=True, kw_only=True)
class ThresholdOptions:
    """Options of `veridical calibrate`: what to fit, and on which part of the data."""

    criterion: Criterion = "f1"
    calibration: Annotated[
        str,
        Option(
            help="How to turn scores into probabilities: isotonic, platt, none (leave the scores unchanged), or "
            "auto (platt for fewer than 1000 items, otherwise isotonic)."
        ),
    ] = "auto"
    levels: Annotated[
        str | None,
        Option(
            metavar="LIST",
            help="The levels to fit, separated by commas: response, span, coverage. Default: every level with labels.",
        ),
    ] = None
    all_data: Annotated[
        bool,
        Option(
            "--all-data",
            help="Fit on all of the data, and not only on the validation split. You then have to measure on other "
            "data.",
        ),
    ] = False
    seed: Annotated[int, Option(help="Random seed for the split by document and for the bootstrap.")] = 0


@dataclass(frozen=True, kw_only=True)
class HistoryOptions:
    """Options of `veridical calibrate` for fitting on people's decisions in a history, instead of on labelled data."""

    PANEL: ClassVar[str] = "Decisions in a history"

    from_history: Annotated[
        str | None,
        Option(
            metavar="PATH",
            help="Fit on people's decisions in the history of `veridical serve --history`. Give the path of its "
            "file, or its URL. If the fit is not clearly better on other documents, nothing is written and the "
            "exit code is 1.",
        ),
    ] = None
    run: Annotated[str | None, Option(metavar="RUN", help="The run in the history with the decisions.")] = None


@option_groups
def calibrate_command(
    *,
    detector: Annotated[
        str | None,
        Argument(
            metavar="DETECTOR",
            help="The detector to fit, written as for `veridical check --detector`. With --from-history, the "
            "default is the first detector of the run.",
        ),
    ] = None,
    data: Annotated[
        list[str] | None,
        Argument(
            metavar="SET:PATH…",
            help="Labelled data: a file of rows with a column `label`, or the name and the path of a data set. To "
            "list the names, run `veridical data list`.",
        ),
    ] = None,
    decisions: HistoryOptions,
    out: OutFolder,
    options: ThresholdOptions,
    reading: DataOptions,
    chat: ChatOptions,
    as_json: Annotated[
        bool, Option("--json", help="Print the fitted thresholds and figures as JSON.", rich_help_panel=OUTPUT)
    ] = False,
) -> int:
    """Fit the thresholds of a detector on labelled data, and calibrate its scores to probabilities.

    The command splits the data by document into a training, a validation and a test part (70/10/20), and fits on the
    validation part. To measure the result on the test part, run `veridical bench --fit none` with the same seed.
    Thresholds for responses, spans and coverage are fitted separately.

    [bold]veridical calibrate default answers.csv --out fitted[/bold]
    [bold]veridical calibrate logprob:models/reader,template=tldr xsum_token:data/xsum_token --out fitted[/bold]
    [bold]veridical calibrate verify:overlap wice:data/wice --out fitted --criterion precision@0.8[/bold]
    [bold]veridical calibrate judge:cot wice:data/wice --model gpt-4o-mini --cache replies.db --out fitted[/bold]
    [bold]veridical calibrate --from-history history.db --run 3f2a --out fitted[/bold]
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
    connection = chat.chosen()
    if decisions.from_history is not None:
        if data or options != ThresholdOptions():
            raise InputError("labelled data, or options for them, beside --from-history", hint="leave them out")
        if decisions.run is None:
            raise InputError("--from-history without --run", hint="the id of a run is in its address on the page")
        learning, learned = _learned(
            decisions.from_history, decisions.run, detector, lambda spec: load_detector(spec, connection), out
        )
        if as_json:
            sys.stdout.write(json.dumps(asdict(learning)) + "\n")
        else:
            _show(learning)
        if learned is None:
            write_line(f"nothing is written: {learning.verdict}")
            return 1
        write_line(f"wrote {out}; use it as calibrated:{out}")
        return 0
    if detector is None or not data:
        raise InputError("no detector or no labelled data", hint="name both, or --from-history PATH --run RUN")
    examples: list[Example] = []
    for spec in data:
        with reading.read(spec) as of_spec:
            examples += of_spec
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


def _learned(
    place: str, run: str, spec: str | None, load: Callable[[str], Detector], out: Path
) -> tuple[Learning, FittedCalibration | None]:
    """Fit a detector by the decisions about a run, and write the folder if this gains something."""
    from contextlib import closing

    from veridical.inference.saving import check_folder, save_record
    from veridical.records.judging import judge

    try:
        from veridical.history.learning import learn, stored_judgements, too_few
        from veridical.history.store import History
    except ModuleNotFoundError:
        raise MissingExtraError("a history", "history") from None
    if "://" not in place and not Path(place).is_file():
        raise InputError(f"there is no history {place}", hint="the file that `veridical serve --history` writes")
    check_folder(out)
    with closing(History(place)) as history:
        about = history.run(run).about
        decisions, sentences = history.decided_sentences(run)
    spec = spec or about["detectors"][0]["name"]
    detector = load(spec)
    judgements = [] if too_few(decisions) else stored_judgements(sentences, about, spec, detector)
    if judgements is None:
        judgements = judge(detector, [one.case for one in sentences])
    learning, fitted = learn(detector, sentences, judgements, decisions, spec=spec, run=run)
    if fitted is not None:
        save_record(fitted, out)
    return learning, fitted


def _show(learning: Learning) -> None:
    """Print what fitting gains."""
    counts = learning.decisions
    lines = [
        f"{learning.detector}: {learning.verdict}: {learning.reason}",
        f"decided: {counts.flagged} of {counts.all_flagged:,} flagged sentences, {counts.random} of {counts.sampled} "
        f"drawn at random from {counts.all_unflagged:,} unflagged ones",
    ]
    for gain in (learning.threshold, learning.probabilities):
        if gain is not None:
            interval = f"[{gain.low:+.3f}, {gain.high:+.3f}]"
            lines.append(
                f"{gain.metric}: {gain.before:.3f} before, {gain.after:.3f} after, gain {gain.gain:+.3f} {interval}"
            )
    sys.stdout.write("\n".join(lines) + "\n")
