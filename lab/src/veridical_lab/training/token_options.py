"""Options for training a token classifier."""

from __future__ import annotations

from dataclasses import dataclass, field

from veridical.inference.pairs import PairSettings
from veridical.metrics.thresholding import threshold_fitter
from veridical.records.errors import InputError


@dataclass(frozen=True, slots=True)
class TokenTraining:
    """Options for training a token classifier.

    Attributes:
        pairs: The options for presenting cases to the model.
        unit: What to classify: each "word", from its pooled tokens (Liu et al. 2022), or each "token".
        pooling: How to pool the tokens of a word, "max" or "mean".
        hidden: The size of the head's tanh layer. 0 makes the head linear. Default: the width of the backbone.
        whole: What the heads for whole responses read: the "state" for the response, or "both" this state and the mean
            over the response's tokens.
        whole_hidden: The size of the layer that the heads for whole responses share. 0 makes them linear. None means
            the width of the backbone.
        mode: "offline" (a token sees the whole response) or "online" (a token sees only the text to its left).
        attention: "full" or "prefix". With "prefix", the prompt does not attend to the response, so a pass can process
            many responses to the same prompt.
        group: With "prefix" attention, the maximum number of responses to a prompt in one training pass.
        dropout: The dropout rate of hidden states and attention in training.
        lexical: Whether the head also reads how each word overlaps with the sources (`text.lexical`).
        frozen: Whether to freeze the backbone.
        frozen_embeddings: Whether to freeze the backbone's token embeddings.
        learning_rate: The peak learning rate of the backbone. The rate rises to it over the first fraction `warmup`
            of all steps (at most half of them), or over 150 steps if `tokens` is given. Over the last fraction
            `cooldown` of all steps, the rate falls to 0.
        head_learning_rate: The peak learning rate of the heads.
        weight_decay: The weight decay of all trained weights.
        epochs: The maximum number of passes over the training part. Ignored if `tokens` is given.
        tokens: The number of tokens to train on. If you resume with another number, training ends there.
        batch_tokens: The maximum number of tokens in a step, including padding.
        evaluations: Evaluate on the validation part this many times in each epoch.
        evaluate_tokens: If `tokens` is given, the number of tokens between two evaluations.
        initial_weight: The weight in [0, 1) of the initial weights in the result. The result is the weighted mean of
            the weights before and after training (Wortsman et al. 2022), which reduces forgetting of what an earlier
            training has learned.
        patience: Stop after this many evaluations without a better result.
        class_weights: Whether to give both classes of units the same total weight.
        label_smoothing: How far to move labels towards 0.5, from 0 to below 1.
        response_weight: The weight of the loss on labels of whole responses. The loss on units has the weight 1.
        contradiction_weight: The weight of the loss of the head for contradictions. This head tells errors that
            contradict the sources from errors that the sources do not mention. With 0, there is no such head.
        soft_labels: Whether to train on the scores of gold verdicts (distillation) instead of on 0 and 1.
        per_set: The maximum number of training examples of each data set. Default: all examples.
        validation_per_set: The maximum number of validation examples of each data set.
        criterion: The criterion by which thresholds are chosen on the validation part
            (`metrics.thresholding.CRITERIA`).
        bf16: Whether to compute matrix products in bf16 if the device supports it (weights stay in fp32).
        seed: The random seed for the split by document, the order of examples, the initial head and dropout.
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
    initial_weight: float = 0.0
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
        if not all(0.0 <= fraction < 1.0 for fraction in (self.label_smoothing, self.warmup, self.initial_weight)):
            raise InputError("label_smoothing, warmup and initial_weight lie in [0, 1)")
        if min(self.learning_rate, self.head_learning_rate) <= 0:
            raise InputError("the learning rates are not positive")
        if not self.contradiction_weight >= 0:
            raise InputError(f"contradiction_weight is {self.contradiction_weight}", hint="0 or more")
        threshold_fitter(self.criterion)

    @property
    def reads_lexical(self) -> bool:
        """Whether the head reads how words overlap with the sources. True if `lexical` is set and sources are read."""
        return self.lexical and self.pairs.sources
