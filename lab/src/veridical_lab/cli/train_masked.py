"""`veridical train masked`: trains masked language models on plain text."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, ClassVar

from typer import Argument, Option

from veridical.cli.option_groups import option_groups
from veridical.cli.options import OUTPUT, LocalModelOptions, texts_of, write_line
from veridical.cli.progress import stop_asked_for
from veridical_lab.cli.training_options import CheckpointMinutes


@dataclass(frozen=True, kw_only=True)
class MaskedTrainingOptions(LocalModelOptions):
    """Options of how a masked language model is trained."""

    PANEL: ClassVar[str] = "Training"

    share: Annotated[float, Option(help="Share of tokens to predict (0 to 1).")] = 0.15
    max_tokens: Annotated[int, Option(help="Tokens per window.", min=8)] = 128
    batch_tokens: Annotated[int, Option(help="Tokens per optimiser step.", min=32)] = 4096
    epochs: Annotated[int, Option(help="Passes over the texts.", min=1)] = 1
    max_steps: Annotated[int | None, Option(help="Maximum number of steps. Default: all epochs.", min=1)] = None
    learning_rate: Annotated[float, Option(help="The encoder's highest learning rate.", min=0)] = 2e-4
    head_learning_rate: Annotated[float, Option(help="The head's highest learning rate.", min=0)] = 1e-3
    frozen: Annotated[bool, Option("--frozen", help="Train the head only; the encoder stays as it is.")] = False
    dropout: Annotated[float, Option(help="Dropout in training.", min=0, max=0.9)] = 0.0
    evaluations: Annotated[int, Option(help="How often validation texts are predicted.", min=1)] = 4
    seed: Annotated[int, Option(help="Random seed of the new head, the order and the masks.")] = 0
    checkpoint_minutes: CheckpointMinutes = 10.0
    dtype: Annotated[str, Option(help="Precision of the weights: fp32, bf16 or fp16.")] = "fp32"


@option_groups
def masked_command(
    model: Annotated[str, Argument(metavar="MODEL", help="An encoder: a local folder, or a hub name.")],
    texts: Annotated[
        list[str], Argument(metavar="TEXTS…", help="Text files, or data sets as SET:PATH (wikipedia:FOLDER).")
    ],
    out: Annotated[Path, Option(metavar="FOLDER", help="Write the trained model to FOLDER.", rich_help_panel=OUTPUT)],
    options: MaskedTrainingOptions,
) -> int:
    """Train a masked language model on plain text, such as a head for an encoder that has none.

    Use it to make synthetic errors (data corrupt --method masked) or for features of words. OUT is a Hugging Face
    folder (AutoModelForMaskedLM reads it). An interrupted training continues when the same command is run again.

    [bold]veridical train masked models/minilm wikipedia:data/wikipedia --out models/minilm-masked[/bold]
    [bold]veridical data corrupt wikipedia:data/wikipedia --method masked --passages 2 --fill-model models/minilm-masked
    --out masked.jsonl[/bold]
    """
    import json

    from veridical.core.files import read_text
    from veridical_lab.training.masked import MaskedTraining, train_masked

    config = Path(model) / "config.json"
    has_head = config.is_file() and "MaskedLM" in " ".join(json.loads(read_text(config)).get("architectures") or ())
    loaded = options.load(model, ("masked",) if has_head else ("encoder",))
    settings = {f.name: getattr(options, f.name) for f in fields(MaskedTraining) if hasattr(options, f.name)}
    with stop_asked_for() as stop:
        train_masked(
            loaded,
            texts_of(texts),
            MaskedTraining(**settings),
            out=out,
            checkpoint_minutes=options.checkpoint_minutes,
            stop=stop,
            progress=write_line,
        )
    write_line(f"wrote {out}; use it as --fill-model {out}")
    return 0
