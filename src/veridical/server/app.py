"""Build the service as an ASGI application with `create_app(settings)`. `veridical serve` runs it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import HTMLResponse, JSONResponse
from starlette.staticfiles import StaticFiles

import veridical
from veridical.io.serialization import encode
from veridical.records.detector import HasSalienceMaps, info_of
from veridical.records.errors import MissingExtraError, VeridicalError
from veridical.records.types import Case, Outcome
from veridical.server.batching import in_thread
from veridical.server.errors import FORWARDED_ROUTES, OPENAI_ROUTES, error_body, error_response
from veridical.server.offsets import check_json, with_offsets
from veridical.server.openapi import CASE, CONVERSATION, body, components, documented_responses, list_of, routes_page
from veridical.server.protection import Protection, key_of, read_body, request_id_of, role_of
from veridical.server.proxy import STATUS_HEADER, add_proxy
from veridical.server.requests import (
    CheckRequest,
    DecisionsRequest,
    Keep,
    ReportRequest,
    ReviseRequest,
    StreamRequest,
    read_request,
)
from veridical.server.salience import map_documents
from veridical.server.service import Service
from veridical.server.settings import Limits, ServerSettings
from veridical.server.streaming import EventStream, open_stream
from veridical.server.upstream import Upstream

R = TypeVar("R")
PAGE = Path(__file__).parent / "page"


def _object(*fields: str) -> dict[str, Any]:
    schema = {"type": "object", "required": list(fields)}
    return {"application/json": {"schema": schema}}


_RUN = {"type": "string", "description": "The run that keeps them."}
_ROUTES = "GET /openapi.json lists all routes"
_TEXT = {"type": "string"}
_EVENT = {"type": "object", "properties": {"event": _TEXT, "data": _TEXT}, "required": ["event", "data"]}
_EVENTS = {"text/event-stream": {"schema": _EVENT}}
_FILE = {"type": "object", "properties": {"file": {"type": "string", "format": "binary"}}, "required": ["file"]}
_UPLOAD = {"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": _FILE}}}}
_NOT_READY: dict[int | str, dict[str, Any]] = {
    503: {"description": "A detector cannot be used yet", "content": _object("ready")}
}


def create_app(settings: ServerSettings | None = None) -> FastAPI:
    """Build the HTTP service as an ASGI application, with the routes that the settings enable.

    Without `settings`, it has the default detectors and limits, no proxy, and no history of checked cases.

    The lifespan of the application starts and stops the detectors. Run it with a server that supports lifespan events,
    such as uvicorn, because requests can be answered only inside the lifespan.

    Raises:
        VeridicalError: A detector or the reviser in the settings cannot be loaded, or the history cannot be opened.
    """
    settings = settings or ServerSettings()
    service = Service(settings)
    upstream = None if settings.proxy is None else Upstream(settings.proxy)

    desk = None
    requests: tuple[type[Any], ...] = (CheckRequest, ReportRequest, ReviseRequest, StreamRequest)
    answers: tuple[type[Any], ...] = ()
    if settings.history is not None:
        try:
            from veridical.server import history_routes
            from veridical.server.desk import Desk
        except ModuleNotFoundError:
            raise MissingExtraError("a history", "history") from None
        desk = Desk(service, settings.history)
        requests, answers = (*requests, DecisionsRequest), history_routes.ANSWERS
    keep = None if desk is None else desk.keep

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        parts = [part for part in (desk, service, upstream) if part is not None]
        for part in parts:
            await part.start()
        try:
            yield
        finally:
            for part in parts:
                await part.close()

    app = FastAPI(
        title="Veridical",
        version=veridical.__version__,
        description="Finds the parts of a generated text that its sources do not support, and what it leaves out.",
        docs_url=None,  # FastAPI's pages load scripts from other servers; `/docs` is a page of our own
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.service = service

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
            schemas = components(requests, ("check", "revised", "judgement"), answers)
            document.setdefault("components", {})["schemas"] = schemas
            app.openapi_schema = document
        return app.openapi_schema

    @app.get("/docs", include_in_schema=False)
    def docs() -> Response:
        return _page(routes_page(openapi()))

    app.openapi = openapi  # type: ignore[method-assign]
    _add_error_handlers(app, settings)
    _add_status(app, service)
    _add_checks(app, service, keep)
    if desk is not None:
        app.state.desk = desk
        app.routes.extend(history_routes.router.routes)  # `include_router` would hide them from `not_found`
    if settings.proxy is not None and upstream is not None:
        service.batchers_of(settings.proxy.detector)
        keeps_replies = settings.history is not None and settings.history.proxy
        add_proxy(app, service, settings.proxy, upstream, keep if keeps_replies else None)
    if PAGE.is_dir():
        app.mount("/", StaticFiles(directory=PAGE, html=True), name="page")
    app.add_middleware(Protection, settings=settings, metrics=service.metrics)
    if settings.cors:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.cors,
            allow_methods=["GET", "POST", "PUT", "DELETE"],
            allow_headers=["*"],  # OpenAI's client for JavaScript sends x-stainless-…
            expose_headers=[STATUS_HEADER, "X-Request-ID", "Retry-After"],
        )
    return app


def _page(page: str) -> Response:
    """Send an HTML page that contains its style sheet and is not allowed to load anything."""
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'"
    return HTMLResponse(page, headers={"Content-Security-Policy": policy})


def _add_error_handlers(app: FastAPI, settings: ServerSettings) -> None:
    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, VeridicalError)
        return error_response(error, request_id_of(request), request.url.path)

    async def not_found(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        status, detail, headers, path = error.status_code, str(error.detail), error.headers, request.url.path
        routes = [route for route in app.routes if isinstance(route, APIRoute) and route.path_regex.fullmatch(path)]
        allowed = sorted({method for route in routes for method in route.methods or ()})
        if allowed and request.method not in allowed:  # the mount of the page has answered 404 for a wrong method
            status, detail, headers = 405, "Method Not Allowed", {"Allow": ", ".join(allowed)}
        elif status == 405 and path != "/":  # the mount of the page does not look whether it has the file
            status, detail, headers = 404, "Not Found", None
        hint = _ROUTES
        if status == 404 and settings.proxy is not None and path.startswith(OPENAI_ROUTES):
            hint = "only chat/completions and models are forwarded"
        elif status == 404 and path in FORWARDED_ROUTES:
            hint = "start the server with --proxy URL"
        elif status == 404 and settings.history is None and path.startswith("/v1/runs"):
            hint = "start the server with --history PATH"
        body = error_body(detail, hint, request_id_of(request), path)
        return JSONResponse(body, status, headers)

    async def misread(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        problem = error.errors()[0]
        name = ".".join(map(str, problem["loc"][1:]))
        message = problem["msg"].removeprefix("Value error, ").replace("Input should", "should")
        body = error_body(f"{name}: {message[:1].lower()}{message[1:]}", _ROUTES, request_id_of(request))
        return JSONResponse(body, 422)

    app.add_exception_handler(VeridicalError, refused)
    app.add_exception_handler(RequestValidationError, misread)
    app.add_exception_handler(HTTPException, not_found)


def _add_status(app: FastAPI, service: Service) -> None:
    @app.head("/health", include_in_schema=False)
    @app.get("/health", responses=documented_responses("The process is alive", _object("status"), work=False))
    async def health() -> JSONResponse:
        """Report that the process is alive, as "ok", or as "degraded" while a detector is stuck in a request."""
        status = "degraded" if any(batcher.problem for batcher in service.batchers.values()) else "ok"
        return JSONResponse({"status": status, "version": veridical.__version__})

    @app.head("/ready", include_in_schema=False)
    @app.get(
        "/ready",
        responses={**documented_responses("Every detector can be used", _object("ready"), work=False), **_NOT_READY},
    )
    async def ready() -> JSONResponse:
        """Report whether every detector is loaded and usable. If not, give the reasons, with the HTTP status 503."""
        unready = service.unready
        service.load_again()
        return JSONResponse({"ready": not unready, "detectors": unready}, 503 if unready else 200)

    @app.get("/metrics", responses=documented_responses("Prometheus' text form", {"text/plain": {}}, work=False))
    async def metrics() -> Response:
        """Return the numbers of requests, checked cases and batches so far, in the text format of Prometheus."""
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4")

    @app.get("/v1/detectors", responses=documented_responses("The detectors", _object("detectors"), work=False))
    async def detectors(request: Request) -> JSONResponse:
        """List the detectors that requests may name. The first one serves requests that name no detector.

        `history` tells whether checked cases are stored. `role` tells what the API key of the request may do: "check",
        "review" or "admin".
        """
        listed = [_described(name, service) for name in service.batchers]
        has_history = service.settings.history is not None
        return JSONResponse({"detectors": listed, "history": has_history, "role": role_of(request)})


def _described(name: str, service: Service) -> dict[str, Any]:
    detector = service.batchers[name].original
    info = info_of(detector)
    about = type(detector).__doc__ or ""
    return {
        "name": name,
        "about": about.strip().split("\n", 1)[0],
        "levels": [level.value for level in info.levels],
        "needs_sources": info.needs_sources,
        "needs_chat_model": info.needs_chat_model,
        "streams": hasattr(detector, "stream"),
        "maps": isinstance(detector, HasSalienceMaps),
        "problem": service.unready.get(name),
    }


async def _read(request: Request, cls: type[R], limits: Limits) -> R:
    """Read the body of a request and parse it in a thread, so that a large body does not delay other requests."""
    body_bytes = await read_body(request, limits)
    return await in_thread(lambda: read_request(body_bytes, cls, limits), size=len(body_bytes))


async def _answer(results: Sequence[object], write: Callable[[Any], str], run: str | None = None) -> Response:
    """Send results as JSON, together with the run in which they are kept. The JSON is written in a thread."""
    text = await in_thread(lambda: ",".join(map(write, results)))
    kept = "" if run is None else f', "run": {json.dumps(run)}'
    return Response(f'{{"results": [{text}]{kept}}}', media_type="application/json")


def _note(request: Request, service: Service, cases: Sequence[Case], outcomes: Sequence[Outcome]) -> None:
    """Add the numbers of cases and outcomes to the request's line in the log, and texts if the settings allow it."""
    log_fields: dict[str, Any] = {"cases": len(cases), "outcomes": dict(Counter(outcome.value for outcome in outcomes))}
    if service.settings.log_text:
        log_fields["texts"] = [{"response": c.response, "sources": [s.text for s in c.sources]} for c in cases]
    request.scope["state"]["log"] = log_fields


