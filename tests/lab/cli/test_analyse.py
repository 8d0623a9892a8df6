"""`veridical analyse` writes rows and pictures, prints tables, and refuses what cannot be analysed in one line."""

import json
import weakref
from dataclasses import replace
from pathlib import Path

import pytest

from tests.lab.cli.conftest import Command
from tests.lab.files import saved
from tests.lab.probes.samples import examples
from veridical.models import load as loading
from veridical.models.load import load
from veridical_lab.models.testing import tiny
from veridical_lab.probes.options import ProbeOptions, TrainingConfig
from veridical_lab.probes.training import train_probe

FAST = ("--kind", "linear", "--epochs", "2", "--learning-rate", "0.1", "--resamples", "10", "--objective", "response")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny("llama", tmp_path_factory.mktemp("llama")))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    return saved(tmp_path_factory.mktemp("data") / "cases.jsonl", examples(90))


def test_layers(command: Command, model: str, data: str, tmp_path: Path) -> None:
    out, store = tmp_path / "out", tmp_path / "states"
    arguments = ("layers", data, "--model", model, *FAST, "--out", str(out), "--store", str(store))
    code, text, said = command("analyse", *arguments)
    assert (code, said.count("written")) == (0, 1)
    assert "ensemble of feed-forward" in text
    assert "peaks over sublayers" in text
    lines = [json.loads(line) for line in (out / "layers.jsonl").read_text("utf-8").splitlines()]
    assert [line["veridical"] for line in lines].count("finding/1") == 4 + 3 + 1
    assert {p.name for p in out.iterdir()} == {"layers.jsonl"} | {
        f"layers-{metric}.svg" for metric in ("f1", "recall", "roc_auc")
    }
    again = command("analyse", *arguments)
    assert again[0] == 0
    assert "written" not in again[2]  # the activations are there already


@pytest.mark.parametrize(
    "arguments, shown",
    [(("context", "--tokens", "0,3"), "3 tokens (3.0 read)"), (("labels", "--by", "system"), "system")],
)
def test_others(
    command: Command, model: str, data: str, tmp_path: Path, arguments: tuple[str, ...], shown: str
) -> None:
    if "system" in arguments:
        made = (replace(e, group=(("system", f"system {'ab'[i % 2]}"),)) for i, e in enumerate(examples(90)))
        data = saved(tmp_path / "grouped.jsonl", made)
    code, text, _ = command("analyse", arguments[0], data, "--model", model, *FAST, *arguments[1:])
    assert code == 0
    assert shown in text


def test_transfer_and_size(command: Command, model: str, data: str, tmp_path: Path) -> None:
    two = ("transfer", f"one={data}", f"two={data}", "--mix", "one+two", "--model", model)
    code, text, _ = command("analyse", *two, *FAST)
    assert code == 0
    assert "one+two → two: ensemble of all" in text
    other = str(tiny("gpt2", tmp_path / "gpt2"))
    code, text, _ = command("analyse", "size", data, "--model", model, "--model", other, *FAST)
    assert code == 0
    assert "gpt2 (" in text


