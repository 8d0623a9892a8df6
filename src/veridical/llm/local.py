"""A chat model in a local folder, run with transformers: requests of equal settings in batches, greedy or sampled."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from veridical.core.errors import CannotJudgeError, InputError
from veridical.core.spans import Span
from veridical.core.types import Usage
from veridical.llm.protocol import Failure, Reply, Request, TokenLogprob
from veridical.models.cached_forward import bytes_per_token, shared_beginnings
from veridical.models.encode import tokenize
from veridical.models.generation import Generated, generate
from veridical.models.load import LocalModel, is_gguf, load, out_of_memory
from veridical.models.sampling import Sampler
from veridical.models.template import render_chat

__all__ = ["LocalChat"]

_BATCH_TOKENS = {"cpu": 4096}  # of all prompts of a batch, without what they share, read at once
_GPU_TOKENS = 32_768  # the same on a GPU
_CACHE_BYTES = {"cpu": 1 << 30}  # keys and values of a batch: of prompts, answers and padding
_GPU_BYTES = 8 << 30  # the same on a GPU
_MOST_PADDING = 2  # times the tokens that prompts take apart are read together at most


class LocalChat:
    """The language model in `folder` (config.json, tokenizer, safetensors; or a GGUF file), as a chat model.

    The requests of one `chat` are answered in batches, and what their messages have in common at the beginning (the
    document) is read once. Messages go through the tokenizer's chat template where it has one, else line by line as
    "role: content". Special tokens written in a message are plain text. A request that does not fit into the model's
    positions together with its `max_tokens` fails with the kind "context". Without a seed a sampled request takes one
    from its own text and its place among the requests, so that the same requests give the same replies. Weights load on
    the first `chat`.

    Args:
        folder: Where the model is: a folder, or a file that ends in .gguf.
        device: "auto" (a GPU where there is one), "cpu", "cuda", "cuda:N" or "mps".
        dtype: "auto" (bf16 where the device computes in it, else fp32), "fp32", "bf16" or "fp16". In fp32 a reply does
            not depend on the batch.

    Raises:
        InputError: For a folder without such a model.
        MissingExtraError: Without torch or transformers.
    """

    def __init__(self, folder: str | Path, *, device: str = "auto", dtype: str = "auto") -> None:
        self.folder = Path(folder).expanduser()
        self.name = self.folder.name or str(folder)
        self.device = device
        self.dtype = dtype
        self._lock = threading.Lock()

    def fingerprint(self) -> dict[str, str]:
        """The model's name, a hash of its folder and the sizes and dates of its weights, and the precision if named."""
        files = [self.folder] if is_gguf(self.folder) else self.folder.glob("*.safetensors")
        weights = sorted((f.name, f.stat().st_size, f.stat().st_mtime_ns) for f in files)
        folder = hashlib.sha256(repr((str(self.folder.resolve()), weights)).encode()).hexdigest()[:16]
        return {"model": self.name, "folder": folder} | ({} if self.dtype == "auto" else {"dtype": self.dtype})

    def chat(self, requests: Sequence[Request]) -> list[Reply | Failure]:
        """Return one reply or failure for each request, in order."""
        outcomes = dict(self.each(requests))
        return [outcomes[i] for i in range(len(requests))]

    def each(self, requests: Sequence[Request]) -> Iterator[tuple[int, Reply | Failure]]:
        """Yield (index, outcome) as they come: batch by batch."""
        with self._lock:
            model = self._load()
        groups: dict[tuple[Any, ...], list[tuple[int, list[int]]]] = {}
        for i, request in enumerate(requests):
            if request.continuation is not None:
                yield i, Failure("a model in a local folder does not score a given text", "unsupported", False)
                continue
            try:
                prompt = self._prompt(model, request)
            except InputError as error:
                yield i, Failure(error.message, "rejected", False)
                continue
            if len(prompt) + request.max_tokens > model.max_positions:
                reason = (
                    f"{len(prompt)} prompt tokens and {request.max_tokens} for the answer are more than "
                    f"{self.name}'s {model.max_positions}"
                )
                yield i, Failure(reason, "context", False)
                continue
            settings = (request.temperature, request.top_logprobs, request.stop)
            groups.setdefault(settings, []).append((i, prompt))
        for group in groups.values():
            limits = [requests[i].max_tokens for i, _ in group]
            for members in _batches([prompt for _, prompt in group], limits, model):
                batch = [group[member] for member in members]
                with self._lock:
                    outcomes = self._answer(model, requests, batch)
                yield from zip((i for i, _ in batch), outcomes, strict=True)

    def _load(self) -> LocalModel:
        """The model; `InputError` for a folder without one."""
        if not is_gguf(self.folder) and not (self.folder / "config.json").is_file():
            raise InputError(f"{self.folder} has no config.json", hint="name the folder of a local model")
        return load(self.folder, device=self.device, dtype=self.dtype)

    def _prompt(self, model: LocalModel, request: Request) -> list[int]:
        """The tokens of a request, up to where the answer begins."""
        return _prompt(model.tokenizer, request)

    def _generating(self, model: LocalModel) -> AbstractContextManager[Any]:
        """What lasts while the model generates."""
        return nullcontext()

    def _answer(
        self, model: LocalModel, requests: Sequence[Request], batch: Sequence[tuple[int, list[int]]]
    ) -> list[Reply | Failure]:
        """The outcome of each (index of a request, prompt); half as many at a time where the batch fails."""
        request = requests[batch[0][0]]
        seeds = []
        for i, _ in batch:
            digest = hashlib.sha256(repr((requests[i].messages, i)).encode()).digest()
            seed = requests[i].seed
            seeds.append(int.from_bytes(digest[:4]) if seed is None else seed)
        try:
            with self._generating(model):
                texts = generate(
                    model,
                    [prompt for _, prompt in batch],
                    Sampler(seeds, temperature=request.temperature, device=model.device),
                    max_tokens=[requests[i].max_tokens for i, _ in batch],
                    is_complete=(lambda text: any(s in text for s in request.stop)) if request.stop else None,
                    alternatives=request.top_logprobs,
                )
        except (RuntimeError, MemoryError, CannotJudgeError) as error:
            if not isinstance(error, CannotJudgeError) and not out_of_memory(error):
                raise
            if len(batch) == 1:
                kind = "malformed" if isinstance(error, CannotJudgeError) else "context"
                return [Failure(str(error).partition("\n")[0], kind, False)]
        else:
            pairs = zip(batch, texts, strict=True)
            return [_outcome(model.tokenizer, request, len(prompt), text) for (_, prompt), text in pairs]
        middle = len(batch) // 2
        return [*self._answer(model, requests, batch[:middle]), *self._answer(model, requests, batch[middle:])]


