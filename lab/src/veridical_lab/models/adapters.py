"""Tune a frozen language model with small sets of weights, by `peft`: soft prompts and LoRA.

A soft prompt consists of trained vectors before the text. They are used like tokens, with ids after those of the
vocabulary. Any code that runs token ids (with a cache, with shared beginnings) can therefore run a tuned model, too.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np

from veridical.inference.local_model import LocalModel
from veridical.models.language_head import head_states
from veridical.records.errors import MissingExtraError
from veridical_lab.models.padding import rectangle

if TYPE_CHECKING:
    import torch

_FREQUENT = 5000  # tokens to initialise a soft prompt from (Chang et al. 2024, appendix B)
_ADAPTER = "default"


def own_copy(model: LocalModel) -> LocalModel:
    """Copy the weights of a model, so that you can change them."""
    return replace(model, model=copy.deepcopy(model.model))


def frequent_tokens(model: LocalModel, count: int, seed: int) -> list[int]:
    """Draw ids of frequent tokens that are words or parts of words, without repeats.

    Vocabularies of BPE, WordPiece and Unigram are ordered by frequency, so the first ids are frequent. If there are
    fewer than `count` such tokens, ids are repeated.
    """
    tokenizer = model.tokenizer
    special = set(tokenizer.all_special_ids)
    frequent = []
    for id in range(len(tokenizer)):
        text = tokenizer.decode([id]).strip()
        if id not in special and len(text) > 1 and text.isalpha():
            frequent.append(id)
        if len(frequent) == _FREQUENT:
            break
    chosen = np.random.default_rng(seed).choice(len(frequent), count, replace=count > len(frequent))
    return [frequent[i] for i in chosen.tolist()]


def with_soft_prompt(model: LocalModel, count: int, seed: int) -> Any:
    """Wrap a model in a `peft` model with `count` trainable vectors before the text, initialised from frequent tokens.

    Raises:
        MissingExtraError: `peft` is not installed.
    """
    import torch

    peft = _peft()
    config = peft.PromptTuningConfig(
        task_type="CAUSAL_LM", num_virtual_tokens=count, prompt_tuning_init=peft.PromptTuningInit.RANDOM
    )
    tuned = _wrapped(model.model, config)
    ids = torch.tensor(frequent_tokens(model, count, seed), device=model.device)
    weight = tuned.prompt_encoder[_ADAPTER].embedding.weight
    with torch.no_grad():
        weight.copy_(model.model.get_input_embeddings()(ids))
    return tuned


def with_lora(model: LocalModel, rank: int, seed: int) -> Any:
    """Wrap a model in a `peft` model that adds trainable matrices of low rank to all linear layers except the head.

    The layers of the model are changed in place, so pass an `own_copy`.

    Raises:
        MissingExtraError: `peft` is not installed.
    """
    import torch

    peft = _peft()
    config = peft.LoraConfig(task_type="CAUSAL_LM", r=rank, lora_alpha=2 * rank, target_modules="all-linear")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return _wrapped(model.model, config)


def _peft() -> Any:
    try:
        import peft
    except ImportError:
        raise MissingExtraError("prompt tuning and LoRA", "tuning", "veridical-lab") from None
    return peft


def _wrapped(model: Any, config: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # peft uses a former name of transformers
        return _peft().get_peft_model(model, config)


def tuned_weights(tuned: Any) -> dict[str, torch.Tensor]:
    """Return the trainable weights of a `peft` model by their names in `peft`'s files, without copying them."""
    weights: dict[str, torch.Tensor] = _peft().get_peft_model_state_dict(tuned, save_embedding_layers=False)
    return weights


def set_tuned_weights(tuned: Any, weights: Mapping[str, torch.Tensor]) -> None:
    """Set all trainable weights of a `peft` model."""
    _peft().set_peft_model_state_dict(tuned, dict(weights))


@contextmanager
def virtual_tokens(model: LocalModel, vectors: torch.Tensor) -> Iterator[range]:
    """While the context lasts, yield ids that stand for `vectors`, *shape* (tokens, width), in every pass."""
    import torch

    embedding = model.model.get_input_embeddings()
    size = int(embedding.num_embeddings)
    plain = embedding.forward

    def forward(ids: torch.Tensor) -> torch.Tensor:
        states = plain(ids.clamp(max=size - 1))
        virtual = vectors.to(states.dtype)[(ids - size).clamp(min=0)]
        return torch.where((ids >= size)[..., None], virtual, states)

    embedding.forward = forward
    try:
        yield range(size, size + len(vectors))
    finally:
        del embedding.forward


def last_logits(model: LocalModel, rows: Sequence[Sequence[int]], count: int) -> torch.Tensor:
    """Compute the logits after each of the last `count` tokens of rows, to be differentiated, in fp32.

    These logits predict the next token. For a row shorter than `count`, the values before its start mean nothing. The
    result has *shape* (rows, count, vocabulary).
    """
    ids, mask = rectangle(model, rows, left=True)
    options: dict[str, Any] = {"attention_mask": mask, "use_cache": False}
    parameters = signature(model.model.forward).parameters
    if "position_ids" in parameters:
        options["position_ids"] = (mask.cumsum(-1) - 1).clamp(min=0)
    if "logits_to_keep" in parameters:  # the head is a good part of a small model
        options["logits_to_keep"] = count
    with head_states(model.model):
        logits: torch.Tensor = model.model(input_ids=ids, **options).logits[:, -count:].float()
    return logits
