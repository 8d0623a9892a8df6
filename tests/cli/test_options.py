"""Groups of options, lists in options, and the help that both give."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import pytest
import typer
from typer.main import get_command

from veridical import cli
from veridical.cli.comma_lists import parse_names, parse_thresholds
from veridical.cli.option_groups import option_groups
from veridical.io.sources import unique_names
from veridical.records.errors import InputError
from veridical_lab.cli.number_lists import parse_counts, parse_numbers


@dataclass(frozen=True, kw_only=True)
class Size:
    PANEL: ClassVar[str] = "Size"

    width: Annotated[int, typer.Option(help="The width.")]
    height: Annotated[int, typer.Option("--height", "-y", help="The height.", rich_help_panel="Other")] = 2


def test_a_group_becomes_one_option_per_field() -> None:
    seen: list[Any] = []
    app = typer.Typer()

    @app.command()
    @option_groups
    def draw(size: Size, name: Annotated[str, typer.Argument()] = "x") -> None:
        """Draw it."""
        seen.append((size, name))

    command = get_command(app)
    command(["--width", "3", "-y", "4", "me"], standalone_mode=False)
    command(["--width", "3"], standalone_mode=False)
    assert seen == [(Size(width=3, height=4), "me"), (Size(width=3), "x")]
    panels = {parameter.name: getattr(parameter, "rich_help_panel", None) for parameter in command.params}
    assert panels == {"width": "Size", "height": "Other", "name": None} | {
        name: None for name in panels if name not in ("width", "height", "name")
    }
    assert command.help == "Draw it."


def test_groups_with_a_field_in_common_are_refused() -> None:
    with pytest.raises(ValueError, match="width"):

        @option_groups
        def draw(a: Size, b: Size) -> None:
            pass


def test_lists() -> None:
    assert parse_names(" f1,, roc_auc ") == ["f1", "roc_auc"]
    assert parse_names(None) == []
    assert parse_numbers("0.1, 1e-3", "--rate") == (0.1, 0.001)
    assert parse_counts("0, 20", "--size") == (0, 20)


@pytest.mark.parametrize("text", ["50.7", "1,", "-1", "", "1_000", "1e3", "٣"])
def test_what_is_not_a_whole_number_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"--size is .*whole numbers"):
        parse_counts(text, "--size")


@pytest.mark.parametrize("text", ["a", "1,", "", "nan", "inf"])
def test_what_is_not_a_number_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="--rate is"):
        parse_numbers(text, "--rate")


@pytest.mark.parametrize("text", ["high", "", "span=", "span", "span=0.1,0.2", "span=0.1,span=0.2", "span=a"])
def test_what_is_no_threshold_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="--threshold is"):
        parse_thresholds([text])
    with pytest.raises(InputError, match=r"--threshold is .*each level once"):
        parse_thresholds(["span=0.4", text or "0.4"])


def test_thresholds_given_one_by_one_count_together(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name in ("a.txt", "source.txt"):
        (tmp_path / name).write_text("red house")
    command = ["check", str(tmp_path / "a.txt"), str(tmp_path / "source.txt"), "-d", "overlap", "--json"]
    assert cli.main([*command, "--threshold", "span=0.4", "--threshold", "response=0.2,source=0.3"]) == 0
    (decision,) = json.loads(capsys.readouterr().out)["decisions"]
    assert decision["thresholds"] == {"span": 0.4, "response": 0.2, "source": 0.3}
    assert cli.main([*command, "--threshold", "0.4", "--threshold", "0.2"]) == 2


def test_names_are_unique_even_where_a_number_is_taken() -> None:
    assert unique_names(["a", "a (2)", "a", "a"]) == ["a", "a (2)", "a (3)", "a (4)"]


def commands() -> Iterator[tuple[str, Any]]:
    """Every command that does something, with its full name."""
    for name, command in get_command(cli.app).commands.items():  # type: ignore[attr-defined]
        if hasattr(command, "commands"):
            yield from ((f"{name} {below}", inner) for below, inner in command.commands.items())
        else:
            yield name, command


COMMANDS = dict(commands())


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_shows_how_it_is_used(name: str) -> None:
    examples = re.findall(r"\[bold\](veridical [^\[]*)\[/bold\]", COMMANDS[name].help)
    first = name.removesuffix(" run")
    assert any(example.startswith(f"veridical {first}") for example in examples)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_says_what_it_does_and_examples_use_real_ones(name: str) -> None:
    options = {
        option for command in COMMANDS.values() for p in command.params for option in (*p.opts, *p.secondary_opts)
    }
    bare = [p.name for p in COMMANDS[name].params if p.name != "help" and not getattr(p, "help", None)]
    assert not bare
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", COMMANDS[name].help)) <= options


@pytest.mark.parametrize(
    "arguments, says",
    [
        (("train", "probe", "x:y", "--model", "m", "--out", "o", "--batch-size", "50.7"), "--batch-size is '50.7'"),
        (("train", "probe", "x:y", "--model", "m", "--out", "o", "--sublayers", "1.5"), "--sublayers is '1.5'"),
        (("train", "probe", "x:y", "--model", "m", "--out", "o", "--learning-rate", "0.1,x"), "--learning-rate is"),
    ],
)
def test_numbers_are_not_cut(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], says: str) -> None:
    assert cli.main(list(arguments)) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line


@pytest.mark.parametrize("arguments", [("check", "a.txt", "--html"), ("check", "--htm"), ("check",)])
def test_a_wrong_line_leads_to_the_help_of_its_command(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    assert cli.main(list(arguments)) == 2
    assert capsys.readouterr().err.endswith(" check --help)\n")


def test_several_texts_are_told_apart(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    lines = [
        '{"id": "a", "response": "red", "sources": ["red"]}',
        '{"id": "b", "response": "blue", "sources": ["blue"]}',
    ]
    path = tmp_path / "cases.jsonl"
    path.write_text("\n".join(lines))
    assert cli.main(["revise", str(path), "--checker", "overlap", "--text"]) == 0
    assert capsys.readouterr().out == "==> a <==\nred\n\n==> b <==\nblue\n\n"
    path.write_text(lines[0])
    assert cli.main(["revise", str(path), "--checker", "overlap", "--text"]) == 0
    assert capsys.readouterr().out == "red"


def test_a_threshold_per_level(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_text('{"response": "red green blue house", "sources": ["red green blue"]}')
    codes = {}
    for text in ("response=0.9", "response=0.9,span=1", "span=1.0", "response=0.2", "0.2", "word=0.2", "2"):
        codes[text] = cli.main(["check", str(path), "-d", "overlap", "--threshold", text])
    assert codes.pop("word=0.2") == codes.pop("2") == 2
    assert set(codes.values()) == {1}  # overlap scores the word "house" 1.0
    path.write_text('{"response": "red green blue", "sources": ["red green blue"]}')
    assert cli.main(["check", str(path), "-d", "overlap", "--threshold", "response=0.1,span=0.1"]) == 0
    assert "--threshold" not in capsys.readouterr().err
