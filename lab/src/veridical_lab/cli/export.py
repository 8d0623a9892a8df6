"""`veridical export`: write a classifier as an ONNX file."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from veridical.cli.options import write_line


class Precision(StrEnum):
    """The precision of the weights in the file."""

    FP32 = "fp32"
    INT8 = "int8"


def export_command(
    folder: Annotated[
        Path,
        Argument(
            metavar="FOLDER",
            help="The folder that `veridical train tokens` wrote, or a sequence classifier (Hugging Face).",
        ),
    ],
    precision: Annotated[Precision, Option(help="fp32, or int8: a quarter of the size, and faster.")] = Precision.INT8,
    model: Annotated[
        str | None, Option(metavar="FOLDER", help="The backbone, for a classifier on a frozen one.")
    ] = None,
) -> int:
    """Write a token or sequence classifier as an ONNX file, and check it against the original.

    [bold]veridical export classifier --precision int8[/bold]
    [bold]veridical check answer.json --detector tokens:classifier,onnx=int8[/bold]
    [bold]veridical check answer.json --detector entailment:models/nli,onnx=int8[/bold]

    The file is written to the folder onnx/ of the classifier. To write it, you need the extra onnx. To judge with it,
    you need neither this extra nor torch.
    """
    import json

    from veridical.detectors.entailment.scorers import ClassifierScorer
    from veridical.detectors.tokens.artifact import ONNX
    from veridical.detectors.tokens.detector import Tokens
    from veridical.inference.artifact import described_kind
    from veridical.inference.checkpoint import read_config
    from veridical_lab.detectors.export import export

    paired = described_kind(folder) is None and (folder / "config.json").is_file()
    paired = paired and "ForSequenceClassification" in json.dumps(read_config(folder).get("architectures"))
    classifier = ClassifierScorer(folder) if paired else Tokens(folder, model=model)
    written = export(classifier, precision.value)
    write_line(
        f"wrote {folder / ONNX}: {written.bytes / 1e6:.1f} MB, largest difference {written.difference:.2g}, "
        f"lowest cosine similarity {written.cosine:.4f}"
    )
    write_line(f"use it as {'entailment' if paired else 'tokens'}:{folder},onnx={precision.value}")
    return 0
