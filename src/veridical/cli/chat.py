"""What the commands that ask a language model share: their options, the model behind them, and a rehearsal.

A key is never an argument: it comes from the environment or a file, and arguments are seen by everyone on a machine.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from veridical.core.types import Detector
    from veridical.llm.budget import Prices
    from veridical.llm.protocol import ChatModel, Failure, Reply, Request

PANEL = "Language model"

ModelName = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        metavar="NAME",
        help="A model's name on the server, a local folder, or scripted:FILE (a JSON object or list of replies).",
        show_default=False,
        rich_help_panel=PANEL,
    ),
]
BaseUrl = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="An OpenAI-compatible server, such as http://127.0.0.1:8000/v1. Default: $OPENAI_BASE_URL, else OpenAI.",
        show_default=False,
        rich_help_panel=PANEL,
    ),
]
KeyEnv = Annotated[
    str | None,
    typer.Option(
        metavar="VARIABLE",
        help="The environment variable that holds the key. Default: OPENAI_API_KEY, for OpenAI's server only.",
        show_default=False,
        rich_help_panel=PANEL,
    ),
]
PriceList = Annotated[
    str | None,
    typer.Option(
        metavar="IN,OUT",
        help="What a million prompt tokens and a million completion tokens cost.",
        show_default=False,
        rich_help_panel=PANEL,
    ),
]
MaxCost = Annotated[
    float | None,
    typer.Option(help="Spend no more than this (needs --prices).", show_default=False, rich_help_panel=PANEL),
]
MaxCalls = Annotated[
    int | None, typer.Option(help="Send no more requests than this.", show_default=False, rich_help_panel=PANEL)
]
Concurrency = Annotated[int, typer.Option(help="Requests at once.", min=1, rich_help_panel=PANEL)]
CachePath = Annotated[
    Path | None,
    typer.Option(
        "--cache",
        metavar="PATH",
        help="Keep replies in this file, and pay for none twice.",
        show_default=False,
        rich_help_panel=PANEL,
    ),
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Count the calls and tokens this would take; send nothing.", rich_help_panel=PANEL),
]


@dataclass(frozen=True, slots=True)
class Connection:
    """How every model of one command is reached."""

    base_url: str | None = None
    key_env: str | None = None
    prices: str | None = None
    max_cost: float | None = None
    max_calls: int | None = None
    concurrency: int = 8
    cache: Path | None = None

    def model(self, name: str) -> ChatModel:
        """The chat model called `name`; `InputError` for options that it does not take."""
        from veridical.llm.cache import Cached

        made = self._model(name)
        return made if self.cache is None else Cached(made, self.cache)

    def _model(self, name: str) -> ChatModel:
        from veridical.core.errors import InputError
        from veridical.llm.openai import OpenAIChat

        scripted = name.startswith("scripted:")
        if not scripted and not Path(name).expanduser().is_dir():
            return OpenAIChat(
                name,
                base_url=self.base_url,
                key_env=self.key_env,
                prices=_prices(self.prices),
                max_cost=self.max_cost,
                max_calls=self.max_calls,
                concurrency=self.concurrency,
            )
        if self.base_url or self.key_env or self.max_cost is not None or self.max_calls is not None:
            raise InputError(
                f"{name} is no model on a server", hint="leave --base-url, --key-env, --max-cost and --max-calls out"
            )
        if scripted:
            return _scripted(Path(name.removeprefix("scripted:")))
        from veridical.llm.local import LocalChat

        return LocalChat(name)

    def price(self, prompt_tokens: int, completion_tokens: int) -> float | None:
        """What so many tokens cost, None without --prices."""
        prices = _prices(self.prices)
        return prices and (prompt_tokens * prices[0] + completion_tokens * prices[1]) / 1e6


def _prices(text: str | None) -> Prices | None:
    from veridical.core.errors import InputError

    if text is None:
        return None
    try:
        price_in, price_out = (float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"--prices {text!r} is not IN,OUT", hint="such as --prices 0.15,0.60") from None
    return price_in, price_out


def _scripted(path: Path) -> ChatModel:
    from veridical.core.errors import DataError
    from veridical.core.files import read_text
    from veridical.llm.scripted import Scripted

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


def claim_checker(
    model: ChatModel | None,
    *,
    checker: str | None,
    splitter: str,
    citations: str,
    window: int | None = None,
    claims_per_call: int = 1,
) -> Detector:
    """`verify` as the options say; without a model and a checker it checks by word overlap."""
    from veridical.core.errors import InputError
    from veridical.detectors import load_detector
    from veridical.detectors.asking import ModelChecker
    from veridical.detectors.citing import Citing
    from veridical.detectors.verify import Verify

    if citations not in ("off", "skip", "all"):
        raise InputError(f"--citations {citations!r}", hint="off, skip (uncited claims) or all (check them, too)")
    citing = None if citations == "off" else Citing(uncited=citations)  # type: ignore[arg-type]
    way = checker or ("yes_no" if model else "overlap")
    if way in ("yes_no", "cot"):
        if model is None:
            raise InputError(f"--checker {way} asks a language model", hint="name one with --model")
        asked = ModelChecker(model, way=way, window=window, claims_per_call=claims_per_call)  # type: ignore[arg-type]
        return Verify(asked, model=model, splitter=splitter, citations=citing)  # type: ignore[arg-type]
    if window is not None or claims_per_call != 1:
        raise InputError(f"--checker {way} asks no language model", hint="leave --window and --claims-per-call out")
    return Verify(load_detector(way), model=model, splitter=splitter, citations=citing)  # type: ignore[arg-type]


class Rehearsal:
    """A model that sends nothing, counts every request, and answers so that as many as can be follow."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.requests: list[Request] = []

    def chat(self, requests: Sequence[Request]) -> list[Reply | Failure]:
        """An answer a request, the same whenever it is asked."""
        from veridical.llm.protocol import Reply

        self.requests += requests
        return [Reply(_rehearsed(request)) for request in requests]


