"""What a paper prints is told apart from what was measured."""

from __future__ import annotations

import pytest

from veridical.bench.published import published
from veridical.bench.table import markdown
from veridical.core.errors import UnknownNameError
from veridical.metrics.registry import METRICS


def test_the_probes_paper() -> None:
    paper = published("chwang2024")
    assert [len(table.lines) for table in paper.tables] == [16, 6, 4, 4]
    assert all(len(line) == len(table.head) == 4 for table in paper.tables for line in table.lines)
    assert set(paper.metrics) <= METRICS.keys()
    numbers = [v for rows in paper.values for row in rows.values() for v in row if v is not None]
    assert len(numbers) == 3 * (16 + 6 + 4 + 4) - 12
    assert all(0 < v < 1 for v in numbers)
    # the same experiments in two tables
    assert paper.values[0]["Pooling E"] == paper.values[2]["organic → organic"]
    assert paper.values[0]["Pooling E-SYNTH"] == paper.values[2]["synthetic → organic"]
    text = markdown(paper.tables)
    assert text.count("the paper's table") == 4
    assert text.count("not measured here") == 4
    assert {value for _, what, value in paper.statements if "95 %" in what} == {4}


def test_another_paper() -> None:
    with pytest.raises(UnknownNameError, match="unknown paper 'chwang'"):
        published("chwang")
