"""The network of a classifier: a language model with tuned weights, and how it scores parts of cases.

The score of a part is a margin, in training and in use: the log-likelihood of the label for an error minus that of the
other one (its logistic function is the softmax over the two, Chang et al. 2024, §3.3), or what a linear head gives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from veridical.core.errors import InputError
from veridical.detectors.classifier.artifact import ClassifierSettings
from veridical.detectors.classifier.presentation import Encoded, Part, encode_part
from veridical.models.cached_forward import CachedForward, read_prompts
from veridical.models.load import LocalModel
from veridical.models.tuning import (
    last_logits,
    own_copy,
    rectangle,
    set_tuned_weights,
    tuned_weights,
    virtual_tokens,
    with_lora,
    with_soft_prompt,
)

if TYPE_CHECKING:
    import torch

__all__ = ["ClassifierNetwork", "label_tokens"]

Ids = tuple[int, ...]
_BATCH_TOKENS = {"cpu": 4096}  # of a pass, padding included; elsewhere `_MORE_TOKENS`
_MORE_TOKENS = 32768


def label_tokens(model: LocalModel, labels: tuple[str, str]) -> tuple[Ids, Ids]:
    """The token ids of both labels; `InputError` where the tokenizer has none of its own for one."""
    tokenizer = model.tokenizer
    both = tuple(tuple(tokenizer(label, add_special_tokens=False)["input_ids"]) for label in labels)
    for label, ids in zip(labels, both, strict=True):
        if not ids or tokenizer.unk_token_id in ids:
            raise InputError(
                f"{model.name} has no tokens for the label {label!r}", hint="choose other labels, such as yes,no"
            )
    if both[0] == both[1]:
        raise InputError(f"{model.name} reads {labels[0]!r} and {labels[1]!r} as the same tokens", hint="other labels")
    return both  # type: ignore[return-value]


class ClassifierNetwork:
    """A model with its tuned weights.

    Args:
        model: The model that is tuned. It stays as it is: weights that change are copied first.
        settings: What is tuned.
        seed: Of the tuned weights as they begin.

    Attributes:
        model: The model with the tuned weights.
        max_tokens: The most tokens of a part.

    Raises:
        InputError: A decoder is needed and the model is none, or has no tokens for the labels.
        MissingExtraError: Without `peft`, for a soft prompt and LoRA.
    """

    def __init__(self, model: LocalModel, settings: ClassifierSettings, seed: int = 0) -> None:
        import torch

        self.settings = settings
        self.base, self.model = model, model
        room = model.max_positions
        self.labels: tuple[Ids, Ids] = ((), ())
        if settings.answers:
            if model.kind != "causal":
                raise InputError(f"{model.name} is no decoder and answers nothing", hint="method head or full")
            self.labels = label_tokens(model, settings.labels)
            room -= settings.virtual_tokens + max(map(len, self.labels))
        self.max_tokens = min(settings.max_tokens or room, room)
        if settings.method == "prompt":
            self._tuned: Any = with_soft_prompt(model, settings.virtual_tokens, seed)
        elif settings.method == "lora":
            self.model = own_copy(model)
            self._tuned = with_lora(self.model, settings.rank, seed)
        else:
            if settings.method == "full":
                self.model = own_copy(model)
                self.model.model.requires_grad_(True)
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                width = int(model.model.config.get_text_config().hidden_size)
                self._head = torch.nn.Linear(width, 1).to(model.device)
        self.known_states: dict[Ids, torch.Tensor] | None = None

    @property
    def weights(self) -> dict[str, torch.Tensor]:
        """The tuned weights by name; not copied."""
        if self.settings.answers:
            return tuned_weights(self._tuned)
        weights = {f"head.{name}": weight for name, weight in self._head.state_dict().items()}
        if self.settings.method == "full":
            weights |= {f"model.{name}": weight for name, weight in self.model.model.state_dict().items()}
        return weights

    def set_weights(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Set all tuned weights; `InputError` where names or shapes differ."""
        own = self.weights
        if {name: w.shape for name, w in own.items()} != {name: w.shape for name, w in weights.items()}:
            raise InputError("the weights are not those of this classifier", hint="train the classifier again")
        if self.settings.answers:
            set_tuned_weights(self._tuned, weights)
            return
        for name, weight in own.items():
            weight.copy_(weights[name])

    @property
    def parameters(self) -> list[torch.nn.Parameter]:
        """What is trained."""
        if self.settings.answers:
            return [p for p in self._tuned.parameters() if p.requires_grad]
        own = self.model.model.parameters() if self.settings.method == "full" else ()
        return [*self._head.parameters(), *own]

    def encode(self, part: Part) -> Encoded | str:
        """The tokens of a part, or why it cannot be judged."""
        encoded = encode_part(self.model, part, self.settings.task, answers=self.settings.answers)
        if len(encoded.ids) > self.max_tokens:
            return f"it takes {len(encoded.ids)} tokens, and {self.max_tokens} can be read"
        return encoded

    def margins(self, batch: Sequence[Encoded]) -> torch.Tensor:
        """The margin of each part, differentiable. *Shape:* (parts,)"""
        if not self.settings.answers:
            pooled: torch.Tensor = self._head(self._pooled(batch))[:, 0]
            return pooled
        longest = [c for c in self._contexts if not any(o[: len(c)] == c and o != c for o in self._contexts)]
        rows = [(*part.ids, *context) for part in batch for context in longest]
        with self._virtual() as virtual:
            count = max(map(len, longest)) + 1
            logits = last_logits(self.model, [(*virtual, *row) for row in rows], count)
        table = logits.log_softmax(-1).unflatten(0, (len(batch), len(longest)))
        return self._margin(
            lambda context, token: next(
                table[:, at, count - 1 - len(long) + len(context), token]
                for at, long in enumerate(longest)
                if long[: len(context)] == context
            )
        )

    def scores(self, parts: Sequence[Encoded]) -> NDArray[np.float64]:
        """The margin of each part, computed in batches; what parts begin with in common is read once."""
        import torch

        if not self.settings.answers:
            order = sorted(range(len(parts)), key=lambda i: len(parts[i].ids))
            margins = np.zeros(len(parts))
            with torch.inference_mode():
                for chosen in self._batches([len(parts[i].ids) for i in order]):
                    indices = [order[i] for i in chosen]
                    margins[indices] = self.margins([parts[i] for i in indices]).double().cpu().numpy()
            return margins
        rows = [(part.ids, i, context) for i, part in enumerate(parts) for context in self._contexts]
        rows.sort(key=lambda row: row[0] + row[2])  # those that begin alike are neighbours
        wanted = sorted(set(self.labels[0] + self.labels[1]))
        logprobs = {context: np.zeros((len(parts), len(wanted)), np.float32) for context in self._contexts}
        with self._virtual() as virtual:
            for chosen in self._batches([len(virtual) + len(ids) + len(context) for ids, _, context in rows]):
                prompts = [(*virtual, *rows[i][0], *rows[i][2]) for i in chosen]
                logits, _ = read_prompts(CachedForward(self.model), prompts)
                values = logits.log_softmax(-1)[:, wanted].cpu().numpy()
                for i, of_row in zip(chosen, values, strict=True):
                    logprobs[rows[i][2]][rows[i][1]] = of_row
        result: NDArray[np.float64] = np.asarray(
            self._margin(lambda context, token: logprobs[context][:, wanted.index(token)]), np.float64
        )
        return result

    @property
    def _contexts(self) -> list[Ids]:
        """What a label has been begun with where one of its tokens is predicted; () is its first one."""
        return sorted({label[:n] for label in self.labels for n in range(len(label))})

    def _margin(self, logprob: Any) -> Any:
        """What (context, next token) -> log-probability makes of the labels: that of an error minus the other."""
        fine, error = (sum(logprob(label[:n], label[n]) for n in range(len(label))) for label in self.labels)
        return error - fine

    def _virtual(self) -> AbstractContextManager[Sequence[int]]:
        if self.settings.method != "prompt":
            return nullcontext(())
        (vectors,) = self.parameters
        return virtual_tokens(self.model, vectors)

    def _pooled(self, batch: Sequence[Encoded]) -> torch.Tensor:
        """The state of each part: a decoder's last token, the mean of an encoder's tokens. *Shape:* (parts, width)"""
        import torch

        known = {} if self.known_states is None else self.known_states
        missing = [part for part in batch if part.ids not in known]
        if missing:
            ids, mask = rectangle(self.model, [part.ids for part in missing])
            options: dict[str, Any] = {"attention_mask": mask}
            if self.model.kind == "encoder":
                if "token_type_ids" in signature(self.model.model.forward).parameters:
                    options["token_type_ids"] = rectangle(self.model, [part.types for part in missing])[0]
            else:
                options |= {"use_cache": False, "position_ids": (mask.cumsum(-1) - 1).clamp(min=0)}
            with torch.set_grad_enabled(self.settings.method == "full" and torch.is_grad_enabled()):
                states = self.model.model.base_model(input_ids=ids, **options).last_hidden_state.float()
                if self.model.kind == "encoder":
                    weights = mask[..., None] / mask.sum(-1)[:, None, None]
                    pooled = (states * weights).sum(1)
                else:
                    pooled = states[:, -1]
            known = known | dict(zip((part.ids for part in missing), pooled, strict=True))
            if self.known_states is not None:
                self.known_states = known
        return torch.stack([known[part.ids] for part in batch])

    def _batches(self, lengths: Sequence[int]) -> list[list[int]]:
        """Neighbouring rows, as many as fit into a pass with padding."""
        most = _BATCH_TOKENS.get(self.model.device.type, _MORE_TOKENS)
        batches: list[list[int]] = []
        longest = 0
        for i, length in enumerate(lengths):
            longest = max(longest, length)
            if not batches or longest * (len(batches[-1]) + 1) > most:
                batches.append([])
                longest = length
            batches[-1].append(i)
        return batches
