"""Convert records to versioned JSON documents and back, and describe them by JSON Schema.

A document is one JSON object with the fields of the record and the tag `"veridical": "<kind>/<version>"`, such as
`"veridical": "case/1"`. If you write a case by hand, you can omit this tag and the ids, and write a source as a bare
string. Unknown fields raise an error that says where they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, SchemaValidator

from veridical.io.conversations import is_tag, read_conversation
from veridical.io.jsonl import Line, read_lines
from veridical.io.strict_json import named, parse, quoted
from veridical.records.errors import InputError, UnknownNameError, WireError
from veridical.records.registry import Registry
from veridical.records.strings import unique_names
from veridical.records.types import Case

TAG = "veridical"


KINDS = Registry(
    "kind of document",
    {
        "case": "veridical.records.types:Case",
        "judgement": "veridical.records.types:Judgement",
        "example": "veridical.records.types:Example",
        "check": "veridical.records.types:Checked",
        "revision": "veridical.records.types:Revision",
    },
    group="veridical.documents",
)
_VERSIONS = {"check": 2, "batch": 2, "batch_shard": 2}  # all other kinds are at version 1


def _load(kind: str) -> type[Any]:
    """Import the record class of a kind, and make pydantic read it strictly."""
    cls: type[Any] = KINDS.load(kind)
    _make_strict(cls)
    return cls


def _make_strict(cls: type[Any]) -> None:
    """Switch off pydantic's type conversions for a record class and the record classes in its fields."""
    if "__pydantic_config__" not in vars(cls):
        # pydantic reads a dataclass's settings from this attribute, so the modules of records need not import pydantic
        cls.__pydantic_config__ = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
        for hint in get_type_hints(cls).values():
            for inner in _records_in(hint):
                _make_strict(inner)


@cache
def _adapter(kind: str) -> TypeAdapter[Any]:
    return TypeAdapter(_load(kind))


def _version(kind: str) -> int:
    return _VERSIONS.get(kind, 1)


def tag_of(kind: str) -> str:
    """Return the value of the field "veridical" in documents of a kind, such as "case/1" for the kind "case"."""
    return f"{kind}/{_version(kind)}"


def kind_of(record: object) -> str:
    """Return the kind of a record, such as "case" or "judgement".

    Raises:
        WireError: The type of the record has no JSON form.
    """
    cls = type(record)
    kind = KINDS.name_of(f"{cls.__module__}:{cls.__qualname__}")
    if kind is None:
        raise WireError(f"{cls.__name__} has no JSON form", hint=f"one of {', '.join(KINDS)}")
    return kind


def encode(record: object, *, indent: int | None = None, sources: bool = True) -> str:
    """Convert a record, such as a `Case`, to a JSON document. Fields with their default value are omitted.

    The document is on one line unless you set `indent`. If you set `sources` to False, the sources of the case inside
    the record are omitted. Its history is omitted, too, because earlier prompts may contain sources.

    Raises:
        WireError: The record contains a value that JSON in UTF-8 cannot hold, for example NaN, infinity or a lone
            surrogate.

    >>> encode(Case("1", "Hello"))
    '{"veridical": "case/1", "id": "1", "response": "Hello"}'
    """
    kind = kind_of(record)
    try:
        without = None if sources else {"case": {"sources", "history"}}
        body = _adapter(kind).dump_python(record, mode="json", exclude=without, exclude_defaults=True, warnings="error")
        document = json.dumps({TAG: tag_of(kind), **body}, ensure_ascii=False, indent=indent, allow_nan=False)
        document.encode()
    except UnicodeError:
        raise WireError(f"{kind}: {HALF_CHARACTER}") from None
    except PydanticSerializationError as error:
        raise WireError(f"{kind}: {error}", hint="records hold plain Python strings, numbers and records") from None
    except ValueError:
        raise WireError(f"{kind}: a number is infinite or not a number", hint="JSON has no such number") from None
    return document


HALF_CHARACTER = "half of a surrogate pair stands alone in a text"


def _shown(tag: object) -> str:
    return quoted(tag) if isinstance(tag, str) else f"a JSON {named(tag)}"


def decode(text: str | bytes | Mapping[str, Any], kind: str | None = None) -> Any:
    """Convert a JSON document to its record, such as a `Case`. This reverses `encode`.

    The document can be a text or an object from `parse`. With a `kind`, only documents of this kind are accepted, and
    they need no field "veridical".

    Raises:
        WireError: The kind or version is unknown, a field is unknown or missing, or a value is out of its range.

    >>> decode('{"veridical": "case/1", "id": "1", "response": "Hello", "sources": ["Hi"]}').sources[0].id
    '1'
    """
    document = dict(text) if isinstance(text, Mapping) else parse(text)
    tag_kind = _kind(document.pop(TAG, None), kind)
    if tag_kind == "case":
        document = _case_by_hand(document, None)
    elif isinstance(document.get("case"), dict):
        document["case"] = _case_by_hand(document["case"], None)
    return _validate(document, tag_kind)


