"""What the benchmarks share: a function's parameters as arguments, and rows that say what made them."""

import importlib.util
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import pytest

FILE = Path(__file__).parents[3] / "benchmarks" / "running.py"
spec = importlib.util.spec_from_file_location("running", FILE)
assert spec
assert spec.loader
running = importlib.util.module_from_spec(spec)
spec.loader.exec_module(running)


@running.benchmark()
def main(
    data: Path,
    more: Sequence[str] = ("none",),
    *,
    model: str,
    ways: Annotated[Sequence[str], ("fast", "slow"), "how"] = ("fast",),
    count: int | None = None,
    plain: bool = False,
) -> Iterator[dict[str, Any]]:
    yield {"got": [str(data), list(more), model, list(ways), count, plain], "machine": "abacus"}


def rows(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    monkeypatch.setattr(sys, "argv", ["/folder/some_benchmark.py", *arguments])
    main()
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_parameters_are_arguments(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = rows(monkeypatch, capsys, "x", "--model", "m")
    assert row["got"] == ["x", ["none"], "m", ["fast"], None, False]
    (row,) = rows(monkeypatch, capsys, "x", "a", "b", "--model", "m", "--ways", "slow", "--ways", "fast", "--plain")
    assert row["got"] == ["x", ["a", "b"], "m", ["slow", "fast"], None, True]
    for wrong in (["x"], ["x", "--model", "m", "--ways", "odd"], ["x", "--model", "m", "--count", "few"]):
        with pytest.raises(SystemExit):
            rows(monkeypatch, capsys, *wrong)


def test_rows_say_what_made_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "rows.jsonl"
    for count in ("1", "2"):
        rows(monkeypatch, capsys, "/data/set", "--model", "m", "--count", count, "--rows", str(out))
    first, second = map(json.loads, out.read_text("utf-8").splitlines())
    assert (first["got"][4], second["got"][4]) == (1, 2)
    assert first["command"] == "python benchmarks/some_benchmark.py set --model m --count 1 --rows rows.jsonl"
    assert first["machine"] == "abacus", "what a row says itself stays"
    assert {"python", "versions", "date"} <= first.keys()
    rows(monkeypatch, capsys, "/other/set", "--model", "m", "--count", "1", "--rows", str(out))
    again = [json.loads(line)["got"][4] for line in out.read_text("utf-8").splitlines()]
    assert again == [2, 1], "rows of the same command are replaced"
