"""Describe a model with its tokenizer (`LocalModel`), and infer kind and context length from its configuration.

To load a model with torch, use `models.load.load`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from veridical.inference.telemetry import import_without_telemetry
from veridical.records.errors import MissingExtraError

if TYPE_CHECKING:
    import torch

DTYPE_NAMES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}
"""The short name of each precision, by its name in torch."""
Kind = Literal["causal", "classifier", "encoder", "masked", "seq2seq"]
READERS: tuple[Kind, ...] = ("causal", "encoder")
"""Kinds of models that compute a hidden state for every token of one text."""
FORCED: tuple[Kind, ...] = ("causal", "seq2seq")
"""Kinds of models that can compute the probability of a given response, by teacher forcing."""
_POSITIONS = (
    "max_encoder_position_embeddings",
    "max_position_embeddings",
    "n_positions",
    "max_sequence_length",
    "seq_length",
    "n_ctx",
)
_BEHIND_PADDING = frozenset({"camembert", "mpnet", "roberta", "roberta-prelayernorm", "xlm-roberta", "xlm-roberta-xl"})
_UNBOUNDED = 1 << 30  # tokenizers write a huge number where there is no limit
_DEFAULT_POSITIONS = 2048


@dataclass(frozen=True, slots=True, eq=False)
class LocalModel:
    """A model in evaluation mode whose parameters need no gradient, with its (fast) tokenizer.

    Attributes:
        model: The transformers model. For a model that runs in ONNX, an object that only has the model's `config`.
        tokenizer: The tokenizer.
        name: The folder, file or hub name of the model.
        revision: The commit of a model from the hub. None for a folder.
        kind: The kind of model, such as "causal" or "encoder".
        max_positions: The context length in tokens. For an encoder-decoder, this is the limit of the encoder.
        device: The device that holds the weights.
        dtype: The precision of the weights.
        hash: A hash of configuration and tokenizer. A detector that was trained on the model's internals fits only a
            model with this hash.
    """

    model: Any
    tokenizer: Any
    name: str
    revision: str | None
    kind: Kind
    max_positions: int
    device: torch.device
    dtype: torch.dtype
    hash: str

    @property
    def response_positions(self) -> int:
        """The context length of the decoder of an encoder-decoder, in tokens.

        For other models, this is `max_positions`.
        """
        count = getattr(self.model.config, "max_decoder_position_embeddings", None)
        return int(count) if count else self.max_positions

    @property
    def dtype_name(self) -> str:
        """The precision of the weights: "fp32", "bf16" or "fp16"."""
        return DTYPE_NAMES[str(self.dtype).removeprefix("torch.")]

    @property
    def padding_token(self) -> int:
        """The id of the token that fills up short rows of a batch: the padding token, or the end token, or else 0."""
        ids = (self.tokenizer.pad_token_id, self.tokenizer.eos_token_id)
        return next((int(token) for token in ids if token is not None), 0)

    @property
    def has_weights(self) -> bool:
        """True if the model is loaded in torch. False if it runs in ONNX, so that this object has no weights."""
        return hasattr(self.model, "forward")

    @property
    def model_type(self) -> str:
        """The architecture as the configuration names it ("llama", "gpt2" …)."""
        return str(self.model.config.get_text_config().model_type)


def require_models(what: str = "a local language model") -> None:
    """Check that torch and transformers are installed. `what` names the feature that needs them, for the message.

    Raises:
        MissingExtraError: One of them is not installed.
    """
    try:
        import torch  # noqa: F401

        import_without_telemetry("transformers")
    except ImportError as error:
        raise MissingExtraError(what, "models") from error


def positions_of(config: Any, tokenizer: Any) -> int:
    """Return the context length of a model in tokens, from its configuration or else from its tokenizer.

    If neither states a limit, the result is 2048.
    """
    text = config.get_text_config()
    for name in _POSITIONS:
        count = getattr(text, name, None)
        if isinstance(count, int) and count > 0:
            return count - first_position(config)
    limit = tokenizer.model_max_length
    return int(limit) if limit and limit < _UNBOUNDED else _DEFAULT_POSITIONS


def first_position(config: Any) -> int:
    """Return the position id of the first token of an input.

    This is 0 for most architectures. For RoBERTa and similar ones, it is the id of the padding token plus 1.
    """
    text = config.get_text_config()
    return int(text.pad_token_id) + 1 if text.model_type in _BEHIND_PADDING else 0


def reads_any_length(config: Any) -> bool:
    """Check whether a model has only relative positions, so that its input can have any number of tokens."""
    return config.model_type in ("t5", "mt5", "umt5") or getattr(config, "position_biased_input", True) is False


def kind_of(config: Any) -> Kind:
    """Infer the kind of a model from its transformers configuration.

    The kind is "causal" (a decoder), "encoder" or "seq2seq" (an encoder-decoder).
    """
    from transformers.models.auto import modeling_auto

    if getattr(config, "is_encoder_decoder", False):
        return "seq2seq"
    writes = re.search("CausalLM|LMHead", " ".join(getattr(config, "architectures", None) or ()))
    if config.model_type in modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES:
        # BERT and the like are also listed as decoders, for a rare use
        return "causal" if writes and getattr(config, "is_decoder", False) else "encoder"
    return "causal" if writes or config.model_type in modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES else "encoder"
