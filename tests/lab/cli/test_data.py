"""`veridical data` on labelled data of our own form."""

import hashlib
from pathlib import Path

import pytest

from tests.lab.files import saved
from veridical.cli import main
from veridical.datasets import DATASETS
from veridical.datasets.split import content_hash
from veridical.io.serialization import decode, encode
from veridical.records.types import Case, Example, Judgement, Source, Span, Verdict


def example(i: int) -> Example:
    case = Case(str(i), "The tower is purple.", (Source("1", "The tower is grey."),))
    gold = Judgement(str(i), "human:a", float(i % 2), verdicts=(Verdict(Span(13, 19), 1.0),) if i % 2 else ())
    return Example(case, gold, document=str(i // 2), group=(("kind", str(i % 3)),))


@pytest.fixture
def data(tmp_path: Path) -> str:
    return saved(tmp_path / "data.jsonl", map(example, range(40)))


def test_list(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["data", "list"]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in DATASETS)


def test_show(data: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "show", data, "--id", "1"]) == 0
    assert "[-purple-]" in capsys.readouterr().out
    assert main(["data", "show", data, "--id", "x"]) == 2
    assert "no case 'x'" in capsys.readouterr().err


def test_stats(data: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "stats", data]) == 0
    lines = dict(
        line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines() if line.split()[0] in "cases hash"
    )
    assert lines == {"cases": "40", "hash": content_hash(example(i) for i in range(40))}
    assert main(["data", "stats", data, "--json"]) == 0
    statistics = decode(capsys.readouterr().out, "statistics")
    assert (statistics.cases, statistics.groups, statistics.hash) == (40, {"kind": 3}, lines["hash"])


def test_convert_and_read_back(data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = tmp_path / "whole.jsonl"
    assert main(["data", "convert", data, str(whole)]) == 0
    assert [decode(line) for line in whole.read_text().splitlines()] == [example(i) for i in range(40)]
    parts = []
    for part in ("train", "valid", "test"):
        assert main(["data", "convert", data, str(tmp_path / part), "--part", part]) == 0
        parts.append({decode(line).document for line in (tmp_path / part).read_text().splitlines()})
    assert sum(map(len, parts)) == len(set().union(*parts)) == 20
    assert "wrote 40 of 40 examples" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command",
    [
        "data convert {data} {file} --part train",
        "data convert {file}?label=label {file}",
        "data convert {folder} {file}",
        "data label {data} --detector overlap --out {file}",
        "data corrupt {data} --method rules --out {file}",
        "data generate {data} --task summarise --model none --out {file}",
        "annotate select {other} --labelled {data} --out {file}",
        "annotate mark {data} --by ann --out {file}",
        "annotate agree {other} {data} --spans --out {file}",
        "annotate agree {data} --more {file}",
        "annotate export {data} --kind spans --out {file}",
        "annotate import none.json --data {data} --out {file}",
        "annotate pull 1 --data {data} --out {file}",
    ],
)
def test_no_command_overwrites_the_data_that_it_reads(
    data: str, tmp_path: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = Path(data.removeprefix("jsonl:"))
    before, other = file.read_bytes(), tmp_path / "other.jsonl"
    other.write_bytes(before)
    names = {"data": data, "file": file, "folder": f"rows:{tmp_path}", "other": f"jsonl:{other}"}
    assert main(command.format(**names).split()) == 2
    assert "belongs to the data that are read" in capsys.readouterr().err
    assert file.read_bytes() == before


def test_json_lines_go_to_no_file_that_is_read_as_something_else(
    data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("x.csv", "x.jsonl.gz", "x.parquet"):
        assert main(["data", "convert", data, str(tmp_path / name)]) == 2
        assert "would not be read as JSON Lines" in capsys.readouterr().err
        assert not (tmp_path / name).exists()
    assert main(["data", "convert", data, str(tmp_path / "x.json")]) == 0
    assert main(["data", "stats", str(tmp_path / "x.json")]) == 0


def test_the_scores_of_a_detector_become_labels(data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "soft.jsonl"
    assert main(["data", "label", data, "--detector", "overlap", "--out", str(out)]) == 0
    assert hashlib.sha256(out.read_bytes()).hexdigest() in capsys.readouterr().err
    labelled = [decode(line) for line in out.read_text().splitlines()]
    assert labelled
    assert {each.gold.by for each in labelled} == {"overlap"}
    assert {each.case.id for each in labelled} <= {example(i).case.id for i in range(40)}
    half = tmp_path / "half.jsonl"
    assert main(["data", "label", data, "--detector", "overlap", "--weight", "0.5", "--out", str(half)]) == 0
    for alone, mixed in zip(labelled, map(decode, half.read_text().splitlines()), strict=True):
        wrong = int(alone.case.id) % 2
        assert mixed.gold.hallucination == pytest.approx((alone.gold.hallucination + wrong) / 2)
        for before, after in zip(alone.gold.verdicts, mixed.gold.verdicts, strict=True):
            label = float(wrong and before.span == Span(13, 19))
            assert after.score == pytest.approx((before.score + label) / 2)
    assert main(["data", "label", data, "--detector", "overlap", "--weight", "2", "--out", str(out)]) == 2
    assert main(["data", "label", data, "--detector", "nothing", "--out", str(out)]) == 2


def test_bad_rows_are_refused_or_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "d.jsonl"
    path.write_text(encode(example(0)) + "\nbroken\n" + encode(example(1)) + "\n")
    assert main(["data", "stats", f"jsonl:{path}"]) == 2
    assert f"{path}:2: not JSON" in capsys.readouterr().err
    out = tmp_path / "out.jsonl"
    assert main(["data", "convert", f"jsonl:{path}", str(out), "--skip-bad"]) == 0
    err = capsys.readouterr().err
    assert "wrote 2 of 2" in err
    assert "1 rows were skipped; the first" in err
    assert main(["data", "convert", f"jsonl:{path}", str(tmp_path / "none"), "--part", "dev"]) == 2
