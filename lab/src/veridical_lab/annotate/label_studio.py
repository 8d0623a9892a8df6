"""Ask annotators in Label Studio: make labelling configs and tasks, and read the answers from JSON exports.

| kind | question | after |
|---|---|---|
| `consistency` | is the marked span consistent with the original, in its context? | Liu et al. 2022, §3.3 |
| `spans` | which minimal spans of the response do the sources not support? | CH-Wang et al. 2024, appendix A |
| `coverage` | which parts of this argument does the response leave out? | Chang et al. 2024, §4.1 |
| `claims` | do the sources support this claim? | George & Stuhlmüller 2023 |

Label Studio's editor counts offsets in code points, as Python does, and a line end of two characters as two. Editors
before 1.5 counted UTF-16 units. Every result also has the marked text, which shows how the export counts.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, product
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

from veridical.io.files import read_text
from veridical.io.serialization import encode
from veridical.records.decide import decide, flagged, omitted
from veridical.records.errors import DataError, InputError, UnknownNameError
from veridical.records.spans import Span, union
from veridical.records.types import Case, Example, Judgement, Omission, Source, SourceSpan, Thresholds, Verdict
from veridical.text.segment import sentences
from veridical_lab.annotate.items import answer, item_place

QUESTION_KINDS = ("consistency", "spans", "coverage", "claims")
TASK_MARK = "veridical"  # the key of a task's data that names its case and question
_ANSWERS = {"consistent": False, "inconsistent": True}
_CLAIM_LABELS = {"supported": 0.0, "contradicted": 1.0, "not in the sources": 1.0}
_COVERAGE = ("covered", "partly covered", "left out")
_STYLE = "<Style>.htx-text{ white-space: pre-wrap; }</Style>"  # else Label Studio shows and saves collapsed white space


def config_of(kind: str, *, labels: Sequence[str] = ("hallucinated",)) -> str:
    """Make the labelling config for a kind of question. You can paste it into the settings of a project.

    Args:
        kind: The kind of question, one of `QUESTION_KINDS`.
        labels: For `spans`, the types of hallucination that annotators distinguish, such as intrinsic and extrinsic.
    """
    _check_kind(kind)
    values = "".join(f"<Label value={quoteattr(label)}/>" for label in labels)
    source = '<Header value="Sources"/><Text name="source" value="$source"/>'
    response = '<Header value="Response"/><Text name="response" value="$response"/>'
    question = '<Header value="$question"/>'
    asked = '<Header value="Question of the user"/><Text name="asked" value="$asked"/>'
    body = {
        "consistency": '<Header value="Original"/><Text name="source" value="$source"/>'
        '<Header value="Changed text"/><Text name="response" value="$response"/>'
        '<Labels name="place" toName="response"><Label value="changed"/></Labels>'
        + question
        + _choices("answer", "response", _ANSWERS),
        "spans": f'{asked}{source}{question}<Labels name="hallucination" toName="response">{values}</Labels>{response}',
        "coverage": f"{asked}{response}{question}"
        '<Labels name="omission" toName="source"><Label value="left out"/></Labels>'
        '<Header value="Argument"/><Text name="source" value="$source"/>' + _choices("coverage", "source", _COVERAGE),
        "claims": f'{asked}{source}{response}<Header value="Claim"/><Text name="claim" value="$claim"/>'
        + question
        + _choices("support", "claim", _CLAIM_LABELS)
        + '<TextArea name="reason" toName="claim" placeholder="Why? (optional)" rows="2"/>',
    }[kind]
    return f"<View>{_STYLE}{body}</View>"


def _choices(name: str, to: str, values: Iterable[str]) -> str:
    choices = "".join(f'<Choice value="{value}"/>' for value in values)
    return f'<Choices name="{name}" toName="{to}" choice="single" required="true">{choices}</Choices>'


def _check_kind(kind: str) -> None:
    if kind not in QUESTION_KINDS:
        raise UnknownNameError("kind of question", kind, QUESTION_KINDS)


# ------------------------------------------------------------------------------------------------ export


def tasks_of(
    examples: Iterable[Example],
    kind: str,
    *,
    predictions: Mapping[str, Judgement] | None = None,
    thresholds: Thresholds | None = None,
    labels: Sequence[str] = ("hallucinated",),
) -> list[dict[str, Any]]:
    """Make tasks to import into a Label Studio project with the config of `kind`.

    `consistency` and `spans` make one task per case, and `coverage` makes one per source that must be covered. `claims`
    makes one task per claim of the prediction, or per sentence of the response if the prediction has no claims.

    Args:
        examples: The cases, or for `consistency` the items (`veridical_lab.annotate.items`). Annotators do not see the
            gold.
        kind: The kind of question, one of `QUESTION_KINDS`.
        predictions: Judgements by case id. Annotators see them as pre-annotations and correct them. With `consistency`
            they do not see them, because people would repeat a yes/no answer that is already there.
        thresholds: Which spans of a prediction score high enough to be shown. Default: 0.5 for all levels.
        labels: For `spans`, the labels of the config. A predicted span keeps its own label if the config contains that,
            and gets the first label otherwise.

    Raises:
        InputError: The question does not fit an example, such as a case without anything to cover.
    """
    _check_kind(kind)
    first = labels[0] if labels else "hallucinated"

    def shown(case: Case) -> Judgement:
        prediction = (predictions or {}).get(case.id, Judgement(case.id, by=""))  # without a prediction, nothing
        if kind == "claims":
            return prediction
        decision = decide(case, prediction, thresholds)
        verdicts = [replace(v, label=v.label if v.label in labels else first) for v in flagged(prediction, decision)]
        return replace(prediction, verdicts=tuple(verdicts), omissions=tuple(omitted(prediction, decision)))

    return [task for example in examples for task in _MAKERS[kind](example, shown(example.case))]


def _task(
    kind: str, case: Case, part: str, data: Mapping[str, str], results: Sequence[Any] = (), by: str = ""
) -> dict[str, Any]:
    about = {"kind": f"{kind}/1", "case": case.id, "part": part, "hash": _hash(case)}
    task: dict[str, Any] = {"data": {"asked": case.question or "(none)", **data, TASK_MARK: about}}
    if results:
        task["predictions"] = [{"model_version": by, "result": list(results)}]
    return task


def _hash(case: Case) -> str:
    return hashlib.sha256(encode(case).encode()).hexdigest()[:16]


def _sources(case: Case) -> str:
    return "\n\n".join(source.text for source in case.sources)


def _region(name: str, to: str, text: str, span: Span, label: str, score: float | None = None) -> dict[str, Any]:
    value = {"start": span.start, "end": span.end, "text": span.of(text), "labels": [label]}
    id = f"{name}-{span.start}-{span.end}"
    result = {"id": id, "from_name": name, "to_name": to, "type": "labels", "value": value}
    return result if score is None else {**result, "score": score}


def _consistency_tasks(example: Example, prediction: Judgement) -> list[dict[str, Any]]:
    case, place = example.case, item_place(example)
    new, old = place.span.of(case.response), place.correction or ""
    question = f"In this context, is “{new}” consistent with “{old}” of the original?"
    region = _region("place", "response", case.response, place.span, "changed")
    data = {"source": _sources(case), "response": case.response, "question": question}
    return [_task("consistency", case, "", data, [region], "veridical")]


def _span_tasks(example: Example, prediction: Judgement) -> list[dict[str, Any]]:
    case = example.case
    regions = [
        _region("hallucination", "response", case.response, v.span, v.label or "", v.score) for v in prediction.verdicts
    ]
    question = "Mark the smallest spans of the response that would have to change for the sources to support it."
    data = {"source": _sources(case), "response": case.response, "question": question}
    return [_task("spans", case, "", data, regions, prediction.by)]


def _coverage_tasks(example: Example, prediction: Judgement) -> list[dict[str, Any]]:
    case = example.case
    to_cover = [source for source in case.sources if source.must_cover]
    if not to_cover:
        raise InputError(
            f"case {case.id!r} has no source to cover", hint="set must_cover on the sources, or ask for spans"
        )
    tasks = []
    for source in to_cover:
        omissions = [o for o in prediction.omissions if o.source_id == source.id]
        regions = [_region("omission", "source", source.text, o.span, "left out", o.score) for o in omissions]
        question = "Mark what of this argument the response leaves out."
        data = {"source": source.text, "response": case.response, "question": question}
        tasks.append(_task("coverage", case, source.id, data, regions, prediction.by))
    return tasks


def _claim_tasks(example: Example, prediction: Judgement) -> list[dict[str, Any]]:
    case = example.case
    claims = [(v.claim.text, v.claim.spans) for v in prediction.verdicts if v.claim is not None]
    if not claims:
        claims = [(span.of(case.response), (span,)) for span in sentences(case.response)]
    tasks = []
    for text, spans in claims:
        place = ",".join(f"{span.start}-{span.end}" for span in spans)
        data = {"source": _sources(case), "response": case.response, "claim": text}
        data["question"] = "Do the sources support this claim?"
        tasks.append(_task("claims", case, place, data))
    return tasks


_MAKERS: dict[str, Callable[[Example, Judgement], list[dict[str, Any]]]] = {
    "consistency": _consistency_tasks,
    "spans": _span_tasks,
    "coverage": _coverage_tasks,
    "claims": _claim_tasks,
}


# ------------------------------------------------------------------------------------------------ import


@dataclass(frozen=True, slots=True)
class Imported:
    """The cases in an export with their annotations, how many annotations were used, and how many skipped and why."""

    examples: tuple[Example, ...]
    annotations: int
    skipped: Mapping[str, int] = field(default_factory=dict)


def read_export(path: Path, examples: Sequence[Example]) -> Imported:
    """Read a file with a JSON export of Label Studio. See `read_tasks`.

    Raises:
        DataError: The file is not a JSON export.
    """
    try:
        tasks = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"not JSON: {error}", path=path, hint="export the project as JSON") from None
    try:
        return read_tasks(tasks, examples)
    except InputError as error:
        raise DataError(error.message, path=path, hint=error.hint) from None


def read_tasks(tasks: Any, examples: Sequence[Example]) -> Imported:
    """Add the annotations in exported tasks (format "JSON", not "JSON-MIN") to the examples that they are about.

    Each annotator becomes `human:ID`, where ID is Label Studio's number or the e-mail address. An annotation is skipped
    and counted if it was cancelled, has no answer, has a span that is not in the text, or contradicts itself (says that
    an argument is covered but marks passages as left out).

    Args:
        tasks: The export, as a list of tasks.
        examples: The cases from which the tasks were made.

    Raises:
        InputError: `tasks` is not an export, the project has another config, or a case has changed since.
    """
    cases = {example.case.id: example for example in examples}
    answers: dict[tuple[str, str], list[tuple[str, Any]]] = {}
    skipped: Counter[str] = Counter()
    used = 0
    if not isinstance(tasks, list):
        raise InputError("the export is not a list of tasks", hint="export the project as JSON")
    for number, task in enumerate(tasks, 1):
        about, annotations = _task_about(task, number)
        if about["case"] not in cases:
            skipped["the case is not in the data"] += len(annotations)
            continue
        example = cases[about["case"]]
        if about["hash"] != _hash(example.case):
            raise InputError(
                f"task {number}: case {about['case']!r} is not the one that the task was made from",
                hint="give the data that was exported",
            )
        for annotation in annotations:
            result: Any = "a result has no value"
            if _is_readable(annotation):
                result = "skipped by the annotator"
                if not annotation.get("was_cancelled"):
                    result = _READERS[about["kind"]](example, about["part"], annotation)
            if isinstance(result, str):
                skipped[result] += 1
                continue
            used += 1
            answers.setdefault((about["case"], _annotator(annotation)), []).append((about["kind"], result))
    new: dict[str, list[Judgement]] = {}
    for (id, by), of_annotator in answers.items():
        new.setdefault(id, []).extend(_joined(id, by, of_annotator))
    results = [replace(e, annotations=(*e.annotations, *new.get(e.case.id, ()))) for e in examples]
    return Imported(tuple(results), used, dict(skipped.most_common()))


def _task_about(task: Any, number: int) -> tuple[dict[str, str], list[Any]]:
    """Return what a task is about, as its mark says (the kind without the version), and the annotations of the task."""
    try:
        about = task["data"][TASK_MARK]
        about = json.loads(about) if isinstance(about, str) else dict(about)
        kind, _, version = str(about["kind"]).partition("/")
        about = {"kind": kind, **{key: str(about[key]) for key in ("case", "part", "hash")}}
        annotations = task["annotations"]
    except (KeyError, TypeError, ValueError):
        raise InputError(
            f"task {number} was not made by Veridical, or is not in the format JSON",
            hint="export a project whose tasks come from `veridical annotate export` or `push`, as JSON",
        ) from None
    if not isinstance(annotations, list) or not all(isinstance(a, dict) for a in annotations):
        raise InputError(f"task {number}: its annotations are not a list of objects", hint="export the project as JSON")
    if kind not in QUESTION_KINDS or version != "1":
        raise InputError(
            f"task {number} asks {kind!r} (version {version})", hint=f"one of {', '.join(QUESTION_KINDS)}, version 1"
        )
    names = {str(result.get("from_name")) for a in annotations for result in a.get("result") or () if result}
    if unknown := sorted(names - _CONTROLS[kind] - {"None"}):
        raise InputError(
            f"task {number}: the labelling config has {', '.join(map(repr, unknown))}, which {kind!r} does not have",
            hint=f"set the project's config to that of `veridical annotate config {kind}`",
        )
    return about, annotations


_CONTROLS = {
    "consistency": {"place", "answer"},
    "spans": {"hallucination"},
    "coverage": {"omission", "coverage"},
    "claims": {"support", "reason"},
}


_VALUE_KEYS = {"answer": "choices", "coverage": "choices", "support": "choices", "reason": "text"}  # others: labels


def _is_readable(annotation: Mapping[str, Any]) -> bool:
    """Return whether every result has the value that its control sets, such as a label or a choice."""
    for result in annotation.get("result") or ():
        if not isinstance(result, dict) or (name := result.get("from_name")) is None:
            continue
        value = result.get("value")
        if not isinstance(value, dict) or not value.get(_VALUE_KEYS.get(name, "labels")):
            return False
    return True


def _annotator(annotation: Mapping[str, Any]) -> str:
    by = annotation.get("completed_by")
    name = by.get("email") or by.get("id") if isinstance(by, dict) else by
    return f"human:{name}"


def _seconds(annotation: Mapping[str, Any]) -> float | None:
    return float(annotation["lead_time"]) if annotation.get("lead_time") is not None else None


def _values(annotation: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the values that the control called `name` set in an annotation."""
    return [result["value"] for result in annotation.get("result") or () if result.get("from_name") == name]


