"""Decisions as labelled examples."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tests.history.databases import WRONG, checked
from tests.history.test_store import RUN
from veridical.datasets import read
from veridical.history.records import PlaceDecision
from veridical.history.store import History
from veridical.io.serialization import encode
from veridical.records.decide import decide
from veridical.records.spans import Span
from veridical.records.types import Case, Checked, Judgement, Source, Thresholds

KEEP = PlaceDecision(action="keep", start=0, end=3)
FIX = PlaceDecision(action="replace", start=13, end=16, text="330", error="value", reason="the guide says 330")
REST = PlaceDecision(action="rest")
LEFT_OUT = PlaceDecision(action="wrong", start=0, end=4, source="s")


@pytest.mark.parametrize(
    ("decisions", "hallucination", "omission", "judged"),
    [
        ([KEEP], None, None, (Span(0, 3),)),
        ([FIX, KEEP], 1.0, None, (Span(0, 3), Span(13, 16))),
        ([KEEP, REST], 0.0, 0.0, None),
        ([REST], 0.0, 0.0, None),
        ([LEFT_OUT], None, 1.0, ()),
        ([replace(LEFT_OUT, action="keep")], None, None, ()),
    ],
)
def test_decisions_are_gold(
    tmp_path: Path,
    decisions: list[PlaceDecision],
    hallucination: float | None,
    omission: float | None,
    judged: tuple[Span, ...] | None,
) -> None:
    case = Case("1", WRONG, (Source("s", "Omit nothing.", must_cover=True),))
    judgement = Judgement("1", "d", 0.9)
    decision = decide(case, judgement, Thresholds())
    with closing(History(tmp_path / "history.db")) as history:
        run = history.keep(RUN, [Checked(case, (judgement,), (decision,), decision.outcome), *checked(WRONG)])
        history.decide(run, 1, decisions)
        (example,) = history.examples(run)  # the other case is not decided
    assert example.case == case
    assert (example.gold.hallucination, example.gold.omission, example.gold.judged) == (hallucination, omission, judged)
    placed = sorted((one.start, one.action) for one in decisions if one.source is None and one.start is not None)
    assert [verdict.score for verdict in example.gold.verdicts] == [float(action != "keep") for _, action in placed]
    if FIX in decisions:
        fixed = example.gold.verdicts[1]
        assert (fixed.correction, fixed.kind, fixed.reason) == ("330", "value", "the guide says 330")
    path = tmp_path / "examples.jsonl"
    path.write_text(encode(example) + "\n", "utf-8")
    assert list(read(f"jsonl:{path}")) == [example]
