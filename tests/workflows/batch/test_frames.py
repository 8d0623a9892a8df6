"""Data frames and data sets with the columns of a check."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from veridical.detectors.overlap.detector import Overlap
from veridical.io.rows import Columns
from veridical.records.errors import InputError
from veridical.records.types import Case, Judgement
from veridical.workflows.batch import check_dataframe, check_rows, frames


def test_a_frame_gets_columns_and_keeps_its_index(monkeypatch: pytest.MonkeyPatch) -> None:
    pandas = pytest.importorskip("pandas")
    monkeypatch.setattr(frames, "_ROWS", 2)
    frame = pandas.DataFrame(
        {"answer": ["It is red.", None, "It is blue.", float("nan")], "text": ["It is blue."] * 4, "id": [5, 6, 7, 8]},
        index=[10, 20, 30, 40],
    )
    checked = check_dataframe(frame, "answer", ["text"], detector="overlap")
    assert list(checked.index) == [10, 20, 30, 40]
    assert list(checked["outcome"]) == ["flagged", "unjudged", "clear", "unjudged"]
    assert list(checked["hallucinated"]) == [True, None, False, None]
    assert checked["flagged_spans"][10] == [[6, 9]]
    assert list(checked["failed"]) == [None] * 4
    assert list(frame.columns) == ["answer", "text", "id"]


def test_the_question_of_a_frame_can_be_named() -> None:
    pandas = pytest.importorskip("pandas")
    asked: list[str | None] = []

    class Curious(Overlap):
        def judge(self, cases: Sequence[Case]) -> list[Judgement]:
            asked.extend(case.question for case in cases)
            return super().judge(cases)

    frame = pandas.DataFrame({"answer": ["Red."], "text": ["It is red."], "asked": ["Which colour?"]})
    check_dataframe(frame, "answer", ["text"], question="asked", detector=Curious())
    assert asked == ["Which colour?"]


def test_arrays_in_cells_are_lists_of_sources() -> None:
    pandas = pytest.importorskip("pandas")
    numpy = pytest.importorskip("numpy")
    frame = pandas.DataFrame({"response": ["It is blue."], "sources": [numpy.array(["It is", "blue"], dtype=object)]})
    assert list(check_dataframe(frame, detector="overlap")["outcome"]) == ["clear"]


def test_frames_that_are_refused() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"response": ["a"], "failed": [1]})
    with pytest.raises(InputError, match="the frame has a column 'failed' already"):
        check_dataframe(frame, detector="overlap")
    frame = frame[["response"]]
    with pytest.raises(InputError, match="sources is one text"):
        check_dataframe(frame, sources="text", detector="overlap")
    with pytest.raises(InputError, match="no column 'text'"):
        check_dataframe(frame, sources=["text"], detector="overlap")


def test_rows_of_a_batch_and_one_that_fails() -> None:
    class Fragile(Overlap):
        def judge(self, cases: Sequence[Case]) -> list[Judgement]:
            if any("bad" in case.response for case in cases):
                raise ValueError("no")
            return super().judge(cases)

    check = check_rows(Columns("r", ("s",)), Fragile(), threshold=0.2, prefix="v_")
    added = check({"r": ["It is red.", "bad", 3], "s": [["It is blue.", "Or red."]] * 3})
    assert added["v_outcome"] == ["clear", None, None]
    assert added["v_failed"] == [None, "ValueError: no", "the column 'r' holds 3, not a text (name another)"]


def test_a_data_set_is_mapped() -> None:
    datasets = pytest.importorskip("datasets")
    data = datasets.Dataset.from_dict({"response": ["It is red.", "It is blue."], "sources": [["It is blue."]] * 2})
    checked = data.map(check_rows(detector="overlap"), batched=True, batch_size=1)
    assert checked["outcome"] == ["flagged", "clear"]
    assert checked["flagged_spans"] == [[[6, 9]], []]


def test_logs_in_frames_are_read_by_their_parts() -> None:
    pandas = pytest.importorskip("pandas")
    outputs = [
        {"answer": "It is red.", "contexts": ["It is blue."]},
        {"output": "It is red.", "contexts": ["It is red."]},
    ]
    frame = pandas.DataFrame({"inputs": [{"question": "q"}] * 2, "outputs": outputs, "other": [object(), object()]})
    assert list(check_dataframe(frame, detector="overlap")["outcome"]) == ["flagged", "clear"]
    named = check_dataframe(frame[:1], "outputs.answer", ["outputs.contexts"], detector="overlap")
    assert list(named["outcome"]) == ["flagged"]
    check = check_rows(Columns("outputs.answer", ("outputs.contexts",)), "overlap")
    assert check({"outputs": outputs[:1]})["outcome"] == ["flagged"]
