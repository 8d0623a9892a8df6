"""Langfuse: the result of a check as scores of a trace."""

from __future__ import annotations

from veridical.core.errors import MissingExtraError
from veridical.core.types import Checked
from veridical.integrations.scores import named_scores

try:
    from langfuse import Langfuse, get_client
except ImportError:
    raise MissingExtraError("the Langfuse adapter", "langfuse") from None

__all__ = ["send_scores"]


def send_scores(
    checked: Checked, *, trace_id: str | None = None, observation_id: str | None = None, client: Langfuse | None = None
) -> None:
    """Send the outcome of a check as a categorical score, and each score (1 = hallucinated or omitted) as a number.

    Args:
        checked: The result of a check.
        trace_id: The trace to score; None = the current one.
        observation_id: The observation of the trace; None = the trace as a whole.
        client: The client; None = that of the environment.
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
