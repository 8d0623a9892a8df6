"""Check the rows of a data frame or a `datasets.Dataset` in a notebook, and add the results as columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from veridical.io.columns import Columns, as_case
from veridical.records.detector import Detectors, takes_detector
from veridical.records.errors import InputError
from veridical.records.types import Case
from veridical.workflows.batch.records import judged_row
from veridical.workflows.batch.worker import batches, check_each
from veridical.workflows.checking import DEFAULT_DETECTOR

if TYPE_CHECKING:
    import pandas

ADDED = ("outcome", "hallucination", "omission", "hallucinated", "omitted", "flagged_spans", "failed")
_ROWS = 2000  # rows that are prepared at once


@takes_detector
def check_rows(
    columns: Columns | None = None,
    detector: Detectors = DEFAULT_DETECTOR,
    *,
    threshold: float | Mapping[str, float] | None = None,
    prefix: str = "",
) -> Callable[[Mapping[str, Sequence[Any]]], dict[str, list[Any]]]:
    """Make a function for `datasets.Dataset.map(…, batched=True)` that checks rows and returns the results as columns.

    Args:
        columns: The columns to read. Default: columns with well-known names (`veridical.io.columns.LAYOUTS`).
        detector: A detector or several, each as a spec such as "overlap", or as an object with `name` and `judge`.
        threshold: The score in [0, 1] from which a finding is flagged, as one number or as a dict (see
            `veridical.check`). Default: the detector's own thresholds, or 0.5.
        prefix: A prefix for the names of the new columns.

    Returns:
        A function that takes columns and returns the columns in `ADDED`. "outcome" is clear, flagged, no_claim or
        unjudged, or None for a row that failed. "hallucination" and "omission" are the highest scores. "hallucinated"
        and "omitted" say whether anything was flagged, and are None if nothing was judged. "flagged_spans" are
        [start, end] pairs of characters. "failed" says why a row could not be read or judged, and is None otherwise.

    >>> check = check_rows(detector="overlap")
    >>> check({"response": ["It is red."], "sources": [["It is blue."]]})["flagged_spans"]
    [[[6, 9]]]
    """
    from veridical.detectors import load_each

    input_columns = columns or Columns()
    loaded = load_each(detector)

    def added(batch: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
        names = input_columns.needed(batch)
        rows = [dict(zip(names, row, strict=True)) for row in zip(*(batch[name] for name in names), strict=True)]
        if not rows:
            input_columns.resolve(dict.fromkeys(batch, ""))
        layout = input_columns.resolve(rows[0])[1] if rows else None
        new: dict[str, list[Any]] = {name: [None] * len(rows) for name in ADDED}
        cases: list[tuple[int, Case]] = []
        for i, row in enumerate(rows):
            try:
                cases.append((i, as_case(row, input_columns.resolve(row, layout)[0], default_id=str(i + 1))[0]))
            except InputError as error:
                new["failed"][i] = str(error)
        for indices in batches([case for _, case in cases]):
            outcomes = check_each([cases[k][1] for k in indices], loaded, threshold)
            for k, outcome in zip(indices, outcomes, strict=True):
                i = cases[k][0]
                if isinstance(outcome, str):
                    new["failed"][i] = outcome
                    continue
                scores = judged_row(i + 1, None, outcome)
                for name in ("hallucination", "omission", "hallucinated", "omitted"):
                    new[name][i] = getattr(scores, name)
                new["outcome"][i] = outcome.outcome.value
                new["flagged_spans"][i] = [[span.start, span.end] for span in outcome.flagged]
        return {prefix + name: values for name, values in new.items()}

    return added


@takes_detector
def check_dataframe(
    frame: pandas.DataFrame,
    response: str | None = None,
    sources: Sequence[str] = (),
    *,
    must_cover: Sequence[str] = (),
    question: str | None = None,
    detector: Detectors = DEFAULT_DETECTOR,
    threshold: float | Mapping[str, float] | None = None,
) -> pandas.DataFrame:
    """Check the rows of a pandas data frame, and return a copy with the results as new columns (`ADDED`).

    `check_rows` describes the new columns. The copy has the same index.

    Args:
        frame: The rows to check. Missing values (NaN, None) count as empty texts.
        response: The column of the response. Default: "response", or another well-known name
            (`veridical.io.columns.LAYOUTS`).
        sources: The columns of the sources. Each value is a text or a list of texts. Default: "sources", or other
            well-known names (`veridical.io.columns.LAYOUTS`).
        must_cover: The columns of further sources, which the response has to cover.
        question: The column of the question. Default: "question", or another well-known name.
        detector: A detector or several, each as a spec such as "overlap", or as an object with `name` and `judge`.
        threshold: The score in [0, 1] from which a finding is flagged, as one number or as a dict (see
            `veridical.check`). Default: the detector's own thresholds, or 0.5.

    Raises:
        InputError: A column is missing, or the frame already has a column with one of the new names.
    """
    import pandas

    for name, names in (("sources", sources), ("must_cover", must_cover)):
        if isinstance(names, str):
            raise InputError(f"{name} is one text", hint=f"give a list of columns: {name}=[{names!r}]")
    columns = Columns(response, tuple(sources), tuple(must_cover), question=question)
    duplicates = [name for name in ADDED if name in frame.columns]
    if duplicates:
        raise InputError(f"the frame has a column {duplicates[0]!r} already", hint="rename it, or leave it out")
    check = check_rows(columns, detector, threshold=threshold)
    read_names = columns.needed(frame.columns)
    new: dict[str, list[Any]] = {name: [] for name in ADDED}
    rows = zip(*(frame[name] for name in read_names), strict=True)
    while part := list(islice(rows, _ROWS)):
        clean = [[_plain(value) for value in row] for row in part]
        for name, values in check(dict(zip(read_names, map(list, zip(*clean, strict=True)), strict=True))).items():
            new[name] += values
    return frame.assign(**{name: pandas.Series(values, frame.index, object) for name, values in new.items()})


def _plain(value: Any) -> Any:
    """Convert a cell to a plain Python value: an array to a list, a missing value to None."""
    from pandas import isna
    from pandas.api.types import is_scalar

    if hasattr(value, "tolist"):
        return value.tolist()
    return None if is_scalar(value) and isna(value) else value