def test_size_holds_one_model_at_a_time(
    command: Command, model: str, data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models: list[weakref.ref[object]] = []
    alive: list[int] = []
    read = loading._load

    def counted(*arguments: object) -> loading.LocalModel:
        alive.append(sum(reference() is not None for reference in models))
        loaded = read(*arguments)  # type: ignore[arg-type]
        models.append(weakref.ref(loaded.model))
        return loaded

    loading.unload()
    monkeypatch.setattr(loading, "_load", counted)
    other = str(tiny("gpt2", tmp_path / "gpt2"))
    code, _, _ = command("analyse", "size", data, "--model", model, "--model", other, *FAST)
    assert (code, alive) == (0, [0, 0])


@pytest.mark.parametrize(
    "arguments, line",
    [
        (("layers", "{data}", "--objective", "zzz"), "unknown objective 'zzz'"),
        (("layers", "{data}", "--template", "zzz"), "unknown template 'zzz'"),
        (("layers", "{data}", "--learning-rate", "a"), "--learning-rate is 'a'"),
        (("layers", "{data}", "--batch-size", "1.5"), "--batch-size is '1.5'"),
        (("layers", "{data}", "--sample", "3"), "documents in jsonl:cases.jsonl are too few"),
        (("layers", "zzz:nowhere"), "unknown data set 'zzz'"),
        (("labels", "{data}"), "no error in the data is labelled by type"),
        (("labels", "{data}", "--merge", "intrinsic"), "--merge is 'intrinsic'"),
        (("transfer", "{data}"), "1 data set is named"),
        (("transfer", "{data}", "{data}"), "the name 'jsonl' is given twice"),
        (("transfer", "a={data}", "b={data}", "--mix", "a"), "the mixture 'a' does not name data sets"),
        (("size", "{data}"), "1 model is named"),
        (("context", "{data}", "--tokens", "x"), "--tokens is 'x'"),
        (("context", "{data}", "--tokens", ","), "tokens of the sources: none named"),
    ],
)
def test_one_line_of_refusal(command: Command, model: str, data: str, arguments: tuple[str, ...], line: str) -> None:
    given = [argument.format(data=data) for argument in arguments]
    code, text, said = command("analyse", *given, "--model", model)
    assert (code, text) == (2, "")
    last = said.splitlines()[-1]
    assert last.startswith("veridical: ")
    assert line in last


@pytest.fixture(scope="module")
def probe(model: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("probe")
    options = ProbeOptions("linear", learning_rates=(0.1,), batch_sizes=(16,), max_epochs=5)
    train_probe(load(model, dtype="fp32"), examples(60), TrainingConfig(options, template="tldr"), out=folder)
    return folder


@pytest.fixture
def texts(tmp_path: Path) -> tuple[str, str]:
    (tmp_path / "answer.txt").write_text("the cat and dogs slept in Paris.", "utf-8")
    (tmp_path / "source.txt").write_text("The cat sat on the mat in the house.", "utf-8")
    return str(tmp_path / "answer.txt"), str(tmp_path / "source.txt")


def test_map(command: Command, probe: Path, texts: tuple[str, str], tmp_path: Path) -> None:
    out = tmp_path / "map.svg"
    code, text, said = command("analyse", "map", f"probe:{probe}", *texts, "--mark", "dogs", "--out", str(out))
    assert code == 0
    assert out.read_text("utf-8").startswith("<svg")
    assert f"wrote {out}" in said
    assert "0 attention 1" in text
    assert "detector" in text
    assert "*: marked" in text
    assert command("analyse", "map", "overlap", *texts)[0] == 2


def test_map_of_one_of_several_cases(command: Command, probe: Path, tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    saved(path, [example.case for example in examples(3)])
    code, text, _ = command("analyse", "map", f"probe:{probe}", str(path), "--case", "c1", "--objective", "response")
    assert code == 0
    assert text.count("response-level scores") == 1
    assert command("analyse", "map", f"probe:{probe}", str(path))[1].count("token-level scores") == 3


@pytest.mark.parametrize(
    "arguments, line",
    [
        (("--out", "map.pdf"), "--out map.pdf ends in .pdf (it may end in .svg)"),
        (("--case", "zzz"), "no case 'zzz' in "),
        (("--out", "map.svg"), "holds 3 cases, and --out takes one"),
        (("--case", "c1", "--mark", "zzz"), "--mark 'zzz' is not in the response of 'c1'"),
        (("--case", "c1", "--objective", "word"), "has no word-level probes"),
    ],
)
def test_refusals_of_map(command: Command, probe: Path, tmp_path: Path, arguments: tuple[str, ...], line: str) -> None:
    path = tmp_path / "cases.jsonl"
    saved(path, [example.case for example in examples(3)])
    code, text, said = command("analyse", "map", f"probe:{probe}", str(path), *arguments)
    assert (code, text) == (2, "")
    assert line in said.splitlines()[-1]


def test_help_teaches(command: Command) -> None:
    for name in ("layers", "labels", "transfer", "size", "context", "map"):
        code, text, _ = command("analyse", name, "--help")
        assert code == 0
        assert f"veridical analyse {name}" in " ".join(text.split())
