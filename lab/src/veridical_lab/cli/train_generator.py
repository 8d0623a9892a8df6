"""`veridical train generator`: train generators of answers with several perspectives."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from veridical.cli.option_groups import option_groups
from veridical.cli.options import OUTPUT, write_line
from veridical_lab.cli.shared_options import ModelFolder, settings_of
from veridical_lab.cli.signals import stop_asked_for
from veridical_lab.cli.training_options import TuningOptions, VirtualTokens


@dataclass(frozen=True, kw_only=True)
class GeneratorTrainingOptions(TuningOptions):
    """Sets how a generator is trained."""

    virtual_tokens: VirtualTokens = 5
    learning_rate: Annotated[float, Option(help="Highest learning rate.", min=0)] = 0.1
    batch: Annotated[int, Option(help="Answers per step.", min=1)] = 16
    validation_examples: Annotated[int, Option(help="Maximum number of validation answers.", min=1)] = 100
    seed: Annotated[int, Option(help="Random seed of the split by topic, the batches and the soft prompt.")] = 0


@option_groups
def generator_command(
    topics: Annotated[
        str,
        Argument(
            metavar="DATA",
            help="Topics: perspectrum:FOLDER, or a .json, .jsonl or .csv file. With --pairs labelled answers: "
            "procon:FILE or jsonl:FILE.",
        ),
    ],
    model: ModelFolder,
    out: Annotated[
        Path, Option(metavar="FOLDER", help="Write the trained soft prompt to FOLDER.", rich_help_panel=OUTPUT)
    ],
    options: GeneratorTrainingOptions,
    pairs: Annotated[
        bool,
        Option(
            "--pairs",
            help="Learn the given answers that have no error, as in the paper, instead of composing answers. An empty "
            "line ends the introduction and each perspective's passage.",
        ),
    ] = False,
) -> int:
    """Train a soft prompt with which a local model writes answers with several perspectives.

    [bold]veridical train generator perspectrum:data/perspectrum --model models/smollm --out generator[/bold]
    [bold]veridical train generator procon:answers.jsonl --pairs --model models/smollm --out generator[/bold]
    [bold]veridical answer "Should cars be banned?" --kb topics.kb --model generator --revise[/bold]

    It learns from answers that are composed from the arguments of the topics, or from answers that you provide
    (70/10/20 by topic; the test part is not used). The folder OUT contains only the vectors. If the command is
    interrupted, run it again and it continues. You need the extra tuning.
    """
    from veridical.datasets import read
    from veridical_lab.datasets.topics import read_topics
    from veridical_lab.training.generator import GeneratorTraining, train_generator

    composed_of, given = ([], list(read(topics))) if pairs else (list(read_topics(topics)), None)
    loaded = options.load(model)
    with stop_asked_for() as stop:
        train_generator(
            loaded,
            composed_of,
            settings_of(GeneratorTraining, options),
            pairs=given,
            out=out,
            checkpoint_minutes=options.checkpoint_minutes,
            stop=stop,
            progress=write_line,
        )
    write_line(f"wrote {out}; use it as: veridical answer --model {out}")
    return 0
