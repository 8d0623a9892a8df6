"""`veridical guard` as a person runs it."""

from pathlib import Path

import pytest

from tests.lab.cli.conftest import Command
from tests.lab.guard_model import RACE, RIGHT, WRONG, train
from veridical.io.serialization import decode, encode
from veridical.records.types import Outcome
from veridical_lab.cli.guard import SamplingOptions

MENDED = "backtracked at character 0: 'Peter' 1.00\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(train(tmp_path_factory.mktemp("wrong")))


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("source.txt").write_text(RACE.sources[0].text)


def test_a_source_and_a_template(command: Command, folder: str) -> None:
    given = ("guard", "--source", "source.txt", "-m", folder, "--template", "tldr")
    code, out, err = command(*given)
    assert (code, err) == (0, MENDED)
    assert RIGHT in " ".join(out.split())
    assert "backtracked “Peter” 1.00, replaced by “Marta” (character 0)" in out
    code, out, err = command(*given, "--text", "--max-interventions", "0")
    assert (code, out, err) == (1, WRONG, "")


def test_a_prompt_with_its_source(command: Command, folder: str) -> None:
    code, out, err = command("guard", "--source", "source.txt", "-m", folder, "--prompt", "{source}\nTL;DR: ", "--text")
    assert (code, out, err) == (0, RIGHT, MENDED)


def test_the_text_ends_before_a_line_break(command: Command, folder: str) -> None:
    given = ("guard", "--source", "source.txt", "-m", folder, "--template", "tldr", "--text")
    assert SamplingOptions(stop=[r"\n", "\n", "."]).make().stop == ("\n", "\n", ".")
    assert command(*given, "--stop", r"\n", "--stop", " in Paris")[1] == RIGHT.partition(" in Paris")[0]
    code, out, err = command(*given, "--stop", "")
    assert (code, out) == (2, "")
    assert "stop is ('',)" in err


def test_cases_as_json(command: Command, folder: str) -> None:
    Path("cases.jsonl").write_text("\n".join(encode(case) for case in (RACE,)) + "\n" + '{"response": ""}')
    options = ("-m", folder, "--template", "tldr", "--json", "--compare", "--strategy", "stop", "--unit", "sentence")
    code, out, _ = command("guard", "cases.jsonl", *options, "--max-new-tokens", "30")
    first, second = (decode(line, "guarded") for line in out.splitlines())
    assert first.text == ""
    assert first.unguarded.case.response.startswith("Peter")
    assert [intervention.action for intervention in first.interventions] == ["stopped"]
    assert first.outcome is Outcome.UNJUDGED
    assert second.case.id == "2"
    assert code == 3


def test_samples_and_beams(command: Command, folder: str) -> None:
    given = ("guard", "--source", "source.txt", "-m", folder, "--template", "tldr", "--strategy", "rerank")
    code, out, err = command(*given, "--beams", "--samples", "3", "--text")
    assert (code, out) == (0, RIGHT)
    assert err.count("text ") == 3
    assert err.count("chosen") == 1
    code, out, err = command(*given, "--temperature", "1", "--seed", "1", "--samples", "6", "--text")
    assert code == 0
    assert err.count("text ") == 6


def test_likelihood_is_of_the_model_that_writes(command: Command, folder: str) -> None:
    given = ("guard", "--source", "source.txt", "-m", folder, "--template", "tldr", "-d", "logprob")
    code, out, _ = command(*given, "--threshold", "1.0", "--text")
    assert (code, out) == (0, WRONG)
    _, out, err = command(*given, "--threshold", "0.0001", "--strategy", "stop", "--json")
    assert [intervention.action for intervention in decode(out, "guarded").interventions] == ["stopped"]
    assert err.startswith("stopped at character ")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ([], "there is nothing to write about"),
        (["cases.jsonl", "--question", "Who?"], "holds cases, and a source, question or prompt is given too"),
        (["--source", "none.txt"], "none.txt"),
        (["--source", "source.txt", "--detector", "overlap"], "no model is named to generate"),
        (["--source", "source.txt", "-m", "nowhere"], "there is no model folder"),
        (["--source", "source.txt", "-m", "FOLDER", "--strategy", "hope"], "unknown strategy 'hope'"),
        (["--source", "source.txt", "-m", "FOLDER", "--threshold", "2"], "the threshold is 2"),
        (["--source", "source.txt", "-m", "FOLDER", "--max-new-tokens", "0"], "max_new_tokens is 0"),
        (["--source", "source.txt", "-m", "FOLDER", "--max-tokens", "-1"], "the budget of tokens is -1"),
        (["--source", "source.txt", "-m", "FOLDER", "--strategy", "rerank"], "at temperature 0 all samples"),
        (["--source", "source.txt", "-m", "FOLDER", "-d", "probe:nowhere"], "no detector.json"),
    ],
)
def test_bad_input_is_one_line(command: Command, folder: str, options: list[str], says: str) -> None:
    code, out, err = command("guard", *(folder if option == "FOLDER" else option for option in options))
    assert (code, out) == (2, "")
    assert says in err
    assert len(err.splitlines()) == 1
