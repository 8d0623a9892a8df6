"""Send the result of a check to MLflow, as feedback on a trace."""

from __future__ import annotations

import veridical
from veridical.integrations.scores import named_scores
from veridical.records.errors import InputError, MissingExtraError
from veridical.records.types import Checked

try:
    import mlflow
    from mlflow.entities import AssessmentSource
except ImportError:
    raise MissingExtraError("the MLflow adapter", "mlflow") from None


def log_scores(checked: Checked, *, trace_id: str | None = None, span_id: str | None = None) -> None:
    """Log the outcome of a check and each score of its detectors as feedback on a trace.

    A score of 1 means hallucinated or omitted.

    Args:
        checked: The result of a check.
        trace_id: The trace to give feedback on. Default: the last trace of this thread.
        span_id: The span to give feedback on within the trace. Default: the trace as a whole.

    Raises:
        InputError: You name no trace, and this thread has none.
    """
    trace_id = trace_id or mlflow.get_last_active_trace_id(thread_local=True)
    if trace_id is None:
        raise InputError("there is no trace to log scores on", hint="name one with trace_id")
    source = AssessmentSource(source_type="CODE", source_id=f"veridical {veridical.__version__}")
    for score in named_scores(checked):
        mlflow.log_feedback(
            trace_id=trace_id,
            span_id=span_id,
            name=score.name,
            value=score.label if score.value is None else score.value,
            rationale=score.explanation or None,
            source=source,
        )
