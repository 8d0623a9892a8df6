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
    """Checks each reply against all documents. Sources keep the ids and the metadata of their documents.

    The output `checks` has a `Checked` for each reply. The output `clear` has the replies that were judged completely
    and in which nothing is flagged, and `others` has all other replies. Connect `clear` to the next component to pass
    on only clear replies.

    Args:
        detector: The spec of a detector.
        threshold: The score in [0, 1] from which a span or response is flagged, for all levels or per level.
    """

    def __init__(self, detector: str = DEFAULT_DETECTOR, threshold: float | Mapping[str, float] | None = None) -> None:
        if not isinstance(detector, str):
            raise InputError("a pipeline holds the spec of a detector", hint="such as overlap")
        self.detector, self.threshold = detector, threshold
        self._loaded = load_detector(detector)

    def to_dict(self) -> dict[str, Any]:
        """Convert the component to the form in which a pipeline stores it."""
        stored: dict[str, Any] = default_to_dict(self, detector=self.detector, threshold=self.threshold)
        return stored

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> GroundednessChecker:
        """Make the component from its stored form."""
        made: GroundednessChecker = default_from_dict(cls, data)
        return made

    @component.output_types(checks=list[Checked], clear=list[str], others=list[str])
    def run(
        self, replies: list[str] | list[ChatMessage], documents: list[Document], query: str | None = None
    ) -> dict[str, Any]:
        """Check `replies`, which are texts or chat messages, against `documents`."""
        texts = [_text(reply) for reply in replies]
        checks = [
            check(text, documents, question=query, detector=self._loaded, threshold=self.threshold) for text in texts
        ]
        return _sorted(texts, checks)

    @component.output_types(checks=list[Checked], clear=list[str], others=list[str])
    async def run_async(
        self, replies: list[str] | list[ChatMessage], documents: list[Document], query: str | None = None
    ) -> dict[str, Any]:
        """Check as `run` does, without blocking the event loop."""
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
