"""Turn phrases into vectors with an encoder, by the mean of the last hidden states of the phrase's tokens.

This needs the extra `models`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from veridical.inference.local_model import require_models
from veridical.models.load import load
from veridical_lab.annotate.select import Embed

_BATCH = 64


def phrase_vectors(model: str) -> Embed:
    """Make a function that turns phrases into vectors with an encoder, which is a folder or a hub name."""
    require_models("an encoder")
    import torch

    loaded = load(model, kinds=("encoder",))

    def embed(phrases: Sequence[str]) -> np.ndarray:
        rows = []
        for start in range(0, len(phrases), _BATCH):
            batch = loaded.tokenizer(
                list(phrases[start : start + _BATCH]), return_tensors="pt", padding=True, truncation=True
            ).to(loaded.device)
            with torch.inference_mode():
                states = loaded.model(**batch, output_hidden_states=True).hidden_states[-1].float()
            mask = batch["attention_mask"].unsqueeze(-1)
            rows.append(((states * mask).sum(dim=1) / mask.sum(dim=1)).cpu().numpy())
        return np.concatenate(rows).astype(np.float64)

    return embed
