"""Declare the options that several training commands share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from typer import Option

from veridical.cli.comma_lists import parse_names
from veridical.cli.options import Split, write_line
from veridical_lab.cli.number_lists import parse_counts, parse_numbers
from veridical_lab.cli.shared_options import LocalModelOptions

if TYPE_CHECKING:
    from veridical_lab.detectors.features.extraction import FeatureSettings
    from veridical_lab.probes.options import ProbeOptions
    from veridical_lab.training.features import Inputs

CheckpointMinutes = Annotated[
    float, Option(help="How often to save a checkpoint. The same command continues from it.", min=0.1)
]
Patience = Annotated[int, Option(help="Stop after this many evaluations without a better one.", min=1)]
EncoderRate = Annotated[
    float, Option(help="The peak learning rate of the encoder. The rate of the heads is eight times as high.")
]
Bf16Products = Annotated[
    bool,
    Option("--bf16/--no-bf16", help="Compute matrix products in bf16 if the device has it. The weights stay in fp32."),
]
VirtualTokens = Annotated[int, Option(help="Length of the soft prompt.", min=1)]


@dataclass(frozen=True, kw_only=True)
class TuningOptions(LocalModelOptions):
    """Options of a training that tunes a model."""

    PANEL: ClassVar[str] = "Training"

    warmup: Annotated[int, Option(help="Steps until the highest learning rate; at most half of all.", min=0)] = 500
    steps: Annotated[int, Option(help="Maximum number of steps.", min=1)] = 20_000
    evaluate_every: Annotated[int, Option(help="Steps between two evaluations on validation.", min=1)] = 250
    patience: Patience = 5
    per_topic: Annotated[int, Option(help="Draws of arguments per topic, where the data are topics.", min=1)] = 4
    checkpoint_minutes: CheckpointMinutes = 10.0


@dataclass(frozen=True, kw_only=True)
class EncoderOptions:
    """Sets how an encoder of the default detector is trained."""

    PANEL: ClassVar[str] = "Training"

    tokens: Annotated[
        int,
        Option(help="Tokens to train on. To end sooner, stop the command and run it again with fewer.", min=1),
    ] = 30_000_000
    rate: EncoderRate = 1e-4
    batch_tokens: Annotated[int, Option(help="Tokens per optimiser step.", min=256)] = 3072
    initial_weight: Annotated[
        float,
        Option(
            help="Share of the initial weights in the result, which is a weighted average of the weights before and "
            "after training. With 0.25, an encoder that is trained further forgets less.",
            min=0.0,
            max=0.99,
        ),
    ] = 0.0
    parsed: Annotated[
        Path | None,
        Option(
            metavar="FOLDER",
            help="Parsed texts, which `veridical data parse` writes: adds pairs of statements that differ only in how "
            "things relate.",
        ),
    ] = None
    bf16: Bf16Products = True
    seed: Annotated[int, Option(help="Random seed.")] = 0


@dataclass(frozen=True, kw_only=True)
class ProbeTrainingOptions(LocalModelOptions):
    """Sets how probes on a local model are trained."""

    PANEL: ClassVar[str] = "Probes"

    kind: Annotated[str, Option(help="Type of probe: linear, pooling or mlp.")] = "pooling"
    objective: Annotated[
        str | None,
        Option(help="What probes predict: token, response, or both (token,response). Default: all that have labels."),
    ] = None
    template: Annotated[
        str, Option(help="The prompt template that turns a case into the model's input: general, tldr, chat, raw …")
    ] = "general"
    learning_rate: Annotated[str, Option(metavar="LIST", help="Learning rates to try, separated by commas.")] = (
        "0.1,0.01,0.001"
    )
    batch_size: Annotated[
        str, Option(metavar="LIST", help="Batch sizes to try, in responses, separated by commas.")
    ] = "50"
    patience: Annotated[int, Option(help="Stop after this many epochs without a better validation loss.", min=1)] = 10
    epochs: Annotated[int, Option(help="Maximum number of epochs.", min=1)] = 200
    seed: Annotated[
        int, Option(help="Random seed of the split by document, the batches, the initial weights and the bootstrap.")
    ] = 0
    split: Split = None
    store: Annotated[
        Path | None,
        Option(
            metavar="FOLDER",
            help="Keep the activations in FOLDER. Later runs use them again, and an interrupted run continues.",
        ),
    ] = None
    memory: Annotated[float, Option(help="Gigabytes of activations to hold in memory.", min=0.001)] = 2.0
    max_tokens: Annotated[int | None, Option(help="Context length in tokens. Default: the model's.")] = None

    @property
    def memory_bytes(self) -> int:
        """`--memory` in bytes."""
        return int(self.memory * 1e9)

    @property
    def objectives(self) -> tuple[str, ...] | None:
        """The named objectives, or None for all that have labels."""
        return None if self.objective is None else tuple(parse_names(self.objective))

    def training(self, *, hidden: int = 16) -> ProbeOptions:
        """Return the hyperparameters."""
        from veridical_lab.probes.options import ProbeOptions

        return ProbeOptions(
            kind=self.kind,
            learning_rates=parse_numbers(self.learning_rate, "--learning-rate"),
            batch_sizes=parse_counts(self.batch_size, "--batch-size"),
            patience=self.patience,
            max_epochs=self.epochs,
            hidden=hidden,
            seed=self.seed,
        )


@dataclass(frozen=True, kw_only=True)
class FeatureInputOptions(LocalModelOptions):
    """Chooses which word features there are, and what they are made from."""

    PANEL: ClassVar[str] = "Features"

    model: Annotated[
        str | None,
        Option(
            metavar="FOLDER",
            help="A causal or masked language model (a local folder, or a hub name) that gives the probability and "
            "entropy of words. Default: none.",
        ),
    ] = None
    template: Annotated[
        str | None, Option(help="The prompt template of a causal model: general, tldr … Default: the model's.")
    ] = None
    sources: Annotated[
        bool, Option("--sources/--no-sources", help="Compare words with the sources, or read only the response.")
    ] = True
    context: Annotated[
        str, Option(help="both, or left: features do not depend on the words that follow (the online setting).")
    ] = "both"
    tagger: Annotated[
        str,
        Option(
            metavar="NAME", help="rules (built in), or spacy:PIPELINE, where PIPELINE is a folder or installed name."
        ),
    ] = "rules"
    statistics: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="Word counts that `veridical data statistics` made. Default: counts of the texts to train on.",
        ),
    ] = None
    token_scores: Annotated[
        Path | None,
        Option(metavar="FILE", help="Scores of each response's tokens, such as the generator's log-probabilities."),
    ] = None
    paper_features: Annotated[
        bool,
        Option(
            "--paper-features",
            help="Use only the six features of Liu et al. 2022: probability and entropy (--model), TF-IDF, PPMI, part "
            "of speech and entity type.",
        ),
    ] = False
    split: Split = None
    seed: Annotated[int, Option(help="Random seed of the split by document and of the training.")] = 0

    @property
    def features(self) -> FeatureSettings:
        """The settings of the features."""
        from veridical_lab.detectors.features.extraction import FeatureSettings

        return FeatureSettings(self.sources, self.context, self.template, paper=self.paper_features)

    def inputs(self) -> Inputs:
        """Load what the features are made from."""
        from veridical_lab.detectors.features.detector import load_token_scores
        from veridical_lab.detectors.features.statistics import WordStatistics
        from veridical_lab.training.features import Inputs

        return Inputs(
            model=None if self.model is None else self.load(self.model, ("causal", "masked")),
            statistics=None if self.statistics is None else WordStatistics.load(self.statistics),
            token_scores=None if self.token_scores is None else load_token_scores(self.token_scores),
            progress=write_line,
        )
