"""Turn phrases into vectors with an encoder, by the mean of the last hidden states of the phrase's tokens.

This needs the extra `models`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from veridical.inference.local_model import LocalModel, require_models
from veridical.models.load import load
from veridical_lab.annotate.select import Embed

__all__ = ["phrase_vectors"]


def phrase_vectors(model: str | LocalModel, *, batch_size: int = 64) -> Embed:
    """Make a function that turns phrases into vectors with an encoder.

    `model` is the encoder: a folder, a hub name or a loaded model.
    """
    require_models("an encoder")
    import torch

    loaded = load(model, kinds=("encoder",)) if isinstance(model, str) else model

    def embed(phrases: Sequence[str]) -> np.ndarray:
        rows = []
        for start in range(0, len(phrases), batch_size):
            batch = loaded.tokenizer(
                list(phrases[start : start + batch_size]), return_tensors="pt", padding=True, truncation=True
            ).to(loaded.device)
            with torch.inference_mode():
                states = loaded.model(**batch, output_hidden_states=True).hidden_states[-1].float()
            mask = batch["attention_mask"].unsqueeze(-1)
            rows.append(((states * mask).sum(dim=1) / mask.sum(dim=1)).cpu().numpy())
        return np.concatenate(rows).astype(np.float64)

    return embed
