"""Every example in the docs runs, every link leads somewhere, generated parts are in step, and no figure is lost."""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path

import pytest

import veridical
from tests import docs_generated
from tests.processes import run_code
from veridical.bench.results import read_rows
from veridical.detectors.default.detector import PACKAGED
from veridical.report.result_tables import cell

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").glob("*.md")])
EXAMPLES = [
    pytest.param(match[1], id=f"{page.relative_to(ROOT)}:{page.read_text('utf-8')[: match.start()].count(chr(10)) + 1}")
    for page in PAGES
    for match in re.finditer(r"^```python\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
]
SRC = Path(veridical.__file__).parent
MODULES = [".".join(["veridical", *p.relative_to(SRC).with_suffix("").parts]) for p in sorted(SRC.rglob("*.py"))]


@pytest.mark.parametrize("code", EXAMPLES)
def test_examples_run(code: str, tmp_path: Path) -> None:
    exit_code, errors = run_code(code, tmp_path)
    if "the default detector is not in this installation" in errors and not PACKAGED.is_dir():
        pytest.skip("the default detector is not in this checkout")
    assert exit_code == 0, errors


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 3


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text("utf-8"))
    gone = [t for t in targets if "://" not in t and not (page.parent / t).exists()]
    assert not gone


@pytest.mark.parametrize("name", docs_generated.PARTS)
def test_generated_parts_are_in_step(name: str) -> None:
    path, fresh = docs_generated.PARTS[name]
    assert docs_generated.part_in(ROOT / path, name) == fresh(), "run: make docs"


def test_the_default_detectors_table_has_the_figures_of_its_rows(tmp_path: Path) -> None:
    file = ROOT / "benchmarks" / "rows" / "default.jsonl"
    text = docs_generated.default_results()
    rows = [row for row in read_rows([file]) if row.group is None]
    for row in rows:
        shown = {name: metric for name, metric in row.metrics.items() if f"**{name}**" in text}
        for name, metric in shown.items():
            table = text.partition(f"**{name}**")[2].partition("\n**")[0]
            (line,) = [line for line in table.splitlines() if f"({row.data_hash[:12]})" in line]
            assert line.startswith(f"| {row.data}, {row.split}")
            assert cell(metric) in line
    assert {row.detector for row in rows} <= set(text.partition("| set | n | ")[2].partition(" |\n")[0].split(" | "))
    assert docs_generated.default_results(tmp_path / "rows.jsonl") == "Nothing is measured yet."


@pytest.mark.parametrize("name", [m for m in MODULES if not m.endswith("__main__")])
def test_docstring_examples(name: str) -> None:
    module = importlib.import_module(name.removesuffix(".__init__"))
    result = doctest.testmod(module)
    assert result.failed == 0


def test_contributing_names_files_that_exist() -> None:
    table = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    named = re.findall(r"`((?:src|tests|docs|benchmarks|examples)/[\w./-]+)`", table)
    assert len(named) >= 8
    assert not [n for n in named if not (ROOT / n).exists()]
