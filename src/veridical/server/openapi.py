"""Build parts of the OpenAPI document (JSON Schemas, requests, examples), and the page that shows the document."""

from __future__ import annotations

import json
import re
from typing import Any

from pydantic import TypeAdapter

from veridical.io.serialization import schema
from veridical.report.pages import render_page

CASE = {"response": "The tower is 300 m tall.", "sources": ["The tower is 330 m tall."]}
CONVERSATION = {
    "messages": [
        {"role": "user", "content": "How tall is the tower?"},
        {"role": "tool", "tool_call_id": "call-1", "content": '{"height_m": 330}'},
        {"role": "assistant", "content": "It is 330 m tall."},
    ]
}
CHAT = {"messages": [{"role": "user", "content": "How tall is it?"}], "sources": ["The tower is 330 m tall."]}
OBJECT = {"application/json": {"schema": {"type": "object"}}}
_REF = "#/components/schemas/"
_STATUSES = {
    400: "The body is not JSON, not UTF-8, or not a request of this route",
    401: "The API key is missing or unknown",
    403: "The request comes from a page of another origin",
    404: "There is no such route or object",
    408: "The body did not arrive in time",
    409: "The decisions have changed since they were read",
    413: "The request exceeds a limit of size or number",
    415: "The content type is not accepted",
    421: "The Host header names another host",
    422: "A name is unknown, a source is an address, or a value is out of its range",
    429: "The queue is full; see Retry-After",
    500: "An error inside the server",
    502: "The chat server cannot be reached, or its answer is not one",
    503: "A detector or the history cannot be used at present, or the server is shutting down",
    504: "The request took too long",
}


def body(name: str, *examples: dict[str, Any], kinds: tuple[str, ...] = ("application/json",)) -> dict[str, Any]:
    """Build the OpenAPI entry for the request body of a route.

    Args:
        name: The name of the body's schema, which is the name of the request class.
        examples: Example bodies.
        kinds: The accepted media types.
    """
    named = {str(i): {"value": example} for i, example in enumerate(examples, 1)}
    content = {kind: {"schema": {"$ref": _REF + name}, **({"examples": named} if named else {})} for kind in kinds}
    return {"requestBody": {"required": True, "content": content}}


def record(name: str) -> dict[str, Any]:
    """Build the OpenAPI entry for a response that is a JSON object with the schema called `name`."""
    return {"application/json": {"schema": {"$ref": _REF + name}}}


def list_of(name: str, field: str, **others: dict[str, Any]) -> dict[str, Any]:
    """Build the OpenAPI entry for a response that is a JSON object with a list in `field`.

    Args:
        name: The name of the schema of the list's items.
        field: The name of the field with the list.
        others: The schemas of further fields, which may be missing.
    """
    properties = {field: {"type": "array", "items": {"$ref": _REF + name}}, **others}
    return {"application/json": {"schema": {"type": "object", "properties": properties, "required": [field]}}}


def documented_responses(
    description: str, content: dict[str, Any], *, work: bool = True, error: str = "Error"
) -> dict[int | str, dict[str, Any]]:
    """Build the OpenAPI entry for the HTTP responses of a route.

    Args:
        description: What a successful response (200) is.
        content: The content of a successful response, by media type.
        work: Whether the route processes cases or documents. If not, only authentication and access errors are listed.
        error: The name of the schema for errors.
    """
    errors = {"application/json": {"schema": {"$ref": _REF + error}}}
    statuses = _STATUSES if work else {status: _STATUSES[status] for status in (401, 403, 421)}
    return {
        200: {"description": description, "content": content},
        **{status: {"description": text, "content": errors} for status, text in statuses.items()},
    }


_ATTRIBUTE = re.compile(r"^    (\w+): (.*(?:\n {8}.*)*)", re.MULTILINE)
_MESSAGES = {
    "type": "array",
    "items": {
        "anyOf": [
            {"type": "object"},
            {"type": "array", "prefixItems": [{"type": "string"}, {"type": "string"}], "minItems": 2, "maxItems": 2},
        ]
    },
    "description": "The messages of OpenAI, Anthropic, Gemini, LangChain, LlamaIndex or the AI SDK, or pairs of a role "
    "and a text.",
}
_CHAT_REQUEST = {
    "type": "object",
    "description": "A chat completion as in OpenAI's API. The chat server gets all fields but `sources` and `include`.",
    "properties": {
        "messages": _MESSAGES,
        "sources": {
            "anyOf": [{"type": "string"}, {"type": "array", "items": {}}],
            "description": "Sources of the reply, beside those in the messages.",
        },
        "include": {
            "type": "array",
            "items": {"const": "sources"},
            "description": 'What the result repeats of the request; without "sources", it comes back without them.',
        },
    },
    "required": ["messages"],
}


