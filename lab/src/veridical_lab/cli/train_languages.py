"""`veridical train languages`: train the part of the default detector that judges other languages than English."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from veridical.cli.option_groups import option_groups
from veridical.cli.options import OutFolder, write_line
from veridical_lab.cli.shared_options import settings_of
from veridical_lab.cli.signals import stop_asked_for
from veridical_lab.cli.training_options import EncoderOptions


@dataclass(frozen=True, kw_only=True)
class LanguagesOptions(EncoderOptions):
    """Sets how the detector for other languages is trained."""

    tokens: Annotated[
        int,
        Option(help="Tokens to train on. To end sooner, stop the command and run it again with fewer.", min=1),
    ] = 3_600_000
    least: Annotated[
        int, Option(help="How often a piece of the vocabulary must occur in the passages to be kept.", min=1)
    ] = 20
    words: Annotated[
        Path | None, Option(metavar="FILE", help="Words to keep in the vocabulary, for further languages. One a line.")
    ] = None


@option_groups
def languages_command(
    data: Annotated[Path, Argument(metavar="FOLDER", help="The folder with the public data sets.")],
    model: Annotated[
        Path,
        Option(
            metavar="FOLDER",
            help="The pretrained multilingual sentence encoder, such as multilingual-e5-small, or the encoder of an "
            "earlier training, such as DETECTOR/languages/encoder.",
        ),
    ],
    out: OutFolder,
    options: LanguagesOptions,
    detector: Annotated[
        Path | None, Option(metavar="FOLDER", help="The default detector to copy. Default: the one in the package.")
    ] = None,
) -> int:
    """Train the part of the default detector that judges other languages than English.

    [bold]veridical train languages data --model models/multilingual-e5-small --out detector[/bold]
    [bold]veridical check answers.csv --detector default:detector[/bold]

    FOLDER contains the same sets as for `veridical train default`. The encoder learns to read sources and responses in
    all languages of the data, and which sentence of a passage answers a question. OUT is a copy of the detector with
    this encoder. If the command is interrupted, run it again and it continues.
    """
    from veridical.detectors.default.detector import PACKAGED
    from veridical.io.files import read_text
    from veridical_lab.training.default import DefaultTraining
    from veridical_lab.training.multilingual import LanguagesTraining, train_languages

    settings = LanguagesTraining(
        reader=settings_of(DefaultTraining, LanguagesTraining().reader, options),
        least=options.least,
        words=() if options.words is None else tuple(read_text(options.words).split()),
    )
    with stop_asked_for() as stop:
        train_languages(
            model, data, detector or PACKAGED, out, settings, parsed=options.parsed, stop=stop, progress=write_line
        )
    write_line(f"wrote {out}; use it as default:{out}")
    return 0
