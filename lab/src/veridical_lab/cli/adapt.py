"""`veridical adapt`: train the default detector further on your own documents."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from typer import Argument, Option

from veridical.cli.option_groups import option_groups
from veridical.cli.options import ChatOptions, JsonFlag, OutFolder, write_line
from veridical.report.tables import Table
from veridical_lab.cli.signals import stop_asked_for
from veridical_lab.cli.training_options import Bf16Products, EncoderRate

if TYPE_CHECKING:
    from veridical_lab.adapt.adapting import Adapted


@dataclass(frozen=True, kw_only=True)
class AdaptingOptions:
    """Sets how the detector is trained."""

    PANEL: ClassVar[str] = "Training"

    tokens: Annotated[
        int,
        Option(help="The number of tokens to train on. A processor core trains on about 400 tokens per second.", min=1),
    ] = 300_000
    rate: EncoderRate = 2e-5
    general: Annotated[
        float,
        Option(
            help="The number of general examples for each example about the documents, so that the detector forgets "
            "nothing.",
            min=0,
        ),
    ] = 0.5
    bf16: Bf16Products = True
    seed: Annotated[int, Option(help="Random seed.")] = 0


@option_groups
def adapt_command(
    documents: Annotated[
        list[Path],
        Argument(metavar="DOCUMENTS…", help="Texts, PDF, Word, Excel, HTML or Markdown files, and folders with them."),
    ],
    out: OutFolder,
    options: AdaptingOptions,
    chat: ChatOptions,
    labeller: Annotated[
        str | None,
        Option(
            metavar="NAME",
            help="The language model that labels each statement without seeing its label. Default: --model.",
            rich_help_panel=ChatOptions.PANEL,
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> int:
    """Train the default detector further on your documents, and keep it if it is better on documents held back.

    [bold]veridical adapt handbook/ --out mine --model qwen2.5-7b-instruct --base-url http://127.0.0.1:8080/v1[/bold]
    [bold]veridical check answer.txt manual.pdf --detector default:mine[/bold]

    If you give --model, the language model writes right and wrong statements about the passages of your documents. It
    then labels them again without seeing the labels, and statements that fail a check are dropped. Without --model,
    rules put errors into sentences of the documents. This helps less.

    A fifth of the documents is used to fit thresholds, and another fifth to compare the old and the new detector. If
    the command is interrupted, run it again and it continues.

    Exit codes: 0 the new detector is kept, 1 it is no better, 2 usage or input error.
    """
    from veridical.cli.delivery import print_dry_run
    from veridical.report.terminal_tables import print_tables
    from veridical_lab.adapt.adapting import Adapting, adapt
    from veridical_lab.adapt.passages import read_passages
    from veridical_lab.adapt.statements import write_statements

    # the model of the settings file is not asked unless the command line says so
    connection = chat.connection(cache=out.with_name(out.name + ".work") / "replies.db") if chat.model else None
    model = None if connection is None else connection.chat()
    if chat.dry_run:
        if connection is None or model is None:
            write_line("no language model is asked without --model")
            return 0
        passages, _ = read_passages(documents)
        write_statements(passages, model)
        write_line(f"{len(passages)} passages: besides the calls below, up to as many label the statements")
        return print_dry_run(connection)
    with stop_asked_for() as stop:
        report = adapt(
            documents,
            out,
            Adapting(**asdict(options)),
            model=model,
            labeller=None if connection is None or labeller is None else connection.chat(labeller),
            stop=stop,
            progress=write_line,
        )
    for note in report.notes:
        write_line(f"note: {note}")
    if as_json:
        sys.stdout.write(json.dumps(asdict(report), ensure_ascii=False) + "\n")
    else:
        print_tables([_figures(report), *_dropped(report)])
    if report.kept:
        write_line(f"wrote {out}; use it as default:{out}")
        return 0
    write_line(f"the new detector is not kept; it stays in {out}.work/detector")
    return 1


def _figures(report: Adapted) -> Table:
    """Return the figures of the old and the new detector."""
    from veridical_lab.report.table_formats import or_dash

    lines = []
    for data, figures in report.figures.items():
        for metric, before in figures["before"].items():
            after = figures["after"][metric]
            lines.append([data, str(figures["n"]), metric, or_dash(before, ".3f"), or_dash(after, ".3f")])
    gains = (
        f"{data} {figures['gain']['value']:+.3f} ({figures['gain']['low']:+.3f} to {figures['gain']['high']:+.3f})"
        for data, figures in report.figures.items()
    )
    foot = f"Gain in ROC AUC, 95% intervals by bootstrap over documents: {'; '.join(gains)}."
    return Table("Before and after", ["data", "n", "metric", "before", "after"], lines, foot)


def _dropped(report: Adapted) -> list[Table]:
    """Return what became of the statements that the language model wrote."""
    from veridical_lab.adapt.statements import REASONS

    written = report.statements
    if not written:
        return []
    lines = [[REASONS[reason], str(count)] for reason, count in written["dropped"].items()]
    foot = f"ROC AUC of a classifier that sees the statements alone: {written['statement alone']:.2f} (0.5 is best)."
    return [Table(f"{written['kept']} of {written['written']} statements kept", ["dropped because", "n"], lines, foot)]
