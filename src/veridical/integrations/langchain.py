"""LangChain: a callback that checks what a chain's models say against what its retrievers found, and a runnable."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from veridical.checking import DEFAULT_DETECTOR, check
from veridical.core.detector import Detector
from veridical.core.errors import MissingExtraError, VeridicalError
from veridical.core.types import Checked, Outcome

try:
    from langchain_core.callbacks import BaseCallbackHandler
    from langchain_core.documents import Document
    from langchain_core.outputs import LLMResult
    from langchain_core.runnables import RunnableLambda
except ImportError:
    raise MissingExtraError("the LangChain adapter", "langchain") from None

__all__ = ["GroundednessCallback", "NotGroundedError", "groundedness_check"]


class NotGroundedError(VeridicalError):
    """A response that is not grounded, or could not be judged; `checked` is what was found."""

    def __init__(self, checked: Checked) -> None:
        from veridical.report.findings import findings, unjudged_reasons

        self.checked = checked
        reasons = [finding.message for finding in findings(checked)] or unjudged_reasons(checked)
        super().__init__(f"the response is {checked.outcome.value}: {'; '.join(reasons[:3])}")


@dataclass
class _Run:
    """One call of a chain, with all that runs inside it."""

    sources: list[str] = field(default_factory=list)
    members: list[UUID] = field(default_factory=list)


class GroundednessCallback(BaseCallbackHandler):
    """Checks each reply of a language model against the documents that the same chain call retrieved before it.

    What a model says before anything is retrieved, such as a rewritten question, is not checked. `results` has every
    check, in the order of the replies. One callback may serve any number of calls at once.

    Args:
        detector: A spec, or an object with `name` and `judge`.
        threshold: The score in [0, 1] from which something is flagged, for all levels or per level.
        on_result: Called with each check.
        strict: Raise `NotGroundedError` out of the chain for what is flagged or could not be judged.
    """

    def __init__(
        self,
        *,
        detector: str | Detector = DEFAULT_DETECTOR,
        threshold: float | Mapping[str, float] | None = None,
        on_result: Callable[[Checked], None] | None = None,
        strict: bool = False,
    ) -> None:
        self.detector = _loaded(detector)
        self.threshold = threshold
        self.on_result = on_result
        self.strict = strict
        self.raise_error = True  # LangChain would otherwise log what this raises, and go on
        self.results: list[Checked] = []
        self._runs: dict[UUID, _Run] = {}

    def _start(self, run_id: UUID, parent_run_id: UUID | None) -> None:
        run = self._runs.get(parent_run_id) if parent_run_id is not None else None
        run = run or _Run()
        run.members.append(run_id)
        self._runs[run_id] = run

    def _end(self, run_id: UUID, parent_run_id: UUID | None) -> None:
        if parent_run_id is None and run_id in self._runs:
            for member in self._runs[run_id].members:
                self._runs.pop(member, None)

    def on_chain_start(
        self, serialized: Any, inputs: Any, *, run_id: UUID, parent_run_id: UUID | None = None, **kwargs: Any
    ) -> None:
        """A chain, or a part of one, begins."""
        self._start(run_id, parent_run_id)

    def on_tool_start(
        self, serialized: Any, input_str: Any, *, run_id: UUID, parent_run_id: UUID | None = None, **kwargs: Any
    ) -> None:
        """A tool begins, which may retrieve."""
        self._start(run_id, parent_run_id)

    def on_chat_model_start(self, serialized: Any, messages: Any, **kwargs: Any) -> None:
        """A chat model begins; nothing is done yet."""

    def on_retriever_end(
        self, documents: Sequence[Document], *, run_id: UUID, parent_run_id: UUID | None = None, **kwargs: Any
    ) -> None:
        """Documents were retrieved: sources of what the models of this call say from now on."""
        if parent_run_id in self._runs:
            self._runs[parent_run_id].sources.extend(d.page_content for d in documents if d.page_content.strip())

    def on_llm_end(
        self, response: LLMResult, *, run_id: UUID, parent_run_id: UUID | None = None, **kwargs: Any
    ) -> None:
        """A model has replied: check what it says, if anything was retrieved before."""
        run = self._runs.get(parent_run_id) if parent_run_id is not None else None
        if run is None or not run.sources:
            return
        for text in (generation.text for generations in response.generations for generation in generations):
            if not text.strip():  # a call of a tool has no text
                continue
            checked = check(text, tuple(run.sources), detectors=self.detector, threshold=self.threshold)
            self.results.append(checked)
            if self.on_result is not None:
                self.on_result(checked)
            if self.strict and checked.outcome is not Outcome.CLEAR:
                raise NotGroundedError(checked)

    def on_chain_end(self, outputs: Any, *, run_id: UUID, parent_run_id: UUID | None = None, **kwargs: Any) -> None:
        """A chain ends; with the outermost one all that is known of the call is dropped."""
        self._end(run_id, parent_run_id)

    def on_chain_error(
        self, error: BaseException, *, run_id: UUID, parent_run_id: UUID | None = None, **kwargs: Any
    ) -> None:
        """The same for a chain that fails."""
        self._end(run_id, parent_run_id)


def groundedness_check(
    *,
    detector: str | Detector = DEFAULT_DETECTOR,
    threshold: float | Mapping[str, float] | None = None,
    answer: str = "answer",
    context: str = "context",
) -> RunnableLambda[dict[str, Any], dict[str, Any]]:
    """A runnable that adds `check` (a `Checked`) to a chain's output.

    Args:
        detector: A spec, or an object with `name` and `judge`.
        threshold: The score in [0, 1] from which something is flagged, for all levels or per level.
        answer: The key of the response, a text or a message.
        context: The key of the sources: documents or texts.
    """
    loaded = _loaded(detector)

    def add_check(output: dict[str, Any]) -> dict[str, Any]:
        response = output[answer]
        text = response if isinstance(response, str) else response.text
        sources = [s.page_content if isinstance(s, Document) else s for s in output[context]]
        return {**output, "check": check(str(text), sources, detectors=loaded, threshold=threshold)}

    return RunnableLambda(add_check)


def _loaded(detector: str | Detector) -> Detector:
    from veridical.detectors import load_detector

    return load_detector(detector) if isinstance(detector, str) else detector
