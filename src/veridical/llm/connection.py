"""Find chat models by name, on a server, in a local folder, or in a script. All share one budget and one cache.

A `Connection` gets its settings from the command line and from a detector's spec
(`judge:cot,model=NAME,base_url=URL`). It reads keys from the environment, so there is no option for a key.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, get_args, get_type_hints

from veridical.io.files import expanded
from veridical.llm.asking import Asking
from veridical.llm.budget import Budget, Prices
from veridical.llm.cache import Cached
from veridical.llm.dry_run import DryRun
from veridical.llm.endpoint import check_api
from veridical.llm.protocol import ChatModel
from veridical.llm.rate_limit import RateLimiter
from veridical.llm.scripted import Scripted
from veridical.models.load import is_gguf
from veridical.records.errors import InputError
from veridical.records.registry import Registry

CHAT_MODELS = Registry("chat model", {}, group="veridical.chat_models")
"""Classes from other packages that load a model folder instead of `LocalChat`.

If the folder has a `detector.json`, its field `kind` is the name of the class in this registry.
"""


@dataclass(frozen=True, slots=True)
class Connection:
    """The settings for reaching chat models: server, key, limits and cache. `chat` builds a model from them.

    All models of a connection share one budget and one cache.

    Attributes:
        model: The default model: its name on the server, a local folder, or `scripted:FILE` with a JSON file of replies
            (`veridical.llm.scripted.Scripted.read`).
        base_url: The base URL of the server. Default: $OPENAI_BASE_URL, or OpenAI's server.
        key_env: The name of the environment variable with the API key. Default: OPENAI_API_KEY, which is sent only to
            OpenAI's server or to $OPENAI_BASE_URL.
        api: "chat", or "completions" for base models (see `veridical.llm.openai.OpenAIChat`).
        prices: The price per million prompt tokens, and per million completion tokens.
        max_cost: The highest amount of money that all models together may spend. Needs `prices`.
        max_calls: The maximum number of requests that all models together may send.
        concurrency: The number of requests that a model sends at once.
        timeout: The maximum number of seconds from sending a request to the end of its response.
        cache: The file in which replies are stored. None stores no replies.
        max_tokens: The maximum number of tokens in every reply. By default, each kind of question has a limit of its
            own, and a reply that was cut off while the model was reasoning is requested once more with a higher limit.
        temperature: The temperature of requests that would otherwise be greedy. Default: they stay greedy.
        retries: The number of times that a failed request to a server is repeated.
        per_minute: The maximum number of requests per minute to a server. None for no limit.
        headers: Additional headers for each request to a server.
        body: Additional JSON fields for each request to a server. They replace Veridical's own fields.
        device: The device for the model in a local folder (see `veridical.llm.local.LocalChat`).
        dtype: The precision for the model in a local folder.
        dry_run: If true, nothing is sent. Every model is then a `DryRun`, which counts requests.
        budget: A budget to share with other connections. Default: a new one from `prices`, `max_cost` and `max_calls`.
        models: The models built so far, by name and settings.
        budgets: The budgets of this connection and of all connections that `with_options` made from it.

    Raises:
        InputError: `max_cost` is given without `prices`, or `api` is unknown.
    """

    model: str | None = None
    base_url: str | None = None
    key_env: str | None = None
    api: str = "chat"
    prices: Prices | None = None
    max_cost: float | None = None
    max_calls: int | None = None
    concurrency: int = 8
    timeout: float = 120.0
    cache: Path | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    retries: int = 4
    per_minute: float | None = None
    headers: Mapping[str, str] | None = None
    body: Mapping[str, Any] | None = None
    device: str = "auto"
    dtype: str = "auto"
    dry_run: bool = False
    budget: Budget | None = None
    models: dict[tuple[Any, ...], ChatModel] = field(default_factory=dict, repr=False)
    budgets: list[Budget] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        check_api(self.api)
        if (self.max_tokens is not None and self.max_tokens < 1) or (
            self.temperature is not None and not self.temperature >= 0
        ):
            raise InputError(
                f"max_tokens is {self.max_tokens}, temperature {self.temperature}",
                hint="max_tokens is at least 1, temperature at least 0",
            )
        for name, values in (("headers", self.headers), ("body", self.body)):
            if not isinstance(values, Mapping | None) or (
                name == "headers" and not all(isinstance(value, str) for value in (values or {}).values())
            ):
                raise InputError(
                    f"{name} is {values!r}", hint='a table of names and texts, such as {"X-Team": "search"}'
                )
        budget = self.budget or Budget(prices=self.prices, max_cost=self.max_cost, max_calls=self.max_calls)
        object.__setattr__(self, "budget", budget)
        if not any(budget is other for other in self.budgets):
            self.budgets.append(budget)

    def chat(self, name: str | None = None) -> ChatModel:
        """Build the chat model called `name`, or the default `model`. Further calls return the same object.

        Raises:
            InputError: No model is named, or an option does not apply to this kind of model, such as `base_url` to a
                local folder.
        """
        from veridical.llm.openai import OpenAIChat

        name = name or self.model
        if not name:
            raise InputError("no language model is named", hint="--model NAME, or model=NAME in the detector's options")
        key = (name, id(self.budget), *(repr(getattr(self, option)) for option in OPTIONS if option != "model"))
        if key in self.models:
            return self.models[key]
        model: ChatModel
        limited = self.max_cost is not None or self.max_calls is not None
        if self.dry_run:
            model = DryRun(name)
        elif not name.startswith("scripted:") and not (expanded(name).is_dir() or is_gguf(name)):
            model = OpenAIChat(
                name,
                base_url=self.base_url,
                key_env=self.key_env,
                api=self.api,
                concurrency=self.concurrency,
                timeout=self.timeout,
                retries=self.retries,
                headers=self.headers,
                body=self.body,
                budget=self.budget,
                rate_limiter=RateLimiter(per_minute=self.per_minute),
            )
        elif self.base_url or self.key_env or self.api != "chat" or limited:
            raise InputError(
                f"{name} is not a model on a server",
                hint="leave out the base URL, the key, the API, the maximum cost and the maximum calls",
            )
        elif name.startswith("scripted:"):
            model = Scripted.read(name.removeprefix("scripted:"))
        else:
            from veridical.inference.artifact import described_kind
            from veridical.llm.local import LocalChat

            kind = described_kind(name)
            local = CHAT_MODELS.load(kind) if kind and kind in CHAT_MODELS else LocalChat
            model = local(name, device=self.device, dtype=self.dtype)
        model = Cached(model, self.cache) if self.cache is not None and not self.dry_run else model
        self.models[key] = Asking(model, max_tokens=self.max_tokens, temperature=self.temperature)
        return self.models[key]

    def with_options(self, options: Mapping[str, str]) -> Connection:
        """Return a copy of this connection with new values for some options. Both share the models built so far.

        The options come from a detector's spec, so their values are texts, such as {"max_tokens": "64"}. Their names
        are those in `OPTIONS`. If `prices`, `max_cost` or `max_calls` is among them, the copy gets a new budget.

        Raises:
            InputError: A value cannot be parsed.
        """
        if not options:
            return self
        values: dict[str, Any] = {}
        for name, text in options.items():
            try:
                values[name] = _READERS.get(_TYPES[name], _TYPES[name])(text)
            except ValueError as error:
                if isinstance(error, InputError):
                    raise
                hint = "give a JSON object" if name in ("headers", "body") else "give a number"
                raise InputError(f"{name} is {text!r}", hint=hint) from None
        new_limits = bool(values.keys() & {"prices", "max_cost", "max_calls"})
        return replace(self, **values, budget=None if new_limits else self.budget)

    def cost_of(self, prompt_tokens: int, completion_tokens: int) -> float | None:
        """Return the cost of a call with these numbers of tokens, or None if there are no `prices`."""
        budget = self.budget or Budget(prices=self.prices)
        return budget.cost_of(prompt_tokens, completion_tokens)

    def check_model_used(self, detectors: Sequence[str]) -> None:
        """Check that the user did not name a chat model that none of the `detectors` uses.

        Call this after the detectors are made. `detectors` are their names, for the error message.

        Raises:
            InputError: A `model` is set, but no model was built with `chat`.
        """
        if self.model and not self.models:
            raise InputError(
                f"the model {self.model} is named, and {', '.join(detectors)} asks no language model",
                hint="leave the model out, or use one of: judge, verify, selfcheck",
            )

    @property
    def refused_requests(self) -> int:
        """The number of requests that were not sent because a budget did not allow them."""
        return sum(budget.refused for budget in self.budgets)


def read_prices(text: str) -> Prices:
    """Parse prices per million prompt and completion tokens, written as "IN,OUT" or "IN/OUT".

    Raises:
        InputError: The text has another form.

    >>> read_prices("0.15/0.60")
    (0.15, 0.6)
    """
    try:
        price_in, price_out = (float(part) for part in text.replace("/", ",").split(","))
    except ValueError:
        raise InputError(f"--prices {text!r} is not IN,OUT", hint="such as --prices 0.15,0.60") from None
    return price_in, price_out


OPTIONS = tuple(
    option.name for option in fields(Connection) if option.name not in ("dry_run", "budget", "models", "budgets")
)
"""The options about a model that a detector's spec may contain, each as NAME=VALUE."""

REMOTE_OPTIONS = tuple(option for option in OPTIONS if option not in ("device", "dtype"))
"""The options for servers, budgets and caches: all of `OPTIONS` except `device` and `dtype`.

In the spec of an artifact (a saved detector) they are not allowed, because its author could otherwise use your key.
"""

_HINTS = get_type_hints(Connection)
_TYPES: dict[str, Any] = {option: (get_args(_HINTS[option]) or (_HINTS[option],))[0] for option in OPTIONS}  # not None
_READERS: dict[Any, Callable[[str], Any]] = {
    Prices: read_prices,
    Mapping[str, str]: json.loads,
    Mapping[str, Any]: json.loads,
}
