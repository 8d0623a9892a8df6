"""Exported graphs: attention as one operator, matrices in int8; what they compute is near the original's."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from veridical.inference.local_model import LocalModel
from veridical.inference.onnx_runtime import OnnxEngine, open_session
from veridical.inference.pair_runner import PairRunner
from veridical.inference.pairs import PairEncoder, PairEncoding, Window
from veridical.models.torch_engine import TorchEngine
from veridical.records.errors import InputError
from veridical.records.types import Case, Source
from veridical_lab.models.onnx import export_onnx
from veridical_lab.models.onnx_graph import join_attention, keep_tokens, quantise

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxscript")

SOURCE = Source("a", "The committee met on Monday and agreed that the river should be cleaned before the summer.")
CASES = [
    Case("1", "The committee met.", (SOURCE,)),
    Case("2", "Nobody agreed that the river is clean, said Dr. Berg in the house near the lake.", (SOURCE,)),
    Case("3", "Paris is the capital of France."),
]


def windows_of(model: LocalModel) -> list[Window]:
    encodings = PairEncoder(model).encode(CASES)
    return [window for each in encodings if isinstance(each, PairEncoding) for window in each.windows]


@pytest.mark.parametrize(
    ("architecture", "mode", "attention"),
    [
        ("bert", "offline", "full"),
        ("mpnet", "offline", "full"),  # whose attention adds distances to its scores
        ("mpnet", "offline", "prefix"),
        ("llama", "online", "prefix"),  # two heads of the query share one of key and value
        ("modernbert", "offline", "full"),
        ("gpt2", "online", "prefix"),  # matrices as Gemm
    ],
)
def test_both_precisions(
    tiny_model: Callable[..., LocalModel], tmp_path: Path, architecture: str, mode: str, attention: str
) -> None:
    model = tiny_model(architecture)
    if architecture == "mpnet":  # whose own code takes 1 for padding, whatever the tokenizer says
        model.model.base_model.embeddings.padding_idx = model.tokenizer.pad_token_id
    runner = PairRunner(TorchEngine(model), mode, attention)
    windows = windows_of(model)
    assert export_onnx(runner, windows, tmp_path, "fp32").difference < 1e-4
    whole = onnx.load(tmp_path / "model.onnx")
    counts = Counter(node.op_type for node in whole.graph.node)
    assert (counts["MultiHeadAttention"], counts["Softmax"]) == (2, 0)
    kept = architecture == "mpnet" or (architecture == "bert" and attention == "full")
    assert ("kept" in {each.name for each in whole.graph.input}) == kept
    if architecture == "bert":  # nothing hides a token from another, and the operator splits states itself
        assert [list(n.input[3:]) for n in whole.graph.node if n.op_type == "MultiHeadAttention"] == [[], []]
        assert counts["Reshape"] == 0
    weights = [t for t in whole.graph.initializer if len(t.dims) == 2]
    matrices = {n.input[1] for n in whole.graph.node if n.op_type in ("MatMul", "Gemm")} & {t.name for t in weights}
    quantise(whole)
    counts = Counter(node.op_type for node in whole.graph.node)
    assert counts["MatMulIntegerToFloat"] == len(matrices) > 0
    assert counts["MatMul"] == counts["Gemm"] == 0
    tensors = {t.name: onnx.numpy_helper.to_array(t) for t in whole.graph.initializer}
    assert not matrices & set(tensors)
    for weight in weights:
        if weight.name in matrices:
            name = next(name for name in tensors if name.startswith(weight.name) and name.endswith("/bytes"))
            assert tensors[name].dtype == np.int8
            assert np.abs(tensors[name]).max(0).tolist() == [64] * tensors[name].shape[1]
    other = PairRunner(OnnxEngine(model, open_session(whole.SerializeToString())), mode, attention)
    for exact, rounded in zip(runner.run(windows), other.run(windows), strict=True):
        a, b = exact.response, rounded.response
        assert ((a * b).sum(1) > 0.95 * np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)).all()
        assert not np.array_equal(a, b)


@pytest.fixture(scope="module")
def exported(tiny_model: Callable[..., LocalModel], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an int8 export of BERT."""
    folder = tmp_path_factory.mktemp("int8")
    model = tiny_model("bert")
    export_onnx(PairRunner(TorchEngine(model)), windows_of(model), folder, "int8")
    return folder


