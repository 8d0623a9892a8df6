"""One round trip through a Label Studio server: push, annotate over its API, pull, compare every span."""

from veridical.records.types import Case, Example, Judgement, Omission, Source, Span, Verdict
from veridical_lab.annotate.consensus import agree
from veridical_lab.annotate.items import items_of, with_label
from veridical_lab.annotate.label_studio import config_of, read_tasks, tasks_of
from veridical_lab.annotate.label_studio_server import LabelStudio

TEXTS = (
    "It rains in Oslo.",
    "😀 It rains in Oslo. 👩‍👩‍👧 The bridge\r\nwas built in 1899.\r\n\r\nIt is 🇳🇴 tall.",
    "  Ein Häuschen — “quoted” <b>tag</b> & more.\n\tTab and   spaces 🎉🎉 at the end 🎉",
    "中文没有空格。𝒳 is mathematical; e\u0301 is two code points.",
)


def spans_of(text: str) -> list[Span]:
    """Spans all over a text: words, emoji, line ends and the edges."""
    return [Span(0, 2), Span(len(text) // 3, len(text) // 2), Span(len(text) - 3, len(text))]


def span_examples() -> list[Example]:
    sources = [Source("s", f"source 🎈\r\n{text}", must_cover=True) for text in TEXTS]
    cases = [Case(f"c{i}", text, (source,)) for i, (text, source) in enumerate(zip(TEXTS, sources, strict=True))]
    return [Example(case, Judgement(case.id, "none")) for case in cases]


def predictions(examples: list[Example]) -> dict[str, Judgement]:
    marked = {e.case.id: tuple(Verdict(s, 0.9) for s in spans_of(e.case.response)) for e in examples}
    return {id: Judgement(id, "detector", 0.9, verdicts=verdicts) for id, verdicts in marked.items()}


def check_round_trip(studio: LabelStudio) -> dict[str, int]:
    """Push, annotate by accepting the pre-annotations, pull; returns how many spans came back equal, by kind."""
    examples = span_examples()
    of_spans = predictions(examples)
    tasks = tasks_of(examples, "spans", predictions=of_spans)
    project = studio.create("spans", "spans", annotators=1)
    assert studio.push(project, tasks) == len(tasks)
    assert studio.push(project, tasks) == 0  # nothing twice
    for task in studio.tasks(project):
        results = [{k: v for k, v in r.items() if k != "score"} for r in task["predictions"][0]["result"]]
        studio.annotate(task["id"], results, seconds=12.5)
    assert studio.project("spans").config == config_of("spans")
    back = read_tasks(studio.pull(project), examples)
    assert (back.annotations, back.skipped) == (len(examples), {})
    equal = 0
    for example in back.examples:
        (person,) = example.annotations
        assert [v.span for v in person.verdicts] == spans_of(example.case.response)
        assert person.by != "human:None"
        assert dict(person.provenance)["seconds"] == "12.5"
        equal += len(person.verdicts)
    return {"spans": equal, "coverage": _coverage(studio, examples), "consistency": _consistency(studio)}


def _coverage(studio: LabelStudio, examples: list[Example]) -> int:
    left_out = {e.case.id: tuple(Omission("s", s, 1.0) for s in spans_of(e.case.sources[0].text)) for e in examples}
    omitted = {id: Judgement(id, "d", omission=1.0, omissions=of) for id, of in left_out.items()}
    project = studio.create("coverage", "coverage", annotators=1)
    studio.push(project, tasks_of(examples, "coverage", predictions=omitted))
    choice = {"from_name": "coverage", "to_name": "source", "type": "choices", "value": {"choices": ["partly covered"]}}
    for task in studio.tasks(project):
        results = [{k: v for k, v in r.items() if k != "score"} for r in task["predictions"][0]["result"]]
        studio.annotate(task["id"], [*results, choice])
    back = read_tasks(studio.pull(project), examples)
    for example in back.examples:
        (person,) = example.annotations
        assert person.omissions == omitted[example.case.id].omissions
    return sum(len(example.annotations[0].omissions) for example in back.examples)


def _consistency(studio: LabelStudio) -> int:
    case = Case("text", TEXTS[1], (Source("s", TEXTS[1].replace("1899", "1889")),))
    at = TEXTS[1].index("1899")
    verdict = Verdict(Span(at, at + 4), 1.0, correction="1889")
    (item,) = items_of([Example(case, Judgement("text", "corrupt:rules", 1.0, verdicts=(verdict,)))])
    project = studio.create("consistency", "consistency", annotators=4)
    studio.push(project, tasks_of([item], "consistency"))
    (task,) = studio.tasks(project)
    choice = {"from_name": "answer", "to_name": "response", "type": "choices", "value": {"choices": ["inconsistent"]}}
    studio.annotate(task["id"], [choice], seconds=20.0)
    back = read_tasks(studio.pull(project), [item])
    (annotated,) = back.examples
    assert annotated.annotations[0].verdicts == (verdict,)
    assert agree(back.examples).waiting == {"text#0": 3}
    assert with_label(item, True, "x").gold.verdicts == (verdict,)
    return 1


if __name__ == "__main__":  # URL, token in LABEL_STUDIO_API_KEY; prints a row of benchmarks/rows/label-studio.jsonl
    import json
    import sys
    from datetime import UTC, datetime

    import httpx

    version = httpx.get(f"{sys.argv[1]}/api/version", timeout=60).json()["release"]
    with LabelStudio(sys.argv[1], timeout=120) as running:
        counts = check_round_trip(running)
    print(
        json.dumps({"what": "round trip", "version": version, **counts, "date": datetime.now(UTC).date().isoformat()})
    )
