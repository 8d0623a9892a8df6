"""Export a sequence classifier, or the backbone of a token classifier, to an ONNX file in fp32 or int8.

`models.onnx_graph` decides which parts are in int8. Beside the file, a description records the hash of the original
weights, and how far the file's results are from the original. `inference.onnx_runtime` runs the file, and refuses a
file that was made from another model.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from veridical.inference.fast_tokenizer import TOKENIZER, FastTokenizer
from veridical.inference.local_model import LocalModel
from veridical.inference.onnx_runtime import FILES, PRECISIONS, OnnxEngine, OnnxExport, description_file, open_session
from veridical.inference.pair_runner import PairRunner, inputs_of
from veridical.inference.pairs import Window
from veridical.io.files import replacing, write_whole
from veridical.models.base_model import base_of
from veridical.models.load import quiet
from veridical.models.torch_engine import outputs_of, relative_positions
from veridical.records.errors import DataError, InputError, MissingExtraError, UnknownNameError
from veridical_lab.models.onnx_graph import LARGEST_WEIGHT, attention_table, join_attention, keep_tokens, quantise
from veridical_lab.models.rounding import rounded_matrices

if TYPE_CHECKING:
    import onnx


def export_onnx(
    runner: PairRunner,
    windows: Sequence[Window],
    folder: str | Path,
    precision: Literal["fp32", "int8"] = "fp32",
    *,
    rounded_for: Sequence[Window] = (),
) -> OnnxExport:
    """Export a backbone or a sequence classifier to a folder, and check the outputs of the file.

    Args:
        runner: Runs the original model, in fp32.
        windows: Check the file on these windows, at least one.
        folder: The folder to write to.
        precision: "fp32" or "int8".
        rounded_for: For int8, windows with about ten thousand tokens like those that the model will read. The weights
            are then rounded so that results on these windows change least (`models.rounding`).

    Raises:
        InputError: The model is not in fp32, or the outputs differ (a cosine similarity below 0.99 in fp32 or below 0.8
            in int8).
        MissingExtraError: onnx or onnxscript (extra `onnx`) is not installed.
    """
    if precision not in PRECISIONS:
        raise UnknownNameError("precision", precision, PRECISIONS)
    if runner.model.dtype_name != "fp32":
        raise InputError(f"the model is loaded in {runner.model.dtype_name}", hint="load it with dtype=fp32")
    try:
        import onnx
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("writing ONNX files", "onnx", "veridical-lab") from error
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / FILES[precision]
    weights = base_of(runner.model).weights or ""
    expected = runner.run(windows)
    rounds = precision == "int8" and bool(rounded_for)
    with replacing(path, follow_link=False) as part:
        with rounded_matrices(runner, rounded_for, LARGEST_WEIGHT) if rounds else nullcontext():
            graph = _exported(runner, windows)
        join_attention(graph)
        if runner.model.kind != "classifier":  # a classifier returns no states of tokens
            keep_tokens(graph)
        if precision == "int8":
            quantise(graph, by_token=runner.shares_prompts)
        onnx.save(graph, part)
        data = part.read_bytes()
        other = PairRunner(OnnxEngine(runner.model, open_session(data)), runner.mode, runner.attention)
        pairs = list(zip(expected, other.run(windows), strict=True))
        if runner.model.kind == "classifier":
            a, b = (np.concatenate([pair[i].whole for pair in pairs])[None] for i in (0, 1))
        else:
            a, b = (np.concatenate([pair[i].response for pair in pairs]) for i in (0, 1))
        norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
        cosine = float(((a * b).sum(1) / np.maximum(norms, 1e-12)).min())
        if cosine < (0.99 if precision == "fp32" else 0.8):
            raise InputError(
                f"the ONNX file does not compute the same as the model (cosine similarity {cosine:.3f})",
                hint="use fp32 instead of int8" if precision == "int8" else "use another architecture",
            )
    export = OnnxExport(
        precision=precision,
        sha256=hashlib.sha256(data).hexdigest(),
        weights=weights,
        bytes=len(data),
        difference=float(np.abs(a - b).max()),
        cosine=cosine,
        kind=runner.model.kind,
        max_positions=runner.model.max_positions,
        tokenizer=_tokenizer_hash(runner.model),
    )
    write_whole(description_file(folder, precision), json.dumps(asdict(export), indent=1) + "\n", follow_link=False)
    return export


def _tokenizer_hash(model: LocalModel) -> str | None:
    """Hash the model's `tokenizer.json`. None if it is missing or differs from the tokenizer in use."""
    path = Path(model.name) / TOKENIZER
    try:
        same = FastTokenizer(path.parent).matches(model.tokenizer)
    except DataError:
        return None
    return hashlib.sha256(path.read_bytes()).hexdigest() if same else None


