"""Tiny token classifiers, trained in a moment on examples whose errors show in the words."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.lab.detectors.feature_examples import examples
from veridical.models.load import load, unload
from veridical.records.types import Example
from veridical_lab.models.testing import tiny
from veridical_lab.training.token_options import TokenTraining
from veridical_lab.training.tokens import train_tokens


def trained_tokens(
    folder: Path, data: Sequence[Example] | None = None, *, architecture: str = "bert", **options: Any
) -> Path:
    """A classifier trained on `data` (default: `feature_examples.examples()`), in `folder`."""
    import torch

    torch.set_num_threads(1)  # tiny matrices only wait for each other
    base = folder.with_name(f"{folder.name}-base")
    model = load(base if base.exists() else tiny(architecture, base), dtype="fp32", kinds=("causal", "encoder"))
    given: dict[str, Any] = {"epochs": 1, "hidden": 8, "learning_rate": 1e-3, "head_learning_rate": 1e-2} | options
    train_tokens(model, {"set": list(data or examples(80))}, TokenTraining(**given), out=folder)
    unload(model)
    return folder
