"""Which columns of a row hold a case: named ones, Veridical's own, or those of a known layout, recognised by name."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from veridical.core.errors import InputError
from veridical.core.messages import is_tag
from veridical.core.serialization import CONVERSATION_FIELDS, TAG, decode_case, decode_cases
from veridical.core.strict_json import json_values, parse, quoted
from veridical.core.text import unique_names
from veridical.core.types import Case, Source
from veridical.rows.tables import list_in

__all__ = ["LABELS", "LAYOUTS", "Columns", "Layout", "as_case", "own_case", "own_turns", "value_at"]

_CASE_FIELDS = {field.name for field in fields(Case)} | {TAG}
_SOURCE_FIELDS = {field.name for field in fields(Source)}
LABELS = ("label", "hallucinated", "is_hallucinated", "hallucination", "spans", "document")
"""Names of columns of labelled data, which are left out of a case."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of one tool: alternatives for the response, for the sources, and for the question, best first.

    A name with dots is that column, or a path through objects (also as JSON text in a cell).
    """

    name: str
    responses: tuple[str, ...]
    sources: tuple[str, ...]
    questions: tuple[str, ...]


def _inside(outer: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{outer}.{name}" for name in names)


_ANSWERS = ("answer", "response", "output", "text", "content", "result", "completion", "generation")
_CONTEXTS = (
    *("contexts", "context", "documents", "docs", "sources", "retrieved_contexts", "retrieved_documents"),
    *("source_documents", "passages", "chunks"),
)
_TEXTS = ("text", "page_content", "content", "context", "snippet")
_ORIGINS = ("source", "file_name")
_QUESTIONS = ("question", "query", "input", "user_input", "prompt")
LAYOUTS = (
    Layout("RAGAS", ("response",), ("retrieved_contexts",), ("user_input",)),
    Layout("RAGAS 0.1", ("answer",), ("contexts",), ("question",)),
    Layout(
        "DeepEval", ("actual_output", "actualOutput"), ("retrieval_context", "retrievalContext", "context"), ("input",)
    ),
    Layout(
        "LangSmith",
        _inside("outputs", *_ANSWERS),
        (*_inside("outputs", *_CONTEXTS), *_inside("inputs", *_CONTEXTS)),
        _inside("inputs", *_QUESTIONS),
    ),
    Layout(
        "Langfuse",
        (*_inside("output", *_ANSWERS), "output"),
        (*_inside("input", *_CONTEXTS), *_inside("output", *_CONTEXTS), *_inside("metadata", *_CONTEXTS)),
        (*_inside("input", *_QUESTIONS), "input"),
    ),
    Layout("LlamaIndex", ("response",), ("source_nodes",), ("query", "question", "input")),
    Layout(
        "TruLens", ("output", "main_output"), ("contexts", "context", "retrieved_contexts"), ("input", "main_input")
    ),
    Layout(
        "Hugging Face",
        (*_ANSWERS, "generated_answer", "prediction", "generated_text", "summary", "claim", "hypothesis"),
        (
            *(*_CONTEXTS, "source", "document", "passage", "reference_passages", "knowledge", "doc", "article"),
            *("premise", "evidence"),
        ),
        _QUESTIONS,
    ),
)
_PARTS = {name for layout in LAYOUTS for name in (*layout.responses, *layout.sources)}


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns that rows are read from; those left out are recognised by their names (`LAYOUTS`).

    Attributes:
        response: The column of the response.
        sources: The columns of the sources, each a text or a list of texts.
        must_cover: The same, for sources that the response has to cover.
        id: The column of the row's id; without one the id is the row's number.
        question: The column of the question that the response answers.
        group: The column by which results are grouped.
    """

    response: str | None = None
    sources: tuple[str, ...] = ()
    must_cover: tuple[str, ...] = ()
    id: str | None = None
    question: str | None = None
    group: str | None = None

    @property
    def named(self) -> tuple[str, ...]:
        """The named columns, each once."""
        names = (self.response, *self.sources, *self.must_cover, self.id, self.question, self.group)
        return tuple(dict.fromkeys(name for name in names if name is not None))

    @property
    def maps(self) -> bool:
        """Whether any column but the group is named."""
        return any((self.response, self.sources, self.must_cover, self.id, self.question))

    def is_own_case(self, row: Mapping[str, Any]) -> bool:
        """Return whether a JSON object is a case in Veridical's own form, labels and group apart."""
        return not self.maps and "response" in row and set(row) <= {*_CASE_FIELDS, *LABELS, self.group}

    def resolve(self, row: Mapping[str, Any]) -> tuple[Columns, str | None]:
        """Return the columns of a row with no part left to recognise, and the name of the layout, if it is not ours.

        Args:
            row: Values by column; a column of a table may have any value but null.

        Raises:
            InputError: A named column is missing, or the response is not named and not recognised.
        """
        for name in self.named:
            _get(row, name)
        ours = replace(
            self,
            response=self.response or ("response" if "response" in row else None),
            sources=self.sources or (("sources",) if "sources" in row and not self.must_cover else ()),
            id=self.id or ("id" if row.get("id") is not None else None),
            question=self.question or ("question" if row.get("question") is not None else None),
        )
        if ours.response is not None and (ours.sources or ours.must_cover):
            return ours, None
        for layout in LAYOUTS:
            response = self.response or _first(row, layout.responses)
            source = _first(row, (name for name in layout.sources if name != response))
            if response is not None and (source is not None or ours.sources or ours.must_cover):
                question = self.question or _first(row, (name for name in layout.questions if name != response))
                sources = ours.sources or (() if ours.must_cover or source is None else (source,))
                return replace(ours, response=response, sources=sources, question=question), layout.name
        if ours.response is None:
            hint = f"columns: {', '.join(map(repr, list(row)[:20]))}; name yours with --response and --source"
            raise InputError("no column 'response'", hint=hint)
        return ours, None

    def describe(self) -> str:
        """Return one line that says which column holds which part.

        >>> Columns("answer", ("contexts",), question="question").describe()
        "response 'answer', sources 'contexts', question 'question'"
        """
        parts = (("response", (self.response,)), ("sources", self.sources), ("question", (self.question,)))
        return ", ".join(f"{part} {' and '.join(map(repr, names))}" for part, names in parts if any(names))