def test_in_int8_a_window_never_depends_on_others(tiny_model: Callable[..., LocalModel], exported: Path) -> None:
    model = tiny_model("bert")
    windows = windows_of(model)
    session = open_session((exported / "model.int8.onnx").read_bytes())
    runner = PairRunner(OnnxEngine(model, session))
    together = runner.run(windows)
    for window, states in zip(windows, together, strict=True):
        (alone,) = runner.run([window])
        assert np.array_equal(alone.response, states.response)
        assert np.array_equal(alone.whole, states.whole)
    assert [len(batch) for batch in runner.batches(windows)] == [1, 1, 1]


def products(graph: Any, **inputs: Any) -> np.ndarray:
    result: np.ndarray = open_session(graph.SerializeToString()).run(None, inputs)[0]
    return result


def small_graph(nodes: list[Any], inputs: list[Any], weights: dict[str, np.ndarray]) -> Any:
    """A model of these nodes whose result is "y"."""
    tensors = [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()]
    result = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    graph = onnx.helper.make_graph(nodes, "small", inputs, [result], tensors)
    return onnx.helper.make_model(graph, ir_version=9, opset_imports=[onnx.helper.make_opsetid("", 18)])


def floats(*shape: int | str) -> Any:
    return onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)


def attention_graph(
    behind: list[Any], *, mask: bool = False, causal: bool = False, query: str = "q", **more: np.ndarray
) -> Any:
    """A model of an attention over "x", with the product "q" as its queries, and what is behind it that gives "y"."""
    rng = np.random.default_rng(0)
    weights = {name: rng.normal(size=(8, 8)).astype(np.float32) / 3 for name in ("wq", "wk", "wv", "wo")}
    nodes = [onnx.helper.make_node("MatMul", ["x", "wq"], ["q/product"])]
    nodes += [onnx.helper.make_node("Add", ["q/product", "bq"], ["q"])]
    nodes += [onnx.helper.make_node("MatMul", ["x", f"w{name}"], [name]) for name in "kv"]
    inputs = [query, "k", "v"] + (["", "", "hidden"] if mask else [])
    options = {"num_heads": 2, "unidirectional": int(causal), "domain": "com.microsoft"}
    nodes += [onnx.helper.make_node("MultiHeadAttention", inputs, ["attended"], **options), *behind]
    vector = rng.normal(size=8).astype(np.float32)
    given = {**weights, "bq": vector, "scale": vector, "hidden": np.zeros((1, 1, 5, 5), np.float32), **more}
    # what is read is first doubled: a graph's input itself cannot be picked from
    nodes.insert(0, onnx.helper.make_node("Add", ["given", "given"], ["x"]))
    values = onnx.helper.make_tensor_value_info("given", onnx.TensorProto.FLOAT, [1, "width", 8])
    graph = small_graph(nodes, [values], given)
    graph.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    return graph


LAST_LAYER = [
    onnx.helper.make_node("MatMul", ["attended", "wo"], ["out"]),
    onnx.helper.make_node("Add", ["out", "x"], ["sum"]),
    onnx.helper.make_node("LayerNormalization", ["sum", "scale"], ["y"]),
]


