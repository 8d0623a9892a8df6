"""What `check --json` and the printed report say of bundled cases stays as it is, for detectors of every family.

`python -m tests.test_golden` writes the stored results anew after an intended change; read the difference before you
commit it.
"""

from __future__ import annotations

import json
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from veridical.cli import main
from veridical.detectors.default.detector import PACKAGED

FOLDER = Path(__file__).with_name("golden")
CASES, RESULTS, REPORT = FOLDER / "cases.jsonl", FOLDER / "results.jsonl", FOLDER / "report.txt"
DETECTORS = [
    "default",
    "overlap",
    "overlap:values",
    "verify:overlap",
    "verify:overlap:values,citations=all+missing+each",
    f"selfcheck:overlap,model=scripted:{FOLDER / 'replies.json'},samples=2",
]
TOLERANCE = 0.05  # a processor that adds up in another order rounds some activations to the next 8-bit number


def run(*args: str) -> str:
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()) as printed:
        patch.setenv("COLUMNS", "80")
        assert main(["check", str(CASES), "--explain", *args]) == 1
    return printed.getvalue()


def results() -> list[Any]:
    lines = [json.loads(line) for line in run("--json", *(f"--detector={each}" for each in DETECTORS)).splitlines()]
    for line in lines:
        del line["case"]
        for judgement in line["judgements"]:
            del judgement["case_id"]
    return lines


def without_close_calls(found: list[Any], stored: list[Any]) -> None:
    """Drop what another processor may see otherwise: how the default detector explains a word, except by another value.

    And what is decided about a word or response whose score is close to the threshold.
    """
    for one, other in zip(found, stored, strict=True):
        highest = other["judgements"][0].get("hallucination", 0.0)
        if abs(highest - other["decisions"][0]["thresholds"]["response"]) <= TOLERANCE:
            for line in (one, other):
                del line["outcome"], line["decisions"][0]["outcome"], line["decisions"][0]["hallucination"]
                line["decisions"][0]["verdicts"] = []
        threshold = other["decisions"][0]["thresholds"]["span"]
        verdicts = other["judgements"][0].get("verdicts", [])
        clear = {index for index, verdict in enumerate(verdicts) if abs(verdict["score"] - threshold) > TOLERANCE}
        sure = {index for index in clear if "correction" in verdicts[index]}
        for line in (one, other):
            for index, verdict in enumerate(line["judgements"][0].get("verdicts", [])):
                for name in () if index in sure else set(verdict) - {"span", "score"}:
                    del verdict[name]
            line["decisions"][0]["verdicts"] = sorted(clear & set(line["decisions"][0].get("verdicts", [])))


def rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: rounded(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [rounded(inner) for inner in value]
    return round(value, 6) if isinstance(value, float) else value


def differences(found: Any, stored: Any, place: str = "") -> list[str]:
    if isinstance(found, dict) and isinstance(stored, dict) and found.keys() == stored.keys():
        pairs = [(f"{place}.{key}", found[key], stored[key]) for key in stored]
    elif isinstance(found, list) and isinstance(stored, list) and len(found) == len(stored):
        pairs = [(f"{place}[{i}]", *pair) for i, pair in enumerate(zip(found, stored, strict=True))]
    elif isinstance(found, float) and isinstance(stored, float):
        return [] if found == pytest.approx(stored, abs=TOLERANCE) else [f"{place}: {found}, stored {stored}"]
    else:
        return [] if found == stored else [f"{place}: {found!r:.200}, stored {stored!r:.200}"]
    return [line for name, one, other in pairs for line in differences(one, other, name)]


@pytest.mark.skipif(not PACKAGED.is_dir(), reason="the default detector is not in this checkout")
def test_results_are_those_that_are_stored() -> None:
    stored = [json.loads(line) for line in RESULTS.read_text("utf-8").splitlines()]
    found = rounded(results())
    without_close_calls(found, stored)
    assert not differences(found, stored)


def test_the_printed_report_is_the_stored_one() -> None:
    assert run("--detector=overlap") == REPORT.read_text("utf-8")


if __name__ == "__main__":
    lines = (json.dumps(rounded(each), ensure_ascii=False, separators=(",", ":")) for each in results())
    RESULTS.write_text("\n".join(lines) + "\n", "utf-8")
    REPORT.write_text(run("--detector=overlap"), "utf-8")
