"""XSum summaries of five systems. People labelled every white-space token as 0 or 1 (Zhou et al. 2021)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from veridical.datasets import Info, OnBad
from veridical.datasets.reading import Row, read_rows
from veridical.io.files import read_text
from veridical.records.errors import DataError
from veridical.records.types import Case, Example, Judgement, Level, Source, Verdict
from veridical_lab.datasets.files import check_split
from veridical_lab.datasets.marks import flagged_runs, tokens
from veridical_lab.datasets.reading import group

INFO = Info(
    name="xsum_token",
    title="XSum hallucination annotations by token",
    licence="MIT (article text: BBC, for research)",
    citation="Zhou et al. 2021, Detecting Hallucinated Content in Conditional Neural Sequence Generation",
    levels=(Level.RESPONSE, Level.SPAN),
    unit="token",
    document="the BBC article (docid)",
    notes="One case a system and document. The line-aligned files carry \\' for an apostrophe, which is undone.",
)
PARTS = ("docid", "source", "target", "label")


def read(path: Path, split: str | None = None, *, on_bad: OnBad = None) -> Iterator[Example]:
    """Read the examples in all system folders under `path`, in order of name. `path` may also be such a folder."""
    check_split(INFO, split)
    return read_rows(_rows(path), _example, on_bad)


def _rows(path: Path) -> Iterator[Row]:
    targets = sorted([*path.glob("*.target"), *path.glob("*/*.target")])
    if not targets:
        hint = "xsum_token is a folder of system folders, each with NAME.target, NAME.label …"
        raise DataError("no .target file in it", path=path, hint=hint)
    for target in targets:
        columns: dict[str, list[str]] = {}
        for part in PARTS:
            text = read_text(target.with_suffix(f".{part}"))
            if not text:
                raise DataError("the file is empty", path=target.with_suffix(f".{part}"))
            columns[part] = text.removesuffix("\n").split("\n")
        for part, lines in columns.items():
            if len(lines) != len(columns["target"]):
                message = f"{len(lines)} lines, where {target.name} has {len(columns['target'])}"
                raise DataError(message, path=target.with_suffix(f".{part}"))
        for line, values in enumerate(zip(*columns.values(), strict=True), 1):
            row = dict(zip(PARTS, values, strict=True))
            yield Row(target.with_suffix(".label"), line, {**row, "system": target.stem})


def _example(row: Row) -> Iterator[Example]:
    system, document = row.text("system"), row.text("docid").strip()
    response = row.text("target").replace("\\'", "'")
    flags = row.text("label").split()
    if not set(flags) <= {"0", "1"}:
        raise row.bad(f"a label is {min(set(flags) - {'0', '1'})!r}", hint="labels are 0 and 1")
    token_spans = tokens(response)
    if len(flags) != len(token_spans):
        raise row.bad(f"{len(flags)} labels for the {len(token_spans)} tokens of the summary")
    spans = flagged_runs(token_spans, [flag == "1" for flag in flags])
    case = Case(f"{system}/{document}", response, (Source(document, row.text("source").replace("\\'", "'")),))
    verdicts = tuple(Verdict(span, 1.0) for span in spans)
    gold = Judgement(case.id, "human:zhou2021", float(bool(spans)), verdicts=verdicts)
    yield Example(case, gold, document, group(system=system))