def _batches(prompts: Sequence[Sequence[int]], limits: Sequence[int], model: LocalModel) -> Iterator[list[int]]:
    """The indices of prompts to answer together, the longest first, those with a common beginning side by side.

    `limits` are the most tokens of each answer.
    """
    most_read = _BATCH_TOKENS.get(model.device.type, _GPU_TOKENS)
    most_kept = _CACHE_BYTES.get(model.device.type, _GPU_BYTES) // bytes_per_token(model)
    groups = shared_beginnings(prompts)
    groups.sort(key=lambda group: -max(len(prompts[i]) for i in group[0]))
    batch: list[int] = []
    longest = rest = most = 0
    for members, common in groups:
        shared = common if len(members) > 1 else 0
        own = max(len(prompts[i]) for i in members) - shared
        # every row is read as far back as the longest remainder goes: beside it a shared beginning is not shared
        apart = len(batch) * rest + len(members) * own + shared
        if batch and (len(batch) + len(members)) * max(rest, own) > _MOST_PADDING * apart:
            yield batch
            batch, longest, rest, most = [], 0, 0, 0
        for i in members:
            longest, rest = max(longest, len(prompts[i])), max(rest, len(prompts[i]) - shared)
            most = max(most, limits[i])
            size = len(batch) + 1
            if batch and (size * rest > most_read or size * (longest + most) > most_kept):
                yield batch
                batch, longest, rest, most = [], len(prompts[i]), len(prompts[i]) - shared, limits[i]
            batch.append(i)
    if batch:
        yield batch


def _prompt(tokenizer: Any, request: Request) -> list[int]:
    """The tokens of the messages, up to where the answer begins."""
    if tokenizer.chat_template:
        text, places = render_chat(tokenizer, [(m.role, m.content) for m in request.messages])
        literal = [span for _, span, _ in places] + [Span(len(text), len(text) + len(request.prefill))]
        return tokenize(tokenizer, text + request.prefill, markup=True, literal=literal).ids
    text = "".join(f"{m.role}: {m.content}\n" for m in request.messages) + "assistant:" + request.prefill
    ids = list(tokenizer(text, split_special_tokens=True)["input_ids"])
    while ids and ids[-1] == tokenizer.eos_token_id:  # some tokenizers end every text
        ids.pop()
    return ids


def _outcome(tokenizer: Any, request: Request, prompt_tokens: int, text: Generated) -> Reply | Failure:
    """The reply: the text up to the first of the request's stop texts."""
    usage = Usage(1, prompt_tokens, len(text.ids), 0.0)
    cuts = [at for stop in request.stop if (at := text.text.find(stop)) >= 0]
    answer = text.text[: min(cuts, default=None)]
    if not answer.strip():
        return Failure("the answer is empty", "empty", False, usage)
    tokens = None
    if request.top_logprobs is not None:
        tokens = tuple(
            TokenLogprob(
                str(tokenizer.decode([token])), logprob, tuple((str(tokenizer.decode([i])), p) for i, p in alternatives)
            )
            for token, logprob, alternatives in zip(text.ids, text.logprobs, text.alternatives, strict=True)
        )
    return Reply(answer, tokens, usage, "stop" if cuts else text.finish)
