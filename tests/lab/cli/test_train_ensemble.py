"""`veridical train ensemble`, and what uses the folder that it writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from veridical.cli import main
from veridical.core.serialization import decode, encode
from veridical.core.types import Case, Example, Judgement, Source, Span, Verdict

pytest.importorskip("scipy")


@pytest.fixture
def data(tmp_path: Path) -> str:
    """Responses of which overlap finds some hallucinations and length others."""
    rows = []
    for i in range(60):
        invented, long = i % 3 == 0, i % 5 == 0
        response = ("The red door" if invented else "The blue door") + " was open all day long" * long
        wrong = (invented or long) and i % 7 != 0
        verdicts = (Verdict(Span(4, 7 if invented else 8), 1.0),) if wrong else ()
        case = Case(str(i), response, (Source("1", "The blue door was open all day long."),))
        rows.append(Example(case, Judgement(str(i), "human:a", float(wrong), verdicts=verdicts), document=str(i)))
    path = tmp_path / "labelled.jsonl"
    path.write_text("".join(encode(row) + "\n" for row in rows), "utf-8")
    return f"jsonl:{path}"


def test_an_ensemble_is_fitted_shown_and_used(
    data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    out = tmp_path / "both"
    command = [
        "train",
        "ensemble",
        data,
        "--members",
        "overlap",
        "--members",
        "length",
        "--out",
        str(out),
        "--all-data",
    ]
    assert main(command) == 0
    shown, said = capsys.readouterr()
    for words in ("response", "span", "cascade", "overlap", "seconds per response", "the cascade takes"):
        assert words in shown
    assert f"use it as ensemble:{out}, or ensemble:{out},cascade=yes" in said
    assert not out.with_name("both.work").exists()
    response, source = tmp_path / "a.txt", tmp_path / "b.txt"
    response.write_text("The red door was open all day long.", "utf-8")
    source.write_text("The blue door was open all day long.", "utf-8")
    page = tmp_path / "page.html"
    for spec in (f"ensemble:{out}", f"ensemble:{out},cascade=yes", "ensemble:overlap,length"):
        main(["check", str(response), str(source), "-d", spec, "--html", str(page)])
        shown = capsys.readouterr().out
        assert "of the decision" in shown
        assert "of the decision" in page.read_text("utf-8")
    main(["check", str(response), str(source), "-d", f"ensemble:{out}", "--json"])
    (judgement,) = json.loads(capsys.readouterr().out)["judgements"]
    assert {key for key, _ in judgement["provenance"]} == {"response: length", "response: overlap"}
    assert main([*command, "--json"]) == 0
    assert decode(capsys.readouterr().out, "ensemble").training["part"] == "all"


@pytest.mark.parametrize(
    "members, error",
    [
        (["overlap"], "1 members for an ensemble"),
        (["overlap", "overlap"], "a member is named twice"),
        (["overlap", "nobody"], "unknown detector 'nobody'"),
        (["overlap", "align:/gone"], "/gone"),
    ],
)
def test_what_cannot_be_fitted_is_one_line(
    members: list[str], error: str, data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    arguments = [part for member in members for part in ("--members", member)]
    assert main(["train", "ensemble", data, *arguments, "--out", str(out), "--all-data"]) == 2
    said = capsys.readouterr().err
    assert error in said
    assert said.count("\n") == 1
    assert not (out / "detector.json").exists()
