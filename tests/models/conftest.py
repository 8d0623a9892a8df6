"""Tiny models for all tests of this folder, made once."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"
torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from veridical.inference.local_model import LocalModel  # noqa: E402
from veridical.models.load import load  # noqa: E402
from veridical_lab.models.testing import ENCODER_DECODERS, ENCODERS, tiny  # noqa: E402


@pytest.fixture(scope="session", autouse=True)
def _few_threads() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., LocalModel]:
    """`tiny_model("llama", tokenizer="metaspace")`, in fp32."""
    made: dict[tuple[object, ...], Path] = {}

    def get(architecture: str, **options: object) -> LocalModel:
        key = (architecture, *sorted(options.items()))
        if key not in made:
            made[key] = tiny(architecture, tmp_path_factory.mktemp(architecture), **options)  # type: ignore[arg-type]
        kind = "encoder" if architecture in ENCODERS else "seq2seq" if architecture in ENCODER_DECODERS else "causal"
        return load(made[key], dtype="fp32", device="cpu", kinds=(kind,))

    return get