def _exported(runner: PairRunner, windows: Sequence[Window]) -> onnx.ModelProto:
    """Export the model to a graph for batches of any size and length."""
    import torch

    rows = [[windows[i] for i in row] for row in runner.rows(windows)[:2]]
    laid = runner.lay(rows * 2 if len(rows) == 1 else rows)
    inputs, masked = inputs_of(runner.model, laid), laid.allowed is not None
    if not masked:  # rows run one by one need no padding mask, and attention is faster without it
        del inputs["attention_mask"]
    names = list(inputs)
    model = runner.model

    class Trunk(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model.model

        def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
            by_name = dict(zip(names, tensors, strict=True))
            with relative_positions(model, by_name.get("position_ids")):
                return outputs_of(model, by_name)

    tensors = tuple(torch.from_numpy(inputs[name]) for name in names)
    batch, width = torch.export.Dim("batch", min=1, max=4096), torch.export.Dim("width", min=2, max=1 << 16)
    shapes = tuple({0: batch, 1: width} if t.ndim == 2 else {0: batch, 2: width, 3: width} for t in tensors)
    attention = _one_attention(masked=masked) if model.model_type == "mpnet" else nullcontext()
    with torch.no_grad(), quiet(), _no_empty_masks(), attention, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the exporter's internals
        program = torch.onnx.export(
            Trunk().train(False),
            tensors,
            input_names=names,
            output_names=["states"],
            dynamic_shapes=(shapes,),
            dynamo=True,
            verbose=False,
            custom_translation_table=attention_table(),
        )
    if program is None:
        raise InputError(f"{runner.model.name!r} cannot be exported to ONNX", hint="another architecture")
    graph: onnx.ModelProto = program.model_proto
    return graph


@contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """While the context lasts, `value` replaces the attribute `name` of `owner`."""
    original = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, original)


def _no_empty_masks() -> AbstractContextManager[None]:
    """While the context lasts, keep transformers from making a mask if nothing is masked.

    Usually, transformers makes no such mask, but on export it does. With a mask, onnxruntime does not use its fastest
    attention.
    """
    from transformers import masking_utils

    name = "_ignore_bidirectional_mask_sdpa"
    if not hasattr(masking_utils, name):  # missing in other versions: the file is correct, but slower
        return nullcontext()
    return _replaced(masking_utils, name, lambda padding, length, window=None: padding is None and window is None)


def _one_attention(*, masked: bool) -> AbstractContextManager[None]:
    """While the context lasts, make MPNet's attention one operator, as in other models.

    The attention adds a mask only with `masked`.
    """
    import torch
    from transformers.models.mpnet import modeling_mpnet

    attention: Any = modeling_mpnet.MPNetSelfAttention
    parameters = signature(attention.forward)  # the arguments and their order differ between versions

    def forward(self: Any, *arguments: Any, **options: Any) -> tuple[torch.Tensor]:
        bound = parameters.bind(self, *arguments, **options).arguments
        x, bias = bound["hidden_states"], bound["position_bias"]
        shape = (*x.shape[:-1], self.num_attention_heads, self.attention_head_size)
        query, key, value = (part(x).view(shape).transpose(1, 2) for part in (self.q, self.k, self.v))
        bias = bias + bound["attention_mask"] if masked else bias
        states = torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=bias)
        return (self.o(states.transpose(1, 2).reshape(x.shape)),)

    return _replaced(attention, "forward", forward)
