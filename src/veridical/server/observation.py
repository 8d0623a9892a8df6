"""Write the operator's log and metrics: one JSON line per request, and counters for Prometheus.

The log contains texts of users only if you turn this on in the settings.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from veridical.records.types import Checked

LOGGER = "veridical.server"
_LOG = logging.getLogger(LOGGER)
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)


class JsonLines(logging.Formatter):
    """Formats a log record as one line of JSON.

    For an exception, it writes the type, the file and the line, but not the message, which may contain texts of users.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Format `record` as a line."""
        fields: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
        }
        extra = getattr(record, "fields", None)
        fields |= extra if isinstance(extra, Mapping) else {"event": record.name, "message": record.getMessage()}
        if record.exc_info and record.exc_info[1] is not None:
            fields["exception"] = type(record.exc_info[1]).__name__
            frame = record.exc_info[2]
            while frame is not None and frame.tb_next is not None:
                frame = frame.tb_next
            if frame is not None:
                fields["at"] = f"{frame.tb_frame.f_code.co_filename}:{frame.tb_lineno}"
        return json.dumps(fields, ensure_ascii=True, default=str)


def log(event: str, level: int = logging.INFO, error: BaseException | None = None, **fields: Any) -> None:
    """Write a line to the server's log, with the name of an event and any fields. Fields that are None are omitted."""
    present = {name: value for name, value in fields.items() if value is not None}
    _LOG.log(level, event, exc_info=error, extra={"fields": {"event": event, **present}})


class Metrics:
    """Counts the requests, cases and batches of one application.

    Args:
        waiting: Called to get the number of waiting cases by detector.
    """

    def __init__(self, waiting: Callable[[], Mapping[str, int]]) -> None:
        self._registry = CollectorRegistry()
        self._waiting = waiting
        self._requests = Counter(
            "veridical_requests", "Requests by route and status.", ["route", "status"], registry=self._registry
        )
        self._seconds = Histogram(
            "veridical_request_seconds", "Time to an answer.", ["route"], buckets=_SECONDS, registry=self._registry
        )
        self._outcomes = Counter(
            "veridical_outcomes", "Checked cases by outcome.", ["outcome"], registry=self._registry
        )
        self._batch_size = Histogram(
            "veridical_batch_cases", "Cases of a batch.", ["detector"], buckets=_SIZES, registry=self._registry
        )
        self._batch_seconds = Histogram(
            "veridical_batch_seconds", "Time of a batch.", ["detector"], buckets=_SECONDS, registry=self._registry
        )
        self._queue = Gauge("veridical_waiting_cases", "Cases that wait.", ["detector"], registry=self._registry)
        self._proxied = Counter(
            "veridical_proxied_replies", "Replies of the proxy by status.", ["status"], registry=self._registry
        )

    def request(self, route: str, status: int, seconds: float) -> None:
        """Count an answered request by its route and status, with the seconds until its response was sent."""
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def batch(self, detector: str, cases: int, seconds: float) -> None:
        """Count a batch that `detector` has judged, with its number of cases and the seconds that it took."""
        self._batch_size.labels(detector).observe(cases)
        self._batch_seconds.labels(detector).observe(seconds)

    def checked(self, result: Checked) -> None:
        """Count a checked case by its outcome, such as "flagged"."""
        self._outcomes.labels(result.outcome.value).inc()

    def proxied(self, status: str) -> None:
        """Count a chat reply that went through the proxy by the status of its check, such as "flagged"."""
        self._proxied.labels(status).inc()

    def text(self) -> bytes:
        """Return all counts in the text format of Prometheus, together with the numbers of cases that wait now."""
        for detector, cases in self._waiting().items():
            self._queue.labels(detector).set(cases)
        return generate_latest(self._registry)
