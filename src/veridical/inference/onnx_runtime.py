"""Run backbones and sequence classifiers from ONNX files with numpy, onnxruntime and tokenizers, without torch.

This module only reads and runs the files. `veridical_lab.models.onnx` writes them.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from veridical.inference.fast_tokenizer import TOKENIZER, FastTokenizer
from veridical.inference.local_model import READERS, Kind, LocalModel, positions_of, require_models
from veridical.inference.pair_runner import Batch, Floats, inputs_of
from veridical.inference.telemetry import import_without_telemetry
from veridical.io.strict_json import quoted, read_object, record_of
from veridical.records.errors import DataError, InputError, UnknownNameError, VeridicalError
from veridical.records.strings import shorten

if TYPE_CHECKING:
    import torch

FILES = {"fp32": "model.onnx", "int8": "model.int8.onnx"}
PRECISIONS = tuple(FILES)
PUBLISHED = "onnx/model.onnx"
"""Where publishers put the ONNX file of a checkpoint, in fp32."""
KEPT = "kept"
"""The name of the ONNX input that lists the indices of the tokens whose hidden states are returned.

*Shape:* (tokens,)
"""
_ERRORS_ONLY = 3


@dataclass(frozen=True, slots=True)
class OnnxExport:
    """The description of an ONNX file, which `veridical export` writes as JSON beside the file.

    Attributes:
        precision: "fp32" or "int8".
        sha256: The SHA-256 hash of the file.
        weights: The hash of the original model's weights (`inference.artifact.Base`).
        bytes: The size of the file, in bytes.
        difference: The largest absolute difference between hidden states from the file and from the original model,
            measured on test texts at export. For a sequence classifier, the largest difference between logits.
        cosine: The lowest cosine similarity between a token's hidden state from the file and the one from the original
            model. For a sequence classifier, the cosine similarity of all logits.
        kind: The kind of model (`inference.local_model.Kind`). None in files of earlier versions.
        max_positions: The context length in tokens. None in files of earlier versions.
        tokenizer: The hash of the model's `tokenizer.json`. None if only transformers can load the tokenizer.
    """

    precision: str
    sha256: str
    weights: str
    bytes: int
    difference: float
    cosine: float
    kind: Kind | None = None
    max_positions: int | None = None
    tokenizer: str | None = None


def description_file(folder: Path, precision: str) -> Path:
    """Return the path of the JSON file that describes the ONNX file of a `precision` in `folder` (see `OnnxExport`)."""
    return folder / f"{FILES[precision]}.json"


class OnnxEngine:
    """An engine (`pair_runner.Engine`) that computes hidden states with ONNX Runtime, without torch.

    Each batch is a single row (`alone`), with windows (input sequences) of only one case. Nothing is padded, and no
    case changes the scores of another case. In int8, cases in the same batch would affect each other, because the
    rounding of numbers to 255 steps depends on the whole batch.

    Args:
        model: The tokenizer and the configuration of the model.
        session: The session for the ONNX file (`open_session`).
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
        """Compute the hidden states of the tokens in `Batch.wanted`, *shape* (wanted tokens, width).

        For a classifier, compute the logits of the only row, *shape* (1, classes).

        Raises:
            InputError: The ONNX file takes other inputs, or ONNX Runtime fails.
        """
        inputs = inputs_of(self.model, batch)
        if "attention_mask" not in self._names:
            del inputs["attention_mask"]  # a row by itself has no padding
        if "token_type_ids" in self._names:
            inputs.setdefault("token_type_ids", batch.types)  # files of publishers may list it and ignore it
        if set(inputs) != self._names or (batch.allowed is not None and not self.takes_mask):
            raise InputError(
                f"the ONNX file reads {', '.join(sorted(self._names))}, not {', '.join(sorted(inputs))}",
                hint="export it again: veridical export FOLDER",
            )
        (places,) = batch.wanted_by_row
        if self._keeps:
            inputs[KEPT] = places
        states: Floats
        try:
            ((states,),) = self.session.run(None, inputs)
        except Exception as error:  # noqa: BLE001 - the library's errors have no common class
            problem = f"the ONNX file of {self.model.name!r} failed: {shorten(str(error), 200)}"
            raise InputError(problem, hint="use another model") from None
        states = np.atleast_2d(states)  # files of publishers give the logits of a row without its places
        return states if self._keeps else states[places]


