"""A LlamaIndex evaluator that checks responses against their retrieved contexts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from veridical.detectors import load_detector
from veridical.records.detector import Detector, takes_detector
from veridical.records.errors import MissingExtraError
from veridical.records.types import Checked, Outcome
from veridical.workflows.checking import DEFAULT_DETECTOR, acheck

try:
    from llama_index.core.base.response.schema import Response
    from llama_index.core.evaluation import BaseEvaluator, EvaluationResult
    from llama_index.core.schema import NodeWithScore
except ImportError:
    raise MissingExtraError("the LlamaIndex adapter", "llama-index") from None


class GroundednessEvaluator(BaseEvaluator):
    """Passes a response if nothing in it is flagged, without asking a language model of LlamaIndex.

    The `score` of a result is 1 minus the hallucination score, so that 1 is best, as in LlamaIndex's own evaluators. A
    response that could not be judged neither passes nor fails, and its result is marked as invalid. `feedback` shows
    the flagged words and the reasons.

    Args:
        detector: A detector spec such as "overlap", or a detector object (with `name` and `judge`).
        threshold: The lowest score in [0, 1] that is flagged, as one number, or as a dict with numbers for the whole
            response and its spans: {"response": 0.6, "span": 0.4}. Default: the detector's own thresholds, or 0.5.
        on_result: A function that receives each check. The sources of the check have the ids and the metadata of the
            response's nodes.
    """

    @takes_detector
    def __init__(
        self,
        detector: str | Detector = DEFAULT_DETECTOR,
        *,
        threshold: float | Mapping[str, float] | None = None,
        on_result: Callable[[Checked], None] | None = None,
    ) -> None:
        self.detector = load_detector(detector)
        self.threshold = threshold
        self.on_result = on_result

    def _get_prompts(self) -> dict[str, Any]:
        return {}

    def _get_prompt_modules(self) -> dict[str, Any]:
        return {}

    def _update_prompts(self, prompts: dict[str, Any]) -> None:
        pass

    def evaluate_response(
        self, query: str | None = None, response: Response | None = None, **kwargs: Any
    ) -> EvaluationResult:
        """Check a response against its source nodes, which are the retrieved passages."""
        return super().evaluate_response(query, response, **_nodes_of(response), **kwargs)

    async def aevaluate_response(
        self, query: str | None = None, response: Response | None = None, **kwargs: Any
    ) -> EvaluationResult:
        """Check a response against its source nodes, which are the retrieved passages."""
        return await super().aevaluate_response(query, response, **_nodes_of(response), **kwargs)

    async def aevaluate(
        self,
        query: str | None = None,
        response: str | None = None,
        contexts: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> EvaluationResult:
        """Check a response against its contexts, which are the retrieved texts, or against `source_nodes` if given.

        The result is invalid if the response could not be judged, for example because it or its contexts are missing.
        """
        from veridical.report.findings import reasons

        nodes: Sequence[NodeWithScore] | None = kwargs.get("source_nodes")
        checked = await acheck(
            response,
            contexts if nodes is None else nodes,
            question=query,
            detector=self.detector,
            threshold=self.threshold,
        )
        if self.on_result is not None:
            self.on_result(checked)
        score = checked.judgements[0].hallucination
        unjudged = checked.outcome is Outcome.UNJUDGED
        lines = reasons(checked)
        return EvaluationResult(
            query=query,
            response=response,
            contexts=contexts,
            passing=None if unjudged else checked.outcome.passes,
            score=None if score is None or unjudged else 1 - score,
            feedback="\n".join(lines),
            invalid_result=unjudged,
            invalid_reason="; ".join(lines) if unjudged else None,
        )


def _nodes_of(response: Response | None) -> dict[str, Any]:
    return {} if response is None else {"source_nodes": response.source_nodes}