def test_the_last_layer_is_computed_for_the_tokens_that_are_kept() -> None:
    graph = attention_graph(LAST_LAYER)
    given = np.random.default_rng(1).normal(size=(1, 5, 8)).astype(np.float32)
    whole = products(graph, given=given)
    assert keep_tokens(graph)
    kept = np.array([3, 0])
    np.testing.assert_allclose(products(graph, given=given, kept=kept), whole[:, kept], atol=1e-6)
    (gathered,) = (node.output[0] for node in graph.graph.node if node.op_type == "Gather")
    taken = [node.op_type for node in graph.graph.node if gathered in node.input]
    assert taken == ["MatMul", "Add"]  # the queries, and what is added to the attention's result


@pytest.mark.parametrize(
    ("behind", "options"),
    [
        (LAST_LAYER, {"mask": True}),
        (LAST_LAYER, {"causal": True}),
        (LAST_LAYER, {"query": "x"}),  # the queries are no product
        ([*LAST_LAYER[:2], onnx.helper.make_node("LayerNormalization", ["sum", "all"], ["y"], axis=1)],
         {"all": np.ones((5, 8), np.float32)}),
        ([*LAST_LAYER[:2], onnx.helper.make_node("Softmax", ["sum"], ["y"], axis=1)], {}),
        ([*LAST_LAYER[:2], onnx.helper.make_node("MatMul", ["k", "sum"], ["y"])], {}),
        ([*LAST_LAYER[:1], onnx.helper.make_node("Add", ["x", "x"], ["y"])], {}),  # the result is before it
    ],
)  # fmt: skip
def test_a_graph_that_needs_all_tokens_is_left_as_it_is(behind: list[Any], options: dict[str, Any]) -> None:
    graph = attention_graph(behind, **options)
    before = graph.SerializeToString()
    assert not keep_tokens(graph)
    assert graph.SerializeToString() == before


def test_reshapes_that_change_the_form_of_states_stay() -> None:
    def form(name: str, *sizes: int) -> dict[str, np.ndarray]:
        return {name: np.array(sizes)}

    reshapes = [
        onnx.helper.make_node("Reshape", ["attended", "heads"], ["split"]),
        onnx.helper.make_node("Reshape", ["split", "joined"], ["again"]),
        onnx.helper.make_node("Reshape", ["attended", "rows"], ["flat"]),
        onnx.helper.make_node("MatMul", ["again", "wo"], ["one"]),
        onnx.helper.make_node("MatMul", ["flat", "wo"], ["two"]),
        onnx.helper.make_node("Reshape", ["two", "joined"], ["three"]),
        onnx.helper.make_node("Add", ["one", "three"], ["y"]),
    ]
    shapes = form("heads", 1, -1, 2, 4) | form("joined", 1, -1, 8) | form("rows", -1, 8)
    graph = attention_graph(reshapes, **shapes)
    for name, rank in (("split", 4), ("again", 3), ("flat", 2)):
        info = onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [None] * rank)
        graph.graph.value_info.append(info)
    given = np.random.default_rng(1).normal(size=(1, 5, 8)).astype(np.float32)
    before = products(graph, given=given)
    join_attention(graph)
    np.testing.assert_array_equal(products(graph, given=given), before)
    read = {n.output[0]: n.input[0] for n in graph.graph.node}
    assert (read["one"], read["two"]) == ("attended", "flat")
    assert "split" not in read


def test_states_behind_a_gelu_are_rounded_by_their_largest_number() -> None:
    rng = np.random.default_rng(2)
    matrix = rng.normal(size=(16, 8)).astype(np.float32)
    nodes = [onnx.helper.make_node("Gelu", ["x"], ["g"]), onnx.helper.make_node("MatMul", ["g", "w"], ["y"])]
    graph = small_graph(nodes, [floats("batch", "width", 16)], {"w": matrix})
    graph.opset_import[0].version = 20
    x = rng.normal(size=(1, 4, 16)).astype(np.float32) * np.array([1e-3, 1.0, 30.0, 1.0], np.float32)[:, None]
    x[0, 3] = -0.75  # all at the lowest value of the function
    exact = products(graph, x=x)
    quantise(graph)
    wrong = np.abs(products(graph, x=x) - exact).max(-1)[0]
    assert (wrong < np.array([0.02, 0.1, 3.0, 0.05])).all()


