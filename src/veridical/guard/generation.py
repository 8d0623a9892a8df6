"""A text that a local language model writes token by token, with its characters, and that can be cut back to any token.

The cache of keys and values is cropped with it; where a model's cache cannot be, the text is read anew. What was drawn
is read by the model only when its next logits (or its states) are wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from inspect import signature
from typing import TYPE_CHECKING, Any

from veridical.core.errors import CannotJudgeError, InputError
from veridical.core.spans import Span
from veridical.core.types import Case
from veridical.guard.types import Sampling
from veridical.models.encode import encode
from veridical.models.load import LocalModel

if TYPE_CHECKING:
    import torch

__all__ = ["Prompt", "Writer", "prompt_of"]

_LOGITS = 16  # places back whose logits are kept, so that going back to them costs no pass
_CONTEXT = 4  # tokens decoded along, for some tokenizers strip a text's first blank
_BLANKS = ("▁", "Ġ", " ")  # how vocabularies write one


def _is_blank(model: LocalModel, token: int) -> bool:
    return model.tokenizer.convert_ids_to_tokens(token) in _BLANKS


@dataclass(frozen=True, slots=True)
class Prompt:
    """The tokens that a text follows; whether a blank was taken from their end; what is to be said of them."""

    ids: tuple[int, ...]
    blank: bool = False
    notes: tuple[str, ...] = ()


def prompt_of(model: LocalModel, case: Case, template: str, room: int) -> Prompt:
    """What a response to `case` follows; `room` tokens are left for it.

    A last token that is nothing but a blank is left out: models draw it with the first word. Sources that do not fit
    are cut to their first window. Raises `InputError` where nothing is left to read, `CannotJudgeError` as `encode`.
    """
    if room >= model.max_positions:
        raise InputError(
            f"max_new_tokens is {room}, and the model reads {model.max_positions} tokens at once",
            hint="less leaves room for the prompt",
        )
    asked = replace(case, response="")
    made = encode(model, asked, template, max_tokens=model.max_positions - room, max_windows=1)[0]
    if not made.ids:
        raise InputError("the prompt is empty, and the tokenizer has no token that begins a text", hint="give a prompt")
    blank = len(made.ids) > 1 and _is_blank(model, made.ids[-1])
    return Prompt(made.ids[:-1] if blank else made.ids, blank, made.notes)


class Writer:
    """What was written behind `prompt` so far: `ids`, `text`, and the characters `spans` of its decoded tokens.

    Tokens that share a character have one span; those of an unfinished character have none yet, so `spans` may be
    shorter than `ids`. A token that stands for no character has the span None. A blank that was taken from the
    prompt's end is no part of the text. `reading` is the index of the first token that the last pass read, below 0 in
    the prompt; `listeners` are called after each pass.
    """

    def __init__(self, model: LocalModel, prompt: Prompt) -> None:
        self.model = model
        self.prompt = list(prompt.ids)
        self.ids: list[int] = []
        self.spans: list[Span | None] = []
        self.text = ""
        self.passes = 0
        self.reading = 0
        self.listeners: list[Callable[[], None]] = []
        self.ends = _ends(model)
        self._blank = prompt.blank
        self._marks = [(0, 0)]  # after so many tokens: tokens decoded, characters
        self._cache: Any = None
        self._read = 0  # tokens of prompt and text that the cache holds
        self._logits: dict[int, torch.Tensor] = {}  # by the number of tokens before
        last = signature(model.model.forward).parameters
        self._only_last = {"logits_to_keep": 1} if "logits_to_keep" in last else {}

    # --- the model ------------------------------------------------------------------------------------------------

    def advance(self) -> None:
        """Lets the model read what it has not read yet; at least so much that the next logits are known."""
        import torch

        whole = len(self.prompt) + len(self.ids)
        if self._read == whole and len(self.ids) in self._logits:
            return
        self._crop(whole - 1)
        start = self._read
        self.reading = start - len(self.prompt)
        ids = torch.tensor([(self.prompt + self.ids)[start:]], device=self.model.device)
        with torch.inference_mode():
            out = self.model.model(input_ids=ids, past_key_values=self._cache, use_cache=True, **self._only_last)
        self._cache, self._read = out.past_key_values, whole
        self.passes += 1
        logits = out.logits[0, -1].float().cpu()
        if not torch.isfinite(logits.max()):  # the maximum is NaN where any of them is
            raise CannotJudgeError("the model's numbers are not finite", hint="run it in fp32 or bf16")
        count = len(self.ids)
        self._logits = {n: kept for n, kept in self._logits.items() if n > count - _LOGITS}
        self._logits[count] = logits
        for listen in self.listeners:
            listen()

    def logits(self) -> torch.Tensor:
        """Those of the next token, (vocabulary,) in fp32."""
        self.advance()
        return self._logits[len(self.ids)]

    def logits_before(self, token_i: int) -> torch.Tensor | None:
        """Those that the token was drawn from, if they are still known."""
        return self._logits.get(token_i)

    def draw(
        self, sampling: Sampling, random: torch.Generator, *, heat: float, bias: Mapping[int, float]
    ) -> int | None:
        """The next token, with `bias` added to the logits (-inf bans one); None if all are banned.

        `heat` is the temperature.
        """
        import torch

        logits = self.logits().clone()
        for token, more in bias.items():
            logits[token] += more
        if not torch.isfinite(logits.max()):
            return None
        if heat == 0:
            return int(logits.argmax())
        chances = (logits / heat).softmax(-1)
        ranked, order = chances.sort(descending=True, stable=True)
        if sampling.top_k:
            ranked[sampling.top_k :] = 0
        if sampling.top_p < 1:
            ranked[ranked.cumsum(-1) - ranked >= sampling.top_p * ranked.sum()] = 0
        return int(order[torch.multinomial(ranked, 1, generator=random)])

    def count_pass(self, *_: object) -> None:
        """A forward hook that counts passes which something else makes the model do."""
        self.passes += 1

    # --- the text -------------------------------------------------------------------------------------------------

    def append(self, token: int) -> None:
        """One more token at the end."""
        self.ids.append(token)
        self._decode(final=False)
        self._marks.append((len(self.spans), len(self.text)))

    def finish(self) -> None:
        """Gives what is left of an unfinished character its place in the text."""
        self._decode(final=True)

    def rewind(self, count: int) -> None:
        """Cuts everything behind the first `count` tokens."""
        del self.ids[count:], self._marks[count + 1 :]
        decoded, characters = self._marks[count]
        del self.spans[decoded:]
        self.text = self.text[:characters]
        self._logits = {n: kept for n, kept in self._logits.items() if n <= count}
        self._crop(len(self.prompt) + count)

    def is_blank(self, token_i: int) -> bool:
        """Whether the token is a blank and nothing else, with which some vocabularies begin a word or a number."""
        return 0 <= token_i < len(self.ids) and _is_blank(self.model, self.ids[token_i])

    def token_at(self, character: int) -> int:
        """The first token that ends behind `character`; the number of tokens if there is none."""
        found = (i for i, span in enumerate(self.spans) if span and span.end > character)
        return next(found, len(self.ids))

    def start_of(self, token_i: int) -> int:
        """The first character of the token, or of the next one that has any; the end of the text behind the last."""
        return next((span.start for span in self.spans[token_i:] if span), len(self.text))

    def _crop(self, size: int) -> None:
        if self._read <= size:
            return
        try:
            self._cache.crop(size - self._read)  # a negative number is how many tokens to take away
            self._read = size
        except RuntimeError:  # a sliding window has let go of what would be needed
            self._cache, self._read = None, 0

    def _decode(self, *, final: bool) -> None:
        """Gives the tokens that have none yet their characters; part of a character waits for its other tokens."""
        decode = self.model.tokenizer.decode
        while (done := len(self.spans)) < len(self.ids):
            context = (self.prompt[-_CONTEXT:] + self.ids[:done])[-_CONTEXT:]
            known = len(decode(context, skip_special_tokens=True))
            for last in range(done + 1, len(self.ids) + 1):
                new = decode(context + self.ids[done:last], skip_special_tokens=True)[known:]
                if not new.endswith("\ufffd") or (final and last == len(self.ids)):
                    break
            else:
                return
            if self._blank and not self.text:
                new = new.removeprefix(" ")
            span = Span(len(self.text), len(self.text) + len(new)) if new else None
            self.spans += [span] * (last - done)
            self.text += new


def _ends(model: LocalModel) -> frozenset[int]:
    """The tokens that end a text."""
    settings = model.model.generation_config
    given = settings.eos_token_id if settings else None
    ids = given if isinstance(given, list) else [given]
    return frozenset(i for i in [*ids, model.tokenizer.eos_token_id] if i is not None)
