"""Options for training a token classifier."""

from __future__ import annotations

from dataclasses import dataclass, field

from veridical.inference.pairs import PairSettings
from veridical.metrics.thresholding import threshold_fitter
from veridical.records.errors import InputError

__all__ = ["TokenTraining"]


@dataclass(frozen=True, slots=True)
class TokenTraining:
    """Options for training a token classifier.

    Attributes:
        pairs: How cases are presented to the model.
        unit: "word" (with its tokens pooled, Liu et al. 2022) or "token".
        pooling: "max" or "mean".
        hidden: The number of hidden units in the tanh layer. 0 gives a linear head. Default: as many as the backbone is
            wide.
        whole: The input of the heads for whole responses: "state", or "both" for the state and the mean of its tokens'
            states.
        whole_hidden: The number of hidden units that these heads share. 0 makes them linear. Default: as many as the
            backbone is wide.
        mode: "offline" (a token sees the whole response) or "online" (a token sees only the text to its left).
        attention: "full", or "prefix", in which the prompt does not see the response, so that one pass over a prompt
            trains on (and judges) many responses to it.
        group: With "prefix" attention, the largest number of responses to a prompt that share a pass in training.
        dropout: The dropout of hidden states and attention in training.
        lexical: Whether the head also reads how each word overlaps with the sources (`text.lexical`).
        frozen: Whether the backbone keeps its weights.
        frozen_embeddings: Whether only the backbone's embeddings of tokens keep their weights.
        learning_rate: The backbone's peak rate, which is reached after the fraction `warmup` of all steps (at most
            half, or in 150 steps if `tokens` is given). It falls to 0 over the fraction `cooldown` of all steps, at the
            end.
        head_learning_rate: The peak rate of the heads.
        weight_decay: The weight decay of all weight matrices.
        epochs: The largest number of passes over the training part, unless `tokens` is given.
        tokens: The number of tokens to train on. A training that resumes with another number ends there.
        batch_tokens: The number of tokens per step, including padding.
        evaluations: The number of evaluations on the validation part per epoch.
        evaluate_tokens: The number of tokens between two evaluations, if `tokens` is given.
        patience: The number of evaluations without a new best before training ends.
        class_weights: Whether both classes of units get the same total weight.
        label_smoothing: How far labels are moved towards 0.5, from 0 to below 1.
        response_weight: The weight of the loss on labels of whole responses. The weight for units is 1.
        contradiction_weight: The weight of the loss of the head that tells contradiction from absence, on data that say
            which it is. With 0, there is no such head.
        soft_labels: Whether the targets are the scores of gold verdicts (distillation), instead of 0 or 1.
        per_set: The largest number of training examples of each data set. Default: all examples.
        validation_per_set: The largest number of validation examples of each data set.
        criterion: The criterion that thresholds optimise on validation (`metrics.thresholding.CRITERIA`).
        bf16: Whether to compute matrix products in bf16 if the device has it (weights stay in fp32).
        seed: The random seed of the split by document, the order, the initial head and dropout.
    """

    pairs: PairSettings = field(default_factory=PairSettings)
    unit: str = "word"
    pooling: str = "mean"
    hidden: int | None = None
    whole: str = "state"
    whole_hidden: int | None = 0
    mode: str = "offline"
    attention: str = "full"
    group: int = 8
    dropout: float = 0.0
    lexical: bool = True
    frozen: bool = False
    frozen_embeddings: bool = False
    learning_rate: float = 5e-5
    head_learning_rate: float = 1e-3
    weight_decay: float = 0.01
    warmup: float = 0.06
    cooldown: float = 1.0
    epochs: int = 4
    tokens: int | None = None
    batch_tokens: int = 4096
    evaluations: int = 1
    evaluate_tokens: int = 2_000_000
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
        """Whether the head reads how words overlap with the sources. This needs `lexical` and sources."""
        return self.lexical and self.pairs.sources
