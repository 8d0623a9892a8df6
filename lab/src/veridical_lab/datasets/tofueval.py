"""Summaries of what meetings and interviews say on a topic. Experts labelled each sentence (Tang et al. 2024)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from veridical.datasets import Info, OnBad
from veridical.datasets.reading import Row, read_rows
from veridical.records.errors import DataError
from veridical.records.spans import Span
from veridical.records.types import Case, Example, Judgement, Level, Source, Verdict
from veridical_lab.datasets.files import matching_files
from veridical_lab.datasets.reading import csv_rows, group

INFO = Info(
    name="tofueval",
    title="TofuEval",
    licence="see the publisher's repository (evaluation only)",
    citation="Tang et al. 2024, TofuEval: Evaluating Hallucinations of LLMs on Topic-Focused Dialogue Summarization",
    levels=(Level.RESPONSE, Level.SPAN),
    unit="sentence",
    splits=("dev", "test"),
    document="the transcript (doc_id)",
    notes=(
        "SET_factual_eval_SPLIT.csv, with the transcripts in SET_SPLIT_doc.csv (made with the publisher's snippet: "
        "columns doc_id or meeting_id, and source) anywhere under the folder. Sentences are joined by a space; spans "
        "are whole sentences labelled no."
    ),
)


def read(path: Path, split: str | None = None, *, on_bad: OnBad = None) -> Iterator[Example]:
    """Read the summaries in the order of their first sentences."""
    pattern = f"**/*_factual_eval_{split or '*'}.csv"
    for file in matching_files(INFO, path, split, pattern, "SET_factual_eval_SPLIT.csv"):
        name, _, part = file.stem.partition("_factual_eval_")
        documents_name = f"{name}_{part}_doc.csv"
        documents_file = min((path if path.is_dir() else path.parent).rglob(documents_name), default=None)
        if documents_file is None:
            hint = f"put the transcripts beside it, as {documents_name}: the publisher's readme says how"
            raise DataError("the labels are there, their transcripts are not", path=file, hint=hint)
        documents = {
            row.name("meeting_id" if "meeting_id" in row.values else "doc_id"): row.text("source")
            for row in csv_rows(documents_file, on_bad)
        }
        summaries: dict[tuple[str, str, str], Row] = {}  # one row per summary, with the rows of its sentences
        for row in csv_rows(file, on_bad):
            key = (row.text("doc_id"), row.text("topic"), row.text("model_name"))
            summary = Row(file, row.line, {**row.values, "sentences": []}, len(summaries) + 1)
            summaries.setdefault(key, summary).items("sentences").append(row.values)
        yield from read_rows(summaries.values(), partial(_example, name, part, documents), on_bad)


def _example(name: str, part: str, documents: dict[str, str], row: Row) -> list[Example]:
    document, topic, model = row.text("doc_id"), row.text("topic"), row.text("model_name")
    if document not in documents:
        raise row.bad(f"there is no transcript of {document!r}")
    sentences = sorted(row.rows("sentences"), key=lambda sentence: sentence.numeric("sent_idx"))
    response, verdicts = "", []
    for sentence in sentences:
        text = sentence.text("summ_sent").strip()
        response += f" {text}" if response else text
        if sentence.choice("sent_label", {"yes": 0.0, "no": 1.0}):
            span = Span(len(response) - len(text), len(response))
            verdicts.append(Verdict(span, 1.0, sentence.optional("type"), reason=sentence.optional("exp")))
    case = Case(f"{name}/{part}/{row.number}", response, (Source(document, documents[document]),), question=topic)
    gold = Judgement(case.id, "human:expert", float(bool(verdicts)), verdicts=tuple(verdicts))
    return [Example(case, gold, document, group(data=name, system=model, part=part))]
