"""The OpenAPI document: the project's JSON Schemas, the requests as they may be written by hand, and examples."""

from __future__ import annotations

import json
from typing import Any

from pydantic import TypeAdapter

from veridical.core.serialization import schema

__all__ = ["CASE", "body", "components", "documented_responses"]

CASE = {"response": "The tower is 300 m tall.", "sources": ["The tower is 330 m tall."]}
_REF = "#/components/schemas/"
_STATUSES = {
    400: "Not JSON, not UTF-8, or not what the route takes",
    401: "No key, or an unknown one",
    403: "A page of another origin",
    404: "There is no such thing",
    408: "The body did not arrive in time",
    413: "Over a limit of size or number",
    415: "Another content type",
    421: "Another host",
    422: "An unknown name, a source that is an address, or a value out of its range",
    429: "The queue is full; see Retry-After",
    500: "The server failed at this",
    503: "A detector cannot judge at present, or the server is shutting down",
    504: "It took too long",
}


def body(name: str, *examples: dict[str, Any], kinds: tuple[str, ...] = ("application/json",)) -> dict[str, Any]:
    """What a route has more in the document where it takes the request called `name`."""
    named = {str(i): {"value": example} for i, example in enumerate(examples, 1)}
    content = {kind: {"schema": {"$ref": _REF + name}, **({"examples": named} if named else {})} for kind in kinds}
    return {"requestBody": {"required": True, "content": content}}


def documented_responses(
    description: str, content: dict[str, Any], *, work: bool = True
) -> dict[int | str, dict[str, Any]]:
    """The answers of a route: `content` by media type where it succeeds, else errors; fewer where it does no `work`."""
    error = {"application/json": {"schema": {"$ref": _REF + "Error"}}}
    statuses = _STATUSES if work else {status: _STATUSES[status] for status in (401, 403, 421)}
    return {
        200: {"description": description, "content": content},
        **{status: {"description": text, "content": error} for status, text in statuses.items()},
    }


def components(requests: tuple[type[Any], ...], kinds: tuple[str, ...]) -> dict[str, Any]:
    """The schemas that the document's references name: of requests, of records and of errors."""
    found: dict[str, Any] = {
        "Error": {
            "type": "object",
            "properties": {
                "error": {"type": "string"},
                "hint": {"type": ["string", "null"]},
                "request_id": {"type": "string"},
            },
            "required": ["error", "hint", "request_id"],
        }
    }
    for kind in kinds:
        described = schema(kind)
        found |= described.pop("$defs", {})
        found[kind] = {name: value for name, value in described.items() if name != "$schema"}
    for request in requests:
        described = TypeAdapter(request).json_schema()
        properties = described["properties"]
        if "cases" in properties:
            needed = int("cases" in described["required"]) if "required" in described else 0
            properties["cases"] = {"type": "array", "minItems": needed, "items": {"$ref": _REF + "CaseByHand"}}
        if "results" in properties:
            properties["results"] = {"type": "array", "items": {"$ref": _REF + "check"}}
        if "case" in properties:
            properties["case"] = {"$ref": _REF + "CaseByHand"}
        found[request.__name__] = described
    found["CaseByHand"] = _case_by_hand()
    document: dict[str, Any] = json.loads(json.dumps(found).replace('"#/$defs/', f'"{_REF}'))
    return document


def _case_by_hand() -> dict[str, Any]:
    """Describe a case without ids, with bare texts as sources, and with null for a text that is missing."""
    described = schema("case")
    text = {"anyOf": [{"type": "string"}, {"type": "null"}]}
    source = {**described["$defs"]["Source"], "required": ["text"]}
    source["properties"] = {**source["properties"], "text": text}
    properties = dict(described["properties"])
    properties["response"] = text
    properties["sources"] = {
        "anyOf": [{"type": "array", "items": {"anyOf": [*text["anyOf"], source]}}, *text["anyOf"]],
        "description": "What the response may rest on; one text is one source, null is none.",
    }
    return {"type": "object", "properties": properties, "required": ["response"], "additionalProperties": False}
