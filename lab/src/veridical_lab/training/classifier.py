"""Train hallucination and coverage classifiers by tuning a soft prompt, LoRA weights, a head, or all weights.

This follows Chang et al. 2024, §3.3 and appendix B. The loss is the cross-entropy of the softmax over the two labels,
and the detector uses the same softmax as its score. Random numbers depend only on the seed and the step, so an
interrupted run resumes with identical results.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from veridical.datasets.split import content_hash
from veridical.inference.local_model import LocalModel
from veridical.inference.saving import versions
from veridical.metrics import UndefinedMetricError
from veridical.metrics.ranking import roc_auc
from veridical.metrics.thresholding import threshold_fitter
from veridical.records.detector import digest_of
from veridical.records.errors import InputError
from veridical.records.types import GOLD_THRESHOLD, Example
from veridical_lab.detectors.classifier.artifact import ClassifierSettings, save_classifier
from veridical_lab.detectors.classifier.network import ClassifierNetwork
from veridical_lab.detectors.classifier.presentation import CasePart, EncodedPart, case_parts
from veridical_lab.training.checkpoint import CHECKPOINT
from veridical_lab.training.loop import TrainingLoop, bf16_products
from veridical_lab.training.schedule import Schedule
from veridical_lab.training.token_evaluation import fit_or_keep, response_target

if TYPE_CHECKING:
    import torch

LEARNING_RATES: Mapping[str, float] = {"prompt": 0.1, "lora": 1e-3, "head": 1e-3, "full": 5e-5}
"""The highest learning rate of each method, by default."""

_SPREAD = 0.2  # a batch comes from a window of this fraction of each class, sorted by length


@dataclass(frozen=True, slots=True)
class ClassifierTraining:
    """Options for training a classifier.

    Attributes:
        classifier: What the classifier judges, how it is tuned, and what it reads.
        learning_rate: The peak learning rate. The rate rises to it over `warmup` steps and then falls to 0. Default:
            depends on the method (`LEARNING_RATES`).
        warmup: The learning rate rises for this many steps, at most half of all steps.
        steps: The maximum number of steps.
        batch: The number of parts in each step, half of them with an error.
        evaluate_every: The number of steps between two evaluations on the validation part.
        patience: Stop after this many evaluations without a better result.
        validation_examples: The maximum number of validation examples.
        criterion: The criterion by which thresholds are chosen, one of `metrics.thresholding.CRITERIA`.
        bf16: Whether to compute matrix products in bf16 if weights are in fp32 and the device supports bf16.
        seed: The random seed for the initial tuned weights and the batches.
    """

    classifier: ClassifierSettings = field(default_factory=ClassifierSettings)
    learning_rate: float | None = None
    warmup: int = 500
    steps: int = 20_000
    batch: int = 16
    evaluate_every: int = 250
    patience: int = 5
    validation_examples: int = 200
    criterion: str = "balanced_accuracy"
    bf16: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.steps, self.evaluate_every, self.patience, self.validation_examples, self.batch - 1) < 1:
            raise InputError(f"these options cannot be trained with: {self}", hint="counts of at least 1, batch 2")
        if self.warmup < 0 or (self.learning_rate is not None and self.learning_rate <= 0):
            raise InputError("warmup is negative, or the learning rate is not positive")
        threshold_fitter(self.criterion)


def train_classifier(
    model: LocalModel,
    train: Sequence[Example],
    validation: Sequence[Example],
    options: ClassifierTraining | None = None,
    *,
    out: str | Path,
    **running: Any,
) -> Path:
    """Train a classifier and write it to a folder for the detector `classifier`.

    If `out` has a checkpoint of the same training, training resumes from the checkpoint.

    Args:
        model: The base model. It is not changed.
        train: The examples to learn from.
        validation: The examples for early stopping, calibration and thresholds.
        options: How to train.
        out: The folder to write.
        **running: `checkpoint_minutes` (the minutes between checkpoints), `stop` (called after each step; if it returns
            true, a checkpoint is saved and training ends) and `progress` (called with lines of text).

    Raises:
        InputError: All labels in a part are of one class, the model does not fit, or `out` has a checkpoint of another
            training.
        TrainingStopped: `stop` returned true.
    """
    options = options or ClassifierTraining()
    progress: Callable[[str], None] = running.pop("progress", lambda line: None)
    training = _Training(model, (train, validation), options, Path(out), progress)
    training.run(**running)
    return training.finish()


@dataclass(frozen=True, slots=True, eq=False)
class _Item:
    """A part of a case with its label (1: an error, NaN: unknown) and the number of its example.

    Training uses only the `learned` readings: those that gold names as evidence for the part, or all if it names none.
    """

    encoded: tuple[EncodedPart, ...]
    target: float
    example: int
    learned: tuple[EncodedPart, ...]

    @property
    def tokens(self) -> int:
        return sum(len(reading.ids) for reading in self.encoded)


class _Training(TrainingLoop):
    """A training run with its data and its network."""

    def __init__(
        self,
        model: LocalModel,
        data: tuple[Sequence[Example], Sequence[Example]],
        options: ClassifierTraining,
        out: Path,
        progress: Callable[[str], None],
    ) -> None:
        import torch

        self.options, self.progress = options, progress
        settings = options.classifier
        self.network = ClassifierNetwork(model, settings, options.seed)
        if settings.method == "head":
            self.network.known_states = {}
        rng = np.random.default_rng(options.seed)
        chosen = np.sort(rng.permutation(len(data[1]))[: options.validation_examples])
        self.examples = {"train": list(data[0]), "valid": [data[1][i] for i in chosen.tolist()]}
        self.items = self._items(self.examples["train"])
        self.validation = self._items(self.examples["valid"])
        ordered = sorted(
            (i for i, item in enumerate(self.items) if np.isfinite(item.target)),
            key=lambda i: self.items[i].tokens,
        )
        self.by_class = [[i for i in ordered if (self.items[i].target >= GOLD_THRESHOLD) == error] for error in (0, 1)]
        if not all(self.by_class):
            raise InputError(
                f"the training part has {len(self.by_class[0])} parts without an error of {settings.task} and "
                f"{len(self.by_class[1])} with one",
                hint="both are needed: `veridical data corrupt --method arguments` makes them",
            )
        counts = " and ".join(
            f"{len(part)} {kind}" for part, kind in zip(self.by_class, ("without", "with"), strict=True)
        )
        progress(f"{len(self.examples['train'])} examples to train on: {counts} an error of {settings.task}")
        self.data_hash = content_hash(e for examples in self.examples.values() for e in examples)
        rate = options.learning_rate or LEARNING_RATES[settings.method]
        optimiser = torch.optim.AdamW(self.network.parameters, lr=rate, weight_decay=0.0)
        super().__init__(Schedule.of(options), optimiser, out, progress)

    @property
    def identity(self) -> str:
        """A digest of everything that two runs must share to use the same checkpoint."""
        dtype = str(self.network.model.dtype)
        return digest_of([asdict(self.options), self.data_hash, self.network.base.hash, dtype])

    @property
    def weights(self) -> dict[str, torch.Tensor]:
        """The tuned weights."""
        return self.network.weights

    def set_weights(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Set the tuned weights."""
        self.network.set_weights(weights)

    def _items(self, examples: Sequence[Example]) -> list[_Item]:
        settings = self.options.classifier
        items, too_long = [], 0
        for number, example in enumerate(examples):
            for part in case_parts(example.case, settings.task, settings.unit):
                encoded = self.network.encode(part)
                if isinstance(encoded, str):
                    too_long += 1
                else:
                    target = _target(example, part, settings.task)
                    support = _support(example, part) if target < GOLD_THRESHOLD else ()
                    items.append(_Item(encoded, target, number, tuple(encoded[i] for i in support) or encoded))
        if too_long:
            self.progress(f"{too_long} parts are longer than {self.network.max_tokens} tokens and left out")
        return items

    def _batch(self, step: int) -> list[_Item]:
        """Draw the items of a step, half of each class and all of similar length."""
        rng = np.random.default_rng((self.options.seed, step))
        position, items = rng.random(), []
        for error, members in enumerate(self.by_class):
            count = (self.options.batch + error) // 2
            size = min(len(members), max(count, round(_SPREAD * len(members))))
            start = round(position * (len(members) - size))
            picked = rng.choice(size, count, replace=count > size) + start
            items += [self.items[members[i]] for i in picked.tolist()]
        return items

    def loss(self, step: int) -> tuple[torch.Tensor, int]:
        """Compute the cross-entropy of the labels of a batch. Also return how many tokens the batch has."""
        import torch

        items = self._batch(step)
        with bf16_products(self.network.model, wanted=self.options.bf16):
            lowest = [item.learned[0] for item in items]
            several = [i for i, item in enumerate(items) if len(item.learned) > 1]
            for i, lowest_i in zip(several, self.network.lowest([items[i].learned for i in several]), strict=True):
                lowest[i] = items[i].learned[lowest_i]  # only the lowest reading has a gradient
            margins = self.network.margins(lowest)
        targets = torch.tensor([item.target for item in items], device=margins.device)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(margins.float(), targets)
        return loss, sum(len(reading.ids) for item in items for reading in item.learned)

    def judged(self) -> dict[str, NDArray[np.float64]]:
        """Score the validation examples ("whole") and their parts. Return (label, margin) rows for known labels."""
        margins = self.network.scores([item.encoded for item in self.validation])
        highest: dict[int, float] = {}
        for item, margin in zip(self.validation, margins.tolist(), strict=True):
            highest[item.example] = max(margin, highest.get(item.example, -np.inf))
        task = self.options.classifier.task
        whole = [(_whole_target(self.examples["valid"][i], task), margin) for i, margin in highest.items()]
        parts = [(item.target, margin) for item, margin in zip(self.validation, margins.tolist(), strict=True)]
        tables = {"whole": np.array(whole).reshape(-1, 2), "part": np.array(parts).reshape(-1, 2)}
        return {unit: table[np.isfinite(table[:, 0])] for unit, table in tables.items()}

    def figures(self) -> tuple[dict[str, float], str]:
        """Measure ROC AUC on the validation examples."""
        table = self.judged()["whole"]
        try:
            auc = float(roc_auc(table[:, 0] >= GOLD_THRESHOLD, table[:, 1]))
        except UndefinedMetricError:
            raise InputError("the validation part has labels of one class only", hint="give more data") from None
        return {"figure": auc}, f"ROC AUC {auc:.4f} on {len(table)} validation examples"

    def finish(self) -> Path:
        """Fit thresholds and calibration on the validation part, and write the classifier to its folder."""
        tables = self.judged()
        scales = {}
        notes = []
        for unit in self.options.classifier.levels:
            table = tables[unit]
            scales[unit], note = fit_or_keep(table[:, 0] >= GOLD_THRESHOLD, table[:, 1], self.options.criterion)
            if note is not None:
                notes.append(f"{unit}: {note}")
                self.progress(notes[-1])
        training = {
            "data": self.data_hash,
            "examples": {name: len(examples) for name, examples in self.examples.items()},
            "options": {k: v for k, v in asdict(self.options).items() if k != "classifier"},
            "steps": self.reached.step,
            "dtype": str(self.network.model.dtype).removeprefix("torch."),
            "device": self.network.model.device.type,
            "versions": versions(),
        }
        validation = {"history": self.reached.history, "notes": notes}
        settings = replace(self.options.classifier, scales=scales)
        tensors = {name: t.detach().float().cpu().numpy() for name, t in self.network.weights.items()}
        out = save_classifier(self.network.base, settings, tensors, self.out, (training, validation))
        shutil.rmtree(self.out / CHECKPOINT, ignore_errors=True)
        return out


