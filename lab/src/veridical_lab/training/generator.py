"""Train a soft prompt that makes a language model write answers with several perspectives (Chang et al. 2024, §2.1).

A soft prompt is a few trained vectors that are put before the text. With it, the model is a generator that writes
answers in the key-value format of the task. The training answers are written by people, or `corrupt.argument_responses`
composes them from given arguments.
"""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from veridical.datasets.split import content_hash, split_by_document
from veridical.inference.artifact import Artifact
from veridical.inference.local_model import LocalModel
from veridical.inference.saving import versions
from veridical.models.base_model import base_of
from veridical.models.generation import end_token_ids
from veridical.records.detector import digest_of
from veridical.records.errors import InputError
from veridical.records.types import Example
from veridical_lab.corrupt.argument_responses import composed
from veridical_lab.datasets.topics import Topic
from veridical_lab.models.adapters import (
    last_logits,
    set_tuned_weights,
    tuned_weights,
    virtual_tokens,
    with_soft_prompt,
)
from veridical_lab.models.saving import save_artifact
from veridical_lab.models.tuned import GENERATOR, PROMPT, task_tokens
from veridical_lab.tasks.perspectives.task_format import Passages, perspectives_of, task_input, task_target
from veridical_lab.training.checkpoint import CHECKPOINT
from veridical_lab.training.loop import TrainingLoop
from veridical_lab.training.schedule import Schedule

if TYPE_CHECKING:
    import torch

_INTRODUCTIONS = (
    "People disagree on the question “{}”.",
    "There are different views on the question “{}”.",
    "The question “{}” has no answer that all agree on.",
)


@dataclass(frozen=True, slots=True)
class GeneratorTraining:
    """Options for training a generator. The defaults are the paper's (appendix B).

    Attributes:
        virtual_tokens: The length of the soft prompt, in tokens.
        learning_rate: The peak learning rate. The rate rises to it over `warmup` steps and then falls to 0.
        warmup: The learning rate rises for this many steps, at most half of all steps.
        steps: The maximum number of steps.
        batch: The number of examples in each step.
        evaluate_every: The number of steps between two evaluations on the validation part.
        patience: Stop after this many evaluations without a better result.
        validation_examples: The maximum number of validation examples.
        per_topic: The maximum number of answers to compose for each topic. Each answer draws its own arguments.
        seed: The random seed for the initial vectors, the split by topic, and the batches.
    """

    virtual_tokens: int = 5
    learning_rate: float = 0.1
    warmup: int = 500
    steps: int = 20_000
    batch: int = 16
    evaluate_every: int = 250
    patience: int = 5
    validation_examples: int = 100
    per_topic: int = 4
    seed: int = 0

    def __post_init__(self) -> None:
        counts = (self.virtual_tokens, self.steps, self.batch, self.evaluate_every, self.patience, self.per_topic)
        if min(*counts, self.validation_examples) < 1 or self.warmup < 0 or self.learning_rate <= 0:
            raise InputError(f"these options cannot be trained with: {self}", hint="counts of at least 1")


def task_texts(example: Example) -> tuple[str, str]:
    """Make the generator's input for an example and its target text: an introduction and the response's passages.

    Passages in the response are separated by empty lines. If there is one passage more than there are perspectives,
    the first passage is the introduction.

    Raises:
        InputError: The number of passages does not fit the number of perspectives.
    """
    case = replace(example.case, response="")
    perspectives = perspectives_of(case)
    texts = [text for part in re.split(r"\n\s*\n", example.case.response) if (text := part.strip())]
    if len(texts) == len(perspectives) + 1:
        introduction = texts.pop(0)
    else:
        introduction = random.Random(case.id).choice(_INTRODUCTIONS).format(case.question)
    if len(texts) != len(perspectives):
        raise InputError(
            f"case {case.id!r} has {len(texts)} passages for {len(perspectives)} perspectives",
            hint="an empty line between passages, one for each perspective, with or without an introduction before",
        )
    return task_input(case), task_target(Passages(introduction, dict(zip(perspectives, texts, strict=True))))


def answers_to_learn(pairs: Iterable[Example]) -> list[Example]:
    """Choose the answers without errors.

    Raises:
        InputError: There are no such answers.
    """
    answers = [
        pair for pair in pairs if pair.gold.hallucination == 0.0 and not any(o.score for o in pair.gold.omissions)
    ]
    if not answers:
        raise InputError("no answer is labelled as free of errors", hint="labelled answers, such as procon:FILE")
    return answers


def train_generator(
    model: LocalModel,
    topics: Iterable[Topic],
    options: GeneratorTraining | None = None,
    *,
    pairs: Iterable[Example] | None = None,
    out: str | Path,
    **running: Any,
) -> Path:
    """Train a soft prompt on answers, and write it to a folder that `veridical answer` can use as a model.

    The topics are split 70/10/20. The test part is reserved for `bench perspectives`, which makes the same split with
    the same seed. If `out` has a checkpoint of the same training, training resumes from the checkpoint.

    Args:
        model: The base model, which must be a decoder. Its weights are not changed.
        topics: The topics with the arguments from which to compose answers.
        options: How to train.
        pairs: Labelled answers. If given, training uses those without errors instead of composed answers.
        out: The folder to write.
        **running: `checkpoint_minutes` (the minutes between checkpoints), `stop` (called after each step; if it returns
            true, a checkpoint is saved and training ends) and `progress` (called with lines of text).

    Raises:
        InputError: There are no training or validation examples, the model is not a decoder, or `out` has a checkpoint
            of another training.
        TrainingStopped: `stop` returned true.
    """
    options = options or GeneratorTraining()
    progress: Callable[[str], None] = running.pop("progress", lambda line: None)
    if pairs is None:
        examples = composed(topics, wording="same", per_topic=options.per_topic, seed=options.seed)
    else:
        examples = iter(answers_to_learn(pairs))
    training = _Training(model, split_by_document(examples, seed=options.seed), options, Path(out), progress)
    training.run(**running)
    return training.finish()


