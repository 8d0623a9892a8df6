"""Training of token and span classifiers: a backbone and a head on labelled units, or on labels of whole responses.

Liu et al. 2022, §4.2 and §5. Labels of tokens, of marked phrases and of whole responses train one model. Everything
random depends on the seed and the step alone, so that a training that was interrupted goes on as if it had not been.
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
from veridical.detectors.tokens.artifact import TokenSettings, save_tokens
from veridical.detectors.tokens.lexical import lexical_features
from veridical.detectors.tokens.scoring import PairScorer, ScoredResponse, label_windows
from veridical.metrics.tokens import labelled_phrase, unit_labels
from veridical.models.artifact import versions
from veridical.models.load import LocalModel
from veridical.models.pair_network import PairHead, PairRunner, row_length
from veridical.models.pairs import PairEncoder
from veridical.models.token_words import units_of
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
    with eager_attention(model, options.pairs.max_tokens or 0):
        training.run(stop=stop, checkpoint_minutes=checkpoint_minutes)
        return training.finish()


class _Training(Tuning):
    """One training: its data and network."""

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
        self.runner = PairRunner(model, options.mode, options.attention)
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
        """The items to train on, and the examples to validate on by data set."""
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

    def _items(self, examples: Sequence[Example]) -> Iterator[Item]:
        group = self.options.group if self.runner.shares_prompts else 1
        encodings = self.encoder.encode([example.case for example in examples], group=group)
        for example, encoding in zip(examples, encodings, strict=True):
            if isinstance(encoding, CannotJudgeError):
                continue
            units = given_units(example) or units_of(example.case.response, encoding.spans, self.options.unit)
            targets, known = unit_labels(example, units, soft=self.options.soft_labels)
            targets = np.where(known, targets, np.nan)
            response, kind = response_target(example), contradiction_target(example)
            features = lexical_features(example.case, units) if self.options.reads_lexical else None
            for labelled in label_windows(encoding, units, features):
                inside = targets[labelled.units].astype(np.float32)
                # of a response read in parts, a part is only known to be wrong where its words say so
                whole = response
                if len(encoding.windows) > 1 and response > 0:
                    whole = float(inside.max()) if len(inside) and np.isfinite(inside).all() else np.nan
                if np.isfinite(inside).any() or np.isfinite(whole):
                    yield Item(labelled, inside, whole, kind if whole >= GOLD_THRESHOLD else np.nan)

    def _batches(self, epoch: int) -> list[list[list[int]]]:
        """The batches of an epoch, each of rows of items: of similar length, in random order."""
        if epoch in self._epochs:
            return self._epochs[epoch]
        rng = np.random.default_rng((self.options.seed, epoch))
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
        self._epochs = {epoch: [batches[i] for i in rng.permutation(len(batches)).tolist()]}
        return self._epochs[epoch]

    def loss(self, step: int) -> tuple[torch.Tensor, int]:
        """The loss of a batch."""
        epoch, at = divmod(step, self.per_epoch)
        batches = self._batches(epoch)
        rows = [[self.items[i] for i in row] for row in batches[min(at, len(batches) - 1)]]
        self.model.model.train(not self.options.frozen)
        tokens = sum(row_length([item.labelled.window for item in row]) for row in rows)
        return self.network.loss(rows, self.class_weights), tokens

    def judged(self) -> dict[str, list[tuple[Example, ScoredResponse]]]:
        """The validation examples of each data set as the network now scores them."""
        self.model.model.train(False)
        head = self.network.numpy_head()
        judged = {}
        for name, examples in self.validation.items():
            cases, units = [example.case for example in examples], [given_units(example) for example in examples]
            scored = PairScorer(self.runner, self.evaluating, head).score(cases, units)
            judged[name] = list(zip(examples, scored, strict=True))
        return judged

    def figures(self) -> tuple[dict[str, Any], str]:
        """The mean ROC AUC of the validation part over the data sets: of words where these are labelled."""
        sets = {name: validation_figures(pairs) for name, pairs in self.judged().items()}
        values = [f["unit_roc_auc"] if f["unit_roc_auc"] is not None else f["roc_auc"] for f in sets.values()]
        known = [value for value in values if value is not None]
        if not known:
            raise InputError("the validation part has labels of one class only", hint="give more data")
        mean = float(np.mean(known))
        shown = ", ".join(
            f"{name} {' / '.join('-' if v is None else f'{v:.3f}' for v in (f['unit_roc_auc'], f['roc_auc']))}"
            for name, f in sets.items()
        )
        return {"figure": mean, "sets": sets}, f"validation AUC (words / responses) {shown}; mean {mean:.4f}"

    @property
    def identity(self) -> str:
        """What must be equal for a checkpoint to be of the same training."""
        return digest_of([asdict(self.options), self.data_hash, self.model.hash, self.examples])

    @property
    def weights(self) -> dict[str, torch.Tensor]:
        """The network's."""
        return self.network.weights

    def set_weights(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Set them."""
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
        save_tokens(self.model, settings, self.network.numpy_head(), self.out, training, validation)
        return self.out


def given_units(example: Example) -> list[Span] | None:
    """What is one unit of a response because gold judges it as one phrase; None where its words or tokens are."""
    phrase = labelled_phrase(example)
    return None if phrase is None else [phrase]
