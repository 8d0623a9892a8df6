"""The papers again: every plan can be read and run, figures stand beside the papers', and a stopped run goes on."""

import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from typer.main import get_command

import veridical.cli as cli
from tests.lab.training.hades_files import write_hades
from veridical.cli import main
from veridical.records.errors import InputError, UnknownNameError
from veridical_lab.bench.perspectives import TRAINING
from veridical_lab.report.reproduction import matrix, reproduction_tables
from veridical_lab.reproduce import PAPERS, Setting, load_plan, reproduce
from veridical_lab.reproduce.plan import VERSIONS, Cell, Exhibit, Version
from veridical_lab.reproduce.running import commands_of, find, missing_needs

EXHIBITS = [(paper, exhibit) for paper in PAPERS for exhibit in load_plan(paper).exhibits]
TABLES = {"chang2024": 6, "liu2022": 4, "george2023": 3, "chwang2024": 8}


def setting(folder: Path, **changes: object) -> Setting:
    return Setting(data=folder, models=folder, out=folder / "out", **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("paper", PAPERS)
def test_every_table_of_a_paper_is_planned(paper: str) -> None:
    plan = load_plan(paper)
    names = [exhibit.name for exhibit in plan.exhibits]
    assert {f"table {number}" for number in range(1, TABLES[paper] + 1)} <= set(names)
    assert len(set(names)) == len(names)
    with pytest.raises(InputError, match="has no table 9"):
        plan.chosen(["table 9"])
    with pytest.raises(UnknownNameError, match="unknown paper"):
        load_plan("chang")


@pytest.mark.parametrize(("paper", "exhibit"), EXHIBITS, ids=lambda value: getattr(value, "name", value))
def test_an_exhibit_can_be_made(paper: str, exhibit: Exhibit, tmp_path: Path) -> None:
    """Commands have only options that exist, each placeholder is filled, and something comes of it."""
    group = get_command(cli.app)
    for version in exhibit.versions.values():
        assert version.cells or version.examples or version.plot
        runs = " ".join(step.run for step in version.steps)
        assert {f"model:{name}" for name in re.findall(r"{model:([^}]+)}", runs)} == {
            need for need in version.needs if need.startswith("model:")
        }
        named = re.findall(r"{data}/([\w./-]+)", f"{runs} {version.examples}")
        data = [need.removeprefix("data:") for need in version.needs if need.startswith("data:")]
        assert data
        for path in data:
            assert any(path == name or path.startswith(f"{name}/") or name.startswith(f"{path}/") for name in named)
        assert all(
            any(f"{path}/".startswith(f"{name}/") or name.startswith(f"{path}/") for path in data) for name in named
        )
        for line in commands_of(version, setting(tmp_path)):
            assert not re.search(r"\{\w*\}|\{model", line), line
            _, name, *arguments = shlex.split(line)
            command = group.commands[name]  # type: ignore[attr-defined]
            if getattr(command, "commands", None) and arguments[0] in command.commands:
                command = command.commands[arguments.pop(0)]
            elif name == "bench":
                command = command.commands["run"]
            options = {
                option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)
            }
            assert {argument for argument in arguments if re.match("--?[a-z]", argument)} <= options, line
            if "--training" in arguments:
                assert arguments[arguments.index("--training") + 1] in TRAINING
    assert set(exhibit.versions) == set(VERSIONS)


def test_the_papers_figures_are_set_beside_ours() -> None:
    plan = load_plan("chang2024")
    (table,) = plan.chosen(["table 1"])
    printed = {(cell.row, cell.column): cell.printed for cell in table.versions["published"].cells}
    assert printed["full organic", "hallucination: ROUGE"] == 0.84
    assert len(printed) == 4 * 6
    assert all(value is not None for value in printed.values())