def components(
    requests: tuple[type[Any], ...], kinds: tuple[str, ...], answers: tuple[type[Any], ...] = ()
) -> dict[str, Any]:
    """Build the JSON Schemas for `components.schemas` of the OpenAPI document, by name.

    Args:
        requests: The request classes. The descriptions of their fields are taken from their docstrings.
        kinds: The kinds of documents that routes return, such as "check" and "judgement".
        answers: Further classes of records that routes return.
    """
    schemas: dict[str, Any] = {
        "Error": {
            "type": "object",
            "properties": {
                "error": {"type": "string"},
                "hint": {"type": ["string", "null"]},
                "request_id": {"type": "string"},
            },
            "required": ["error", "hint", "request_id"],
        },
        "OpenAIError": {
            "type": "object",
            "description": "An error as in OpenAI's API. One of the chat server has neither `hint` nor `request_id`.",
            "properties": {
                "error": {"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]},
                "hint": {"type": ["string", "null"]},
                "request_id": {"type": "string"},
            },
            "required": ["error"],
        },
    }
    for kind in kinds:
        record_schema = schema(kind)
        schemas |= record_schema.pop("$defs", {})
        schemas[kind] = {name: value for name, value in record_schema.items() if name != "$schema"}
    schemas["check"]["properties"]["offsets"] = {"const": "utf-16"}  # as `server.offsets` adds it
    case_by_hand = _case_by_hand()
    conversation = _conversation_by_hand(case_by_hand)
    for request in requests:
        request_schema = TypeAdapter(request).json_schema()
        schemas |= request_schema.pop("$defs", {})
        properties = request_schema["properties"]
        if "cases" in properties:
            least = int("cases" in request_schema.get("required", ()))
            either = {"anyOf": [{"$ref": _REF + name} for name in ("CaseByHand", "ConversationByHand")]}
            properties["cases"] = {"type": "array", "minItems": least, "items": either}
            if least:  # or the fields of one case
                forms = ("cases", "response", "messages")
                request_schema["oneOf"] = [{"required": [name]} for name in forms]
                request_schema["required"].remove("cases")
                properties |= {**case_by_hand["properties"], **conversation["properties"]}
        if "results" in properties:
            properties["results"] = {"type": "array", "items": {"$ref": _REF + "check"}}
        if "case" in properties:
            properties["case"] = {"$ref": _REF + "CaseByHand"}
        about = request_schema.get("description", "")
        request_schema["description"] = about.partition("\n")[0]
        for name, text in _ATTRIBUTE.findall(about):
            properties[name]["description"] = " ".join(text.split())
        schemas[request.__name__] = request_schema
    for answer in answers:
        answer_schema = TypeAdapter(answer).json_schema(mode="serialization")
        schemas |= answer_schema.pop("$defs", {})
        schemas[answer.__name__] = answer_schema
    schemas["ChatRequest"] = _CHAT_REQUEST
    schemas["CaseByHand"] = case_by_hand
    schemas["ConversationByHand"] = conversation
    document: dict[str, Any] = json.loads(json.dumps(schemas).replace('"#/$defs/', f'"{_REF}'))
    return document


def _case_by_hand() -> dict[str, Any]:
    """Build the schema of a case written by hand: ids are optional, a source may be a text, null is a missing text."""
    case_schema = schema("case")
    text = {"anyOf": [{"type": "string"}, {"type": "null"}]}
    source = {**case_schema["$defs"]["Source"], "required": ["text"]}
    source["properties"] = {**source["properties"], "text": text}
    properties = dict(case_schema["properties"])
    properties["response"] = text
    properties["sources"] = {
        "anyOf": [{"type": "array", "items": {"anyOf": [*text["anyOf"], source]}}, *text["anyOf"]],
        "description": "The sources of the response; one text is one source, null is no source.",
    }
    return {"type": "object", "properties": properties, "required": ["response"], "additionalProperties": False}


def _conversation_by_hand(case: dict[str, Any]) -> dict[str, Any]:
    """Build the schema of a conversation. `case` is the schema of a case written by hand."""
    properties = {
        "messages": _MESSAGES,
        "id": case["properties"]["id"],
        "sources": {
            **case["properties"]["sources"],
            "description": "Passages that every turn of the assistant may rest on.",
        },
        "system": {
            "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "object"}}],
            "default": "none",
            "description": "How much of system messages is a source: `none`, `all`, or the name of a tag around it. "
            "Or the system prompt itself, as in Anthropic's requests: the context in it is a source.",
        },
        "assistant": {
            "type": "boolean",
            "default": False,
            "description": "Whether earlier turns of the assistant are sources.",
        },
    }
    return {"type": "object", "properties": properties, "required": ["messages"], "additionalProperties": False}


def routes_page(document: dict[str, Any]) -> str:
    """Render an OpenAPI document as an HTML page.

    The page shows each route with its fields, an example and its responses.
    """
    schemas = document["components"]["schemas"]
    routes = []
    for path, methods in document["paths"].items():
        for method, route in methods.items():
            content: dict[str, Any] = next(iter(route.get("requestBody", {}).get("content", {}).values()), {})
            request = schemas.get(content.get("schema", {}).get("$ref", "").removeprefix(_REF), {})
            examples: list[dict[str, Any]] = list(content.get("examples", {}).values())
            routes.append(
                {
                    "name": f"{method.upper()} {path}",
                    "about": route.get("description", ""),
                    "fields": [
                        (name, name in request.get("required", ()), field.get("description", ""))
                        for name, field in request.get("properties", {}).items()
                    ],
                    "example": json.dumps(examples[0]["value"], indent=2, ensure_ascii=False) if examples else None,
                    "answers": [(status, answer["description"]) for status, answer in route["responses"].items()],
                }
            )
    return render_page("routes.html", title=f"{document['info']['title']}: routes", routes=routes)
