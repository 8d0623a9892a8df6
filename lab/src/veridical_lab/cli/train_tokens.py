"""`veridical train tokens`: train token and span classifiers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from typer import Option

from veridical.cli.option_groups import option_groups
from veridical.cli.options import Criterion, OutFolder, Split, write_line
from veridical_lab.cli.shared_options import LabelledSets, LocalModelOptions, ModelFolder, ValidationSets, settings_of
from veridical_lab.cli.signals import stop_asked_for
from veridical_lab.cli.training_options import CheckpointMinutes, Patience


@dataclass(frozen=True, kw_only=True)
class TokenTrainingOptions(LocalModelOptions):
    """Sets how a token classifier is trained."""

    PANEL: ClassVar[str] = "Training"

    epochs: Annotated[int, Option(help="Maximum number of passes over the training part.", min=1)] = 4
    learning_rate: Annotated[float, Option(help="The backbone's highest learning rate.", min=0)] = 5e-5
    batch_tokens: Annotated[int, Option(help="Tokens per optimiser step.", min=32)] = 4096
    patience: Patience = 3
    evaluations: Annotated[int, Option(help="Evaluations on the validation part per epoch.", min=1)] = 1
    frozen: Annotated[bool, Option("--frozen", help="Train the head only; the backbone stays as it is.")] = False
    response_weight: Annotated[float, Option(help="Weight of the loss on whole responses.", min=0)] = 0.3
    contradiction_weight: Annotated[
        float,
        Option(
            help="Weight of the loss that separates contradiction (intrinsic errors) from absence (extrinsic errors), "
            "where the data label them; 0: do not learn these labels.",
            min=0,
        ),
    ] = 0.0
    soft_labels: Annotated[
        bool, Option("--soft-labels", help="Use the scores of gold verdicts as targets, as in distillation.")
    ] = False
    per_set: Annotated[int | None, Option(help="Maximum number of training examples per data set.", min=1)] = None
    validation_per_set: Annotated[int, Option(help="Maximum number of validation examples per data set.", min=1)] = 400
    criterion: Criterion = "balanced_accuracy"
    bf16: Annotated[
        bool,
        Option("--bf16", help="Compute matrix products in bf16 if the device has it. The weights stay in fp32."),
    ] = False
    seed: Annotated[int, Option(help="Random seed of the split by document, the order and the head.")] = 0
    split: Split = None
    checkpoint_minutes: CheckpointMinutes = 10.0


@dataclass(frozen=True, kw_only=True)
class ClassifierOptions:
    """Options of the form of a token classifier."""

    PANEL: ClassVar[str] = "Classifier"

    unit: Annotated[str, Option(help="What to score: word (its tokens are pooled) or token.")] = "word"
    pooling: Annotated[str, Option(help="How the tokens of a word or span are pooled: mean or max.")] = "mean"
    hidden: Annotated[
        int | None,
        Option(
            help="The number of hidden units in the tanh layer. 0 makes a linear head. Default: the model's width.",
            min=0,
        ),
    ] = None
    mode: Annotated[
        str, Option(help="offline: a word sees the whole response. online: it sees only the words before it.")
    ] = "offline"
    attention: Annotated[
        str,
        Option(
            help="full: source and response see each other. prefix: the source does not see the response, so one pass "
            "over it serves many responses."
        ),
    ] = "full"
    lexical: Annotated[
        bool, Option("--lexical/--no-lexical", help="Also tell the head whether the sources have each word.")
    ] = True
    sources: Annotated[
        bool,
        Option(
            "--sources/--no-sources",
            help="Whether the classifier sees the sources. If not, it judges the response alone.",
        ),
    ] = True
    template: Annotated[str, Option(help="The prompt template for sources, question and history.")] = "bare"
    max_tokens: Annotated[int | None, Option(help="Maximum tokens per window. Default: the model's.", min=32)] = None
    evidence: Annotated[
        str,
        Option(
            help="How to read a long source: relevant (the sentences that share most with the response) or all (window "
            "after window)."
        ),
    ] = "relevant"
    by_sentence: Annotated[
        bool, Option("--by-sentence", help="Read each sentence of a response by itself, with its own evidence.")
    ] = False


@option_groups
def tokens_command(
    data: LabelledSets,
    model: ModelFolder,
    out: OutFolder,
    classifier: ClassifierOptions,
    options: TokenTrainingOptions,
    validation: ValidationSets = None,
) -> int:
    """Train a token or span classifier on an encoder or decoder, with or without sources.

    [bold]veridical train tokens xsum_token:data/xsum_token --model models/minilm --out classifier[/bold]
    [bold]veridical train tokens hades:data/hades --model models/gpt2 --out online --mode online --no-sources[/bold]
    [bold]veridical check answer.json --detector tokens:classifier[/bold]

    MODEL is a Hugging Face folder. It can also be a folder that this command wrote, whose classifier is then trained
    further. Unless you set --validation, the data are split by document into a training, a validation and a test part
    (70/10/20). If the command is interrupted, run it again and it continues.
    """
    from veridical.datasets import read
    from veridical.detectors.tokens.artifact import KIND, load_tokens
    from veridical.detectors.tokens.detector import Tokens
    from veridical.inference.artifact import DETECTOR
    from veridical.inference.local_model import READERS
    from veridical.inference.pairs import PairSettings
    from veridical_lab.training.token_options import TokenTraining
    from veridical_lab.training.tokens import train_tokens

    settings = settings_of(TokenTraining, classifier, options, pairs=settings_of(PairSettings, classifier))
    examples = {spec: list(read(spec, options.split)) for spec in data}
    held_out = {spec: list(read(spec)) for spec in validation or ()}
    head = None
    dtype = "fp32" if options.dtype == "auto" else options.dtype
    if (Path(model) / DETECTOR).is_file():
        head = load_tokens(model)[2]
        loaded = Tokens(model, device=options.device, dtype=dtype).backbone()
    else:
        from veridical.models.load import load

        loaded = load(model, device=options.device, dtype=dtype, kinds=READERS)
    with stop_asked_for() as stop:
        train_tokens(
            loaded,
            examples,
            settings,
            out=out,
            start_from=head,
            validation=held_out or None,
            checkpoint_minutes=options.checkpoint_minutes,
            stop=stop,
            progress=write_line,
        )
    write_line(f"wrote {out}; use it as {KIND}:{out}")
    return 0
