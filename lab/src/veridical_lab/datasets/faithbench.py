"""Hard summaries by ten models. Annotators labelled spans, from unwanted to benign (Bao et al. 2025, FaithBench)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from veridical.datasets import Info, OnBad
from veridical.datasets.reading import Row, read_rows, text_id
from veridical.records.errors import DataError
from veridical.records.spans import Span, complement, union
from veridical.records.types import Case, Evidence, Example, Judgement, Level, Source, Verdict
from veridical_lab.datasets.consensus import at_least
from veridical_lab.datasets.files import check_split
from veridical_lab.datasets.reading import group, json_rows

INFO = Info(
    name="faithbench",
    title="FaithBench",
    licence="CC BY-NC-SA",
    citation="Bao et al. 2025, FaithBench: A Diverse Hallucination Benchmark for Summarization by Modern LLMs",
    levels=(Level.RESPONSE, Level.SPAN),
    document="the passage (by its hash)",
    notes=(
        "Files batch_*.json. A character is hallucinated where any annotator marks it Unwanted or Questionable (the "
        "publisher's own 'worst' rule); Benign spans have score 0. The files only name annotators who marked "
        "something, so only those are in the annotations; a summary without marks counts as clean. A few spans have "
        "no label: they are not judged, unless another annotator judged them."
    ),
)


def read(path: Path, split: str | None = None, *, on_bad: OnBad = None) -> Iterator[Example]:
    """Read the samples of all batches, in the order of the file names."""
    check_split(INFO, split)
    files = [path] if path.is_file() else sorted(path.rglob("batch_*.json"))
    files = [file for file in files if not file.stem.endswith("_annotation")]
    if not files:
        raise DataError("no batch_*.json in it", path=path)
    return read_rows((row for file in files for row in json_rows(file, on_bad, key="samples")), _example, on_bad)


def _example(row: Row) -> list[Example]:
    text = row.text("source")
    case = Case(f"{row.path.stem}/{row.name('sample_id')}", row.text("summary"), (Source("source", text),))
    marks: dict[str, list[Row]] = {}
    for mark in row.rows("annotations"):
        who = next((str(mark.values[key]) for key in ("annotator_id", "annotator") if mark.values.get(key)), "unknown")
        marks.setdefault(who, []).append(mark)
    people = tuple(_annotator(who, marks_of_annotator, case) for who, marks_of_annotator in marks.items())
    gold = at_least(1, people, case) if people else Judgement(case.id, "human:faithbench", 0.0)
    gold = replace(gold, notes=tuple(dict.fromkeys(note for judgement in people for note in judgement.notes)))
    metadata = row.values.get("metadata")
    model = metadata.get("summarizer") if isinstance(metadata, dict) else None
    return [Example(case, gold, text_id(text), group(system=model, batch=row.path.stem), people)]


def _annotator(who: str, marks: Sequence[Row], case: Case) -> Judgement:
    """Make the judgement of one annotator. Spans that the annotator marked without a label are not judged."""
    verdicts: list[Verdict] = []
    for mark in marks:
        labels = mark.texts("label")
        if not labels:
            continue
        hallucinated = float(any(label.startswith(("Unwanted", "Questionable")) for label in labels))
        if not hallucinated and "Benign" not in labels:
            raise mark.bad(f"the label of a span is {labels}", hint="known: Unwanted…, Questionable, Benign")
        span = _place(mark, "summary", case.response)
        evidence: tuple[Evidence, ...] = ()
        if mark.values.get("source_start") is not None and mark.values.get("source_span"):
            evidence = (Evidence("source", _place(mark, "source", case.sources[0].text)),)
        verdicts.append(
            Verdict(span, hallucinated, max(labels, key=len), evidence=evidence, reason=mark.optional("note"))
        )
    unlabelled = [_place(mark, "summary", case.response) for mark in marks if not mark.items("label")]
    score = float(any(verdict.score for verdict in verdicts))
    if not unlabelled:
        return Judgement(case.id, f"human:{who}", score, verdicts=tuple(verdicts))
    rest = complement(unlabelled, len(case.response))
    judged = tuple(union([*rest, *(verdict.span for verdict in verdicts)]))
    notes = ("an annotator marked a span without saying what it is",)
    return Judgement(case.id, f"human:{who}", score or None, verdicts=tuple(verdicts), judged=judged, notes=notes)


def _place(mark: Row, side: str, text: str) -> Span:
    start, end = (int(mark.numeric(f"{side}_{edge}", low=0, high=len(text))) for edge in ("start", "end"))
    span = Span(start, end)
    if span.of(text) != mark.text(f"{side}_span"):
        raise mark.bad(f"the {side} span [{start}, {end}) is {span.of(text)[:40]!r}, not its text")
    return span
