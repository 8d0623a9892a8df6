"""Error answers: their HTTP status and their one JSON form, `{"error": …, "hint": …, "request_id": …}`."""

from __future__ import annotations

from typing import Any

from starlette.responses import JSONResponse

from veridical.core.errors import CannotJudgeError, InputError, MissingExtraError, VeridicalError, WireError

__all__ = ["Refused", "error_body", "error_response", "status_of"]


class Refused(VeridicalError):
    """The server refuses a request with the HTTP status `status`; `retry_after` (seconds) says when to try again."""

    def __init__(self, status: int, message: str, *, hint: str | None = None, retry_after: int | None = None) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.retry_after = retry_after
        self.retryable = retry_after is not None


def status_of(error: VeridicalError) -> int:
    """Return the HTTP status of an error.

    >>> status_of(WireError("not JSON")), status_of(InputError("no detector")), status_of(CannotJudgeError("no model"))
    (400, 422, 503)
    """
    if isinstance(error, Refused):
        return error.status
    if isinstance(error, WireError):
        return 400
    if isinstance(error, InputError):
        return 422
    return 415 if isinstance(error, MissingExtraError) else 503 if isinstance(error, CannotJudgeError) else 500


def error_body(error: str, hint: str | None, request_id: str) -> dict[str, Any]:
    """Return the JSON of an error."""
    return {"error": error, "hint": hint, "request_id": request_id}


def error_response(error: VeridicalError, request_id: str) -> JSONResponse:
    """Return the HTTP answer for `error`."""
    response = JSONResponse(error_body(error.message, error.hint, request_id), status_of(error))
    if isinstance(error, Refused) and error.retry_after is not None:
        response.headers["Retry-After"] = str(error.retry_after)
    if status_of(error) == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response
