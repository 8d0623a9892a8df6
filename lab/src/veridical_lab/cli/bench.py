"""`veridical bench`: measure detectors on labelled data, test their differences, and make tables of results."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer
from typer import Argument, Option
from typer.core import TyperGroup

from veridical.cli.comma_lists import parse_names, parse_thresholds
from veridical.cli.delivery import print_dry_run
from veridical.cli.option_groups import option_groups
from veridical.cli.options import OUTPUT, ChatOptions, DataOptions, Threshold, write_line
from veridical.cli.progress import progress_bar
from veridical_lab.cli.json_lines import json_lines, write_json_lines
from veridical_lab.cli.shared_options import JsonRows, settings_of, this_command, topics_of

if TYPE_CHECKING:
    from veridical_lab.bench.settings import BenchSettings


class _RunByDefault(TyperGroup):
    """`veridical bench overlap …` means `veridical bench run overlap …`."""

    def parse_args(self, ctx, args):  # type: ignore[no-untyped-def]
        if args and args[0] not in self.commands and args[0] not in ("-h", "--help"):
            args = ["run", *args]
        return super().parse_args(ctx, args)


bench_app = typer.Typer(
    cls=_RunByDefault,
    no_args_is_help=True,
    help="Measure detectors on labelled data (DETECTOR… --data SET:PATH), test their differences, make tables.",
)

TestedMetrics = Annotated[
    str | None, Option(metavar="LIST", help="Metrics by name, separated by commas. Default: all that have a test.")
]
ShownMetrics = Annotated[
    str | None,
    Option(
        metavar="LIST", help="Metrics by name, separated by commas. Default: all that apply; the main five are shown."
    ),
]
AllColumns = Annotated[bool, Option("--all", help="Show every metric, not only the main five.", rich_help_panel=OUTPUT)]


@dataclass(frozen=True, kw_only=True)
class MeasuredOptions(DataOptions):
    """Sets what to measure: the detectors and the data."""

    detectors: Annotated[
        list[str],
        Argument(
            metavar="DETECTOR…",
            help="Detectors; see: veridical detectors. judge, verify and selfcheck ask a language model (--model).",
        ),
    ]
    data: Annotated[list[str], Option(metavar="SET:PATH", help="Labelled data, such as xsum_token:FOLDER. Repeatable.")]
    sample: Annotated[
        int | None, Option(help="Use only this many documents of each data set, the same ones for a seed.", min=1)
    ] = None
    fit: Annotated[
        str | None,
        Option(
            help="Split the data by document (70/10/20), fit thresholds on the validation split by f1, "
            "balanced_accuracy, means or precision@P, and measure on the test split. none: only measure on that split."
        ),
    ] = None
    threshold: Threshold = None
    foreign: Annotated[
        int,
        Option(
            help="Mix each case's sources with those of this many other documents of the data, in random order.", min=0
        ),
    ] = 0
    seed: Annotated[
        int, Option(help="Random seed of the sample, of foreign sources, the split by document and the bootstrap.")
    ] = 0

    def settings(self, **others: Any) -> BenchSettings:
        """Return the settings of the run. `others` are further fields of `Settings`."""
        from veridical_lab.bench.settings import BenchSettings

        made = {"threshold": parse_thresholds(self.threshold), "command": this_command(), "remark": write_line}
        return settings_of(BenchSettings, self, **made, **others)


@bench_app.command("run")
@option_groups
def run_command(
    measured: MeasuredOptions,
    chat: ChatOptions,
    metrics: ShownMetrics = None,
    group_by: Annotated[
        str | None,
        Option(metavar="LIST", help="Also measure each value of these groups, separated by commas: system,task."),
    ] = None,
    resamples: Annotated[int, Option(help="Bootstrap samples, drawn by document.", min=10)] = 1000,
    out: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="Append results to FILE (JSON Lines); an interrupted run continues there.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    replaced: Annotated[
        bool,
        Option(
            "--replace",
            help="Replace rows of the same detector and data in FILE, such as those of an earlier version.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    show_all: AllColumns = False,
    as_json: JsonRows = False,
) -> int:
    """Measure detectors on labelled data and print a table of metrics with bootstrap confidence intervals.

    [bold]veridical bench overlap --data xsum_token:data/xsum_token[/bold]
    [bold]veridical bench overlap length coin --data bump:data/bump --group-by error_type --out rows.jsonl[/bold]
    [bold]veridical bench judge:cot verify --model gpt-4o-mini --data bump:data/bump --sample 20 --out rows.jsonl[/bold]

    If there are several data sets, their means are printed, too.

    With --out, replies are stored until the run is complete, or longer if you also set --cache. If the budget is spent,
    run the same command again to continue.
    """
    from veridical.records.errors import InputError
    from veridical.report.terminal_tables import print_tables
    from veridical_lab.bench.run import dry_run_bench, run_to_file
    from veridical_lab.report.result_tables import mean_tables, result_tables

    if replaced and out is None:
        raise InputError("--replace needs the file whose rows to replace", hint="give --out FILE, or leave it out")
    journal = out.with_name(out.name + ".work") if out else None
    connection = chat.connection(cache=journal / "replies.db" if journal else None)
    chosen = parse_names(metrics) or None
    settings = measured.settings(
        metrics=chosen,
        group_by=parse_names(group_by),
        resamples=resamples,
        journal=journal,
        connection=connection,
    )
    if chat.dry_run:
        dry_run_bench(settings)
        return print_dry_run(connection)
    with progress_bar() as progress:
        rows = run_to_file(replace(settings, progress=progress), out, replace=replaced)
    if as_json:
        sys.stdout.write(json_lines(rows))
        return 0
    shown = ["all"] if show_all else chosen
    print_tables([*result_tables(rows, shown), *mean_tables(rows, shown)])
    return 0


@bench_app.command("compare")
@option_groups
def compare_command(
    measured: MeasuredOptions,
    chat: ChatOptions,
    metrics: TestedMetrics = None,
    out: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="Append the comparisons to FILE (JSON Lines); a repeated comparison replaces the earlier one.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    as_json: JsonRows = False,
) -> int:
    """Test every pair of detectors for a difference on the same cases.

    [bold]veridical bench compare overlap overlap:values --data bump:data/bump --fit f1[/bold]
    [bold]veridical bench compare overlap length --data xsum_token:data/xsum_token --metrics roc_auc,token_f1[/bold]

    Accuracy and F1 are compared by exact paired permutation tests, and ROC AUC by the test of Hanley and McNeil. The
    p-values are corrected by Bonferroni's method.
    """
    from veridical.report.terminal_tables import print_tables
    from veridical_lab.bench.compare import compare_detectors, read_comparisons, without_repeats
    from veridical_lab.bench.run import dry_run_bench
    from veridical_lab.report.result_tables import comparison_table

    earlier = read_comparisons(out) if out and out.exists() else []
    connection = chat.connection()
    settings = measured.settings(metrics=parse_names(metrics) or None, connection=connection)
    if chat.dry_run:
        dry_run_bench(settings)
        return print_dry_run(connection)
    with progress_bar() as progress:
        by_data = list(compare_detectors(replace(settings, progress=progress)))
    made = [comparison for comparisons in by_data for comparison in comparisons]
    if out:
        write_json_lines(out, without_repeats([*earlier, *made]))
    if as_json:
        sys.stdout.write(json_lines(made))
    else:
        print_tables(comparison_table(comparisons) for comparisons in by_data)
    return 0


@bench_app.command("tokens")
@option_groups
def bench_tokens_command(
    data: Annotated[
        str, Argument(metavar="SET:PATH", help="Data with one labelled phrase per response, such as hades:FOLDER.")
    ],
    method: Annotated[
        list[str],
        Option(
            metavar="METHOD",
            help="features:lr or features:svm, which are trained, with options (features:svm,model=FOLDER,tagger=…); "
            "or any detector, used as it is. Repeatable.",
        ),
    ],
    validation: Annotated[
        str | None, Option(metavar="SET:PATH", help="Choose on these data. Default: the data's own split, else 10%.")
    ] = None,
    test: Annotated[
        str | None, Option(metavar="SET:PATH", help="Measure on these data. Default: the data's own split, else 20%.")
    ] = None,
    setting: Annotated[
        str,
        Option(
            metavar="LIST",
            help="Settings, separated by commas: offline (context on both sides), online (the response ends with the "
            "phrase). @N keeps N words on each side: offline@5,offline@20,offline.",
        ),
    ] = "offline,online",
    criterion: Annotated[
        str, Option(help="Fit thresholds on validation by f1, balanced_accuracy, means or precision@P.")
    ] = "balanced_accuracy",
    resamples: Annotated[int, Option(help="Bootstrap samples, drawn by document.", min=10)] = 1000,
    seed: Annotated[int, Option(help="Random seed of a split by document and of the bootstrap.")] = 0,
    paper: Annotated[
        bool,
        Option("--paper", help="Also print the figures of Liu et al. 2022, Tables 2 and 3.", rich_help_panel=OUTPUT),
    ] = False,
    out: Annotated[
        Path | None,
        Option(
            metavar="FILE", help="Also write results to FILE (JSON Lines), which is replaced.", rich_help_panel=OUTPUT
        ),
    ] = None,
    as_json: JsonRows = False,
) -> int:
    """Train detectors of hallucinated phrases and compare them, offline and online.

    [bold]veridical bench tokens hades:data/hades --method features:lr --method features:svm[/bold]
    [bold]veridical bench tokens hades:data/hades --method features:lr,model=models/bert --method majority
    --paper[/bold]

    The table has accuracy, G-Mean, Brier score (BSS), ROC AUC, and precision, recall and F1 of both classes, in
    percent.
    """
    from veridical.report.terminal_tables import print_tables
    from veridical_lab.bench.published import published
    from veridical_lab.report.result_tables import phrase_tables, published_tables
    from veridical_lab.training.token_benchmark import RunOptions, benchmark_rows, read_benchmark
    from veridical_lab.training.token_methods import load_method

    options = RunOptions(
        settings=parse_names(setting),
        criterion=criterion,
        resamples=resamples,
        seed=seed,
        command=this_command(),
        progress=write_line,
    )
    methods = [load_method(spec) for spec in method]
    parts = read_benchmark(data, validation=validation, test=test, seed=seed)
    for note in parts.notes:
        write_line(f"veridical: {note}")
    rows = list(benchmark_rows(parts, methods, options))
    if out:
        write_json_lines(out, rows)
    if as_json:
        sys.stdout.write(json_lines(rows))
    else:
        print_tables([*phrase_tables(rows), *(published_tables(published("liu2022")) if paper else ())])
    return 0


@dataclass(frozen=True, kw_only=True)
class TestSetOptions:
    """Options of the test sets."""

    PANEL: ClassVar[str] = "Data"

    data: Annotated[
        str,
        Option(
            metavar="TOPICS",
            help="Topics whose arguments have paraphrases: perspectrum:FOLDER, or a .json, .jsonl or .csv file.",
        ),
    ]
    part: Annotated[str, Option(help="Part of the 70/10/20 split by topic: train, valid or test.")] = "test"
    per_topic: Annotated[int, Option(help="Maximum number of draws of arguments per topic.", min=1)] = 4
    sample: Annotated[int | None, Option(help="Use only this many draws of arguments, chosen by the seed.", min=2)] = (
        None
    )
    organic: Annotated[
        str | None, Option(metavar="SET:PATH", help="Also measure on these labelled responses, such as procon:FILE.")
    ] = None
    negatives: Annotated[
        str,
        Option(
            help="What errors of a kind are compared with: error-free responses, as in the paper (error-free), or "
            "all others, those with the other kind of error too (all)."
        ),
    ] = "error-free"
    skip_bad: Annotated[bool, Option("--skip-bad", help="Skip and count rows that cannot be used.")] = False


@dataclass(frozen=True, kw_only=True)
class PaperTableOptions:
    """Options of the tables and their intervals."""

    table: Annotated[
        list[int],
        Option(
            help="A table of Chang et al. 2024: 1 (responses), 2 (classifiers by training data), 3 (words), "
            "5 (classifiers without annotated responses), 6 (salience by aggregation). Repeatable."
        ),
    ]
    resamples: Annotated[int, Option(help="Bootstrap samples, by topic.", min=10)] = 1000
    seed: Annotated[int, Option(help="Random seed of the test sets, the split by topic and the bootstrap.")] = 0


@dataclass(frozen=True, kw_only=True)
class TestOutputOptions:
    """Sets where results and tests of differences go."""

    PANEL: ClassVar[str] = OUTPUT

    paper: Annotated[bool, Option("--paper", help="Also print the figures of the paper.")] = False
    out: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="Append results to FILE (JSON Lines). Judgements are kept in FILE.work, so an interrupted run "
            "continues, and a run with further detectors judges only with those.",
        ),
    ] = None
    comparisons: Annotated[Path | None, Option(metavar="FILE", help="Append the tests to FILE (JSON Lines).")] = None
    json: JsonRows = False


@bench_app.command("perspectives")
@option_groups
def perspectives_command(
    detectors: Annotated[list[str], Argument(metavar="DETECTOR…", help="Detectors; see: veridical detectors.")],
    sets: TestSetOptions,
    chat: ChatOptions,
    chosen: PaperTableOptions,
    output: TestOutputOptions,
) -> int:
    """Measure detectors on answers with several perspectives, by areas under the ROC curve.

    [bold]veridical bench perspectives overlap default --data perspectrum:data/perspectrum --table 1 --paper[/bold]
    [bold]veridical bench perspectives salience:models/reader --data perspectrum:data/perspectrum --table 6[/bold]
    [bold]veridical bench perspectives classifier:synth classifier:para --data perspectrum:data/perspectrum --table
    2[/bold]

    There is one area for hallucinations and one for arguments that are left out, on each test set. Every difference is
    tested by Hanley and McNeil's test.

    The test sets are made from topics. The responses state the given arguments in the same words or in other words, and
    each of them comes with synthetic errors and with ambiguous ones.
    """
    from veridical.datasets.split import FRACTIONS
    from veridical.records.errors import UnknownNameError
    from veridical.report.terminal_tables import print_tables
    from veridical_lab.bench.compare import read_comparisons, without_repeats
    from veridical_lab.bench.perspectives import error_sets, measured, variants
    from veridical_lab.bench.published import published
    from veridical_lab.bench.results import read_result_rows
    from veridical_lab.bench.settings import BenchSettings
    from veridical_lab.report.result_tables import comparison_table, published_tables, result_tables

    variants(detectors, chosen.table)  # refuse impossible tables before reading anything
    if sets.part not in FRACTIONS:
        raise UnknownNameError("part", sets.part, FRACTIONS)
    earlier = read_result_rows([output.out]) if output.out and output.out.exists() else []
    earlier_tests = read_comparisons(output.comparisons) if output.comparisons and output.comparisons.exists() else []
    topics = topics_of(sets.data, skip_bad=sets.skip_bad)
    made = error_sets(topics, per_topic=sets.per_topic, seed=chosen.seed, part=sets.part, sample=sets.sample)
    connection = chat.connection()
    with progress_bar() as progress:
        settings = BenchSettings(
            detectors=detectors,
            data=(),
            resamples=chosen.resamples,
            seed=chosen.seed,
            command=this_command(),
            connection=connection,
            progress=progress,
            journal=output.out.with_name(output.out.name + ".work") if output.out else None,
        )
        rows, tests = measured(settings, made, chosen.table, organic=sets.organic, negatives=sets.negatives)
    if chat.dry_run:
        return print_dry_run(connection)
    if output.out:
        measured_now = {row.run_id for row in rows}
        others = [row for row in earlier if row.run_id not in measured_now]
        write_json_lines(output.out, [*others, *rows])
    if output.comparisons:
        write_json_lines(output.comparisons, without_repeats([*earlier_tests, *tests]))
    if output.json:
        sys.stdout.write(json_lines(rows))
        return 0
    by_set = {test.data: [other for other in tests if other.data == test.data] for test in tests}
    print_tables([*result_tables(rows, ["all"]), *map(comparison_table, by_set.values())])
    if output.paper:
        print_tables(published_tables(published("chang2024"), [f"table {number}" for number in chosen.table]))
    return 0


@bench_app.command("table")
@option_groups
def table_command(
    rows: Annotated[list[Path], Argument(metavar="FILE…", help="Files of results.")],
    metrics: ShownMetrics = None,
    show_all: AllColumns = False,
    output_format: Annotated[
        str,
        Option("--format", "-f", help="terminal, markdown, latex, csv, html, or svg (a plot).", rich_help_panel=OUTPUT),
    ] = "terminal",
    out: Annotated[
        Path | None, Option(metavar="FILE", help="Write to FILE instead of standard output.", rich_help_panel=OUTPUT)
    ] = None,
) -> int:
    """Make tables from results, or a plot of one metric: on all data sets, by length of the context, or by group.

    [bold]veridical bench table rows.jsonl --format markdown --metrics token_f1,roc_auc[/bold]
    [bold]veridical bench table rows.jsonl --format html --out results.html[/bold]
    [bold]veridical bench table rows.jsonl --format svg --metrics roc_auc --out results.svg[/bold]
    """
    from veridical.io.files import write_whole
    from veridical.records.errors import InputError, UnknownNameError
    from veridical.report.terminal_tables import print_tables
    from veridical_lab.bench.results import read_result_rows
    from veridical_lab.report.result_tables import mean_tables, result_csv, result_tables
    from veridical_lab.report.table_formats import FORMATS

    results = read_result_rows(rows)
    chosen = parse_names(metrics) or None
    measured = dict.fromkeys(name for row in results for name in row.metrics)
    for name in chosen or ():
        if name not in measured and chosen != ["all"]:
            raise UnknownNameError("metric", name, measured)
    columns = ["all"] if show_all else chosen
    if output_format == "terminal":
        print_tables([*result_tables(results, columns), *mean_tables(results, columns)])
        return 0
    if output_format == "html":
        from veridical_lab.report.result_page import render_results

        text = render_results(results, columns)
    elif output_format == "svg":
        from veridical_lab.report.result_plots import by_set, context_curves, group_bars

        if not chosen or len(chosen) > 1:
            raise InputError("a plot shows one metric", hint="such as --metrics roc_auc")
        plot = next(filter(None, (draw(results, chosen[0]) for draw in (by_set, context_curves, group_bars))), None)
        if plot is None:
            raise InputError(f"no row has a value of {chosen[0]}", hint=f"there are: {', '.join(measured)}")
        text = plot + "\n"
    elif output_format == "csv":
        text = result_csv(results, chosen)
    elif output_format in FORMATS:
        tables = [*result_tables(results, columns), *mean_tables(results, columns)]
        text = FORMATS[output_format](tables) + "\n"
    else:
        raise UnknownNameError("format", output_format, ["terminal", "csv", "html", "svg", *FORMATS])
    if out:
        write_whole(out, text)
    else:
        sys.stdout.write(text)
    return 0
