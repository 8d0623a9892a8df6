"""The Haystack component in a real pipeline; needs haystack-ai."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("haystack")
from haystack import Document, Pipeline
from haystack.dataclasses import ChatMessage

from veridical.integrations.haystack import GroundednessChecker

pytestmark = pytest.mark.filterwarnings("ignore")  # what a framework deprecates of its own

DOCUMENTS = [Document(id="d7", content="The tower is red.", meta={"page": 3})]


def test_replies_are_sorted_and_sources_keep_ids_and_metadata() -> None:
    component = GroundednessChecker.from_dict(GroundednessChecker("overlap", threshold=0.4).to_dict())
    pipeline = Pipeline()
    pipeline.add_component("check", component)
    replies = [ChatMessage.from_assistant("The tower is red."), ChatMessage.from_assistant("The tower is purple.")]
    result = pipeline.run({"check": {"replies": replies, "documents": DOCUMENTS}})["check"]
    assert (result["clear"], result["others"]) == (["The tower is red."], ["The tower is purple."])
    (source,) = result["checks"][0].case.sources
    assert (source.id, source.metadata) == ("d7", {"page": 3})


def test_nothing_to_judge_is_not_clear_also_without_blocking() -> None:
    component = GroundednessChecker("overlap")
    result = asyncio.run(component.run_async(["The tower is red.", ""], []))
    assert result["clear"] == []
    assert [checked.outcome.value for checked in result["checks"]] == ["unjudged", "unjudged"]
