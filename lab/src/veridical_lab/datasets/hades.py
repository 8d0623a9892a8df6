"""Changed Wikipedia texts without sources. In each, people labelled one marked phrase (Liu et al. 2022, HaDes)."""

from __future__ import annotations

from veridical.datasets import Info
from veridical.datasets.reading import Row, jsonl_rows, text_id
from veridical.records.spans import Span
from veridical.records.types import Case, Example, Judgement, Level, Verdict
from veridical_lab.datasets.files import FileSet
from veridical_lab.datasets.reading import group

INFO = Info(
    name="hades",
    title="HaDes",
    licence="MIT",
    citation="Liu et al. 2022, A Token-level Reference-free Hallucination Detection Benchmark for Free-form "
    "Text Generation",
    levels=(Level.SPAN,),
    splits=("train", "valid", "test"),
    document="the text (by its hash)",
    notes=(
        "Reference-free. Only the marked phrase is judged (1 = hallucinated). The text is as published: lower case, "
        "tokens separated by spaces; the === marks are taken out. The published test lines have no label (-1): they "
        "are kept, with nothing judged and a note that says where the phrase is."
    ),
)
_MARK = "==="


def _example(part: str, row: Row) -> list[Example]:
    words = row.text("replaced").split(" ")
    ids = row.items("replaced_ids")
    if len(ids) != 2 or not all(isinstance(i, int) for i in ids) or not 0 <= ids[0] <= ids[1] < len(words):
        raise row.bad(f"'replaced_ids' is {ids}", hint=f"first and last word of the phrase, from 0 to {len(words) - 1}")
    first, last = ids
    if not (words[first].startswith(_MARK) and words[last].endswith(_MARK)) or row.text("replaced").count(_MARK) != 2:
        raise row.bad(f"words {first} to {last} are not what is between the {_MARK} marks")
    words[first] = words[first].removeprefix(_MARK)
    words[last] = words[last].removesuffix(_MARK)
    response = " ".join(words)
    start = sum(len(word) + 1 for word in words[:first])
    phrase = Span(start, start + len(" ".join(words[first : last + 1])))
    name = str(row.values.get("idx", row.number))
    case = Case(f"{part}/{name}", response)
    label = row.choice("hallucination", {0: 0.0, 1: 1.0, -1: -1.0})
    if label == -1:
        note = f"no label was published for the phrase [{phrase.start}, {phrase.end})"
        gold = Judgement(case.id, "human:hades", judged=(), notes=(note,))
    else:
        verdicts = (Verdict(phrase, 1.0),) if label else ()
        gold = Judgement(case.id, "human:hades", label, verdicts=verdicts, judged=(phrase,))
    return [Example(case, gold, text_id(response), group(part=part))]


read = FileSet(INFO, {name: f"{name}.txt" for name in INFO.splits}, jsonl_rows, _example).read
