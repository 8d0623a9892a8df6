"""OpenTelemetry: the result of a check as `gen_ai.evaluation.result` events of the current span."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import veridical
from veridical.core.errors import MissingExtraError
from veridical.core.types import Checked
from veridical.integrations.scores import named_scores

try:
    from opentelemetry._logs import LogRecord, get_logger
    from opentelemetry.context import get_current
except ImportError:
    raise MissingExtraError("the OpenTelemetry adapter", "opentelemetry") from None

if TYPE_CHECKING:
    from opentelemetry._logs import LoggerProvider

__all__ = ["emit_scores"]

EVENT = "gen_ai.evaluation.result"


def emit_scores(
    checked: Checked, *, response_id: str | None = None, logger_provider: LoggerProvider | None = None
) -> None:
    """Emit one event for the outcome of a check and one for each score (1 = hallucinated or omitted).

    Args:
        checked: The result of a check.
        response_id: The id of the response that was checked, as its chat model gave it.
        logger_provider: Where the events go; None = the global provider.
    """
    logger = get_logger("veridical", veridical.__version__, logger_provider)
    for score in named_scores(checked):
        attributes: dict[str, str | float] = {
            "gen_ai.evaluation.name": score.name,
            "gen_ai.evaluation.score.label": score.label,
        }
        if score.explanation:
            attributes["gen_ai.evaluation.explanation"] = score.explanation
        if score.value is not None:
            attributes["gen_ai.evaluation.score.value"] = score.value
        if response_id is not None:
            attributes["gen_ai.response.id"] = response_id
        now = time.time_ns()
        logger.emit(LogRecord(timestamp=now, context=get_current(), event_name=EVENT, attributes=attributes))
