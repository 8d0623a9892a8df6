"""`veridical train sentence-encoder`: train the second encoder of the default detector."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from typer import Argument, Option

from veridical.cli.option_groups import option_groups
from veridical.cli.options import OutFolder, write_line


@dataclass(frozen=True, kw_only=True)
class SentenceEncoderOptions:
    """Sets how the sentence encoder is trained."""

    PANEL: ClassVar[str] = "Training"

    questions: Annotated[int, Option(help="Questions to train on. 0 keeps the encoder's weights.", min=0)] = 4000
    rate: Annotated[float, Option(help="The peak learning rate.")] = 4e-5
    least: Annotated[
        int, Option(help="How often a piece of the vocabulary must occur in the passages to be kept.", min=1)
    ] = 20
    words: Annotated[
        Path | None, Option(metavar="FILE", help="Words to keep in the vocabulary, for further languages. One a line.")
    ] = None
    seed: Annotated[int, Option(help="Random seed.")] = 0


@option_groups
def sentence_encoder_command(
    data: Annotated[Path, Argument(metavar="FOLDER", help="The folder with the public data sets.")],
    model: Annotated[
        Path, Option(metavar="FOLDER", help="The pretrained sentence encoder, such as multilingual-e5-small.")
    ],
    out: OutFolder,
    options: SentenceEncoderOptions,
    detector: Annotated[
        Path | None, Option(metavar="FOLDER", help="The default detector to copy. Default: the one in the package.")
    ] = None,
) -> int:
    """Train the sentence encoder, with which the default detector finds where the sources answer a question.

    [bold]veridical train sentence-encoder data --model models/multilingual-e5-small --out detector[/bold]
    [bold]veridical check answers.csv --detector default:detector[/bold]

    FOLDER contains languages/ and plain/qa_passages/. The encoder learns from questions in all languages which sentence
    of a passage answers them. OUT is a copy of the detector with this encoder, and with curves for short answers that
    are fitted on validation documents.
    """
    from veridical.detectors.default.detector import PACKAGED
    from veridical.io.files import read_text
    from veridical_lab.training.sentence_encoder import SentenceEncoderTraining, add_sentence_encoder

    settings = SentenceEncoderTraining(
        questions=options.questions, rate=options.rate, least=options.least, seed=options.seed
    )
    words = [] if options.words is None else read_text(options.words).split()
    add_sentence_encoder(data, model, detector or PACKAGED, out, settings, words=words, progress=write_line)
    write_line(f"wrote {out}; use it as default:{out}")
    return 0
