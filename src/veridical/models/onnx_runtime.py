"""Backbones and sequence classifiers that run from an ONNX file with numpy, onnxruntime and tokenizers, without torch.

This module reads and runs the files; `veridical_lab.models.onnx` writes them.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, fields
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from veridical.core.errors import DataError, InputError, UnknownNameError
from veridical.core.strict_json import read_object
from veridical.core.telemetry import import_without_telemetry
from veridical.models.fast_tokenizer import TOKENIZER, FastTokenizer
from veridical.models.local_model import Kind, LocalModel, positions_of, require_models
from veridical.models.pair_runner import Batch, Floats, inputs_of

if TYPE_CHECKING:
    import torch

__all__ = [
    "FILES",
    "KEPT",
    "PRECISIONS",
    "OnnxEngine",
    "OnnxExport",
    "described",
    "description_file",
    "load_onnx",
    "open_session",
    "parts_of",
    "split",
    "threads",
]

FILES = {"fp32": "model.onnx", "int8": "model.int8.onnx"}
PRECISIONS = tuple(FILES)
KEPT = "kept"
"""The name of the input that lists the positions of the tokens whose states are returned. *Shape:* (tokens,)"""
_ERRORS_ONLY = 3


@dataclass(frozen=True, slots=True)
class OnnxExport:
    """The description of an ONNX file.

    Attributes:
        precision: "fp32" or "int8".
        sha256: The hash of the file.
        weights: The hash of the weights behind it (`models.artifact.Base`).
        bytes: The size of the file.
        difference: The largest difference between its states and the original's, on the texts of the check at export;
            for a sequence classifier, between logits.
        cosine: The lowest cosine similarity between the states of a token; for a sequence classifier, the similarity of
            all logits.
        kind: The kind of model (`models.local_model.Kind`); None in files of earlier versions.
        max_positions: The most tokens that it reads at once; None in files of earlier versions.
        tokenizer: The hash of the model's `tokenizer.json`; None where only transformers can read the tokenizer.
    """

    precision: str
    sha256: str
    weights: str
    bytes: int
    difference: float
    cosine: float
    kind: str | None = None
    max_positions: int | None = None
    tokenizer: str | None = None


def description_file(folder: Path, precision: str) -> Path:
    """Return the path of the `OnnxExport` of the ONNX file in `folder`."""
    return folder / f"{FILES[precision]}.json"


class OnnxEngine:
    """An engine (`pair_runner.Engine`) that computes in an ONNX session; `model` provides the configuration only.

    Each row runs by itself, on one of as many threads as `threads` returns, and holds windows of one case. So nothing
    is padded, and the scores of a case do not depend on its neighbours. In int8 they otherwise would: another rounding
    in another batch can move a number to the next of its 255 steps.
    """

    alone = True

    def __init__(self, model: LocalModel, session: Any) -> None:
        self.model = model
        self.session = session
        self.classifies = model.kind == "classifier"
        self.threads = threads()
        ranks = {argument.name: len(argument.shape) for argument in session.get_inputs()}
        self.takes_mask = ranks.get("attention_mask") == 4
        self._names = set(ranks) - {KEPT}
        self._keeps = KEPT in ranks

    def states(self, batch: Batch) -> Floats:
        """Compute the states at the wanted places; a file with the input `KEPT` computes no others."""
        inputs = inputs_of(self.model, batch)
        if "attention_mask" not in self._names:
            del inputs["attention_mask"]  # a row by itself has no padding
        if set(inputs) != self._names or (batch.allowed is not None and not self.takes_mask):
            raise InputError(
                f"the ONNX file reads {', '.join(sorted(self._names))}, not {', '.join(sorted(inputs))}",
                hint="export it again: veridical export FOLDER",
            )
        (places,) = batch.wanted_by_row
        if self._keeps:
            inputs[KEPT] = places
        states: Floats
        ((states,),) = self.session.run(None, inputs)
        return states if self._keeps else states[places]


def open_session(data: bytes) -> Any:
    """Open a session for the ONNX file `data`. It runs on the calling thread; `PairRunner` calls it from several."""
    onnxruntime = import_without_telemetry("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = _ERRORS_ONLY
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def threads() -> int:
    """Return the number of processors that this process may use, or OMP_NUM_THREADS if it is set."""
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    if wanted.isdecimal() and int(wanted) > 0:
        return int(wanted)
    if hasattr(os, "sched_getaffinity"):  # not on macOS and Windows
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def parts_of(folder: str | Path, precision: str) -> list[Path]:
    """Return the ONNX file in `folder`, or its parts in order if `split` has cut it; [] if there is none."""
    path = Path(folder) / FILES[precision]
    if path.is_file():
        return [path]
    parts = [part for part in path.parent.glob(f"{path.name}.*") if part.suffix[1:].isdecimal()]
    return sorted(parts, key=lambda part: int(part.suffix[1:]))


def split(folder: str | Path, precision: str, most: int = 45_000_000) -> list[Path]:
    """Cut the ONNX file in `folder` into parts of at most `most` bytes; return the parts. `load_onnx` reads both."""
    path = Path(folder) / FILES[precision]
    data = path.read_bytes()
    for number, start in enumerate(range(0, len(data), most), 1):
        path.with_name(f"{path.name}.{number}").write_bytes(data[start : start + most])
    path.unlink()
    return parts_of(folder, precision)


def described(folder: str | Path, precision: str) -> OnnxExport:
    """Read the description of the ONNX file in `folder`; raise `DataError` if it or the file is missing or damaged."""
    if precision not in PRECISIONS:
        raise UnknownNameError("precision", precision, PRECISIONS)
    path, about = Path(folder) / FILES[precision], description_file(Path(folder), precision)
    if not parts_of(folder, precision) or not about.is_file():
        raise DataError(f"no {precision} export", path=path, hint="veridical export FOLDER writes it")
    names = {field.name for field in fields(OnnxExport)}  # later versions may write others
    try:
        return OnnxExport(**{name: value for name, value in read_object(about).items() if name in names})
    except TypeError:
        raise DataError("a field is missing", path=about, hint="export it again: veridical export FOLDER") from None


def load_onnx(
    folder: str | Path, backbone: str | Path, weights: str | None, precision: str, kind: Kind | None = None
) -> OnnxEngine:
    """Load the tokenizer and configuration in `backbone`, and open a session for an ONNX file.

    This imports neither torch nor transformers, unless the tokenizer needs them (`OnnxExport.tokenizer`).

    Args:
        folder: The folder with the ONNX file.
        backbone: The Hugging Face folder of the original model; its weights are not loaded and may be missing.
        weights: The hash of the weights that the file must come from; None: any.
        precision: "fp32" or "int8".
        kind: The kind of model; None: as the file's description says.

    Raises:
        DataError: If the file is missing, is damaged or belongs to another model, or the tokenizer is another.
        MissingExtraError: If the tokenizer needs transformers and they are not installed (extra `models`).
    """
    about = described(folder, precision)
    path = Path(folder) / FILES[precision]
    data = b"".join(part.read_bytes() for part in parts_of(folder, precision))
    if hashlib.sha256(data).hexdigest() != about.sha256:
        raise DataError("not the file that its description names (damaged or of another export)", path=path)
    if weights is not None and about.weights != weights:
        raise DataError("made from another model's weights", path=path, hint="export it again: veridical export FOLDER")
    kind = kind or cast("Kind | None", about.kind)
    if about.tokenizer is None or kind is None or about.max_positions is None:
        require_models(f"the tokenizer of {backbone}")
        import transformers

        from veridical.models.load import kind_of

        config = transformers.AutoConfig.from_pretrained(backbone, local_files_only=True)
        tokenizer: Any = transformers.AutoTokenizer.from_pretrained(backbone, local_files_only=True)
        kind = kind or kind_of(config)
    else:
        config, tokenizer = _read_plain(Path(backbone), about.tokenizer)
    model = LocalModel(
        model=SimpleNamespace(config=config),
        tokenizer=tokenizer,
        name=str(backbone),
        revision=None,
        kind=kind,
        max_positions=about.max_positions or positions_of(config, tokenizer),
        device=cast("torch.device", SimpleNamespace(type="cpu")),  # only the names of device and dtype are read
        dtype=cast("torch.dtype", "float32"),
        hash=about.weights,
    )
    return OnnxEngine(model, open_session(data))


def _read_plain(backbone: Path, tokenizer: str) -> tuple[SimpleNamespace, FastTokenizer]:
    """Read configuration and tokenizer from their JSON files; `tokenizer` is the hash of the latter."""
    for name, what in (("config.json", "configuration"), (TOKENIZER, "tokenizer")):
        if not (backbone / name).is_file():
            raise DataError(f"no {what} ({name}) in it", path=backbone, hint="copy the whole folder of the detector")
    path = backbone / TOKENIZER
    if hashlib.sha256(path.read_bytes()).hexdigest() != tokenizer:
        raise DataError(
            "not the tokenizer of the ONNX file", path=path, hint="export it again: veridical export FOLDER"
        )
    return _config(read_object(backbone / "config.json")), FastTokenizer(backbone)


def _config(document: dict[str, Any]) -> SimpleNamespace:
    """Make a configuration with the fields of its file and those that the Hugging Face class adds."""
    config = SimpleNamespace(**{"model_type": "", "pad_token_id": None, **document})
    labels = document.get("id2label")
    config.num_labels = len(labels) if labels else int(document.get("num_labels", 2))
    inner = document.get("text_config")
    config.get_text_config = lambda: _config(inner) if isinstance(inner, dict) else config
    return config
