"""Find the columns of a row that contain the parts of a case: response, sources, question and id.

A row is a mapping of column names to values, from a table or a JSON object. You can name the columns yourself.
Otherwise, Veridical's own columns and the columns of other tools are recognised by their names.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from typing import Any

from veridical.io.conversations import is_tag
from veridical.io.serialization import CONVERSATION_FIELDS, TAG, decode_case, decode_cases
from veridical.io.strict_json import json_values, parse
from veridical.io.tables import list_in, objects_in
from veridical.records.errors import InputError
from veridical.records.strings import unique_names
from veridical.records.types import Case, Source

_CASE_FIELDS = {field.name for field in fields(Case)} | {TAG}
_SOURCE_FIELDS = {field.name for field in fields(Source)}
LABELS = ("label", "hallucinated", "is_hallucinated", "hallucination", "spans", "document")
"""Columns with labels, which data sets often have beside the columns of the case. They are ignored in building it."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The column names that a tool, such as RAGAS, uses for the response, the sources and the question.

    A name with dots is either the name of a column or a path into nested objects. The objects may also be JSON text in
    a cell.

    Attributes:
        name: The name of the tool.
        responses: The possible columns of the response, best first.
        sources: The possible columns of the sources, best first.
        questions: The possible columns of the question, best first.
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
_UNREAD = re.compile(r"\s*+(?:\[\s*+)?+(Document\(|\{\s*[\"'](page_content|pageContent|text|content)[\"']\s*:)")
_TEXTS = ("text", "page_content", "pageContent", "content", "context", "snippet", "body", "passage")
_AROUND = ("node", "payload", "_source")  # keys of a document beside its score: LlamaIndex, Qdrant, Elasticsearch
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
            *(*_CONTEXTS, "document", "passage", "reference_passages", "knowledge", "doc", "article"),
            *("premise", "evidence", "source"),
        ),
        _QUESTIONS,
    ),
)
_OUTER = {name.partition(".")[0] for layout in LAYOUTS for name in layout.responses + layout.sources if "." in name}
_RECOGNISED = _CASE_FIELDS.union(_OUTER, *(each.responses + each.sources + each.questions for each in LAYOUTS))
_PARTS = {name for layout in LAYOUTS for name in (*layout.responses, *layout.sources)}


@dataclass(frozen=True, slots=True)
class Columns:
    """The names of the columns with the response, sources and other parts of a case.

    Columns that you do not name are recognised by their usual names in other tools (`LAYOUTS`).

    Attributes:
        response: The column of the response.
        sources: The columns of the sources. Each contains a text or a list of texts.
        must_cover: The columns of sources whose content the response has to cover (`Source.must_cover`). Each contains
            a text or a list of texts.
        id: The column of the row's id. Default: the column `id` if there is one, or else the number of the row.
        question: The column of the question that the response answers.
        group: The column by whose values results are broken down, such as "task".
    """

    response: str | None = None
    sources: tuple[str, ...] = ()
    must_cover: tuple[str, ...] = ()
    id: str | None = None
    question: str | None = None
    group: str | None = None

    @property
    def named(self) -> tuple[str, ...]:
        """The columns that you have named, each once."""
        names = (self.response, *self.sources, *self.must_cover, self.id, self.question, self.group)
        return tuple(dict.fromkeys(name for name in names if name is not None))

    @property
    def maps(self) -> bool:
        """True if you have named any column other than `group`."""
        return any((self.response, self.sources, self.must_cover, self.id, self.question))

    def is_own_case(self, row: Mapping[str, Any]) -> bool:
        """Return whether a JSON object has only the fields of a `Case`, apart from labels and the group.

        It must have the field "response". The result is False if you have named columns (`maps`).
        """
        return not self.maps and "response" in row and set(row) <= {*_CASE_FIELDS, *LABELS, self.group}

    def needed(self, names: Iterable[str]) -> list[str]:
        """Select, from the column names of a table, those that are named or recognised, so that only these are read."""
        wanted = _RECOGNISED | {part for name in self.named for part in (name, name.partition(".")[0])}
        return [name for name in names if name in wanted or name.partition(".")[0] in wanted]

    def resolve(self, row: Mapping[str, Any], known: str | None = None) -> tuple[Columns, str | None]:
        """Find the columns of a row with the parts of a case. Return them, and the name of the layout that they follow.

        A layout is the set of column names of a tool (`Layout`). The name is None for Veridical's own column names. If
        several layouts or columns fit, those with values in this row are preferred to those that are empty.

        Args:
            row: The values of the row, by column.
            known: The name of the layout of earlier rows, which is tried first.

        Raises:
            InputError: A named column is missing, the response is neither named nor recognised, or it is also a source.
        """
        for name in self.named:
            _get(row, name)
        columns, layout = self._resolved(row, known)
        if columns.response in (*columns.sources, *columns.must_cover):
            hint = "name the columns with --response and --source"
            raise InputError(f"the column {columns.response!r} is both the response and a source", hint=hint)
        return columns, layout

    def _resolved(self, row: Mapping[str, Any], known: str | None) -> tuple[Columns, str | None]:
        row = {name: _opened(value) if name in _OUTER else value for name, value in row.items()}
        ours = replace(
            self,
            response=self.response or ("response" if "response" in row else None),
            sources=self.sources or (("sources",) if "sources" in row and not self.must_cover else ()),
            id=self.id or ("id" if row.get("id") is not None else None),
            question=self.question or ("question" if row.get("question") is not None else None),
        )
        if ours.response is not None and (ours.sources or ours.must_cover):
            return ours, None
        attempts = [(layout, filled) for filled in (True, False) for layout in LAYOUTS]
        for layout, filled in sorted(attempts, key=lambda attempt: attempt[0].name != known):
            response = self.response or _first(row, layout.responses, filled)
            source = _first(row, (name for name in layout.sources if name != response), filled)
            if response is not None and (source is not None or ours.sources or ours.must_cover):
                question = self.question or _first(row, [name for name in layout.questions if name != response])
                sources = ours.sources or (() if ours.must_cover or source is None else (source,))
                return replace(ours, response=response, sources=sources, question=question), layout.name
        if ours.response is None:
            hint = f"columns: {', '.join(map(repr, list(row)[:20]))}; name yours with --response and --source"
            raise InputError("no column 'response'", hint=hint)
        return ours, None

    def describe(self) -> str:
        """Describe in one line, for the user, which column is used for the response, the sources and the question.

        >>> Columns("answer", ("contexts",), question="question").describe()
        "response 'answer', sources 'contexts', question 'question'"
        """
        parts = (("response", (self.response,)), ("sources", self.sources), ("question", (self.question,)))
        return ", ".join(f"{part} {' and '.join(map(repr, names))}" for part, names in parts if any(names))