@dataclass(frozen=True, slots=True)
class _Item:
    """The input tokens of a task, and its target tokens, which include the end-of-text token."""

    task: list[int]
    target: list[int]


class _Training(TrainingLoop):
    """A training run with its data and its soft prompt."""

    def __init__(
        self,
        model: LocalModel,
        parts: Mapping[str, Sequence[Example]],
        options: GeneratorTraining,
        out: Path,
        progress: Callable[[str], None],
    ) -> None:
        import torch

        if model.kind != "causal":
            raise InputError(f"{model.name} is no decoder and cannot write", hint="a causal language model is needed")
        self.model, self.options = model, options
        self.tuned = with_soft_prompt(model, options.virtual_tokens, options.seed)
        (self.vectors,) = (p for p in self.tuned.parameters() if p.requires_grad)
        rng = np.random.default_rng(options.seed)
        chosen = np.sort(rng.permutation(len(parts["valid"]))[: options.validation_examples]).tolist()
        examples = {"train": list(parts["train"]), "valid": [parts["valid"][i] for i in chosen]}
        self.items = {name: self._items(of_part) for name, of_part in examples.items()}
        if not all(self.items.values()):
            raise InputError("there is nothing to train or to validate on", hint="give more topics")
        self.data_hash = content_hash(e for of_part in examples.values() for e in of_part)
        progress(f"{len(self.items['train'])} answers to train on, {len(self.items['valid'])} to validate on")
        optimiser = torch.optim.AdamW([self.vectors], lr=options.learning_rate, weight_decay=0.0)
        super().__init__(Schedule.of(options), optimiser, out, progress)

    def _items(self, examples: Sequence[Example]) -> list[_Item]:
        tokenizer = self.model.tokenizer
        end = min(end_token_ids(self.model))
        room = self.model.max_positions
        items = []
        for example in examples:
            task, target = task_texts(example)
            ids = tokenizer(target, add_special_tokens=False)["input_ids"]
            item = _Item(task_tokens(self.model, task, range(0)), [*ids, end])
            if self.options.virtual_tokens + len(item.task) + len(item.target) <= room:
                items.append(item)
        return items

    @property
    def identity(self) -> str:
        """A digest of everything that two runs must share to use the same checkpoint."""
        return digest_of([asdict(self.options), self.data_hash, self.model.hash])

    @property
    def weights(self) -> dict[str, torch.Tensor]:
        """The soft prompt."""
        return tuned_weights(self.tuned)

    def set_weights(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Set the soft prompt."""
        set_tuned_weights(self.tuned, weights)

    def _losses(self, items: Sequence[_Item]) -> torch.Tensor:
        """Compute the cross-entropy of each target token. *Shape:* (tokens,)"""
        import torch

        count = max(len(item.target) for item in items) + 1
        with virtual_tokens(self.model, self.vectors) as virtual:
            logits = last_logits(self.model, [[*virtual, *item.task, *item.target] for item in items], count)
        predicted = [logits[i, count - 1 - len(item.target) : count - 1] for i, item in enumerate(items)]
        targets = torch.tensor([id for item in items for id in item.target], device=logits.device)
        return torch.nn.functional.cross_entropy(torch.cat(predicted), targets, reduction="none")

    def loss(self, step: int) -> tuple[torch.Tensor, int]:
        """Compute the mean cross-entropy of a batch. Also return how many tokens the batch has."""
        rng = np.random.default_rng((self.options.seed, step))
        items = [self.items["train"][i] for i in rng.integers(len(self.items["train"]), size=self.options.batch)]
        return self._losses(items).mean(), sum(len(item.task) + len(item.target) for item in items)

    def figures(self) -> tuple[dict[str, float], str]:
        """Measure the mean log-likelihood of the validation tokens."""
        import torch

        valid, losses = self.items["valid"], []
        with torch.inference_mode():
            for start in range(0, len(valid), self.options.batch):
                losses.append(self._losses(valid[start : start + self.options.batch]))
        mean = float(torch.cat(losses).mean())
        return {"figure": -mean}, f"loss {mean:.4f} on {len(valid)} validation answers"

    def finish(self) -> Path:
        """Write the soft prompt to its folder."""
        training = {
            "data": self.data_hash,
            "examples": {name: len(items) for name, items in self.items.items()},
            "options": asdict(self.options),
            "steps": self.reached.step,
            "versions": versions(),
        }
        tensors = {PROMPT: self.vectors.detach().float().cpu().numpy()}
        validation = {"history": self.reached.history}
        out = save_artifact(Artifact(GENERATOR, base_of(self.model), {}, tensors, training, validation), self.out)
        shutil.rmtree(self.out / CHECKPOINT, ignore_errors=True)
        return out
