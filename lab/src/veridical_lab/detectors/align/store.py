"""Storage of encoded texts: a folder of memory-mapped files, one per text, and the latest ones in memory.

A file's name is a hash of the text, the model's weights and configuration, the layers, the window and the precision, so
encoders can share a folder. Files are written whole or not at all, and checked against their own hash when read.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

from veridical.core.errors import DataError, OutputError
from veridical.core.files import replacing
from veridical_lab.detectors.align.encoding import TextStates

__all__ = ["EmbeddingStore", "RecentTexts"]

FORMAT = "align/1"
T = TypeVar("T")


class EmbeddingStore:
    """The states of texts in a folder.

    Args:
        folder: The folder of the files; writing the first file makes it.
        encoder: Everything else that the states depend on, as JSON values: model, layers, window, precision.
    """

    def __init__(self, folder: str | Path, encoder: Mapping[str, Any]) -> None:
        self.folder = Path(folder)
        self.encoder = json.dumps(dict(encoder), sort_keys=True)
        if self.folder.exists() and not self.folder.is_dir():
            raise DataError("a file, where a folder is expected", path=self.folder, hint="name a folder for the store")

    def path(self, text: str) -> Path:
        """Return the path of the file for `text`, whether or not it exists."""
        digest = hashlib.sha256(f"{self.encoder}\0".encode() + text.encode("utf-8", "surrogatepass"))
        return self.folder / f"{digest.hexdigest()[:40]}.safetensors"

    def read(self, text: str) -> TextStates | None:
        """Read the states of `text`, memory-mapped; None if they are not stored.

        Raise `DataError` for a file that is damaged, or of another encoder or text.
        """
        from safetensors import SafetensorError, safe_open

        path = self.path(text)
        if not path.is_file():
            return None
        hint = "delete the file; it is written again"
        try:
            with safe_open(path, framework="pt") as file:
                about = file.metadata() or {}
                names = set(file.keys())
                tensors = {name: file.get_tensor(name) for name in names}
        except (SafetensorError, OSError) as error:
            raise DataError(f"damaged: {error}", path=path, hint=hint) from None
        if about.get("format") != FORMAT or names != {"states", "offsets", "ids"}:
            raise DataError(f"not stored embeddings of the format {FORMAT}", path=path, hint=hint)
        if about.get("encoder") != self.encoder or about.get("text") != text_digest(text):
            raise DataError("the embeddings of another encoder or text under this name", path=path, hint=hint)
        if about.get("content") != content_digest(tensors):
            raise DataError("damaged: its content is not what was written", path=path, hint=hint)
        return TextStates(tensors["states"], tensors["offsets"].numpy(), tensors["ids"].numpy())

    def write(self, text: str, states: TextStates) -> None:
        """Store the states of `text`; `OutputError` if the folder cannot be written."""
        import torch
        from safetensors.torch import save_file

        tensors = {
            "states": states.states.contiguous(),
            "offsets": torch.from_numpy(states.offsets),
            "ids": torch.from_numpy(states.ids),
        }
        about = {"format": FORMAT, "encoder": self.encoder, "text": text_digest(text)}
        about["content"] = content_digest(tensors)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with replacing(self.path(text)) as part:
                save_file(tensors, part, metadata=about)
        except OSError as error:
            raise OutputError(
                f"cannot write {self.folder}: {error.strerror or error}", hint="choose another folder for the store"
            ) from None


def text_digest(text: str) -> str:
    """Return the SHA-256 of a text, which may hold half of a surrogate pair."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def content_digest(tensors: Mapping[str, Any]) -> str:
    """Return the SHA-256 of tensors by name, whatever their order."""
    import torch

    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name}\0{tensor.dtype}\0{list(tensor.shape)}\0".encode())
        digest.update(memoryview(tensor.contiguous().reshape(-1).view(torch.uint8).numpy()))
    return digest.hexdigest()


class RecentTexts(Generic[T]):
    """A cache of values by text, limited to a number of bytes; it drops the least recently used first."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.size = 0
        self._kept: OrderedDict[str, tuple[T, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, text: str) -> T | None:
        """Return the value of `text`, or None."""
        if text not in self._kept:
            return None
        self._kept.move_to_end(text)
        return self._kept[text][0]

    def put(self, text: str, value: T, size: int) -> None:
        """Keep `value`, of `size` bytes, unless it is larger than the limit."""
        if size > self.limit or text in self._kept:
            return
        self._kept[text] = (value, size)
        self.size += size
        while self.size > self.limit:
            _, (_, dropped) = self._kept.popitem(last=False)
            self.size -= dropped
