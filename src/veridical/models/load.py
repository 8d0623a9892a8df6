"""Load a Hugging Face model and its tokenizer from a folder, a GGUF file, or the hub by name.

Weights are loaded only from safetensors or GGUF. Code from the repository of a model is run only if you allow it.
Loaded models stay in memory until you call `unload` or the process ends.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from veridical.inference.checkpoint import HHEM
from veridical.inference.hub import HUB_NAME
from veridical.inference.local_model import DTYPE_NAMES, Kind, LocalModel, kind_of, positions_of, require_models
from veridical.io.files import expanded, read_text
from veridical.io.strict_json import quoted, read_object
from veridical.records.errors import InputError, MissingExtraError, UnknownNameError, VeridicalError

if TYPE_CHECKING:
    import torch

_KINDS: dict[Kind, str] = {
    "causal": "a decoder (a causal language model)",
    "classifier": "a sequence classifier",
    "encoder": "an encoder",
    "masked": "a masked language model (an encoder with its language-model head)",
    "seq2seq": "an encoder-decoder",
}
_CLASSES: dict[Kind, str] = {
    "causal": "AutoModelForCausalLM",
    "classifier": "AutoModelForSequenceClassification",
    "encoder": "AutoModel",
    "masked": "AutoModelForMaskedLM",
    "seq2seq": "AutoModelForSeq2SeqLM",
}
DTYPES = ("auto", *DTYPE_NAMES.values())
_DEVICE = re.compile(r"cpu|mps|cuda(:\d+)?")
_LAYER_BYTES = 512  # lower bound for the size of a layer in a file, with the names of its tensors
_MOST_PER_BYTE = 16  # upper bound for parameters per byte: quantised ones have at least 1.5 bits, tied ones count twice
_HHEM_WEIGHTS = {r"^t5\.": ""}  # maps HHEM-2's names of weights to those of transformers' T5ForTokenClassification


_loaded: dict[tuple[object, ...], LocalModel] = {}
_lock = threading.Lock()


def load(
    spec: str | Path,
    *,
    revision: str | None = None,
    device: str = "auto",
    dtype: str = "auto",
    trust_remote_code: bool = False,
    kinds: tuple[Kind, ...] = ("causal",),
) -> LocalModel:
    """Load a model with its tokenizer from a folder, a GGUF file, or the hub.

    A model that is already loaded with the same options is not loaded again. The weights of a GGUF file are
    dequantised. A tokenizer.json beside the GGUF file replaces the tokenizer inside it.

    Args:
        spec: A folder, a file with the extension .gguf, or otherwise a hub name, "owner/model".
        revision: The commit of a hub model. Default: the newest commit. Name a commit to get the same weights every
            time.
        device: The device: "auto" (a GPU if there is one), "cpu", "cuda", "cuda:N" or "mps".
        dtype: The precision: "auto" (bf16 if the device computes in it, otherwise fp32), "fp32", "bf16" or "fp16".
        trust_remote_code: If true, code from the model's repository may be run.
        kinds: The kinds of model that the caller can use, such as "causal" or "encoder". "masked" loads an encoder with
            its language-model head, and "classifier" a saved sequence classifier with its classification head.

    Raises:
        InputError: The folder has no configuration or no safetensors, the tokenizer gives no offsets, or the model is
            of another kind.
        MissingExtraError: torch or transformers is not installed, or for a GGUF file, gguf or accelerate.
    """
    if dtype not in DTYPES:
        raise UnknownNameError("dtype", dtype, DTYPES)
    if device != "auto" and not _DEVICE.fullmatch(device):
        raise UnknownNameError("device", device, ("auto", "cpu", "cuda", "cuda:0", "mps"))
    folder = expanded(spec)
    name_or_path = str(folder.resolve()) if folder.exists() else str(spec)
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise InputError(
                f"{folder} has no config.json", hint="name the folder that save_pretrained or a hub download made"
            )
        if not any(folder.glob("*.safetensors")):
            if any(folder.glob("*.bin")) or any(folder.glob("*.pt")):
                raise InputError(
                    f"{folder} has its weights as pickles only",
                    hint="pickles are not loaded; convert them where you trust them: "
                    "AutoModelForCausalLM.from_pretrained(FOLDER).save_pretrained(NEW_FOLDER)",
                )
            raise InputError(f"{folder} has no weights", hint="a model.safetensors is needed beside config.json")
    elif not is_gguf(folder) and (folder.exists() or not HUB_NAME.fullmatch(name_or_path)):
        raise InputError(
            f"there is no model folder {name_or_path!r}",
            hint="name a folder with config.json and model.safetensors, a file.gguf, or a hub model as owner/name",
        )
    require_models()
    placement = _placement(device, dtype)
    key = (name_or_path, revision, placement, trust_remote_code)
    with _lock:
        plain, masked, classifier = (_loaded.get((*key, head)) for head in ("", "masked", "classifier"))
        reusable = masked if "masked" in kinds and (plain is None or plain.kind == "encoder") else plain
        reusable = classifier if "classifier" in kinds else reusable
        model = reusable or _load(name_or_path, revision, placement, trust_remote_code, kinds)
        _loaded[(*key, model.kind if model.kind in ("masked", "classifier") else "")] = model
    _check_kind(name_or_path, model.kind, model.model.config.model_type, kinds)
    return model


def is_gguf(name_or_path: str | Path) -> bool:
    """Check whether `name_or_path` is a file whose name ends in .gguf."""
    file = expanded(name_or_path)
    return file.suffix.lower() == ".gguf" and file.is_file()


def unload(model: LocalModel | None = None) -> None:
    """Remove a loaded model, or all loaded models, from the cache of `load`, so that their memory can be freed.

    The next `load` of the same name loads the weights again.
    """
    import gc
    import sys

    with _lock:
        for key in [key for key, loaded in _loaded.items() if model is None or loaded is model]:
            del _loaded[key]
    gc.collect()  # hooks and closures make cycles
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()


def _check_kind(name_or_path: str, kind: Kind, model_type: str, kinds: tuple[Kind, ...]) -> None:
    if kind not in kinds:
        wanted = " or ".join(_KINDS[wanted] for wanted in kinds)
        raise InputError(f"{name_or_path} is {_KINDS[kind]} ({model_type})", hint=f"{wanted} is needed here")


def _load(
    name_or_path: str,
    revision: str | None,
    placement: tuple[torch.device, torch.dtype],
    trust_remote_code: bool,
    kinds: tuple[Kind, ...],
) -> LocalModel:
    device, dtype = placement
    local = Path(name_or_path).exists()
    try:
        config, tokenizer, model, kind, missing = _from_files(name_or_path, revision, dtype, trust_remote_code, kinds)
    except VeridicalError:
        raise
    except Exception as error:  # damaged or foreign files can make transformers fail in any way
        reason = str(error).strip().split("\n", 1)[0] or type(error).__name__
        if "ignore_mismatched_sizes" in reason:
            reason = "tensors have other sizes than config.json says"
        raise InputError(
            f"the model {name_or_path!r} cannot be loaded: {reason}",
            hint="a folder in Hugging Face format with safetensors and a fast tokenizer is needed, or a whole GGUF file"
            if local
            else "there is no such folder; as a hub name it needs the network and safetensors weights",
        ) from error
    if missing:
        raise InputError(
            f"the weights of {name_or_path!r} lack {len(missing)} tensors, such as {missing[0]}",
            hint=f"they do not belong to a {type(model).__name__}, or the download is incomplete",
        )
    if not tokenizer.is_fast:
        raise InputError(
            f"the tokenizer of {name_or_path!r} gives no offsets", hint="a fast tokenizer (tokenizer.json) is needed"
        )
    _check_ids(name_or_path, tokenizer, model)
    model.requires_grad_(False).train(False).to(device)
    fields = config.to_diff_dict()
    for field in ("_name_or_path", "transformers_version", "dtype", "torch_dtype"):
        fields.pop(field, None)
    identity = json.dumps(fields, sort_keys=True, default=str) + tokenizer.backend_tokenizer.to_str()
    digest = hashlib.sha256(identity.encode()).hexdigest()[:16]
    commit = getattr(config, "_commit_hash", None)
    return LocalModel(
        model, tokenizer, name_or_path, commit, kind, positions_of(config, tokenizer), device, dtype, digest
    )


def _check_ids(name_or_path: str, tokenizer: Any, model: Any) -> None:
    """Check that the model has an embedding for every id that the tokenizer can give a text, or raise `InputError`.

    Ids of special tokens are not checked.
    """
    rows = model.get_input_embeddings().weight.shape[0]
    special = {id for id, token in tokenizer.added_tokens_decoder.items() if token.special}
    foreign = next((token for token, id in tokenizer.get_vocab().items() if id >= rows and id not in special), None)
    if foreign is not None:
        raise InputError(
            f"the tokenizer of {name_or_path!r} has ids without an embedding, such as that of {quoted(foreign)}",
            hint=f"the model has {rows:,} embeddings; take the tokenizer that belongs to it",
        )


def _from_files(
    name_or_path: str, revision: str | None, dtype: torch.dtype, trust_remote_code: bool, kinds: tuple[Kind, ...]
) -> tuple[Any, Any, Any, Kind, list[str]]:
    """Load the configuration, the tokenizer, the model and its kind, and list the tensors that the files lack."""
    import transformers

    common: dict[str, Any] = {"trust_remote_code": trust_remote_code, "local_files_only": Path(name_or_path).exists()}
    if revision:
        common["revision"] = revision
    weights: dict[str, Any] = {}
    folder = name_or_path
    if is_gguf(name_or_path):
        if not all(find_spec(name) for name in ("accelerate", "gguf")):
            raise MissingExtraError("a GGUF file", "gguf")
        folder, weights["gguf_file"] = str(Path(name_or_path).parent), Path(name_or_path).name
    own_tokenizer = {} if (Path(folder) / "tokenizer.json").is_file() else weights
    rebuilt = _is_hhem(Path(folder))
    if rebuilt:
        config, tokenizer = _hhem_parts(Path(folder))
    else:
        config = transformers.AutoConfig.from_pretrained(folder, **common, **weights)
    if commit := getattr(config, "_commit_hash", None):
        common["revision"] = commit
    kind = _kind_among(config, kinds)
    _check_kind(name_or_path, kind, config.model_type, kinds)
    if not rebuilt:
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **common, **own_tokenizer)
    if weights and (packed := getattr(transformers, "GgufConfig", None)):  # some versions leave them quantised
        weights["quantization_config"] = packed(dequantize=True)
    model_class = _CLASSES[kind]
    if rebuilt:
        model_class, weights["key_mapping"] = "T5ForTokenClassification", _HHEM_WEIGHTS
    if not rebuilt and Path(name_or_path).exists():
        _check_size(name_or_path, config, getattr(transformers, model_class), trust_remote_code)
    with quiet():
        model, report = getattr(transformers, model_class).from_pretrained(
            folder, config=config, dtype=dtype, use_safetensors=True, output_loading_info=True, **common, **weights
        )
    # only the head of a classifier uses the pooler
    missing = sorted(key for key in report["missing_keys"] if kind == "classifier" or "pooler" not in key)
    return config, tokenizer, model, kind, missing


def _check_size(name_or_path: str, config: Any, model_class: Any, trust_remote_code: bool) -> None:
    """Check that the weight files are large enough for the model in the configuration, or raise `InputError`.

    Without this check, transformers would allocate memory for the tensors that the files lack, perhaps gigabytes.
    """
    import torch

    path = Path(name_or_path)
    size = sum(file.stat().st_size for file in (path.glob("*.safetensors") if path.is_dir() else [path]))
    layers = getattr(config.get_text_config(), "num_hidden_layers", None)
    described = f"{layers:,} layers" if isinstance(layers, int) and layers * _LAYER_BYTES > size else None
    if described is None:
        with quiet(), torch.device("meta"):
            model = model_class.from_config(deepcopy(config), trust_remote_code=trust_remote_code)
        count = sum(parameter.numel() for parameter in model.parameters())
        described = f"{count:,} parameters" if count > _MOST_PER_BYTE * size else None
    if described is not None:
        raise InputError(
            f"the model {name_or_path!r} cannot be loaded: it describes {described}, "
            f"and its weights have {size:,} bytes",
            hint="the file is incomplete, or one part of several; a whole model is needed",
        )


def _kind_among(config: Any, kinds: tuple[Kind, ...]) -> Kind:
    """Find the kind of a model. "classifier" and "masked" are chosen only if `kinds` has them and the model fits."""
    of_pairs = "ForSequenceClassification" in " ".join(config.architectures or ())  # HHEM's name, too
    if "classifier" in kinds and of_pairs:
        return "classifier"
    kind = kind_of(config)
    if kind == "encoder" and "masked" in kinds:
        from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

        return "masked" if config.model_type in MODEL_FOR_MASKED_LM_MAPPING_NAMES else kind
    return kind


def _is_hhem(folder: Path) -> bool:
    path = folder / "config.json"
    return path.is_file() and HHEM in read_text(path)


def _hhem_parts(folder: Path) -> tuple[Any, Any]:
    """Load the configuration and the tokenizer of the model from which HHEM-2 was made. HHEM-2's own code never runs.

    Both are in a subfolder with that model's name, or else come from the hub. If they are in neither place,
    `InputError` is raised.
    """
    import transformers

    foundation = str(read_object(folder / "config.json").get("foundation", "google/flan-t5-base"))
    inside = folder / Path(foundation).name
    name_or_path = inside if inside.is_dir() else foundation
    try:
        plain = {"trust_remote_code": False}  # without it, transformers asks on the terminal whether to run code
        config = transformers.AutoConfig.from_pretrained(name_or_path, num_labels=2, architectures=[HHEM], **plain)
        return config, transformers.AutoTokenizer.from_pretrained(name_or_path, **plain)
    except (OSError, ValueError):
        raise InputError(
            f"{folder} was made from {foundation}, which cannot be had",
            hint=f"copy config.json, tokenizer.json and tokenizer_config.json of {foundation} to {inside}",
        ) from None


@contextmanager
def quiet() -> Iterator[None]:
    """Switch off the progress bars and warnings of transformers while the context lasts."""
    from transformers.utils import logging

    shown, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if shown:
            logging.enable_progress_bar()


def _placement(device: str, dtype: str) -> tuple[torch.device, torch.dtype]:
    """Return the device and the precision that the names stand for on this machine."""
    import torch

    available: dict[str, Callable[[], bool]] = {
        "cuda": torch.cuda.is_available,
        "mps": torch.backends.mps.is_available,
        "cpu": lambda: True,
    }
    if device == "auto":
        device = next(name for name, is_available in available.items() if is_available())
    chosen = torch.device(device)
    if not available[chosen.type]() or (chosen.type == "cuda" and (chosen.index or 0) >= torch.cuda.device_count()):
        raise InputError(f"there is no device {device!r} on this machine", hint="device=auto takes what there is")
    if dtype != "auto":
        return chosen, {short: getattr(torch, name) for name, short in DTYPE_NAMES.items()}[dtype]
    return chosen, torch.bfloat16 if computes_bf16(chosen) else torch.float32


def computes_bf16(device: torch.device) -> bool:
    """Check whether a device has instructions for bf16. Most processors only emulate it, which is slower than fp32."""
    import torch

    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    tests = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return device.type == "cpu" and any(getattr(torch.cpu, name, bool)() for name in tests)


def out_of_memory(error: BaseException) -> bool:
    """Check whether an exception of torch or Python means that memory ran out, on the CPU or a GPU.

    Torch's allocator for CPUs has no error class of its own, so the message of the exception is searched, too.
    """
    import torch

    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    message = str(error).lower()
    return any(sign in message for sign in ("defaultcpuallocator", "out of memory", "allocate memory", "enough memory"))
