"""What all tests share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import Phase, settings

from tests.browsers import chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# One thread for each worker of pytest-xdist: threads that wait for each other on too few cores are many times slower.
# Set before PyTorch and numpy are imported, and inherited by the processes that tests start.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Settings of the machine that runs the tests must not reach them.
for name in [name for name in os.environ if name.startswith(("VERIDICAL_", "OPENAI_"))]:
    del os.environ[name]

# No deadline: machines are noisy, and speed is measured in benchmarks. In CI the same examples every time. No phase
# "explain": it traces each line, and CPython 3.11 has been seen to hang while it is traced.
PHASES = [phase for phase in Phase if phase is not Phase.explain]
settings.register_profile("veridical", deadline=None, derandomize="CI" in os.environ, phases=PHASES)
settings.load_profile("veridical")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of public data beside the checkout."""
    folder = Path(__file__).parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the public data folder ../shared/data is not beside this checkout")
    return folder


@pytest.fixture(scope="session")
def shared_models() -> Path:
    """The folder of models for development beside the checkout."""
    folder = Path(__file__).parents[2] / "shared" / "models"
    if not folder.is_dir():
        pytest.skip("the models folder ../shared/models is not beside this checkout")
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A headless Chromium."""
    with chromium() as running:
        yield running
