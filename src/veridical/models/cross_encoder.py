"""Pairs of texts through a Hugging Face sequence classifier: does the premise entail the hypothesis?

What a classifier's classes mean is read from the names in its configuration, whoever trained it: entailment, neutral
and contradiction (NLI), supported and unsupported (MiniCheck, FactCC), or one logit of consistency (HHEM-1). An
encoder-decoder's classes are tokens that it writes (MiniCheck on flan-t5).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from veridical.core.errors import InputError
from veridical.core.spans import Span
from veridical.models.encode import special_tokens, tokenize, tokenize_texts
from veridical.models.load import LocalModel, kind_of, reads_any_length
from veridical.models.pair_network import PairRunner
from veridical.models.pairs import PairForm, Window

if TYPE_CHECKING:
    import torch

__all__ = [
    "ROLES",
    "AnswerRunner",
    "CrossEncoder",
    "EncodedPair",
    "PairScores",
    "Role",
    "class_roles",
    "label_names",
    "role_of",
    "role_probabilities",
]

Floats = NDArray[np.float64]
Role = Literal["entailment", "neutral", "contradiction", "unsupported"]
ROLES: tuple[Role, ...] = ("entailment", "neutral", "contradiction", "unsupported")
_SHARD = 4096  # pairs whose windows are held, sorted by length and run together

_CONTRADICTION = re.compile(r"contradict|refut|disprov")
_NEUTRAL = re.compile(r"neutral|unknown|not enough|\bnei\b|unrelated|unverifiable|cannot|can t")
_SUPPORT = re.compile(
    r"(?P<negated>\b(?:not|non|no) ?|un|in|mis)?"
    r"(?P<word>entail|support|consisten|correct|factual|faithful|align|grounded|attributable|true)"
)
_ERROR = re.compile(r"(?P<negated>\b(?:not|non|no) ?)?(?:hallucinat|fabricat|false|wrong)")
_BY_NUMBER = re.compile(r"(?:label|class)?[ _]?\d+")


def role_of(name: str) -> Role | None:
    """What a class of this name stands for, whatever its case and prefixes; None if the name does not say.

    >>> [role_of(name) for name in ("ENTAIL", "not_entailment", "INCORRECT", "Refutes", "LABEL_0")]
    ['entailment', 'unsupported', 'unsupported', 'contradiction', None]
    """
    plain = re.sub(r"[^a-z]+", " ", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()).strip()
    if _CONTRADICTION.search(plain):
        return "contradiction"
    if _NEUTRAL.search(plain):
        return "neutral"
    for pattern, meaning, negation in ((_ERROR, ROLES[3], ROLES[0]), (_SUPPORT, ROLES[0], ROLES[3])):
        if match := pattern.search(plain):
            return negation if match["negated"] else meaning
    return None


def label_names(config: Mapping[str, Any]) -> list[str]:
    """The names of a checkpoint's classes, in order; those that its configuration leaves out are LABEL_0, LABEL_1 …"""
    named = config.get("id2label")
    if isinstance(named, Mapping) and named and all(str(key).isdecimal() for key in named):
        return [str(named[key]) for key in sorted(named, key=int)]
    count = config.get("num_labels")
    return [f"LABEL_{i}" for i in range(count if isinstance(count, int) and 0 < count < 1000 else 2)]


def class_roles(names: Sequence[str], given: str | None, place: object) -> tuple[Role, ...]:
    """What each class of a classifier stands for.

    Without names, one class is the probability of consistency and of two classes the second is the supported one (as
    in MiniCheck).

    Args:
        names: The names of its classes, in order (`label_names`).
        given: The user's names for them, separated by "|"; None: the classifier's own.
        place: What is read, for the message.

    Raises:
        InputError: If the names do not say which class is which.

    >>> class_roles(["CORRECT", "INCORRECT"], None, "here")
    ('entailment', 'unsupported')
    """
    wanted = names if given is None else [part.strip() for part in given.split("|")]
    if len(wanted) != len(names):
        raise InputError(f"labels names {len(wanted)} classes, {place} has {len(names)}", hint="one name per class")
    roles = [role_of(name) for name in wanted]
    if given is None and all(_BY_NUMBER.fullmatch(name.lower()) for name in names) and len(names) <= 2:
        return ("entailment",) if len(names) == 1 else ("unsupported", "entailment")
    clear = None not in roles and (given is not None or len(set(roles)) == len(roles))
    if not clear or not ("entailment" in roles or len(roles) == 1):
        listed = ", ".join(wanted[:8]) + (" …" if len(wanted) > 8 else "")
        raise InputError(
            f"the classes of {place} are called {listed}, which does not say what they stand for",
            hint=f"say it in their order: labels=contradiction|neutral|entailment (also: {ROLES[-1]})",
        )
    return tuple(role for role in roles if role is not None)


