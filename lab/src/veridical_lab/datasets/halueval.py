"""Right answers, hallucinated ones by ChatGPT, and its replies to user queries with marked spans (Li et al. 2023)."""

from __future__ import annotations

import re

from veridical.datasets import Info
from veridical.datasets.reading import Row, jsonl_rows, text_id
from veridical.records.types import Case, Example, Judgement, Level, Source, Turn, Verdict
from veridical_lab.datasets.files import FileSet
from veridical_lab.datasets.marks import locate
from veridical_lab.datasets.reading import group

INFO = Info(
    name="halueval",
    title="HaluEval",
    licence="MIT",
    citation="Li et al. 2023, HaluEval: A Large-Scale Hallucination Evaluation Benchmark for Large Language Models",
    levels=(Level.RESPONSE, Level.SPAN),
    pairs=True,
    splits=("general", "qa", "dialogue", "summarization"),
    document="the knowledge or document (by its hash); in general the query",
    notes=(
        "general: reference-free; where a span text is not in the reply word for word (annotators' remarks), "
        "no span is marked and a note says so. The others: two examples per row, NUMBER/right and NUMBER/hallucinated, "
        "labelled as a whole."
    ),
)


def _examples(part: str, row: Row) -> list[Example]:
    """Make the examples of a row. The fields of the row tell which kind of task it is."""
    if "chatgpt_response" in row.values:
        question = row.text("user_query")
        case = Case(f"general/{row.number}", row.text("chatgpt_response"), question=question)
        score = row.choice("hallucination", {"yes": 1.0, "no": 0.0})
        spans = locate(case.response, row.texts("hallucination_spans") if score else [])
        notes = () if spans is not None else ("a span text does not stand in the reply; no span is marked",)
        verdicts = tuple(Verdict(span, 1.0) for span in spans or ())
        gold = Judgement(case.id, "human:halueval", score, verdicts=verdicts, notes=notes)
        return [Example(case, gold, text_id(question), group(task="general"))]
    if "right_answer" in row.values:
        answers = {"right": row.text("right_answer"), "hallucinated": row.text("hallucinated_answer")}
        return _pair("qa", row, answers, row.text("knowledge"), question=row.text("question"))
    if "right_response" in row.values:
        pieces = re.split(r"\[(Human|Assistant)\]:", row.text("dialogue_history"))
        turns = tuple(Turn(speaker, text.strip()) for speaker, text in zip(pieces[1::2], pieces[2::2], strict=True))
        answers = {"right": row.text("right_response"), "hallucinated": row.text("hallucinated_response")}
        return _pair("dialogue", row, answers, row.text("knowledge"), history=turns)
    if "right_summary" in row.values:
        answers = {"right": row.text("right_summary"), "hallucinated": row.text("hallucinated_summary")}
        return _pair("summarization", row, answers, row.text("document"))
    raise row.bad(
        "none of the four kinds of HaluEval row",
        hint="a row has one of the fields chatgpt_response, right_answer, right_response, right_summary",
    )


def _pair(
    task: str,
    row: Row,
    answers: dict[str, str],
    knowledge: str,
    *,
    question: str | None = None,
    history: tuple[Turn, ...] = (),
) -> list[Example]:
    source = Source("knowledge", knowledge)
    examples: list[Example] = []
    for version, text in answers.items():
        case = Case(f"{task}/{row.number}/{version}", text, (source,), question, history)
        gold = Judgement(case.id, "human:halueval", float(version == "hallucinated"))
        examples.append(Example(case, gold, text_id(knowledge), group(task=task, version=version)))
    return examples


read = FileSet(INFO, {name: f"{name}_data.json" for name in INFO.splits}, jsonl_rows, _examples).read
