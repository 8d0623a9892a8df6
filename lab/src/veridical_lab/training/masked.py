"""Train masked language models on plain text: an encoder and its language-model head (Devlin et al. 2019, §3.1).

An encoder without a head, such as a sentence encoder, gets a new one, tied to its embeddings. All randomness depends
only on the seed and the step, so an interrupted training resumes with identical results.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from veridical.core.detector import digest_of
from veridical.core.errors import InputError, OutputError
from veridical.core.files import write_whole
from veridical.models.artifact import base_of, versions
from veridical.models.encode import special_tokens, tokenize_texts
from veridical.models.load import LocalModel, quiet, unload
from veridical_lab.models.filling import head_rows
from veridical_lab.training.checkpoint import CHECKPOINT
from veridical_lab.training.token_network import eager_attention, set_dropout
from veridical_lab.training.tuning import Schedule, Tuning

if TYPE_CHECKING:
    import torch

__all__ = ["MaskedTraining", "train_masked", "with_masked_head"]

_TOKENISED = 256  # texts tokenised at once
_VALIDATION_TEXTS = 200  # the most texts to validate on


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskedTraining:
    """Options for training a masked language model.

    Attributes:
        share: The share of tokens to predict. Of these, 80 % are masked, 10 % replaced by another, 10 % unchanged.
        max_tokens: The length of a window, special tokens included; a window never spans two texts.
        batch_tokens: Tokens per step, padding included.
        epochs: Passes over the training part.
        max_steps: The most steps; None: no limit but `epochs`.
        learning_rate: The encoder's peak rate, reached after the share `warmup` of all steps; it then falls to 0.
        head_learning_rate: The head's peak rate.
        weight_decay: Weight decay of all weight matrices.
        frozen: Whether the encoder (and its embeddings, to which the head is tied) keeps its weights.
        dropout: Of hidden states and attention in training.
        validation: The share of the texts to validate on (200 at most, one at least).
        evaluations: The number of evaluations on the validation part.
        seed: Random seed of the new head, the order, the masked tokens and dropout.
    """

    share: float = 0.15
    max_tokens: int = 128
    batch_tokens: int = 4096
    epochs: int = 1
    max_steps: int | None = None
    learning_rate: float = 2e-4
    head_learning_rate: float = 1e-3
    weight_decay: float = 0.01
    warmup: float = 0.06
    frozen: bool = False
    dropout: float = 0.0
    validation: float = 0.02
    evaluations: int = 4
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.epochs, self.evaluations, self.batch_tokens, self.max_steps or 1) < 1 or self.max_tokens < 8:
            raise InputError(f"these options cannot be trained with: {self}", hint="counts of at least 1, windows of 8")
        if not 0.0 < self.share < 1.0 or not 0.0 < self.validation < 1.0 or not 0.0 <= self.warmup < 1.0:
            raise InputError("the shares to mask and to validate on lie in (0, 1), the warm-up in [0, 1)")
        if min(self.learning_rate, self.head_learning_rate) <= 0:
            raise InputError("the learning rates are not positive")


def with_masked_head(model: LocalModel, *, seed: int = 0) -> LocalModel:
    """Return the encoder `model` with a new language-model head, whose output matrix is its embedding matrix.

    Raises:
        InputError: For an architecture without such a head, or a tokenizer without a mask.
    """
    import torch
    import transformers
    from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

    if model.tokenizer.mask_token_id is None:
        raise InputError(f"the tokenizer of {model.name} has no mask", hint="take the encoder's own tokenizer")
    if model.model_type not in MODEL_FOR_MASKED_LM_MAPPING_NAMES:
        raise InputError(f"{model.name} ({model.model_type}) has no masked form", hint="an encoder is needed")
    with torch.random.fork_rng(devices=[]), quiet():
        torch.manual_seed(seed)
        network = transformers.AutoModelForMaskedLM.from_config(model.model.config)
    lacking = network.base_model.load_state_dict(model.model.state_dict(), strict=False).missing_keys
    if lacking:
        raise InputError(f"{model.name} lacks {len(lacking)} tensors, such as {lacking[0]}", hint="another encoder")
    network.tie_weights()
    network.to(model.device).requires_grad_(False).train(False)
    return replace(model, model=network, kind="masked")


def train_masked(
    model: LocalModel,
    texts: Iterable[str],
    options: MaskedTraining | None = None,
    *,
    out: str | Path,
    **running: Any,
) -> Path:
    """Train a masked language model and write it to the folder `out`, in Hugging Face format.

    If `out` holds a checkpoint of the same training, training resumes from it. The weights with the lowest loss on
    validation texts are kept. `training.json` records the options, and the loss and accuracy of each evaluation.

    Args:
        model: An encoder, which gets a new head, or a masked language model, which training changes.
        texts: Plain texts, read as a stream; their tokens are kept in memory.
        options: How to train.
        out: The folder to write.
        **running: `checkpoint_minutes`, `stop` (asked after each step; if true, training saves a checkpoint and ends)
            and `progress` (called with lines of text that report progress).

    Raises:
        InputError: If there is nothing to train on, or `out` holds a checkpoint of another training.
        TrainingStopped: If `stop` returned true.
    """
    progress: Callable[[str], None] = running.pop("progress", lambda line: None)
    training = _Training(model, texts, options or MaskedTraining(), Path(out), progress)
    with eager_attention(training.model, training.options.max_tokens):
        training.run(**running)
        return training.finish()


class _Training(Tuning):
    """The windows and network of one training."""

    def __init__(
        self,
        model: LocalModel,
        texts: Iterable[str],
        options: MaskedTraining,
        out: Path,
        progress: Callable[[str], None],
    ) -> None:
        import torch

        self.options, self.progress = options, progress
        if model.kind == "masked":
            unload(model)  # a later load must not get the changed weights
        self.base = base_of(model)
        self.model = model if model.kind == "masked" else with_masked_head(model, seed=options.seed)
        set_dropout(self.model, options.dropout)
        self._read(texts)
        network = self.model.model
        network.requires_grad_(True)
        if options.frozen:
            network.base_model.requires_grad_(False)
        encoder = {id(parameter) for parameter in network.base_model.parameters()}
        groups = [
            {"params": [p for p in network.parameters() if id(p) not in encoder], "lr": options.head_learning_rate},
            {"params": [p for p in network.base_model.parameters() if p.requires_grad], "lr": options.learning_rate},
        ]
        groups = [group for group in groups if group["params"]]
        optimiser = torch.optim.AdamW(groups, weight_decay=options.weight_decay, fused=True)
        steps = min(self.per_epoch * options.epochs, options.max_steps or self.per_epoch * options.epochs)
        schedule = Schedule(
            steps=steps,
            warmup=round(options.warmup * steps),
            evaluate_every=max(1, steps // options.evaluations),
            patience=steps,
            seed=options.seed,
        )
        super().__init__(schedule, optimiser, out, progress)

    def _read(self, texts: Iterable[str]) -> None:
        """Tokenise the texts and cut them into windows to train and to validate on."""
        around = special_tokens(self.model)
        room = min(self.options.max_tokens, self.model.max_positions) - len(around.before) - len(around.after)
        interval = max(2, round(1 / self.options.validation))
        self.train: list[NDArray[np.int32]] = []
        self.valid: list[NDArray[np.int32]] = []
        hashed, number = hashlib.sha256(), 0
        batch: list[str] = []

        def cut() -> None:
            nonlocal number
            for tokens in tokenize_texts(self.model.tokenizer, batch):
                hashed.update(np.array(tokens.ids, np.int32).tobytes() + b"\n")
                held_out = number % interval == 0 and number // interval < _VALIDATION_TEXTS
                number += 1
                for start in range(0, len(tokens.ids), room):
                    ids = (*around.before, *tokens.ids[start : start + room], *around.after)
                    (self.valid if held_out else self.train).append(np.array(ids, np.int32))
            batch.clear()

        for text in texts:
            batch.append(text)
            if len(batch) == _TOKENISED:
                cut()
        cut()
        if not self.train or not self.valid:
            raise InputError(f"{number} texts are too few to train and to validate on", hint="two texts or more")
        self.texts, self.data_hash = number, hashed.hexdigest()
        longest = max(map(len, self.train))
        self.rows = max(1, self.options.batch_tokens // longest)
        self.per_epoch = -(-len(self.train) // self.rows)
        self.progress(f"{number} texts: {len(self.train)} windows to train on, {len(self.valid)} to validate on")

    def _masked(
        self, windows: Sequence[NDArray[np.int32]], rng: np.random.Generator
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Mask some tokens of a batch; return ids, attention mask, predicted positions and their original ids."""
        import torch

        tokenizer, device = self.model.tokenizer, self.model.device
        pad = tokenizer.pad_token_id or 0
        width = max(map(len, windows))
        ids = np.full((len(windows), width), pad, np.int64)
        mask = np.zeros_like(ids)
        for row, window in enumerate(windows):
            ids[row, : len(window)] = window
            mask[row, : len(window)] = 1
        ordinary = (mask == 1) & ~np.isin(ids, tokenizer.all_special_ids)
        chosen = ordinary & (rng.random(ids.shape) < self.options.share)
        if not chosen.any():
            chosen.flat[int(np.flatnonzero(ordinary)[0]) if ordinary.any() else 0] = True
        rows = np.flatnonzero(chosen)
        targets = ids.flat[rows].copy()
        how = rng.random(len(rows))
        ids.flat[rows[how < 0.8]] = tokenizer.mask_token_id
        other = rows[(how >= 0.8) & (how < 0.9)]
        ids.flat[other] = rng.integers(0, self.base.vocabulary, len(other))
        return tuple(torch.from_numpy(a).to(device) for a in (ids, mask, rows, targets))  # type: ignore[return-value]

    def _logits(self, windows: Sequence[NDArray[np.int32]], rng: np.random.Generator) -> tuple[torch.Tensor, ...]:
        """Return the logits of the predicted tokens of a batch, *shape* (predicted, vocabulary), and these tokens."""
        ids, mask, rows, targets = self._masked(windows, rng)
        with head_rows(self.model, rows):
            return self.model.model(input_ids=ids, attention_mask=mask).logits.float(), targets

    def loss(self, step: int) -> tuple[torch.Tensor, int]:
        """Return the mean cross-entropy of the predicted tokens of a batch, and its number of tokens."""
        from torch.nn.functional import cross_entropy

        epoch, batch_i = divmod(step, self.per_epoch)
        order = np.random.default_rng((self.options.seed, epoch)).permutation(len(self.train))
        windows = [self.train[i] for i in order[batch_i * self.rows : (batch_i + 1) * self.rows].tolist()]
        self.model.model.train(not self.options.frozen)
        logits, targets = self._logits(windows, np.random.default_rng((self.options.seed, 1, step)))
        return cross_entropy(logits, targets), sum(map(len, windows))

    def figures(self) -> tuple[dict[str, float], str]:
        """Return loss and accuracy on the masked tokens of the validation part; the same tokens every time."""
        import torch
        from torch.nn.functional import cross_entropy

        self.model.model.train(False)
        total, right, count = 0.0, 0, 0
        with torch.inference_mode():
            for start in range(0, len(self.valid), self.rows):
                logits, targets = self._logits(self.valid[start : start + self.rows], np.random.default_rng((0, start)))
                total += float(cross_entropy(logits, targets, reduction="sum"))
                right += int((logits.argmax(-1) == targets).sum())
                count += len(targets)
        loss, accuracy = total / count, right / count
        return (
            {"figure": -loss, "loss": loss, "accuracy": accuracy, "tokens": count},
            f"validation loss {loss:.4f}, {accuracy:.1%} of tokens right",
        )

    @property
    def identity(self) -> str:
        """A digest of everything that two runs must share to use the same checkpoint."""
        return digest_of([asdict(self.options), self.data_hash, asdict(replace(self.base, name=""))])

    @property
    def weights(self) -> dict[str, torch.Tensor]:
        """All weights of the network."""
        weights: dict[str, torch.Tensor] = self.model.model.state_dict()
        return weights

    def set_weights(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Set the weights of the network."""
        self.model.model.load_state_dict(weights)

    def finish(self) -> Path:
        """Write the model to `out`; the configuration comes last, because nothing reads a folder without it."""
        self.model.model.requires_grad_(False).train(False)
        part = self.out / "written"
        try:
            part.mkdir(parents=True, exist_ok=True)
            with quiet():
                self.model.model.save_pretrained(part)
            self.model.tokenizer.save_pretrained(part)
            document = {
                "base": asdict(self.base),
                "options": asdict(self.options),
                "data": self.data_hash,
                "texts": self.texts,
                "windows": {"train": len(self.train), "valid": len(self.valid)},
                "steps": self.reached.step,
                "validation": self.reached.history,
                "versions": versions(),
            }
            write_whole(self.out / "training.json", json.dumps(document, indent=1) + "\n")
            for file in sorted(part.iterdir(), key=lambda path: path.name == "config.json"):
                os.replace(file, self.out / file.name)
            part.rmdir()
            shutil.rmtree(self.out / CHECKPOINT, ignore_errors=True)
        except OSError as error:
            raise OutputError(
                f"cannot write {self.out}: {error.strerror or error}", hint="choose another place"
            ) from None
        return self.out
