"""LangChain: a callback that checks what a chain's models say against what its retrievers found, and a runnable."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from veridical.checking import DEFAULT_DETECTOR, check, unique_names
from veridical.core.detector import Detector
from veridical.core.errors import MissingExtraError, VeridicalError
from veridical.core.text import is_blank
from veridical.core.types import Checked, Outcome, Source

try:
    from langchain_core.callbacks import BaseCallbackHandler
    from langchain_core.documents import Document
    from langchain_core.outputs import Generation, LLMResult
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
    """One call of a chain, with all that runs inside it; `documents` is None until something was retrieved."""

    documents: list[Document] | None = None
    unchecked: str | None = None  # the last reply, where it was not checked and nothing was retrieved after it
    members: list[UUID] = field(default_factory=list)


class GroundednessCallback(BaseCallbackHandler):
    """Checks each reply of a language model against the documents that the same chain call retrieved before it.

    What a model says before something is retrieved, such as a rewritten question, is not checked, nor is a reply that
    only calls a tool. The last reply of a call always is: without sources where nothing was retrieved, and as an empty
    one where it calls a tool. `results` has every check, in the order of the replies. One callback may serve any number
    of calls at once.

    Args:
        detector: A spec, or an object with `name` and `judge`.
        threshold: The score in [0, 1] from which something is flagged, for all levels or per level.
        on_result: Called with each check.
        strict: Raise `NotGroundedError` out of the chain for what is flagged or could not be judged: an empty reply, no
            documents, or documents without text are not judged.
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

    def _end(self, run_id: UUID, parent_run_id: UUID | None) -> _Run | None:
        """Forget the call that ends with its outermost run, and return it."""
        if parent_run_id is not None or run_id not in self._runs:
            return None
        ended = self._runs[run_id]
        for member in ended.members:
            self._runs.pop(member, None)
        return ended

    def _check(self, reply: str, documents: Sequence[Document]) -> None:
        checked = check(reply, _sources(documents), detectors=self.detector, threshold=self.threshold)
        self.results.append(checked)
        if self.on_result is not None:
            self.on_result(checked)
        if self.strict and checked.outcome is not Outcome.CLEAR:
            raise NotGroundedError(checked)

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
        run = self._runs.get(parent_run_id) if parent_run_id is not None else None
        if run is not None:
            run.documents = [*(run.documents or ()), *documents]
            run.unchecked = None

    def on_llm_end(
        self, response: LLMResult, *, run_id: UUID, parent_run_id: UUID | None = None, **kwargs: Any
    ) -> None:
        """A model has replied: check what it says, if the call has looked for documents before."""
        run = self._runs.get(parent_run_id) if parent_run_id is not None else None
        for generation in (each for prompt in response.generations for each in prompt or [Generation(text="")]):
            calls_tool = is_blank(generation.text) and _calls_tool(generation)
            if run is None:  # the model is the whole call; whoever gave it tools goes on with its reply
                if not calls_tool:
                    self._check(generation.text, ())
            elif run.documents is None or calls_tool:
                run.unchecked = generation.text
            else:
                run.unchecked = None
                self._check(generation.text, run.documents)

    def on_chain_end(self, outputs: Any, *, run_id: UUID, parent_run_id: UUID | None = None, **kwargs: Any) -> None:
        """A chain ends: forget the call with the outermost one, and check its last reply if that was not checked."""
        ended = self._end(run_id, parent_run_id)
        if ended is not None and ended.unchecked is not None:
            self._check(ended.unchecked, ended.documents or ())

    def on_chain_error(
        self, error: BaseException, *, run_id: UUID, parent_run_id: UUID | None = None, **kwargs: Any
    ) -> None:
        """A chain fails: forget the call with the outermost one."""
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
        answer: The key of the response: a text, a message or None.
        context: The key of the sources: documents or texts, a single one, or None. A document is called by its id, else
            by the `source` in its metadata.
    """
    loaded = _loaded(detector)

    def add_check(output: dict[str, Any]) -> dict[str, Any]:
        reply, given = output[answer], output[context]
        text = reply if reply is None or isinstance(reply, str) else str(reply.text)
        sources = _sources([given] if isinstance(given, str | Document) else given or ())
        return {**output, "check": check(text, sources, detectors=loaded, threshold=threshold)}

    return RunnableLambda(add_check)


def _calls_tool(generation: Generation) -> bool:
    message = getattr(generation, "message", None)
    return bool(getattr(message, "tool_calls", None) or getattr(message, "invalid_tool_calls", None))


def _sources(given: Iterable[Document | str | None]) -> list[Source]:
    """Return the sources in documents and texts, each under a name of its own."""
    names, texts = [], []
    for i, each in enumerate(given, 1):
        document = each if isinstance(each, Document) else Document(each or "")
        names.append(str(document.id or document.metadata.get("source") or i))
        texts.append(document.page_content)
    return [Source(name, text) for name, text in zip(unique_names(names), texts, strict=True)]


def _loaded(detector: str | Detector) -> Detector:
    from veridical.detectors import load_detector

    return load_detector(detector) if isinstance(detector, str) else detector