def decode_case(text: str | bytes | Mapping[str, Any], *, default_id: str) -> Case:
    """Convert a JSON document to a case. It may be written by hand, without ids and with sources as bare strings.

    A case without an id is called `default_id`. If the document is a conversation (`messages`), the case is the last
    assistant turn.

    >>> decode_case('{"response": "Hello", "sources": "Hi"}', default_id="line 1").id
    'line 1'
    """
    return decode_cases(text, default_id=default_id)[-1]


def decode_cases(text: str | bytes | Mapping[str, Any], *, default_id: str) -> list[Case]:
    """Convert a JSON document to cases. It may be a single case or a conversation.

    A conversation has the field `messages`, and gives one case for each assistant turn. A case or conversation without
    an id is called `default_id`.

    >>> chat = {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]}
    >>> [(case.id, case.response) for case in decode_cases(chat, default_id="a")]
    [('a message 2', 'Hello')]
    """
    document = dict(text) if isinstance(text, Mapping) else parse(text)
    _kind(document.pop(TAG, None), "case")
    if "messages" in document:
        return _conversation(document, default_id)
    case: Case = _validate(_case_by_hand(document, default_id), "case")
    return [case]


CONVERSATION_FIELDS = ("id", "messages", "sources", "system", "assistant")


def _conversation(document: dict[str, Any], default_id: str) -> list[Case]:
    if stray := next((name for name in document if name not in CONVERSATION_FIELDS), None):
        raise WireError(f"conversation: {UnknownNameError('field', stray, CONVERSATION_FIELDS)}")
    body: dict[str, Any] = {name: document[name] for name in ("id", "sources") if name in document}
    shared: Case = _validate(_case_by_hand(body | {"response": ""}, default_id), "case")
    messages, system = document["messages"], document.get("system", "none")
    assistant = document.get("assistant", False)
    if system in (None, "", []):  # as in requests to Anthropic without a prompt
        system = "none"
    if not isinstance(messages, list) or not isinstance(system, str | list) or not isinstance(assistant, bool):
        raise WireError(
            "conversation: a field of another type",
            hint='"messages" is a list, "system" is "none", "all", a tag or a prompt, "assistant" true or false',
        )
    part, prompt = (system, "") if isinstance(system, str) and is_tag(system) else ("context", system)
    try:
        return read_conversation(
            messages,
            id=shared.id,
            sources=shared.sources,
            system=part,
            assistant=assistant,
            prompt=prompt,
        )
    except InputError as error:
        raise WireError(f"conversation: {error.message}", hint=error.hint) from None


def read_documents(path: Path, *kinds: str, hint: str | None = None) -> Iterator[tuple[Line, Any]]:
    """Yield each line of a JSON Lines file together with its record. Allowed are documents of the given `kinds`.

    Raises:
        DataError: A line contains anything else. The error names the file and the line, and has the hint `hint`.
    """
    for line in read_lines(path):
        try:
            document = parse(line.text)
            if document.get(TAG) not in [tag_of(kind) for kind in kinds]:
                wanted = " or ".join(map(tag_of, kinds))
                raise WireError(f'"{TAG}" is {_shown(document.get(TAG))}, not {wanted}', hint=hint)
            record = decode(document)
        except WireError as error:
            raise line.error(error.message, hint=error.hint or hint) from None
        yield line, record


def _kind(tag: object, wanted: str | None) -> str:
    """Return the kind that `tag` names. Raise `WireError` for an unknown or unwanted kind, or another version."""
    if tag is None:
        if wanted is None:
            raise WireError(f"the document does not say what it is: no {TAG!r} field", hint=f'"{TAG}": "case/1", say')
        return wanted
    kind, slash, version = tag.partition("/") if isinstance(tag, str) else ("", "", "")
    if kind not in KINDS or not slash:
        raise WireError(
            f'"{TAG}": {_shown(tag)} is not a known document', hint=f"known: {', '.join(map(tag_of, KINDS))}"
        )
    if version != str(_version(kind)):
        hint = f"this Veridical reads version {_version(kind)}, an older or newer one may read it"
        raise WireError(f"a {kind} of version {quoted(version)}", hint=hint)
    if wanted is not None and kind != wanted:
        raise WireError(f"the document is of the kind {kind!r}, not {wanted!r}")
    return kind


