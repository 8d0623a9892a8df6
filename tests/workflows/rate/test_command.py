"""`veridical rate` from a batch to the alarm."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.workflows.conftest import Command
from veridical.io.serialization import decode
from veridical.workflows.rate.estimate import RateReport


@pytest.fixture
def batch(tmp_path: Path, command: Command) -> Path:
    """A finished batch of 60 answers: every third is wrong, and the detector flags every second of those."""
    text = ""
    for i in range(60):
        row = {"id": f"x{i}", "answer": "It is red." if i % 6 == 0 else "It is blue.", "passage": "It is blue."}
        text += json.dumps({**row, "model": "ab"[i % 2], "created": f"2026-11-{1 + i // 3:02}"}) + "\n"
    (tmp_path / "answers.jsonl").write_text(text)
    columns = ("--response", "answer", "--source", "passage", "-d", "overlap")
    assert command("batch", tmp_path / "answers.jsonl", tmp_path / "out", *columns)[0] == 1, "something is flagged"
    return tmp_path / "out"


def fill(sheet: Path) -> None:
    with sheet.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["response"] for row in rows} <= {"It is red.", "It is blue."}
    with sheet.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows({**row, "wrong": "yes" if (int(row["row"]) - 1) % 3 == 0 else "no"} for row in rows)


def test_from_a_batch_to_the_rate(batch: Path, command: Command, tmp_path: Path) -> None:
    sheet, metrics = tmp_path / "sheet.csv", tmp_path / "rate.prom"
    code, out, err = command("rate", batch, "--sheet", sheet, "--count", "40", "--by", "model")
    assert (code, out) == (0, "")
    assert err.startswith("wrote 40 answers to ")
    fill(sheet)
    rate = ("rate", batch, "--labels", sheet, "--by", "model", "--by", "created:week")
    code, out, _ = command(*rate, "--json", "--prometheus", metrics)
    report: RateReport = decode(out, "rate")
    assert code == 0
    assert (report.rows, report.flagged, report.labels) == (60, 10, 40)
    assert (report.wrong.low or 1) <= 1 / 3 <= (report.wrong.high or 0)
    assert report.flagged_wrong is not None
    assert report.flagged_wrong.value == 1.0
    groups = [(group.column, group.group) for group in report.groups]
    assert groups[:3] == [("model", "a"), ("model", "b"), ("created:week", "2026-W44")]
    code, out, _ = command(*rate)
    assert "The detector flags 16.7 %." in " ".join(out.split())
    parser = pytest.importorskip("prometheus_client.parser")
    families = {family.name: family for family in parser.text_string_to_metric_families(metrics.read_text())}
    estimates = [s for s in families["veridical_wrong_share"].samples if s.labels["bound"] == "estimate"]
    assert estimates[0].value == pytest.approx(report.wrong.value, abs=1e-5)
    assert {s.labels.get("group") for s in estimates} >= {None, "a", "b"}
    assert "veridical_wrong_share_alarm" not in families


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--fail-over", "0.1"), 1),
        (("--fail-over", "0.5"), 0),
        (("--fail-over", "0.3"), 0),  # it may be over it, but the labels do not show it
        (("--fail-over", "0.35", "--bound", "upper"), 1),
        (("--fail-over", "0.2", "--bound", "estimate"), 1),
        (("--fail-over", "1.5"), 2),
        (("--fail-over", "0.5", "--bound", "middle"), 2),
        (("--by", "colour"), 2),
    ],
)
def test_the_alarm(batch: Path, command: Command, tmp_path: Path, arguments: tuple[str, ...], code: int) -> None:
    sheet, metrics = tmp_path / "sheet.csv", tmp_path / "rate.prom"
    command("rate", batch, "--sheet", sheet, "--count", "40")
    fill(sheet)
    assert command("rate", batch, "--labels", sheet, "--prometheus", metrics, *arguments)[0] == code
    if code < 2:
        assert f'\nveridical_wrong_share_alarm{{run="{batch}"}} {code}\n' in metrics.read_text()


def test_too_few_labels_are_not_clear(batch: Path, command: Command, tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("row,wrong\n1,no\n")
    code, out, err = command("rate", batch, "--labels", tmp_path / "labels.csv", "--fail-over", "0.5")
    assert (code, out) == (3, "")
    assert "answers has a label" in err
    assert command("rate", batch)[0] == 2


@pytest.mark.parametrize(
    ("file", "text", "says"),
    [
        ("answers.jsonl", "{}\n", "the file that was judged is gone or was changed"),
        ("out/shards.jsonl", "", "the batch is not finished"),
    ],
)
def test_a_batch_that_changed_or_is_not_finished_is_refused(
    batch: Path, command: Command, tmp_path: Path, file: str, text: str, says: str
) -> None:
    (tmp_path / file).write_text(text)
    code, _, err = command("rate", batch, "--sheet", tmp_path / "s.csv", "--by", "model")
    assert (code, says in err) == (2, True)


def test_a_hint_names_only_options_that_there_are(batch: Path, command: Command, tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_bytes("row,wrong,response\n1,yes,Grüße\n".encode("cp1252"))
    code, _, errors = command("rate", batch, "--labels", tmp_path / "s.csv")
    assert (code, errors.count("not utf-8 text (save it as UTF-8)")) == (2, 1)
    _, _, errors = command("batch", tmp_path / "s.csv", tmp_path / "new", "--response", "response")
    assert "--encoding cp1252" in errors