def _choice(annotation: Mapping[str, Any], name: str) -> str | None:
    chosen = [value["choices"] for value in _values(annotation, name)]
    return str(chosen[0][0]) if len(chosen) == 1 and len(chosen[0]) == 1 else None


def _regions(annotation: Mapping[str, Any], name: str, text: str) -> list[tuple[Span, str]] | str:
    """Read the labelled spans of a text, or say why one of them cannot be read.

    The offsets are first read as code points, and then as UTF-16 units. After that, both ways are tried again with each
    line end of two characters counted as one. The first way is used that gives the text which is stored with each of
    them. White space may differ, and a line end may be stored as backslash and n.
    """
    values = _values(annotation, name)
    for one_line_end, utf16 in product((False, True), repeat=2):
        offsets = _offsets(text, utf16=utf16, one_line_end=one_line_end)
        spans = [span for value in values if (span := _span_at(offsets, text, value)) is not None]
        if len(spans) == len(values):
            return [(span, str(value["labels"][0])) for span, value in zip(spans, values, strict=True)]
    return "a span that is not in the text"


def _read_consistency(item: Example, part: str, annotation: Mapping[str, Any]) -> Judgement | str:
    label = _choice(annotation, "answer")
    if label not in _ANSWERS:
        return "no answer"
    return answer(item, _annotator(annotation), _ANSWERS[label], seconds=_seconds(annotation))


