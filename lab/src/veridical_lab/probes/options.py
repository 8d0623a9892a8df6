"""Options for training probes: hyper-parameters, what the model reads, and where to keep its activations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from veridical.inference.template import get_template
from veridical.records.errors import InputError, UnknownNameError
from veridical_lab.models.probe_heads import OBJECTIVES, PROBE_KINDS

SELECTIONS = ("ensemble", "best")
THRESHOLD_METRICS = ("token_f1", "f1_sp")


@dataclass(frozen=True, slots=True)
class ProbeOptions:
    """The kind of probe and its hyper-parameters (CH-Wang et al. 2024, §5.1).

    Attributes:
        kind: "linear", "pooling" (attention pooling) or "mlp".
        objective: What a label applies to: a "token" or a whole "response".
        learning_rates: The learning rates to try, above 0, all in the same training run.
        batch_sizes: The batch sizes to try, in responses, each in its own training run.
        patience: Stop after this many epochs without a lower validation loss.
        max_epochs: The maximum number of epochs of a training run.
        hidden: The number of hidden units of an mlp.
        balanced: Whether both classes get the same total weight.
        seed: The random seed for the split by document, the batches and the initial weights.
    """

    kind: str = "pooling"
    objective: str = "token"
    learning_rates: tuple[float, ...] = (0.1, 0.01, 0.001)
    batch_sizes: tuple[int, ...] = (50,)
    patience: int = 10
    max_epochs: int = 200
    hidden: int = 16
    balanced: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        for what, value, allowed in (("kind", self.kind, PROBE_KINDS), ("objective", self.objective, OBJECTIVES)):
            if value not in allowed:
                raise UnknownNameError(f"{what} of probe", value, allowed)
        counts = (*self.batch_sizes, self.patience, self.max_epochs, self.hidden)
        if not self.learning_rates or not self.batch_sizes or min(counts) < 1 or min(self.learning_rates) <= 0:
            raise InputError(f"these options cannot be trained with: {self}", hint="numbers above 0, at least one each")

    @property
    def outputs(self) -> int:
        """The number of dimensions to which a probe projects a state."""
        return {"linear": 1, "pooling": 2}.get(self.kind, self.hidden)


@dataclass(frozen=True, slots=True)
class ProbeConfig:
    """Options that training and all analyses share.

    Attributes:
        options: The hyper-parameters. Their objective is replaced by each of `objectives`.
        objectives: "token", "response" or both. Default: those that have labels in the data.
        template: The name of the template that turns a case into a text for the model.
        sublayers: The sublayers to probe. Default: all 2L.
        max_tokens: The maximum number of tokens that the model reads at once. Default: its context length.
        max_windows: The maximum number of windows over long sources. None for no limit.
        token_consensus: Whether to use the annotators' majority vote on each model token as gold, if the data have
            annotations (see `with_token_consensus`).
        store: A folder to keep activations in. Default: activations are held in memory.
        store_dtype: "fp32", "bf16", "fp16", or "auto" (the model's).
        memory: The maximum number of bytes of activations in memory at once.
        device: The device on which to train probes.
        progress: Called with a line of text after each step.
    """

    options: ProbeOptions = field(default_factory=ProbeOptions)
    objectives: tuple[str, ...] | None = None
    template: str = "general"
    sublayers: tuple[int, ...] | None = None
    max_tokens: int | None = None
    max_windows: int | None = 1
    token_consensus: bool = False
    store: Path | None = None
    store_dtype: str = "auto"
    memory: int = 2 << 30
    device: str = "cpu"
    progress: Callable[[str], None] = field(default=lambda line: None, compare=False)

    def __post_init__(self) -> None:
        for objective in self.objectives or ():
            if objective not in OBJECTIVES:
                raise UnknownNameError("objective", objective, OBJECTIVES)
        if self.objectives == ():
            raise InputError("no objective is named", hint=", ".join(OBJECTIVES))
        get_template(self.template)


@dataclass(frozen=True, slots=True)
class TrainingConfig(ProbeConfig):
    """Options of `train_probe`.

    Attributes:
        objectives: As in `ProbeConfig`, but both by default.
        select: Save an "ensemble" of all sublayers, or only the sublayer that is "best" on the validation part.
        threshold_metric: The metric that the threshold of token-level probes maximises on the validation part:
            "token_f1" (F1 over white-space tokens) or "f1_sp".
        stream: Whether to run the model again in every epoch instead of storing its activations.
        calibrate: Whether to calibrate scores to probabilities on the validation part (needs the extra `stats`).
    """

    objectives: tuple[str, ...] = OBJECTIVES
    select: str = "ensemble"
    threshold_metric: str = "token_f1"
    stream: bool = False
    calibrate: bool = False

    def __post_init__(self) -> None:
        ProbeConfig.__post_init__(self)
        if self.select not in SELECTIONS:
            raise UnknownNameError("selection", self.select, SELECTIONS)
        if self.threshold_metric not in THRESHOLD_METRICS:
            raise UnknownNameError("metric for a threshold", self.threshold_metric, THRESHOLD_METRICS)
