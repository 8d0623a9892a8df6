"""What scores pairs of texts: a sequence-classification folder, or a classifier of `veridical train tokens`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from veridical.core.errors import InputError
from veridical.core.segment import words
from veridical.core.types import Case, Source
from veridical.detectors.tokens.detector import ONNX, Tokens
from veridical.models.artifact import Base, base_of, check_base, described_kind, identity
from veridical.models.checkpoint import architectures_of, checkpoint_folder, read_config
from veridical.models.cross_encoder import (
    AnswerRunner,
    CrossEncoder,
    PairScores,
    Role,
    class_roles,
    label_names,
    role_of,
)
from veridical.models.encode import tokenize
from veridical.models.hhem import HHEM
from veridical.models.load import Kind, LocalModel, load
from veridical.models.onnx_runtime import OnnxRunner, load_onnx
from veridical.models.pair_network import PairRunner

__all__ = ["ClassifierScorer", "PairScorer", "ScorerOptions", "TokensScorer", "open_scorer"]


class PairScorer(Protocol):
    """What says how likely a premise entails a hypothesis."""

    def score(self, pairs: Sequence[tuple[str, str]]) -> PairScores:
        """The probabilities for (premise, hypothesis) pairs."""
        ...

    @property
    def most_words(self) -> int:
        """About how many words of a premise it reads at once beside a hypothesis."""
        ...

    def count(self, text: str) -> int:
        """How many tokens a text is to it."""
        ...

    @property
    def has_contradiction(self) -> bool:
        """Whether it distinguishes contradiction from mere absence."""
        ...

    def fingerprint(self) -> dict[str, Any]:
        """On what its scores depend, as JSON."""
        ...


@dataclass(frozen=True, slots=True)
class ScorerOptions:
    """How a scorer's model is read and run.

    Attributes:
        labels: What its classes stand for, separated by "|"; None: as its configuration says.
        answers: The tokens that are the classes of an encoder-decoder, unsupported and supported; (): a classifier.
        device: As in `models.load`.
        dtype: As in `models.load`.
        onnx: "fp32" or "int8": compute with the ONNX file that `veridical export` wrote; None: with torch.
        max_tokens: The most tokens of a pair.
        batch_tokens: The most tokens that are run at once, padding included.
    """

    labels: str | None = None
    answers: tuple[str, ...] = ()
    device: str = "auto"
    dtype: str = "auto"
    onnx: str | None = None
    max_tokens: int | None = None
    batch_tokens: int | None = None


class ClassifierScorer:
    """A Hugging Face folder with a sequence classifier; weights are loaded on first use.

    Args:
        folder: The folder.
        options: How it is read and run.

    Attributes:
        joined: How the two texts are joined (`models.cross_encoder.CrossEncoder`).
        expected: What the model has to be, where something was trained on its probabilities.

    Raises:
        InputError: If it is another kind of model, needs code of its own, or does not say what its classes stand for.
    """

    def __init__(self, folder: Path, options: ScorerOptions | None = None) -> None:
        self.folder = folder
        self.options = options or ScorerOptions()
        self.joined = "pair"
        self.expected: Base | None = None
        config = read_config(folder)
        self.architecture = architectures_of(config)
        what, wanted = "sequence classifier", "ForSequenceClassification"
        if self.options.answers:
            what, wanted = "encoder-decoder", "ForConditionalGeneration"
        if wanted not in self.architecture:
            raise InputError(
                f"{folder} holds no {what} ({self.architecture or 'no architecture is named'})",
                hint=f"…{wanted} is needed here",
            )
        self.names = ["LABEL_0", "LABEL_1"] if self.options.answers else label_names(config)
        self.roles: tuple[Role, ...] = class_roles(self.names, self.options.labels, folder)

    @property
    def usual_form(self) -> str:
        """The name of the form (`forms.FORMS`) that its classes suggest."""
        if self.architecture == HHEM:
            return "hhem-2"
        if len(self.roles) == 1:
            return "hhem"
        if {name.lower() for name in self.names} == {"correct", "incorrect"}:
            return "factcc"
        return "minicheck" if len(self.roles) == 2 and not any(map(role_of, self.names)) else "nli"

    @property
    def base(self) -> Base:
        """The model, as a layer that was trained on its probabilities records it."""
        return replace(base_of(self.load()), name=str(self.folder.resolve()))

    def load(self) -> LocalModel:
        """The model with its weights."""
        kind: Kind = "seq2seq" if self.options.answers else "classifier"
        model = load(self.folder, device=self.options.device, dtype=self.options.dtype, kinds=(kind,))
        if self.expected is not None:
            check_base(self.expected, model)
        return model

    @cached_property
    def encoder(self) -> CrossEncoder:
        """What runs the pairs."""
        if self.options.onnx is not None and self.joined not in ("pair", "single"):
            raise InputError(f"{self.folder} reads a prompt, which is not done with ONNX", hint="leave out onnx=")
        limit = self.options.batch_tokens
        if self.options.answers:
            runner: PairRunner = AnswerRunner(self.load(), self.options.answers, max_batch_tokens=limit)
        elif self.options.onnx is None:
            runner = PairRunner(self.load(), max_batch_tokens=limit)
        else:
            weights = None if self.expected is None else self.expected.weights
            model, session = load_onnx(self.folder / ONNX, self.folder, weights, self.options.onnx)
            model = replace(model, kind="classifier")
            runner = OnnxRunner(model, session, max_batch_tokens=limit)
        return CrossEncoder(runner, self.roles, joined=self.joined, max_tokens=self.options.max_tokens)

    @property
    def most_words(self) -> int:
        """As `PairScorer.most_words`: 0.7 words per token that there is room for."""
        return max(1, int(0.7 * self.encoder.room))

    def count(self, text: str) -> int:
        """As `PairScorer.count`."""
        return len(tokenize(self.encoder.runner.model.tokenizer, text).ids)

    @property
    def has_contradiction(self) -> bool:
        """Whether one of its classes is contradiction."""
        return "contradiction" in self.roles

    def score(self, pairs: Sequence[tuple[str, str]]) -> PairScores:
        """The probabilities for (premise, hypothesis) pairs."""
        return self.encoder.score(pairs)

    def fingerprint(self) -> dict[str, Any]:
        """The identity of the model, what its classes stand for, and how it is run."""
        options = {name: getattr(self.options, name) for name in ("answers", "onnx", "max_tokens")}
        return {"model": identity(self.load()), "roles": list(self.roles), "joined": self.joined, **options}


class TokensScorer:
    """A classifier of `veridical train tokens` as a scorer of pairs: 1 - P(the hypothesis is hallucinated).

    `expected` is what the classifier has to be, where something was trained on its probabilities.
    """

    has_contradiction = False
    roles: tuple[Role, ...] = ()

    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens
        self.expected: Base | None = None

    @property
    def base(self) -> Base:
        """The classifier, as a layer that was trained on its probabilities records it: `weights` identify all of it."""
        base = base_of(self.tokens.backbone())
        return replace(base, name=str(self.tokens.path.resolve()), weights=self.tokens.fingerprint()["tokens"])

    @property
    def most_words(self) -> int:
        """No limit: it chooses evidence, or reads windows, by itself."""
        return 1 << 30

    def count(self, text: str) -> int:
        """How many words it has: its tokens do not matter where there is no limit."""
        return len(words(text))

    def score(self, pairs: Sequence[tuple[str, str]]) -> PairScores:
        """The probabilities for (premise, hypothesis) pairs; equal pairs are run once."""
        if self.expected is not None and self.expected.weights != self.tokens.fingerprint()["tokens"]:
            raise InputError(
                f"{self.tokens.path} is not the classifier that the layer was trained on: the weights differ",
                hint="name that classifier with model=, or train the layer again",
            )
        self.expected = None
        places = {pair: i for i, pair in enumerate(dict.fromkeys(pairs))}
        cases = [Case(str(i), hypothesis, (Source("premise", premise),)) for (premise, hypothesis), i in places.items()]
        scores = [judgement.hallucination for judgement in self.tokens.judge(cases)]
        entailment = np.array([np.nan if score is None else 1.0 - score for score in scores], dtype=np.float64)
        back = np.array([places[pair] for pair in pairs], dtype=np.int64)
        read = np.array([len(hypothesis) for _, hypothesis in pairs], dtype=np.int64)
        return PairScores(entailment[back], None, read, np.ones(len(pairs), dtype=bool))

    def fingerprint(self) -> dict[str, Any]:
        """The classifier's own."""
        return self.tokens.fingerprint()


def open_scorer(
    place: str | Path, options: ScorerOptions, *, model: str | None = None
) -> ClassifierScorer | TokensScorer:
    """The scorer in a folder, or of a hub name.

    Args:
        place: A folder with a sequence classifier or one of `veridical train tokens`, or a hub name.
        options: How it is read and run.
        model: Where the backbone of one of `train tokens` is now, if it was frozen.
    """
    folder = checkpoint_folder(place)
    if described_kind(folder) is None:
        if model is not None:
            raise InputError(f"{folder} has weights of its own", hint="leave out model=")
        return ClassifierScorer(folder, options)
    if options.labels is not None:
        raise InputError(f"the classes of {folder} are known", hint="leave out labels=")
    tokens = Tokens(
        folder,
        model=model,
        device=options.device,
        dtype=options.dtype,
        onnx=options.onnx,
        max_tokens=options.max_tokens,
        batch_tokens=options.batch_tokens,
    )
    tokens.settings  # noqa: B018 - a folder that holds none is said before anything is judged
    return TokensScorer(tokens)
