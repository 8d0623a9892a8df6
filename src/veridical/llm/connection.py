"""Chat models by name: on a server, in a local folder, from a script; with one budget and one cache for all of them.

The command line's options become a `Connection`, and so do the options in a detector's spec
(`judge:cot,model=NAME,base_url=URL`). A key is never among them: it comes from the environment.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from veridical.core.errors import DataError, InputError
from veridical.core.files import read_text
from veridical.llm.budget import Budget, Prices
from veridical.llm.cache import Cached
from veridical.llm.dry_run import Rehearsal
from veridical.llm.protocol import ChatModel
from veridical.llm.scripted import Scripted

__all__ = ["OPTIONS", "Connection", "read_prices"]

OPTIONS = (
    "model",
    "base_url",
    "key_env",
    "prices",
    "max_cost",
    "max_calls",
    "concurrency",
    "timeout",
    "cache",
    "device",
    "dtype",
)
"""What a spec may say of a model, each as NAME=VALUE."""

_BUDGET = ("prices", "max_cost", "max_calls")


@dataclass(frozen=True, slots=True)
class Connection:
    """How chat models are reached; `model` is the one that is taken where no other is named.

    A name is that of a model on the server `base_url`, a local folder, or `scripted:FILE` (JSON: an object of replies
    by words of the question, or a list of replies). All models that one connection makes share its `budget`, which is
    made of `prices`, `max_cost` and `max_calls`. `device` and `dtype` say how a local folder is run. With `rehearse`
    nothing is ever sent (`made` then holds a `Rehearsal` for each model).

    Raises `InputError` for a limit of cost without prices.
    """

    model: str | None = None
    base_url: str | None = None
    key_env: str | None = None
    prices: Prices | None = None
    max_cost: float | None = None
    max_calls: int | None = None
    concurrency: int = 8
    timeout: float = 120.0
    cache: Path | None = None
    device: str = "auto"
    dtype: str = "auto"
    rehearse: bool = False
    budget: Budget | None = None
    made: dict[tuple[Any, ...], ChatModel] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.budget is None:
            made = Budget(prices=self.prices, max_cost=self.max_cost, max_calls=self.max_calls)
            object.__setattr__(self, "budget", made)

    def chat(self, name: str | None = None) -> ChatModel:
        """The chat model called `name` (None: `model`), the same one each time.

        Raises `InputError` where none is named, and for options that it does not take.
        """
        name = name or self.model
        if not name:
            raise InputError("no language model is named", hint="--model NAME, or model=NAME in the detector's options")
        where = (
            name, self.base_url, self.key_env, id(self.budget), self.timeout, self.concurrency, self.cache,
            self.device, self.dtype,
        )  # fmt: skip
        if where not in self.made:
            made: ChatModel = Rehearsal(name) if self.rehearse else self._make(name)
            self.made[where] = Cached(made, self.cache) if self.cache is not None and not self.rehearse else made
        return self.made[where]

    def _make(self, name: str) -> ChatModel:
        from veridical.llm.openai import OpenAIChat

        scripted = name.startswith("scripted:")
        if not scripted and not Path(name).expanduser().is_dir():
            return OpenAIChat(
                name,
                base_url=self.base_url,
                key_env=self.key_env,
                concurrency=self.concurrency,
                timeout=self.timeout,
                budget=self.budget,
            )
        if self.base_url or self.key_env or self.max_cost is not None or self.max_calls is not None:
            raise InputError(
                f"{name} is no model on a server", hint="leave the base URL, the key, max cost and max calls out"
            )
        if scripted:
            return _scripted(Path(name.removeprefix("scripted:")))
        from veridical.llm.local import LocalChat

        return LocalChat(name, device=self.device, dtype=self.dtype)

    def having(self, options: Mapping[str, str]) -> Connection:
        """This connection with what `options` (of `OPTIONS`, as texts) say instead; models are still shared.

        Raises `InputError` for a value that cannot be read.
        """
        if not options:
            return self
        read: dict[str, Any] = {}
        for name, text in options.items():
            try:
                read[name] = _READ.get(name, str)(text)
            except ValueError as error:
                if isinstance(error, InputError):
                    raise
                raise InputError(f"{name} is {text!r}", hint="a number is wanted") from None
        shared = None if read.keys() & set(_BUDGET) else self.budget
        return replace(self, **read, budget=shared)

    def price(self, prompt_tokens: int, completion_tokens: int) -> float | None:
        """What so many tokens cost, None without prices."""
        assert self.budget is not None
        return self.budget.price(prompt_tokens, completion_tokens)

    def check_used(self, detectors: Sequence[str]) -> None:
        """Raise `InputError` if a model is named and none of the `detectors` has asked for one."""
        if self.model and not self.made:
            raise InputError(
                f"the model {self.model} is named, and {', '.join(detectors)} asks no language model",
                hint="these do: judge, verify, selfcheck",
            )

    def refused(self) -> int:
        """How many requests some budget did not let through."""
        budgets = {id(b): b for b in (self.budget, *self._budgets()) if b is not None}
        return sum(budget.refused for budget in budgets.values())

    def _budgets(self) -> Iterator[Budget]:
        yield from (b for model in self.made.values() if isinstance(b := getattr(model, "budget", None), Budget))


def read_prices(text: str) -> Prices:
    """The prices in "IN,OUT" or "IN/OUT"; `InputError` for anything else.

    >>> read_prices("0.15/0.60")
    (0.15, 0.6)
    """
    try:
        price_in, price_out = (float(part) for part in text.replace("/", ",").split(","))
    except ValueError:
        raise InputError(f"--prices {text!r} is not IN,OUT", hint="such as --prices 0.15,0.60") from None
    return price_in, price_out


_READ: dict[str, Callable[[str], Any]] = {
    "prices": read_prices,
    "max_cost": float,
    "max_calls": int,
    "concurrency": int,
    "timeout": float,
    "cache": Path,
}


def _scripted(path: Path) -> ChatModel:
    try:
        script = json.loads(read_text(path))
    except ValueError as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"not JSON: {error}", path=path) from None
    answers = script.values() if isinstance(script, dict) else script
    if not isinstance(script, dict | list) or not all(isinstance(answer, str) for answer in answers):
        raise DataError("not a script", path=path, hint='{"words of the question": "the reply", …} or ["reply", …]')
    return Scripted(script, name=f"scripted:{path.name}")
