"""What is asked of the server: JSON objects, read strictly and held to the limits before any work is done."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any, TypeVar, cast

from pydantic import ConfigDict, TypeAdapter, ValidationError

from veridical.core.errors import InputError, UnknownNameError, WireError
from veridical.core.serialization import decode, decode_case, parse
from veridical.core.types import Case, Checked
from veridical.server.batching import characters_of
from veridical.server.errors import Refused
from veridical.server.settings import Limits

__all__ = [
    "CheckRequest",
    "ReportRequest",
    "ReviseRequest",
    "StreamRequest",
    "check_case",
    "parse_body",
    "read_cases_of",
    "read_request",
    "read_results_of",
]

R = TypeVar("R")
_URL = re.compile(r"\s*(?:[a-z][a-z0-9+.-]{1,20}://|www\.)\S+\s*", re.IGNORECASE)
_FORM = '"cases": [{"response": "…", "sources": ["…"]}]'
_STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


@dataclass(frozen=True, kw_only=True)
class _HowToCheck:
    __pydantic_config__ = _STRICT

    detectors: list[str] | None = None
    threshold: float | dict[str, float] | None = None
    flag_over: float | None = None
    explain: bool = False


@dataclass(frozen=True, kw_only=True)
class CheckRequest(_HowToCheck):
    """Cases to check, and how.

    Attributes:
        cases: One or more cases; ids, and those of sources, may be left out, and a source may be a bare text.
        detectors: The specs of detectors that the server has; None: its first one.
        threshold: The score from which something is flagged, for all levels or per level.
        flag_over: Make an outcome "flagged" only where a response-level score is above this.
        explain: Add the closest passages and corrections to what is flagged.
    """

    cases: list[Any]


@dataclass(frozen=True, kw_only=True)
class ReportRequest(CheckRequest):
    """The same, or results of a check as they were answered, and how the page looks.

    Attributes:
        results: Documents of the kind "check", instead of cases; nothing is checked again.
        title: The title of the page.
        heat: Shade each word by its score.
    """

    cases: list[Any] = field(default_factory=list)
    results: list[Any] = field(default_factory=list)
    title: str = "Veridical report"
    heat: bool = False


@dataclass(frozen=True, kw_only=True)
class StreamRequest(_HowToCheck):
    """One case to check while its response arrives; `case` may have the first part of the response, or none."""

    case: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class ReviseRequest:
    """Cases to revise, and how.

    Attributes:
        cases: As in `CheckRequest`.
        detector: The spec of the detector that says what is unsupported; None: the server's first one.
        reviser: "delete" or "flag"; "factored" or "self" where the server has a chat model. None: the server's.
        rounds: Attempts per case at most.
        threshold: The score from which a statement counts as unsupported, for all levels or per level.
    """

    __pydantic_config__ = _STRICT

    cases: list[Any]
    detector: str | None = None
    reviser: str | None = None
    rounds: int = 1
    threshold: float | dict[str, float] | None = None


@cache
def _adapter(cls: type[Any]) -> TypeAdapter[Any]:
    return TypeAdapter(cls)


def read_request(body: bytes, cls: type[R], limits: Limits) -> R:
    """The request in `body`, its cases still as JSON objects.

    Raises `WireError` for what is not JSON or has other fields, `Refused` where it is nested more deeply than
    `limits.depth`.
    """
    document = parse_body(body)
    _check_depth(document, limits.depth)
    texts = {name: document[name] for name in ("cases", "results", "case") if name in document}
    for name, kind in (("cases", list), ("results", list), ("case", dict)):
        if name in texts and not isinstance(texts[name], kind):
            raise WireError(f"{name} is not {'a list' if kind is list else 'an object'}", hint=_FORM)
    empty = {name: type(value)() for name, value in texts.items()}  # they are read one by one, by `read_cases_of`
    try:  # as JSON: only so is an object taken for a record and nothing for anything else
        request: Any = _adapter(cast(Any, cls)).validate_json(json.dumps({**document, **empty}))
    except ValidationError as error:
        raise WireError(_first_problem(error, cls)) from None
    return cast(R, replace(request, **texts))


def parse_body(body: bytes) -> dict[str, Any]:
    """The JSON object in `body`; `WireError` for anything else."""
    try:
        return parse(body.decode())
    except UnicodeDecodeError as error:
        raise WireError(f"the body is not UTF-8 (byte {error.start})") from None


def _first_problem(error: ValidationError, cls: type[Any]) -> str:
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    stray = (p for p in problems if p["type"] in ("unexpected_keyword_argument", "extra_forbidden"))
    problem = next(stray, problems[0])
    place = ".".join(str(part) for part in problem["loc"])
    if problem["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
        return str(UnknownNameError("field", place, [known.name for known in fields(cast(Any, cls))]))
    message = problem["msg"].removeprefix("Value error, ").replace("Input should", "should")
    return f"{place or 'the request'}: {message[:1].lower()}{message[1:]}"


def _check_depth(value: Any, most: int) -> None:
    level = [value]
    for _ in range(most):
        level = [
            inner
            for each in level
            for inner in (each.values() if isinstance(each, dict) else each if isinstance(each, list) else ())
        ]
        if not level:
            return
    raise Refused(400, f"the JSON is nested more deeply than {most} levels")


def read_cases_of(items: Sequence[Any], limits: Limits) -> list[Case]:
    """The cases in the JSON objects of a request, each within the limits.

    Raises `WireError` or `InputError` for what is not a case, `Refused` (413) for what is over a limit.
    """
    if not items:
        raise InputError("no cases", hint=_FORM)
    if len(items) > limits.cases:
        raise Refused(
            413, f"{len(items)} cases", hint=f"at most {limits.cases} in a request; send the others in another"
        )
    cases = []
    for i, item in enumerate(items):
        if not isinstance(item, Mapping):
            raise WireError(f"cases[{i}] is not a JSON object", hint="a case is an object")
        sources = item.get("sources")
        if isinstance(sources, list) and len(sources) > limits.sources:
            raise Refused(413, f"cases[{i}] has {len(sources)} sources", hint=f"at most {limits.sources}")
        try:
            case = decode_case(item, default_id=str(i + 1))
        except WireError as error:
            raise WireError(f"cases[{i}]: {error.message}", hint=error.hint) from None
        check_case(case, limits, f"cases[{i}]")
        cases.append(case)
    return cases


def read_results_of(items: Sequence[Any], limits: Limits) -> list[Checked]:
    """The results of checks in the JSON objects of a request, each of a case within the limits."""
    if len(items) > limits.cases:
        raise Refused(413, f"{len(items)} results", hint=f"at most {limits.cases} in a request")
    results = []
    for i, item in enumerate(items):
        if not isinstance(item, Mapping):
            raise WireError(f"results[{i}] is not a JSON object", hint="what POST /v1/check answers")
        try:
            checked: Checked = decode(item, "check")
        except WireError as error:
            raise WireError(f"results[{i}]: {error.message}", hint=error.hint) from None
        check_case(checked.case, limits, f"results[{i}]")
        results.append(checked)
    return results


def check_case(case: Case, limits: Limits, where: str = "the case") -> None:
    """Raise unless `case` is within the limits, and has texts where it has sources: an address is never fetched."""
    if len(case.sources) > limits.sources:
        raise Refused(413, f"{where} has {len(case.sources)} sources", hint=f"at most {limits.sources}")
    size = characters_of(case)
    if size > limits.characters:
        raise Refused(413, f"{where} has {size:,} characters", hint=f"at most {limits.characters:,}")
    for source in case.sources:
        if len(source.text) < 5000 and _URL.fullmatch(source.text):
            raise InputError(
                f"{where}: source {source.id!r} is an address, and addresses are not fetched",
                hint="send its text; POST /v1/documents makes a text of a PDF, HTML or Markdown file",
            )
