"""Training of token and span classifiers: a backbone and a head on labelled units, or on labels of whole responses.

Liu et al. 2022, §4.2 and §5. Labels of tokens, of marked phrases and of whole responses train one model. Everything
random depends on the seed and the step alone, so that a training that was interrupted goes on as if it had not been.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from veridical.core.detector import digest_of
from veridical.core.errors import CannotJudgeError, InputError
from veridical.core.files import read_text, replacing, write_whole
from veridical.core.types import GOLD_THRESHOLD, Example
from veridical.datasets.split import FRACTIONS, content_hash, split_by_document
from veridical.detectors.tokens.artifact import TokenSettings, save_tokens
from veridical.detectors.tokens.lexical import FEATURES
from veridical.detectors.tokens.scoring import LabelledWindow, ScoredResponse, label_windows, score_cases, units_of
from veridical.metrics.tokens import unit_labels
from veridical.models.artifact import versions
from veridical.models.load import LocalModel, unload
from veridical.models.pair_network import HeadSettings, PairHead, PairRunner, row_length, torch_head
from veridical.models.pairs import PairEncoder, PairSettings
from veridical.training.token_evaluation import fit_scales, phrase_of, response_target, validation_figures

if TYPE_CHECKING:
    import torch

__all__ = ["TokenTraining", "TrainingStopped", "train_tokens"]

CHECKPOINT = "checkpoint"


class TrainingStopped(InputError):
    """Training ended before its last step because it was asked to; its checkpoint is kept."""


@dataclass(frozen=True, slots=True)
class TokenTraining:
    """How a token classifier is trained.

    Attributes:
        pairs: How cases are presented to the model.
        unit: "word" (its tokens pooled, Liu et al. 2022) or "token".
        pooling: "max" or "mean".
        hidden: Hidden units of the tanh layer; 0: a linear head; None: as many as the backbone is wide.
        mode: "offline" (the whole response is seen) or "online" (only what is left of a token).
        attention: "full", or "prefix": the prompt does not see the response, so that many responses to one prompt are
            trained on (and judged) in one pass over it.
        group: With "prefix" attention, how many responses to a prompt share a pass in training at most.
        dropout: Of hidden states and attention in training.
        lexical: Whether the head also gets what the sources have of each word (`detectors.tokens.lexical`).
        frozen: Whether the backbone stays as it is.
        learning_rate: The backbone's highest, reached after `warmup` of all steps, from where it falls to 0.
        head_learning_rate: The heads' highest.
        weight_decay: Of all weight matrices.
        epochs: The most passes over the training part.
        batch_tokens: Tokens of a step, padding included.
        evaluations: How often per epoch the validation part is judged.
        patience: After how many evaluations without a better one training ends.
        class_weights: Whether both classes of units get the same total weight.
        label_smoothing: How far a label is moved to the middle; 0 to below 1.
        response_weight: Weight of the loss on labels of whole responses, beside 1 for units.
        soft_labels: Whether scores of gold verdicts are targets as they are (distillation), instead of 0 or 1.
        per_set: The most training examples of each data set; None: all.
        validation_per_set: The most validation examples of each data set.
        criterion: What the thresholds optimise on validation (`calibration.thresholding.CRITERIA`).
        bf16: Whether matrix products are computed in bf16 (weights stay in fp32).
        seed: Of the split by document, the order, the initial head and dropout.
    """

    pairs: PairSettings = field(default_factory=PairSettings)
    unit: str = "word"
    pooling: str = "mean"
    hidden: int | None = None
    mode: str = "offline"
    attention: str = "full"
    group: int = 8
    dropout: float = 0.0
    lexical: bool = True
    frozen: bool = False
    learning_rate: float = 5e-5
    head_learning_rate: float = 1e-3
    weight_decay: float = 0.01
    warmup: float = 0.06
    epochs: int = 4
    batch_tokens: int = 4096
    evaluations: int = 1
    patience: int = 3
    class_weights: bool = False
    label_smoothing: float = 0.0
    response_weight: float = 0.3
    soft_labels: bool = False
    per_set: int | None = None
    validation_per_set: int = 400
    criterion: str = "balanced_accuracy"
    bf16: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.epochs, self.batch_tokens, self.evaluations, self.patience, self.validation_per_set) < 1:
            raise InputError(f"these options cannot be trained with: {self}", hint="counts of at least 1")
        if not 0.0 <= self.label_smoothing < 1.0 or not 0.0 <= self.warmup < 1.0:
            raise InputError("label_smoothing and warmup lie in [0, 1)")
        if min(self.learning_rate, self.head_learning_rate) <= 0:
            raise InputError("the learning rates are not positive")


@dataclass(frozen=True, slots=True, eq=False)
class _Item:
    """A window with the targets of its units (NaN: unknown) and of its response (NaN: unknown)."""

    labelled: LabelledWindow
    targets: NDArray[np.float32]
    response: float


def train_tokens(
    model: LocalModel,
    data: Mapping[str, Sequence[Example]],
    options: TokenTraining | None = None,
    *,
    out: str | Path,
    start_from: PairHead | None = None,
    validation: Mapping[str, Sequence[Example]] | None = None,
    checkpoint_minutes: float = 10.0,
    stop: Callable[[], bool] = lambda: False,
    progress: Callable[[str], None] = lambda line: None,
) -> Path:
    """Train a token classifier and write it to the folder `out`, which the detector `tokens` reads.

    Documents are split 70/10/20 (`datasets.split`); the test part is not looked at. A folder with a checkpoint of the
    same training goes on from there.

    Args:
        model: The backbone. It is changed unless it is frozen.
        data: The examples of each data set by its name.
        options: How to train.
        out: The folder to write.
        start_from: The head to begin with, of an earlier training; None: a random one.
        validation: The examples to validate on, by data set, beside which all of `data` are trained on; None: a tenth
            of the documents of each of `data`.
        checkpoint_minutes: How often what was reached is saved.
        stop: Asked after every step whether to save and end; `TrainingStopped` is raised then.
        progress: Called with a line of text now and then.

    Raises:
        InputError: If a part has no labelled case, the head to begin with has another form, or `out` holds a
            checkpoint of another training.
    """
    options = options or TokenTraining()
    out = Path(out)
    training = _Training(model, data, options, out, start_from, validation, progress)
    training.resume()
    saved = time.monotonic()
    for step in range(training.step, training.steps):
        training.take_step(step)
        if training.evaluation_due(step):
            training.evaluate()
            if training.without_gain >= options.patience:
                progress(f"no gain in {options.patience} evaluations: training ends at step {step + 1}")
                break
        if stop():
            training.save_checkpoint()
            raise TrainingStopped(f"stopped after step {step + 1} of {training.steps}", hint="the same command goes on")
        if time.monotonic() - saved > 60 * checkpoint_minutes:
            training.save_checkpoint()
            saved = time.monotonic()
    return training.finish()


class _Training:
    """One training: its data, network, optimiser, and what was reached."""

    def __init__(
        self,
        model: LocalModel,
        data: Mapping[str, Sequence[Example]],
        options: TokenTraining,
        out: Path,
        start_from: PairHead | None,
        validation: Mapping[str, Sequence[Example]] | None,
        progress: Callable[[str], None],
    ) -> None:
        import torch

        self.options, self.out, self.progress, self.model = options, out, progress, model
        relevant = replace(options.pairs, evidence="relevant")
        self.encoder, self.evaluating = PairEncoder(model, relevant), PairEncoder(model, options.pairs)
        self.lexical = options.lexical and options.pairs.sources
        self.runner = PairRunner(model, options.mode, options.attention)
        width = int(model.model.config.get_text_config().hidden_size)
        hidden = width if options.hidden is None else options.hidden
        features = len(FEATURES) if self.lexical else 0
        self.head_settings = HeadSettings(options.unit, options.pooling, hidden, features)  # type: ignore[arg-type]
        self.sets, self.fractions = list(data), dict(FRACTIONS) if validation is None else None
        everything = [*data.values(), *(validation or {}).values()]
        self.data_hash = content_hash(example for examples in everything for example in examples)
        self._split(data, validation)
        self.class_weights = 1.0, 1.0
        if options.class_weights:
            targets = np.concatenate([item.targets for item in self.items])
            share = float(np.mean(targets[np.isfinite(targets)] >= GOLD_THRESHOLD))
            self.class_weights = 0.5 / max(share, 1e-3), 0.5 / max(1 - share, 1e-3)
        if not options.frozen:
            unload(model)  # nobody else who loads it is to get the changed weights
        model.model.requires_grad_(not options.frozen)
        set_dropout(model, options.dropout)
        self.head = torch_head(width, self.head_settings, options.seed).to(model.device)
        if start_from is not None:
            if start_from.settings != self.head_settings:
                raise InputError(
                    f"the head to begin with is {start_from.settings}, this one {self.head_settings}",
                    hint="train with the same unit, pooling, hidden units and features",
                )
            self.head.load_state_dict({name: torch.from_numpy(t.copy()) for name, t in start_from.tensors.items()})
        groups = [
            {"params": list(self.head.parameters()), "lr": options.head_learning_rate},
            {"params": [p for p in model.model.parameters() if p.requires_grad], "lr": options.learning_rate},
        ]
        self.parameters = [p for group in groups for p in group["params"]]  # type: ignore[attr-defined]
        self.optimiser = torch.optim.AdamW([g for g in groups if g["params"]], weight_decay=options.weight_decay)
        self.highest = [group["lr"] for group in self.optimiser.param_groups]
        self.per_epoch = len(self._epoch(0))
        self.steps = self.per_epoch * options.epochs
        self.step = self.without_gain = 0
        self.best: float | None = None
        self.best_state: dict[str, torch.Tensor] = {}
        self.history: list[dict[str, Any]] = []
        self._epoch_at: tuple[int, list[list[list[int]]]] = (-1, [])
        self._since = (time.monotonic(), 0, 0.0)

    def _split(self, data: Mapping[str, Sequence[Example]], validation: Mapping[str, Sequence[Example]] | None) -> None:
        """The items to train on, and the examples to validate on by data set."""
        self.items: list[_Item] = []
        self.validation: dict[str, list[Example]] = {}
        self.examples = {"train": 0, "valid": 0}
        rng = np.random.default_rng(self.options.seed)
        for name in dict.fromkeys((*data, *(validation or ()))):
            if validation is None:
                parts = split_by_document(data[name], seed=self.options.seed)
            else:
                parts = {"train": list(data.get(name, ())), "valid": list(validation.get(name, ()))}
            train, valid = (
                [part[i] for i in np.sort(rng.permutation(len(part))[:most]).tolist()]
                for part, most in (
                    (parts["train"], self.options.per_set),
                    (parts["valid"], self.options.validation_per_set),
                )
            )
            items = list(self._items(train))
            known = sum(bool(np.isfinite(item.targets).any()) for item in items)
            self.progress(
                f"{name}: {len(train)} examples to train on ({len(items)} windows, {known} with labelled words), "
                f"{len(valid)} to validate on"
            )
            self.items += items
            if valid:
                self.validation[name] = valid
            self.examples["train"] += len(train)
            self.examples["valid"] += len(valid)
        if not self.items or not self.validation:
            raise InputError(
                "there is nothing to train or to validate on", hint="give data with labels, of ten documents or more"
            )

    def _items(self, examples: Sequence[Example]) -> Iterator[_Item]:
        group = self.options.group if self.runner.shares_prompts else 1
        encodings = self.encoder.encode([example.case for example in examples], group=group)
        for example, encoding in zip(examples, encodings, strict=True):
            if isinstance(encoding, CannotJudgeError):
                continue
            units = phrase_of(example) or units_of(example.case.response, encoding.spans, self.options.unit)
            targets, known = unit_labels(example, units, soft=self.options.soft_labels)
            targets = np.where(known, targets, np.nan)
            response = response_target(example)
            for labelled in label_windows(example.case, encoding, units, self.lexical):
                inside = targets[labelled.units].astype(np.float32)
                # of a response read in parts, a part is only known to be wrong where its words say so
                whole = response
                if len(encoding.windows) > 1 and response > 0:
                    whole = float(inside.max()) if len(inside) and np.isfinite(inside).all() else np.nan
                if np.isfinite(inside).any() or np.isfinite(whole):
                    yield _Item(labelled, inside, whole)

    def _epoch(self, number: int) -> list[list[list[int]]]:
        """The batches of an epoch, each of rows of items: of similar length, in random order."""
        rng = np.random.default_rng((self.options.seed, number))
        rows = self.runner.rows([item.labelled.window for item in self.items])
        lengths = np.array([row_length([self.items[i].labelled.window for i in row]) for row in rows])
        order = rng.permutation(len(rows))
        order = order[np.argsort(lengths[order] // 16 + rng.random(len(order)) * 4, kind="stable")]
        batches: list[list[list[int]]] = [[]]
        longest = 0
        for at in order.tolist():
            longest = max(longest, int(lengths[at]))
            if batches[-1] and longest * (len(batches[-1]) + 1) > self.options.batch_tokens:
                batches.append([])
                longest = int(lengths[at])
            batches[-1].append(rows[at])
        return [batches[i] for i in rng.permutation(len(batches)).tolist()]

    def take_step(self, step: int) -> None:
        """Take one optimiser step."""
        import torch

        epoch, at = divmod(step, self.per_epoch)
        if self._epoch_at[0] != epoch:
            self._epoch_at = epoch, self._epoch(epoch)
        batches = self._epoch_at[1]
        rows = [[self.items[i] for i in row] for row in batches[min(at, len(batches) - 1)]]
        warm = max(1, round(self.options.warmup * self.steps))
        scale = min((step + 1) / warm, (self.steps - step) / max(1, self.steps - warm))
        for group, highest in zip(self.optimiser.param_groups, self.highest, strict=True):
            group["lr"] = highest * scale
        torch.manual_seed(self.options.seed * 1_000_003 + step)
        self.model.model.train(not self.options.frozen)
        loss = self.loss(rows)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        self.step = step + 1
        begun, tokens, total = self._since
        tokens += sum(row_length([item.labelled.window for item in row]) for row in rows)
        self._since = begun, tokens, total + float(loss.detach())
        if self.step % 50 == 0:
            seconds = time.monotonic() - begun
            self.progress(
                f"step {self.step}/{self.steps}: loss {self._since[2] / 50:.4f}, {tokens / seconds:.0f} tok/s"
            )
            self._since = time.monotonic(), 0, 0.0

    def loss(self, rows: Sequence[Sequence[_Item]]) -> torch.Tensor:
        """The loss of a batch: cross-entropy of units, of responses, and of responses whose wrong words are unknown."""
        import torch
        from torch.nn.functional import binary_cross_entropy_with_logits as cross_entropy

        device = self.model.device
        enabled = self.options.bf16 and self.model.dtype == torch.float32
        autocast = torch.autocast(device.type, dtype=torch.bfloat16) if enabled else nullcontext()
        gradients = torch.no_grad() if self.options.frozen else nullcontext()
        with autocast, gradients:  # type: ignore[attr-defined]
            states, starts = self.runner.forward([[item.labelled.window for item in row] for row in rows])
        states = states.float()
        # each item with its first response token among the flattened states
        placed = [
            (item, r * states.shape[1] + start)
            for r, (row, of_row) in enumerate(zip(rows, starts, strict=True))
            for item, start in zip(row, of_row, strict=True)
        ]
        items = [item for item, _ in placed]
        flat = states.reshape(-1, states.shape[-1])
        units, features = self._pooled(flat, placed)
        numbers = torch.arange(len(items), device=device)
        if self.runner.attention == "full":
            whole = states[:, 0]
        else:
            positions = [self.runner.whole_position(item.labelled.window, start) for item, start in placed]
            whole = flat[torch.tensor(positions, device=device)]
        counts = torch.tensor([len(item.targets) for item in items], device=device)
        of_item = torch.repeat_interleave(numbers, counts)
        if features is not None:
            units = torch.cat([units, features], 1)
            sums = torch.zeros((len(items), features.shape[1]), device=device).index_add_(0, of_item, features)
            whole = torch.cat([whole, sums / counts.clamp(min=1)[:, None]], 1)
        unit_logits, whole_logits = self.head(units, whole)
        targets = torch.from_numpy(np.concatenate([item.targets for item in items])).to(device)
        responses = torch.tensor([item.response for item in items], device=device, dtype=torch.float32)
        smooth = self.options.label_smoothing
        known = torch.isfinite(targets)
        total = states.new_zeros(())
        if known.any():
            target = targets[known]
            positive, negative = (torch.tensor(weight, device=device) for weight in self.class_weights)
            weight = torch.where(target >= GOLD_THRESHOLD, positive, negative)
            losses = cross_entropy(unit_logits[known], target * (1 - smooth) + smooth / 2, reduction="none")
            total = total + (losses * weight).sum() / weight.sum()
        told = torch.isfinite(responses)
        if told.any():
            target = responses[told] * (1 - smooth) + smooth / 2
            total = total + self.options.response_weight * cross_entropy(whole_logits[told], target)
        unlocated = told & (responses >= GOLD_THRESHOLD)
        unlocated &= torch.zeros(len(items), device=device).index_add_(0, of_item, known.float()) == 0
        for row in torch.nonzero(unlocated)[:, 0].tolist():
            logits = unit_logits[of_item == row]
            if len(logits):  # a smooth maximum: some word of it is wrong
                worst = (torch.softmax(logits, 0) * logits).sum()
                target = responses[row] * (1 - smooth) + smooth / 2
                total = total + self.options.response_weight * cross_entropy(worst, target) / len(items)
        return total

    def _pooled(
        self, states: torch.Tensor, placed: Sequence[tuple[_Item, int]]
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """The pooled state of every unit of a batch, (units, width), and their features.

        `states` are (positions, width), and with each item is where its response starts in them.
        """
        import torch

        tokens: list[int] = []
        of_unit: list[int] = []
        count = 0
        for item, start in placed:
            for first, end in item.labelled.ranges:
                tokens += range(start + first, start + end)
                of_unit += [count] * (end - first)
                count += 1
        device = states.device
        flat = states[torch.tensor(tokens, dtype=torch.long, device=device)]
        index = torch.tensor(of_unit, dtype=torch.long, device=device)
        empty = flat.new_zeros((count, flat.shape[1]))
        if self.head_settings.pooling == "max":
            where = index[:, None].expand_as(flat)
            pooled = empty.scatter_reduce(0, where, flat, "amax", include_self=False)
        else:
            sizes = torch.bincount(index, minlength=count).clamp(min=1)
            pooled = empty.index_add(0, index, flat) / sizes[:, None]
        if not self.lexical:
            return pooled, None
        features = np.concatenate([item.labelled.features for item, _ in placed])  # type: ignore[arg-type]
        return pooled, torch.from_numpy(features).to(device)

    def evaluation_due(self, step: int) -> bool:
        """Whether the validation part is judged after this step."""
        every = max(1, self.per_epoch // self.options.evaluations)
        return (step + 1) % every == 0 or step + 1 == self.steps

    def numpy_head(self) -> PairHead:
        """The head as it is now."""
        tensors = {name: t.detach().float().cpu().numpy().copy() for name, t in self.head.state_dict().items()}
        return PairHead(self.head_settings, tensors)

    def judged(self) -> dict[str, list[ScoredResponse]]:
        """The validation examples of each data set as the network now scores them."""
        self.model.model.train(False)
        head = self.numpy_head()
        return {
            name: score_cases(
                self.runner,
                self.evaluating,
                head,
                [example.case for example in examples],
                [phrase_of(example) for example in examples],
            )
            for name, examples in self.validation.items()
        }

    def evaluate(self) -> None:
        """Judge the validation part; keep the weights where the mean ROC AUC over the data sets is the best so far."""
        figures = {
            name: validation_figures(list(zip(self.validation[name], scored, strict=True)))
            for name, scored in self.judged().items()
        }
        values = [f["unit_roc_auc"] if f["unit_roc_auc"] is not None else f["roc_auc"] for f in figures.values()]
        known = [value for value in values if value is not None]
        if not known:
            raise InputError("the validation part has labels of one class only", hint="give more data")
        mean = float(np.mean(known))
        better = self.best is None or mean > self.best
        self.history.append({"step": self.step, "mean_roc_auc": mean, "sets": figures})
        self.without_gain = 0 if better else self.without_gain + 1
        if better:
            self.best = mean
            self.best_state = {name: t.detach().clone() for name, t in self._weights_by_name().items()}
        shown = ", ".join(
            f"{name} {' / '.join('-' if v is None else f'{v:.3f}' for v in (f['unit_roc_auc'], f['roc_auc']))}"
            for name, f in figures.items()
        )
        self.progress(f"step {self.step}: validation AUC (words / responses) {shown}; mean {mean:.4f}")
        self.save_checkpoint()

    def _weights_by_name(self) -> dict[str, torch.Tensor]:
        weights = {f"head.{name}": t for name, t in self.head.state_dict().items()}
        if not self.options.frozen:
            weights |= {f"model.{name}": t for name, t in self.model.model.state_dict().items()}
        return weights

    @property
    def identity(self) -> str:
        """What must be equal for a checkpoint to be of the same training."""
        return digest_of([asdict(self.options), self.data_hash, self.model.hash, self.examples])

    def save_checkpoint(self) -> None:
        """Save all that is needed to go on: weights, optimiser, best weights, history."""
        from safetensors.torch import save_file

        folder = self.out / CHECKPOINT
        folder.mkdir(parents=True, exist_ok=True)
        tensors = {f"now.{name}": t.detach().clone() for name, t in self._weights_by_name().items()}
        tensors |= {f"best.{name}": t for name, t in self.best_state.items()}
        for i, parameter in enumerate(self.parameters):
            state = self.optimiser.state.get(parameter, {})
            tensors |= {f"optimiser.{i}.{name}": t.clone() for name, t in state.items()}
        document = {
            "training": self.identity,
            "step": self.step,
            "best": self.best,
            "without_gain": self.without_gain,
            "history": self.history,
        }
        name = f"state-{self.step}.safetensors"
        with replacing(folder / name) as path:
            save_file({key: t.contiguous() for key, t in tensors.items()}, path)
        write_whole(folder / "state.json", json.dumps({**document, "tensors": name}) + "\n")
        for old in folder.glob("state-*.safetensors"):
            if old.name != name:
                old.unlink()

    def resume(self) -> None:
        """Go on from the checkpoint in `out`, if there is one."""
        from safetensors.torch import load_file

        path = self.out / CHECKPOINT / "state.json"
        if not path.is_file():
            return
        document = json.loads(read_text(path))
        if document.get("training") != self.identity:
            raise InputError(
                f"{path.parent} is a checkpoint of another training (other data, options or model)",
                hint="name another folder, or delete the checkpoint",
            )
        tensors = load_file(path.parent / str(document["tensors"]))
        for name, target in self._weights_by_name().items():
            target.copy_(tensors[f"now.{name}"])
        self.best_state = {n.removeprefix("best."): t for n, t in tensors.items() if n.startswith("best.")}
        for i, parameter in enumerate(self.parameters):
            state = {n.split(".", 2)[2]: t for n, t in tensors.items() if n.startswith(f"optimiser.{i}.")}
            if state:
                self.optimiser.state[parameter] = state
        self.step, self.best = int(document["step"]), document["best"]
        self.without_gain, self.history = int(document["without_gain"]), document["history"]
        self.progress(f"goes on from step {self.step} of {self.steps}")

    def finish(self) -> Path:
        """Fit thresholds and calibration on the validation part with the best weights, and write the artifact."""
        for name, target in self._weights_by_name().items():
            target.copy_(self.best_state[name])
        self.model.model.requires_grad_(False)
        judged = self.judged()
        pairs = [pair for name in judged for pair in zip(self.validation[name], judged[name], strict=True)]
        settings = TokenSettings(
            pairs=self.options.pairs,
            head=self.head_settings,
            mode=self.options.mode,  # type: ignore[arg-type]
            attention=self.options.attention,  # type: ignore[arg-type]
            backbone=not self.options.frozen,
            **fit_scales(pairs, self.options.criterion),
        )
        training = {
            "data": self.data_hash,
            "sets": self.sets,
            "examples": self.examples,
            "fractions": self.fractions,
            "options": asdict(self.options),
            "steps": self.step,
            "dtype": str(self.model.dtype).removeprefix("torch."),
            "device": self.model.device.type,
            "versions": versions(),
        }
        validation = {
            "history": self.history,
            "sets": {
                name: validation_figures(list(zip(self.validation[name], judged[name], strict=True))) for name in judged
            },
        }
        save_tokens(self.model, settings, self.numpy_head(), self.out, training, validation)
        return self.out


def set_dropout(model: LocalModel, rate: float) -> None:
    """Set every dropout rate of a network."""
    import torch

    for module in model.model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = rate
        for name in ("dropout_prob", "attention_dropout"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, rate)
