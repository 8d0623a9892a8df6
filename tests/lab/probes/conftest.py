"""The model whose states the tests probe."""

from pathlib import Path

import pytest

from veridical.inference.local_model import LocalModel
from veridical.models.load import load
from veridical_lab.models.testing import tiny


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny("llama", tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="module")
def model(folder: Path) -> LocalModel:
    return load(folder, dtype="fp32")