def _add_checks(app: FastAPI, service: Service, keep: Keep | None) -> None:
    limits = service.settings.limits

    @app.post(
        "/v1/check",
        openapi_extra=body(
            "CheckRequest",
            {"cases": [CASE]},
            {"cases": [CASE], "threshold": {"span": 0.4}, "include": ["sources"]},
            {"cases": [CONVERSATION]},
            CASE,
        ),
        responses=documented_responses("The checked cases, in order", list_of("check", "results", run=_RUN)),
    )
    async def check(request: Request) -> Response:
        """Check one or more cases for statements that their sources do not support, and for omissions."""
        wanted = await _read(request, CheckRequest, limits)
        results = [checked for checked, _ in await service.check_cases(wanted.cases, wanted)]
        if wanted.causes:
            results = await service.with_causes(results)
        _note(request, service, [checked.case for checked in results], [checked.outcome for checked in results])
        run = None if keep is None else await keep("check", key_of(request), wanted, results)
        return await _answer(results, lambda c: check_json(c, wanted.offsets, sources=wanted.with_sources), run)

    @app.post(
        "/v1/salience",
        openapi_extra=body("CheckRequest", {"cases": [CASE]}),
        responses=documented_responses("The maps, in order", _object("maps")),
    )
    async def salience(request: Request) -> Response:
        """Return the salience maps of one or more cases, one map for each case and detector.

        A map shows how strongly each word of the sources influences each word of the response. It is null if the
        detector makes no maps.
        """
        wanted = await _read(request, CheckRequest, limits)
        results = await service.check_cases(wanted.cases, wanted)
        _note(request, service, [checked.case for checked, _ in results], [])
        return await in_thread(
            lambda: JSONResponse(
                {"maps": [with_offsets(map_documents(maps), c.case, wanted.offsets) for c, maps in results]}
            )
        )

    @app.post(
        "/v1/report",
        openapi_extra=body("ReportRequest", {"cases": [CASE], "title": "Towers"}),
        responses=documented_responses("The page", {"text/html": {"schema": {"type": "string"}}}),
    )
    async def report(request: Request) -> Response:
        """Render a self-contained HTML page of cases that are checked now, or of the results of an earlier check."""
        return _page(await service.report(await _read(request, ReportRequest, limits)))

    @app.post(
        "/v1/revise",
        openapi_extra=body("ReviseRequest", {"cases": [CASE], "reviser": "delete"}),
        responses=documented_responses("The revised cases, in order", list_of("revised", "results", run=_RUN)),
    )
    async def revise(request: Request) -> Response:
        """Revise the unsupported parts of one or more responses.

        The detector judges each revised text, which is kept only if it is better than the text before it. The reviser
        "flag" only marks unsupported text, and its text is kept without a judgement.
        """
        wanted = await _read(request, ReviseRequest, limits)
        results = await service.revise_cases(wanted.cases, wanted)
        _note(request, service, [revised.case for revised in results], [revised.outcome for revised in results])
        return await _answer(results, lambda revised: encode(revised, sources=wanted.with_sources))

    @app.post(
        "/v1/stream",
        openapi_extra=body("StreamRequest", {"case": CASE}, kinds=("application/json", "application/x-ndjson")),
        responses=documented_responses("The events", _EVENTS),
    )
    async def stream(request: Request) -> Response:
        """Check a response while it arrives: JSON Lines in, server-sent events out.

        The first line is the request with the case. Each further line is `{"text": …}` with the next part of the
        response. The events are `start`, then `verdicts` for each newly judged part, and at last `result` for the whole
        response. If something fails, the last event is `error`.
        """
        response_stream = await open_stream(request, service, keep)
        _note(request, service, [response_stream.case], [])
        return EventStream(response_stream.events())

    @app.post(
        "/v1/documents", openapi_extra=_UPLOAD, responses=documented_responses("The text", _object("name", "text"))
    )
    async def documents(request: Request) -> Response:
        """Extract the text of an uploaded PDF, Word, Excel, HTML, Markdown or text file (multipart, one part `file`).

        If a text file is not UTF-8, its content type must name the charset: `text/plain; charset=cp1252`. `pages` are
        the character positions at which the pages of a PDF begin. `notes` say what may be wrong with the text, such as
        interleaved columns.
        """
        upload = await read_body(request, limits, kind="multipart/form-data", most=limits.document_bytes)
        text = await service.extraction.document(request.headers["content-type"], upload)
        return Response(text, media_type="application/json")
