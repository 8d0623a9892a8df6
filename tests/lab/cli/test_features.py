"""`train features`, `data statistics`, and what is made with them."""

import json
import re
from pathlib import Path

import pytest

from tests.lab.cli.conftest import Command
from tests.lab.detectors.feature_examples import examples, phrases
from tests.lab.files import saved
from tests.lab.training.hades_files import write_hades
from veridical.io.serialization import decode
from veridical_lab.detectors.features.statistics import WordStatistics
from veridical_lab.models.testing import tiny


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    saved(Path("words.jsonl"), examples())
    saved(Path("phrases.jsonl"), phrases())


def test_train_check_and_bench(command: Command) -> None:
    code, _, err = command("train", "features", "jsonl:words.jsonl", "--out", "words", "--classifier", "svm")
    assert code == 0, err
    assert "use it as features:words" in err
    document = json.loads(Path("words/detector.json").read_text("utf-8"))
    assert document["settings"]["classifier"] == "svm"
    assert document["training"]["units"]["training"] > 100
    Path("answer.txt").write_text("Paris closed an old tunnel in 1889.", "utf-8")
    Path("source.txt").write_text("In 1889, Paris opened a new bridge. It was reported.", "utf-8")
    code, out, _ = command("check", "answer.txt", "source.txt", "-d", "features:words", "--json")
    assert code == 1
    checked = decode(out)
    flagged = {span.of("Paris closed an old tunnel in 1889.") for span in checked.flagged}
    assert "Paris" not in flagged
    assert any("tunnel" in text for text in flagged)
    code, out, err = command("bench", "features:words", "--data", "jsonl:words.jsonl", "--fit", "none", "--json")
    assert code == 0, err
    assert json.loads(out)["metrics"]["word_roc_auc"]["value"] > 0.9


def test_all_options(command: Command) -> None:
    tiny("llama", "model")
    Path("scores.jsonl").write_text(
        "".join(json.dumps({"case": e.case.id, "tokens": [[0, 5, -1.0]]}) + "\n" for e in phrases()), "utf-8"
    )
    code, _, err = command("data", "statistics", "jsonl:words.jsonl", "answer.txt", "--out", "counts.npz")
    assert code == 2
    assert "answer.txt: no such file" in err
    code, _, err = command("data", "statistics", "jsonl:words.jsonl", "--out", "counts.npz")
    assert code == 0
    assert "words and" in err
    counted = WordStatistics.load(Path("counts.npz"))
    assert counted.documents == len({t for e in examples() for t in (e.case.response, e.case.sources[0].text)})
    arguments = "--model model --dtype fp32 --template plain --no-sources --context left --tagger rules --unit phrase"
    more = "--statistics counts.npz --token-scores scores.jsonl --criterion balanced_accuracy --seed 1"
    data = ("jsonl:phrases.jsonl", "--validation", "jsonl:phrases.jsonl", "--out", "phrases")
    code, _, err = command("train", "features", *data, *arguments.split(), *more.split())
    assert code == 0, err
    settings = json.loads(Path("phrases/detector.json").read_text("utf-8"))["settings"]
    expected = {"sources": False, "context": "left", "template": "plain", "max_windows": None, "paper": False}
    assert settings["features"] == expected | {"token_scores": True, "probability": "causal"}
    assert {"log_probability", "lowest_token_score", "tf_idf"} <= set(settings["names"])
    assert "log_probability_after" not in settings["names"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--classifier", "forest"], "classifier 'forest'"),
        (["--tagger", "nltk"], "there is no tagger 'nltk'"),
        (["--statistics", "words.jsonl"], "not a file of word statistics"),
        (["--model", "nowhere"], "no model folder"),
        (["--token-scores", "words.jsonl"], r"words\.jsonl:1: not the token scores"),
        (["--context", "right"], "context 'right'"),
    ],
)
def test_mistakes_are_one_line(command: Command, arguments: list[str], message: str) -> None:
    code, _, err = command("train", "features", "jsonl:words.jsonl", "--out", "out", *arguments)
    assert code == 2
    assert re.search(message, err)
    assert len(err.strip().splitlines()) == 1
    assert not Path("out").exists()


def test_bench_tokens(command: Command) -> None:
    write_hades(Path("hades"), 100)
    arguments = ("--method", "features:lr", "--method", "majority", "--resamples", "20")
    code, out, err = command("bench", "tokens", "hades:hades", *arguments, "--paper", "--out", "rows.jsonl")
    assert code == 0, err
    assert "offline" in out
    assert "online" in out
    assert "the paper's table 2" in out
    rows = [json.loads(line) for line in Path("rows.jsonl").read_text("utf-8").splitlines()]
    assert len(rows) == 4
    code, out, _ = command("bench", "tokens", "hades:hades", *arguments, "--setting", "online", "--json")
    assert code == 0
    assert [json.loads(line)["group"] for line in out.splitlines()] == ["setting=online"] * 2
    code, _, err = command("bench", "tokens", "jsonl:words.jsonl", "--method", "features:lr")
    assert code == 2
    assert "no response with one labelled phrase" in err


def test_analyse_features(command: Command) -> None:
    code, out, err = command("analyse", "features", "jsonl:words.jsonl", "--out", "analysis")
    assert code == 0, err
    assert "features by label and word type" in out
    assert "correlations" in out
    written = {path.name for path in Path("analysis").iterdir()}
    assert written == {"features.json", "correlations.svg", "word-types.svg"}
    analysis = decode(Path("analysis/features.json").read_text("utf-8"))
    assert analysis.features == ["tf_idf", "ppmi", "unsupported"]
    arguments = ("--no-sources", "--features", "idf,length", "--json")
    code, out, _ = command("analyse", "features", "jsonl:phrases.jsonl", *arguments)
    assert code == 0
    assert decode(out).features == ["idf", "length"]
    code, _, err = command("analyse", "features", "jsonl:phrases.jsonl")
    assert code == 2
    assert "the case has no sources" in err
