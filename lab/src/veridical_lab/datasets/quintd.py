"""Texts that four language models wrote from the data of public services. Annotators marked wrong spans."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path

from veridical.datasets import Info, OnBad
from veridical.datasets.reading import Row, jsonl_rows, read_rows
from veridical.io.files import read_text
from veridical.records.spans import Span
from veridical.records.types import Case, Example, Judgement, Level, Source, Verdict
from veridical_lab.datasets.files import found_file, one_file
from veridical_lab.datasets.reading import group, read_json_object

INFO = Info(
    name="quintd",
    title="Quintd-1",
    licence="MIT (inputs: OpenWeather, Our World in Data, Wikidata, a sports service)",
    citation="Kasner and Dušek 2024, Beyond Traditional Benchmarks: Analyzing Behaviors of Open LLMs on Data-to-Text "
    "Generation",
    levels=(Level.RESPONSE, Level.SPAN),
    document="the data that the text is about",
    notes=(
        "annotations_human.jsonl is read (one annotator per text); annotations_gpt-4.jsonl is a model's opinion. The "
        "source is the data as the models got it. A text with a span that is empty or not at its place is left out."
    ),
)
_TYPES = ("incorrect", "not checkable", "misleading", "other")


def read(path: Path, split: str | None = None, *, on_bad: OnBad = None) -> Iterator[Example]:
    """Read the texts in annotations_human.jsonl. The folder outputs/test/ must be next to this file.

    `on_bad` is also called for the rows that are left out.
    """
    file = one_file(INFO, path, split, "annotations_human.jsonl")
    outputs = file.parent / "outputs" / "test"

    @cache
    def texts(dataset: str, model: str) -> list[str]:
        return read_text(outputs / dataset / "default" / f"{model}.out").removesuffix("\n").split("\n")

    @cache
    def inputs(dataset: str) -> list[Row]:
        plain = outputs / dataset / "default" / "mistral.json"
        return read_json_object(found_file(plain) or plain).rows("generated")

    return read_rows(jsonl_rows(file, on_bad), partial(_example, texts, inputs), on_bad)


def _example(texts: Callable[[str, str], list[str]], inputs: Callable[[str], list[Row]], row: Row) -> Iterator[Example]:
    dataset, model = row.text("dataset"), row.text("model")
    if not all(re.fullmatch(r"[\w.-]+", name) for name in (dataset, model)):
        raise row.bad(f"{dataset!r} or {model!r} does not name a file")
    lines, data = texts(dataset, model), inputs(dataset)
    table_i = int(row.numeric("table_idx", low=0, high=min(len(lines), len(data)) - 1))
    prompt_data = re.search(r"\A(?>.*?```\n)(.*?)\n```", data[table_i].text("in"), re.S)
    if prompt_data is None:
        raise data[table_i].bad("the prompt holds no data between ``` lines")
    response = lines[table_i].replace("\\n", "\n")
    verdicts = [_verdict(item, lines[table_i]) for item in row.rows("annotations")]
    case = Case(f"{dataset}/{model}/{table_i}", response, (Source("data", prompt_data[1]),))
    verdicts.sort(key=lambda verdict: verdict.span)
    gold = Judgement(case.id, "human:quintd", float(bool(verdicts)), verdicts=tuple(verdicts))
    yield Example(case, gold, f"{dataset}/{table_i}", group(dataset=dataset, model=model))


def _verdict(item: Row, line: str) -> Verdict:
    """Make the verdict on a marked span. Line breaks, which are written out in `line`, are real ones in our text."""
    kind = int(item.numeric("type", low=0, high=len(_TYPES) - 1))
    start, quote = int(item.numeric("start", low=0)), item.text("text", blank=True)
    if not quote.strip() or not line.startswith(quote, start):
        raise item.unfit("a span that is empty or not at its place in the text")
    begin = len(line[:start].replace("\\n", "\n"))
    text = quote.replace("\\n", "\n")
    left = len(text) - len(text.lstrip())
    return Verdict(Span(begin + left, begin + len(text.rstrip())), 1.0, _TYPES[kind])
