"""A reader for `veridical`: CSV files with the columns response, source and label (supported or unsupported)."""

import csv

from veridical import Case, Judgement, Source
from veridical.datasets import Info
from veridical.records.errors import DataError
from veridical.records.types import Example, Level

INFO = Info(
    name="pairs_csv",
    title="Pairs of a response and a source in CSV",
    licence="your own",
    citation="",
    levels=(Level.RESPONSE,),
)
LABELS = {"supported": 0.0, "unsupported": 1.0}


def read(path, split=None, *, on_bad=None):
    """Yield the examples of the file at `path`; a bad row raises `DataError`, or is handed to `on_bad`."""
    with open(path, newline="", encoding="utf-8") as file:
        rows = csv.DictReader(file)
        for row in rows:
            try:
                gold = LABELS[row["label"]]
                case = Case(str(rows.line_num), row["response"], (Source("source", row["source"]),))
            except KeyError as error:
                bad = DataError(f"unknown label or missing column: {error}", path=path, line=rows.line_num)
                if on_bad is None:
                    raise bad from None
                on_bad(bad)
                continue
            yield Example(case, Judgement(case.id, "human", gold), document=row["source"])
