"""Read the weights of an encoder back from its int8 ONNX file, to train a packaged detector further."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from veridical.inference.onnx_runtime import parts_of
from veridical.records.errors import DataError

if TYPE_CHECKING:
    import onnx

_PREFIX = "model."  # of the exported encoder's names
_PRODUCT = "MatMulIntegerToFloat"


def restore_backbone(backbone: str | Path, onnx_folder: str | Path, out: str | Path) -> Path:
    """Write the backbone of a packaged classifier to a Hugging Face folder in fp32, and return the folder.

    The weights are those of the int8 file, so they are rounded. They are still a good start for more training if the
    next export rounds them together again (`models.rounding`).

    Args:
        backbone: The folder with the configuration and the tokenizer.
        onnx_folder: The folder with the int8 file.
        out: The folder to write.

    Raises:
        DataError: The file lacks a weight of the encoder.
    """
    import torch
    import transformers
    from onnx import load_from_string

    backbone, out = Path(backbone), Path(out)
    graph = load_from_string(b"".join(part.read_bytes() for part in parts_of(onnx_folder, "int8"))).graph
    config = transformers.AutoConfig.from_pretrained(backbone, trust_remote_code=False)
    model: Any = transformers.AutoModel.from_config(config, add_pooling_layer=False)
    weights = {name: torch.from_numpy(weight) for name, weight in _weights(graph)}
    missing = [name for name, _ in model.named_parameters() if name not in weights]
    if missing:
        raise DataError(f"the ONNX file lacks {len(missing)} weights, such as {missing[0]}", path=Path(onnx_folder))
    model.load_state_dict({name: weights[name] for name, _ in model.named_parameters()}, strict=False)
    model.save_pretrained(out)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(backbone / name, out)
    return out


def _weights(graph: onnx.GraphProto) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Yield each weight with its name in the encoder."""
    from onnx.numpy_helper import to_array

    constants = {tensor.name: tensor for tensor in graph.initializer}
    taken_by: dict[str, list[onnx.NodeProto]] = {}
    for node in graph.node:
        for name in node.input:
            taken_by.setdefault(name, []).append(node)
    for name, tensor in constants.items():
        if not name.startswith(_PREFIX):
            continue
        if name.endswith("/bytes"):  # a table, with a scale for each row
            table = name.removesuffix("/bytes")
            floats = to_array(tensor).astype(np.float32) * to_array(constants[f"{table}/scales"])
            yield table.removeprefix(_PREFIX), floats
        elif not name.endswith("/scales"):
            yield name.removeprefix(_PREFIX), to_array(tensor).astype(np.float32)
    for node in graph.node:
        if node.op_type == _PRODUCT:  # its matrix has no name, but the bias that is added to the product has one
            matrix, scales = (to_array(constants[node.input[i]]) for i in (1, 3))
            bias = _bias_behind(node, constants, taken_by)
            yield bias.removeprefix(_PREFIX).removesuffix("bias") + "weight", (matrix * scales).T.astype(np.float32)


def _bias_behind(
    node: onnx.NodeProto, constants: dict[str, onnx.TensorProto], taken_by: dict[str, list[onnx.NodeProto]]
) -> str:
    """Find the name of the bias that a product adds, or of the first bias added further on."""
    added = [name for name in node.input if name in constants and name.endswith(".bias")]
    if added:
        return added[0]
    output = node.output[0]
    for _ in range(4):
        for following in taken_by.get(output, ()):
            named = [name for name in following.input if name in constants and name.endswith(".bias")]
            if named:
                return named[0]
            output = following.output[0]
    raise DataError(f"the product {node.output[0]!r} has no bias", path=Path("model.int8.onnx"))
