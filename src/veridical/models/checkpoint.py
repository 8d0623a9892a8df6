"""A published checkpoint by folder or hub name: where its files are, and what its configuration says of it.

No weights are loaded here, and no code of a checkpoint ever runs: one that needs its own is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from veridical.core.errors import DataError, InputError, WireError
from veridical.core.files import read_text
from veridical.core.serialization import parse
from veridical.models.hhem import HHEM
from veridical.models.load import HUB_NAME, require_models

__all__ = ["architectures_of", "checkpoint_folder", "parse_config", "read_config"]

_FILES = ("*.json", "*.safetensors", "*.txt", "*.model")  # neither pickles nor code
# their own code is not needed: transformers has the first, `models.hhem` the second with a tokenizer from elsewhere
_WITHOUT_CODE = ("EuroBertForTokenClassification", HHEM)
_TOKENIZERS = ("tokenizer.json", "vocab.*", "*.model", "merges.txt")


def checkpoint_folder(name: str | Path, *, revision: str | None = None) -> Path:
    """The folder `name`, or that of the hub model "owner/model": from the local cache, else downloaded to it.

    Raises:
        InputError: If there is neither such a folder nor, here and now, such a model on the hub.
    """
    folder = Path(name).expanduser()
    if folder.is_dir():
        return folder
    if not HUB_NAME.fullmatch(str(name)):
        raise InputError(
            f"there is no checkpoint folder {str(name)!r}", hint="name a folder, or a hub model as owner/name"
        )
    require_models()
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(str(name), revision=revision, allow_patterns=list(_FILES)))
    except (OSError, ValueError) as error:
        reason = str(error).strip().split("\n", 1)[0] or type(error).__name__
        raise InputError(
            f"there is no folder {str(name)!r}, and as a hub name it cannot be had: {reason}",
            hint="download it where there is a network, and name the folder",
        ) from None


def read_config(folder: Path) -> dict[str, Any]:
    """The `config.json` of a Hugging Face folder that has a tokenizer and needs no code of its own.

    Raises:
        DataError: If it has no configuration or no tokenizer, or one that cannot be read.
        InputError: If it needs code of its own.
    """
    config = parse_config(folder)
    named = architectures_of(config)
    if config.get("auto_map") and named not in _WITHOUT_CODE:
        raise InputError(
            f"{folder} needs code of its own (auto_map in config.json), which is never run",
            hint="take a checkpoint of a plain architecture, or save its weights as one where you trust that code",
        )
    if named != HHEM and not any(file for pattern in _TOKENIZERS for file in folder.glob(pattern)):
        raise DataError(
            "no tokenizer in it", path=folder, hint="copy tokenizer.json from the model it was trained from"
        )
    return config


def architectures_of(config: Mapping[str, Any]) -> str:
    """The names of the model classes in a configuration; "" where it names none."""
    named = config.get("architectures")
    return ", ".join(map(str, named)) if isinstance(named, list) else ""


def parse_config(folder: Path) -> dict[str, Any]:
    """The `config.json` of a folder, whatever it holds; `DataError` if there is none that can be read."""
    path = folder / "config.json"
    if not path.is_file():
        raise DataError(
            "no config.json in it", path=folder, hint="name the folder that save_pretrained or a hub download made"
        )
    try:
        return dict(parse(read_text(path)))
    except WireError as error:
        raise DataError(error.message, path=path) from None
