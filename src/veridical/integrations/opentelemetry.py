"""Send the result of a check to OpenTelemetry, as `gen_ai.evaluation.result` events of the current span."""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING

import veridical
from veridical.integrations.scores import named_scores
from veridical.records.errors import MissingExtraError
from veridical.records.types import Checked

try:
    from opentelemetry._logs import LogRecord, NoOpLogger, get_logger, get_logger_provider
    from opentelemetry._logs._internal import ProxyLoggerProvider
    from opentelemetry.context import get_current
    from opentelemetry.trace import get_current_span
except ImportError:
    raise MissingExtraError("the OpenTelemetry adapter", "opentelemetry") from None

if TYPE_CHECKING:
    from opentelemetry._logs import LoggerProvider

EVENT = "gen_ai.evaluation.result"


def emit_scores(
    checked: Checked, *, response_id: str | None = None, logger_provider: LoggerProvider | None = None
) -> None:
    """Emit one event for the outcome of a check, and one for each score of its detectors.

    A score of 1 means hallucinated or omitted. If there is no logger provider, the events are added to the current
    span. If no span is recording either, you get a warning.

    Args:
        checked: The result of a check.
        response_id: The id that the chat model gave to the checked response.
        logger_provider: The logger provider that receives the events. Default: the global provider.
    """
    logger = get_logger("veridical", veridical.__version__, logger_provider)
    span, provider = get_current_span(), logger_provider or get_logger_provider()
    is_logged = not isinstance(provider, ProxyLoggerProvider) and not isinstance(logger, NoOpLogger)
    if not is_logged and not span.is_recording():
        warnings.warn("no scores are sent: set a LoggerProvider, or emit them in a span that records", stacklevel=2)
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
        if is_logged:
            now = time.time_ns()
            logger.emit(LogRecord(timestamp=now, context=get_current(), event_name=EVENT, attributes=attributes))
        else:
            span.add_event(EVENT, attributes)
