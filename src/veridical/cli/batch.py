"""`veridical batch`: check the rows of files of any size, and write a folder of results.

You can resume a run that was killed.
"""

from __future__ import annotations

import sys
from collections import Counter, deque
from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from typer import Argument, Option

from veridical.cli.check import DetectorNames
from veridical.cli.comma_lists import parse_thresholds
from veridical.cli.delivery import exit_code, print_dry_run
from veridical.cli.option_groups import option_groups
from veridical.cli.options import DETECTION, ChatOptions, ColumnOptions, ExitOptions, Explain, Threshold, write_line
from veridical.cli.progress import progress_bar, progress_lines

if TYPE_CHECKING:
    from veridical.io.rows import Columns


@dataclass(frozen=True, kw_only=True)
class FileArguments:
    """Arguments of `veridical batch`: the input files, and the folder for the results."""

    inputs: Annotated[
        list[Path],
        Argument(
            metavar="IN…",
            help="Files with one case per row (.jsonl, .json, .csv, .tsv, .xlsx or .parquet, also with .gz), or "
            "folders of such files.",
        ),
    ]
    out: Annotated[
        Path,
        Argument(
            metavar="OUT",
            help="The folder for the results. It must be new, empty, or from an earlier run of the same command.",
        ),
    ]


@dataclass(frozen=True, kw_only=True)
class DetectionOptions:
    """Options of `veridical batch` for the detectors and their thresholds."""

    PANEL: ClassVar[str] = DETECTION

    detector: DetectorNames = None
    threshold: Threshold = None
    explain: Explain = False


@dataclass(frozen=True, kw_only=True)
class RowOptions(ColumnOptions):
    """Options of `veridical batch` that name the columns of the input files, and the encoding of the files."""

    PANEL: ClassVar[str] = "Columns"

    must_cover: Annotated[
        list[str],
        Option(
            metavar="COLUMN",
            help="A column with sources that the response has to cover. If it leaves something out, this is an "
            "omission. Repeatable.",
        ),
    ] = field(default_factory=list)
    id: Annotated[
        str | None,
        Option(metavar="COLUMN", help="The column with the id of the row. Default: id, or else the number of the row."),
    ] = None
    question: Annotated[
        str | None,
        Option(
            metavar="COLUMN",
            help="The column with the question that the response answers. Default: question, or the column of a "
            "tool that Veridical knows.",
        ),
    ] = None
    group: Annotated[
        str | None, Option(metavar="COLUMN", help="Also report the results separately for each value of this column.")
    ] = None
    encoding: Annotated[str, Option(help="Encoding of text files, such as cp1252.")] = "utf-8"

    def columns(self) -> Columns:
        """Return the column names in these options as `Columns`, for parsing the rows."""
        from veridical.io.rows import Columns

        sources, must_cover = tuple(self.source_column), tuple(self.must_cover)
        return Columns(self.response_column, sources, must_cover, self.id, self.question, self.group)


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """Options of `veridical batch` for running it: the engine, the number of processes, and the size of a shard."""

    PANEL: ClassVar[str] = "Running"

    engine: Annotated[
        str, Option(help="local: run on this machine. ray: run on Ray Data (a cluster, or this machine).")
    ] = "local"
    workers: Annotated[
        int,
        Option(
            help="The number of processes that judge in parallel. Each of them loads its own copy of the detectors.",
            min=1,
        ),
    ] = 1
    ray_address: Annotated[
        str | None,
        Option(
            metavar="HOST:PORT",
            help="The address of the Ray cluster, or auto for the cluster that this machine belongs to. Default: "
            "$RAY_ADDRESS, or else this machine alone.",
        ),
    ] = None
    shard_rows: Annotated[
        int,
        Option(
            help="Save the results after at most this many rows (a shard). If a run is killed, it loses at most one "
            "shard per worker.",
            min=1,
        ),
    ] = 2000
    max_mb: Annotated[
        int,
        Option(
            help="The largest line or cell, in megabytes. A row with a larger one is written to failed.jsonl.", min=1
        ),
    ] = 256


@option_groups
def batch_command(
    files: FileArguments,
    detection: DetectionOptions,
    column: RowOptions,
    running: EngineOptions,
    shares: ExitOptions,
    chat: ChatOptions,
) -> int:
    """Check every row of one or more files and write a folder of results with a report.

    [bold]veridical batch cases.jsonl results/[/bold]
    [bold]veridical batch answers.csv results/ --response answer --source passage --group system -d overlap[/bold]
    [bold]veridical batch part-*.parquet results/ --response summary --source document --id key --workers 4[/bold]
    [bold]veridical batch data/ results/ --engine ray --ray-address auto --workers 16[/bold]

    OUT holds the report (report.html, report.json), the results (results-*.jsonl, scores-*.jsonl), the rows that could
    not be read or judged (failed.jsonl), and the state of the run (manifest.json, shards.jsonl). Files may be of any
    size. If a run was killed, repeat the command: it continues where the run stopped.
    Exit codes: 0 nothing flagged, 1 something flagged, 2 usage or input error, 3 a row could not be read or judged.
    --fail-over and --allow-unjudged set the proportions above which the command exits with 1 and 3.
    """
    from veridical.records.types import Outcome
    from veridical.report.batch_page import write_batch_page
    from veridical.workflows.batch.run import BatchSettings, dry_run, run_batch
    from veridical.workflows.checking import DEFAULT_DETECTOR

    connection = chat.chosen()
    specs = detection.detector or [DEFAULT_DETECTOR]
    settings = BatchSettings(
        inputs=files.inputs,
        out=files.out,
        detectors=specs,
        columns=column.columns(),
        threshold=parse_thresholds(detection.threshold),
        explain=detection.explain,
        encoding=column.encoding,
        delimiter=column.delimiter,
        shard_rows=running.shard_rows,
        max_bytes=running.max_mb * 1024 * 1024,
        workers=running.workers,
        engine=running.engine,
        address=running.ray_address,
        connection=connection,
        remark=write_line,
    )
    if connection is not None and connection.dry_run:
        deque(dry_run(settings), maxlen=0)
        return print_dry_run(connection)
    progress = progress_bar() if sys.stderr.isatty() else nullcontext(progress_lines(write_line))
    # when a worker dies, Ray writes to standard output, whatever its log is set to
    with progress as show, redirect_stdout(sys.stderr):
        report = run_batch(replace(settings, progress=lambda done, total: show("rows", done, total)))
    page = write_batch_page(files.out, report)
    judged = report.rows - report.failed
    write_line(
        f"{judged:,} rows judged, {report.total.flagged:,} of them flagged, {report.total.unjudged:,} not judged as a "
        f"whole, {report.total.no_claim:,} without a claim; "
        f"{report.failed:,} failed{' (failed.jsonl)' if report.failed else ''}; see {page}"
    )
    if report.repeated_ids:
        write_line(f"{report.repeated_ids:,} rows have the id of an earlier row; their numbers are in scores-*.jsonl")
    unjudged = report.total.unjudged + report.failed
    counts = Counter(
        {Outcome.FLAGGED: report.total.flagged, Outcome.NO_CLAIM: report.total.no_claim, Outcome.UNJUDGED: unjudged}
    )
    counts[Outcome.CLEAR] = report.rows - counts.total()
    return exit_code(counts, shares)
