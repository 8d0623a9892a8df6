"""Score pairs of texts with a sequence classifier, or with a classifier trained by `veridical train tokens`.

Each pair consists of a premise (a part of the sources) and a hypothesis (a text to check).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from veridical.detectors.tokens.artifact import ONNX
from veridical.detectors.tokens.detector import Tokens
from veridical.inference.artifact import Base, described_kind
from veridical.inference.checkpoint import (
    HHEM,
    Role,
    architectures_of,
    checkpoint_folder,
    class_roles,
    label_names,
    read_config,
    role_of,
)
from veridical.inference.local_model import Kind, LocalModel
from veridical.inference.onnx_runtime import PUBLISHED, load_onnx, load_published
from veridical.inference.pair_runner import Engine, PairRunner
from veridical.inference.tokenization import tokenize
from veridical.models.base_model import base_of, check_base, identity
from veridical.models.cross_encoder import CrossEncoder, PairScores
from veridical.models.load import load
from veridical.records.errors import InputError
from veridical.records.types import Case, Source
from veridical.text.segment import words


class PairScorer(Protocol):
    """The protocol of models that compute the probability that a premise entails a hypothesis.

    The premise is a part of the sources, and the hypothesis is a text to check, such as a sentence of the response.
    """

    def score(self, pairs: Sequence[tuple[str, str]]) -> PairScores:
        """Compute the probabilities of entailment and contradiction for (premise, hypothesis) pairs."""
        ...

    @property
    def most_words(self) -> int:
        """The approximate number of words of a premise that fit into the model's input beside a hypothesis."""
        ...

    def count(self, text: str) -> int:
        """Count the tokens of a text."""
        ...

    @property
    def has_contradiction(self) -> bool:
        """Whether the scorer distinguishes contradicted hypotheses from those that the premise does not mention."""
        ...

    def fingerprint(self) -> dict[str, Any]:
        """Return everything that the scores depend on, as JSON."""
        ...


@dataclass(frozen=True, slots=True)
class ScorerOptions:
    """Options for loading and running the model that scores pairs of texts.

    Attributes:
        labels: What the model's classes mean, in their order and separated by "|" ("contradiction|neutral|entailment").
            A class may also mean "unsupported". Default: as the model's configuration says.
        answers: The tokens that an encoder-decoder generates for "unsupported" and "supported". Empty for a classifier.
        device: As in `models.load`.
        dtype: As in `models.load`.
        onnx: "fp32" or "int8": run the ONNX file that `veridical export` wrote. Default: use torch, or the publisher's
            ONNX file if there are no weights for torch.
        max_tokens: The largest number of tokens in a pair.
        batch_tokens: The largest number of tokens to run at once, including padding.
    """

    labels: str | None = None
    answers: tuple[str, ...] = ()
    device: str = "auto"
    dtype: str = "auto"
    onnx: str | None = None
    max_tokens: int | None = None
    batch_tokens: int | None = None


class ClassifierScorer:
    """Scores pairs of texts with a sequence classifier from a Hugging Face folder.

    The weights are loaded when they are first needed.

    Args:
        folder: The Hugging Face folder.
        options: The options for loading and running the model.

    Attributes:
        joined: The way to join the two texts into one input: "pair", "single", or a prompt template with {premise} and
            {hypothesis} (`models.cross_encoder.CrossEncoder`).
        expected: The model whose scores a SummaC Conv layer was trained on. If it is set, a scorer with another model
            raises an error.

    Raises:
        InputError: The model is no sequence classifier (or no encoder-decoder, if `options.answers` is set), needs
            custom code from its repository, or has labels that do not say what they mean.
    """

    def __init__(self, folder: Path, options: ScorerOptions | None = None) -> None:
        self.folder = folder
        self.options = options or ScorerOptions()
        self.joined = "pair"
        self.expected: Base | None = None
        config = read_config(folder)
        self.architecture = architectures_of(config)
        kind, suffix = "sequence classifier", "ForSequenceClassification"
        if self.options.answers:
            kind, suffix = "encoder-decoder", "ForConditionalGeneration"
        if suffix not in self.architecture:
            raise InputError(
                f"{folder} holds no {kind} ({self.architecture or 'no architecture is named'})",
                hint=f"…{suffix} is needed here",
            )
        self.names = ["LABEL_0", "LABEL_1"] if self.options.answers else label_names(config)
        self.roles: tuple[Role, ...] = class_roles(self.names, self.options.labels, folder)

    @property
    def usual_form(self) -> str:
        """The name of the published method (`forms.FORMS`) that fits the model's labels, such as "nli".

        It is used if the user chooses no form.
        """
        if self.architecture == HHEM:
            return "hhem-2"
        if len(self.roles) == 1:
            return "hhem"
        if {name.lower() for name in self.names} == {"correct", "incorrect"}:
            return "factcc"
        return "minicheck" if len(self.roles) == 2 and not any(map(role_of, self.names)) else "nli"

    @property
    def base(self) -> Base:
        """The description of the model, to be stored with a layer that is trained on its probabilities."""
        return replace(base_of(self.load()), name=str(self.folder.resolve()))

    def load(self) -> LocalModel:
        """Load the model with its weights, and check that it is the one in `expected`, if this is set."""
        kind: Kind = "seq2seq" if self.options.answers else "classifier"
        model = load(self.folder, device=self.options.device, dtype=self.options.dtype, kinds=(kind,))
        if self.expected is not None:
            check_base(self.expected, model)
        return model

    @cached_property
    def encoder(self) -> CrossEncoder:
        """The cross-encoder, which processes a premise and a hypothesis as one input. Its weights are loaded."""
        options = self.options
        engine: Engine
        if (options.onnx is not None or self._has_onnx_only) and self.joined not in ("pair", "single"):
            raise InputError(
                f"{self.folder} reads a prompt, which is not done with ONNX", hint="use its weights in safetensors"
            )
        if options.onnx is not None:
            weights = None if self.expected is None else self.expected.weights
            engine = load_onnx(self.folder / ONNX, self.folder, weights, options.onnx, "classifier")
        elif self._has_onnx_only:
            engine = load_published(self.folder)
        else:
            from veridical.models.torch_engine import AnswerEngine, TorchEngine

            model = self.load()
            engine = AnswerEngine(model, options.answers) if options.answers else TorchEngine(model)
        runner = PairRunner(engine, max_batch_tokens=options.batch_tokens)
        return CrossEncoder(runner, self.roles, joined=self.joined, max_tokens=options.max_tokens)

    @property
    def _has_onnx_only(self) -> bool:
        return (self.folder / PUBLISHED).is_file() and not any(self.folder.glob("*.safetensors"))

    @property
    def most_words(self) -> int:
        """The approximate number of words that fit into the model's input, assuming 0.7 words per token."""
        return max(1, int(0.7 * self.encoder.room))

    def count(self, text: str) -> int:
        """Count the tokens of a text."""
        return len(tokenize(self.encoder.runner.model.tokenizer, text).ids)

    @property
    def has_contradiction(self) -> bool:
        """Whether one of the model's classes means contradiction."""
        return "contradiction" in self.roles

    def score(self, pairs: Sequence[tuple[str, str]]) -> PairScores:
        """Compute the probabilities of entailment and contradiction for (premise, hypothesis) pairs."""
        return self.encoder.score(pairs)

    def fingerprint(self) -> dict[str, Any]:
        """Return everything that the scores depend on: the model, the meanings of its classes, and the options."""
        options = {name: getattr(self.options, name) for name in ("answers", "onnx", "max_tokens")}
        model = {"onnx": self.encoder.runner.model.hash} if self._has_onnx_only else identity(self.load())
        return {"model": model, "roles": list(self.roles), "joined": self.joined, **options}