def open_session(data: bytes | str) -> Any:
    """Open an ONNX Runtime session on the CPU for an ONNX file, from its content or its path.

    A run uses as many threads as `threads()` returns. Runs at the same time share these threads.
    """
    onnxruntime = import_without_telemetry("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads()
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # leave the processors to others
    options.log_severity_level = _ERRORS_ONLY
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    session._model_bytes = None  # a copy of the file, which only other providers need
    with suppress(AttributeError, OSError, TypeError):  # not on macOS and Windows
        ctypes.CDLL(None).malloc_trim(0)  # give back the memory that only loading took
    return session


def threads() -> int:
    """Return the number of threads for a run.

    This is $OMP_NUM_THREADS if it is set, or else the number of processors that this process may use.
    """
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    if wanted.isdecimal() and int(wanted) > 0:
        return int(wanted)
    if hasattr(os, "sched_getaffinity"):  # not on macOS and Windows
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def parts_of(folder: str | Path, precision: str) -> list[Path]:
    """Return the paths of the ONNX file in a folder: one path, or several if `split` has split the file.

    Several paths are in the order of the parts. If there is no file, the list is empty.
    """
    path = Path(folder) / FILES[precision]
    if path.is_file():
        return [path]
    parts = [part for part in path.parent.glob(f"{path.name}.*") if part.suffix[1:].isdecimal()]
    return sorted(parts, key=lambda part: int(part.suffix[1:]))


def split(folder: str | Path, precision: str, most: int = 45_000_000) -> list[Path]:
    """Split the ONNX file in a folder into files of at most `most` bytes, and return their paths.

    The original file is deleted. `load_onnx` loads split files, too.
    """
    path = Path(folder) / FILES[precision]
    data = path.read_bytes()
    for number, start in enumerate(range(0, len(data), most), 1):
        path.with_name(f"{path.name}.{number}").write_bytes(data[start : start + most])
    path.unlink()
    return parts_of(folder, precision)


def described(folder: str | Path, precision: str) -> OnnxExport:
    """Load the description of the ONNX file of a `precision` in a folder, from the JSON file beside it.

    Raises:
        DataError: The description or the file is missing or damaged.
    """
    if precision not in PRECISIONS:
        raise UnknownNameError("precision", precision, PRECISIONS)
    path, about = Path(folder) / FILES[precision], description_file(Path(folder), precision)
    if not parts_of(folder, precision) or not about.is_file():
        raise DataError(f"no {precision} export", path=path, hint="veridical export FOLDER writes it")
    return record_of(OnnxExport, read_object(about), about, "")


def load_onnx(
    folder: str | Path, backbone: str | Path, weights: str | None, precision: str, kind: Kind | None = None
) -> OnnxEngine:
    """Build an engine from an exported ONNX file, and the tokenizer and configuration of its original model.

    This imports neither torch nor transformers, unless the tokenizer needs them (`OnnxExport.tokenizer`).

    Args:
        folder: The folder with the ONNX file.
        backbone: The Hugging Face folder of the original model, with tokenizer and configuration. Its weights are not
            loaded and may be missing.
        weights: The required hash of the original weights (`OnnxExport.weights`). None accepts any weights.
        precision: "fp32" or "int8".
        kind: The kind of model. Default: the kind in the file's description.

    Raises:
        DataError: The file is missing, damaged or from another model, or its tokenizer is missing or has another hash.
        MissingExtraError: The tokenizer needs transformers, which is not installed (extra `models`).
    """
    about = described(folder, precision)
    path = Path(folder) / FILES[precision]
    data = b"".join(part.read_bytes() for part in parts_of(folder, precision))
    if hashlib.sha256(data).hexdigest() != about.sha256:
        raise DataError("not the file that its description names (damaged or of another export)", path=path)
    if weights is not None and about.weights != weights:
        raise DataError("made from another model's weights", path=path, hint="export it again: veridical export FOLDER")
    if kind is None and about.kind not in (None, *READERS):
        raise DataError(f"of a {about.kind}, not of an encoder or decoder", path=path)
    kind = kind or about.kind
    if about.tokenizer is None or kind is None or about.max_positions is None:
        require_models(f"the tokenizer of {backbone}")
        import transformers

        from veridical.inference.local_model import kind_of

        plain = {"local_files_only": True, "trust_remote_code": False}
        try:
            config = transformers.AutoConfig.from_pretrained(backbone, **plain)
            tokenizer: Any = transformers.AutoTokenizer.from_pretrained(backbone, **plain)
        except (OSError, ValueError) as error:
            reason = str(error).strip().split("\n", 1)[0]
            raise DataError(f"its tokenizer cannot be loaded: {reason}", path=Path(backbone)) from None
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
    return OnnxEngine(model, _session(data, path, "copy or train it again"))


def _session(data: bytes | str, path: Path, hint: str) -> Any:
    """Open a session for an ONNX file, or raise `DataError` with this hint if the file cannot be read."""
    try:
        return open_session(data)
    except (ImportError, VeridicalError):
        raise
    except Exception as error:  # noqa: BLE001 - the library's errors have no common class
        raise DataError(f"cannot be read: {shorten(str(error), 200)}", path=path, hint=hint) from None


def load_published(folder: Path) -> OnnxEngine:
    """Build an engine from a publisher's ONNX file of a sequence classifier, without torch and transformers.

    Raises:
        DataError: The file or the tokenizer is missing or damaged.
    """
    path = folder / PUBLISHED
    if not path.is_file():
        raise DataError("no ONNX file of the publisher", path=path, hint="veridical models get NAME --onnx")
    config, tokenizer = _read_config(folder), FastTokenizer(folder)
    by_name = str(path)  # because its weights may lie in a file beside it
    session = _session(by_name, path, "veridical models verify")
    model = LocalModel(
        model=SimpleNamespace(config=config),
        tokenizer=tokenizer,
        name=str(folder),
        revision=None,
        kind="classifier",
        max_positions=positions_of(config, tokenizer),
        device=cast("torch.device", SimpleNamespace(type="cpu")),  # only the names of device and dtype are read
        dtype=cast("torch.dtype", "float32"),
        hash=hashlib.sha256(path.read_bytes()).hexdigest(),
    )
    return OnnxEngine(model, session)


def _read_plain(backbone: Path, tokenizer: str) -> tuple[SimpleNamespace, FastTokenizer]:
    """Read configuration and tokenizer from their JSON files. `tokenizer` is the hash of the tokenizer's file."""
    for name, what in (("config.json", "configuration"), (TOKENIZER, "tokenizer")):
        if not (backbone / name).is_file():
            raise DataError(f"no {what} ({name}) in it", path=backbone, hint="copy the whole folder of the detector")
    path = backbone / TOKENIZER
    if hashlib.sha256(path.read_bytes()).hexdigest() != tokenizer:
        raise DataError(
            "not the tokenizer of the ONNX file", path=path, hint="export it again: veridical export FOLDER"
        )
    return _read_config(backbone), FastTokenizer(backbone)


_TYPES = {"model_type": str, "pad_token_id": int, "type_vocab_size": int, "num_labels": int, "id2label": dict}


def _read_config(folder: Path) -> SimpleNamespace:
    path = folder / "config.json"
    document = read_object(path)
    for name, kind in _TYPES.items():
        value = document.get(name)
        if value is not None and not isinstance(value, kind):
            raise DataError(f"{name} is {quoted(value)}", path=path, hint="copy it again")
    return _config(document)


def _config(document: dict[str, Any]) -> SimpleNamespace:
    """Build a configuration from the fields of its file and those that the Hugging Face class would add."""
    config = SimpleNamespace(**{"model_type": "", "pad_token_id": None, **document})
    labels = document.get("id2label")
    config.num_labels = len(labels) if labels else int(document.get("num_labels", 2))
    inner = document.get("text_config")
    config.get_text_config = lambda: _config(inner) if isinstance(inner, dict) else config
    return config