_MISSING = object()


def value_at(row: Mapping[str, Any], name: str) -> Any:
    """Look up the value in a column, or the value at a path into nested objects.

    A path into null gives None. A path through a list of objects gives a list with one value for each object.

    Raises:
        KeyError: There is no such column or path.

    >>> value_at({"outputs": '{"answer": "It is red."}'}, "outputs.answer")
    'It is red.'
    """
    if name in row:
        return row[name]
    outer, dot, inner = name.partition(".")
    if not dot or outer not in row:
        raise KeyError(name)
    value = _opened(row[outer])
    if value is None:
        return None
    if isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
        return [value_at(item, inner) for item in value]
    if not isinstance(value, Mapping):
        raise KeyError(name)
    return value_at(value, inner)


def _opened(value: Any) -> Any:
    """Parse a text that is a JSON object. Return any other value unchanged."""
    if isinstance(value, str) and value.startswith("{"):
        try:
            return parse(value)
        except InputError:
            return value
    return value


def _get(row: Mapping[str, Any], name: str) -> Any:
    try:
        return value_at(row, name)
    except KeyError:
        hint = f"columns: {', '.join(map(repr, list(row)[:20]))}"
        raise InputError(f"no column {name!r}", hint=hint) from None


def _first(row: Mapping[str, Any], names: Iterable[str], filled: bool = False) -> str | None:
    """Return the first of `names` with a value. If there is none, return the first that exists, or None if `filled`."""
    exists = None
    for name in names:
        try:
            value = value_at(row, name)
        except KeyError:
            continue
        if not _is_empty(value):
            return name
        exists = exists or name
    return None if filled else exists


def _is_empty(value: object) -> bool:
    return value is None or (isinstance(value, str) and not value.strip()) or (value != value) is True


