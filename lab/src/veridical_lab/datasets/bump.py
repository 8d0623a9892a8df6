"""CNN/DailyMail summaries, each with a small edit by a person that the article does not support (Ma et al. 2023)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from veridical.datasets import Info, OnBad
from veridical.datasets.reading import Row, read_rows
from veridical.records.types import Case, Example, Judgement, Level, Source, Verdict
from veridical_lab.datasets.files import split_files
from veridical_lab.datasets.marks import diff_spans
from veridical_lab.datasets.reading import group, json_rows

INFO = Info(
    name="bump",
    title="BUMP: unfaithful minimal pairs",
    licence="MIT (article text: CNN/DailyMail, for research)",
    citation="Ma et al. 2023, BUMP: A Benchmark of Unfaithful Minimal Pairs for Meta-Evaluation of "
    "Faithfulness Metrics",
    levels=(Level.RESPONSE, Level.SPAN),
    pairs=True,
    splits=("task1", "task2"),
    document="the news article (article_id)",
    notes=(
        "Two examples per pair: ID/reference, held to be clean, and ID/edited. The span is the word-level difference; "
        "words only left out are marked by the word after the gap. The splits are the set's two tasks (errors of a "
        "given type; of a type the editor chose). error_type is the corrected one."
    ),
)


def read(path: Path, split: str | None = None, *, on_bad: OnBad = None) -> Iterator[Example]:
    """Read the pairs: the reference summary and then the edited one."""
    files = split_files(INFO, path, split, {task: f"{task}_dataset.json" for task in INFO.splits})
    rows = (row for _, file in files for row in json_rows(file, on_bad))
    return read_rows(rows, _pair, on_bad)


def _pair(row: Row) -> Iterator[Example]:
    task = re.match(r"task\d+", row.path.name)
    pair = f"{task[0]}/{row.name('id')}" if task else row.name("id")
    document = row.name("article_id")
    kind = row.values.get("corrected_error_type") or row.text("error_type")
    source = Source(document, row.text("article"))
    before, after = row.text("reference_summary"), row.text("edited_summary")
    spans = diff_spans(before, after)
    if not spans:
        raise row.bad("the edited summary is the reference", hint="an edit must change a word")
    for version, text, marked in (("reference", before, []), ("edited", after, spans)):
        case = Case(f"{pair}/{version}", text, (source,))
        verdicts = tuple(Verdict(span, 1.0, str(kind)) for span in marked)
        gold = Judgement(case.id, "human:editor", float(bool(marked)), verdicts=verdicts)
        groups = group(error_type=kind, task=task[0] if task else None, version=version)
        yield Example(case, gold, document, groups)
