"""The Inspect adapter in a real evaluation with a scripted model; needs inspect-ai."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("inspect_ai")
from inspect_ai import Task
from inspect_ai import eval as run_evaluation
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput
from inspect_ai.solver import Generate, Solver, TaskState, solver

from veridical.integrations.inspect_ai import grounded

pytestmark = pytest.mark.filterwarnings("ignore")  # what a framework deprecates of its own


@solver
def scripted() -> Solver:
    """Answers what the sample's target says."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        state.output = ModelOutput.from_content("mockllm/model", state.target.text)
        return state

    return solve


def scores_of(folder: Path, answers: list[str], *metadata: dict[str, Any]) -> Any:
    pairs = zip(answers, metadata, strict=True)
    samples = [Sample(input="What is it like?", target=answer, metadata=each) for answer, each in pairs]
    task = Task(dataset=samples, solver=scripted(), scorer=grounded("overlap"))
    (log,) = run_evaluation(task, model="mockllm/model", log_dir=str(folder), display="none")
    return log


def test_an_evaluation(tmp_path: Path) -> None:
    tower: dict[str, Any] = {"sources": ["The tower is red."]}
    answers = ["The tower is red.", "The tower is purple.", "The tower is red.", "The tower is red."]
    log = scores_of(tmp_path, answers, tower, tower, {**tower, "must_cover": ["It rusts."]}, {"sources": []})
    assert log.status == "success", log.error
    scores = [sample.scores["grounded"] for sample in log.samples]
    assert [score.value for score in scores[:3]] == ["C", "I", "I"]
    assert scores[3].value != scores[3].value  # NaN: unscored
    assert "“purple” is not backed by the sources" in scores[1].explanation
    assert scores[1].metadata["flagged"] == [[13, 19]]
    assert "left out: “rusts”" in scores[2].explanation
    (result,) = log.results.scores
    assert result.metrics["accuracy"].value == pytest.approx(1 / 3)


def test_a_sample_without_sources_is_an_error_and_not_a_score(tmp_path: Path) -> None:
    log = scores_of(tmp_path, ["The tower is red."], {"context": "The tower is red."})
    assert log.status == "error"
    assert "has no 'sources' in its metadata" in log.error.message
