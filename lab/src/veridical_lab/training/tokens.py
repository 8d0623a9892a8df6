"""Train token and span classifiers: a backbone and a head, on labelled units or labelled responses.

After Liu et al. 2022, §4.2 and §5. Labels of tokens, marked phrases and whole responses train one model. All randomness
depends only on the seed and the step, so an interrupted training resumes with identical results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from veridical.core.detector import digest_of
from veridical.core.errors import CannotJudgeError, InputError
from veridical.core.spans import Span
from veridical.core.types import GOLD_THRESHOLD, Example
from veridical.datasets.split import FRACTIONS, content_hash, split_by_document
from veridical.detectors.tokens.artifact import BACKBONE, KIND, TokenSettings
from veridical.detectors.tokens.lexical import lexical_features
from veridical.detectors.tokens.scoring import PairScorer, ScoredResponse, label_windows
from veridical.metrics.tokens import labelled_phrase, unit_labels
from veridical.models.artifact import Artifact, Base
from veridical.models.base_model import base_of
from veridical.models.heads import PairHead
from veridical.models.load import load, quiet, unload
from veridical.models.local_model import READERS, LocalModel
from veridical.models.pair_runner import PairRunner, row_length
from veridical.models.pairs import PairEncoder
from veridical.models.saving import save_artifact, versions
from veridical.models.tokenization import units_of
from veridical.models.torch_engine import TorchEngine
from veridical_lab.training.checkpoint import CHECKPOINT, TrainingStopped
from veridical_lab.training.token_evaluation import (
    contradiction_target,
    fit_scales,
    response_target,
    validation_figures,
)
from veridical_lab.training.token_network import Item, TokenNetwork, eager_attention
from veridical_lab.training.token_options import TokenTraining
from veridical_lab.training.tuning import Schedule, Tuning

if TYPE_CHECKING:
    import torch

__all__ = ["CHECKPOINT", "TokenTraining", "TrainingStopped", "train_tokens"]


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

    Documents are split 70/10/20 (`datasets.split`); the test part is not used. If `out` holds a checkpoint of the same
    training, training resumes from it.

    Args:
        model: The backbone. Training changes it unless it is frozen.
        data: The examples by data set.
        options: How to train.
        out: The folder to write.
        start_from: The head of an earlier training to begin with; None: a random one.
        validation: The examples to validate on, by data set; all of `data` is then used for training. None: validate
            on a tenth of the documents of each data set.
        checkpoint_minutes: Minutes between two checkpoints.
        stop: Asked after every step; if true, training saves a checkpoint and raises `TrainingStopped`.
        progress: Called with lines of text that report progress.

    Raises:
        InputError: If a part has no labelled case, `start_from` has another form, or `out` holds a checkpoint of
            another training.
    """
    options = options or TokenTraining()
    out = Path(out)
    training = _Training(model, data, options, out, start_from, validation, progress)
    with eager_attention(model, options.pairs.max_tokens or 0):
        training.run(stop=stop, checkpoint_minutes=checkpoint_minutes)
        return training.finish()