def as_case(
    row: Mapping[str, Any], columns: Columns, *, default_id: str, notes: Counter[str] | None = None
) -> tuple[Case, str | None]:
    """Build a case from a row. Return the case, and the row's value in the column `group` (None if there is none).

    Args:
        row: The values of the row, by column.
        columns: The columns that contain the case, as `Columns.resolve` found them.
        default_id: The id for a case whose row has no id.
        notes: A counter of ignored content, such as sources that are null. This function adds to it.

    Raises:
        InputError: The row lacks a column, or a column contains something other than texts.
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
        "id": default_id if _is_empty(id) else _name(id, columns.id),
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
    """Build a case from a JSON object with the fields of a `Case`, or of a conversation (its last assistant turn).

    Return the case, and the object's value in the column `group` (None if there is none).

    Args:
        row: The JSON object.
        columns: The columns that the user has named. Only `group` is used.
        default_id: The id for an object without one.
        notes: A counter of ignored content, such as sources that are null. This function adds to it.

    Raises:
        InputError: The object does not describe a case.
    """
    return decode_case(_own_body(row, columns, notes), default_id=default_id), group_of(row, columns)


def own_turns(row: Mapping[str, Any], columns: Columns, *, default_id: str) -> list[Case]:
    """Build a case for each assistant turn in a JSON object that is a conversation.

    The ids of the cases begin with the id of the conversation, or with `default_id` if it has none. Of `columns`, only
    `group` is used.
    """
    return decode_cases(_own_body(row, columns, Counter()), default_id=default_id)


def _own_body(row: Mapping[str, Any], columns: Columns, notes: Counter[str]) -> dict[str, Any]:
    """Remove from a JSON object the fields that are not part of a case or conversation.

    In a case, an unknown field stays if its name looks misspelt, or if there is no field `sources`, because the unknown
    field may then hold the sources.
    """
    body = dict(row)
    known = {TAG, *CONVERSATION_FIELDS, *_PARTS} if "messages" in row else _CASE_FIELDS
    for name in row.keys() - known:
        if name in LABELS or name == columns.group:
            del body[name]
        elif "messages" in row or ("sources" in row and not _is_misspelt(name)):
            del body[name]
            notes["fields that are no part of a case or conversation, left out"] += 1
    if "messages" in body:
        prompt = body.get("system") or "none"
        notes["system prompts, of which only a marked context is a source"] += not is_tag(prompt)
    if isinstance(body.get("sources"), list):
        body["sources"] = [source_fields(item) for item in body["sources"] if not _is_null(item, notes)]
    return body


def _is_misspelt(name: str) -> bool:
    return bool(get_close_matches(name.lower(), _CASE_FIELDS, n=1, cutoff=0.75))


def group_of(row: Mapping[str, Any], columns: Columns) -> str | None:
    """Return the value in the column `Columns.group` of a row as a text, or None if it has none."""
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
    """Yield the sources in a column. A source without an id gets the column's name, and in a list also its number."""
    value = _get(row, column)
    if isinstance(value, str):
        listed: list[Any] | None = list_in(value)
        if listed is None and (objects := objects_in(value)) is not None and all(map(_is_document, objects)):
            listed = objects
        unread = listed is None and _UNREAD.match(value) is not None
        notes["cells of documents that are neither JSON nor Python, read as texts"] += unread
    else:
        listed = list(value) if isinstance(value, list | tuple) else None
    for i, item in enumerate([value] if listed is None else listed, 1):
        if listed is not None and _is_null(item, notes):
            continue
        if item is None:
            return
        document = _document(item) if isinstance(item, Mapping) else {"text": item}
        source = {"id": column if listed is None else f"{column} {i}", **document}
        yield {**source, "must_cover": True} if must_cover else source


def source_fields(item: Any) -> Any:
    """Convert a retrieved document of another tool to the fields of a `Source`, such as "text" and "metadata".

    A document that already has a field `text`, and any other value, is returned unchanged.

    >>> source_fields({"_id": "a", "_source": {"body": "It is red."}})
    {'id': 'a', 'text': 'It is red.'}
    """
    return _document(item) if _is_document(item) and not item.get("text") else item


def _is_document(item: object) -> bool:
    return isinstance(item, Mapping) and any(name in item for name in (*_AROUND, *_TEXTS))


def _document(item: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a source, or a document of another tool, to the fields of a source. Other fields become metadata."""
    inner = next((item[name] for name in _AROUND if isinstance(item.get(name), Mapping)), None)
    if inner is not None:
        id = item.get("id", item.get("_id"))
        item = {**({} if id is None else {"id": id}), **inner}
    names = [name for name in _TEXTS if name in item]
    used = next((name for name in names if item[name]), next(iter(names), None))
    if used is None:
        return dict(item)
    own = {name: value for name, value in item.items() if name in _SOURCE_FIELDS and value is not None}
    metadata = item.get("metadata", item.get("meta"))
    if not isinstance(metadata, Mapping):
        metadata = {
            name: value for name, value in item.items() if name not in {*_SOURCE_FIELDS, used, "meta", "id_", "_id"}
        }
    id = next(filter(None, (item.get("id"), *map(metadata.get, _ORIGINS), item.get("id_"))), None)
    found = {"text": item[used], "id": id, "metadata": json_values(metadata)}
    return own | {name: value for name, value in found.items() if value is not None and value != {}}
