"""Two runs over the same cases, and runs of one name over time."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tests.history.databases import RIGHT, WRONG, checked
from tests.history.test_store import RUN
from veridical.history.comparing import compare
from veridical.history.records import CaseRow, NotKeptError
from veridical.history.store import History
from veridical.metrics.significance import mcnemar
from veridical.records.errors import InputError


def row(number: int, outcome: str, score: float | None = None, name: str | None = None) -> CaseRow:
    shown = {"omission": None, "flagged": 0, "cause": "", "decided": 0, "beginning": "", "problem": ""}
    return CaseRow(number=number, name=name or str(number), outcome=outcome, score=score, **shown)  # type: ignore[arg-type]


def test_the_figures_of_a_comparison() -> None:
    first = [row(i, "flagged" if i <= 10 else "clear", 0.5) for i in range(1, 41)]
    second = [row(i, "flagged" if i % 40 < 19 else "no_claim", 0.5 + i / 100) for i in range(1, 41)]
    first += [row(41, "unjudged"), row(42, "clear", name="twice"), row(43, "flagged", name="twice")]
    second += [row(41, "clear"), row(42, "clear", name="twice"), row(44, "clear")]
    found = compare(("a", "b"), first, second, limit=3)
    assert (found.pairs, found.unpaired, found.judged) == (42, (1, 1), 41)
    assert found.outcomes["clear"] == {"flagged": 9, "no_claim": 21, "clear": 1}
    assert found.only == (0, 9)
    assert found.p == pytest.approx(2 * 0.5**9)
    assert found.agreement == pytest.approx(32 / 41)
    assert found.kappa == pytest.approx((32 / 41 - (10 * 19 + 31 * 22) / 41**2) / (1 - (10 * 19 + 31 * 22) / 41**2))
    assert found.flagged is not None
    assert (found.flagged[0].value, found.flagged[1].value) == (pytest.approx(10 / 41), pytest.approx(19 / 41))
    assert found.difference is not None
    assert 0 < found.difference.low < found.difference.value < found.difference.high
    assert found.score_difference is not None
    assert found.score_difference.value == pytest.approx(0.205)
    assert found.changed == 31  # the 9, the unjudged one, and 21 that are clear and make no claim
    assert [case.numbers[0] for case in found.cases] == [40, 39, 38]
    assert [case.numbers[0] for case in compare(("a", "b"), first, second, limit=1, offset=2).cases] == [38]


def test_a_comparison_of_nothing_has_no_figures() -> None:
    found = compare(("a", "b"), [row(1, "unjudged")], [row(1, "unjudged"), row(2, "clear")], limit=3)
    assert (found.pairs, found.judged, found.agreement, found.kappa, found.p) == (1, 0, None, None, None)
    same = compare(("a", "a"), [row(1, "clear")], [row(1, "clear")], limit=3)
    assert (same.agreement, same.kappa, same.p, same.changed) == (1.0, None, 1.0, 0)


def test_mcnemar_is_exact_for_many_pairs() -> None:
    assert mcnemar(50_000, 50_000) == 1.0
    assert mcnemar(500, 600) == mcnemar(600, 500) == pytest.approx(0.0028, abs=1e-4)
    assert mcnemar(0, 5000) == 0.0
    with pytest.raises(InputError):
        mcnemar(-1, 2)


def test_runs_of_one_name_are_compared_and_followed(tmp_path: Path) -> None:
    with closing(History(tmp_path / "history.db")) as history:
        run = replace(RUN, name="night.csv")
        first = history.keep(run, checked(WRONG, RIGHT))
        second = history.keep(run, checked(RIGHT, RIGHT))
        other = history.keep(RUN, checked(WRONG))
        found = history.compare(first, second)
        assert (found.only, [case.outcomes for case in found.cases]) == ((1, 0), [("flagged", "clear")])
        points = history.trend(first)
        assert [(point.run, point.judged, point.share and point.share.value) for point in points] == [
            (first, 2, 0.5),
            (second, 2, 0.0),
        ]
        assert [point.run for point in history.trend(other)] == [other]
        with pytest.raises(NotKeptError):
            history.compare(first, "none")
