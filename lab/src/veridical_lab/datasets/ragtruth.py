"""Answers, summaries and data descriptions by six models with labelled spans (Niu et al. 2024, RAGTruth)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from veridical.datasets import Info, OnBad
from veridical.datasets.reading import Row, jsonl_rows, read_rows
from veridical.records.spans import Span
from veridical.records.types import Case, Example, Judgement, Level, Source, Verdict
from veridical_lab.datasets.files import one_file
from veridical_lab.datasets.reading import group

INFO = Info(
    name="ragtruth",
    title="RAGTruth",
    licence="MIT",
    citation="Niu et al. 2024, RAGTruth: A Hallucination Corpus for Developing Trustworthy Retrieval-Augmented "
    "Language Models",
    levels=(Level.RESPONSE, Level.SPAN),
    splits=("train", "test"),
    document="the source (source_id)",
    notes=(
        "A folder with response.jsonl and source_info.jsonl. Structured sources become JSON text. Every label counts, "
        "also those that are true but not in the source (implicit_true)."
    ),
)


def read(path: Path, split: str | None = None, *, on_bad: OnBad = None) -> Iterator[Example]:
    """Read the responses in the order of response.jsonl."""
    responses = one_file(INFO, path, split, "response.jsonl")
    sources = {row.name("source_id"): row for row in jsonl_rows(responses.with_name("source_info.jsonl"), on_bad)}
    rows = (row for row in jsonl_rows(responses, on_bad) if split in (None, row.values.get("split")))
    return read_rows(rows, partial(_example, sources), on_bad)


def _example(sources: dict[str, Row], row: Row) -> list[Example]:
    name = row.name("source_id")
    if name not in sources:
        raise row.bad(f"source {name!r} is not in source_info.jsonl")
    info = sources[name]
    content = info.get("source_info")
    question: str | None = None
    if isinstance(content, str):
        text = content
    elif isinstance(content, dict) and isinstance(content.get("passages"), str):
        text = content["passages"]
        question = str(content["question"]) if content.get("question") else None
    else:
        text = json.dumps(content, ensure_ascii=False)
    prompt = info.text("prompt") if info.optional("prompt") else None
    case = Case(row.name("id"), row.text("response"), (Source(name, text),), question, prompt=prompt)
    verdicts: list[Verdict] = []
    for label in row.rows("labels"):
        start, end = (int(label.numeric(edge, low=0, high=len(case.response))) for edge in ("start", "end"))
        marked = Span(start, end).of(case.response)
        if marked != label.text("text"):
            raise label.bad(f"the label [{start}, {end}) is {marked[:40]!r}, not its 'text'")
        verdicts.append(Verdict(Span(start, end), 1.0, label.text("label_type"), reason=label.optional("meta")))
    gold = Judgement(case.id, "human:ragtruth", float(bool(verdicts)), verdicts=tuple(verdicts))
    groups = group(
        task=info.text("task_type"), model=row.text("model"), part=row.text("split"), quality=row.optional("quality")
    )
    return [Example(case, gold, name, groups)]
