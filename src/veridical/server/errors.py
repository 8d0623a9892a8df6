"""Turn errors into HTTP responses, with a status and the JSON `{"error": …, "hint": …, "request_id": …}`.

`error` is a text. On the routes of OpenAI's API, `error` is an object, because OpenAI's clients show only the `message`
in it.
"""

from __future__ import annotations

from typing import Any

from starlette.responses import JSONResponse

from veridical.history.records import NotKeptError, StaleError, UnavailableError
from veridical.records.errors import CannotJudgeError, InputError, MissingExtraError, VeridicalError, WireError

FORWARDED_ROUTES = ("/v1/chat/completions", "/v1/models")
"""The routes of OpenAI's API that the proxy serves."""

OPENAI_ROUTES = (*FORWARDED_ROUTES, "/v1/completions", "/v1/responses", "/v1/embeddings")
"""The beginnings of the paths that clients of OpenAI's API request."""


class Refused(VeridicalError):
    """Raised to reject a request with the HTTP status `status`.

    If `retry_after` is given, the client may try again after this many seconds.
    """

    def __init__(self, status: int, message: str, *, hint: str | None = None, retry_after: int | None = None) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.retry_after = retry_after
        self.retryable = retry_after is not None


def status_of(error: VeridicalError) -> int:
    """Return the HTTP status for an error.

    >>> status_of(WireError("not JSON")), status_of(InputError("no detector")), status_of(CannotJudgeError("no model"))
    (400, 422, 503)
    """
    if isinstance(error, Refused):
        return error.status
    if isinstance(error, WireError):
        return 400
    if isinstance(error, NotKeptError | StaleError):
        return 404 if isinstance(error, NotKeptError) else 409
    if isinstance(error, InputError):
        return 422
    if isinstance(error, MissingExtraError):
        return 415
    return 503 if isinstance(error, CannotJudgeError | UnavailableError) else 500


def error_body(error: str, hint: str | None, request_id: str, path: str = "") -> dict[str, Any]:
    """Build the JSON object that describes an error, in the form that clients of the route `path` expect.

    >>> error_body("no key", "send one", "r", "/v1/models")["error"]
    {'message': 'no key (send one)', 'type': 'veridical_error'}
    """
    if not path.startswith(OPENAI_ROUTES):
        return {"error": error, "hint": hint, "request_id": request_id}
    message = f"{error} ({hint})" if hint else error
    return {"error": {"message": message, "type": "veridical_error"}, "hint": hint, "request_id": request_id}


def error_response(error: VeridicalError, request_id: str, path: str) -> JSONResponse:
    """Build the HTTP response for an error at the route `path`, with status, headers and a JSON body (`error_body`)."""
    response = JSONResponse(error_body(error.message, error.hint, request_id, path), status_of(error))
    if isinstance(error, Refused) and error.retry_after is not None:
        response.headers["Retry-After"] = str(error.retry_after)
    if status_of(error) == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response