def test_a_large_number_in_one_token_costs_no_other_its_digits() -> None:
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(16, 8)).astype(np.float32)
    matrix[:, 3] = 0.0
    graph = small_graph(
        [onnx.helper.make_node("MatMul", ["x", "w"], ["y"])], [floats("batch", "width", 16)], {"w": matrix}
    )
    quantise(graph)
    x = rng.normal(size=(2, 5, 16)).astype(np.float32)
    x[0, 1], x[1, 2] = 1e6 * x[0, 1], 0.0
    y = products(graph, x=x)
    wrong = np.abs(y - x @ matrix) / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), 1e-9)
    assert wrong.max() < 0.05  # by the size of each token
    assert np.array_equal(y[1, 2], np.zeros(8))
    assert np.array_equal(y[..., 3], np.zeros((2, 5)))


@pytest.mark.parametrize(("transposed", "bias"), [(0, True), (1, True), (1, False)])
def test_a_product_with_a_bias(transposed: int, bias: bool) -> None:
    rng = np.random.default_rng(1)
    matrix, added = rng.normal(size=(6, 4)).astype(np.float32), rng.normal(size=4).astype(np.float32)
    weights = {"w": np.ascontiguousarray(matrix.T) if transposed else matrix} | ({"b": added} if bias else {})
    node = onnx.helper.make_node("Gemm", ["x", *weights], ["y"], transB=transposed)
    graph = small_graph([node], [floats("rows", 6)], weights)
    quantise(graph)
    assert "Gemm" not in {node.op_type for node in graph.graph.node}
    x = rng.normal(size=(3, 6)).astype(np.float32)
    assert np.abs(products(graph, x=x) - (x @ matrix + (added if bias else 0))).max() < 0.15


def normalised_graph(*more: Any, bias: np.ndarray) -> tuple[Any, np.ndarray]:
    """A layer normalisation of "x", and its product "p" with a matrix, to which "b" is added."""
    matrix = np.random.default_rng(3).normal(size=(16, 8)).astype(np.float32)
    nodes = [
        onnx.helper.make_node("LayerNormalization", ["x", "gamma"], ["normal"]),
        onnx.helper.make_node("MatMul", ["normal", "w"], ["p"]),
        onnx.helper.make_node("Add", ["b", "p"], ["sum" if more else "y"]),
        *more,
    ]
    weights = {"gamma": np.ones(16, np.float32), "w": matrix, "b": bias}
    return small_graph(nodes, [floats("batch", "width", 16)], weights), matrix


def normalised(x: np.ndarray) -> np.ndarray:
    centred = x - x.mean(-1, keepdims=True)
    result: np.ndarray = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    return result


def test_normalised_states_share_a_scale_and_their_product_has_its_bias() -> None:
    bias = np.arange(8, dtype=np.float32)
    graph, matrix = normalised_graph(bias=bias)
    quantise(graph)
    assert [node.op_type for node in graph.graph.node] == [
        "LayerNormalization",
        "DynamicQuantizeLinear",
        "MatMulIntegerToFloat",
    ]
    x = np.random.default_rng(4).normal(size=(2, 5, 16)).astype(np.float32)
    x[0, 1] *= 1e6  # the normalisation takes that away
    expected = normalised(x) @ matrix + bias
    wrong = np.abs(products(graph, x=x) - expected) / np.linalg.norm(expected, axis=-1, keepdims=True)
    assert wrong.max() < 0.05


