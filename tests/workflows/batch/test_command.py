"""`veridical batch`: one line for what it did or why it did not."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.workflows.conftest import Command
from veridical.cli.progress import progress_lines
from veridical.records.errors import CannotJudgeError
from veridical.workflows.batch import ray_engine
from veridical.workflows.batch.inputs import ShardRange
from veridical.workflows.batch.worker import ShardTexts, WorkerSettings, shard_texts

Batch = Callable[..., tuple[int, str]]


@pytest.fixture
def batch(command: Command) -> Batch:
    def call(*arguments: str | Path) -> tuple[int, str]:
        code, out, errors = command("batch", *arguments, "-d", "overlap")
        assert out == ""
        return code, errors

    return call


def test_a_table_into_a_folder(batch: Batch, tmp_path: Path) -> None:
    first, second = tmp_path / "a.csv", tmp_path / "b.csv"
    first.write_text("key,answer,text,points\nx,It is red.,It is blue.,It is big.\n")
    second.write_text("key,answer,text,points\ny,It is blue.,It is blue.,\nz,\n")
    columns = ("--response", "answer", "--source", "text", "--must-cover", "points", "--id", "key", "--group", "text")
    code, line = batch(first, second, tmp_path / "out", *columns)
    assert code == 1
    assert line.startswith("2 rows judged, 1 of them flagged, ")
    assert "1 failed (failed.jsonl)" in line
    out = tmp_path / "out"
    assert {file.name for file in out.iterdir()} == {
        *("manifest.json", "shards.jsonl", "failed.jsonl", "report.json", "report.html", ".lock"),
        *("results-00000.jsonl", "scores-00000.jsonl"),
    }
    scores = [json.loads(line) for line in (out / "scores-00000.jsonl").read_text().splitlines()]
    of_rows = [(row["row"], row["id"], row["group"]) for row in scores]
    assert of_rows == [(1, "x", "It is blue."), (2, "y", "It is blue.")]
    assert json.loads((out / "failed.jsonl").read_text())["row"] == 3


def test_what_ray_prints_is_not_on_standard_output(
    batch: Batch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def printing(shards: Sequence[ShardRange], work: WorkerSettings, *_: object) -> Iterator[ShardTexts]:
        notice = threading.Thread(target=lambda: print("(raylet) A worker died"))  # Ray prints it in a thread, too
        notice.start()
        notice.join()
        return (shard_texts(work.reader(), shard, work.load(), work) for shard in shards)

    monkeypatch.setattr(ray_engine, "on_ray", printing)
    path = tmp_path / "rows.jsonl"
    path.write_text('{"response": "It is red.", "sources": ["It is blue."]}\n')
    code, said = batch(path, tmp_path / "out", "--engine", "ray")  # fails if anything is on standard output
    assert code == 1
    assert said.startswith("(raylet) A worker died\n")


def test_input_that_changes_during_a_run_is_an_input_error(
    batch: Batch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"response": "It is red.", "sources": ["It is blue."]}\n')

    def changing(shards: Sequence[ShardRange], work: WorkerSettings, *_: object) -> Iterator[ShardTexts]:
        path.write_text('{"response": "It is quite red.", "sources": ["It is blue."]}\n')
        raise CannotJudgeError("Ray: the row is not what it was")
        yield

    monkeypatch.setattr(ray_engine, "on_ray", changing)
    code, line = batch(path, tmp_path / "out", "--engine", "ray")
    assert (code, line.count("\n")) == (2, 1)
    assert f"{path}: the input was changed during the run" in line
    assert "run the command again" in line


def test_one_line_for_each_mistake(batch: Batch, tmp_path: Path) -> None:
    path, out = tmp_path / "rows.csv", tmp_path / "out"
    path.write_text("response,sources\na,b\n")
    for arguments, says in (
        ((path, out, "--source", "text"), "no column 'text' (columns: 'response', 'sources')"),
        ((tmp_path / "none.csv", out), "no such file"),
        ((path, path), "is not a folder"),
        ((path, tmp_path), "has no manifest.json and is not empty"),
        ((path, out, "--engine", "spark"), "unknown engine 'spark'"),
        ((path, out, "--ray-address", "auto"), "the engine is local"),
        ((path, out, "--threshold", "2"), "the threshold is 2.0"),
        ((path, out, "--encoding", "utf-9"), "unknown encoding 'utf-9'"),
        ((path, out, "-d", "none"), "unknown detector 'none'"),
    ):
        code, line = batch(*arguments)
        assert (code, line.count("\n")) == (2, 1)
        assert says in line
        assert not out.exists()


def test_options_of_reading_and_explaining(batch: Batch, tmp_path: Path) -> None:
    path, out = tmp_path / "rows.csv", tmp_path / "out"
    path.write_bytes("id,response,sources\na,Café 3.,Café 4.\na,Café 4.,Café 4.\n".encode("cp1252"))
    code, line = batch(path, out, "--encoding", "cp1252", "--explain", "--fail-over", "0.5")
    assert code == 0
    assert "1 rows have the id of an earlier row" in line
    assert '"correction": "4"' in (out / "results-00000.jsonl").read_text()
    assert "1 rows have the id of an earlier row" in (out / "report.html").read_text()


@pytest.mark.parametrize(
    ("rows", "options", "code"),
    [
        (["clear", "clear"], (), 0),
        (["clear", "flagged", "no sources", "broken"], (), 1),
        (["clear", "flagged"], ("--fail-over", "0.5"), 0),
        (["clear", "no sources"], (), 3),
        (["clear", "broken"], (), 3),
        (["no sources", "broken"], (), 3),
        (["clear", "broken"], ("--allow-unjudged", "0.5"), 0),
        (["flagged", "broken"], ("--fail-over", "0.9"), 1),
    ],
)
def test_exit_codes(batch: Batch, tmp_path: Path, rows: list[str], options: tuple[str, ...], code: int) -> None:
    lines = {
        "clear": '{"response": "It is red.", "sources": "It is red."}',
        "flagged": '{"response": "It is blue.", "sources": "It is red."}',
        "no sources": '{"response": "It is red."}',
        "broken": "{",
    }
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(f"{lines[row]}\n" for row in rows))
    assert batch(path, tmp_path / "out", *options)[0] == code


def test_recognised_columns_are_said(batch: Batch, tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    path.write_text('[{"question": "q", "answer": "It is red.", "contexts": ["It is red.", null]}]')
    code, said = batch(path, tmp_path / "out")
    assert code == 0
    assert said.startswith(f"{path}: columns as in RAGAS 0.1: response 'answer', sources 'contexts'")
    assert f"{path}: sources that are null, left out: 1" in said


def test_a_dry_run_writes_nothing(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"response": "It is red.", "sources": ["It is blue."]}\n' * 3)
    options = ("-d", "judge", "--model", "some", "--dry-run", "--base-url", "http://127.0.0.1:9/v1")
    code, text, _ = command("batch", path, tmp_path / "out", *options)
    assert (code, "3 calls" in text) == (0, True)
    assert not (tmp_path / "out").exists()


def test_lines_for_a_log_have_rate_and_time_left() -> None:
    now = [100.0]
    lines: list[str] = []
    show = progress_lines(lines.append, every=30, clock=lambda: now[0])
    for seconds, done in ((0, 500), (10, 600), (30, 800), (31, 810), (60, 1100)):
        now[0] = 100.0 + seconds
        show("rows", done, 4700)
    assert lines == ["rows: 800 of 4,700, 10 a second, 6 min left", "rows: 1,100 of 4,700, 10 a second, 6 min left"]
