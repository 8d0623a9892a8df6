"""Rewrite exported graphs: join attention, compute the last layer for some tokens only, and put matrices in int8."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from veridical.inference.onnx_runtime import KEPT

if TYPE_CHECKING:
    import onnx

_RUNTIME = "com.microsoft"  # the domain of onnxruntime's own operators
_MASKED = -1e9
LARGEST_WEIGHT = 64
"""Weights in int8 are at most this large (see `quantise`)."""
_LARGEST = 127
_ZERO_POINT = 128
_LEAST_SCALE = 1e-12
# the input of `MultiHeadAttention` that is added to its scores, (rows or 1, heads or 1, queries, keys)
_ADDED = 5
_OF_ONE_SIZE = ("LayerNormalization", "MultiHeadAttention")  # operators whose output tokens have similar magnitudes
_LEAST_NUMBERS = 1 << 16  # a smaller table stays in floats
_LOWEST_GELU = 0.17  # the minimum of GELU is -0.16997
# operators that compute each token by itself
_BY_TOKEN = {"Add", "Div", "Erf", "Gelu", "Identity", "LayerNormalization", "Mul", "Pow", "Relu", "Sqrt", "Sub", "Tanh"}


def attention_table() -> dict[Callable[..., Any], Callable[..., Any]]:
    """Make the `custom_translation_table` with which `torch.onnx.export` writes scaled dot-product attention.

    With this table, attention becomes onnxruntime's `MultiHeadAttention` instead of a dozen operators.
    """
    import torch
    from onnx.defs import OpSchema
    from onnxscript import opset18 as op
    from onnxscript.values import Op, Opset

    def floats(name: str, *, optional: bool = False) -> OpSchema.FormalParameter:
        kind = OpSchema.FormalParameterOption.Optional if optional else OpSchema.FormalParameterOption.Single
        return OpSchema.FormalParameter(name, "T", param_option=kind)

    inputs = [floats(name) for name in ("query", "key", "value")]
    inputs += [floats(name, optional=True) for name in ("bias", "key_padding_mask", "attention_bias")]
    schema = OpSchema(
        "MultiHeadAttention",
        _RUNTIME,
        1,
        inputs=inputs,
        outputs=[floats("output")],
        type_constraints=[("T", ["tensor(float)"], "")],
        attributes=[
            OpSchema.Attribute("num_heads", OpSchema.AttrType.INT, "", required=True),
            OpSchema.Attribute("scale", OpSchema.AttrType.FLOAT, "", required=False),
            OpSchema.Attribute("unidirectional", OpSchema.AttrType.INT, "", required=False),
        ],
    )
    attention = Op(Opset(_RUNTIME, 1), "MultiHeadAttention", schema)

    def shape(*sizes: int) -> Any:
        return op.Constant(value_ints=sizes)

    def translate(
        query: Any,
        key: Any,
        value: Any,
        attn_mask: Any = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        **options: Any,
    ) -> Any:
        """Convert (batch, heads, tokens, size) to the operator's (batch, tokens, heads * size), and back."""
        heads, size = int(query.shape[1]), int(query.shape[3])

        def side_by_side(states: Any) -> Any:
            shared = heads // int(states.shape[1])  # query heads per key-value head
            if shared > 1:
                states = op.Expand(op.Unsqueeze(states, shape(2)), shape(1, 1, shared, 1, 1))
                states = op.Reshape(states, shape(0, heads, -1, size))
            return op.Reshape(op.Transpose(states, perm=[0, 2, 1, 3]), shape(0, 0, -1))

        bias: Any = attn_mask
        if bias is not None and str(bias.dtype) == "BOOL":
            seen: Any = op.Constant(value_float=0.0)
            bias = op.Where(bias, seen, op.Constant(value_float=_MASKED))
        attributes = {
            "num_heads": heads,
            "scale": options.get("scale") or size**-0.5,
            "unidirectional": int(is_causal),
        }
        states = attention(*map(side_by_side, (query, key, value)), None, None, bias, **attributes)
        return op.Transpose(op.Reshape(states, shape(0, 0, heads, -1)), perm=[0, 2, 1, 3])

    return {torch.ops.aten.scaled_dot_product_attention.default: translate}


