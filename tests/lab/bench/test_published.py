"""What a paper prints is told apart from what was measured."""

import pytest

from veridical.records.errors import UnknownNameError
from veridical_lab.bench.published import published
from veridical_lab.metrics.registry import METRICS
from veridical_lab.report.result_tables import published_tables
from veridical_lab.report.table_formats import markdown


def test_the_probes_paper() -> None:
    paper = published("chwang2024")
    tables = published_tables(paper)
    assert [len(table.lines) for table in tables] == [16, 6, 4, 4]
    assert all(len(line) == len(table.head) == 4 for table in tables for line in table.lines)
    assert {table.metric for table in paper.tables} <= METRICS.keys()
    numbers = [v for table in paper.tables for row in table.rows.values() for v in row if v is not None]
    assert len(numbers) == 3 * (16 + 6 + 4 + 4) - 12
    assert all(0 < v < 1 for v in numbers)
    # the same experiments in two tables
    assert paper.tables[0].rows["Pooling E"] == paper.tables[2].rows["organic → organic"]
    assert paper.tables[0].rows["Pooling E-SYNTH"] == paper.tables[2].rows["synthetic → organic"]
    text = markdown(tables)
    assert text.count("the paper's table") == 4
    assert text.count("not measured here") == 4
    assert {value for _, what, value in paper.statements if "95 %" in what} == {4}


def test_another_paper() -> None:
    with pytest.raises(UnknownNameError, match="unknown paper 'chwang'"):
        published("chwang")
