"""Run a chat model from a local folder with transformers.

Requests with equal settings are answered in batches. `veridical.models.generation` generates the answers.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from veridical.inference.chat_template import render_chat
from veridical.inference.local_model import LocalModel
from veridical.inference.tokenization import tokenize
from veridical.io.files import expanded
from veridical.llm.protocol import Failure, Reply, Request, TokenLogprob
from veridical.models.cached_forward import bytes_per_token, shared_beginnings
from veridical.models.generation import Generated, generate
from veridical.models.load import is_gguf, load, out_of_memory
from veridical.models.sampling import Sampler
from veridical.records.errors import CannotJudgeError, InputError
from veridical.records.spans import Span
from veridical.records.types import Usage

_BATCH_TOKENS = {"cpu": 4096}  # prompt tokens read at once in a batch, without shared beginnings
_GPU_TOKENS = 32_768  # the same on a GPU
_CACHE_BYTES = {"cpu": 1 << 30}  # keys and values of a batch: prompts, answers and padding
_GPU_BYTES = 8 << 30  # the same on a GPU
_MOST_PADDING = 2  # most tokens read for a batch, as a multiple of the tokens its prompts take one by one


class LocalChat:
    """Runs a language model from a local folder (config.json, tokenizer, safetensors; or a GGUF file) as a chat model.

    The requests of one `chat` are answered in batches, and a prefix that several prompts share, such as a document, is
    computed only once. Messages are formatted by the tokenizer's chat template, or as lines "role: content" if there is
    no template. Special tokens inside a message are treated as plain text.

    If a prompt and its `max_tokens` together exceed the model's context length, the request fails with the kind
    "context". Sampling without a seed uses a seed made from the request's text and index, so the same requests always
    have the same replies. The weights are loaded on the first `chat`.

    Args:
        folder: The folder of the model, or a file with the extension .gguf.
        device: The device: "auto" (a GPU if there is one), "cpu", "cuda", "cuda:N" or "mps".
        dtype: The precision: "auto" (bf16 if the device computes in it, otherwise fp32), "fp32", "bf16" or "fp16". In
            fp32, a reply does not depend on the batch.

    Raises:
        InputError: The folder contains no such model.
        MissingExtraError: torch or transformers is not installed.
    """

    def __init__(self, folder: str | Path, *, device: str = "auto", dtype: str = "auto") -> None:
        self.folder = expanded(folder)
        self.name = self.folder.name or str(folder)
        self.device = device
        self.dtype = dtype
        self._lock = threading.Lock()

    def fingerprint(self) -> dict[str, str]:
        """Return what identifies the model for the reply cache, as JSON.

        Models with the same fingerprint share stored replies. It contains the name of the model, a hash of the folder's
        path and of the weight files (by name, size and date), and the precision if you set it.
        """
        files = [self.folder] if is_gguf(self.folder) else self.folder.glob("*.safetensors")
        weights = sorted((f.name, f.stat().st_size, f.stat().st_mtime_ns) for f in files)
        folder = hashlib.sha256(repr((str(self.folder.resolve()), weights)).encode()).hexdigest()[:16]
        return {"model": self.name, "folder": folder} | ({} if self.dtype == "auto" else {"dtype": self.dtype})

    def chat(self, requests: Sequence[Request]) -> list[Reply | Failure]:
        """Answer each request with one reply or failure, in order. The first call loads the weights."""
        outcomes = dict(self.each(requests))
        return [outcomes[i] for i in range(len(requests))]

    def each(self, requests: Sequence[Request]) -> Iterator[tuple[int, Reply | Failure]]:
        """Yield the index and the reply or failure of each request, batch by batch as soon as a batch is done.

        The order may differ from that of `requests`.
        """
        with self._lock:
            model = self._load()
        groups: dict[tuple[Any, ...], list[tuple[int, list[int]]]] = {}
        for i, request in enumerate(requests):
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
        """Load the model. Raise `InputError` if the folder contains none."""
        if not is_gguf(self.folder) and not (self.folder / "config.json").is_file():
            raise InputError(f"{self.folder} has no config.json", hint="name the folder of a local model")
        return load(self.folder, device=self.device, dtype=self.dtype)

    def _prompt(self, model: LocalModel, request: Request) -> list[int]:
        """Return the tokens of a request, up to the beginning of the answer."""
        return _prompt(model.tokenizer, request)

    def _generating(self, model: LocalModel) -> AbstractContextManager[Any]:
        """Return the context in which the model generates. Subclasses override this method."""
        return nullcontext()

    def _answer(
        self, model: LocalModel, requests: Sequence[Request], batch: Sequence[tuple[int, list[int]]]
    ) -> list[Reply | Failure]:
        """Answer a batch of pairs (index of a request, prompt). If that fails, split the batch in two."""
        request = requests[batch[0][0]]
        seeds = []
        for i, _ in batch:
            digest = hashlib.sha256(repr((requests[i].messages, i)).encode()).digest()
            seed = requests[i].seed
            seeds.append(int.from_bytes(digest[:4]) if seed is None else seed)
        try:
            with self._generating(model):
                answers = generate(
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
            pairs = zip(batch, answers, strict=True)
            return [_outcome(model.tokenizer, request, len(prompt), answer) for (_, prompt), answer in pairs]
        middle = len(batch) // 2
        return [*self._answer(model, requests, batch[:middle]), *self._answer(model, requests, batch[middle:])]


def _batches(prompts: Sequence[Sequence[int]], limits: Sequence[int], model: LocalModel) -> Iterator[list[int]]:
    """Group prompts into batches, and yield the indices of each batch.

    Long prompts come first, and prompts with a common beginning are neighbours. `limits` says how many tokens each
    answer may have.
    """
    most_read = _BATCH_TOKENS.get(model.device.type, _GPU_TOKENS)
    most_cached = _CACHE_BYTES.get(model.device.type, _GPU_BYTES) // bytes_per_token(model)
    groups = shared_beginnings(prompts)
    groups.sort(key=lambda group: -max(len(prompts[i]) for i in group[0]))
    batch: list[int] = []
    longest = longest_rest = most_new = 0  # of the batch: prompt, prompt without its shared beginning, answer
    for members, common in groups:
        shared = common if len(members) > 1 else 0
        group_rest = max(len(prompts[i]) for i in members) - shared
        # all rows of a batch are read from the column where the longest remainder begins: a long one undoes the sharing
        apart = len(batch) * longest_rest + len(members) * group_rest + shared
        if batch and (len(batch) + len(members)) * max(longest_rest, group_rest) > _MOST_PADDING * apart:
            yield batch
            batch, longest, longest_rest, most_new = [], 0, 0, 0
        for i in members:
            longest, longest_rest = max(longest, len(prompts[i])), max(longest_rest, len(prompts[i]) - shared)
            most_new = max(most_new, limits[i])
            size = len(batch) + 1
            if batch and (size * longest_rest > most_read or size * (longest + most_new) > most_cached):
                yield batch
                batch, longest, longest_rest, most_new = [], len(prompts[i]), len(prompts[i]) - shared, limits[i]
            batch.append(i)
    if batch:
        yield batch


def _prompt(tokenizer: Any, request: Request) -> list[int]:
    """Return the tokens of the messages, up to the beginning of the answer."""
    if tokenizer.chat_template:
        text, contents = render_chat(tokenizer, [(m.role, m.content) for m in request.messages])
        literal = [span for _, span, _ in contents] + [Span(len(text), len(text) + len(request.prefill))]
        return tokenize(tokenizer, text + request.prefill, markup=True, literal=literal).ids
    text = "".join(f"{m.role}: {m.content}\n" for m in request.messages) + "assistant:" + request.prefill
    ids = list(tokenizer(text, split_special_tokens=True)["input_ids"])
    while ids and ids[-1] == tokenizer.eos_token_id:  # some tokenizers end every text
        ids.pop()
    return ids


def _outcome(tokenizer: Any, request: Request, prompt_tokens: int, answer: Generated) -> Reply | Failure:
    """Make the reply from the generated text, up to the first of the request's stop texts."""
    usage = Usage(1, prompt_tokens, len(answer.ids), 0.0)
    stops = [start for stop in request.stop if (start := answer.text.find(stop)) >= 0]
    text = answer.text[: min(stops, default=None)]
    if not text.strip():
        return Failure("the answer is empty", "empty", False, usage)
    tokens = None
    if request.top_logprobs is not None:
        tokens = tuple(
            TokenLogprob(
                str(tokenizer.decode([token])), logprob, tuple((str(tokenizer.decode([i])), p) for i, p in alternatives)
            )
            for token, logprob, alternatives in zip(answer.ids, answer.logprobs, answer.alternatives, strict=True)
        )
    return Reply(text, tokens, usage, "stop" if stops else answer.finish)