def _read_spans(example: Example, part: str, annotation: Mapping[str, Any]) -> Judgement | str:
    regions = _regions(annotation, "hallucination", example.case.response)
    if isinstance(regions, str):
        return regions
    seconds = _seconds(annotation)
    return Judgement(
        example.case.id,
        _annotator(annotation),
        float(bool(regions)),
        verdicts=tuple(Verdict(s, 1.0, None if label == "hallucinated" else label) for s, label in sorted(regions)),
        provenance=() if seconds is None else (("seconds", f"{seconds:.1f}"),),
    )


def _read_coverage(example: Example, part: str, annotation: Mapping[str, Any]) -> tuple[Source, list[Span]] | str:
    source = example.case.source(part)
    label = _choice(annotation, "coverage")
    if label not in _COVERAGE:
        return "no answer"
    regions = _regions(annotation, "omission", source.text)
    if isinstance(regions, str):
        return regions
    spans = [span for span, _ in regions]
    if (label == "covered") == bool(spans) and label != "left out":
        return "the annotation contradicts itself"
    return source, spans or ([Span(0, len(source.text))] if label == "left out" else [])


def _read_claim(example: Example, part: str, annotation: Mapping[str, Any]) -> Verdict | str:
    label = _choice(annotation, "support")
    if label not in _CLAIM_LABELS:
        return "no answer"
    pieces = [Span(*map(int, piece.split("-"))) for piece in part.split(",") if piece]
    if not pieces:
        return "a claim without a place in the response"
    reasons = [value["text"] for value in _values(annotation, "reason")]
    reason = " ".join(map(str, reasons[0])) if reasons and isinstance(reasons[0], list) else None
    return Verdict(Span(pieces[0].start, pieces[-1].end), _CLAIM_LABELS[label], label, reason=reason)


