"""The JSON form of every record, both ways, versioned, with its JSON Schema.

A document is one JSON object: the record's fields and `"veridical": "<kind>/<version>"`. A case that a person wrote
may leave the tag out, give a source as a bare string, and leave ids out. Anything unknown is refused, with the place.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from veridical.core import types
from veridical.core.errors import UnknownNameError, WireError
from veridical.core.types import Case, Checked, Example, Judgement, Revision

__all__ = ["KINDS", "TAG", "VERSION", "decode", "decode_case", "encode", "kind_of", "parse", "schema"]

TAG = "veridical"
VERSION = 1
KINDS: dict[str, type[Any]] = {
    "case": Case,
    "judgement": Judgement,
    "example": Example,
    "check": Checked,
    "revision": Revision,
}


for _record in (getattr(types, name) for name in types.__all__):
    if is_dataclass(_record):
        # pydantic reads a dataclass's settings from this attribute; core/types stays free of pydantic
        _record.__pydantic_config__ = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)  # type: ignore[attr-defined]


@cache
def _adapter(cls: type[Any]) -> TypeAdapter[Any]:
    return TypeAdapter(cls)


def kind_of(record: object) -> str:
    """The kind of a record ("case", "judgement" …); `WireError` for a type that has no JSON form."""
    for kind, cls in KINDS.items():
        if type(record) is cls:
            return kind
    raise WireError(f"{type(record).__name__} has no JSON form", hint=f"one of {', '.join(KINDS)}")


def encode(record: object, *, indent: int | None = None) -> str:
    """The JSON document of a record; without `indent` it is one line. Fields at their default are left out."""
    kind = kind_of(record)
    body = _adapter(KINDS[kind]).dump_python(record, mode="json", exclude_defaults=True)
    document = {TAG: f"{kind}/{VERSION}", **body}
    return json.dumps(document, ensure_ascii=False, indent=indent, allow_nan=False)


def parse(text: str | bytes) -> dict[str, Any]:
    """The JSON object in `text`; `WireError` if it is anything else, repeats a key, or holds NaN."""
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        raise WireError(f"the text is not UTF-8 (byte {error.start})") from None
    except json.JSONDecodeError as error:
        raise WireError(f"not JSON: {error.msg} at line {error.lineno} column {error.colno}") from None
    except RecursionError:
        raise WireError("the JSON is nested too deeply") from None
    if not isinstance(value, dict):
        raise WireError(f"found a JSON {_named(value)}", hint="a document is a JSON object")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise WireError(f"the key {twice!r} stands twice in one object")
    return found


def _no_constant(name: str) -> float:
    raise WireError(f"found {name}", hint="JSON has no such number")


def _named(value: object) -> str:
    names = {list: "array", str: "string", bool: "boolean", type(None): "null"}
    return names.get(type(value), "number")


def decode(text: str | bytes | Mapping[str, Any], kind: str | None = None) -> Any:
    """The record in a JSON document (text, or an object from `parse`); `kind` is what it must be, None = any.

    Raises `WireError` for an unknown kind or version, an unknown or missing field, or a value out of its range.
    """
    document = dict(text) if isinstance(text, Mapping) else parse(text)
    tagged = _kind(document.pop(TAG, None), kind)
    cls = KINDS[tagged]
    if tagged == "case":
        document = _case_by_hand(document, None)
    elif tagged in ("example", "check") and isinstance(document.get("case"), dict):
        document["case"] = _case_by_hand(document["case"], None)
    return _validate(cls, document, tagged)


def decode_case(text: str | bytes | Mapping[str, Any], *, default_id: str) -> Case:
    """The case in a document that may have been written by hand; one without an id is called `default_id`."""
    document = dict(text) if isinstance(text, Mapping) else parse(text)
    _kind(document.pop(TAG, None), "case")
    case: Case = _validate(Case, _case_by_hand(document, default_id), "case")
    return case


def _kind(tag: object, wanted: str | None) -> str:
    """The kind that `tag` says, checked against the known ones, our version, and what was wanted."""
    if tag is None:
        if wanted is None:
            raise WireError(f"the document does not say what it is: no {TAG!r} field", hint=f'"{TAG}": "case/1", say')
        return wanted
    kind, slash, version = tag.partition("/") if isinstance(tag, str) else ("", "", "")
    if kind not in KINDS or not slash:
        raise WireError(f'"{TAG}": {tag!r} is not a known document', hint=f"known: {', '.join(KINDS)}, each with /1")
    if version != str(VERSION):
        raise WireError(
            f"a {kind} of version {version!r}", hint=f"this Veridical reads version {VERSION}; a newer one may read it"
        )
    if wanted is not None and kind != wanted:
        raise WireError(f"found a {kind}, not a {wanted}")
    return kind


def _case_by_hand(document: Mapping[str, Any], default_id: str | None) -> dict[str, Any]:
    """The case's object with bare-string sources and missing ids filled in."""
    body = dict(document)
    if default_id is not None and "id" not in body:
        body["id"] = default_id
    sources = body.get("sources")
    if isinstance(sources, str):
        sources = [sources]
    if isinstance(sources, list):
        body["sources"] = [_source_by_hand(source, str(i)) for i, source in enumerate(sources, 1)]
    return body


def _source_by_hand(source: object, default_id: str) -> object:
    if isinstance(source, str):
        return {"id": default_id, "text": source}
    if isinstance(source, dict) and "id" not in source:
        return {"id": default_id, **source}
    return source


def _validate(cls: type[Any], body: Mapping[str, Any], kind: str) -> Any:
    _no_stray_keys(cls, body, kind)
    try:
        return _adapter(cls).validate_json(json.dumps(body))
    except ValidationError as error:
        raise WireError(_first(error, kind)) from None
    except UnicodeEncodeError:
        raise WireError(f"{kind}: half of a surrogate pair stands alone in the text") from None


def _no_stray_keys(cls: type[Any], body: Mapping[str, Any], kind: str) -> None:
    """Name the nearest known field for an unknown one of the record itself."""
    known = [f.name for f in fields(cls)] if is_dataclass(cls) else []
    for key in body:
        if key not in known:
            raise WireError(str(UnknownNameError(f"field of a {kind}:", key, known)))


def _first(error: ValidationError, kind: str) -> str:
    problem = error.errors(include_url=False, include_context=False)[0]
    place = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in problem["loc"])
    message = problem["msg"].removeprefix("Value error, ")
    if problem["type"] == "unexpected_keyword_argument":
        message = "unknown field"
    return f"{kind}{place}: {message[0].lower()}{message[1:]}"


def schema(kind: str) -> dict[str, Any]:
    """The JSON Schema (2020-12) of a kind of document; `UnknownNameError` for any other name."""
    if kind not in KINDS:
        raise UnknownNameError("kind of document", kind, KINDS)
    described = _adapter(KINDS[kind]).json_schema(mode="validation")
    described["properties"] = {TAG: {"const": f"{kind}/{VERSION}"}, **described["properties"]}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **described}
