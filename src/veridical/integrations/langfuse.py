"""Send the result of a check to Langfuse, as scores of a trace."""

from __future__ import annotations

from veridical.integrations.scores import named_scores
from veridical.records.errors import MissingExtraError
from veridical.records.types import Checked

try:
    from langfuse import Langfuse, get_client
except ImportError:
    raise MissingExtraError("the Langfuse adapter", "langfuse") from None


def send_scores(
    checked: Checked, *, trace_id: str | None = None, observation_id: str | None = None, client: Langfuse | None = None
) -> None:
    """Send a check to Langfuse: its outcome as a categorical score, and each score of its detectors as a number.

    A score of 1 means hallucinated or omitted.

    Args:
        checked: The result of a check.
        trace_id: The trace to score. Default: the current trace.
        observation_id: The observation to score within the trace. Default: the trace as a whole.
        client: The Langfuse client. Default: the client that the environment variables describe.
    """
    client = client or get_client()
    trace_id = trace_id or client.get_current_trace_id()
    for score in named_scores(checked):
        client.create_score(
            name=score.name,
            value=score.label if score.value is None else score.value,
            data_type="CATEGORICAL" if score.value is None else "NUMERIC",  # type: ignore[arg-type]
            comment=score.explanation or None,
            trace_id=trace_id,
            observation_id=observation_id,
        )
