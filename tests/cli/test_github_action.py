"""The GitHub Action: its steps run as they are written, in the shell that they name."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.processes import LIMIT

ROOT = Path(__file__).parents[2]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"] if "name" in step}


def run(step: str, folder: Path, **variables: str) -> tuple[int, str, str]:
    """Run a step in `folder`; `python` and `veridical` are programs that stand before all others."""
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT / "lab" / "src")])
    for name, line in (
        ("veridical", f'PYTHONPATH="{paths}" exec "{sys.executable}" -m veridical "$@"'),
        ("python", 'printf "%s\\n" "$@"'),
    ):
        (programs / name).write_text(f"#!/bin/bash\n{line}\n")
        (programs / name).chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "RUNNER_TEMP": str(folder),
        "GITHUB_OUTPUT": str(folder / "outputs"),
        "GITHUB_ACTION_PATH": "/action",
        **variables,
    }
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", STEPS[step]["run"]]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=LIMIT)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(("answer", "fails"), [("The tower is 330 m tall.", False), ("The tower is 300 m tall.", True)])
def test_a_flagged_answer_fails_the_step_and_both_leave_reports(tmp_path: Path, answer: str, fails: bool) -> None:
    (tmp_path / "an answer.txt").write_text(answer)
    (tmp_path / "source.txt").write_text("The tower is 330 m tall.")
    code, out, err = run("Check", tmp_path, ARGUMENTS='"an answer.txt" source.txt -d overlap; touch $(echo run)')
    assert code != 0, "the shell characters are arguments, not commands"
    assert not (tmp_path / "run").exists()
    code, out, err = run("Check", tmp_path, ARGUMENTS='"an answer.txt" source.txt -d overlap')
    assert (code != 0) is fails, out + err
    outputs = dict(line.split("=", 1) for line in (tmp_path / "outputs").read_text().splitlines())
    assert set(outputs) == set(ACTION["outputs"])
    assert all(Path(file).is_file() for file in outputs.values())


def test_the_exit_code_is_that_of_check_and_outputs_name_only_files_that_exist(tmp_path: Path) -> None:
    (tmp_path / "answer.txt").write_text("The tower is 300 m tall.")
    (tmp_path / "source.txt").write_text("The tower is 330 m tall.")
    for arguments, code, outputs in (
        ("answer.txt missing.txt -d overlap", 2, 0),
        ("'answer.txt source.txt", 2, 0),  # a quote that is not closed
        ("answer.txt source.txt\n  -d overlap\n", 1, 2),
        ("answer.txt missing.txt -d overlap", 2, 0),  # it gives no reports of the use before
    ):
        (tmp_path / "outputs").write_text("")
        done, _, err = run("Check", tmp_path, ARGUMENTS=arguments)
        assert done == code, arguments
        assert "veridical: " in err
        assert len((tmp_path / "outputs").read_text().splitlines()) == outputs


@pytest.mark.parametrize(("extras", "installed"), [("", "/action"), ("documents,llm", "/action[documents,llm]")])
def test_the_package_is_installed_from_the_action_itself(tmp_path: Path, extras: str, installed: str) -> None:
    assert run("Install", tmp_path, EXTRAS=extras)[1].split() == ["-m", "pip", "install", installed]


def test_every_input_is_used_and_no_text_of_the_user_stands_in_a_script() -> None:
    text = (ROOT / "action.yml").read_text("utf-8")
    assert set(re.findall(r"inputs\.([\w-]+)", text)) == set(ACTION["inputs"])
    assert not any("${{" in step["run"] for step in STEPS.values())
