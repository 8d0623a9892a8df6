"""Answers, summaries and data descriptions by six models with labelled spans (Niu et al. 2024, RAGTruth)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from veridical.core.spans import Span
from veridical.core.types import Case, Example, Judgement, Level, Source, Verdict
from veridical.datasets import Info, OnBad
from veridical.datasets.files import check_split, one_file
from veridical.datasets.reading import Row, group, jsonl_rows, read_rows

__all__ = ["INFO", "read"]

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
    """The responses in the order of response.jsonl."""
    check_split(INFO, split)
    responses = one_file(INFO, path, None, "response.jsonl")
    sources = {row.name("source_id"): row for row in jsonl_rows(responses.with_name("source_info.jsonl"), on_bad)}
    rows = (row for row in jsonl_rows(responses, on_bad) if split in (None, row.values.get("split")))
    return read_rows(rows, partial(_example, sources), on_bad)


def _example(sources: dict[str, Row], row: Row) -> list[Example]:
    name = row.name("source_id")
    if name not in sources:
        raise row.bad(f"source {name!r} is not in source_info.jsonl")
    info = sources[name]
    question, text = _source(info)
    prompt = info.text("prompt") if info.optional("prompt") else None
    case = Case(row.name("id"), row.text("response"), (Source(name, text),), question, prompt=prompt)
    verdicts = tuple(_verdict(label, case.response) for label in row.rows("labels"))
    gold = Judgement(case.id, "human:ragtruth", float(bool(verdicts)), verdicts=verdicts)
    groups = group(
        task=info.text("task_type"), model=row.text("model"), part=row.text("split"), quality=row.optional("quality")
    )
    return [Example(case, gold, name, groups)]


def _source(info: Row) -> tuple[str | None, str]:
    """The question, if there is one, and the source's text."""
    content = info.get("source_info")
    if isinstance(content, str):
        return None, content
    if isinstance(content, dict) and isinstance(content.get("passages"), str):
        return str(content["question"]) if content.get("question") else None, content["passages"]
    return None, json.dumps(content, ensure_ascii=False)


def _verdict(label: Row, response: str) -> Verdict:
    start, end = label.numeric("start", low=0, high=len(response)), label.numeric("end", low=0, high=len(response))
    span = Span(int(start), int(end))
    if span.of(response) != label.text("text"):
        raise label.bad(f"the label [{span.start}, {span.end}) is {span.of(response)[:40]!r}, not its 'text'")
    return Verdict(span, 1.0, label.text("label_type"), reason=label.optional("meta"))
