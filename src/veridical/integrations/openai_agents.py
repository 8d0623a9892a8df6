"""An output guardrail for the OpenAI Agents SDK, which stops an answer that its sources do not support."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from veridical.detectors import load_detector
from veridical.io.sources import Sources
from veridical.records.detector import Detector, takes_detector
from veridical.records.errors import MissingExtraError
from veridical.records.types import Outcome
from veridical.workflows.checking import DEFAULT_DETECTOR, acheck

try:
    from agents import Agent, GuardrailFunctionOutput, OutputGuardrail, RunContextWrapper
except ImportError:
    raise MissingExtraError("the adapter to the OpenAI Agents SDK", "openai-agents") from None


@takes_detector
def grounded_output(
    sources: Callable[[Any], Sources],
    *,
    detector: str | Detector = DEFAULT_DETECTOR,
    threshold: float | Mapping[str, float] | None = None,
    text: Callable[[Any], str] = str,
    allow_unjudged: bool = False,
) -> OutputGuardrail[Any]:
    """Make a guardrail for the `output_guardrails` of an agent.

    The guardrail ends the run with `OutputGuardrailTripwireTriggered` if the answer is flagged or could not be judged.
    The `output_info` of this error is the `Checked` of the answer.

    Args:
        sources: A function that takes the context of the run and returns the sources, such as the passages that the
            tools of the run have retrieved.
        detector: A detector spec such as "overlap", or a detector object (with `name` and `judge`).
        threshold: The lowest score in [0, 1] that is flagged, as one number, or as a dict with numbers for the whole
            response and its spans: {"response": 0.6, "span": 0.4}. Default: the detector's own thresholds, or 0.5.
        text: A function that returns the text of the agent's output.
        allow_unjudged: If true, an answer that could not be judged passes. By default, it ends the run.
    """
    loaded = load_detector(detector)

    async def check_output(context: RunContextWrapper[Any], agent: Agent[Any], output: Any) -> GuardrailFunctionOutput:
        checked = await acheck(text(output), sources(context.context), detector=loaded, threshold=threshold)
        passes = checked.outcome.passes or (allow_unjudged and checked.outcome is Outcome.UNJUDGED)
        return GuardrailFunctionOutput(output_info=checked, tripwire_triggered=not passes)

    return OutputGuardrail(check_output, name="veridical")
