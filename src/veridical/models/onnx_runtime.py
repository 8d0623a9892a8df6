"""A backbone or sequence classifier that runs from its ONNX file: numpy, onnxruntime and tokenizers, no torch.

`models.onnx` writes the files; here is what is known of one, and how it is read and run.
"""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, fields
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from veridical.core.errors import DataError, InputError, UnknownNameError, WireError
from veridical.core.files import read_text
from veridical.core.serialization import parse
from veridical.core.telemetry import import_without_telemetry
from veridical.models.fast_tokenizer import TOKENIZER, FastTokenizer
from veridical.models.load import LocalModel, kind_of, positions_of, require_models
from veridical.models.pair_network import Floats, PairRunner, row_length
from veridical.models.pairs import Window

if TYPE_CHECKING:
    import torch

__all__ = [
    "FILES",
    "KEPT",
    "PRECISIONS",
    "OnnxExport",
    "OnnxRunner",
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
"""The input of a file that says of which tokens it returns states; *shape:* (tokens,), their places."""
_ERRORS_ONLY = 3


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
        kind: What the model is (`models.load.Kind`); None in files of earlier versions.
        max_positions: The most tokens that it reads at once; None in files of earlier versions.
        tokenizer: The hash of the model's `tokenizer.json`; None where that alone is not its tokenizer, which then
            takes transformers to read.
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
    """Where the `OnnxExport` of a file in `folder` is."""
    return folder / f"{FILES[precision]}.json"


class OnnxRunner(PairRunner):
    """A `PairRunner` whose states an ONNX session computes; `model` gives tokenizer and configuration only.

    Every row is run by itself, side by side on as many threads as `threads` says, and holds windows of one case alone:
    nothing is padded, and in int8, where a difference of rounding between two batches can put a number into the next
    of its 255 steps, the scores of a case do not depend on its neighbours.
    """

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
        ranks = {argument.name: len(argument.shape) for argument in session.get_inputs()}
        self._names = set(ranks) - {KEPT}
        self._takes_types = "token_type_ids" in ranks
        self._takes_mask = ranks.get("attention_mask") == 4
        self._keeps = KEPT in ranks
        self._threads = threads()
        self.by_case = self.shares_prompts

    def batches(self, windows: Sequence[Window]) -> list[list[list[int]]]:
        """Every row by itself, longest first."""
        rows = self.rows(windows)
        return [[row] for row in sorted(rows, key=lambda row: -row_length([windows[i] for i in row]))]

    def each(self, batches: Iterable[Sequence[Sequence[Window]]]) -> Iterator[tuple[Floats, list[list[int]]]]:
        """The states of each batch, in their order; several are computed at a time."""
        batches = list(batches)
        if self._threads == 1 or len(batches) == 1:
            yield from super().each(batches)
            return
        with ThreadPoolExecutor(self._threads) as pool:
            running: deque[Future[tuple[Floats, list[list[int]]]]] = deque()
            for batch in batches:
                running.append(pool.submit(self.states, batch))
                if len(running) > 2 * self._threads:
                    yield running.popleft().result()
            while running:
                yield running.popleft().result()

    def takes_mask(self, rows: Sequence[Sequence[Window]]) -> bool:
        """As the model was exported, whatever the rows are."""
        return self._takes_mask

    def states(self, rows: Sequence[Sequence[Window]]) -> tuple[Floats, list[list[int]]]:
        """As `PairRunner.states`; of files that return some tokens alone, the response's behind the first token's."""
        inputs, starts = self.inputs(rows)
        if "attention_mask" not in self._names:
            del inputs["attention_mask"]  # a row by itself has no padding
        if set(inputs) != self._names or (super().takes_mask(rows) and not self._takes_mask):
            raise InputError(
                f"the ONNX file reads {', '.join(sorted(self._names))}, not {', '.join(sorted(inputs))}",
                hint="export it again: veridical export FOLDER",
            )
        if self._keeps:
            places = [self.kept(window, start) for window, start in zip(rows[0], starts[0], strict=True)]
            inputs[KEPT] = np.concatenate(places)
            ends = np.cumsum([len(each) for each in places]).tolist()
            if self.attention == "full":
                starts = [[1]]
            else:
                starts = [[end - len(each) for end, each in zip(ends, places, strict=True)]]
        (states,) = self.session.run(None, inputs)
        return states, starts

    def kept(self, window: Window, start: int) -> NDArray[np.int64]:
        """The places of the states of a window that starts at `start`: of its tokens and of it as a whole, in order."""
        tokens = np.arange(start, start + window.count)
        return np.unique(np.append(tokens, self.whole_position(window, start)))


def open_session(data: bytes) -> Any:
    """A session that runs the ONNX file `data` on the thread that calls it; `OnnxRunner` calls it from several."""
    onnxruntime = import_without_telemetry("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = _ERRORS_ONLY
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def threads() -> int:
    """The processors that this process may use, or as many as OMP_NUM_THREADS says."""
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    if wanted.isdecimal() and int(wanted) > 0:
        return int(wanted)
    if hasattr(os, "sched_getaffinity"):  # not on macOS and Windows
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def parts_of(folder: str | Path, precision: str) -> list[Path]:
    """The ONNX file in `folder`, or the parts that `split` made of it, in order; empty where there is none."""
    path = Path(folder) / FILES[precision]
    if path.is_file():
        return [path]
    parts = [part for part in path.parent.glob(f"{path.name}.*") if part.suffix[1:].isdecimal()]
    return sorted(parts, key=lambda part: int(part.suffix[1:]))


def split(folder: str | Path, precision: str, most: int = 45_000_000) -> list[Path]:
    """Put the ONNX file in `folder` in parts of at most `most` bytes; `load_onnx` reads either."""
    path = Path(folder) / FILES[precision]
    data = path.read_bytes()
    for number, start in enumerate(range(0, len(data), most), 1):
        path.with_name(f"{path.name}.{number}").write_bytes(data[start : start + most])
    path.unlink()
    return parts_of(folder, precision)


def described(folder: str | Path, precision: str) -> OnnxExport:
    """What is known of the ONNX file in `folder`; `DataError` if it or its description is missing or damaged."""
    if precision not in PRECISIONS:
        raise UnknownNameError("precision", precision, PRECISIONS)
    path, about = Path(folder) / FILES[precision], description_file(Path(folder), precision)
    if not parts_of(folder, precision) or not about.is_file():
        raise DataError(f"no {precision} export", path=path, hint="veridical export FOLDER writes it")
    known = {field.name for field in fields(OnnxExport)}
    try:
        return OnnxExport(**{name: value for name, value in parse(read_text(about)).items() if name in known})
    except WireError as error:
        raise DataError(error.message, path=about) from None
    except TypeError:
        raise DataError("a field is missing", path=about, hint="export it again: veridical export FOLDER") from None


def load_onnx(folder: str | Path, backbone: str | Path, weights: str | None, precision: str) -> tuple[LocalModel, Any]:
    """The tokenizer and configuration in `backbone`, and the session of an ONNX file.

    Neither torch nor transformers is imported, unless the tokenizer takes them (`OnnxExport.tokenizer`).

    Args:
        folder: Where the file is.
        backbone: The Hugging Face folder that it was made from; its weights are not loaded and need not be there.
        weights: The hash of the weights that the file must have been made from; None: any.
        precision: "fp32" or "int8".

    Raises:
        DataError: If there is no such file, or it is damaged or of another model, or its tokenizer is another.
        MissingExtraError: Where the tokenizer takes transformers, without them (extra `models`).
    """
    about = described(folder, precision)
    path = Path(folder) / FILES[precision]
    data = b"".join(part.read_bytes() for part in parts_of(folder, precision))
    if hashlib.sha256(data).hexdigest() != about.sha256:
        raise DataError("not the file that its description names (damaged or of another export)", path=path)
    if weights is not None and about.weights != weights:
        raise DataError("made from another model's weights", path=path, hint="export it again: veridical export FOLDER")
    if about.tokenizer is None or about.kind is None or about.max_positions is None:
        model = _read_with_transformers(backbone, about)
    else:
        model = _read_plain(Path(backbone), about)
    return model, open_session(data)


def _read_plain(backbone: Path, about: OnnxExport) -> LocalModel:
    """The model without its weights, by the JSON files alone."""
    for name, what in (("config.json", "configuration"), (TOKENIZER, "tokenizer")):
        if not (backbone / name).is_file():
            raise DataError(f"no {what} ({name}) in it", path=backbone, hint="copy the whole folder of the detector")
    path = backbone / TOKENIZER
    if hashlib.sha256(path.read_bytes()).hexdigest() != about.tokenizer:
        raise DataError(
            "not the tokenizer of the ONNX file", path=path, hint="export it again: veridical export FOLDER"
        )
    path = backbone / "config.json"
    try:
        document = parse(read_text(path))
    except WireError as error:
        raise DataError(error.message, path=path) from None
    return _model(_config(document), FastTokenizer(backbone), str(backbone), about)


def _config(document: dict[str, Any]) -> SimpleNamespace:
    """A configuration with the fields of its file, and what the Hugging Face class adds to them."""
    config = SimpleNamespace(**{"model_type": "", "pad_token_id": None, **document})
    labels = document.get("id2label")
    config.num_labels = len(labels) if labels else int(document.get("num_labels", 2))
    inner = document.get("text_config")
    config.get_text_config = lambda: _config(inner) if isinstance(inner, dict) else config
    return config


def _read_with_transformers(backbone: str | Path, about: OnnxExport) -> LocalModel:
    """The model without its weights, as transformers reads configuration and tokenizer."""
    require_models(f"the tokenizer of {backbone}")
    import transformers

    config = transformers.AutoConfig.from_pretrained(backbone, local_files_only=True)
    tokenizer = transformers.AutoTokenizer.from_pretrained(backbone, local_files_only=True)
    return _model(config, tokenizer, str(backbone), about)


def _model(config: Any, tokenizer: Any, name: str, about: OnnxExport) -> LocalModel:
    return LocalModel(
        model=SimpleNamespace(config=config),
        tokenizer=tokenizer,
        name=name,
        revision=None,
        kind=cast("Any", about.kind) or kind_of(config),
        max_positions=about.max_positions or positions_of(config, tokenizer),
        device=cast("torch.device", SimpleNamespace(type="cpu")),  # nothing is placed: their names are all that is read
        dtype=cast("torch.dtype", "float32"),
        hash=about.weights,
    )