_MISSING = object()


def value_at(row: Mapping[str, Any], name: str) -> Any:
    """Return the value of a column, or at a path through objects; raise `KeyError` if there is none.

    >>> value_at({"outputs": '{"answer": "It is red."}'}, "outputs.answer")
    'It is red.'
    """
    if name in row:
        return row[name]
    outer, dot, inner = name.partition(".")
    value = row.get(outer) if dot else None
    if isinstance(value, str) and value.startswith("{"):
        try:
            value = parse(value)
        except InputError:
            value = None
    if not isinstance(value, Mapping):
        raise KeyError(name)
    return value_at(value, inner)


def _get(row: Mapping[str, Any], name: str) -> Any:
    try:
        return value_at(row, name)
    except KeyError:
        hint = f"columns: {', '.join(map(repr, list(row)[:20]))}"
        raise InputError(f"no column {name!r}", hint=hint) from None


def _first(row: Mapping[str, Any], names: Iterator[str] | Sequence[str]) -> str | None:
    for name in names:
        try:
            value_at(row, name)
            return name
        except KeyError:
            continue
    return None


def as_case(
    row: Mapping[str, Any], columns: Columns, *, default_id: str, notes: Counter[str] | None = None
) -> tuple[Case, str | None]:
    """Return the case in a row and the row's group (None without one).

    Args:
        row: Values by column.
        columns: The columns that hold the case, after `Columns.resolve`.
        default_id: The id of a case whose row has none.
        notes: Gets what was left out, and how often.

    Raises:
        InputError: The row lacks a column, or a column holds something other than texts.
    """
    notes = Counter() if notes is None else notes
    response, id = _get(row, columns.response or "response"), _get(row, columns.id) if columns.id else None
    if not isinstance(response, str | None):
        raise InputError(f"the column {columns.response!r} holds {response!r:.40}, not a text", hint="name another")
    sources = [source for name in columns.sources for source in _sources(row, name, False, notes)]
    sources += [source for name in columns.must_cover for source in _sources(row, name, True, notes)]
    ids = [source["id"] for source in sources]
    if len(set(map(str, ids))) < len(ids):  # several chunks of one document
        sources = [{**source, "id": id} for source, id in zip(sources, unique_names(map(str, ids)), strict=True)]
    document: dict[str, Any] = {
        "id": default_id if id is None else _name(id, columns.id),
        "response": response,
        "sources": sources,
    }
    question = _get(row, columns.question) if columns.question else None
    if isinstance(question, str):
        document["question"] = question
    elif question is not None:
        notes["questions that are not texts, left out"] += 1
    return decode_case(document, default_id=default_id), group_of(row, columns)