def join_attention(model: onnx.ModelProto) -> None:
    """Remove the nodes that split states by head before an attention and join the states after it, in place.

    They are not needed, because `MultiHeadAttention` splits the states itself. Nodes that do more than reshape, such as
    rotating positions, are kept.
    """
    graph = model.graph
    ranks = {info.name: len(info.type.tensor_type.shape.dim) for info in graph.value_info}
    ranks |= {name: 3 for node in graph.node if node.op_type == "MultiHeadAttention" for name in node.output}
    made_by = {name: node for node in graph.node for name in node.output}

    def before_reshapes(name: str) -> str:
        """Find the tensor before all reshapes, or return the tensor itself if one of the two is not 3-dimensional."""
        original = name
        while original in made_by and made_by[original].op_type in ("Identity", "Reshape"):
            original = made_by[original].input[0]
        return original if ranks.get(original) == ranks.get(name) == 3 else name

    for node in graph.node:
        if node.op_type == "MultiHeadAttention":
            for i in range(3):
                node.input[i] = before_reshapes(node.input[i])
        elif node.op_type == "MatMul":
            origin = before_reshapes(node.input[0])
            if origin in made_by and made_by[origin].op_type == "MultiHeadAttention":
                node.input[0] = origin
    _drop_unused(graph)


def keep_tokens(model: onnx.ModelProto) -> bool:
    """Make a graph return states only for the tokens in its new input `KEPT`, in place. Return False if it cannot.

    From the queries of the last attention on, the graph then computes nothing for other tokens. This is possible under
    three conditions:

    * The last attention has no mask, except one that is added to its scores.
    * Its queries are a product of states with a matrix.
    * Every node after it computes each token separately.
    """
    from onnx import TensorProto, helper

    graph = model.graph
    inputs = _inputs_of_last_layer(graph)
    axes = {node.input[i]: axis for node, i, axis in inputs}
    if not axes or not axes.keys() <= {name for node in graph.node for name in node.output}:
        return False
    for node, i, _ in inputs:
        node.input[i] = f"{node.input[i]}/{KEPT}"
    nodes = []
    for node in graph.node:
        gathered = [name for name in node.output if name in axes]
        nodes += [node, *(_node("Gather", [name, KEPT], f"{name}/{KEPT}", axis=axes[name]) for name in gathered)]
    del graph.node[:]
    graph.node.extend(nodes)
    graph.input.append(helper.make_tensor_value_info(KEPT, TensorProto.INT64, ["tokens"]))
    return True


def _inputs_of_last_layer(graph: onnx.GraphProto) -> list[tuple[onnx.NodeProto, int, int]]:
    """Find the inputs that need only the kept tokens: the node, the number of the input, and the axis of its tokens.

    If a condition of `keep_tokens` is not met, the result is empty.
    """
    constants = {tensor.name for tensor in graph.initializer}
    constants |= {name for node in graph.node if node.op_type == "Constant" for name in node.output}
    last = next((node for node in reversed(graph.node) if node.op_type == "MultiHeadAttention"), None)
    if last is None or any(last.input[3:_ADDED]) or _attributes(last).get("unidirectional", 0):
        return []
    made_by = {name: node for node in graph.node for name in node.output}
    queries = made_by.get(last.input[0])
    if queries is not None and queries.op_type == "Add":
        queries = next((made_by[name] for name in queries.input if name in made_by.keys() - constants), None)
    if queries is None or queries.op_type != "MatMul" or queries.input[1] not in constants:
        return []
    inputs = [(queries, 0, 1), *((last, i, 2) for i in range(_ADDED, len(last.input)) if last.input[i])]
    computed = set(last.output)
    for node in graph.node:
        if computed.isdisjoint(node.input):
            continue
        if not _computes_by_token(node, constants):
            return []
        computed.update(node.output)
        inputs += [(node, i, 1) for i, name in enumerate(node.input) if name and name not in computed | constants]
    return inputs if computed.issuperset(output.name for output in graph.output) else []