_READERS: dict[str, Callable[[Example, str, Mapping[str, Any]], Any]] = {
    "consistency": _read_consistency,
    "spans": _read_spans,
    "coverage": _read_coverage,
    "claims": _read_claim,
}


def _joined(id: str, by: str, answers: Sequence[tuple[str, Any]]) -> list[Judgement]:
    """Join the answers of one annotator about one case.

    All answers about arguments, or about claims, become one judgement. If there are two answers about the same argument
    or claim, the first one counts. Answers to other questions stay separate, so that a contradiction shows.
    """
    kind = answers[0][0]
    if kind == "coverage":
        first = {source.id: (source, spans) for _, (source, spans) in reversed(answers)}
        passages = dict(reversed(first.items()))
        omissions = [Omission(s.id, span, 1.0) for s, spans in passages.values() for span in union(spans)]
        judged = tuple(SourceSpan(s.id, Span(0, len(s.text))) for s, _ in passages.values())
        return [Judgement(id, by, omission=float(bool(omissions)), omissions=tuple(omissions), judged_sources=judged)]
    if kind == "claims":
        verdicts = tuple(sorted({v.span: v for _, v in reversed(answers)}.values(), key=lambda v: v.span))
        judged_spans = tuple(union(v.span for v in verdicts))
        return [Judgement(id, by, max(v.score for v in verdicts), verdicts=verdicts, judged=judged_spans)]
    return [judgement for _, judgement in answers]


