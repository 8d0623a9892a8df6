"""The model whose states the tests probe."""

from __future__ import annotations

from pathlib import Path

import pytest

from veridical.inference.local_model import LocalModel


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from veridical_lab.models.testing import tiny

    return tiny("llama", tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="module")
def model(folder: Path) -> LocalModel:
    from veridical.models.load import load

    return load(folder, dtype="fp32")
