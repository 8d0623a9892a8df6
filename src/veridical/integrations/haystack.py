"""A Haystack component that checks replies against the documents of a pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from veridical.detectors import load_detector
from veridical.records.errors import InputError, MissingExtraError
from veridical.records.types import Checked
from veridical.workflows.checking import DEFAULT_DETECTOR, acheck, check

try:
    from haystack import Document, component, default_from_dict, default_to_dict
    from haystack.dataclasses import ChatMessage
except ImportError:
    raise MissingExtraError("the Haystack adapter", "haystack") from None


@component
class GroundednessChecker:
    """Haystack component that checks each reply of a generator against the retrieved documents.

    All documents are sources of every reply. The sources in the results keep the ids and the metadata of the documents.
    The component has three outputs:

    * `checks`: the result of the check (`Checked`) of each reply.
    * `clear`: the texts of the replies that passed. Connect it to the next component to pass on only these.
    * `others`: the texts of all other replies, which are flagged or could not be judged completely.

    Args:
        detector: A detector spec such as "overlap". Objects are not accepted, because a pipeline stores the spec.
        threshold: The lowest score in [0, 1] that is flagged, as one number, or as a dict with numbers for the whole
            response and its spans: {"response": 0.6, "span": 0.4}. Default: the detector's own thresholds, or 0.5.
    """

    def __init__(self, detector: str = DEFAULT_DETECTOR, threshold: float | Mapping[str, float] | None = None) -> None:
        if not isinstance(detector, str):
            raise InputError("a pipeline holds the spec of a detector", hint="such as overlap")
        self.detector, self.threshold = detector, threshold
        self._loaded = load_detector(detector)

    def to_dict(self) -> dict[str, Any]:
        """Serialise the component to a dict, so that Haystack can save the pipeline."""
        stored: dict[str, Any] = default_to_dict(self, detector=self.detector, threshold=self.threshold)
        return stored

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> GroundednessChecker:
        """Make the component from the dict that `to_dict` returned. Haystack calls this when it loads a pipeline."""
        made: GroundednessChecker = default_from_dict(cls, data)
        return made

    @component.output_types(checks=list[Checked], clear=list[str], others=list[str])
    def run(
        self, replies: list[str] | list[ChatMessage], documents: list[Document], query: str | None = None
    ) -> dict[str, Any]:
        """Check `replies`, which are texts or chat messages, against `documents`.

        Return the outputs "checks", "clear" and "others" by name. `query` is the question that the replies answer.
        """
        texts = [_text(reply) for reply in replies]
        checks = [
            check(text, documents, question=query, detector=self._loaded, threshold=self.threshold) for text in texts
        ]
        return _sorted(texts, checks)

    @component.output_types(checks=list[Checked], clear=list[str], others=list[str])
    async def run_async(
        self, replies: list[str] | list[ChatMessage], documents: list[Document], query: str | None = None
    ) -> dict[str, Any]:
        """Check `replies` against `documents` without blocking the event loop, and return the same outputs as `run`."""
        texts = [_text(reply) for reply in replies]
        how: dict[str, Any] = {"question": query, "detector": self._loaded, "threshold": self.threshold}
        return _sorted(texts, [await acheck(text, documents, **how) for text in texts])


def _text(reply: str | ChatMessage) -> str:
    return reply if isinstance(reply, str) else reply.text or ""


def _sorted(texts: list[str], checks: list[Checked]) -> dict[str, Any]:
    is_clear = [checked.outcome.passes for checked in checks]
    return {
        "checks": checks,
        "clear": [text for text, clear in zip(texts, is_clear, strict=True) if clear],
        "others": [text for text, clear in zip(texts, is_clear, strict=True) if not clear],
    }
