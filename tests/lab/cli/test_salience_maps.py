"""`veridical check --html` with a detector that draws: the page holds the maps it judged by, made once."""

import json
from pathlib import Path

import pytest

from tests.lab.cli.conftest import Command
from veridical.records.types import Case, Source
from veridical.workflows.checking import Maps, check_cases
from veridical_lab.detectors.local.salience import Salience
from veridical_lab.models.testing import tiny


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"salience:{tiny('llama', tmp_path_factory.mktemp('model'))},dtype=fp32"


def test_the_page_shows_the_map_of_each_case(command: Command, spec: str, tmp_path: Path) -> None:
    cases = [
        {"id": "one", "response": "The cat sat.", "sources": ["A cat likes a mat."]},
        {"id": "none", "response": "The cat sat."},
        {"id": "two", "response": "Dogs bark.", "sources": ["Cats doze."]},
    ]
    (tmp_path / "cases.jsonl").write_text("".join(json.dumps(case) + "\n" for case in cases), "utf-8")
    out = tmp_path / "page.html"
    code, shown, _ = command(
        "check", str(tmp_path / "cases.jsonl"), "-d", "overlap", "-d", spec, "--html", str(out), "--json"
    )
    assert code == 1
    page = out.read_text("utf-8")
    assert [f'id="c{i}-d2-map"' in page for i in (1, 2, 3)] == [True, False, True]
    assert 'id="c1-d1-map"' not in page
    assert ">Dogs" in page.split('id="c3-d2-map"')[1]
    judged = [json.loads(line)["judgements"][1] for line in shown.splitlines()]
    words = judged[0]["verdicts"][0]["evidence"]
    assert 1 <= len(words) <= 3  # the salient source words of a flagged word are in the JSON, too
    assert judged[0]["by"] == spec


def test_without_a_page_nothing_is_kept(command: Command, spec: str, tmp_path: Path) -> None:
    for name, text in (("a.txt", "The cat sat."), ("b.txt", "A cat likes a mat.")):
        (tmp_path / name).write_text(text, "utf-8")
    code, shown, _ = command("check", str(tmp_path / "a.txt"), str(tmp_path / "b.txt"), "-d", spec, "--json")
    assert code == 1
    assert json.loads(shown)["judgements"][0]["by"] == spec


def test_each_case_is_read_once(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    real = Salience._read
    monkeypatch.setattr(Salience, "_read", lambda self, case: (seen.append(case.id), real(self, case))[1])
    cases = [Case(id, "The cat sat.", (Source("a", "A cat."),)) for id in "xyz"]
    maps: list[Maps] = []
    results = list(check_cases(cases, ["overlap", spec], maps=maps))
    assert seen == [*"xyz"]
    assert [[salience_map is not None for salience_map in case_maps] for case_maps in maps] == [[False, True]] * 3
    assert results == list(check_cases(cases, ["overlap", spec]))
