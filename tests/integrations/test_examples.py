"""The examples of docs/integrations.md, where their frameworks are installed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "integrations.md").read_text("utf-8")
EXAMPLES = re.findall(r"^```py\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_there_is_one_for_each_framework() -> None:
    for adapter in ("langchain", "llama_index", "inspect_ai", "haystack", "openai_agents", "opentelemetry"):
        assert any(f"from veridical.integrations.{adapter} import" in code for code in EXAMPLES)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("code", EXAMPLES)
def test_it_runs(code: str) -> None:
    (adapter,) = re.findall(r"from veridical\.integrations\.(\w+) import", code)
    packages = {"langchain": "langchain_core", "llama_index": "llama_index.core", "openai_agents": "agents"}
    pytest.importorskip(packages.get(adapter, adapter))
    exec(compile(code, "example", "exec"), {"__name__": "example"})
