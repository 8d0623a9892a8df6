"""Running an ONNX file: how many processors it takes, and what is read of a configuration."""

from __future__ import annotations

import os

import pytest

from veridical.inference import onnx_runtime
from veridical.inference.onnx_runtime import open_session, threads


@pytest.fixture(scope="module")
def graph() -> bytes:
    """A file that adds a number to itself."""
    onnx = pytest.importorskip("onnx")
    one = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1])
    two = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1])
    made = onnx.helper.make_graph([onnx.helper.make_node("Add", ["x", "x"], ["y"])], "double", [one], [two])
    opset = [onnx.helper.make_opsetid("", 17)]
    data: bytes = onnx.helper.make_model(made, ir_version=8, opset_imports=opset).SerializeToString()
    return data


@pytest.mark.parametrize(
    ("variable", "allowed", "expected"),
    [(None, {0, 3, 5}, 3), ("2", {0, 3, 5}, 2), ("", {0}, 1), ("0", {0, 1}, 2), ("many", {0, 1}, 2)],
)
def test_threads(monkeypatch: pytest.MonkeyPatch, variable: str | None, allowed: set[int], expected: int) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: allowed, raising=False)
    if variable is None:
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    else:
        monkeypatch.setenv("OMP_NUM_THREADS", variable)
    assert threads() == expected


def test_threads_where_a_process_does_not_know_its_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    assert threads() == 4


def test_a_session_runs_on_the_thread_that_calls_it(graph: bytes) -> None:
    session = open_session(graph)
    assert session.get_session_options().intra_op_num_threads == 1
    assert session.get_providers() == ["CPUExecutionProvider"]


def test_a_configuration_without_its_class() -> None:
    config = onnx_runtime._config({"model_type": "outer", "text_config": {"model_type": "inner", "id2label": {}}})
    assert (config.model_type, config.num_labels, config.pad_token_id) == ("outer", 2, None)
    assert config.get_text_config().model_type == "inner"
    three = onnx_runtime._config({"id2label": {"0": "a", "1": "b", "2": "c"}, "pad_token_id": 1})
    assert (three.num_labels, three.pad_token_id, three.get_text_config()) == (3, 1, three)
