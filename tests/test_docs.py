"""Every example in the docs runs, every link leads somewhere, generated parts are in step, and no figure is lost."""

from __future__ import annotations

import doctest
import importlib
import json
import re
from pathlib import Path

import pytest

import veridical
import veridical_lab
from tests import docs_generated
from tests.processes import run_code
from veridical.detectors.default.detector import PACKAGED
from veridical.records.errors import MissingExtraError
from veridical.report.tables import cell
from veridical_lab.bench.results import read_result_rows

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").glob("*.md")])
EXAMPLES = [
    pytest.param(match[1], id=f"{page.relative_to(ROOT)}:{page.read_text('utf-8')[: match.start()].count(chr(10)) + 1}")
    for page in PAGES
    for match in re.finditer(r"^```python\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
]
PACKAGES = [Path(package.__file__).parent for package in (veridical, veridical_lab)]
MODULES = [
    ".".join([folder.name, *path.relative_to(folder).with_suffix("").parts])
    for folder in PACKAGES
    for path in sorted(folder.rglob("*.py"))
]


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


def test_the_default_detectors_table_has_the_figures_of_its_rows() -> None:
    text = docs_generated.default_results()
    rows = [row for row in read_result_rows([ROOT / "benchmarks" / "rows" / "yardsticks.jsonl"]) if row.group is None]
    for row in rows:
        shown = {name: metric for name, metric in row.metrics.items() if f"**{name}**" in text}
        assert shown
        for name, metric in shown.items():
            table = text.partition(f"**{name}**")[2].partition("\n**")[0]
            (line,) = [line for line in table.splitlines() if f"({row.data_hash[:12]})" in line]
            assert line.startswith(f"| {row.data}, {row.split}")
            assert cell(metric) in line
    assert "default" in {row.detector for row in rows}


def test_the_default_detectors_speeds_are_those_of_its_last_rows(tmp_path: Path) -> None:
    def spread(median: float) -> dict[str, float]:
        return {"median": median, "p5": median / 2, "p95": 2 * median}

    file = tmp_path / "rows.jsonl"
    common = {"machine": "abacus", "threads": 2, "date": "2026-01-02", "int8_instructions": ["beads"], "n": 7}
    common |= {"cases": 50, "source_words": 9000, "peak_rss_mb": spread(193.4), "versions": {"lettucedetect": "0.2.3"}}
    names = ("cold, default", "cold, overlap", "warm 1", "warm 3", "mixed", "mixed, lettucedetect")
    names += ("long, first", "long, again", "cover", "mixed, lettucedetect / default")
    names += ("mixed, lettucedetect, base", "mixed, lettucedetect, base / default")
    for of_run in (500, 0.001):  # the earlier rows are of a slower run
        for i, name in enumerate(names, 11):
            rates = {"responses_per_second": spread(i), "ratio": spread(12.34)}
            rates |= {f"{what}_tokens_per_second": spread(6789 + i) for what in ("encoder", "text")}
            row = {**common, **rates, "what": name, "seconds": spread(of_run * i)}
            with file.open("a", encoding="utf-8") as out:
                out.write(json.dumps(row) + "\n")
    text = docs_generated.default_speed(file)
    assert "| the same with `--detector overlap` | 12 ms (6 to 24) | 193 MB | 7 |" in text
    assert "| 50 responses in one call, sources of 40 to 1,200 words | 15 (7.5 to 30) responses a second; " in text
    assert "6,800 (3,400 to 13,600) in the encoder" in text
    assert "| LettuceDetect 0.2.3, one by one, with a MiniLM encoder (6 layers of 384) | 16 (8 to 32)" in text
    assert "| the same in the size of its base model, 50 of the responses | 21 (10.5 to 42)" in text
    assert "a source of 9,000 words to cover | 19 ms (9.5 to 38) |" in text
    assert "takes 12.3 (6.17 to 24.7) times as long" in text
    assert "abacus (beads), 2 threads" in text


@pytest.mark.parametrize("name", [m for m in MODULES if not m.endswith("__main__")])
def test_docstring_examples(name: str) -> None:
    try:
        module = importlib.import_module(name.removesuffix(".__init__"))
    except MissingExtraError as missing:  # an adapter to a framework that is not in the development environment
        pytest.skip(str(missing))
    result = doctest.testmod(module)
    assert result.failed == 0


def test_contributing_names_files_that_exist() -> None:
    table = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    named = re.findall(r"`((?:src|lab|tests|docs|benchmarks|examples)/[\w./-]+)`", table)
    assert len(named) >= 8
    assert not [n for n in named if not (ROOT / n).exists()]