def _computes_by_token(node: onnx.NodeProto, constants: set[str]) -> bool:
    """Check whether a node computes the states of each token without those of other tokens."""
    if node.op_type == "MatMul":
        return node.input[1] in constants
    return node.op_type in _BY_TOKEN and _attributes(node).get("axis", -1) == -1


def quantise(model: onnx.ModelProto, *, by_token: bool = False) -> None:
    """Convert the embedding tables and constant matrices of a model to int8, in place.

    Each row of a table and each column of a matrix has its own scale. States that are multiplied with a matrix are
    quantised to 8 bits while the model runs. Outputs of layer normalisation and attention share one scale, because
    their tokens have similar magnitudes. In all other states, each token has its own scale, because a large number in
    one token would otherwise reduce the precision of the other tokens. With `by_token`, each token always has its own
    scale, so that texts in one row do not affect each other.

    Weights are at most 64, because processors with AVX2 but without VNNI add two 8-bit products in 16 bits. There, 2 *
    64 * 255 does not overflow.
    """
    from onnx import helper

    graph = model.graph
    rewriter = _Rewriter(graph, by_token=by_token)
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        if node.output[0] not in rewriter.sums:
            nodes += rewriter.table(node) or rewriter.matrix(node) or [node]
    remaining = [tensor for tensor in graph.initializer if tensor.name not in rewriter.replaced]
    del graph.node[:], graph.initializer[:]
    del graph.value_info[:]  # shapes from before the exporter transposed weights
    graph.node.extend(nodes)
    graph.initializer.extend([*remaining, *rewriter.constants.values()])
    if not any(entry.domain == _RUNTIME for entry in model.opset_import):
        model.opset_import.append(helper.make_opsetid(_RUNTIME, 1))


@dataclass(frozen=True, slots=True)
class _Bytes:
    """The names of the tensors that hold states in 8 bits.

    Attributes:
        name: The tensor of bytes.
        scale: The value of one step.
        zero_point: The byte that stands for 0.
        of_tokens: The value of one step for each token, or None if `scale` holds for all tokens. If set, `scale` is 1.
    """

    name: str
    scale: str
    zero_point: str
    of_tokens: str | None = None


