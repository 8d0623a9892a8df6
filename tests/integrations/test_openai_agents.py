"""The guardrail in a real run of an agent with a scripted model; needs openai-agents."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("agents")
from agents import Agent, Model, ModelResponse, OutputGuardrailTripwireTriggered, RunConfig, Runner, Usage
from openai.types.responses import ResponseOutputMessage, ResponseOutputText

from veridical.integrations.openai_agents import grounded_output
from veridical.records.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore")  # what a framework deprecates of its own


class Scripted(Model):
    """Always says the same."""

    def __init__(self, text: str) -> None:
        self.text = text

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        content = ResponseOutputText(text=self.text, type="output_text", annotations=[])
        message = ResponseOutputMessage(id="1", content=[content], role="assistant", status="completed", type="message")
        return ModelResponse(output=[message], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


def run(text: str, sources: Any, **options: Any) -> Any:
    guardrail = grounded_output(lambda context: context["found"], detector="overlap", **options)
    agent = Agent(name="guide", model=Scripted(text), output_guardrails=[guardrail])
    config = RunConfig(tracing_disabled=True)
    return asyncio.run(Runner.run(agent, "How is it?", context={"found": sources}, run_config=config))


def test_an_answer_that_the_sources_support_passes() -> None:
    result = run("The tower is red.", [{"id": "a", "text": "The tower is red."}])
    assert result.final_output == "The tower is red."
    (guarded,) = result.output_guardrail_results
    assert guarded.output.output_info.case.sources[0].id == "a"


@pytest.mark.parametrize(("text", "sources"), [("The tower is purple.", ["The tower is red."]), ("It is red.", [])])
def test_a_flagged_answer_and_one_without_sources_do_not(text: str, sources: list[str]) -> None:
    with pytest.raises(OutputGuardrailTripwireTriggered) as caught:
        run(text, sources)
    assert caught.value.guardrail_result.output.output_info.outcome.value in ("flagged", "unjudged")


def test_the_argument_is_called_detector() -> None:
    with pytest.raises(InputError, match="it is called detector"):
        grounded_output(lambda context: (), detectors="overlap")  # type: ignore[call-arg]


def test_what_cannot_be_judged_may_be_allowed() -> None:
    assert run("It is red.", [], allow_unjudged=True).final_output == "It is red."
