"""Without its framework an adapter says which extra to install."""

from __future__ import annotations

import importlib
import sys
import tomllib
from pathlib import Path

import pytest

from veridical.records.errors import MissingExtraError

FRAMEWORKS = {
    "langchain": ("langchain_core", "langchain"),
    "llama_index": ("llama_index", "llama-index"),
    "inspect_ai": ("inspect_ai", "inspect"),
    "haystack": ("haystack", "haystack"),
    "openai_agents": ("agents", "openai-agents"),
    "opentelemetry": ("opentelemetry", "opentelemetry"),
    "langfuse": ("langfuse", "langfuse"),
    "mlflow": ("mlflow", "mlflow"),
}


@pytest.mark.parametrize("adapter", FRAMEWORKS)
def test_the_extra_is_named(adapter: str, monkeypatch: pytest.MonkeyPatch) -> None:
    framework, extra = FRAMEWORKS[adapter]
    for name in [name for name in sys.modules if name.partition(".")[0] == framework]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, framework, None)
    monkeypatch.delitem(sys.modules, f"veridical.integrations.{adapter}", raising=False)
    with pytest.raises(MissingExtraError, match=rf"veridical\[{extra}\]"):
        importlib.import_module(f"veridical.integrations.{adapter}")
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))
    assert extra in project["project"]["optional-dependencies"]
