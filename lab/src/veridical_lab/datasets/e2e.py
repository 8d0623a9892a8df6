"""Descriptions of restaurants that leave out or add some attributes (Dušek et al. 2019, cleaned E2E)."""

from __future__ import annotations

import re
from collections import Counter

from veridical.datasets import Info
from veridical.datasets.reading import Row
from veridical.records.spans import Span
from veridical.records.types import Case, Example, Judgement, Level, Omission, Source, Verdict
from veridical_lab.datasets.files import FileSet
from veridical_lab.datasets.reading import csv_rows, group

_FILES = {"train": "train-fixed.no-ol.csv", "dev": "devel-fixed.no-ol.csv", "test": "test-fixed.csv"}
INFO = Info(
    name="e2e",
    title="E2E NLG, cleaned",
    licence="CC BY-SA 4.0",
    citation="Dušek et al. 2019, Semantic Noise Matters for Neural Natural Language Generation",
    levels=(Level.RESPONSE, Level.COVERAGE),
    splits=tuple(_FILES),
    document="the original attributes (orig_mr)",
    notes=(
        "Every slot of orig_mr, what the writer was asked to say, is a source that must be covered, with an omission "
        "of score 0 or 1; a slot that the corrected mr has beside them is hallucinated. Labels come from the "
        "publisher's slot-matching script. Spans are marked where the value of every such slot is in the text; "
        "otherwise the response counts as hallucinated without saying where, with a note."
    ),
)
_SLOT = re.compile(r"(?<![^,\[\]])([^,\[\]]++)\[([^\[\]]*+)\]\s*+(?:,|$)")


def _slots(row: Row, key: str) -> list[tuple[str, str]]:
    """Parse a field like "name[Alimentum], area[riverside]" into (name, value) pairs."""
    text = row.text(key)
    slots = [(match[1].strip(), match[2]) for match in _SLOT.finditer(text)]
    if ", ".join(f"{name}[{value}]" for name, value in slots) != text.strip():
        raise row.bad(f"{key!r} is not a list of name[value] slots")
    return slots


def _example(part: str, row: Row) -> list[Example]:
    response = row.text("ref")
    original, corrected = _slots(row, "orig_mr"), _slots(row, "mr")
    times: Counter[str] = Counter()
    sources: list[Source] = []
    for name, value in original:
        times[name] += 1
        id = name if times[name] == 1 else f"{name}#{times[name]}"
        sources.append(Source(id, f"{name}[{value}]", must_cover=True))
    case = Case(f"{part}/{row.number}", response, tuple(sources))
    omissions = tuple(
        Omission(source.id, Span(0, len(source.text)), float(slot not in corrected))
        for source, slot in zip(sources, original, strict=True)
    )
    added = [slot for slot in corrected if slot not in original]
    verdicts: list[Verdict] = []
    notes: tuple[str, ...] = ()
    for name, value in added:
        match = re.search(rf"(?<!\w){re.escape(value)}(?!\w)", response, re.IGNORECASE)
        if match is None:  # then no value is marked
            verdicts = []
            notes = (f"the value of the added slot {name}[{value}] does not stand in the text",)
            break
        verdicts.append(Verdict(Span(*match.span()), 1.0, f"{name}[{value}]"))
    left_out = float(any(o.score for o in omissions))
    gold = Judgement(case.id, "human:e2e", float(bool(added)), left_out, tuple(verdicts), omissions, notes=notes)
    return [Example(case, gold, row.text("orig_mr"), group(fixed=row.text("fixed"), part=part))]


read = FileSet(INFO, _FILES, csv_rows, _example).read