@pytest.mark.parametrize(
    ("bias", "more"),
    [
        (np.float32(2.0), ()),
        (np.full(1, 2.0, np.float32), ()),
        (np.full((1, 8), 2.0, np.float32), ()),
        (np.full(8, 2.0, np.float32), (onnx.helper.make_node("Add", ["sum", "p"], ["y"]),)),
    ],
    ids=["a number", "one number", "a matrix", "a product that something else takes"],
)
def test_other_sums_stay_as_they_are(bias: np.ndarray, more: tuple[Any, ...]) -> None:
    graph, matrix = normalised_graph(*more, bias=np.asarray(bias))
    quantise(graph)
    assert [node.op_type for node in graph.graph.node].count("Add") == 1 + len(more)
    x = np.random.default_rng(5).normal(size=(1, 3, 16)).astype(np.float32)
    product = normalised(x) @ matrix
    expected = 2 * product + 2.0 if more else product + 2.0
    assert np.abs(products(graph, x=x) - expected).max() < 0.4


def test_a_product_of_normalised_states_with_one_number_added() -> None:
    matrix = np.random.default_rng(6).normal(size=(16, 8)).astype(np.float32)
    nodes = [
        onnx.helper.make_node("LayerNormalization", ["x", "gamma"], ["normal"]),
        onnx.helper.make_node("Gemm", ["normal", "w", "b"], ["y"]),
    ]
    weights = {"gamma": np.ones(16, np.float32), "w": matrix, "b": np.full(1, 2.0, np.float32)}
    graph = small_graph(nodes, [floats("rows", 16)], weights)
    quantise(graph)
    x = np.random.default_rng(7).normal(size=(3, 16)).astype(np.float32)
    assert np.abs(products(graph, x=x) - (normalised(x) @ matrix + 2.0)).max() < 0.2


@pytest.mark.parametrize("options", [{"transA": 1}, {"alpha": 2.0}, {"beta": 0.5}])
def test_other_products_stay_as_they_are(options: dict[str, Any]) -> None:
    weights = {"w": np.eye(4, dtype=np.float32), "b": np.ones(4, dtype=np.float32)}
    graph = small_graph([onnx.helper.make_node("Gemm", ["x", "w", "b"], ["y"], **options)], [floats(4, 4)], weights)
    x = np.arange(16, dtype=np.float32).reshape(4, 4)
    before = products(graph, x=x)
    quantise(graph)
    assert np.array_equal(products(graph, x=x), before)


def test_each_row_of_a_table_has_its_scale() -> None:
    rng = np.random.default_rng(2)
    table = rng.normal(size=(2048, 32)).astype(np.float32) * np.logspace(-3, 3, 2048, dtype=np.float32)[:, None]
    table[7] = 0.0
    weights = {"table": table, "small": table[:4].copy()}
    rows = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.INT64, ["batch", "width"])
    nodes = [
        onnx.helper.make_node("Gather", ["table", "x"], ["a"]),
        onnx.helper.make_node("Gather", ["small", "zero"], ["b"]),
        onnx.helper.make_node("Add", ["a", "b"], ["y"]),
    ]
    graph = small_graph(nodes, [rows], weights | {"zero": np.array(0)})
    quantise(graph)
    names = {tensor.name for tensor in graph.graph.initializer}
    assert "small" in names
    assert "table" not in names
    ids = np.array([[0, 7, 100], [1000, 2000, 2047]])
    found = products(graph, x=ids) - table[0]
    assert (np.abs(found - table[ids]).max(-1) <= np.abs(table[ids]).max(-1) / 250 + 1e-6).all()


def test_what_is_known_of_a_file_is_beside_it(exported: Path) -> None:
    about = json.loads((exported / "model.int8.onnx.json").read_text("utf-8"))
    assert (about["kind"], about["max_positions"], len(about["tokenizer"])) == ("encoder", 256, 64)
    assert about["bytes"] == (exported / "model.int8.onnx").stat().st_size


def test_a_runner_that_takes_other_inputs_is_refused(tiny_model: Callable[..., LocalModel], exported: Path) -> None:
    model = tiny_model("bert")
    session = open_session((exported / "model.int8.onnx").read_bytes())
    with pytest.raises(InputError, match="export it again"):
        PairRunner(OnnxEngine(model, session), "online", "prefix").run(windows_of(model))
