"""Score parts of cases with a language model that has tuned weights.

In training and in judging, the score of a part is a margin. With a tuned prompt or LoRA, the margin is the
log-likelihood of the label for an error minus that of the other label. The logistic function of this margin is the
softmax over the two labels (Chang et al. 2024, §3.3). With a head, the margin is the output of the head.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from veridical.inference.local_model import LocalModel
from veridical.models.cached_forward import CachedForward, read_prompts
from veridical.records.errors import InputError
from veridical_lab.detectors.classifier.artifact import ClassifierSettings
from veridical_lab.detectors.classifier.presentation import CasePart, EncodedPart, encode_reading
from veridical_lab.models.adapters import (
    last_logits,
    own_copy,
    set_tuned_weights,
    tuned_weights,
    virtual_tokens,
    with_lora,
    with_soft_prompt,
)
from veridical_lab.models.padding import rectangle

if TYPE_CHECKING:
    import torch

_Ids = tuple[int, ...]
_BATCH_TOKENS = {"cpu": 4096}  # per pass, padding included; other devices: `_MORE_TOKENS`
_MORE_TOKENS = 32768


def label_tokens(model: LocalModel, labels: tuple[str, str]) -> tuple[_Ids, _Ids]:
    """Return the token ids of both labels.

    Raises:
        InputError: The tokenizer has no tokens for a label, or the same tokens for both.
    """
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
    """A language model with tuned weights.

    Args:
        model: The model to tune. It is not changed, because weights are copied before they are tuned.
        settings: The settings of the classifier.
        seed: The random seed of the initial tuned weights.

    Attributes:
        model: The model with the tuned weights.
        max_tokens: A part may have at most this many tokens.

    Raises:
        InputError: The method needs a decoder and the model is none, or the model has no tokens for the labels.
        MissingExtraError: `peft` is not installed. A soft prompt and LoRA need it.
    """

    def __init__(self, model: LocalModel, settings: ClassifierSettings, seed: int = 0) -> None:
        import torch

        self.settings = settings
        self.base, self.model = model, model
        room = model.max_positions
        self.labels: tuple[_Ids, _Ids] = ((), ())
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
                self._head = torch.nn.Linear(4 * width if self._apart else width, 1).to(model.device)
        self.known_states: dict[_Ids, torch.Tensor] | None = None

    @property
    def weights(self) -> dict[str, torch.Tensor]:
        """The tuned weights by name. They are not copied."""
        if self.settings.answers:
            return tuned_weights(self._tuned)
        weights = {f"head.{name}": weight for name, weight in self._head.state_dict().items()}
        if self.settings.method == "full":
            weights |= {f"model.{name}": weight for name, weight in self.model.model.state_dict().items()}
        return weights

    def set_weights(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Set all tuned weights.

        Raises:
            InputError: Names or shapes differ.
        """
        current = self.weights
        if {name: w.shape for name, w in current.items()} != {name: w.shape for name, w in weights.items()}:
            raise InputError("the weights are not those of this classifier", hint="train the classifier again")
        if self.settings.answers:
            set_tuned_weights(self._tuned, weights)
            return
        for name, weight in current.items():
            weight.copy_(weights[name])

    @property
    def parameters(self) -> list[torch.nn.Parameter]:
        """The trained parameters."""
        if self.settings.answers:
            return [p for p in self._tuned.parameters() if p.requires_grad]
        of_model = self.model.model.parameters() if self.settings.method == "full" else ()
        return [*self._head.parameters(), *of_model]

    def encode(self, part: CasePart) -> tuple[EncodedPart, ...] | str:
        """Tokenise the readings of a part, or return why the part cannot be judged."""
        task, answers = self.settings.task, self.settings.answers
        encoded = tuple(
            encode_reading(self.model, reading, task, answers=answers, apart=self._apart) for reading in part.readings
        )
        longest = max(max(len(each.ids), len(each.other)) for each in encoded)
        if longest > self.max_tokens:
            return f"it takes {longest} tokens, and {self.max_tokens} can be read"
        return encoded

    def margins(self, batch: Sequence[EncodedPart]) -> torch.Tensor:
        """Compute the margin of each reading, so that it can be differentiated. *Shape:* (readings,)"""
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
                table[:, long_i, count - 1 - len(long) + len(context), token]
                for long_i, long in enumerate(longest)
                if long[: len(context)] == context
            )
        )

    def scores(self, parts: Sequence[Sequence[EncodedPart]]) -> NDArray[np.float64]:
        """Compute the margin of each part, which is the lowest margin of its readings.

        Repeated readings are computed only once.
        """
        return np.array([min(margins) for margins in self._scores_of_readings(parts)])

    def lowest(self, parts: Sequence[Sequence[EncodedPart]]) -> list[int]:
        """Find the reading with the lowest margin in each part, and return its index."""
        return [int(np.argmin(margins)) for margins in self._scores_of_readings(parts)]

    def _scores_of_readings(self, parts: Sequence[Sequence[EncodedPart]]) -> list[list[float]]:
        readings = list(dict.fromkeys(reading for part in parts for reading in part))
        margin_of = dict(zip(readings, self._scores(readings).tolist(), strict=True))
        return [[margin_of[reading] for reading in part] for part in parts]

    def _scores(self, readings: Sequence[EncodedPart]) -> NDArray[np.float64]:
        """Compute the margin of each reading in batches. A beginning that several readings share is read once."""
        import torch

        if not self.settings.answers:
            order = sorted(range(len(readings)), key=lambda i: len(readings[i].ids))
            margins = np.zeros(len(readings))
            with self._remembering(), torch.no_grad():  # not inference mode: training may reuse the kept states
                for chosen in self._batches([len(readings[i].ids) for i in order]):
                    indices = [order[i] for i in chosen]
                    margins[indices] = self.margins([readings[i] for i in indices]).double().cpu().numpy()
            return margins
        rows = [(each.ids, i, context) for i, each in enumerate(readings) for context in self._contexts]
        rows.sort(key=lambda row: row[0] + row[2])  # puts rows with a common beginning next to each other
        label_ids = sorted(set(self.labels[0] + self.labels[1]))
        logprobs = {context: np.zeros((len(readings), len(label_ids)), np.float32) for context in self._contexts}
        with self._virtual() as virtual:
            for chosen in self._batches([len(virtual) + len(ids) + len(context) for ids, _, context in rows]):
                prompts = [(*virtual, *rows[i][0], *rows[i][2]) for i in chosen]
                logits, _ = read_prompts(CachedForward(self.model), prompts)
                values = logits.log_softmax(-1)[:, label_ids].cpu().numpy()
                for i, of_row in zip(chosen, values, strict=True):
                    logprobs[rows[i][2]][rows[i][1]] = of_row
        result: NDArray[np.float64] = np.asarray(
            self._margin(lambda context, token: logprobs[context][:, label_ids.index(token)]), np.float64
        )
        return result

    @property
    def _contexts(self) -> list[_Ids]:
        """The beginnings of a label, each followed by a token to predict. () comes before the first token."""
        return sorted({label[:n] for label in self.labels for n in range(len(label))})

    def _margin(self, logprob: Any) -> Any:
        """Compute the log-likelihood of the error label minus that of the other label.

        `logprob` maps (context, next token) to log-probabilities.
        """
        fine, error = (sum(logprob(label[:n], label[n]) for n in range(len(label))) for label in self.labels)
        return error - fine

    def _virtual(self) -> AbstractContextManager[Sequence[int]]:
        if self.settings.method != "prompt":
            return nullcontext(())
        (vectors,) = self.parameters
        return virtual_tokens(self.model, vectors)

    @property
    def _apart(self) -> bool:
        """Whether the two texts of a part are read separately. A head on a frozen encoder does so."""
        return self.settings.method == "head" and self.model.kind == "encoder"

    @contextmanager
    def _remembering(self) -> Iterator[None]:
        """While the context lasts, keep the states of texts if the weights of the model are frozen."""
        before = self.known_states
        if before is None and self.settings.method == "head":
            self.known_states = {}
        try:
            yield
        finally:
            self.known_states = before

    def _pooled(self, batch: Sequence[EncodedPart]) -> torch.Tensor:
        """Compute the input of the head for each reading. *Shape:* (readings, width or 4 * width)

        This is the state at the last token of a decoder, or the mean over the tokens of an encoder. If two texts are
        read separately, both of their states are used (scaled to the same length), with their absolute difference and
        their product, element by element.
        """
        import torch

        texts = [(part.ids, part.types) for part in batch]
        texts += [(part.other, (0,) * len(part.other)) for part in batch if part.other]
        states_of = {} if self.known_states is None else self.known_states
        missing = list({ids: (ids, types) for ids, types in texts if ids not in states_of}.values())
        if missing:
            states_of |= dict(zip((ids for ids, _ in missing), self._states(missing), strict=True))
        states = torch.stack([states_of[part.ids] for part in batch])
        if not self._apart:
            return states
        scale = states.shape[1] ** 0.5
        one = torch.nn.functional.normalize(states) * scale
        two = torch.nn.functional.normalize(torch.stack([states_of[part.other] for part in batch])) * scale
        return torch.cat([one, two, (one - two).abs(), one * two], 1)

    def _states(self, texts: Sequence[tuple[_Ids, _Ids]]) -> torch.Tensor:
        """Compute one state for each text, given as (ids, types). *Shape:* (texts, width)"""
        import torch

        causal = self.model.kind == "causal"
        ids, mask = rectangle(self.model, [ids for ids, _ in texts], left=causal)
        options: dict[str, Any] = {"attention_mask": mask}
        if causal:
            options |= {"use_cache": False, "position_ids": (mask.cumsum(-1) - 1).clamp(min=0)}
        elif "token_type_ids" in signature(self.model.model.forward).parameters:
            options["token_type_ids"] = rectangle(self.model, [types for _, types in texts])[0]
        with torch.set_grad_enabled(self.settings.method == "full" and torch.is_grad_enabled()):
            states: torch.Tensor = self.model.model.base_model(input_ids=ids, **options).last_hidden_state.float()
            if causal:
                return states[:, -1]
            return (states * (mask[..., None] / mask.sum(-1)[:, None, None])).sum(1)

    def _batches(self, lengths: Sequence[int]) -> list[list[int]]:
        """Split rows into batches of neighbours. Each batch has as many rows as fit into a pass, padding included."""
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
