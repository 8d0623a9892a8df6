"""`veridical train default`: the detector in the box, made again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from typer import Argument, Option

from veridical.cli.option_groups import option_groups
from veridical.cli.options import OutFolder, write_line
from veridical.cli.progress import stop_asked_for


@dataclass(frozen=True, kw_only=True)
class DefaultTrainingOptions:
    """How the default detector is trained."""

    PANEL: ClassVar[str] = "Training"

    layers: Annotated[
        int | None,
        Option(metavar="N", help="Train the encoder's first N layers alone: 6 of MPNet-base's 12, say.", min=1),
    ] = None
    teacher: Annotated[
        str | None,
        Option(metavar="FOLDER", help="A larger pretrained encoder, such as MPNet-base, to learn from last."),
    ] = None
    without: Annotated[
        list[str] | None, Option(metavar="SET", help="Leave this data set out of the second part. Repeatable.")
    ] = None
    research_text: Annotated[
        bool, Option("--research-text", help="Train on xsum_token and bump, too: their articles are for research.")
    ] = False
    max_tokens: Annotated[int, Option(help="Maximum tokens per window.", min=64)] = 256
    batch_tokens: Annotated[int, Option(help="Tokens per optimiser step.", min=256)] = 2048
    bf16: Annotated[
        bool | None,
        Option(
            "--bf16/--no-bf16",
            help="Compute matrix products in bf16; weights stay in fp32. Default: where the processor does not only "
            "emulate it.",
        ),
    ] = None
    seed: Annotated[int, Option(help="Random seed.")] = 0


@option_groups
def default_command(
    data: Annotated[Path, Argument(metavar="FOLDER", help="The folder with the public data sets.")],
    model: Annotated[str, Option(metavar="FOLDER", help="The pretrained encoder, such as MiniLM-L6.")],
    out: OutFolder,
    options: DefaultTrainingOptions,
) -> int:
    """Train the default detector: what `veridical check` uses where no detector is named.

    FOLDER holds the public sets by name (wice, summedits …), with entailment/ and plain/ beside them. The encoder is
    trained on pairs of texts and on text with errors made by rules, then on labelled responses; regressions on
    validation documents make probabilities of its scores. On two processor cores it takes one to two hours; about four
    with --teacher, an encoder that is trained on a share of this and whose scores the small one then learns.
    An interrupted training continues when the same command is run again.

    [bold]veridical train default data --model models/minilm --out detector[/bold]
    [bold]veridical train default data --model models/minilm --teacher models/mpnet --out detector[/bold]
    [bold]veridical train default data --model models/mpnet --layers 6 --out larger[/bold]
    [bold]veridical check answer.txt article.txt --detector default:detector[/bold]
    """
    from veridical.training.default import DefaultTraining, train_default

    how = DefaultTraining(
        layers=options.layers,
        teacher=options.teacher,
        without=tuple(options.without or ()),
        research_text=options.research_text,
        max_tokens=options.max_tokens,
        batch_tokens=options.batch_tokens,
        bf16=options.bf16,
        seed=options.seed,
    )
    with stop_asked_for() as stop:
        train_default(model, data, out, how, stop=stop, progress=write_line)
    write_line(f"wrote {out}; use it as default:{out}")
    return 0
