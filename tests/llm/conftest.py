"""The marker of the tests against servers that are not ours."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "realserver: starts a real model server (llama.cpp, transformers serve)")
