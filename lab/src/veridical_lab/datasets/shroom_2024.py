"""Definitions, translations and paraphrases by models, with five votes each (SemEval-2024 task 6, SHROOM)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from veridical.datasets import Info, OnBad
from veridical.datasets.reading import Row, read_rows, text_id
from veridical.records.types import Case, Example, Judgement, Level, Source
from veridical_lab.datasets.files import matching_files
from veridical_lab.datasets.reading import group, json_rows

INFO = Info(
    name="shroom_2024",
    title="SHROOM 2024",
    licence="CC BY 4.0",
    citation="Mickus et al. 2024, SemEval-2024 Task 6: SHROOM",
    levels=(Level.RESPONSE,),
    splits=("val", "test", "trial"),
    document="the reference text (by its hash)",
    notes=(
        "The response is hyp; the sources are what `ref` names: tgt, src, or either (both). Where tgt alone is the "
        "reference, src is the question. Gold is the majority label of five votes, which are the annotations."
    ),
)
VOTES = {"Hallucination": 1.0, "Not Hallucination": 0.0}


def read(path: Path, split: str | None = None, *, on_bad: OnBad = None) -> Iterator[Example]:
    """Read the rows of every SPLIT.model-*.json file in `path`, or only of one split."""
    what = "SPLIT.model-aware.json or SPLIT.model-agnostic.json"
    for file in matching_files(INFO, path, split, f"{split or '*'}.model-*.json", what):
        yield from read_rows(json_rows(file, on_bad), partial(_example, file.name.removesuffix(".json")), on_bad)


def _example(name: str, row: Row) -> list[Example]:
    reference = row.text("ref")
    fields = {"tgt": ["tgt"], "src": ["src"], "either": ["src", "tgt"]}.get(reference)
    if fields is None:
        raise row.bad(f"'ref' is {reference!r}", hint="allowed: tgt, src, either")
    sources = tuple(Source(field, row.text(field)) for field in fields)
    question = row.text("src") if reference == "tgt" else None
    case = Case(f"{name}/{row.number}", row.text("hyp"), sources, question)
    gold = Judgement(case.id, "human:majority", row.choice("label", VOTES))
    votes = row.texts("labels")
    for vote in votes:
        if vote not in VOTES:
            raise row.bad(f"a vote is {vote!r}", hint=f"allowed: {', '.join(VOTES)}")
    people = tuple(Judgement(case.id, f"human:{i}", VOTES[vote]) for i, vote in enumerate(votes, 1))
    groups = group(task=row.text("task"), track=name, model=row.optional("model"))
    return [Example(case, gold, text_id(sources[-1].text), groups, people)]
