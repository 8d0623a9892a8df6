"""Score pairs of a premise and a hypothesis with a Hugging Face sequence classifier for entailment (NLI)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from veridical.inference.checkpoint import ROLES, Role
from veridical.inference.local_model import kind_of, reads_any_length
from veridical.inference.pair_runner import PairRunner
from veridical.inference.pairs import PairForm, Window
from veridical.inference.tokenization import tokenize, tokenize_texts
from veridical.records.errors import InputError
from veridical.records.spans import Span

Floats = NDArray[np.float64]
_SHARD = 4096  # pairs whose windows are sorted by length and run together


@dataclass(frozen=True, slots=True, eq=False)
class PairScores:
    """The results of `CrossEncoder.score` for (premise, hypothesis) pairs. All arrays have the *shape* (pairs,).

    Attributes:
        entailment: The probability in [0, 1] that the premise entails the hypothesis. NaN if the hypothesis has no
            token.
        contradiction: The probability in [0, 1] that the premise contradicts the hypothesis. None if the model has no
            class for contradiction.
        read: The number of characters of the hypothesis in the model's input. Less than its length if it was truncated.
        whole: True if the whole premise was in the model's input. False if it was truncated.
    """

    entailment: Floats
    contradiction: Floats | None
    read: NDArray[np.int64]
    whole: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class EncodedPair:
    """A (premise, hypothesis) pair as an input sequence of the model.

    Attributes:
        window: The input sequence. None if the hypothesis has no token.
        read: The number of characters of the hypothesis in the sequence.
        whole: True if the whole premise is in the sequence.
    """

    window: Window | None
    read: int
    whole: bool


def role_probabilities(logits: Floats, roles: Sequence[Role]) -> dict[Role, Floats]:
    """Convert the logits of a classifier to the probability of each role, such as "entailment" or "contradiction".

    A role is the meaning of a class (`checkpoint.Role`). Several logits give a softmax, and a single logit a sigmoid.
    The probabilities of classes with the same role are added up, and a role without a class has probability 0. If the
    single logit has another role than "entailment", entailment gets the remaining probability.

    *Shape:* `logits` is (pairs, classes), and each result is (pairs,).

    >>> role_probabilities(np.array([[0.0]]), ["unsupported"])["entailment"]
    array([0.5])
    """
    if len(roles) == 1:
        one = np.exp(-np.logaddexp(0.0, -logits[:, 0]))
        zero = np.zeros_like(one)
        return {role: one if role == roles[0] else zero for role in ROLES} | (
            {} if roles[0] == "entailment" else {"entailment": 1.0 - one}
        )
    shifted = np.exp(logits - logits.max(1, keepdims=True))
    classes = shifted / shifted.sum(1, keepdims=True)
    return {role: classes[:, [each == role for each in roles]].sum(1) for role in ROLES}


class CrossEncoder:
    """Computes entailment probabilities of (premise, hypothesis) pairs with a sequence classifier.

    Each text is tokenised once, and pairs are batched by length. A hypothesis may use at most half of the tokens that
    fit into a pair, and its premise gets the rest. Longer texts are truncated, and `PairScores` says which ones.

    Args:
        runner: Runs the classifier.
        roles: The meaning of each of its classes, such as "entailment" (`checkpoint.class_roles`).
        joined: How to join the two texts. "pair" joins them as the tokenizer does, and "single" joins them with one
            separator token and without segment ids (MiniCheck). Any other text is a template with {premise} and
            {hypothesis}, in which special tokens such as "</s>" are written out.
        max_tokens: The maximum number of tokens in a pair. Default: the context length. A model with only relative
            positions (T5, DeBERTa-v3) accepts a larger number.

    Attributes:
        room: The number of tokens that the two texts may have together, after special tokens and template.

    Raises:
        InputError: The classifier and `roles` have different numbers of classes, a decoder has no padding token, or
            too few tokens are left for the two texts.
    """

    def __init__(
        self, runner: PairRunner, roles: Sequence[Role], *, joined: str = "pair", max_tokens: int | None = None
    ) -> None:
        model = runner.model
        config, tokenizer = model.model.config, model.tokenizer
        if config.num_labels != len(roles):
            raise InputError(f"{model.name!r} has {config.num_labels} classes, not {len(roles)}")
        if model.has_weights and kind_of(config) == "causal" and config.pad_token_id is None:
            raise InputError(f"{model.name!r} names no padding token", hint="set pad_token_id in its config.json")
        self.runner = runner
        self.roles = tuple(roles)
        self.form = PairForm.of(model)
        if joined == "single":
            separator = tokenizer.eos_token_id if tokenizer.sep_token_id is None else tokenizer.sep_token_id
            between = self.form.between if separator is None else [separator]
            self.form = replace(self.form, between=between, second_type=0)
        self._template = None if joined in ("pair", "single") else re.split(r"\{premise\}|\{hypothesis\}", joined)
        self._limit = max_tokens or model.max_positions
        if not reads_any_length(config):
            self._limit = min(self._limit, model.max_positions)
        self._around = len(self.form.before) + len(self.form.after)
        if self._template is None:
            self.room = self._limit - self.form.size
        else:
            written = tokenize(tokenizer, "".join(self._template), markup=True).ids
            self.room = self._limit - self._around - len(written)
        if self.room < 8:
            raise InputError(f"{model.name!r} has room for {self.room} tokens", hint="a larger max_tokens")

    def encode(self, pairs: Sequence[tuple[str, str]]) -> Iterator[EncodedPair]:
        """Convert each (premise, hypothesis) pair to an input sequence of the model, and yield them in order."""
        if self._template is not None:
            yield from (self._filled(self._template, *pair) for pair in pairs)
            return
        texts = list(dict.fromkeys(text for pair in pairs for text in pair))
        tokens = dict(zip(texts, tokenize_texts(self.runner.model.tokenizer, texts), strict=True))
        ids = {text: np.array(of_text.ids, dtype=np.int32) for text, of_text in tokens.items()}
        for premise, hypothesis in pairs:
            second = ids[hypothesis][: self.room // 2]
            first = ids[premise][: self.room - len(second)]
            is_cut = len(second) < len(ids[hypothesis])
            yield EncodedPair(
                self.form.window(first, second) if len(second) else None,
                tokens[hypothesis].offsets[len(second)][0] if is_cut else len(hypothesis),
                len(first) == len(ids[premise]),
            )

    def _filled(self, template: Sequence[str], premise: str, hypothesis: str) -> EncodedPair:
        """Put a pair into the template and tokenise it as one text. Long texts are cut at their ends."""
        head, middle, tail = template
        first = Span(len(head), len(head) + len(premise))
        second = Span(first.end + len(middle), first.end + len(middle) + len(hypothesis))
        text = f"{head}{premise}{middle}{hypothesis}{tail}"
        tokens = tokenize(self.runner.model.tokenizer, text, markup=True, literal=(first, second))
        starts, ends = np.array(tokens.offsets, dtype=np.int64).reshape(-1, 2).T
        of_first, of_second = (np.flatnonzero((starts < s.end) & (ends > s.start)) for s in (first, second))
        fixed = len(starts) - len(of_first) - len(of_second)
        room = max(2, self._limit - self._around - fixed)
        count_second = min(len(of_second), room // 2)
        count_first = min(len(of_first), room - count_second)
        cut = of_second[count_second:]
        ids = np.delete(np.array(tokens.ids, dtype=np.int32), [*of_first[count_first:], *cut])
        start = int(of_second[0]) - len(of_first) + count_first if len(of_second) else 0
        ids = np.concatenate([self.form.before, ids, self.form.after]).astype(np.int32)
        window = Window(ids, np.zeros_like(ids), len(self.form.before) + start, 0, count_second)
        return EncodedPair(
            window if count_second else None,
            max(0, int(starts[cut[0]]) - second.start) if len(cut) else len(hypothesis),
            count_first == len(of_first),
        )

    def score(self, pairs: Sequence[tuple[str, str]]) -> PairScores:
        """Compute the probabilities of entailment and contradiction for each (premise, hypothesis) pair.

        Equal pairs are computed only once.
        """
        numbers = {pair: i for i, pair in enumerate(dict.fromkeys(pairs))}
        encoded = self.encode(list(numbers))
        classes = np.full((len(numbers), len(self.roles)), np.nan)
        read, whole = np.zeros(len(numbers), dtype=np.int64), np.zeros(len(numbers), dtype=bool)
        for begin in range(0, len(numbers), _SHARD):
            shard = dict(enumerate(islice(encoded, _SHARD), begin))
            read[begin : begin + len(shard)] = [pair.read for pair in shard.values()]
            whole[begin : begin + len(shard)] = [pair.whole for pair in shard.values()]
            windows = {i: pair.window for i, pair in shard.items() if pair.window is not None}
            for i, states in zip(windows, self.runner.run(list(windows.values())), strict=True):
                classes[i] = states.whole
        back = np.array([numbers[pair] for pair in pairs], dtype=np.int64)
        probabilities = role_probabilities(classes[back], self.roles)
        contradiction = probabilities["contradiction"] if "contradiction" in self.roles else None
        return PairScores(probabilities["entailment"], contradiction, read[back], whole[back])
