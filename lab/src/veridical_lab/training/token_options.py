"""Options for training a token classifier."""

from __future__ import annotations

from dataclasses import dataclass, field

from veridical.calibration.thresholding import threshold_fitter
from veridical.core.errors import InputError
from veridical.models.pairs import PairSettings

__all__ = ["TokenTraining"]


@dataclass(frozen=True, slots=True)
class TokenTraining:
    """Options for training a token classifier.

    Attributes:
        pairs: How cases are presented to the model.
        unit: "word" (its tokens pooled, Liu et al. 2022) or "token".
        pooling: "max" or "mean".
        hidden: Hidden units of the tanh layer; 0: a linear head; None: as many as the backbone is wide.
        mode: "offline" (a token sees the whole response) or "online" (a token sees only the text to its left).
        attention: "full", or "prefix": the prompt does not see the response, so one pass over a prompt trains on (and
            judges) many responses to it.
        group: With "prefix" attention, the most responses to a prompt that share a pass in training.
        dropout: Of hidden states and attention in training.
        lexical: Whether the head also reads how each word overlaps with the sources (`detectors.tokens.lexical`).
        frozen: Whether the backbone keeps its weights.
        learning_rate: The backbone's peak rate, reached after the share `warmup` of all steps (at most half); it then
            falls to 0.
        head_learning_rate: The heads' peak rate.
        weight_decay: Weight decay of all weight matrices.
        epochs: The most passes over the training part.
        batch_tokens: Tokens per step, padding included.
        evaluations: Evaluations on the validation part per epoch.
        patience: Evaluations without a new best before training ends.
        class_weights: Whether both classes of units get the same total weight.
        label_smoothing: How far labels are moved towards 0.5; 0 to below 1.
        response_weight: Weight of the loss on labels of whole responses, beside 1 for units.
        contradiction_weight: Weight of the loss of the head that tells contradiction from absence, on data that say
            which it is; 0: no such head.
        soft_labels: Whether the targets are the scores of gold verdicts (distillation), instead of 0 or 1.
        per_set: The most training examples of each data set; None: all.
        validation_per_set: The most validation examples of each data set.
        criterion: What the thresholds optimise on validation (`calibration.thresholding.CRITERIA`).
        bf16: Whether to compute matrix products in bf16 if the device has it (weights stay in fp32).
        seed: Random seed of the split by document, the order, the initial head and dropout.
    """

    pairs: PairSettings = field(default_factory=PairSettings)
    unit: str = "word"
    pooling: str = "mean"
    hidden: int | None = None
    mode: str = "offline"
    attention: str = "full"
    group: int = 8
    dropout: float = 0.0
    lexical: bool = True
    frozen: bool = False
    learning_rate: float = 5e-5
    head_learning_rate: float = 1e-3
    weight_decay: float = 0.01
    warmup: float = 0.06
    epochs: int = 4
    batch_tokens: int = 4096
    evaluations: int = 1
    patience: int = 3
    class_weights: bool = False
    label_smoothing: float = 0.0
    response_weight: float = 0.3
    contradiction_weight: float = 0.0
    soft_labels: bool = False
    per_set: int | None = None
    validation_per_set: int = 400
    criterion: str = "balanced_accuracy"
    bf16: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.epochs, self.batch_tokens, self.evaluations, self.patience, self.validation_per_set) < 1:
            raise InputError(f"these options cannot be trained with: {self}", hint="counts of at least 1")
        if not 0.0 <= self.label_smoothing < 1.0 or not 0.0 <= self.warmup < 1.0:
            raise InputError("label_smoothing and warmup lie in [0, 1)")
        if min(self.learning_rate, self.head_learning_rate) <= 0:
            raise InputError("the learning rates are not positive")
        if not self.contradiction_weight >= 0:
            raise InputError(f"contradiction_weight is {self.contradiction_weight}", hint="0 or more")
        threshold_fitter(self.criterion)

    @property
    def reads_lexical(self) -> bool:
        """Whether the head reads how words overlap with the sources: needs `lexical` and sources."""
        return self.lexical and self.pairs.sources