def _whole_target(example: Example, task: str) -> float:
    """Return the gold score of a whole example, or NaN if it is unknown."""
    if task == "hallucination":
        return response_target(example)
    gold = example.gold
    if gold.omission is None and not gold.omissions:
        return np.nan
    return gold.omission if gold.omission is not None else max(o.score for o in gold.omissions)


def _support(example: Example, part: CasePart) -> list[int]:
    """Return the indices of the readings whose source gold names as evidence for the part."""
    support = [verdict for verdict in example.gold.verdicts if verdict.score < GOLD_THRESHOLD]
    return [
        i
        for i, (source_id, span) in enumerate(part.pairs)
        if any(v.span.overlaps(span) and any(e.source_id == source_id for e in v.evidence) for v in support)
    ]


def _target(example: Example, part: CasePart, task: str) -> float:
    """Return the gold score of a part, or NaN if it is unknown."""
    whole_target = _whole_target(example, task)
    if part.span is None and part.source is None:
        return whole_target
    if part.span is not None:
        scored = [(verdict.score, verdict.span.overlaps(part.span)) for verdict in example.gold.verdicts]
    else:
        scored = [(o.score, part.source is not None and o.source_id == part.source.id) for o in example.gold.omissions]
    if whole_target >= GOLD_THRESHOLD and max((score for score, _ in scored), default=0.0) < GOLD_THRESHOLD:
        return np.nan  # the gold does not mark the place of the error
    return max((score for score, is_part in scored if is_part), default=0.0) if np.isfinite(whole_target) else np.nan
