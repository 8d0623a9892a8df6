"""The service as an ASGI application: `create_app(settings)`; `veridical serve` runs it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, JSONResponse
from starlette.staticfiles import StaticFiles

import veridical
from veridical.core.detector import HasSalienceMaps, info_of
from veridical.core.errors import InputError, VeridicalError
from veridical.core.serialization import encode
from veridical.server.errors import error_body, error_response
from veridical.server.protection import Protection, read_body, request_id_of
from veridical.server.requests import CheckRequest, ReportRequest, read_request
from veridical.server.salience import map_documents
from veridical.server.service import Service
from veridical.server.settings import ServerSettings

__all__ = ["PAGE", "create_app"]

PAGE = Path(__file__).parent / "page"


def create_app(settings: ServerSettings | None = None) -> FastAPI:
    """The service. It works inside its lifespan only: that is when detectors are loaded, and ended.

    Raises whatever `load_detector` raises for one of the settings' detectors.
    """
    settings = settings or ServerSettings()
    service = Service(settings)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.start()
        try:
            yield
        finally:
            await service.close()

    app = FastAPI(
        title="Veridical",
        version=veridical.__version__,
        description="Finds what in a generated text its sources do not support, and what it leaves out.",
        docs_url=None,  # these pages load scripts from elsewhere
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.service = service
    _add_error_handlers(app)
    _add_status(app, service)
    _add_checks(app, service)
    if PAGE.is_dir():
        app.mount("/", StaticFiles(directory=PAGE, html=True), name="page")
    app.add_middleware(Protection, settings=settings)
    return app


def _add_error_handlers(app: FastAPI) -> None:
    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, VeridicalError)
        return error_response(error, request_id_of(request))

    async def not_found(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        body = error_body(str(error.detail), "GET /openapi.json lists what there is", request_id_of(request))
        return JSONResponse(body, error.status_code, error.headers)

    app.add_exception_handler(VeridicalError, refused)
    app.add_exception_handler(HTTPException, not_found)


def _add_status(app: FastAPI, service: Service) -> None:
    @app.get("/health")
    async def health() -> JSONResponse:
        """The process answers."""
        return JSONResponse({"status": "ok", "version": veridical.__version__})

    @app.get("/ready")
    async def ready() -> JSONResponse:
        """Every detector is loaded; 503 with the reasons where one is not."""
        unready = service.unready
        return JSONResponse({"ready": not unready, "detectors": unready}, 503 if unready else 200)

    @app.get("/v1/detectors")
    async def detectors() -> JSONResponse:
        """The detectors that requests may name; the first is used where none is named."""
        return JSONResponse({"detectors": [_described(name, service) for name in service.batchers]})


def _described(name: str, service: Service) -> dict[str, Any]:
    detector = service.batchers[name].detector
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


def _add_checks(app: FastAPI, service: Service) -> None:
    limits = service.settings.limits

    @app.post("/v1/check")
    async def check(request: Request) -> Response:
        """Check one or many cases."""
        wanted = read_request(await read_body(request, limits), CheckRequest, limits)
        results = await service.check(wanted)
        text = await asyncio.to_thread(lambda: ",".join(encode(checked) for checked, _ in results))
        return Response(f'{{"results": [{text}]}}', media_type="application/json")

    @app.post("/v1/salience")
    async def salience(request: Request) -> JSONResponse:
        """Salience maps of one or many cases: for each case one per detector, null where that makes none."""
        wanted = read_request(await read_body(request, limits), CheckRequest, limits)
        results = await service.check(wanted)
        return JSONResponse({"maps": await asyncio.to_thread(lambda: [map_documents(maps) for _, maps in results])})

    @app.post("/v1/report")
    async def report(request: Request) -> Response:
        """One HTML page of cases, checked now, or of results of a check; it needs no network."""
        wanted = read_request(await read_body(request, limits), ReportRequest, limits)
        # its style is within it, and it needs nothing else
        policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'"
        return HTMLResponse(await service.report(wanted), headers={"Content-Security-Policy": policy})

    @app.post("/v1/documents")
    async def documents(request: Request) -> JSONResponse:
        """The text of an uploaded PDF, HTML, Markdown or text file (multipart, one part called `file`)."""
        await read_body(request, limits, kind="multipart/form-data", most=limits.document_bytes)
        async with request.form(max_files=1, max_fields=1) as form:
            file = form.get("file")
            if not isinstance(file, UploadFile):
                raise InputError("no file", hint="multipart/form-data with one part called file")
            name, data = file.filename or "document", await file.read()
        name, text = await service.document(name, data)
        return JSONResponse({"name": name, "text": text, "characters": len(text)})