def own_case(
    row: Mapping[str, Any], columns: Columns, *, default_id: str, notes: Counter[str]
) -> tuple[Case, str | None]:
    """Return the case that a JSON object is, and its group; raise `InputError` if it is none."""
    return decode_case(_own_body(row, columns, notes), default_id=default_id), group_of(row, columns)


def own_turns(row: Mapping[str, Any], columns: Columns, *, default_id: str) -> list[Case]:
    """Return a case for each turn of the assistant in a JSON object that is a conversation."""
    return decode_cases(_own_body(row, columns, Counter()), default_id=default_id)


def _own_body(row: Mapping[str, Any], columns: Columns, notes: Counter[str]) -> dict[str, Any]:
    body = dict(row)
    for name in (*LABELS, *((columns.group,) if columns.group else ())):
        if name not in _CASE_FIELDS:
            body.pop(name, None)
    if "messages" in body:  # a logged request, say, with a model and settings
        extra = [name for name in body if name not in (TAG, *CONVERSATION_FIELDS, *_PARTS)]
        for name in extra:
            del body[name]
        notes[f"other fields of conversations ({', '.join(map(quoted, extra))}), left out"] += bool(extra)
        prompt = body.get("system") or "none"
        notes["system prompts, of which only a marked context is a source"] += not is_tag(prompt)
    if isinstance(body.get("sources"), list):
        body["sources"] = [item for item in body["sources"] if not _is_null(item, notes)]
    return body


def group_of(row: Mapping[str, Any], columns: Columns) -> str | None:
    """Return the group of a row; None without one."""
    group = row.get(columns.group) if columns.group is not None else None
    return None if group is None else _name(group, columns.group)


def _is_null(value: object, notes: Counter[str]) -> bool:
    null = value is None or (isinstance(value, float) and math.isnan(value))
    notes["sources that are null, left out"] += null
    return null


def _name(value: object, column: str | None) -> str:
    if not isinstance(value, str | int | float):
        raise InputError(
            f"the column {column!r} holds a {type(value).__name__}", hint="a text, a number, true or false"
        )
    return value if isinstance(value, str) else json.dumps(value)


def _sources(row: Mapping[str, Any], column: str, must_cover: bool, notes: Counter[str]) -> Iterator[dict[str, Any]]:
    """Yield the sources in a column; their default id is its name, with a number if it holds a list."""
    value = _get(row, column)
    listed = list_in(value) if isinstance(value, str) else list(value) if isinstance(value, list | tuple) else None
    for i, item in enumerate([value] if listed is None else listed, 1):
        if listed is not None and _is_null(item, notes):
            continue
        if item is None:
            return
        document = _document(item) if isinstance(item, Mapping) else {"text": item}
        source = {"id": column if listed is None else f"{column} {i}", **document}
        yield {**source, "must_cover": True} if must_cover else source


def _document(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return a source from an object: ours, or a document of another tool with its text, id and metadata."""
    node = item.get("node")
    if isinstance(node, Mapping):  # of LlamaIndex, beside its score
        item = node
    elif "text" in item and not isinstance(item.get("metadata"), Mapping):
        return dict(item)
    text = next((item[name] for name in _TEXTS if name in item), None)
    if text is None:
        return dict(item)
    metadata = item.get("metadata", item.get("meta"))
    if not isinstance(metadata, Mapping):
        metadata = {}
    id = next(filter(None, (item.get("id"), *map(metadata.get, _ORIGINS), item.get("id_"))), None)
    own = {name: value for name, value in item.items() if name in _SOURCE_FIELDS and value is not None}
    return {
        **own,
        "text": text,
        **({"id": id} if id else {}),
        **({"metadata": json_values(metadata)} if metadata else {}),
    }
