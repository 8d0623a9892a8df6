"""Running an ONNX file: how many processors it takes, and what is read of a configuration."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import tokenizers

from veridical.inference import onnx_runtime
from veridical.inference.fast_tokenizer import FastTokenizer
from veridical.inference.onnx_runtime import open_session, threads
from veridical.records.errors import DataError


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


def test_a_session_uses_all_threads_and_keeps_no_copy_of_the_file(
    graph: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    session = open_session(graph)
    assert session.get_session_options().intra_op_num_threads == 3
    assert session.get_providers() == ["CPUExecutionProvider"]
    assert session._model_bytes is None


def test_a_configuration_without_its_class() -> None:
    config = onnx_runtime._config({"model_type": "outer", "text_config": {"model_type": "inner", "id2label": {}}})
    assert (config.model_type, config.num_labels, config.pad_token_id) == ("outer", 2, None)
    assert config.get_text_config().model_type == "inner"
    three = onnx_runtime._config({"id2label": {"0": "a", "1": "b", "2": "c"}, "pad_token_id": 1})
    assert (three.num_labels, three.pad_token_id, three.get_text_config()) == (3, 1, three)


@pytest.mark.parametrize(
    "field", [{"model_type": {}}, {"pad_token_id": "x"}, {"type_vocab_size": "x"}, {"num_labels": "x"}, {"id2label": 7}]
)
def test_a_configuration_of_other_types_is_one_line(tmp_path: Path, field: dict[str, object]) -> None:
    (tmp_path / "config.json").write_text(json.dumps(field))
    with pytest.raises(DataError, match=rf"config.json: {next(iter(field))} is "):
        onnx_runtime._read_config(tmp_path)


@pytest.mark.parametrize("content", [b"", b"noise" * 100])
def test_a_file_that_is_no_graph_is_one_line(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(DataError, match=r"x.onnx: cannot be read: "):
        onnx_runtime._session(content, tmp_path / "x.onnx", "copy it again")


def test_a_pattern_of_a_tokenizer_that_backtracks_is_one_line(tmp_path: Path) -> None:
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0}, unk_token="a"))
    made.normalizer = tokenizers.normalizers.Replace(tokenizers.Regex(r"(.+)+\d\d\d\d"), "x")
    made.save(str(tmp_path / "tokenizer.json"))
    tokenizer = FastTokenizer(tmp_path)
    assert tokenizer("a")["input_ids"] == [0]
    with pytest.raises(DataError, match=r"tokenizer.json: cannot read a text: .*retry-limit"):
        tokenizer("a" * 100)
