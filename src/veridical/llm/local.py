"""A chat model in a local folder, run with transformers: one request after another, greedy or sampled with a seed."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from veridical.core.errors import InputError, MissingExtraError
from veridical.core.types import Usage
from veridical.llm.protocol import Failure, Reply, Request, TokenLogprob

__all__ = ["LocalChat"]


class LocalChat:
    """The language model in `folder` (config.json, tokenizer, safetensors), as a chat model.

    Messages go through the tokenizer's chat template where it has one, else line by line as "role: content". `device`
    is "cpu", "cuda" …. A request that does not fit into the model's positions with its `max_tokens` fails with the kind
    "context". Without a seed a sampled request takes one from its own text and its place in the batch, so that the same
    batch gives the same replies. Weights load on the first `chat`.

    Raises `InputError` for a folder that is no such model, `MissingExtraError` without torch or transformers.
    """

    def __init__(self, folder: str | Path, *, device: str = "cpu") -> None:
        self.folder = Path(folder).expanduser()
        self.name = self.folder.name or str(folder)
        self._device = device
        self._loaded: tuple[Any, Any] | None = None
        self._lock = threading.Lock()

    def fingerprint(self) -> dict[str, str]:
        """The model's name, and a hash of its folder and the sizes and dates of its weights."""
        weights = sorted((f.name, f.stat().st_size, f.stat().st_mtime_ns) for f in self.folder.glob("*.safetensors"))
        folder = hashlib.sha256(repr((str(self.folder.resolve()), weights)).encode()).hexdigest()[:16]
        return {"model": self.name, "folder": folder}

    def chat(self, requests: Sequence[Request]) -> list[Reply | Failure]:
        """One reply or failure for each request, in order."""
        return [outcome for _, outcome in self.each(requests)]

    def each(self, requests: Sequence[Request]) -> Iterator[tuple[int, Reply | Failure]]:
        """(index, outcome) as they come, which is in order."""
        for i, request in enumerate(requests):
            with self._lock:
                outcome = self._answer(request, i)
            yield i, outcome

    def _load(self) -> tuple[Any, Any]:
        if self._loaded is None:
            if not (self.folder / "config.json").is_file():
                raise InputError(f"{self.folder} has no config.json", hint="name the folder of a local model")
            try:
                import torch  # noqa: F401
                from transformers import AutoModelForCausalLM, AutoTokenizer
            except ImportError as error:
                raise MissingExtraError("a local chat model", "models") from error
            try:
                tokenizer = AutoTokenizer.from_pretrained(self.folder, local_files_only=True)
                model = AutoModelForCausalLM.from_pretrained(self.folder, local_files_only=True, use_safetensors=True)
            except (OSError, ValueError, KeyError) as error:
                line = str(error).strip().split("\n")[0]
                raise InputError(
                    f"{self.folder} cannot be loaded: {line}", hint="a causal model in safetensors"
                ) from None
            self._loaded = model.train(False).to(self._device), tokenizer
        return self._loaded

    def _answer(self, request: Request, place: int) -> Reply | Failure:
        import torch

        model, tokenizer = self._load()
        asked = self._encode(tokenizer, request)
        positions = getattr(model.config.get_text_config(), "max_position_embeddings", None)
        if positions and len(asked) + request.max_tokens > positions:
            return Failure(
                f"{len(asked)} prompt tokens and {request.max_tokens} for the answer are more than "
                f"{self.name}'s {positions}", "context", False,
            )  # fmt: skip
        ends = _end_ids(model, tokenizer)
        random = torch.Generator(device="cpu").manual_seed(_seed(request, place))
        with torch.inference_mode():
            tokens, finish = _generate(model, tokenizer, asked, request, ends, random)
        text, finish = _text(tokenizer, [i for i, _, _ in tokens], request.stop, finish)
        usage = Usage(1, len(asked), len(tokens), 0.0)
        if not text.strip():
            return Failure("the answer is empty", "empty", False, usage)
        said = None if request.top_logprobs is None else _logprobs(tokenizer, tokens)
        return Reply(text, said, usage, finish)

    def _encode(self, tokenizer: Any, request: Request) -> list[int]:
        messages = [{"role": m.role, "content": m.content} for m in request.messages]
        if tokenizer.chat_template:
            text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
            ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        else:
            text = "".join(f"{m['role']}: {m['content']}\n" for m in messages) + "assistant:"
            ids = tokenizer(text)["input_ids"]
            while ids and ids[-1] == tokenizer.eos_token_id:  # some tokenizers end every text
                ids.pop()
        return list(ids)


Token = tuple[int, float, list[tuple[int, float]]]


def _generate(
    model: Any, tokenizer: Any, asked: list[int], request: Request, ends: set[int], random: Any
) -> tuple[list[Token], str]:
    """The tokens of the answer with their log-probabilities (at temperature 1) and alternatives, and why it ended."""
    import torch

    tokens: list[Token] = []
    read, cache = torch.tensor([asked], device=model.device), None
    for _ in range(request.max_tokens):
        out = model(input_ids=read, past_key_values=cache, use_cache=True)
        cache = out.past_key_values
        logprobs = out.logits[0, -1].float().log_softmax(-1).cpu()
        if request.temperature > 0:
            chances = (logprobs / request.temperature).softmax(-1)
            chosen = int(torch.multinomial(chances, 1, generator=random))
        else:
            chosen = int(logprobs.argmax())
        best = logprobs.topk(min(request.top_logprobs or 0, len(logprobs)))
        top = list(zip(best.indices.tolist(), best.values.tolist(), strict=True))
        if chosen in ends:
            return tokens, "stop"
        tokens.append((chosen, float(logprobs[chosen]), top))
        if request.stop and any(s in tokenizer.decode([i for i, _, _ in tokens]) for s in request.stop):
            return tokens, "stop"
        read = torch.tensor([[chosen]], device=model.device)
    return tokens, "length"


def _text(tokenizer: Any, ids: list[int], stop: tuple[str, ...], finish: str) -> tuple[str, str]:
    """The text, up to the first place where one of `stop` stands."""
    text = tokenizer.decode(ids, skip_special_tokens=True)
    cuts = [at for s in stop if (at := text.find(s)) >= 0]
    return (text[: min(cuts)], "stop") if cuts else (text, finish)


def _logprobs(tokenizer: Any, tokens: list[Token]) -> tuple[TokenLogprob, ...]:
    def text(i: int) -> str:
        return str(tokenizer.decode([i]))

    return tuple(TokenLogprob(text(i), p, tuple((text(j), q) for j, q in top)) for i, p, top in tokens)


def _end_ids(model: Any, tokenizer: Any) -> set[int]:
    given = model.generation_config.eos_token_id if model.generation_config else None
    ids = given if isinstance(given, list) else [given]
    return {i for i in [*ids, tokenizer.eos_token_id] if i is not None}


def _seed(request: Request, place: int) -> int:
    if request.seed is not None:
        return request.seed
    return int.from_bytes(hashlib.sha256(repr((request.messages, place)).encode()).digest()[:4])
