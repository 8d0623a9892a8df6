"""A token classifier's backbone or a sequence classifier as an ONNX file, in fp32 or int8, and its runtime.

Dynamic quantisation: weights in int8 per channel, activations as they come. A file is written with the hash of the
weights it was made from and with how far it is from them; one of another model is refused.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np

from veridical.core.errors import DataError, InputError, MissingExtraError, UnknownNameError, WireError
from veridical.core.files import read_text, replacing, write_whole
from veridical.core.serialization import parse
from veridical.models.artifact import base_of
from veridical.models.load import LocalModel, kind_of, positions_of, quiet
from veridical.models.pair_network import Floats, PairRunner, outputs_of
from veridical.models.pairs import Window

__all__ = ["PRECISIONS", "OnnxExport", "OnnxRunner", "export_onnx", "load_onnx"]

PRECISIONS = ("fp32", "int8")
_NAME = {"fp32": "model.onnx", "int8": "model.int8.onnx"}


@dataclass(frozen=True, slots=True)
class OnnxExport:
    """What is known of an ONNX file.

    Attributes:
        precision: "fp32" or "int8".
        sha256: Of the file.
        weights: The hash of the weights that it was made from (`models.artifact.Base`).
        bytes: Its size.
        difference: The largest difference between its states and the original's, on the texts that it was checked on;
            of a sequence classifier, between logits.
        cosine: The lowest cosine similarity between states of a token; of a sequence classifier, that of all logits.
    """

    precision: str
    sha256: str
    weights: str
    bytes: int
    difference: float
    cosine: float


def _description(folder: Path, precision: str) -> Path:
    return folder / f"{_NAME[precision]}.json"


def export_onnx(
    runner: PairRunner, windows: Sequence[Window], folder: str | Path, precision: Literal["fp32", "int8"] = "fp32"
) -> OnnxExport:
    """Write the backbone (or the sequence classifier) of `runner` to `folder` and check what it computes.

    Args:
        runner: Runs the original, in fp32.
        windows: What the file is checked on; at least one.
        folder: Where to write.
        precision: "fp32" or "int8".

    Raises:
        InputError: If the model is no fp32 model, or the file computes something else (a cosine similarity below 0.99
            in fp32 or below 0.8 in int8).
        MissingExtraError: Without onnx, onnxscript and onnxruntime (extra `onnx`).
    """
    if precision not in PRECISIONS:
        raise UnknownNameError("precision", precision, PRECISIONS)
    if runner.model.dtype_name != "fp32":
        raise InputError(f"the model is loaded in {runner.model.dtype_name}", hint="load it with dtype=fp32")
    try:
        import onnx
        import onnxruntime
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("writing ONNX files", "onnx") from error
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / _NAME[precision]
    weights = base_of(runner.model).weights or ""
    with replacing(path) as part:
        if precision == "fp32":
            _write(runner, windows, part)
        else:
            from onnxruntime.quantization import QuantType, quantize_dynamic

            whole = part.with_suffix(".whole")
            try:
                _write(runner, windows, whole)
                graph = onnx.load(whole)
                del graph.graph.value_info[:]  # shapes from before the exporter transposed weights
                onnx.save(graph, whole)
                quantize_dynamic(whole, part, per_channel=True, weight_type=QuantType.QInt8)
            finally:
                whole.unlink(missing_ok=True)
        data = part.read_bytes()
        session = onnxruntime.InferenceSession(data)
        other = OnnxRunner(runner.model, session, runner.mode, runner.attention)
        pairs = list(zip(runner.run(windows), other.run(windows), strict=True))
        if runner.model.kind == "classifier":
            a, b = (np.concatenate([pair[i].whole for pair in pairs])[None] for i in (0, 1))
        else:
            a, b = (np.concatenate([pair[i].response for pair in pairs]) for i in (0, 1))
        norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
        cosine = float(((a * b).sum(1) / np.maximum(norms, 1e-12)).min())
        if cosine < (0.99 if precision == "fp32" else 0.8):
            raise InputError(
                f"the ONNX file computes something else than the model (cosine similarity {cosine:.3f})",
                hint="fp32 instead of int8" if precision == "int8" else "another architecture",
            )
    digest = hashlib.sha256(data).hexdigest()
    export = OnnxExport(precision, digest, weights, len(data), float(np.abs(a - b).max()), cosine)
    write_whole(_description(folder, precision), json.dumps(asdict(export), indent=1) + "\n")
    return export


def _write(runner: PairRunner, windows: Sequence[Window], path: Path) -> None:
    """Export the model with free batch and length."""
    import torch

    rows = [[windows[i] for i in row] for row in runner.rows(windows)[:2]]
    inputs, _ = runner.inputs(rows * 2 if len(rows) == 1 else rows)
    names = list(inputs)
    model = runner.model

    class Trunk(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model.model

        def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
            return outputs_of(model, dict(zip(names, tensors, strict=True)))

    tensors = tuple(torch.from_numpy(inputs[name]) for name in names)
    batch, width = torch.export.Dim("batch", min=1, max=4096), torch.export.Dim("width", min=2, max=1 << 16)
    shapes = tuple({0: batch, 1: width} if t.ndim == 2 else {0: batch, 2: width, 3: width} for t in tensors)
    with torch.no_grad(), quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the exporter's own inside
        program = torch.onnx.export(
            Trunk().train(False),
            tensors,
            input_names=names,
            output_names=["states"],
            dynamic_shapes=(shapes,),
            dynamo=True,
            verbose=False,
        )
    if program is None:
        raise InputError(f"{runner.model.name!r} cannot be exported to ONNX", hint="another architecture")
    program.save(path, external_data=False)


class OnnxRunner(PairRunner):
    """A `PairRunner` whose states an ONNX session computes; `model` gives tokenizer and configuration only."""

    def __init__(
        self,
        model: LocalModel,
        session: Any,
        mode: str = "offline",
        attention: str = "full",
        *,
        max_batch_tokens: int | None = None,
    ) -> None:
        super().__init__(model, mode, attention, max_batch_tokens=max_batch_tokens)
        self.session = session
        self._names = {argument.name for argument in session.get_inputs()}

    def states(self, rows: Sequence[Sequence[Window]]) -> tuple[Floats, list[list[int]]]:
        """As `PairRunner.states`."""
        inputs, starts = self.inputs(rows)
        if set(inputs) != self._names:
            raise InputError(
                f"the ONNX file reads {', '.join(sorted(self._names))}, not {', '.join(sorted(inputs))}",
                hint="export it again: veridical export FOLDER",
            )
        (states,) = self.session.run(None, inputs)
        return states, starts


def load_onnx(folder: str | Path, backbone: str | Path, weights: str | None, precision: str) -> tuple[LocalModel, Any]:
    """The tokenizer and configuration in `backbone`, and the session of an ONNX file.

    Args:
        folder: Where the file is.
        backbone: The Hugging Face folder that it was made from; its weights are not loaded.
        weights: The hash of the weights that the file must have been made from; None: any.
        precision: "fp32" or "int8".

    Raises:
        DataError: If there is no such file, or it is damaged or of another model.
        MissingExtraError: Without onnxruntime (extra `onnx`).
    """
    if precision not in PRECISIONS:
        raise UnknownNameError("precision", precision, PRECISIONS)
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingExtraError("reading ONNX files", "onnx") from error
    import torch
    import transformers

    folder = Path(folder)
    path = folder / _NAME[precision]
    if not path.is_file() or not _description(folder, precision).is_file():
        raise DataError(f"no {precision} export", path=path, hint="veridical export FOLDER writes it")
    try:
        about = parse(read_text(_description(folder, precision)))
    except WireError as error:
        raise DataError(error.message, path=_description(folder, precision)) from None
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != about.get("sha256"):
        raise DataError("not the file that its description names (damaged or of another export)", path=path)
    if weights is not None and about.get("weights") != weights:
        raise DataError("made from another model's weights", path=path, hint="export it again: veridical export FOLDER")
    config = transformers.AutoConfig.from_pretrained(backbone, local_files_only=True)
    tokenizer = transformers.AutoTokenizer.from_pretrained(backbone, local_files_only=True)
    model = LocalModel(
        model=SimpleNamespace(config=config),
        tokenizer=tokenizer,
        name=str(backbone),
        revision=None,
        kind=kind_of(config),
        max_positions=positions_of(config, tokenizer),
        device=torch.device("cpu"),
        dtype=torch.float32,
        hash=str(about["weights"]),
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    return model, onnxruntime.InferenceSession(data, options)
