"""`veridical train default`: train the default detector again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from veridical.cli.comma_lists import parse_names
from veridical.cli.option_groups import option_groups
from veridical.cli.options import OutFolder, write_line
from veridical_lab.cli.shared_options import settings_of
from veridical_lab.cli.signals import stop_asked_for
from veridical_lab.cli.training_options import EncoderOptions


@dataclass(frozen=True, kw_only=True)
class DefaultTrainingOptions(EncoderOptions):
    """Sets how the default detector is trained."""

    max_tokens: Annotated[int, Option(help="Maximum tokens per window.", min=64)] = 288
    languages: Annotated[
        str | None,
        Option(metavar="LIST", help="Languages of questions and paraphrases, such as en,de. Default: all in FOLDER."),
    ] = None


@option_groups
def default_command(
    data: Annotated[Path, Argument(metavar="FOLDER", help="The folder with the public data sets.")],
    model: Annotated[
        str,
        Option(
            metavar="FOLDER",
            help="The pretrained encoder, such as MPNet-base, or the encoder of an earlier training, such as "
            "OUT/stages/encoder.",
        ),
    ],
    out: OutFolder,
    options: DefaultTrainingOptions,
) -> int:
    """Train the default detector, which `veridical check` uses if you do not name a detector.

    [bold]veridical train default data --model models/mpnet --out detector[/bold]
    [bold]veridical check answer.txt article.txt --detector default:detector[/bold]

    FOLDER contains the public sets by name (wice, summedits …), and also entailment/, plain/, wikipedia/ and written/.

    The encoder learns from labelled pairs and responses, and from text with errors made by rules. Each pass over the
    data draws other examples and makes other errors. Regressions on validation documents turn its scores into
    probabilities. OUT also has the packaged detector for other languages. If the command is interrupted, run it again
    and it continues.
    """
    from veridical.detectors.default.detector import PACKAGED
    from veridical_lab.training.default import DefaultTraining, train_default
    from veridical_lab.training.multilingual import add_other_languages

    languages = None if options.languages is None else tuple(parse_names(options.languages))
    settings = settings_of(DefaultTraining, options, languages=languages)
    with stop_asked_for() as stop:
        train_default(model, data, out, settings, parsed=options.parsed, stop=stop, progress=write_line)
        add_other_languages(out, PACKAGED, data, write_line)
    write_line(f"wrote {out}; use it as default:{out}")
    return 0
