"""Serve the history over HTTP: runs (cases that were checked together), decisions, imports, and the audit log."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import JSONResponse

from veridical.history.exporting import decisions_csv, label_studio_tasks
from veridical.history.learning import NEEDED, NEEDED_AT_RANDOM, too_few
from veridical.history.records import (
    MOST_ON_PAGE,
    AuditLine,
    CalibrationVersion,
    CasePage,
    CaseQuery,
    Comparison,
    Decisions,
    Learning,
    NewRun,
    NotKeptError,
    RunPage,
    StoredCase,
    TrendPoint,
)
from veridical.io.serialization import encode
from veridical.server.batching import in_thread
from veridical.server.desk import Desk
from veridical.server.errors import Refused
from veridical.server.importing import check_file
from veridical.server.keys import ROLES
from veridical.server.openapi import OBJECT, body, documented_responses, list_of, record
from veridical.server.protection import key_of, read_body, role_of
from veridical.server.requests import DecisionsRequest, HowToCheck, read_request
from veridical.workflows.checking import check_thresholds

router = APIRouter()
"""The routes of the history. They use the desk in the state of the application that they are added to."""

ANSWERS = (RunPage, CasePage, StoredCase, Comparison, TrendPoint, AuditLine, Decisions, Learning, CalibrationVersion)
"""The records that the routes of the history return."""

_UPLOAD = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}
_DECISION = {"decisions": [{"action": "replace", "start": 13, "end": 16, "text": "330"}], "version": 0}


class _Params(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class RunParams(_Params):
    """Query parameters of `GET /v1/runs`, which lists runs."""

    limit: Annotated[int, Field(ge=1, le=MOST_ON_PAGE, description="The most runs of a page.")] = 50
    cursor: Annotated[str | None, Field(max_length=5000, description="`next` of the page before.")] = None
    name: Annotated[str, Field(max_length=200, description="A part of a file's name or of a run's id.")] = ""


class CompareParams(_Params):
    """Query parameters of `GET /v1/runs/{run}/compare/{other}`: which of the cases with different outcomes to list."""

    limit: Annotated[int, Field(ge=1, le=MOST_ON_PAGE, description="The most cases.")] = 50
    offset: Annotated[int, Field(ge=0, le=10**9, description="The number of cases to leave out.")] = 0


class ExportParams(_Params):
    """Query parameters of `GET /v1/runs/{run}/examples`: the file format in which decisions are exported."""

    form: Literal["examples", "csv", "label-studio"] = "examples"


class SampleParams(_Params):
    """Query parameters of `POST /v1/runs/{run}/sample`: how many unflagged sentences to draw for review."""

    count: Annotated[int, Field(ge=1, le=1000, description="The most sentences to draw.")] = 50


class LearnParams(_Params):
    """Query parameters of `POST /v1/runs/{run}/calibrations`: the detector to fit, and a name for what is fitted."""

    name: Annotated[str, Field(min_length=1, max_length=100, pattern=r"^\w[\w.-]*$", description="The version's name.")]
    detector: Annotated[str | None, Field(description="A detector of this server; default: the run's first.")] = None


class ActiveParams(_Params):
    """Query parameters of `PUT /v1/calibrations/{name}`: whether checks are to use this calibration version."""

    active: bool


class ImportParams(_Params):
    """Query parameters of `POST /v1/runs`, which imports a file: how to read its rows, and how to check its cases.

    Columns that you do not name are recognised if they have well-known names, such as "response".
    """

    name: Annotated[str, Field(min_length=1, max_length=200, description="The name of the file, with its ending.")]
    detector: Annotated[list[str], Field(description="A detector of this server; default: its first.")] = []
    threshold: Annotated[float | None, Field(ge=0, le=1)] = None
    flag_over: Annotated[float | None, Field(ge=0, lt=1)] = None
    explain: bool = True
    causes: Annotated[bool, Field(description="Add why each case failed.")] = False
    response: Annotated[str | None, Field(description="The column of the response.")] = None
    source: Annotated[list[str], Field(description="A column of sources.")] = []
    question: Annotated[str | None, Field(description="The column of the question.")] = None
    id: Annotated[str | None, Field(description="The column of the row's id.")] = None
    encoding: Annotated[str | None, Field(max_length=40, description="Of a text file; default: UTF-8.")] = None
    delimiter: Annotated[str | None, Field(min_length=1, max_length=1)] = None

    def form(self) -> dict[str, Any]:
        """Return the parameters for parsing the rows, as stored with the run: columns, encoding and delimiter."""
        columns = {"response": self.response, "sources": self.source, "question": self.question, "id": self.id}
        return {"columns": columns, "encoding": self.encoding, "delimiter": self.delimiter}


def _desk_for(role: str) -> Callable[[Request], Awaitable[Desk]]:
    """Make a FastAPI dependency that gives a route the desk, and refuses keys (403) whose role is below `role`."""

    async def desk(request: Request) -> Desk:
        if ROLES.index(role_of(request)) < ROLES.index(role):
            raise Refused(
                403, f"the key {key_of(request)!r} has the role {role_of(request)}", hint=f"this needs {role}"
            )
        found: Desk = request.app.state.desk
        return found

    return desk


ReviewDesk = Annotated[Desk, Depends(_desk_for("review"))]
AdminDesk = Annotated[Desk, Depends(_desk_for("admin"))]


_RUN = record("RunRow")
_EXPORTS = {
    "application/x-ndjson": {"schema": {"type": "string"}},
    "text/csv": {"schema": {"type": "string"}},
    "application/json": {"schema": {"type": "array", "items": {"type": "object"}}},
}
_LINES = list_of("AuditLine", "lines")
_POINTS = list_of("TrendPoint", "points")
_VERSIONS = list_of("CalibrationVersion", "versions")
_ACCEPTED: dict[int | str, dict[str, Any]] = {202: {"description": "The run, which is judged", "content": _RUN}}


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 9):
        raise NotKeptError(f"{text[:20]!r} is not the number of a case", hint="a number from 1")
    return int(text)


async def _json(content: Any, status: int = 200) -> Response:
    """Send records as JSON, which is written in a thread, so that long records do not delay other requests."""
    write = partial(json.dumps, content, default=asdict, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Response(await in_thread(write), status, media_type="application/json")


@router.get("/v1/runs", responses=documented_responses("The runs, newest first", record("RunPage")))
async def runs(desk: ReviewDesk, params: Annotated[RunParams, Query()]) -> Response:
    """List the stored runs, newest first. Needs the role review.

    A run is the cases that were checked with one request, or imported from one file.
    """
    return await _json(await desk.call(desk.history.runs, limit=params.limit, cursor=params.cursor, name=params.name))


@router.post(
    "/v1/runs", openapi_extra=_UPLOAD, status_code=202, responses={**documented_responses("The run", _RUN), **_ACCEPTED}
)
async def import_file(request: Request, desk: ReviewDesk, params: Annotated[ImportParams, Query()]) -> Response:
    """Import a file of rows (CSV, Excel, JSON, JSON Lines, Parquet), which becomes a run. Needs the role review.

    The HTTP response is sent as soon as the file is stored. The rows are judged in the background, even after a
    restart of the server. `GET /v1/runs/{run}` counts the rows that still wait.
    """
    how = HowToCheck(
        detector=params.detector or None, threshold=params.threshold, flag_over=params.flag_over, explain=params.explain
    )
    check_file(params.name, params.form())
    check_thresholds(how.threshold, how.flag_over)
    about = {**await desk.about(how), "causes": params.causes, "form": params.form()}
    if params.causes:
        await desk.service.with_causes([])  # raise now if this server cannot find them
    limits = desk.service.settings.limits
    upload = await read_body(request, limits, kind="application/octet-stream", most=limits.document_bytes)
    run = NewRun(origin="import", by=key_of(request), name=params.name, about=about)
    id = await desk.begin_import(run, params.name, upload)
    return await _json(await desk.call(desk.history.run, id), 202)


@router.get("/v1/runs/{run}", responses=documented_responses("The run", _RUN))
async def one_run(desk: ReviewDesk, run: str) -> Response:
    """Return a run, and how many of its cases have each outcome. Needs the role review."""
    return await _json(await desk.call(desk.history.run, run))


@router.delete("/v1/runs/{run}", responses=documented_responses("The run is deleted", OBJECT))
async def delete_run(request: Request, desk: AdminDesk, run: str) -> Response:
    """Delete a run with its cases and decisions. Needs the role admin."""
    await desk.call(desk.history.delete_run, run, by=key_of(request))
    return JSONResponse({"deleted": run})


@router.get("/v1/runs/{run}/facets", responses=documented_responses("The numbers of cases by value", OBJECT))
async def facets(desk: ReviewDesk, run: str) -> Response:
    """Return the values by which the cases of a run can be filtered, such as causes. Needs the role review.

    The result maps each filter to its most common values, and each value to the number of cases that have it.
    """
    await desk.call(desk.history.run, run)
    return JSONResponse(await desk.call(desk.history.facets, run))


@router.get("/v1/runs/{run}/examples", responses=documented_responses("The decisions", _EXPORTS))
async def examples(desk: ReviewDesk, run: str, params: Annotated[ExportParams, Query()]) -> Response:
    """Export the cases of a run that people have decided about. Needs the role review.

    The form "examples" has a line of JSON for each case, with the decisions as gold labels, for `bench`. "csv" has a
    row for each decision. "label-studio" has a task for each case, to import into a project.
    """
    if params.form == "csv":
        return Response(await desk.call(lambda: decisions_csv(desk.history.decision_rows(run))), media_type="text/csv")
    if params.form == "label-studio":
        return await _json(await desk.call(lambda: label_studio_tasks(list(desk.history.examples(run)))))
    text = await desk.call(lambda: "".join(f"{encode(one)}\n" for one in desk.history.examples(run)))
    return Response(text, media_type="application/x-ndjson")


@router.get("/v1/runs/{run}/compare/{other}", responses=documented_responses("The comparison", record("Comparison")))
async def compare(desk: ReviewDesk, run: str, other: str, params: Annotated[CompareParams, Query()]) -> Response:
    """Compare the outcomes and scores of two runs over the same cases. Needs the role review.

    Cases are matched by their ids. `cases` lists some of those with different outcomes.
    """
    return await _json(await desk.call(desk.history.compare, run, other, limit=params.limit, offset=params.offset))


@router.get("/v1/runs/{run}/trend", responses=documented_responses("The runs, oldest first", _POINTS))
async def trend(desk: ReviewDesk, run: str) -> Response:
    """Return the proportion of flagged cases in each run that has the same file name as this run, oldest first.

    Needs the role review.
    """
    return await _json({"points": await desk.call(desk.history.trend, run)})


@router.get("/v1/runs/{run}/audit", responses=documented_responses("The lines, newest first", _LINES))
async def audit(desk: AdminDesk, run: str) -> Response:
    """List who decided, withdrew or deleted something in a run, and when, newest first. Needs the role admin.

    The list still exists if the run itself is deleted.
    """
    return await _json({"lines": await desk.call(desk.history.audit, run)})


@router.get("/v1/runs/{run}/cases", responses=documented_responses("The cases", record("CasePage")))
async def cases(desk: ReviewDesk, run: str, params: Annotated[CaseQuery, Query()]) -> Response:
    """List the cases of a run that match the query, without their texts. Needs the role review."""
    return await _json(await desk.call(desk.history.cases, run, params))


@router.get("/v1/runs/{run}/cases/{number}", responses=documented_responses("The case", record("StoredCase")))
async def one_case(desk: ReviewDesk, run: str, number: str) -> Response:
    """Return a case with its texts, its result and the decisions about it. Needs the role review."""
    return await _json(await desk.call(desk.history.case, run, _number(number)))


@router.delete("/v1/runs/{run}/cases/{number}", responses=documented_responses("The case is deleted", OBJECT))
async def delete_case(request: Request, desk: AdminDesk, run: str, number: str) -> Response:
    """Delete a case and the decisions about it. Needs the role admin."""
    await desk.call(desk.history.delete_case, run, _number(number), by=key_of(request))
    return JSONResponse({"deleted": number})


@router.put(
    "/v1/runs/{run}/cases/{number}/decisions",
    openapi_extra=body("DecisionsRequest", _DECISION),
    responses=documented_responses("The decisions are stored", OBJECT),
)
async def decide(request: Request, desk: ReviewDesk, run: str, number: str) -> Response:
    """Store a person's decisions about a case, in place of all earlier decisions. Needs the role review.

    The result is the new `version` of the decisions. If the request names another version than the present one, nothing
    is stored, and the status is 409.
    """
    limits = desk.service.settings.limits
    sent = await read_body(request, limits)
    wanted = await in_thread(lambda: read_request(sent, DecisionsRequest, limits), size=len(sent))
    version = await desk.call(
        desk.history.decide, run, _number(number), wanted.decisions, version=wanted.version, by=key_of(request)
    )
    return JSONResponse({"version": version})


@router.post("/v1/runs/{run}/sample", responses=documented_responses("The number of sentences drawn", OBJECT))
async def sample(request: Request, desk: ReviewDesk, run: str, params: Annotated[SampleParams, Query()]) -> Response:
    """Draw unflagged sentences of a run at random, for people to review. Needs the role review.

    The field `sampled` of a case lists its drawn sentences. To find the cases that have some, filter by `sampled=true`.
    """
    number = await desk.call(desk.history.draw_sample, run, params.count, by=key_of(request))
    return JSONResponse({"drawn": number})


@router.get("/v1/runs/{run}/decisions", responses=documented_responses("The numbers", record("Decisions")))
async def decisions(desk: ReviewDesk, run: str) -> Response:
    """Count the sentences of a run that people have decided about. Needs the role review.

    `missing` says which decisions are still needed to fit a detector's threshold. It is null if their number is
    sufficient. A fit also needs enough wrong and enough right sentences.
    """
    counts, _ = await desk.call(desk.history.decided_sentences, run)
    needed = {"needed": NEEDED, "needed_random": min(NEEDED_AT_RANDOM, counts.all_unflagged)}
    return JSONResponse({**asdict(counts), **needed, "missing": too_few(counts)})


@router.post("/v1/runs/{run}/calibrations", responses=documented_responses("What it gains", record("Learning")))
async def learn(request: Request, desk: ReviewDesk, run: str, params: Annotated[LearnParams, Query()]) -> Response:
    """Fit a detector's threshold and probabilities to the decisions about a run. Needs the role review.

    The `verdict` is "gain" only if the fit is clearly better than the detector's own threshold or scores, on documents
    that it was not fitted on. The fit is then stored as a calibration version, which checks use once it is active.
    """
    return await _json(await desk.learn(run, params.name, detector=params.detector, by=key_of(request)))


@router.get("/v1/calibrations", responses=documented_responses("The versions, newest first", _VERSIONS))
async def calibrations(desk: ReviewDesk) -> Response:
    """List the calibration versions (fitted thresholds and probabilities), and which one each detector uses.

    Needs the role review.
    """
    return await _json({"versions": await desk.call(desk.history.calibrations), "in_use": dict(desk.in_use)})


@router.get("/v1/calibrations/{name}", responses=documented_responses("The content of detector.json", OBJECT))
async def calibration(desk: ReviewDesk, name: str) -> Response:
    """Return a calibration version as JSON. Needs the role review.

    If you save it as `FOLDER/detector.json`, you can use it as the detector `calibrated:FOLDER`.
    """
    fitted = await desk.call(desk.history.calibration, name)
    return Response(encode(fitted, indent=1), media_type="application/json")


@router.put("/v1/calibrations/{name}", responses=documented_responses("It is done", OBJECT))
async def activate(request: Request, desk: AdminDesk, name: str, params: Annotated[ActiveParams, Query()]) -> Response:
    """Make checks use a calibration version, or stop using it. Needs the role admin.

    With `active=false`, checks use the detector's own thresholds and scores again.
    """
    await desk.activate(name, active=params.active, by=key_of(request))
    return JSONResponse({"name": name, "active": params.active})
