"""A LangChain callback and a runnable that check a chain's replies against the documents that it retrieved."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from veridical.detectors import load_detector
from veridical.records.detector import Detector, takes_detector
from veridical.records.errors import MissingExtraError, VeridicalError
from veridical.records.strings import is_blank
from veridical.records.types import Checked
from veridical.workflows.checking import DEFAULT_DETECTOR, check

try:
    from langchain_core.callbacks import BaseCallbackHandler
    from langchain_core.documents import Document
    from langchain_core.outputs import Generation, LLMResult
    from langchain_core.runnables import RunnableLambda
except ImportError:
    raise MissingExtraError("the LangChain adapter", "langchain") from None


class NotGroundedError(VeridicalError):
    """Raised if a response is flagged or could not be judged. `checked` is the result of the check."""

    def __init__(self, checked: Checked) -> None:
        from veridical.report.findings import reasons

        self.checked = checked
        super().__init__(f"the response is {checked.outcome.value}: {'; '.join(reasons(checked)[:3])}")


@dataclass
class _Run:
    """One call of a chain.

    `members` are the ids of all runs inside the call. `documents` is None until documents are retrieved.
    """

    documents: list[Document] | None = None
    unchecked: str | None = None  # the last reply, if it was not checked and nothing was retrieved after it
    members: list[UUID] = field(default_factory=list)


class GroundednessCallback(BaseCallbackHandler):
    """Checks each reply of a language model against the documents that the same chain call has retrieved so far.

    Replies before the first retrieval, such as a rewritten question, are not checked, and neither are replies that only
    call a tool. But the last reply of a call is always checked, unless documents are retrieved after it. It has no
    sources if nothing was retrieved, and it counts as empty if it only calls a tool.

    All checks are stored in `results`, in the order of the replies. You can use one callback for several calls at the
    same time.

    Args:
        detector: A detector spec such as "overlap", or a detector object (with `name` and `judge`).
        threshold: The lowest score in [0, 1] that is flagged, as one number, or as a dict with numbers for the whole
            response and its spans: {"response": 0.6, "span": 0.4}. Default: the detector's own thresholds, or 0.5.
        on_result: A function that receives each check.
        strict: If true, the chain raises `NotGroundedError` as soon as a reply is flagged or could not be judged. An
            empty reply, or a reply without documents or with empty documents, cannot be judged.
    """

    @takes_detector
    def __init__(
        self,
        *,
        detector: str | Detector = DEFAULT_DETECTOR,
        threshold: float | Mapping[str, float] | None = None,
        on_result: Callable[[Checked], None] | None = None,
        strict: bool = False,
    ) -> None:
        self.detector = load_detector(detector)
        self.threshold = threshold
        self.on_result = on_result
        self.strict = strict
        self.raise_error = True  # otherwise LangChain only logs the errors of a callback
        self.results: list[Checked] = []
        self._runs: dict[UUID, _Run] = {}

    def _start(self, run_id: UUID, parent_run_id: UUID | None) -> None:
        run = self._runs.get(parent_run_id) if parent_run_id is not None else None
        run = run or _Run()
        run.members.append(run_id)
        self._runs[run_id] = run

    def _end(self, run_id: UUID, parent_run_id: UUID | None) -> _Run | None:
        """Forget a call when its outermost run ends, and return the call. Return None for an inner or unknown run."""
        if parent_run_id is not None or run_id not in self._runs:
            return None
        ended = self._runs[run_id]
        for member in ended.members:
            self._runs.pop(member, None)
        return ended

    def _check(self, reply: str, documents: Sequence[Document]) -> None:
        checked = check(reply, documents, detector=self.detector, threshold=self.threshold)
        self.results.append(checked)
        if self.on_result is not None:
            self.on_result(checked)
        if self.strict and not checked.outcome.passes:
            raise NotGroundedError(checked)

    def on_chain_start(
        self, serialized: Any, inputs: Any, *, run_id: UUID, parent_run_id: UUID | None = None, **kwargs: Any
    ) -> None:
        """Record to which outermost call a chain or a step of it belongs.

        Replies inside it are checked against the documents that this call has retrieved.
        """
        self._start(run_id, parent_run_id)

    def on_tool_start(
        self, serialized: Any, input_str: Any, *, run_id: UUID, parent_run_id: UUID | None = None, **kwargs: Any
    ) -> None:
        """Record to which outermost call a tool belongs, because the tool may retrieve documents for this call."""
        self._start(run_id, parent_run_id)

    def on_chat_model_start(self, serialized: Any, messages: Any, **kwargs: Any) -> None:
        """Do nothing. LangChain calls this before the model replies, and `on_llm_end` checks the reply."""

    def on_retriever_end(
        self, documents: Sequence[Document], *, run_id: UUID, parent_run_id: UUID | None = None, **kwargs: Any
    ) -> None:
        """Add the documents to the sources of the replies that follow in this call."""
        run = self._runs.get(parent_run_id) if parent_run_id is not None else None
        if run is not None:
            run.documents = [*(run.documents or ()), *documents]
            run.unchecked = None

    def on_llm_end(
        self, response: LLMResult, *, run_id: UUID, parent_run_id: UUID | None = None, **kwargs: Any
    ) -> None:
        """Check the reply of a model against the documents that the chain call has retrieved so far.

        If nothing has been retrieved yet, or the reply only calls a tool, the reply is stored, and `on_chain_end`
        checks it if it remains the last one. A reply outside of any chain is checked without sources.
        """
        run = self._runs.get(parent_run_id) if parent_run_id is not None else None
        for generation in (each for prompt in response.generations for each in prompt or [Generation(text="")]):
            calls_tool = is_blank(generation.text) and _calls_tool(generation)
            if run is None:  # the model is the whole call; a reply that calls a tool is not the last one
                if not calls_tool:
                    self._check(generation.text, ())
            elif run.documents is None or calls_tool:
                run.unchecked = generation.text
            else:
                run.unchecked = None
                self._check(generation.text, run.documents)

    def on_chain_end(self, outputs: Any, *, run_id: UUID, parent_run_id: UUID | None = None, **kwargs: Any) -> None:
        """Check the last reply of the outermost chain, if it has not been checked yet, and forget the chain.

        A reply after which documents were retrieved is not checked. If an inner chain ends, nothing happens.
        """
        run = self._end(run_id, parent_run_id)
        if run is not None and run.unchecked is not None:
            self._check(run.unchecked, run.documents or ())

    def on_chain_error(
        self, error: BaseException, *, run_id: UUID, parent_run_id: UUID | None = None, **kwargs: Any
    ) -> None:
        """Forget the outermost chain when it has failed, without checking a reply."""
        self._end(run_id, parent_run_id)


@takes_detector
def groundedness_check(
    *,
    detector: str | Detector = DEFAULT_DETECTOR,
    threshold: float | Mapping[str, float] | None = None,
    answer: str = "answer",
    context: str = "context",
) -> RunnableLambda[dict[str, Any], dict[str, Any]]:
    """Make a runnable that checks the output of a chain, and adds the result (a `Checked`) as the key `check`.

    Args:
        detector: A detector spec such as "overlap", or a detector object (with `name` and `judge`).
        threshold: The lowest score in [0, 1] that is flagged, as one number, or as a dict with numbers for the whole
            response and its spans: {"response": 0.6, "span": 0.4}. Default: the detector's own thresholds, or 0.5.
        answer: The key of the response, which is a text, a message or None.
        context: The key of the sources, which are a document or text, a list of them, or None.
    """
    loaded = load_detector(detector)

    def add_check(output: dict[str, Any]) -> dict[str, Any]:
        reply = output[answer]
        text = reply if reply is None or isinstance(reply, str) else str(reply.text)
        return {**output, "check": check(text, output[context], detector=loaded, threshold=threshold)}

    return RunnableLambda(add_check)


def _calls_tool(generation: Generation) -> bool:
    message = getattr(generation, "message", None)
    return bool(getattr(message, "tool_calls", None) or getattr(message, "invalid_tool_calls", None))
