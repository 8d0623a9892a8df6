"""Parse and validate the bodies of requests to the server, which are JSON objects.

Unknown fields and wrong types are rejected, and limits are checked before any work.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, cast

from pydantic import ConfigDict, Field, StrictBool, StrictFloat, StrictInt, TypeAdapter, ValidationError

from veridical.history.records import PlaceDecision
from veridical.io.columns import Columns, source_fields
from veridical.io.conversations import named_messages
from veridical.io.serialization import MOST_PROBLEMS, decode, decode_cases
from veridical.io.strict_json import most_values, parse
from veridical.records.errors import InputError, UnknownNameError, WireError
from veridical.records.types import Case, Checked, Source
from veridical.server.batching import characters_of
from veridical.server.errors import Refused
from veridical.server.offsets import Offsets
from veridical.server.settings import Limits

R = TypeVar("R")
Keep: TypeAlias = "Callable[[str, str, HowToCheck, Sequence[Checked]], Awaitable[str | None]]"
"""Stores results in the history. Takes their origin, the name of the key, the fields of the request, and the results.
Returns the id of the run, if any.
"""

_URL = re.compile(r"\s*(?:[a-z][a-z0-9+.-]{1,20}://|www\.)\S+\s*", re.IGNORECASE)
_MOST_NAMES = 10_000  # most fields of an object, because pydantic makes an error for each unknown field
_FORM = '"cases": [{"response": "…", "sources": ["…"]}]'
_CONFIG = ConfigDict(extra="forbid", allow_inf_nan=False)
Text = Annotated[str, Field(min_length=0)]  # without a limit, pydantic accepts a lone surrogate
Threshold = StrictFloat | dict[str, StrictFloat] | None


@dataclass(frozen=True, kw_only=True)
class HowToCheck:
    """The fields that all requests for checks share: which detectors to ask, and when to flag.

    Attributes:
        detector: The spec of a detector of the server, or a list of specs. Default: the server's first detector.
        threshold: The score from which text is flagged: one number, or a number for each level, such as "response" and
            "span". Default: the detector's own thresholds.
        flag_over: A number. If it is set, an outcome is "flagged" only if a response-level score is above this number.
        explain: Whether to add to each flagged finding the closest passages of the sources, and what they say instead.
    """

    __pydantic_config__ = _CONFIG

    detector: Text | list[Text] | None = None
    threshold: Threshold = None
    flag_over: StrictFloat | None = None
    explain: StrictBool = False


@dataclass(frozen=True, kw_only=True)
class _Answer:
    include: list[Literal["sources"]] = field(default_factory=list)

    @property
    def with_sources(self) -> bool:
        """Whether the answer repeats the sources of the cases."""
        return "sources" in self.include


@dataclass(frozen=True, kw_only=True)
class CheckRequest(_Answer, HowToCheck):
    """Cases to check, and how to check them.

    If there is only one case, you can put its fields into the request instead of `cases`.

    Attributes:
        cases: One or more cases. The ids of cases and sources are optional, and a source may be a bare text. A
            conversation (`messages`) has one result for each assistant turn.
        detector: The spec of a detector of this server, or a list of specs. Default: the server's first detector.
        threshold: The score from which text is flagged: one number, or an object with a number for each level, such as
            {"response": 0.6, "span": 0.4}. Default: the detector's own thresholds.
        flag_over: A number. If you set it, an outcome is "flagged" only if a response-level score is above this number.
        explain: Whether to add to each flagged finding the closest passages of the sources, and what they say instead.
        offsets: The unit of the offsets in the HTTP response: "code-points", or "utf-16" as in JavaScript strings.
            Offsets in the request, such as the `pages` of a source, are code points.
        include: Which parts of the request to repeat in the results. Without "sources", cases come back without sources
            and history.
        causes: Whether to add why each case failed. For this, the server needs the detector "default".
    """

    cases: list[Any]
    causes: StrictBool = False
    offsets: Offsets = "code-points"


@dataclass(frozen=True, kw_only=True)
class ReportRequest(HowToCheck):
    """A request for an HTML page of cases to check, or of results of an earlier check.

    Attributes:
        results: Results of `POST /v1/check` to show instead of `cases`. They are not checked again.
        title: The title of the page.
        heat: Whether to shade each word by its score.
    """

    cases: list[Any] = field(default_factory=list)
    results: list[Any] = field(default_factory=list)
    title: Text = "Veridical report"
    heat: StrictBool = False


@dataclass(frozen=True, kw_only=True)
class StreamRequest(_Answer, HowToCheck):
    """One case to check while its response arrives. `case` may contain the first part of the response."""

    case: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class ReviseRequest(_Answer):
    """Cases to revise, and how to revise them.

    Attributes:
        cases: One or more cases. The ids of cases and sources are optional, and a source may be a bare text. A
            conversation (`messages`) has one result for each assistant turn.
        detector: The spec of the detector that finds unsupported text. Default: the server's first detector.
        reviser: "delete" or "flag". If the server has a chat model, also "factored" or "self". Default: the server's
            default reviser.
        rounds: How many attempts to make per case at most.
        threshold: The score from which text counts as unsupported: one number, or an object with a number for each
            level, such as {"response": 0.6, "span": 0.4}. Default: the detector's own thresholds.
        include: Which parts of the request to repeat in the results. Without "sources", cases come back without sources
            and history.
    """

    __pydantic_config__ = _CONFIG

    cases: list[Any]
    detector: Text | None = None
    reviser: Text | None = None
    rounds: StrictInt = 1
    threshold: Threshold = None


@dataclass(frozen=True, kw_only=True)
class DecisionsRequest:
    """What a person decided about a case. This replaces all earlier decisions.

    Attributes:
        decisions: One decision for each decided place, which is a span of the response or of a source. Offsets are
            counted in code points.
        version: The version of the decisions to replace. If this is not the present version, the status is 409. With
            None, any version is replaced.
    """

    __pydantic_config__ = _CONFIG

    decisions: list[PlaceDecision]
    version: StrictInt | None = None


@cache
def _adapter(cls: type[Any]) -> TypeAdapter[Any]:
    return TypeAdapter(cls)


def read_request(body: bytes, cls: type[R], limits: Limits) -> R:
    """Parse the JSON body of a request into an instance of `cls`, including its cases and results.

    A request with one case can have the fields of the case (`response`, `sources` …) in place of the list `cases`.

    Raises:
        WireError: The body is not JSON or not such a request.
        InputError: There are no cases, there are both cases and results, or a case is not valid.
        Refused: The body or a case exceeds a limit.
    """
    document = parse_body(body, limits)
    _check_form(document, limits)
    names = [field.name for field in fields(cast(Any, cls))]
    if "cases" in names and "cases" not in document and not {"response", "messages"}.isdisjoint(document):
        case = {name: document.pop(name) for name in list(document) if name not in names}
        document["cases"] = [case]
    for name, kind in (("cases", list), ("results", list), ("case", dict)):
        if name in document and not isinstance(document[name], kind):
            raise WireError(f"{name} is not {'a list' if kind is list else 'an object'}", hint=_FORM)
    try:
        request = _adapter(cast(Any, cls)).validate_python(document)
    except ValidationError as error:
        raise WireError(_first_problem(error, cls), hint=_FORM if "cases" in names else None) from None
    if isinstance(request, ReportRequest) and request.results:
        if request.cases:
            raise InputError("both cases and results", hint="send cases to check, or results of an earlier check")
        return cast(R, replace(request, results=read_results_of(request.results, limits)))
    return cast(R, replace(request, cases=read_cases_of(request.cases, limits)) if "cases" in names else request)


def parse_body(body: bytes, limits: Limits) -> dict[str, Any]:
    """Parse the JSON object in the body of a request.

    Raises:
        WireError: The body is not UTF-8, or not a JSON object.
        Refused: The object has more values than the limits allow.
    """
    if most_values(body) > limits.values:
        raise Refused(413, f"the JSON has more than {limits.values:,} values", hint="send less at once")
    try:
        return parse(body.decode())
    except UnicodeDecodeError as error:
        raise WireError(f"the body is not UTF-8 (byte {error.start})") from None


def _first_problem(error: ValidationError, cls: type[Any]) -> str:
    """Describe pydantic's error in one line. If a field is unknown, name it rather than any other problem."""
    if error.error_count() > MOST_PROBLEMS:
        return f"{error.error_count():,} values are unknown or of another type"
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    unknown_fields = (p for p in problems if p["type"] in ("unexpected_keyword_argument", "extra_forbidden"))
    problem = next(unknown_fields, problems[0])
    place = ".".join(str(part) for part in problem["loc"])
    if problem["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
        return str(UnknownNameError("field", place, [field.name for field in fields(cast(Any, cls))]))
    message = problem["msg"].removeprefix("Value error, ").replace("Input should", "should")
    return f"{place or 'the request'}: {message[:1].lower()}{message[1:]}"


def _check_form(value: Any, limits: Limits) -> None:
    """Raise `Refused` if lists and objects are nested too deeply, or an object has too many names."""
    level = [value]
    for _ in range(limits.depth):
        if any(isinstance(each, dict) and len(each) > _MOST_NAMES for each in level):
            raise Refused(413, f"an object of the JSON has more than {_MOST_NAMES:,} fields")
        level = [
            inner
            for each in level
            for inner in (each.values() if isinstance(each, dict) else each if isinstance(each, list) else ())
        ]
        if not level:
            return
    raise Refused(400, f"the JSON is nested more deeply than {limits.depth} levels")


def read_cases_of(items: Sequence[Any], limits: Limits) -> list[Case]:
    """Parse cases from the JSON objects of a request, and check each case against the limits.

    Raises:
        WireError: An object is not a case.
        InputError: There are no cases, or a case is not valid.
        Refused: There are too many cases, or a case exceeds a limit (413).
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
        item = named_messages(item)
        if isinstance(item.get("sources"), list):
            item = {**item, "sources": [source_fields(source) for source in item["sources"]]}
        for name in ("sources", "messages"):
            if isinstance(item.get(name), list) and len(item[name]) > limits.sources:
                raise Refused(413, f"cases[{i}] has {len(item[name])} {name}", hint=f"at most {limits.sources}")
        try:
            of_item = decode_cases(item, default_id=str(i + 1))
        except WireError as error:
            raise WireError(f"cases[{i}]: {error.message}", hint=error.hint or _renaming(item)) from None
        given = item.get("sources") or ()  # these come first; sources from messages may be addresses
        for case in of_item:
            check_size(case, limits, f"cases[{i}]")
            refuse_addresses(case.sources[: 1 if isinstance(given, str) else len(given)], f"cases[{i}]")
        cases += of_item
        if len(cases) > limits.cases:
            raise Refused(413, f"more than {limits.cases} cases with the turns of conversations", hint="send fewer")
    return cases


def _renaming(item: Mapping[str, Any]) -> str | None:
    """Say which fields to rename if an object is a row of a known tool. Return None for any other object."""
    try:
        columns, layout = Columns().resolve(item)
    except InputError:
        return None
    named = {"response": columns.response, "sources": next(iter(columns.sources), None), "question": columns.question}
    pairs = [f"{name} to {field}" for field, name in named.items() if name not in (None, field)]
    return f"a row of {layout}? rename {', '.join(pairs)}, and leave out other fields" if layout and pairs else None


def read_results_of(items: Sequence[Any], limits: Limits) -> list[Checked]:
    """Parse the results of earlier checks from the JSON objects of a request, and check them against the limits.

    Raises:
        WireError: An object is not the result of a check with its sources.
        Refused: There are too many results, or a case exceeds a limit (413).
    """
    if len(items) > limits.cases:
        raise Refused(413, f"{len(items)} results", hint=f"at most {limits.cases} in a request")
    results = []
    for i, item in enumerate(items):
        if not isinstance(item, Mapping):
            raise WireError(f"results[{i}] is not a JSON object", hint="what POST /v1/check answers")
        try:
            checked: Checked = decode(item, "check")
        except WireError as error:
            hint = error.hint or 'a result has its sources only if its request had "include": ["sources"]'
            raise WireError(f"results[{i}]: {error.message}", hint=hint) from None
        check_size(checked.case, limits, f"results[{i}]")
        results.append(checked)
    return results


def check_size(case: Case, limits: Limits, where: str = "the case") -> None:
    """Check that `case` exceeds no limit. `where` names the case in the error message.

    Raises:
        Refused: The case has too many sources or too many characters (413).
    """
    if len(case.sources) > limits.sources:
        raise Refused(413, f"{where} has {len(case.sources)} sources", hint=f"at most {limits.sources}")
    size = characters_of(case)
    if size > limits.characters:
        raise Refused(413, f"{where} has {size:,} characters", hint=f"at most {limits.characters:,}")


def refuse_addresses(sources: Sequence[Source], where: str) -> None:
    """Check that no source is a web address, because sources are never fetched.

    `where` names the case of the sources in the error message.

    Raises:
        InputError: A source is an address.
    """
    for source in sources:
        if len(source.text) < 5000 and _URL.fullmatch(source.text):
            raise InputError(
                f"{where}: source {source.id!r} is an address, and addresses are not fetched",
                hint="send its text; POST /v1/documents makes a text of a PDF, HTML or Markdown file",
            )