class _Rewriter:
    """Makes int8 nodes that replace nodes on floats.

    Attributes:
        constants: The constants of the new nodes, by name.
        replaced: The names of constants that are no longer needed.
        sums: The names of sums that are now computed together with their products.
    """

    def __init__(self, graph: onnx.GraphProto, *, by_token: bool) -> None:
        from onnx import TensorProto

        floats = [tensor for tensor in graph.initializer if tensor.data_type == TensorProto.FLOAT]
        self._weights = {tensor.name: tensor for tensor in floats if len(tensor.dims) == 2}
        self._biases = {tensor.name: tensor.dims[0] for tensor in floats if len(tensor.dims) == 1}
        self._made_by = {name: node for node in graph.node for name in node.output}
        self._taken_by: dict[str, list[onnx.NodeProto]] = {}
        for node in graph.node:
            for name in node.input:
                self._taken_by.setdefault(name, []).append(node)
        self._results = {output.name for output in graph.output}
        self._bytes: dict[str, _Bytes] = {}  # states already in 8 bits, by name
        self._of_one_size = () if by_token else _OF_ONE_SIZE
        self.constants: dict[str, onnx.TensorProto] = {}
        self.replaced: set[str] = set()
        self.sums: set[str] = set()

    def table(self, node: onnx.NodeProto) -> list[onnx.NodeProto]:
        """Make the nodes that replace a look-up in a table of floats. Empty for any other node."""
        from onnx import TensorProto

        if node.op_type != "Gather" or node.input[0] not in self._weights or _attributes(node).get("axis", 0) != 0:
            return []
        name, rows, out = node.input[0], node.input[1], node.output[0]
        if np.prod(self._weights[name].dims) < _LEAST_NUMBERS:
            return []
        table = self._take(name)
        scales = np.maximum(np.abs(table).max(1, keepdims=True) / _LARGEST, _LEAST_SCALE)
        self._constant(f"{name}/bytes", np.rint(table / scales).astype(np.int8))
        self._constant(f"{name}/scales", scales.astype(np.float32))
        return [
            _node("Gather", [f"{name}/bytes", rows], f"{out}/bytes"),
            _node("Gather", [f"{name}/scales", rows], f"{out}/scales"),
            _node("Cast", [f"{out}/bytes"], f"{out}/floats", to=TensorProto.FLOAT),
            _node("Mul", [f"{out}/floats", f"{out}/scales"], out),
        ]

    def matrix(self, node: onnx.NodeProto) -> list[onnx.NodeProto]:
        """Make the nodes that replace a product with a constant matrix. Empty for any other node."""
        if node.op_type not in ("MatMul", "Gemm") or node.input[1] not in self._weights:
            return []
        attributes = _attributes(node)
        if attributes.get("transA", 0) or attributes.get("alpha", 1.0) != 1.0 or attributes.get("beta", 1.0) != 1.0:
            return []
        name, out = f"{node.input[1]}{'/transposed' if attributes.get('transB') else ''}", node.output[0]
        matrix = self._take(node.input[1])
        matrix = matrix.T if attributes.get("transB") else matrix
        scales = np.maximum(np.abs(matrix).max(0) / LARGEST_WEIGHT, _LEAST_SCALE)
        self._constant(f"{name}/bytes", np.rint(matrix / scales).astype(np.int8))
        self._constant(f"{name}/scales", scales.astype(np.float32))
        bias = node.input[2] if len(node.input) > 2 else ""
        if not bias:
            out, bias = self._with_bias(out, len(scales))
        nodes = self._in_bytes(node.input[0], len(matrix))
        states = self._bytes[node.input[0]]
        inputs = [states.name, f"{name}/bytes", states.scale, f"{name}/scales", states.zero_point]
        if states.of_tokens is None and self._biases.get(bias) == len(scales):
            return [*nodes, _node("MatMulIntegerToFloat", [*inputs, "", bias], out, domain=_RUNTIME)]
        product = f"{out}/product" if bias else out
        if states.of_tokens is None:
            nodes.append(_node("MatMulIntegerToFloat", inputs, product, domain=_RUNTIME))
        else:
            nodes.append(_node("MatMulIntegerToFloat", inputs, f"{out}/columns", domain=_RUNTIME))
            nodes.append(_node("Mul", [f"{out}/columns", states.of_tokens], product))
        return [*nodes, _node("Add", [product, bias], out)] if bias else nodes

    def _with_bias(self, product: str, width: int) -> tuple[str, str]:
        """If a constant vector is added to a product, return the names of the sum and of the vector.

        Otherwise, return the name of the product and "".
        """
        takers = self._taken_by.get(product, [])
        if len(takers) != 1 or takers[0].op_type != "Add" or product in self._results:
            return product, ""
        bias = next((name for name in takers[0].input if self._biases.get(name) == width), "")
        if not bias:
            return product, ""
        self.sums.add(takers[0].output[0])
        return takers[0].output[0], bias

    def _in_bytes(self, name: str, width: int) -> list[onnx.NodeProto]:
        """Make the nodes that convert states *(…, width)* to 8 bits. Empty if there are such nodes already."""
        if name in self._bytes:
            return []
        made_by = self._made_by.get(name)
        while made_by is not None and made_by.op_type in ("Gather", "Identity", "Reshape", "Transpose"):
            made_by = self._made_by.get(made_by.input[0])
        if made_by is not None and made_by.op_type in self._of_one_size:
            self._bytes[name] = _Bytes(f"{name}/bytes", f"{name}/scale", f"{name}/zero point")
            return [_node("DynamicQuantizeLinear", [name], f"{name}/bytes", f"{name}/scale", f"{name}/zero point")]
        self._bytes[name] = _Bytes(f"{name}/bytes", "int8/one", "int8/zero", f"{name}/scales")
        self._constant("int8/last", np.array([-1]))
        self._constant("int8/one", np.float32(1.0))
        self._constant("int8/share", np.float32(1 / _LARGEST))
        self._constant("int8/zero", np.uint8(_ZERO_POINT))
        self._constant(f"int8/rows of {width}", np.array([-1, width]))
        largest, least = f"{name}/highest", "int8/least"
        nodes = [_node("ReduceMax", [name, "int8/last"], largest, keepdims=1)]
        if made_by is not None and made_by.op_type == "Gelu":
            least = "int8/least of gelu"
            self._constant(least, np.float32(_LOWEST_GELU / _LARGEST))
        else:
            self._constant(least, np.float32(_LEAST_SCALE))
            largest = f"{name}/largest"
            nodes += [
                _node("ReduceMin", [name, "int8/last"], f"{name}/lowest", keepdims=1),
                _node("Neg", [f"{name}/lowest"], f"{name}/lowest below 0"),
                _node("Max", [f"{name}/highest", f"{name}/lowest below 0"], largest),
            ]
        return [
            *nodes,
            _node("Mul", [largest, "int8/share"], f"{name}/shares"),
            _node("Max", [f"{name}/shares", least], f"{name}/scales"),
            _node("Reshape", [f"{name}/scales", "int8/last"], f"{name}/scale of row"),
            _node("Shape", [f"{name}/scale of row"], f"{name}/rows"),
            _node("Expand", ["int8/zero", f"{name}/rows"], f"{name}/zeros"),
            _node("Reshape", [name, f"int8/rows of {width}"], f"{name}/flat"),
            _node(
                "QuantizeLinear", [f"{name}/flat", f"{name}/scale of row", f"{name}/zeros"], f"{name}/row bytes", axis=0
            ),
            _node("Shape", [name], f"{name}/shape"),
            _node("Reshape", [f"{name}/row bytes", f"{name}/shape"], f"{name}/bytes"),
        ]

    def _take(self, name: str) -> NDArray[np.float32]:
        from onnx import numpy_helper

        self.replaced.add(name)
        array: NDArray[np.float32] = numpy_helper.to_array(self._weights[name])
        return array

    def _constant(self, name: str, array: NDArray[Any] | np.generic) -> None:
        from onnx import numpy_helper

        self.constants[name] = numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)


def _drop_unused(graph: onnx.GraphProto) -> None:
    """Remove nodes and constants that the results do not depend on."""
    needed = {output.name for output in graph.output}
    nodes = []
    for node in reversed(graph.node):
        if needed & set(node.output):
            nodes.append(node)
            needed |= set(node.input)
    remaining = [tensor for tensor in graph.initializer if tensor.name in needed]
    del graph.node[:], graph.initializer[:]
    graph.node.extend(reversed(nodes))
    graph.initializer.extend(remaining)


def _attributes(node: onnx.NodeProto) -> dict[str, Any]:
    from onnx import helper

    return {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}


def _node(operator: str, inputs: list[str], *outputs: str, **attributes: Any) -> onnx.NodeProto:
    from onnx import helper

    node: onnx.NodeProto = helper.make_node(operator, inputs, outputs, **attributes)
    return node