@dataclass(frozen=True, slots=True, eq=False)
class PairScores:
    """What a model says of each pair; each array has the shape (pairs,).

    Attributes:
        entailment: P(the premise entails the hypothesis) in [0, 1]; NaN where there is nothing to read.
        contradiction: P(it contradicts it); None where the model does not tell this from mere absence.
        read: How many characters of the hypothesis the model read: all but where it is too long.
        whole: Whether it read all of the premise.
    """

    entailment: Floats
    contradiction: Floats | None
    read: NDArray[np.int64]
    whole: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class EncodedPair:
    """A pair for the model; `window` is None where the hypothesis has no token. The rest is as in `PairScores`."""

    window: Window | None
    read: int
    whole: bool


def role_probabilities(logits: Floats, roles: Sequence[Role]) -> dict[Role, Floats]:
    """The probability of each role, (pairs,), from logits (pairs, classes): softmax, or the sigmoid of a single one.

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


class AnswerRunner(PairRunner):
    """Runs an encoder-decoder that answers with a label: its classes are tokens, as the first one that it writes.

    Args:
        model: A model of the kind "seq2seq".
        answers: The token of each class.
        max_batch_tokens: As for `PairRunner`.

    Raises:
        InputError: If the tokenizer has no such tokens.
    """

    def __init__(self, model: LocalModel, answers: Sequence[str], *, max_batch_tokens: int | None = None) -> None:
        super().__init__(model, max_batch_tokens=max_batch_tokens)
        vocabulary = model.tokenizer.get_vocab()
        if not set(answers) <= vocabulary.keys():
            raise InputError(
                f"the tokenizer of {model.name!r} has no token {' or '.join(map(repr, answers))}",
                hint="the checkpoint's own tokenizer is needed",
            )
        self._answers = [vocabulary[answer] for answer in answers]

    def forward(self, rows: Sequence[Sequence[Window]]) -> tuple[torch.Tensor, list[list[int]]]:
        """As `PairRunner.forward`; the logits of the answers, (rows, 1, answers)."""
        import torch

        inputs, starts = self.inputs(rows)
        device = self.model.device
        tensors = {name: torch.from_numpy(array).to(device) for name, array in inputs.items()}
        begin = (special_tokens(self.model).decoder or (0,))[:1]
        written = torch.tensor([begin] * len(rows), device=device)
        logits = self.model.model(**tensors, decoder_input_ids=written, use_cache=False).logits
        return logits[:, :, self._answers], starts


class CrossEncoder:
    """Scores pairs with a sequence classifier: each text tokenised once, pairs run in batches by length.

    A hypothesis gets at most half of what the model reads, its premise the rest; what is cut is reported.

    Args:
        runner: Runs a model of the kind "classifier".
        roles: What its classes stand for (`class_roles`).
        joined: "pair": as the tokenizer joins two texts. "single": with one separator and no segments (MiniCheck). Else
            a template with {premise} and {hypothesis}, in which special tokens are written out.
        max_tokens: The most tokens of a pair; None: as many as the model has positions. It may be more for a model
            that knows only distances (T5, DeBERTa-v3).

    Raises:
        InputError: If the classifier has another number of classes, or cannot be run in batches.
    """

    def __init__(
        self,
        runner: PairRunner,
        roles: Sequence[Role],
        *,
        joined: str = "pair",
        max_tokens: int | None = None,
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
        self.template = None if joined in ("pair", "single") else re.split(r"\{premise\}|\{hypothesis\}", joined)
        self.limit = max_tokens or model.max_positions
        if not reads_any_length(config):
            self.limit = min(self.limit, model.max_positions)
        self.room = self.limit - self.form.size
        if self.template is not None:
            around = len(self.form.before) + len(self.form.after)
            self.room = self.limit - around - len(tokenize(tokenizer, "".join(self.template), markup=True).ids)
        if self.room < 8:
            raise InputError(f"{model.name!r} has room for {self.room} tokens", hint="a larger max_tokens")

    def encode(self, pairs: Sequence[tuple[str, str]]) -> Iterator[EncodedPair]:
        """Each (premise, hypothesis) pair as a window, in order; without a template each text is tokenised once."""
        if self.template is not None:
            yield from (self._filled(self.template, *pair) for pair in pairs)
            return
        texts = list(dict.fromkeys(text for pair in pairs for text in pair))
        tokens = dict(zip(texts, tokenize_texts(self.runner.model.tokenizer, texts), strict=True))
        ids = {text: np.array(found.ids, dtype=np.int32) for text, found in tokens.items()}
        for premise, hypothesis in pairs:
            second = ids[hypothesis][: self.room // 2]
            first = ids[premise][: self.room - len(second)]
            cut = len(second) < len(ids[hypothesis])
            yield EncodedPair(
                self.form.window(first, second) if len(second) else None,
                tokens[hypothesis].offsets[len(second)][0] if cut else len(hypothesis),
                len(first) == len(ids[premise]),
            )

    def _filled(self, template: Sequence[str], premise: str, hypothesis: str) -> EncodedPair:
        """A pair in the template, tokenised as one text; what is cut is the end of the premise or the hypothesis."""
        head, middle, tail = template
        first = Span(len(head), len(head) + len(premise))
        second = Span(first.end + len(middle), first.end + len(middle) + len(hypothesis))
        text = f"{head}{premise}{middle}{hypothesis}{tail}"
        tokens = tokenize(self.runner.model.tokenizer, text, markup=True, literal=(first, second))
        starts, ends = np.array(tokens.offsets, dtype=np.int64).reshape(-1, 2).T
        of_first, of_second = (np.flatnonzero((starts < s.end) & (ends > s.start)) for s in (first, second))
        fixed = len(starts) - len(of_first) - len(of_second)
        room = max(2, self.limit - len(self.form.before) - len(self.form.after) - fixed)
        kept_second = of_second[: room // 2]
        kept_first = of_first[: room - len(kept_second)]
        cut = of_second[len(kept_second) :]
        ids = np.delete(np.array(tokens.ids, dtype=np.int32), [*of_first[len(kept_first) :], *cut])
        start = int(of_second[0]) - len(of_first) + len(kept_first) if len(of_second) else 0
        ids = np.concatenate([self.form.before, ids, self.form.after]).astype(np.int32)
        window = Window(ids, np.zeros_like(ids), len(self.form.before) + start, 0, len(kept_second))
        return EncodedPair(
            window if len(kept_second) else None,
            max(0, int(starts[cut[0]]) - second.start) if len(cut) else len(hypothesis),
            len(kept_first) == len(of_first),
        )

    def score(self, pairs: Sequence[tuple[str, str]]) -> PairScores:
        """The probabilities for (premise, hypothesis) pairs; equal pairs are run once."""
        places = {pair: i for i, pair in enumerate(dict.fromkeys(pairs))}
        encoded = self.encode(list(places))
        classes: list[Floats] = []
        read: list[int] = []
        whole: list[bool] = []
        while shard := list(islice(encoded, _SHARD)):
            windows = [each.window for each in shard if each.window is not None]
            logits = iter(self.runner.run(windows))
            nothing = np.full(len(self.roles), np.nan)
            classes += [nothing if each.window is None else next(logits).whole.astype(np.float64) for each in shard]
            read += [each.read for each in shard]
            whole += [each.whole for each in shard]
        back = np.array([places[pair] for pair in pairs], dtype=np.int64)
        found = np.array(classes, dtype=np.float64).reshape(-1, len(self.roles))[back]
        probabilities = role_probabilities(found, self.roles)
        contradiction = probabilities["contradiction"] if "contradiction" in self.roles else None
        seen = np.array(read, dtype=np.int64)[back], np.array(whole, dtype=bool)[back]
        return PairScores(probabilities["entailment"], contradiction, *seen)