_RESPONSE = re.compile(r"<<<response (\w+)\n(.*)\nresponse \1>>>", re.DOTALL)
_PAPER = re.compile(r"^Paper \d+: (.+?)(?:, (\d{4}))?$", re.MULTILINE)


def _rehearsed(request: Request) -> str:
    """What a model might say: every sentence is a claim, every claim is wrong, every revision changes something."""
    from veridical.core.segment import sentences
    from veridical.llm.prompts import prompt

    asked = request.messages[-1].content
    found = _RESPONSE.search(asked)
    text = found[2] if found else ""
    if request.stage == "split":
        return "\n".join(f"- {' '.join(span.of(text).split())}" for span in sentences(text))
    if request.stage == "revise":
        return f"Corrected text:\n{text.rstrip()} Indeed."
    if request.stage == "summary":
        return " ".join(f"{who} ({year or 'n.d.'}) found much." for who, year in _PAPER.findall(asked))
    if prompt("verify_many").hash in request.prompt:
        return "\n".join(f"{n}. No" for n in range(1, 1000))
    return "Feedback: wrong.\nSupported: No"


def print_plan(models: Iterable[ChatModel], connection: Connection) -> int:
    """Print what the rehearsed models were asked, and give back the exit code 0."""
    from veridical.llm.budget import most_tokens

    for model in models:
        requests = getattr(model, "requests", [])
        stages: dict[str, int] = {}
        for request in requests:
            stages[request.stage] = stages.get(request.stage, 0) + 1
        bytes_in = sum(most_tokens(request)[0] for request in requests)
        out = sum(request.max_tokens for request in requests)
        each = ", ".join(f"{stage} {n}" for stage, n in stages.items()) or "none"
        cost = connection.price(bytes_in // 4, out)
        money = "" if cost is None else f"; at most about {cost:.4f}"
        sys.stdout.write(
            f"{model.name}: {len(requests)} calls ({each}), about {bytes_in // 4} prompt tokens, "
            f"at most {out} completion tokens{money}\n"
        )
    sys.stdout.write("Dry run: nothing was sent. Claims that turn out to be supported need no critique or revision.\n")
    return 0
