"""`veridical bench`: detectors on labelled data, with intervals; `veridical bench table`: the rows as tables."""

from __future__ import annotations

import shlex
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer.core import TyperGroup

from veridical.cli.llm_options import (
    BaseUrl,
    CachePath,
    Concurrency,
    DryRun,
    KeyEnv,
    MaxCalls,
    MaxCost,
    ModelName,
    PriceList,
    Timeout,
    connect,
)
from veridical.cli.progress import progress_bar

if TYPE_CHECKING:
    from veridical.bench.results import Row
    from veridical.bench.settings import Settings


class _RunByDefault(TyperGroup):
    """`veridical bench overlap …` means `veridical bench run overlap …`."""

    def parse_args(self, ctx, args):  # type: ignore[no-untyped-def]
        if args and args[0] not in self.commands and args[0] not in ("-h", "--help"):
            args = ["run", *args]
        return super().parse_args(ctx, args)


bench_app = typer.Typer(
    cls=_RunByDefault,
    no_args_is_help=True,
    help="Measure detectors on labelled data (DETECTOR… --data SET:PATH); `table` makes tables of the rows.",
)


Detectors = Annotated[
    list[str],
    typer.Argument(
        help="Detectors; see: veridical detectors. judge, verify and selfcheck ask --model.", metavar="DETECTOR…"
    ),
]
Data = Annotated[
    list[str],
    typer.Option("--data", metavar="SET:PATH", help="Labelled data, such as xsum_token:FOLDER. Repeatable."),
]
Metrics = Annotated[
    str | None, typer.Option(help="Metrics by name, with commas. Default: all that fit.", show_default=False)
]
Split = Annotated[str | None, typer.Option(help="Only this split of the data.", show_default=False)]
Sample = Annotated[
    int | None,
    typer.Option(
        help="Only this many documents of each data set, the same ones every time.", min=1, show_default=False
    ),
]
Fit = Annotated[
    str | None,
    typer.Option(
        help="Fit thresholds on a tenth of the documents by f1, balanced_accuracy, means or precision@P, and "
        "measure on another fifth. none: measure on that fifth, fit nothing.",
        show_default=False,
    ),
]
Threshold = Annotated[
    float | None, typer.Option(help="Threshold (0 to 1). Default: the detector's, else 0.5.", show_default=False)
]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Count and skip rows that cannot be read.")]
Seed = Annotated[int, typer.Option(help="Seed of the bootstrap and of the division by document.")]


@bench_app.command("run")
def run_command(
    detectors: Detectors,
    data: Data,
    metrics: Metrics = None,
    group_by: Annotated[
        str | None, typer.Option(help="Also one row for each value of these, such as system,task.", show_default=False)
    ] = None,
    split: Split = None,
    sample: Sample = None,
    fit: Fit = None,
    threshold: Threshold = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="ROWS", help="Append result rows to this file; run again, it goes on where it stopped."),
    ] = None,
    skip_bad: SkipBad = False,
    resamples: Annotated[int, typer.Option(help="Bootstrap samples, drawn by document.", min=10)] = 1000,
    seed: Seed = 0,
    model: ModelName = None,
    base_url: BaseUrl = None,
    key_env: KeyEnv = None,
    prices: PriceList = None,
    max_cost: MaxCost = None,
    max_calls: MaxCalls = None,
    concurrency: Concurrency = 8,
    timeout: Timeout = 120.0,
    cache: CachePath = None,
    dry_run: DryRun = False,
) -> int:
    """Run detectors on labelled data and print a table of metrics with bootstrap intervals.

    [bold]veridical bench overlap --data xsum_token:data/xsum_token[/bold]
    [bold]veridical bench overlap length coin --data bump:data/bump --group-by error_type --out rows.jsonl[/bold]
    [bold]veridical bench judge:cot verify --model gpt-4o-mini --data bump:data/bump --sample 20 --out rows.jsonl[/bold]

    With --out replies are kept until the run is complete (longer with --cache): a run that spent its budget goes on.
    """
    from veridical.bench.settings import Settings

    journal = out.with_name(out.name + ".work") if out else None
    connection = connect(
        model,
        base_url=base_url,
        key_env=key_env,
        prices=prices,
        max_cost=max_cost,
        max_calls=max_calls,
        concurrency=concurrency,
        timeout=timeout,
        cache=cache or (journal / "replies.db" if journal else None),
        dry_run=dry_run,
    )
    settings = Settings(
        detectors=detectors,
        data=data,
        metrics=_split(metrics) or None,
        group_by=_split(group_by),
        split=split,
        sample=sample,
        fit=fit,
        threshold=threshold,
        skip_bad=skip_bad,
        resamples=resamples,
        seed=seed,
        command=shlex.join(["veridical", *sys.argv[1:]]),
        journal=journal,
        connection=connection,
    )
    if dry_run:
        return _rehearse(settings)
    from veridical.report.result_tables import result_tables
    from veridical.report.terminal_tables import print_tables

    with progress_bar() as progress:
        rows = _run(replace(settings, progress=progress), out)
    print_tables(result_tables(rows, _split(metrics) or None))
    return 0