# ------------------------------------------------------------------------------------------------ offsets


def _span_at(offsets: Sequence[int], text: str, value: Mapping[str, Any]) -> Span | None:
    """Return the span of characters that a value marks by `offsets`, or None if it is not one of the text."""
    try:
        start, end = int(value["start"]), int(value["end"])
    except (KeyError, TypeError, ValueError):
        return None
    first, last = bisect_left(offsets, start), bisect_left(offsets, end)
    if not 0 <= start <= end or last >= len(offsets) or offsets[first] != start or offsets[last] != end:
        return None
    quote = value.get("text")
    if quote is not None and _bare(text[first:last]) != _bare(str(quote)):
        return None
    return Span(first, last)


def _bare(text: str) -> str:
    return "".join(text.replace("\\n", " ").split())


def _offsets(text: str, *, utf16: bool, one_line_end: bool) -> Sequence[int]:
    """Compute the offset of each character and of the end of the text, counted as the options say."""
    if not utf16 and not one_line_end:
        return range(len(text) + 1)
    sizes = (
        0 if one_line_end and c == "\r" and text[i + 1 : i + 2] == "\n" else 1 + (utf16 and ord(c) > 0xFFFF)
        for i, c in enumerate(text)
    )
    return list(accumulate(sizes, initial=0))
