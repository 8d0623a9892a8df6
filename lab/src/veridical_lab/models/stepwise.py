"""Build one text with a local causal language model, token by token.

With `Generation`, you choose each token, and can cut the text back to any token. `IncrementalDecoder` finds the
characters of each token.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from veridical.inference.local_model import LocalModel
from veridical.models.cached_forward import CachedForward
from veridical.models.generation import end_token_ids
from veridical.records.errors import InputError
from veridical.records.spans import Span
from veridical.records.types import Case
from veridical_lab.models.encode import encode

if TYPE_CHECKING:
    import torch

_LOGITS_KEPT = 16  # how many tokens one can go back without another forward pass
_CONTEXT = 4  # tokens decoded together with new ones, as some tokenizers strip a text's first space
_SPACES = ("▁", "Ġ", " ")  # a token that is only a space, as vocabularies write it


class IncrementalDecoder:
    """Decodes a list of token ids that grows and shrinks, and finds the characters of each token.

    Tokens that share a character have the same span, and a token without characters has the span None. While a
    character is unfinished, its tokens have no span yet, so `spans` may be shorter than `ids`.

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
        """Decode the tokens of an unfinished character now, without its other tokens."""
        self._decode(final=True)

    def rewind(self, count: int) -> None:
        """Remove all but the first `count` tokens."""
        del self.ids[count:], self._marks[count + 1 :]
        decoded, characters = self._marks[count]
        del self.spans[decoded:]
        self.text = self.text[:characters]

    def _decode(self, *, final: bool) -> None:
        """Decode the tokens without a span, up to an unfinished character. With `final`, decode the character, too."""
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
    """The tokens before a text, whether a space was removed from their end, and notes to report about the prompt."""

    ids: tuple[int, ...]
    space: bool = False
    notes: tuple[str, ...] = ()


def prompt_of(model: LocalModel, case: Case, template: str, max_new_tokens: int) -> TokenPrompt:
    """Build the prompt for a response to `case`, and leave room for `max_new_tokens`.

    If the last token is only a space, it is left out, because models write the space together with the first word.
    Sources that do not fit are cut to their first window.

    Raises:
        InputError: `max_new_tokens` leaves no room for a prompt, or the prompt is empty.
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


class Generation(IncrementalDecoder):
    """Builds a text after a prompt from tokens that you choose.

    The model reads these tokens only when you ask for logits.

    Args:
        model: A causal language model.
        prompt: The tokens before the text.
        after: An earlier generation of the same model, which you no longer use. The beginning that both have in common
            is not read again.

    Attributes:
        ids, text, spans: The token ids of the text so far, the text, and the characters of each token. If a space was
            removed from the end of the prompt, it is not part of the text.
        end_ids: The tokens that end a text.
    """

    def __init__(self, model: LocalModel, prompt: TokenPrompt, *, after: Generation | None = None) -> None:
        super().__init__(model.tokenizer, prompt.ids, strip_space=prompt.space)
        self.model = model
        self.prompt = list(prompt.ids)
        self.end_ids = end_token_ids(model)
        self._forward = CachedForward(model)
        if after is not None and after._forward.shares:
            pairs = zip(prompt.ids[:-1], (*after.prompt, *after.ids), strict=False)
            self._forward = after._forward
            self._forward.crop(sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs)))
            self._forward.passes = 0
        self._logits: dict[int, torch.Tensor] = {}  # by the number of the text's tokens before them

    @property
    def passes(self) -> int:
        """How many forward passes there were so far."""
        return self._forward.passes

    @property
    def pass_start(self) -> int:
        """The index of the token at which the current or next pass begins, below 0 in the prompt."""
        return self._forward.length - len(self.prompt)

    def advance(self) -> None:
        """Let the model read all unread tokens, to get the logits of the next token."""
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
        """Return the logits from which a token was sampled, or None if they are no longer kept."""
        return self._logits.get(token_i)

    def rewind(self, count: int) -> None:
        """Remove all but the first `count` tokens."""
        super().rewind(count)
        self._logits = {n: logits for n, logits in self._logits.items() if n <= count}
        self._forward.crop(len(self.prompt) + count)

    @contextmanager
    def counting_passes(self) -> Iterator[None]:
        """While the context lasts, count the forward passes that other code makes with the model, too."""

        def count(*_: object) -> None:
            self._forward.passes += 1

        with self.model.model.base_model.register_forward_hook(count):
            yield

    def is_space(self, token_i: int) -> bool:
        """Check whether a token is only a space. In some vocabularies, a word or number begins with such a token."""
        return 0 <= token_i < len(self.ids) and _is_space(self.model, self.ids[token_i])

    def token_at(self, character: int) -> int:
        """Return the index of the first token that ends after `character`, or the number of tokens if there is none."""
        return next((i for i, span in enumerate(self.spans) if span and span.end > character), len(self.ids))

    def start_of(self, token_i: int) -> int:
        """Find where a token starts. If it has no characters, take the next token that has, or the end of the text."""
        return next((span.start for span in self.spans[token_i:] if span), len(self.text))