def _case_by_hand(document: Mapping[str, Any], default_id: str | None) -> dict[str, Any]:
    """Complete a case that was written by hand.

    Bare strings become sources, missing ids are filled in, ids that are numbers become texts, and null texts become "".
    """
    body = dict(document)
    if "response" in body and body["response"] is None:
        body["response"] = ""
    if default_id is not None and body.get("id") is None:
        body["id"] = default_id
    elif isinstance(body.get("id"), int | float):  # also true and false
        body["id"] = json.dumps(body["id"])
    sources = body.get("sources", ())
    if sources is None or isinstance(sources, str):
        sources = [] if sources is None else [sources]
    if isinstance(sources, list):
        entries = [{"text": item} if item is None or isinstance(item, str) else item for item in sources]
        ids = [entry.get("id") if isinstance(entry, dict) else "" for entry in entries]
        ids = [json.dumps(id) if isinstance(id, int | float) else id for id in ids]
        numbers = [str(i) for i, id in enumerate(ids, 1) if id is None]
        free = iter(unique_names(numbers, (id for id in ids if isinstance(id, str))))
        for i, (entry, id) in enumerate(zip(entries, ids, strict=True)):
            if isinstance(entry, dict):
                text = {"text": ""} if entry.get("text", "") is None else {}
                entries[i] = {**entry, **text, "id": next(free) if id is None else id}
        body["sources"] = entries
    return body


def _validate(body: Mapping[str, Any], kind: str) -> Any:
    try:
        return _validator(kind).validate_python(dict(body))
    except ValidationError as error:
        raise WireError(_first_problem(error, kind)) from None


@cache
def _validator(kind: str) -> SchemaValidator:
    """Build a validator for parsed JSON.

    The validator is as strict as the adapter, but takes arrays, objects and texts in place of tuples, records and
    enums.
    """
    described = deepcopy(_adapter(kind).core_schema)
    nodes: list[Any] = [described]
    while nodes:
        node = nodes.pop()
        if isinstance(node, dict):
            if node.get("type") in ("dataclass", "tuple", "enum"):
                node["strict"] = False
            elif node.get("type") == "str":
                node["min_length"] = 0  # without a limit, pydantic accepts a lone surrogate
        nodes += node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    return SchemaValidator(described)


_UNKNOWN = ("unexpected_keyword_argument", "invalid_key")
MOST_PROBLEMS = 1000  # to list; for a hundred thousand, pydantic would block for seconds


def _first_problem(error: ValidationError, kind: str) -> str:
    """Describe one problem in one line. An unknown field comes first, because it often explains a missing one."""
    if error.error_count() > MOST_PROBLEMS:
        return f"{kind}: {error.error_count():,} values are unknown or of another type"
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    stray = (p for p in problems if p["type"] in _UNKNOWN)
    problem = next(stray, problems[0])
    *outer, last = problem["loc"] or ("",)
    if problem["type"] in _UNKNOWN:
        cls = _load(kind)
        for name in outer:
            if hint := get_type_hints(cls).get(str(name)):  # the key of a mapping names no field
                cls = next(iter(_records_in(hint)), cls)
        names = [f.name for f in fields(cls)]
        return _place(kind, outer) + ": " + str(UnknownNameError("field", str(last), names))
    if problem["type"] == "string_unicode":
        return f"{kind}: {HALF_CHARACTER}"
    message = problem["msg"].removeprefix("Value error, ").replace("Input should", "should")
    message = {"dataclass_type": "should be an object", "tuple_type": "should be a valid array"}.get(
        problem["type"], f"{message[:1].lower()}{message[1:]}"
    )
    return f"{_place(kind, problem['loc'])}: {message}"


def _place(kind: str, path: Sequence[int | str]) -> str:
    return kind + "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in path)


def _records_in(hint: Any) -> list[type[Any]]:
    """Return the record classes in a type hint such as `tuple[Source, ...] | None`."""
    return (
        [hint]
        if isinstance(hint, type) and is_dataclass(hint)
        else [cls for inner in get_args(hint) for cls in _records_in(inner)]
    )


def schema(kind: str) -> dict[str, Any]:
    """Build the JSON Schema (2020-12) of documents of a kind, such as "case".

    Raises:
        UnknownNameError: There is no such kind of document.
    """
    if kind not in KINDS:
        raise UnknownNameError("kind of document", kind, KINDS)
    described = _adapter(kind).json_schema(mode="validation")
    described["properties"] = {TAG: {"const": tag_of(kind)}, **described["properties"]}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **described}
