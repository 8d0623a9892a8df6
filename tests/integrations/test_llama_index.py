"""The LlamaIndex adapter; needs llama-index-core."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("llama_index.core")
from llama_index.core.base.response.schema import Response
from llama_index.core.evaluation import BatchEvalRunner
from llama_index.core.schema import NodeWithScore, TextNode

from veridical import Checked
from veridical.integrations.llama_index import GroundednessEvaluator

pytestmark = pytest.mark.filterwarnings("ignore")  # what a framework deprecates of its own


def test_results() -> None:
    evaluator = GroundednessEvaluator("overlap")
    clear = evaluator.evaluate("Which?", "The tower is red.", ["The tower is red."])
    assert (clear.passing, clear.score, clear.invalid_result, clear.query) == (True, 1.0, False, "Which?")
    flagged = evaluator.evaluate(response="The tower is purple.", contexts=["The tower is red."])
    assert (flagged.passing, flagged.score) == (False, 0.5)
    assert "“purple” is not backed by the sources" in (flagged.feedback or "")
    unjudged = evaluator.evaluate(response="The tower is red.", contexts=[])
    assert (unjudged.passing, unjudged.score, unjudged.invalid_result) == (None, None, True)
    assert unjudged.invalid_reason


def test_a_response_object_and_a_batch() -> None:
    evaluator = GroundednessEvaluator("overlap", threshold=0.4)
    node = NodeWithScore(node=TextNode(text="The tower is red."))
    responses = [Response(text, source_nodes=[node]) for text in ("The tower is red.", "The tower is purple.")]
    assert [evaluator.evaluate_response(response=response).passing for response in responses] == [True, False]
    runner = BatchEvalRunner({"grounded": evaluator}, workers=2)
    results = asyncio.run(runner.aevaluate_responses(["a", "b"], responses))
    assert [result.passing for result in results["grounded"]] == [True, False]


def test_an_empty_response_does_not_end_a_batch() -> None:
    runner = BatchEvalRunner({"grounded": GroundednessEvaluator("overlap")}, workers=1)
    contexts = [["The tower is red."]] * 3
    texts = ["The tower is red.", "", "The tower is purple."]
    results = asyncio.run(runner.aevaluate_response_strs(["?"] * 3, texts, contexts))["grounded"]
    assert [result.passing for result in results] == [True, None, False]
    assert "the response is empty" in results[1].invalid_reason


def test_sources_have_the_ids_and_the_metadata_of_nodes() -> None:
    checks: list[Checked] = []
    evaluator = GroundednessEvaluator("overlap", on_result=checks.append)
    node = NodeWithScore(node=TextNode(id_="n7", text="The tower is red.", metadata={"page": 3}))
    response = Response("The tower is red.", source_nodes=[node])
    assert evaluator.evaluate_response(response=response).contexts == ["The tower is red."]
    asyncio.run(evaluator.aevaluate_response(response=response))
    assert [[(s.id, s.metadata) for s in checked.case.sources] for checked in checks] == [[("n7", {"page": 3})]] * 2
