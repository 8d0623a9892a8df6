"""Use a local model with a soft prompt as a chat model that does only the task on which it was tuned.

A soft prompt is a few vectors that the model reads before the text. The chat model follows no instructions. `veridical
train generator` writes its folder, with `detector.json` and the vectors.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from veridical.inference.artifact import DETECTOR, load_artifact
from veridical.inference.local_model import LocalModel
from veridical.inference.tokenization import special_tokens
from veridical.llm.local import LocalChat
from veridical.llm.protocol import ChatModel, Request, model_fingerprint
from veridical.models.base_model import load_base
from veridical.records.errors import DataError
from veridical_lab.models.adapters import virtual_tokens

GENERATOR = "generator"
PROMPT = "prompt"  # the name of the vectors among the tensors


def task_tokens(model: LocalModel, task: str, virtual: range, prefill: str = "") -> list[int]:
    """Tokenise a task: the soft prompt, the start of a text, the task on its own line, and `prefill`."""
    ids = model.tokenizer(f"{task}\n{prefill}", add_special_tokens=False, split_special_tokens=True)["input_ids"]
    return [*virtual, *special_tokens(model).before, *ids]


def reads_bare_tasks(model: ChatModel) -> bool:
    """Return whether a chat model reads a task without any instructions."""
    return model_fingerprint(model).get("reads") == "task"


class TunedChat(LocalChat):
    """A chat model: the base model with the soft prompt in a folder.

    It reads only the last message of a request.

    Args:
        folder: The folder that `veridical train generator` wrote.
        device: As in `LocalChat`.
        dtype: As in `LocalChat`; "auto" is the precision at training.

    Raises:
        DataError: The folder is damaged.
    """

    def __init__(self, folder: str | Path, *, device: str = "auto", dtype: str = "auto") -> None:
        super().__init__(folder, device=device, dtype=dtype)
        self.artifact = load_artifact(self.folder, GENERATOR)
        vectors = self.artifact.tensors.get(PROMPT)
        if vectors is None or vectors.ndim != 2 or vectors.shape[1] != self.artifact.base.width:
            raise DataError("it has no vectors of the base model's width", path=self.folder / DETECTOR)
        self._vectors = vectors

    def fingerprint(self) -> dict[str, str]:
        """Return the fingerprint of a local model, with a mark that the model reads bare tasks."""
        return {**super().fingerprint(), "reads": "task"}

    def _load(self) -> LocalModel:
        return load_base(
            self.artifact.base,
            f"the generator in {self.folder}",
            device=self.device,
            dtype=None if self.dtype == "auto" else self.dtype,
            kinds=("causal",),
        )

    def _prompt(self, model: LocalModel, request: Request) -> list[int]:
        size = int(model.model.get_input_embeddings().num_embeddings)
        return task_tokens(model, request.messages[-1].content, range(size, size + len(self._vectors)), request.prefill)

    def _generating(self, model: LocalModel) -> AbstractContextManager[Any]:
        import torch

        return virtual_tokens(model, torch.from_numpy(self._vectors).to(model.device))