class _Training(Tuning):
    """The data and network of one training."""

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

        self.options, self.progress, self.model = options, progress, model
        relevant = replace(options.pairs, evidence="relevant")
        self.encoder, self.evaluating = PairEncoder(model, relevant), PairEncoder(model, options.pairs)
        self.runner = PairRunner(TorchEngine(model), options.mode, options.attention)
        self.sets, self.fractions = list(data), dict(FRACTIONS) if validation is None else None
        everything = [*data.values(), *(validation or {}).values()]
        self.data_hash = content_hash(example for examples in everything for example in examples)
        self._split(data, validation)
        self.class_weights = 1.0, 1.0
        if options.class_weights:
            targets = np.concatenate([item.targets for item in self.items])
            share = float(np.mean(targets[np.isfinite(targets)] >= GOLD_THRESHOLD))
            self.class_weights = 0.5 / max(share, 1e-3), 0.5 / max(1 - share, 1e-3)
        self.network = TokenNetwork(self.runner, options, start_from)
        self._epochs: dict[int, list[list[list[int]]]] = {}  # the latest epoch's batches
        self.per_epoch = len(self._batches(0))
        steps = self.per_epoch * options.epochs
        schedule = Schedule(
            steps=steps,
            warmup=round(options.warmup * steps),
            evaluate_every=max(1, self.per_epoch // options.evaluations),
            patience=options.patience,
            seed=options.seed,
        )
        optimiser = torch.optim.AdamW(self.network.groups(), weight_decay=options.weight_decay, fused=True)
        super().__init__(schedule, optimiser, out, progress)

    def _split(self, data: Mapping[str, Sequence[Example]], validation: Mapping[str, Sequence[Example]] | None) -> None:
        """Set the items to train on, and the examples to validate on by data set."""
        self.items: list[Item] = []
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
            with_words = sum(bool(np.isfinite(item.targets).any()) for item in items)
            self.progress(
                f"{name}: {len(train)} examples to train on ({len(items)} windows, {with_words} with labelled words), "
                f"{len(valid)} to validate on"
            )
            self.items += items
            if valid:
                self.validation[name] = valid
            self.examples["train"] += len(train)
            self.examples["valid"] += len(valid)
        if not self.items or not self.validation:
            raise InputError(
                "there is nothing to train or to validate on", hint="give labelled data of ten documents or more"
            )

    def _items(self, examples: Sequence[Example]) -> Iterator[Item]:
        group = self.options.group if self.runner.shares_prompts else 1
        encodings = self.encoder.encode([example.case for example in examples], group=group)
        for example, encoding in zip(examples, encodings, strict=True):
            if isinstance(encoding, CannotJudgeError):
                continue
            units = given_units(example) or units_of(example.case.response, encoding.spans, self.options.unit)
            targets, is_labelled = unit_labels(example, units, soft=self.options.soft_labels)
            targets = np.where(is_labelled, targets, np.nan)
            response, kind = response_target(example), contradiction_target(example)
            features = lexical_features(example.case, units) if self.options.reads_lexical else None
            for window in label_windows(encoding, units, features):
                in_window = targets[window.units].astype(np.float32)
                # one window of a wrong response may be right: only its own words tell
                whole = response
                if len(encoding.windows) > 1 and response > 0:
                    whole = float(in_window.max()) if len(in_window) and np.isfinite(in_window).all() else np.nan
                if np.isfinite(in_window).any() or np.isfinite(whole):
                    yield Item(window, in_window, whole, kind if whole >= GOLD_THRESHOLD else np.nan)

    def _batches(self, epoch: int) -> list[list[list[int]]]:
        """Return the batches of an epoch, in random order; each batch has rows of items of similar length."""
        if epoch in self._epochs:
            return self._epochs[epoch]
        rng = np.random.default_rng((self.options.seed, epoch))
        rows = self.runner.rows([item.labelled.window for item in self.items])
        lengths = np.array([row_length([self.items[i].labelled.window for i in row]) for row in rows])
        order = rng.permutation(len(rows))
        order = order[np.argsort(lengths[order] // 16 + rng.random(len(order)) * 4, kind="stable")]
        batches: list[list[list[int]]] = [[]]
        longest = 0
        for row_i in order.tolist():
            longest = max(longest, int(lengths[row_i]))
            if batches[-1] and longest * (len(batches[-1]) + 1) > self.options.batch_tokens:
                batches.append([])
                longest = int(lengths[row_i])
            batches[-1].append(rows[row_i])
        self._epochs = {epoch: [batches[i] for i in rng.permutation(len(batches)).tolist()]}
        return self._epochs[epoch]

    def loss(self, step: int) -> tuple[torch.Tensor, int]:
        """Return the loss of a batch and its number of tokens."""
        epoch, batch_i = divmod(step, self.per_epoch)
        batches = self._batches(epoch)
        rows = [[self.items[i] for i in row] for row in batches[min(batch_i, len(batches) - 1)]]
        self.model.model.train(not self.options.frozen)
        tokens = sum(row_length([item.labelled.window for item in row]) for row in rows)
        return self.network.loss(rows, self.class_weights), tokens

    def judged(self) -> dict[str, list[tuple[Example, ScoredResponse]]]:
        """Score the validation examples of each data set with the network as it is now."""
        self.model.model.train(False)
        head = self.network.numpy_head()
        judged = {}
        for name, examples in self.validation.items():
            cases, units = [example.case for example in examples], [given_units(example) for example in examples]
            scored = PairScorer(self.runner, self.evaluating, head).score(cases, units)
            judged[name] = list(zip(examples, scored, strict=True))
        return judged

    def figures(self) -> tuple[dict[str, Any], str]:
        """Return the mean ROC AUC over the validation data sets: of words where labelled, else of responses."""
        sets = {name: validation_figures(pairs) for name, pairs in self.judged().items()}
        values = [f["unit_roc_auc"] if f["unit_roc_auc"] is not None else f["roc_auc"] for f in sets.values()]
        defined = [value for value in values if value is not None]
        if not defined:
            raise InputError("the validation part has labels of one class only", hint="give more data")
        mean = float(np.mean(defined))
        shown = ", ".join(
            f"{name} {' / '.join('-' if v is None else f'{v:.3f}' for v in (f['unit_roc_auc'], f['roc_auc']))}"
            for name, f in sets.items()
        )
        return {"figure": mean, "sets": sets}, f"validation AUC (words / responses) {shown}; mean {mean:.4f}"

    @property
    def identity(self) -> str:
        """A digest of everything that two runs must share to use the same checkpoint."""
        return digest_of([asdict(self.options), self.data_hash, self.model.hash, self.examples])

    @property
    def weights(self) -> dict[str, torch.Tensor]:
        """The weights of the network."""
        return self.network.weights

    def set_weights(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Set the weights of the network."""
        self.network.set_weights(weights)

    def finish(self) -> Path:
        """Fit thresholds and calibration on the validation part, and write the artifact."""
        self.model.model.requires_grad_(False)
        judged = self.judged()
        scales, notes = fit_scales([pair for pairs in judged.values() for pair in pairs], self.options.criterion)
        for note in notes:
            self.progress(note)
        settings = TokenSettings(
            pairs=self.options.pairs,
            head=self.network.head_settings,
            mode=self.options.mode,  # type: ignore[arg-type]
            attention=self.options.attention,  # type: ignore[arg-type]
            backbone=not self.options.frozen,
            **scales,
        )
        training = {
            "data": self.data_hash,
            "sets": self.sets,
            "examples": self.examples,
            "fractions": self.fractions,
            "options": asdict(self.options),
            "steps": self.reached.step,
            "dtype": str(self.model.dtype).removeprefix("torch."),
            "device": self.model.device.type,
            "versions": versions(),
        }
        figures = {name: validation_figures(pairs) for name, pairs in judged.items()}
        validation = {"history": self.reached.history, "sets": figures, "notes": notes}
        tensors = self.network.numpy_head().tensors
        artifact = Artifact(KIND, self._saved_base(), asdict(settings), dict(tensors), training, validation)
        return save_artifact(artifact, self.out)

    def _saved_base(self) -> Base:
        """Save the backbone if it was trained, and return its record."""
        if self.options.frozen:
            return base_of(self.model)
        folder = self.out / BACKBONE
        with quiet():
            self.model.model.save_pretrained(folder)
            self.model.tokenizer.save_pretrained(folder)
        saved = load(folder, device="cpu", dtype="fp32", kinds=READERS)  # saving adds some settings
        base = replace(base_of(saved), name=BACKBONE, revision=None)
        unload(saved)
        return base


def given_units(example: Example) -> list[Span] | None:
    """Return the one phrase that gold judges as a unit; None if words or tokens are the units."""
    phrase = labelled_phrase(example)
    return None if phrase is None else [phrase]
