"""Options from environment variables and a settings file: one order, and one line for what cannot be set."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from typer.main import get_command

from tests.processes import python
from veridical.cli import app, main, settable_options
from veridical.cli.options import ServerOptions
from veridical.cli.settings import needs_trust

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def by(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> Callable[..., list[str]]:
    """Checks two texts in a folder of its own, and gives back the names of the detectors."""
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text("The tower is 300 m tall.")
    Path("s.txt").write_text("The tower is 330 m tall.")

    def check(*options: str) -> list[str]:
        assert main(["check", "a.txt", "s.txt", "--json", *options]) == 1
        return [judgement["by"] for judgement in json.loads(capsys.readouterr().out)["judgements"]]

    return check


def test_the_command_line_comes_before_variables_and_they_before_the_file(
    by: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("veridical.toml").write_text('detector = "length"\n[check]\ndetector = ["overlap:values"]\n')
    assert by() == ["overlap:values"]
    monkeypatch.setenv("VERIDICAL_DETECTOR", "overlap:values overlap")
    assert by() == ["overlap:values", "overlap"]
    assert by("-d", "overlap") == ["overlap"]


def test_a_file_is_found_by_its_name_in_pyproject_or_by_a_variable(
    by: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("pyproject.toml").write_text('[tool.veridical]\ndetector = "overlap"\n[tool.other]\nport = 1\n')
    assert by() == ["overlap"]
    Path("veridical.toml").write_text('detector = "overlap:values"\nport = 9000\n')
    assert by() == ["overlap:values"]
    Path("mine.toml").write_text('detector = ["overlap", "overlap:values"]\n')
    monkeypatch.setenv("VERIDICAL_SETTINGS", "mine.toml")
    assert by() == ["overlap", "overlap:values"]


def test_tables_and_lists_stand_for_texts_with_commas(
    by: Callable[..., list[str]], capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("veridical.toml").write_text('detector = "overlap"\nthreshold = {response = 0.9, span = 0.8}\n')
    assert main(["check", "a.txt", "s.txt", "--json"]) == 1
    (decision,) = json.loads(capsys.readouterr().out)["decisions"]
    assert (decision["thresholds"]["response"], decision["thresholds"]["span"]) == (0.9, 0.8)
    Path("veridical.toml").write_text('detector = "overlap"\nthreshold = 0.7\n')
    assert main(["check", "a.txt", "s.txt", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["decisions"][0]["thresholds"]["span"] == 0.7
    monkeypatch.setenv("VERIDICAL_THRESHOLD", "response=0.9, span=0.8")
    assert main(["check", "a.txt", "s.txt", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["decisions"] == [decision]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('detectr = "overlap"', "unknown option 'detectr' (did you mean detector"),
        ("[check]\nport = 1", "[check]: unknown option 'port'"),
        ("check = 1", "[check] is not a table"),
        ('new_key = "alice"', "unknown option 'new_key'"),
        ('concurrency = "many"', "set in veridical.toml"),
        ("detector =", "not TOML"),
        pytest.param(f"port = {'1' * 5000}", "not TOML", id="digits"),
        pytest.param(f"port = {'[' * 5000}", "nested too deeply", id="nested"),
        ("[chat]\ntemprature = 1", "did you mean temperature"),
        ('[chat]\nretries = "2"', "[chat]: retries is '2'"),
    ],
)
def test_what_cannot_be_set_is_one_line(by: Callable[..., list[str]], capsys: Capture, text: str, message: str) -> None:
    Path("veridical.toml").write_text(text)
    assert main(["check", "a.txt", "s.txt", "-d", "overlap"]) == 2
    (line,) = [each for each in capsys.readouterr().err.splitlines() if "settings from" not in each]
    assert message in line
    assert "veridical.toml" in line


@pytest.mark.parametrize(
    ("text", "option"),
    [
        ('base_url = "http://127.0.0.1:9/v1"', "base_url"),
        ('detector = "judge:yes_no,model=m,base_url=http://127.0.0.1:9/v1"', "base_url"),
        ('detector = ["overlap", "judge:yes_no,model=m,key_env\u2003= HOME"]', "key_env"),
        ("detector = 'verify:\"judge:yes_no,model=m,key_env=HOME\"'", "key_env"),
        ('detector = {"judge:yes_no,model=m,key_env" = "HOME"}', "key_env"),
        ('[check]\nkey-env = "HOME"', "[check]: key_env"),
        ('html = "kept.txt"', "html"),
        ('junit = "kept.txt"', "junit"),
        ('cache = "kept.txt"', "cache"),
        ('detector = "judge:yes_no,model=scripted:s.txt,cache=kept.txt"', "cache"),
        ('must_cover = ["kept.txt"]', "must_cover"),
        ('perspective = ["a=kept.txt"]', "perspective"),
        ('[chat]\nheaders = {Authorization = "Bearer x"}', "[chat]: headers"),
        ("[chat]\nbody = {store = true}", "[chat]: body"),
    ],
)
def test_a_file_that_is_only_found_names_no_key_no_address_and_no_file(
    by: Callable[..., list[str]], capsys: Capture, text: str, option: str
) -> None:
    Path("kept.txt").write_text("kept")
    Path("veridical.toml").write_text(text)
    assert main(["check", "a.txt", "s.txt"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"veridical.toml: {option} cannot be set here" in line
    assert "--settings veridical.toml" in line
    assert Path("kept.txt").read_text() == "kept"


@pytest.mark.parametrize(("text", "name"), [("tool = 1", "tool"), ("[tool]\nveridical = 1", "veridical")])
def test_pyproject_without_the_table_is_one_line(
    by: Callable[..., list[str]], capsys: Capture, text: str, name: str
) -> None:
    Path("pyproject.toml").write_text(text)
    assert main(["check", "a.txt", "s.txt", "-d", "overlap"]) == 2
    assert capsys.readouterr().err == f"veridical: pyproject.toml: '{name}' is not a table\n"


def test_pyproject_is_not_trusted_either(by: Callable[..., list[str]], capsys: Capture) -> None:
    Path("pyproject.toml").write_text('[tool.veridical]\nhtml = "kept.txt"\n')
    assert main(["check", "a.txt", "s.txt"]) == 2
    assert "pyproject.toml: html cannot be set here" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("host", '"0.0.0.0"'),
        ("proxy", '"http://127.0.0.1:9/v1"'),
        ("proxy_key_env", '"HOME"'),
        ("api_keys", '"keys"'),
        ("cors", '["*"]'),
        ("log_text", "true"),
    ],
)
def test_a_file_that_is_only_found_opens_no_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture, option: str, value: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("veridical.toml").write_text(f"[serve]\n{option} = {value}\n")
    assert main(["serve"]) == 2
    assert f"[serve]: {option} cannot be set here" in capsys.readouterr().err


def test_every_option_that_names_a_file_needs_trust() -> None:
    commands: dict[str, Any] = get_command(app).commands  # type: ignore[attr-defined]
    for name, options in settable_options().items():
        hints = get_type_hints(commands[name].callback, include_extras=True)
        of_files = {option for option, hint in hints.items() if option in options and "Path" in str(get_args(hint)[0])}
        assert of_files
        assert {option for option in of_files if not needs_trust(options[option])} == set()


def test_the_file_in_use_is_named_and_one_that_the_user_names_is_trusted(
    by: Callable[..., list[str]], capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("veridical.toml").write_text('detector = "overlap"\n')
    assert main(["check", "a.txt", "s.txt"]) == 1
    assert "veridical: settings from veridical.toml" in capsys.readouterr().err.splitlines()
    Path("veridical.toml").write_text('detector = "overlap"\nhtml = "page.html"\n')
    assert by("--settings", "veridical.toml") == ["overlap"]
    assert Path("page.html").exists()
    Path("page.html").unlink()
    monkeypatch.setenv("VERIDICAL_SETTINGS", "veridical.toml")
    assert by() == ["overlap"]
    assert Path("page.html").exists()
    Path("mine.toml").write_text('detector = "overlap:values"\n')
    assert by("--settings", "mine.toml") == ["overlap:values"]
    assert main(["check", "a.txt", "s.txt", "--settings", "none.toml"]) == 2
    assert "none.toml: no such file" in capsys.readouterr().err


def test_a_wrong_variable_is_named(
    by: Callable[..., list[str]], capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VERIDICAL_TIMEOUT", "soon")
    assert main(["check", "a.txt", "s.txt", "-d", "overlap"]) == 2
    assert "set by VERIDICAL_TIMEOUT" in capsys.readouterr().err


def test_chat_settings_reach_the_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("veridical.toml").write_text('[chat]\ntemperature = 0.5\nper-minute = 60\nheaders = {"X-Team" = "search"}\n')
    connection = ServerOptions(max_tokens=2000, settings=Path("veridical.toml")).connection()
    assert (connection.temperature, connection.per_minute, connection.max_tokens) == (0.5, 60, 2000)
    assert connection.headers == {"X-Team": "search"}


def test_init_writes_a_file_that_sets_nothing_and_names_every_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["init"]) == 0
    text = Path("veridical.toml").read_text("utf-8")
    assert not any(tomllib.loads(text).values())
    names = {name for options in settable_options().values() for name in options}
    assert {line[2:].partition(" = ")[0] for line in text.splitlines() if " = " in line} >= names - {"new_key"}
    tomllib.loads("".join(f"{line.removeprefix('# ') if ' = ' in line else line}\n" for line in text.splitlines()[4:]))
    assert main(["init"]) == 2
    assert "veridical.toml exists" in capsys.readouterr().err


def test_shells_complete_commands_and_options() -> None:
    run = "import sys; sys.argv[0] = 'veridical'; from veridical.__main__ import main; sys.exit(main())"
    for words, completion in (("veridical che", "check"), ("veridical check --thresh", "--threshold")):
        asked = {"_VERIDICAL_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        done = python("-c", run, text=True, check=True, env=os.environ | asked)
        assert completion in done.stdout.split()


def test_serve_offers_only_what_works_there(capsys: Capture) -> None:
    assert main(["serve", "--dry-run"]) == 2
    assert "No such option" in capsys.readouterr().err
