"""Generate text with a local causal language model.

`generate` writes one text after each of many prompts. With `Generation`, a caller chooses each token of one text, and
can cut the text back to any token. `IncrementalDecoder` gives the characters of each token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Literal

from veridical.inference.local_model import LocalModel
from veridical.models.cached_forward import CachedForward, read_prompts
from veridical.models.encode import encode
from veridical.models.language_head import unrounded
from veridical.models.sampling import Sampler
from veridical.records.errors import InputError
from veridical.records.spans import Span
from veridical.records.types import Case

if TYPE_CHECKING:
    import torch

__all__ = [
    "Generated",
    "Generation",
    "IncrementalDecoder",
    "TokenPrompt",
    "end_token_ids",
    "generate",
    "prompt_of",
]

_LOGITS_KEPT = 16  # how many tokens one can go back without another forward pass
_CONTEXT = 4  # tokens decoded together with new ones, as some tokenizers strip a text's first space
_SPACES = ("▁", "Ġ", " ")  # a token that is only a space, as vocabularies write it


def end_token_ids(model: LocalModel) -> frozenset[int]:
    """Return the tokens with which `model` ends a text."""
    config = model.model.generation_config
    named = config.eos_token_id if config else None
    ids = named if isinstance(named, list) else [named]
    return frozenset(i for i in (*ids, model.tokenizer.eos_token_id) if i is not None)


class IncrementalDecoder:
    """Decodes a growing and shrinking list of token ids, and finds the characters of each token.

    Tokens that share a character have the same span. Tokens of an unfinished character have no span yet, so `spans` may
    be shorter than `ids`. A token without characters has the span None.

    Args:
        tokenizer: The tokenizer of the model.
        context: The tokens before the text.
        strip_space: Whether to drop a space at the beginning of the text.
    """

    def __init__(self, tokenizer: Any, context: Sequence[int] = (), *, strip_space: bool = False) -> None:
        self.ids: list[int] = []
        self.spans: list[Span | None] = []
        self.text = ""
        self._decode_ids = tokenizer.decode
        self._context = list(context[-_CONTEXT:])
        self._strip_space = strip_space
        self._marks = [(0, 0)]  # (number of spans, number of characters) after each number of tokens

    def append(self, token: int) -> None:
        """Add one token."""
        self.ids.append(token)
        self._decode(final=False)
        self._marks.append((len(self.spans), len(self.text)))

    def finish(self) -> None:
        """Decode the tokens of an unfinished character as they are."""
        self._decode(final=True)

    def rewind(self, count: int) -> None:
        """Remove all but the first `count` tokens."""
        del self.ids[count:], self._marks[count + 1 :]
        decoded, characters = self._marks[count]
        del self.spans[decoded:]
        self.text = self.text[:characters]

    def _decode(self, *, final: bool) -> None:
        """Decode the tokens that have no span yet, up to an unfinished character; with `final`, decode that, too."""
        while (done := len(self.spans)) < len(self.ids):
            context = (self._context + self.ids[max(0, done - _CONTEXT) : done])[-_CONTEXT:]
            context_size = len(self._decode_ids(context, skip_special_tokens=True))
            for last in range(done + 1, len(self.ids) + 1):
                new = self._decode_ids(context + self.ids[done:last], skip_special_tokens=True)[context_size:]
                if not new.endswith("\ufffd") or (final and last == len(self.ids)):
                    break
            else:
                return  # the character is not complete yet
            if self._strip_space and not self.text:
                new = new.removeprefix(" ")
            span = Span(len(self.text), len(self.text) + len(new)) if new else None
            self.spans += [span] * (last - done)
            self.text += new


@dataclass(frozen=True, slots=True)
class TokenPrompt:
    """The tokens before a text, whether a space was removed from their end, and notes about them to report."""

    ids: tuple[int, ...]
    space: bool = False
    notes: tuple[str, ...] = ()


def prompt_of(model: LocalModel, case: Case, template: str, max_new_tokens: int) -> TokenPrompt:
    """Return the prompt for a response to `case`, which leaves room for `max_new_tokens`.

    A final token that is only a space is left out, because models write the space together with the first word. Sources
    that do not fit are cut to their first window.

    Raises:
        InputError: No token is left for the prompt.
        CannotJudgeError: The case cannot be encoded (`encode`).
    """
    if max_new_tokens >= model.max_positions:
        raise InputError(
            f"max_new_tokens is {max_new_tokens}, and the model reads {model.max_positions} tokens at once",
            hint="less leaves room for the prompt",
        )
    (window, *_) = encode(
        model, replace(case, response=""), template, max_tokens=model.max_positions - max_new_tokens, max_windows=1
    )
    if not window.ids:
        raise InputError("the prompt is empty, and the tokenizer has no token that begins a text", hint="give a prompt")
    space = len(window.ids) > 1 and _is_space(model, window.ids[-1])
    return TokenPrompt(window.ids[:-1] if space else window.ids, space, window.notes)


def _is_space(model: LocalModel, token: int) -> bool:
    """Check whether a token of the vocabulary is only a space."""
    return model.tokenizer.convert_ids_to_tokens(token) in _SPACES


class Generation:
    """Builds a text after a prompt from tokens that the caller chooses.

    The model reads them when their logits are needed.

    Args:
        model: A causal language model.
        prompt: The tokens before the text.
        after: An earlier generation of the same model that is no longer used. The beginning that both have in common is
            not read again.

    Attributes:
        ids, text, spans: The text so far, as in `IncrementalDecoder`. A space that was removed from the prompt's end
            does not belong to it.
        end_ids: The tokens that end a text.
    """

    def __init__(self, model: LocalModel, prompt: TokenPrompt, *, after: Generation | None = None) -> None:
        self.model = model
        self.prompt = list(prompt.ids)
        self.end_ids = end_token_ids(model)
        self._decoder = IncrementalDecoder(model.tokenizer, prompt.ids, strip_space=prompt.space)
        self._forward = CachedForward(model)
        if after is not None and after._forward.shares:
            pairs = zip(prompt.ids[:-1], (*after.prompt, *after.ids), strict=False)
            self._forward = after._forward
            self._forward.crop(sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs)))
            self._forward.passes = 0
        self._logits: dict[int, torch.Tensor] = {}  # by the number of the text's tokens before them
        self.append, self.finish = self._decoder.append, self._decoder.finish

    @property
    def ids(self) -> list[int]:
        """The token ids of the text."""
        return self._decoder.ids

    @property
    def text(self) -> str:
        """The text."""
        return self._decoder.text

    @property
    def spans(self) -> list[Span | None]:
        """The characters of each token."""
        return self._decoder.spans

    @property
    def passes(self) -> int:
        """Forward passes so far."""
        return self._forward.passes

    @property
    def pass_start(self) -> int:
        """The index of the token at which the current pass begins, or the next pass. It is below 0 in the prompt."""
        return self._forward.length - len(self.prompt)

    def advance(self) -> None:
        """Let the model read all unread tokens, so that the logits of the next token are known."""
        import torch

        count = len(self.ids)
        size = len(self.prompt) + count
        if self._forward.length == size and count in self._logits:
            return
        self._forward.crop(size - 1)
        unread = [*self.prompt[self._forward.length :], *self.ids[max(0, self.pass_start) :]]
        logits = self._forward(torch.tensor([unread], device=self.model.device))[0]
        self._logits = {n: earlier for n, earlier in self._logits.items() if n > count - _LOGITS_KEPT}
        self._logits[count] = logits

    def logits(self) -> torch.Tensor:
        """Return the logits of the next token, *shape* (vocabulary,) in fp32."""
        self.advance()
        return self._logits[len(self.ids)]

    def logits_before(self, token_i: int) -> torch.Tensor | None:
        """Return the logits from which a token was sampled, or None if they are no longer known."""
        return self._logits.get(token_i)

    def rewind(self, count: int) -> None:
        """Remove all but the first `count` tokens."""
        self._decoder.rewind(count)
        self._logits = {n: logits for n, logits in self._logits.items() if n <= count}
        self._forward.crop(len(self.prompt) + count)

    @contextmanager
    def counting_passes(self) -> Iterator[None]:
        """Count the forward passes that other code makes with the model, while the context lasts."""

        def count(*_: object) -> None:
            self._forward.passes += 1

        hook = self.model.model.base_model.register_forward_hook(count)
        try:
            yield
        finally:
            hook.remove()

    def is_space(self, token_i: int) -> bool:
        """Check whether a token is only a space, with which some vocabularies begin a word or a number."""
        return 0 <= token_i < len(self.ids) and _is_space(self.model, self.ids[token_i])

    def token_at(self, character: int) -> int:
        """Return the index of the first token that ends after `character`, or the number of tokens."""
        return next((i for i, span in enumerate(self.spans) if span and span.end > character), len(self.ids))

    def start_of(self, token_i: int) -> int:
        """Return the first character of a token, or of the next token with characters, or the length of the text."""
        return next((span.start for span in self.spans[token_i:] if span), len(self.text))


@dataclass(slots=True)
class Generated:
    """A text that a model wrote.

    Attributes:
        ids: The token ids of the text, without the end token.
        finish: Why the text ended: "stop" (an end token, or complete by the caller's definition) or "length".
        logprobs: The log-probability of each token at temperature 1, if requested.
        alternatives: The most probable (token, log-probability) pairs in the place of each token, if requested.
        text: The decoded text.
    """

    ids: list[int] = field(default_factory=list)
    finish: Literal["stop", "length", ""] = ""
    logprobs: list[float] = field(default_factory=list)
    alternatives: list[list[tuple[int, float]]] = field(default_factory=list)
    text: str = ""


def generate(
    model: LocalModel,
    prompts: Sequence[Sequence[int]],
    sampler: Sampler,
    *,
    max_tokens: int | Sequence[int] = 64,
    is_complete: Callable[[str], bool] | None = None,
    alternatives: int | None = None,
) -> list[Generated]:
    """Write one text after each prompt, all in one batch. No text depends on the other prompts.

    Prompts that begin alike share one pass over their beginning. A finished text leaves the batch.

    Args:
        model: A causal language model.
        prompts: The token ids of each prompt. No prompt may be empty.
        sampler: A sampler with one seed for each prompt.
        max_tokens: The largest number of tokens in a text, at least 1. A sequence gives each text its own limit.
        is_complete: A function that tells whether a text is complete. It is called after each token.
        alternatives: The number of most probable tokens to report in the place of each token. 0 reports only the
            log-probabilities of the tokens themselves, and None reports nothing.

    Raises:
        InputError: Prompt and text do not fit into the model's positions.
        CannotJudgeError: The model's logits are not finite.
    """
    import torch

    limits = [max_tokens] * len(prompts) if isinstance(max_tokens, int) else max_tokens
    for prompt, limit in zip(prompts, limits, strict=True):
        if limit < 1 or len(prompt) + limit > model.max_positions:
            raise InputError(
                f"a prompt of {len(prompt)} tokens and {limit} new ones; {model.name} reads {model.max_positions}",
                hint="ask for at least one new token, and for no more than fit behind the prompt",
            )
    if not prompts:
        return []
    end_ids, decode = end_token_ids(model), model.tokenizer.decode
    texts = [Generated() for _ in prompts]
    active = list(range(len(prompts)))
    forward = CachedForward(model)
    logits, mask = read_prompts(forward, prompts)
    while True:
        tokens = sampler.sample(logits, rows=active)
        rows = [texts[i] for i in active]
        if alternatives is not None:
            _report(rows, tokens, forward, logits, alternatives)
        for i, row, token in zip(active, rows, tokens, strict=True):
            if token in end_ids:
                row.finish = "stop"
                continue
            row.ids.append(token)
            if is_complete and is_complete(decode(row.ids, skip_special_tokens=True)):
                row.finish = "stop"
            elif len(row.ids) == limits[i]:
                row.finish = "length"
        unfinished = [n for n, row in enumerate(rows) if not row.finish]
        if not unfinished:
            break
        if len(unfinished) < len(rows):
            mask = forward.keep_rows(unfinished, mask)
            active = [active[n] for n in unfinished]
        if mask is not None:
            mask = torch.nn.functional.pad(mask, (0, 1), value=1)
        logits = forward(torch.tensor([[tokens[n]] for n in unfinished], device=model.device), mask)
    for row in texts:
        row.text = decode(row.ids, skip_special_tokens=True)
        del row.logprobs[len(row.ids) :], row.alternatives[len(row.ids) :]
    return texts


def _report(
    rows: Sequence[Generated], tokens: Sequence[int], forward: CachedForward, logits: torch.Tensor, alternatives: int
) -> None:
    """Add to each row the log-probability of its new token, and the most probable tokens with theirs."""
    import torch

    sampled = torch.tensor(tokens, device=logits.device)[:, None]
    count = min(alternatives, logits.shape[-1])
    if forward.states is not None:  # recompute more tokens than requested: unrounded, their order may change
        near = logits.topk(min(2 * count, logits.shape[-1])).indices
        near = torch.cat([sampled, near], -1)
        logits = logits.scatter(1, near, unrounded(forward.model, forward.states, logits, near))
    logprobs = logits.log_softmax(-1)
    of_sampled = logprobs.gather(1, sampled)[:, 0].tolist()
    values, indices = (part.tolist() for part in logprobs.topk(count))
    for row, logprob, best_ids, best_logprobs in zip(rows, of_sampled, indices, values, strict=True):
        row.logprobs.append(logprob)
        row.alternatives.append(list(zip(best_ids, best_logprobs, strict=True)))