class TokensScorer:
    """Scores pairs of texts with a classifier of `veridical train tokens`, by 1 - P(the hypothesis is hallucinated).

    Attributes:
        tokens: The classifier.
        expected: The classifier whose scores a SummaC Conv layer was trained on. If it is set, a scorer with another
            classifier raises an error.
    """

    has_contradiction = False
    roles: tuple[Role, ...] = ()

    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens
        self.expected: Base | None = None

    @property
    def base(self) -> Base:
        """The description of the classifier, to be stored with a layer that is trained on its probabilities.

        Its `weights` are a hash of the complete classifier, not only of the backbone.
        """
        base = base_of(self.tokens.backbone())
        return replace(base, name=str(self.tokens.path.resolve()), weights=self.tokens.fingerprint()["tokens"])

    @property
    def most_words(self) -> int:
        """A practically infinite number, because the classifier itself handles premises that are too long."""
        return 1 << 30

    def count(self, text: str) -> int:
        """Count the words of a text, in place of its tokens, because premises have no length limit here."""
        return len(words(text))

    def score(self, pairs: Sequence[tuple[str, str]]) -> PairScores:
        """Compute the probabilities of entailment for (premise, hypothesis) pairs. Equal pairs are run only once.

        Raises:
            InputError: The classifier is not the one in `expected`.
        """
        if self.expected is not None and self.expected.weights != self.tokens.fingerprint()["tokens"]:
            raise InputError(
                f"{self.tokens.path} is not the classifier that the layer was trained on: the weights differ",
                hint="name that classifier with model=, or train the layer again",
            )
        self.expected = None
        numbers = {pair: i for i, pair in enumerate(dict.fromkeys(pairs))}
        cases = [Case(str(i), claim, (Source("premise", premise),)) for (premise, claim), i in numbers.items()]
        scores = [judgement.hallucination for judgement in self.tokens.judge(cases)]
        entailment = np.array([np.nan if score is None else 1.0 - score for score in scores], dtype=np.float64)
        back = np.array([numbers[pair] for pair in pairs], dtype=np.int64)
        read = np.array([len(hypothesis) for _, hypothesis in pairs], dtype=np.int64)
        return PairScores(entailment[back], None, read, np.ones(len(pairs), dtype=bool))

    def fingerprint(self) -> dict[str, Any]:
        """Return everything that the scores depend on, which is the fingerprint of the classifier."""
        return self.tokens.fingerprint()


def open_scorer(
    place: str | Path, options: ScorerOptions, *, model: str | None = None
) -> ClassifierScorer | TokensScorer:
    """Make the scorer for the model in a folder, or for a downloaded model of the Hugging Face hub.

    It is a `TokensScorer` for a classifier of `veridical train tokens`, and otherwise a `ClassifierScorer`.

    Args:
        place: A folder with a sequence classifier or a classifier of `veridical train tokens`, or the name of a model
            on the hub, "owner/model".
        options: The options for loading and running the model.
        model: The folder of the backbone, for a classifier of `train tokens` whose backbone was frozen. Default: the
            folder at training.
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
    tokens.settings  # noqa: B018 - check that the folder holds a classifier before judging anything
    return TokensScorer(tokens)
