"""Scores where services for evaluation keep them, each through its real package."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

import veridical
from veridical.integrations.scores import named_scores
from veridical.records.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore")  # what a package deprecates of its own

SOURCES = ["The tower is red."]
FLAGGED = veridical.check("The tower is purple.", SOURCES, must_cover="It is old.", detector="overlap")
UNJUDGED = veridical.check("The tower is red.", [], detector="overlap")


def test_names_values_and_reasons() -> None:
    outcome, hallucination, omission = named_scores(FLAGGED)
    assert (outcome.name, outcome.label, outcome.value) == ("veridical.outcome", "flagged", None)
    assert (hallucination.name, hallucination.value) == ("veridical.hallucination", 0.5)
    assert "purple" in hallucination.explanation
    assert "purple" not in omission.explanation
    (unjudged,) = named_scores(UNJUDGED)
    assert unjudged.label == "unjudged"
    assert "no sources" in unjudged.explanation
    two = veridical.check("The tower is red.", SOURCES, detector=["overlap", "overlap:values"])
    assert {score.name for score in named_scores(two)} >= {
        "veridical.hallucination.overlap",
        "veridical.hallucination.overlap:values",
    }


def test_opentelemetry() -> None:
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
    from opentelemetry.sdk.trace import TracerProvider

    from veridical.integrations.opentelemetry import emit_scores

    exporter, provider = InMemoryLogRecordExporter(), LoggerProvider()
    provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    with TracerProvider().get_tracer("test").start_as_current_span("answer") as span:
        emit_scores(FLAGGED, response_id="r1", logger_provider=provider)
    emit_scores(UNJUDGED, logger_provider=provider)
    outcome, hallucination, _, unjudged = (each.log_record for each in exporter.get_finished_logs())
    assert hallucination.event_name == "gen_ai.evaluation.result"
    assert hallucination.span_id == span.get_span_context().span_id
    assert hallucination.attributes["gen_ai.evaluation.name"] == "veridical.hallucination"
    assert hallucination.attributes["gen_ai.evaluation.score.value"] == 0.5
    assert hallucination.attributes["gen_ai.response.id"] == "r1"
    assert "gen_ai.evaluation.score.value" not in outcome.attributes
    assert unjudged.attributes["gen_ai.evaluation.score.label"] == "unjudged"


def test_opentelemetry_without_a_provider_of_loggers() -> None:
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider

    from veridical.integrations.opentelemetry import emit_scores

    with TracerProvider().get_tracer("test").start_as_current_span("answer") as span:
        emit_scores(FLAGGED, response_id="r1")
    assert isinstance(span, ReadableSpan)
    outcome, hallucination, _ = span.events
    assert outcome.name == hallucination.name == "gen_ai.evaluation.result"
    assert hallucination.attributes is not None
    assert hallucination.attributes["gen_ai.evaluation.score.value"] == 0.5
    with pytest.warns(UserWarning, match="no scores are sent: set a LoggerProvider"):
        emit_scores(FLAGGED)


@contextmanager
def receiving() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A server on the loopback that takes scores as Langfuse's does."""
    scores: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            scores.extend(body if isinstance(body, list) else [each["body"] for each in body["batch"]])
            answer = b'{"successes": [], "errors": []}'
            self.send_response(207)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *arguments: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", scores
    finally:
        server.shutdown()
        server.server_close()


def test_langfuse() -> None:
    langfuse = pytest.importorskip("langfuse")
    from veridical.integrations.langfuse import send_scores

    with receiving() as (url, scores):
        client = langfuse.Langfuse(public_key="pk", secret_key="sk", host=url)
        send_scores(FLAGGED, trace_id="0" * 31 + "1", client=client)
        client.flush()
        client.shutdown()
    by_name = {score["name"]: score for score in scores}
    assert (by_name["veridical.outcome"]["value"], by_name["veridical.outcome"]["dataType"]) == (
        "flagged",
        "CATEGORICAL",
    )
    assert by_name["veridical.hallucination"]["value"] == 0.5
    assert by_name["veridical.hallucination"]["traceId"] == "0" * 31 + "1"


def test_mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    from veridical.integrations.mlflow import log_scores

    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # no database is needed
    monkeypatch.setenv("MLFLOW_ENABLE_ASYNC_TRACE_LOGGING", "false")
    mlflow.set_tracking_uri(tmp_path.as_uri())
    mlflow.set_experiment("checks")
    with pytest.raises(InputError, match="no trace"):
        log_scores(FLAGGED)
    with mlflow.start_span("answer") as span:
        pass
    log_scores(FLAGGED, trace_id=span.trace_id)
    feedback = {each.name: each for each in mlflow.get_trace(span.trace_id).info.assessments}
    assert feedback["veridical.outcome"].value == "flagged"
    assert feedback["veridical.hallucination"].value == 0.5
    assert "purple" in feedback["veridical.hallucination"].rationale