def test_a_table_on_files_in_the_publishers_format(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """HaDes, Table 2, with detectors that need no downloaded model."""
    write_hades(tmp_path / "hades", 60)
    (exhibit,) = load_plan("liu2022").chosen(["table 2"])
    ran: list[Sequence[str]] = []

    def run(arguments: Sequence[str]) -> tuple[int, str]:
        ran.append(arguments)
        line = re.sub(r",model=\S+|--method tokens:\S+", "", shlex.join(arguments))
        assert main([*shlex.split(line), "--resamples", "10"]) == 0
        return 0, capsys.readouterr().out

    for name in ("bert-base-uncased", "bert-large-uncased", "roberta-large", "xlnet-large-cased"):
        (tmp_path / name).mkdir()
    made = reproduce("liu2022", exhibit, "published", setting(tmp_path, run=run))
    assert made.status == "measured"
    assert len(ran) == 1
    by_place = {(cell.row, cell.column): cell for cell in made.cells}
    accuracy = by_place["LR", "Acc"]
    assert accuracy.printed == 62.25
    assert 50 < accuracy.ours[0] <= 100
    assert accuracy.difference == pytest.approx(accuracy.ours[0] - 62.25)
    assert accuracy.command.startswith("veridical")
    assert by_place["BERT", "Acc"].ours is None
    again = reproduce("liu2022", exhibit, "published", setting(tmp_path, run=run))
    assert again == made
    assert len(ran) == 1  # what has run is not run again
    (shown,) = reproduction_tables(made)
    assert shown.head[2:4] == ["the paper's percent", "ours"]
    line = next(line for line in shown.lines if line[:2] == ["LR", "Acc"])
    assert line[2] == "62.2"
    assert line[4].startswith("[")
    assert ["BERT", "Acc", "71.9", "not yet measured", "–", "–"] in shown.lines
    assert "differs: measured on the validation part" in shown.foot


def test_what_is_missing_is_named_and_nothing_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (exhibit,) = load_plan("chwang2024").chosen(["table 4"])
    needs = missing_needs(exhibit.versions["published"], setting(tmp_path))
    assert f"the data llm_generation_probes/cdm.jsonl in {tmp_path}" in needs
    assert f"the model meta-llama/Llama-2-13b-hf in {tmp_path}" in needs
    assert any("a server with chat models" in need for need in needs)
    made = reproduce("chwang2024", exhibit, "published", setting(tmp_path, run=lambda _: pytest.fail("ran")))
    assert made.status == "needs data or models"
    assert made.notes[-1].startswith("needs ")
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    assert not any("the model" in need for need in missing_needs(exhibit.versions["published"], setting(tmp_path)))


def test_a_failed_command_ends_its_table(tmp_path: Path) -> None:
    version = Version(
        needs=("data:.",), steps=load_plan("chang2024").exhibits[0].versions["local"].steps, plot="no.svg"
    )
    (exhibit,) = load_plan("chang2024").chosen(["figure 2"])
    broken = type(exhibit)(exhibit.name, exhibit.title, "", {"local": version})
    made = reproduce("chang2024", broken, "local", setting(tmp_path, run=lambda _: (2, "")))
    assert made.status == "failed"
    assert "exit code 2: veridical kb build" in made.notes[-1]
    assert not (tmp_path / "out" / "steps.jsonl").exists()
    assert reproduce("chang2024", broken, "local", setting(tmp_path, run=lambda _: (1, ""))).status == "failed"
    (tmp_path / "out" / "no.svg").write_text("of an earlier run")
    assert reproduce("chang2024", broken, "local", setting(tmp_path, run=lambda _: (2, ""))).status == "failed"


@pytest.mark.parametrize(("paper", "exhibit"), EXHIBITS, ids=lambda value: getattr(value, "name", value))
def test_every_command_serves_a_figure(paper: str, exhibit: Exhibit, tmp_path: Path) -> None:
    """Without earlier figures all commands of a table run."""
    ran: list[list[str]] = []

    def run(arguments: Sequence[str]) -> tuple[int, str]:
        ran.append(["veridical", *arguments])
        return 0, ""

    for version in exhibit.versions.values():
        if version.cells or version.plot:
            ran.clear()
            alone = replace(exhibit, versions={"local": replace(version, needs=(), examples=None)})
            reproduce(paper, alone, "local", setting(tmp_path, run=run))
            assert ran == [shlex.split(line) for line in commands_of(version, setting(tmp_path))]


@pytest.mark.parametrize("data", VERSIONS)
@pytest.mark.parametrize("paper", PAPERS)
def test_no_two_commands_write_one_result(paper: str, data: str) -> None:
    """Tables share results of the same command; `bench` appends to a file."""
    commands: dict[str, set[str]] = {}
    for exhibit in load_plan(paper).exhibits:
        for step in exhibit.versions[data].steps:
            if not step.run.startswith("bench"):
                commands.setdefault(step.makes.partition("/")[0], set()).add(step.run)
    assert {name: runs for name, runs in commands.items() if len(runs) > 1} == {}


def test_only_commands_of_figures_that_are_wanted_run(tmp_path: Path) -> None:
    (exhibit,) = load_plan("chwang2024").chosen(["table 4"])
    version = exhibit.versions["local"]
    rows = tmp_path / "rows"
    rows.mkdir()
    measured = [
        {"detector": detector, "data": data, "metrics": {"f1": 0.5}}
        for detector in ("coin", "logprob:m", "probe:a-pooling-best", "probe:a-pooling-ensemble")
        for data in ("xsum_token", "conv_fever", "jsonl:smollm2-organic.jsonl")
    ]
    (rows / "organic.jsonl").write_text("\n".join(map(json.dumps, measured)))
    judged = [
        {"detector": detector, "data": data, "metrics": {"f1": 0.5}}
        for detector in ("verify:qa", "judge:yes_no", "judge:cot", "verify:yes_no,aggregate=mean")
        for data in ("xsum_token", "conv_fever", "jsonl:smollm2-organic.jsonl")
    ]
    ran: list[str] = []

    def run(arguments: Sequence[str]) -> tuple[int, str]:
        ran.append(" ".join(arguments[:2]))
        return 0, ""

    alone = replace(exhibit, versions={"local": replace(version, needs=())})
    (rows / "judges-all.jsonl").write_text("\n".join(map(json.dumps, judged)))
    made = reproduce("chwang2024", alone, "local", setting(tmp_path, rows=(rows,), run=run))
    assert "data generate" not in ran  # only E2E reads it
    assert ran[:2] == ["data corrupt", "train tokens"]  # FactCC, which is not measured, reads them
    assert [line for line in ran if line.startswith("bench")] == ["bench coin", "bench coin"]
    assert {(cell.row, cell.column) for cell in made.cells if cell.ours is None} == {
        (row, column)
        for row in ("FactCC", "SummaC ZS", "SummaC Conv", "DAE")
        for column in (("CDM",) if row == "DAE" else ("CDM", "CF"))
    }


def test_figures_are_found_in_documents_of_any_kind(tmp_path: Path) -> None:
    rows = [
        {"detector": "overlap", "at": {"view": "a"}, "date": "d"}
        | {"m": {"value": 0.25, "low": 0.2, "high": 0.3, "n": 7}},
        {"detector": "overlap", "at": {"view": "b"}, "m": [0.5, 0.4, 0.6]},
    ]
    (tmp_path / "one.jsonl").write_text("\n".join(map(json.dumps, rows)) + '\n{"torn')
    groups = [{"name": "x", "v": [3]}, {"name": "y", "v": [4]}]
    (tmp_path / "two.json").write_text(json.dumps({"groups": groups}, indent=1))

    def cell(file: str, value: str, **where: str) -> Cell:
        return Cell("r", "c", 50.0, file, {key.replace("_", "."): text for key, text in where.items()}, value, 100.0)

    first = find(cell("*.jsonl", "m", at_view="a"), [tmp_path])
    assert (first.ours, first.n, first.date, first.difference) == ((25.0, 20.0, 30.0), 7, "d", -25.0)
    assert find(cell("one.jsonl", "m", detector="over.*"), [tmp_path]).ours == (50.0, 40.0, 60.0)
    assert find(cell("one.jsonl", "m", detector="over"), [tmp_path]).ours is None
    second = find(cell("none.jsonl|two.json", "groups.name=y.v.0"), [tmp_path, tmp_path / "none"])
    assert second.ours == (400.0, None, None)


def test_examples_are_our_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        {"id": str(i), "response": "Ann won. It rained.", "sources": ["Bob won."]}
        | {"annotations": {"one": "<Ann> won. It rained.", "two": f"<Ann won.> It {'<rained.>' if i else 'rained.'}"}}
        for i in range(3)
    ]
    folder = tmp_path / "llm_generation_probes"
    folder.mkdir()
    for name in ("cdm", "cf", "e2e"):
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    common = ["reproduce", "chwang2024", "--folder", str(tmp_path), "--out", str(tmp_path / "out"), "-f", "markdown"]
    assert main([*common, "--table", "1"]) == 0
    assert "Bob won. → <Ann> won. It rained." in capsys.readouterr().out
    assert main([*common, "--table", "7"]) == 0
    assert "<Ann won.> It <rained.>" in capsys.readouterr().out


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = ["reproduce", "george2023", "--table", "1", "--folder", str(tmp_path), "--out", str(tmp_path / "out")]
    assert main([*common, "--list"]) == 0
    listed = capsys.readouterr().out
    assert "# needs the data HaluEval/summarization_data.json" in listed
    assert "veridical bench judge:yes_no judge:cot verify:cot --model gpt-3.5-turbo" in listed
    assert main([*common, "-f", "json"]) == 3
    (document,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert document["status"] == "needs data or models"
    assert {cell["printed"] for cell in document["cells"]} == {30.9, 75.5, 76.2, 58.5, 61.2, 71.2}
    assert all(cell["ours"] is None and cell["difference"] is None for cell in document["cells"])
    row = {"detector": "judge:cot:gpt-4", "metrics": {"accuracy": {"value": 0.7, "low": 0.6, "high": 0.8, "n": 9}}}
    (tmp_path / "factored.jsonl").write_text(json.dumps({**row, "command": "veridical bench x", "date": "2026-01-02"}))
    assert main([*common, "--rows", str(tmp_path), "--read", "-f", "markdown"]) == 0
    text = capsys.readouterr().out
    assert "| GPT-4 | CoT | 75.5 | 70 | [60, 80] | -5.5 |" in text
    assert "measured by: veridical bench x (2026-01-02)" in text
    assert main([*common[:2], "--table", "7"]) == 2
    assert main([*common, "--data", "mine"]) == 2
    assert main([*common, "-f", "pdf"]) == 2


def test_the_matrix_has_no_empty_cell(tmp_path: Path) -> None:
    lines = [line for line in matrix(tmp_path).splitlines() if line.startswith("|") and "---" not in line]
    assert len(lines) == len(EXHIBITS) + len(PAPERS)
    assert all(cell.strip() for line in lines for cell in line.strip("|").split("|"))


def test_a_case_of_labelled_data_becomes_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Labelled data are written as cases, which `check` and `analyse map` read."""
    write_hades(tmp_path / "hades", 10)
    cases = tmp_path / "cases.jsonl"
    assert main(["data", "convert", f"hades:{tmp_path / 'hades'}", str(cases), "--cases", "--first", "2"]) == 0
    assert "wrote 2 of 14 cases" in capsys.readouterr().err
    assert len(cases.read_text().splitlines()) == 2
    assert main(["check", str(cases), "-d", "length", "--html", str(tmp_path / "page.html")]) in (0, 1)
    assert (tmp_path / "page.html").exists()
