"""Train token and span classifiers on labels of tokens, marked phrases or whole responses.

A classifier is a backbone (an encoder) with heads, as in Liu et al. 2022, §4.2 and §5. One model can be trained on all
three kinds of labels. Random numbers depend only on the seed and the step, so an interrupted training resumes with
identical results.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from veridical.datasets.split import FRACTIONS, content_hash, split_by_document
from veridical.detectors.tokens.artifact import BACKBONE, KIND, TokenSettings
from veridical.detectors.tokens.scoring import PairScorer, ScoredResponse, label_windows
from veridical.inference.artifact import Artifact, Base
from veridical.inference.heads import PairHead
from veridical.inference.local_model import READERS, LocalModel
from veridical.inference.pair_runner import PairRunner, row_length
from veridical.inference.pairs import PairEncoder
from veridical.inference.saving import versions
from veridical.inference.tokenization import units_of
from veridical.models.base_model import base_of
from veridical.models.load import load, quiet, unload
from veridical.models.torch_engine import TorchEngine
from veridical.records.detector import digest_of
from veridical.records.errors import CannotJudgeError, InputError
from veridical.records.spans import Span
from veridical.records.types import GOLD_THRESHOLD, Example
from veridical.text.lexical import lexical_features
from veridical_lab.metrics.unit_labels import labelled_phrase, unit_labels
from veridical_lab.models.saving import save_artifact
from veridical_lab.training.checkpoint import CHECKPOINT, TrainingStopped
from veridical_lab.training.loop import TrainingLoop
from veridical_lab.training.schedule import Schedule
from veridical_lab.training.token_evaluation import (
    contradiction_target,
    fit_scales,
    response_target,
    validation_figures,
)
from veridical_lab.training.token_network import Item, TokenNetwork, eager_attention
from veridical_lab.training.token_options import TokenTraining

if TYPE_CHECKING:
    import torch

__all__ = ["CHECKPOINT", "Sets", "TokenTraining", "TrainingStopped", "train_tokens"]

Sets = Mapping[str, Sequence[Example]]
_Judged = dict[str, list[tuple[Example, ScoredResponse]]]  # validation examples with their logits, by set
_WARMUP = 150  # steps of warm-up if the number of tokens is given


def train_tokens(
    model: LocalModel,
    data: Sets | Callable[[int], Sets],
    options: TokenTraining | None = None,
    *,
    out: str | Path,
    start_from: PairHead | None = None,
    validation: Sets | None = None,
    auxiliary_loss: Callable[[int], torch.Tensor | None] = lambda step: None,
    checkpoint_minutes: float = 10.0,
    stop: Callable[[], bool] = lambda: False,
    progress: Callable[[str], None] = lambda line: None,
) -> Path:
    """Train a token classifier and write it to a folder for the detector `tokens`.

    Without `validation`, the documents are split 70/10/20 (`datasets.split`), and the test part is not used. If `out`
    has a checkpoint of the same training, training resumes from the checkpoint.

    Args:
        model: The backbone. Training changes it unless it is frozen.
        data: The examples by data set, or a function that takes the number of a pass, counted from 0, and draws its
            examples. With such a function, you must pass `validation`.
        options: How to train.
        out: The folder to write.
        start_from: Begin with the head of an earlier training. Default: a random head.
        validation: The examples to validate on, by data set. All of `data` is then used for training. Default: a tenth
            of the documents of each data set.
        auxiliary_loss: A function that takes the number of a step, counted from 0, and returns an auxiliary loss of the
            backbone, which is added to the classifier's loss, or None if the step has none.
        checkpoint_minutes: The minutes between two checkpoints.
        stop: Called after every step. If it returns true, a checkpoint is saved and `TrainingStopped` raised.
        progress: Called with lines of text that report progress.

    Raises:
        InputError: A part has no labelled cases, `start_from` has another form, or `out` has a checkpoint of another
            training.
    """
    options = options or TokenTraining()
    out = Path(out)
    training = _Training(model, data, options, out, start_from, validation, auxiliary_loss, progress)
    with eager_attention(model, options.pairs.max_tokens or 0):
        training.run(stop=stop, checkpoint_minutes=checkpoint_minutes)
        training.average()
        return training.finish()


class _Training(TrainingLoop):
    """A training run with its data and its network."""

    def __init__(
        self,
        model: LocalModel,
        data: Sets | Callable[[int], Sets],
        options: TokenTraining,
        out: Path,
        start_from: PairHead | None,
        validation: Sets | None,
        auxiliary_loss: Callable[[int], torch.Tensor | None],
        progress: Callable[[str], None],
    ) -> None:
        import torch

        self.options, self.progress, self.model = options, progress, model
        self._auxiliary_loss = auxiliary_loss
        relevant = replace(options.pairs, evidence="relevant")
        self.encoder, self.evaluating = PairEncoder(model, relevant), PairEncoder(model, options.pairs)
        self.runner = PairRunner(TorchEngine(model), options.mode, options.attention)
        self.fractions = dict(FRACTIONS) if validation is None else None
        self._epochs: dict[int, list[list[list[int]]]] = {}  # the batches of the latest pass
        self.validation: dict[str, list[Example]] = {}
        self._latest: _Judged = {}  # of the latest evaluation
        self._of_best: _Judged = {}  # of the best one; empty after resuming
        self._draw: Callable[[int], Sets] | None = None
        if not callable(data):
            parts = self._parts(data, validation)
            everything = [*data.values(), *(validation or {}).values()]
        elif validation is None:
            raise InputError("data that are drawn for each pass need validation data of their own")
        else:
            self._draw = data
            parts = {name: ([], list(examples)) for name, examples in validation.items()}
            everything = list(validation.values())
        self.data_hash = content_hash(example for examples in everything for example in examples)
        self.validation = {
            name: self._some(valid, options.validation_per_set) for name, (_, valid) in parts.items() if valid
        }
        self.examples = {"train": 0, "valid": sum(map(len, self.validation.values()))}
        self.sets, self._pass = list(parts), -1
        self.items: list[Item] = []
        if self._draw is None:
            self._load({name: train for name, (train, _) in parts.items()})
        if not self.validation or (self._draw is None and not self.items):
            raise InputError(
                "there is nothing to train or to validate on", hint="give labelled data of ten documents or more"
            )
        self.class_weights = 1.0, 1.0
        if options.class_weights:
            targets = np.concatenate([item.targets for item in self.items])
            share = float(np.mean(targets[np.isfinite(targets)] >= GOLD_THRESHOLD))
            self.class_weights = 0.5 / max(share, 1e-3), 0.5 / max(1 - share, 1e-3)
        self.network = TokenNetwork(self.runner, options, start_from)
        self._initial = {name: t.detach().clone() for name, t in self.weights.items()} if options.initial_weight else {}
        if options.tokens is None:
            per_epoch = len(self._batches(0))
            steps, evaluate_every = per_epoch * options.epochs, max(1, per_epoch // options.evaluations)
        else:
            steps = math.ceil(options.tokens / options.batch_tokens)
            evaluate_every = math.ceil(options.evaluate_tokens / options.batch_tokens)
        schedule = Schedule(
            steps=steps,
            warmup=round(options.warmup * steps) if options.tokens is None else _WARMUP,
            evaluate_every=evaluate_every,
            patience=options.patience,
            seed=options.seed,
            cooldown=options.cooldown,
        )
        optimiser = torch.optim.AdamW(self.network.groups(), weight_decay=options.weight_decay, fused=True)
        super().__init__(schedule, optimiser, out, progress)

    def _parts(self, data: Sets, validation: Sets | None) -> dict[str, tuple[list[Example], list[Example]]]:
        """Divide the examples of each set into those to train on and those to validate on."""
        parts = {}
        for name in dict.fromkeys((*data, *(validation or ()))):
            if validation is None:
                split = split_by_document(data[name], seed=self.options.seed)
                parts[name] = split["train"], split["valid"]
            else:
                parts[name] = list(data.get(name, ())), list(validation.get(name, ()))
        return parts

    def _some(self, examples: Sequence[Example], most: int | None, pass_i: int = 0) -> list[Example]:
        """Draw up to `most` examples at random, and keep their order."""
        order = np.random.default_rng((self.options.seed, pass_i)).permutation(len(examples))[:most]
        return [examples[i] for i in np.sort(order).tolist()]

    def _load(self, data: Sets, pass_i: int = 0) -> None:
        """Make the items to train on in a pass."""
        self.items, self._pass = [], pass_i
        self._epochs.clear()
        self.examples["train"] = 0
        for name, examples in data.items():
            train = self._some(examples, self.options.per_set, pass_i)
            items = list(self._items(train))
            with_words = sum(bool(np.isfinite(item.targets).any()) for item in items)
            self.progress(
                f"{name}: {len(train)} examples to train on ({len(items)} windows, {with_words} with labelled words), "
                f"{len(self.validation.get(name, ()))} to validate on"
            )
            self.items += items
            self.examples["train"] += len(train)
        self.sets = list(dict.fromkeys((*self.sets, *data)))

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
                # a window of a wrong response may be free of errors, so only its own words decide
                whole = response
                if len(encoding.windows) > 1 and response > 0:
                    whole = float(in_window.max()) if len(in_window) and np.isfinite(in_window).all() else np.nan
                if np.isfinite(in_window).any() or np.isfinite(whole):
                    yield Item(window, in_window, whole, kind if whole >= GOLD_THRESHOLD else np.nan)

    def _batches(self, epoch: int) -> list[list[list[int]]]:
        """Make the batches of an epoch, in random order. The rows of a batch are of similar length."""
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

    def _batch(self, step: int) -> list[list[int]]:
        """Return the batch of a step. At the start of a pass, its items are drawn first."""
        passes = self.reached.passes
        while step >= sum(passes):
            pass_i = len(passes)
            self._start_pass(pass_i)
            passes.append(len(self._batches(pass_i)))
        first, pass_i = 0, 0
        while first + passes[pass_i] <= step:
            first, pass_i = first + passes[pass_i], pass_i + 1
        self._start_pass(pass_i)
        return self._batches(pass_i)[step - first]

    def _start_pass(self, pass_i: int) -> None:
        if self._draw is not None and self._pass != pass_i:
            self._load(self._draw(pass_i), pass_i)

    def loss(self, step: int) -> tuple[torch.Tensor, int]:
        """Compute the loss of a batch. Also return how many tokens the batch has."""
        rows = [[self.items[i] for i in row] for row in self._batch(step)]
        self.model.model.train(not self.options.frozen)
        tokens = sum(row_length([item.labelled.window for item in row]) for row in rows)
        loss, auxiliary = self.network.loss(rows, self.class_weights), self._auxiliary_loss(step)
        return loss if auxiliary is None else loss + auxiliary, tokens

    def judged(self) -> _Judged:
        """Score the validation examples of each data set with the current network."""
        self.model.model.train(False)
        # a new engine, because the fused optimiser changes weights in place and an engine keeps packed copies of them
        runner = PairRunner(TorchEngine(self.model), self.options.mode, self.options.attention)
        head = self.network.numpy_head()
        judged = {}
        for name, examples in self.validation.items():
            cases, units = [example.case for example in examples], [given_units(example) for example in examples]
            scored = PairScorer(runner, self.evaluating, head).score(cases, units)
            judged[name] = list(zip(examples, scored, strict=True))
        return judged

    def figures(self) -> tuple[dict[str, Any], str]:
        """Average the ROC AUC over words and over responses, where labelled, and over the validation data sets."""
        self._latest = self.judged()
        sets = {name: validation_figures(pairs) for name, pairs in self._latest.items()}
        values = [[v for v in (f["unit_roc_auc"], f["roc_auc"]) if v is not None] for f in sets.values()]
        defined = [float(np.mean(of_set)) for of_set in values if of_set]
        if not defined:
            raise InputError("the validation part has labels of one class only", hint="give more data")
        mean = float(np.mean(defined))
        shown = ", ".join(
            f"{name} {' / '.join('-' if v is None else f'{v:.3f}' for v in (f['unit_roc_auc'], f['roc_auc']))}"
            for name, f in sets.items()
        )
        return {"figure": mean, "sets": sets}, f"validation AUC (words / responses) {shown}; mean {mean:.4f}"

    def evaluate(self) -> None:
        """Evaluate on validation. If the figure is the best so far, keep the weights and the validation scores."""
        super().evaluate()
        if self.reached.without_gain == 0:
            self._of_best = self._latest

    @property
    def identity(self) -> str:
        """A digest of everything that two runs must share to use the same checkpoint."""
        # without the options that may change on resuming: length and averaging
        options = asdict(self.options) | {"tokens": None}
        del options["initial_weight"]
        return digest_of([options, self.data_hash, self.model.hash])

    @property
    def weights(self) -> dict[str, torch.Tensor]:
        """The weights of the network."""
        return self.network.weights

    def set_weights(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Set the weights of the network."""
        self.network.set_weights(weights)

    def average(self) -> None:
        """Replace the trained weights by their weighted average with the initial ones, if `initial_weight` is set."""
        if self._initial:
            share = self.options.initial_weight
            self.set_weights({name: t.lerp(self._initial[name], share) for name, t in self.weights.items()})
            self._of_best = {}

    def finish(self) -> Path:
        """Fit thresholds and calibration on the validation part, and write the classifier to its folder."""
        self.model.model.requires_grad_(False)
        judged = self._of_best or self.judged()
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
        """Save the backbone if it was trained, and return the record that identifies it."""
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
    """Return the only phrase that gold judges, which is then the unit, or None if words or tokens are the units."""
    phrase = labelled_phrase(example)
    return None if phrase is None else [phrase]
