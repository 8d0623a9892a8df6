"""`veridical train summac`: train the layer of SummaC Conv."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from typer import Option

from veridical.cli.option_groups import option_groups
from veridical.cli.options import OutFolder, Split, write_line
from veridical_lab.cli.shared_options import LabelledSets, LocalModelOptions, ValidationSets


@dataclass(frozen=True, kw_only=True)
class SummacTrainingOptions(LocalModelOptions):
    """Sets how the layer is trained."""

    PANEL: ClassVar[str] = "Training"

    labels: Annotated[
        str | None,
        Option(metavar="NAMES", help="The model's classes in order, separated by |. Default: those in its config."),
    ] = None
    split: Split = None
    seed: Annotated[int, Option(help="Random seed of the split by document.")] = 0


@option_groups
def summac_command(
    data: LabelledSets,
    model: Annotated[
        str,
        Option(
            metavar="FOLDER",
            help="A cross-encoder of text pairs (a folder, or a hub name), or what `train tokens` wrote.",
        ),
    ],
    out: OutFolder,
    options: SummacTrainingOptions,
    validation: ValidationSets = None,
) -> int:
    """Train the layer of SummaC Conv, which scores a sentence by how many source sentences entail it, and how strongly.

    [bold]veridical train summac summedits:data/summedits --model models/nli --out summac[/bold]
    [bold]veridical check answer.txt article.txt --detector entailment:summac[/bold]

    The layer learns from labels of whole responses. The data are split by document into a training, a validation and a
    test part (70/10/20).
    """

    from veridical.datasets import read
    from veridical.detectors.entailment.scorers import ScorerOptions, open_scorer
    from veridical_lab.training.summac import train_summac

    how = ScorerOptions(labels=options.labels, device=options.device, dtype=options.dtype)
    scorer = open_scorer(model, how)
    examples = [example for spec in data for example in read(spec, options.split)]
    held_out = [example for spec in validation or () for example in read(spec)]
    artifact = train_summac(scorer, examples, validation=held_out or None, seed=options.seed, out=out)
    write_line(
        f"ROC AUC {artifact.validation['roc_auc']:.3f} on {artifact.validation['responses']} validation responses"
    )
    write_line(f"wrote {out}; use it as entailment:{out}")
    return 0