@bench_app.command("compare")
def compare_command(
    detectors: Detectors,
    data: Data,
    metrics: Annotated[
        str | None,
        typer.Option(help="accuracy, f1, token_f1, roc_auc, word_roc_auc; with commas. Default: all that fit."),
    ] = None,
    split: Split = None,
    sample: Sample = None,
    fit: Fit = None,
    threshold: Threshold = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write the comparisons as JSON lines.")] = None,
    skip_bad: SkipBad = False,
    seed: Seed = 0,
    model: ModelName = None,
    base_url: BaseUrl = None,
    key_env: KeyEnv = None,
    prices: PriceList = None,
    max_cost: MaxCost = None,
    max_calls: MaxCalls = None,
    concurrency: Concurrency = 8,
    timeout: Timeout = 120.0,
    cache: CachePath = None,
) -> int:
    """Test every pair of detectors for a difference on the same cases.

    Exact paired permutation tests for accuracy and F1, Hanley and McNeil's for ROC AUC, with Bonferroni's correction.

    [bold]veridical bench compare overlap overlap:values --data bump:data/bump --fit f1[/bold]
    """
    from veridical.bench.compare import compare
    from veridical.bench.settings import Settings
    from veridical.core.files import write_whole
    from veridical.core.serialization import encode
    from veridical.report.result_tables import comparison_table
    from veridical.report.terminal_tables import print_tables

    connection = connect(
        model,
        base_url=base_url,
        key_env=key_env,
        prices=prices,
        max_cost=max_cost,
        max_calls=max_calls,
        concurrency=concurrency,
        timeout=timeout,
        cache=cache,
    )
    settings = Settings(
        detectors=detectors,
        data=data,
        metrics=_split(metrics) or None,
        split=split,
        sample=sample,
        fit=fit,
        threshold=threshold,
        skip_bad=skip_bad,
        seed=seed,
        command=shlex.join(["veridical", *sys.argv[1:]]),
        connection=connection,
    )
    with progress_bar() as progress:
        made = list(compare(replace(settings, progress=progress)))
    print_tables(comparison_table(found) for found in made)
    if out:
        write_whole(out, "".join(encode(c) + "\n" for found in made for c in found))
    return 0


def _rehearse(settings: Settings) -> int:
    """Let every detector judge everything while no model is asked, and print what it would take."""
    from veridical.bench.evaluation import BATCH, load_all
    from veridical.bench.settings import load
    from veridical.cli.llm_options import print_plan
    from veridical.core.detector import Fittable, info_of

    detectors = load_all(settings)
    for spec in settings.data:
        data = load(spec, settings)
        for given in detectors:
            detector = given.fit(data.fitting) if data.fitting and isinstance(given, Fittable) else given
            if info_of(detector).needs_chat_model:
                cases = [example.case for example in (*data.fitting, *data.examples)]
                for at in range(0, len(cases), BATCH):
                    detector.judge(cases[at : at + BATCH])
    assert settings.connection is not None
    return print_plan(settings.connection)


def _split(text: str | None) -> list[str]:
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def _run(settings: Settings, out: Path | None) -> list[Row]:
    """The rows of this run, those that `out` had already among them; a detector's rows are kept as soon as made."""
    from veridical.bench.results import read_rows
    from veridical.bench.run import run
    from veridical.core.files import write_whole
    from veridical.core.serialization import encode

    kept = read_rows([out]) if out and out.exists() else []
    known: dict[str, list[Row]] = {}
    for row in kept:
        known.setdefault(row.unit, []).append(row)
    rows: list[Row] = []
    for made in run(settings, known):
        rows += made
        if out and made[0].unit not in known:
            kept += made
            write_whole(out, "".join(encode(row) + "\n" for row in kept))
    if settings.journal and settings.journal.is_dir():
        shutil.rmtree(settings.journal)
    return rows


@bench_app.command("table")
def table_command(
    rows: Annotated[list[Path], typer.Argument(help="Files of result rows.", metavar="ROWS…")],
    format: Annotated[str, typer.Option("--format", "-f", help="terminal, markdown, latex or html.")] = "terminal",
    metrics: Annotated[
        str | None, typer.Option(help="Columns by name, with commas. Default: all.", show_default=False)
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write to a file instead.")] = None,
) -> int:
    """Make tables from result rows.

    [bold]veridical bench table rows.jsonl --format markdown --metrics token_f1,roc_auc[/bold]
    """
    from veridical.bench.results import read_rows
    from veridical.core.errors import UnknownNameError
    from veridical.core.files import write_whole
    from veridical.report.result_tables import result_tables
    from veridical.report.tables import FORMATS
    from veridical.report.terminal_tables import print_tables

    found = read_rows(rows)
    chosen = _split(metrics) or None
    if format == "terminal":
        print_tables(result_tables(found, chosen))
        return 0
    if format == "html":
        from veridical.report.result_page import render_results

        text = render_results(found, chosen)
    elif format in FORMATS:
        text = FORMATS[format](result_tables(found, chosen)) + "\n"
    else:
        raise UnknownNameError("format", format, ["terminal", "html", *FORMATS])
    if out:
        write_whole(out, text)
    else:
        sys.stdout.write(text)
    return 0
