"""News summaries by nine systems. Three annotators gave each sentence an error type (Pagnoni et al. 2021, FRANK)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from veridical.datasets import Info, OnBad
from veridical.datasets.reading import Row, read_rows
from veridical.records.spans import Span
from veridical.records.types import Case, Example, Judgement, Level, Source, Verdict
from veridical_lab.datasets.consensus import majority
from veridical_lab.datasets.files import one_file
from veridical_lab.datasets.marks import align
from veridical_lab.datasets.reading import group, json_rows

INFO = Info(
    name="frank",
    title="FRANK",
    licence="see the publisher's repository",
    citation="Pagnoni et al. 2021, Understanding Factuality in Abstractive Summarization with FRANK",
    levels=(Level.RESPONSE, Level.SPAN),
    unit="sentence",
    splits=("valid", "test"),
    document="the news article (hash)",
    notes=(
        "human_annotations_sentence.json. Spans are whole sentences. A sentence is hallucinated where more than half "
        "of the annotators give it an error type (anything but NoE); each annotator is kept."
    ),
)


def read(path: Path, split: str | None = None, *, on_bad: OnBad = None) -> Iterator[Example]:
    """Read the summaries in the order of the file."""
    rows = json_rows(one_file(INFO, path, split, "human_annotations_sentence.json"), on_bad)
    return read_rows((row for row in rows if split in (None, row.values.get("split"))), _example, on_bad)


def _example(row: Row) -> list[Example]:
    document, model = row.name("hash"), row.text("model_name")
    case = Case(f"{document}/{model}", row.text("summary"), (Source(document, row.text("article")),))
    sentences, labels = row.texts("summary_sentences"), row.rows("summary_sentences_annotations")
    spans = align(case.response, sentences)
    if spans is None:
        raise row.bad("the sentences do not join to the summary")
    if len(labels) != len(sentences):
        raise row.bad(f"annotations of {len(labels)} sentences for a summary of {len(sentences)}")
    people = sorted({name for sentence in labels for name in sentence.values})
    if not people:
        raise row.bad("no annotator labels any sentence")
    annotations: list[Judgement] = []
    for name in people:
        verdicts: list[Verdict] = []
        judged: list[Span] = []  # sentences that the annotator gave no label are not judged
        for span, sentence in zip(spans, labels, strict=True):
            types = sentence.texts(name) if name in sentence.values else []
            if types:
                judged.append(span)
            errors = sorted(set(types) - {"NoE"})
            if errors:
                verdicts.append(Verdict(span, 1.0, "+".join(errors)))
        partly = tuple(judged) if len(judged) < len(spans) else None
        score = float(bool(verdicts))
        annotations.append(Judgement(case.id, f"human:{name}", score, verdicts=tuple(verdicts), judged=partly))
    groups = group(system=model, part=row.optional("split"))
    return [Example(case, majority(annotations, case), document, groups, tuple(annotations))]
