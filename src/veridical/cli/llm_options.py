"""What the commands that ask a language model share: their options, the model behind them, and the dry run.

A key is never an argument: it comes from the environment or a file, and arguments are seen by everyone on a machine.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from veridical.core.detector import Detector
    from veridical.llm.connection import Connection
    from veridical.llm.protocol import ChatModel

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
    typer.Option(help="Spend no more than this in all (needs --prices).", show_default=False, rich_help_panel=PANEL),
]
MaxCalls = Annotated[
    int | None, typer.Option(help="Send no more requests than this.", show_default=False, rich_help_panel=PANEL)
]
Concurrency = Annotated[int, typer.Option(help="Requests at once.", min=1, rich_help_panel=PANEL)]
Timeout = Annotated[
    float, typer.Option(help="Seconds that one request may take as a whole.", min=0.1, rich_help_panel=PANEL)
]
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


def connect(
    model: str | None = None,
    *,
    base_url: str | None,
    key_env: str | None,
    prices: str | None,
    max_cost: float | None,
    max_calls: int | None,
    concurrency: int,
    timeout: float,
    cache: Path | None,
    dry_run: bool = False,
) -> Connection:
    """How every model of one command is reached, as its options say."""
    from veridical.llm.connection import Connection, read_prices

    return Connection(
        model=model,
        base_url=base_url,
        key_env=key_env,
        prices=None if prices is None else read_prices(prices),
        max_cost=max_cost,
        max_calls=max_calls,
        concurrency=concurrency,
        timeout=timeout,
        cache=cache,
        dry_run=dry_run,
    )


def load_detectors(specs: Sequence[str], connection: Connection) -> list[Detector]:
    """The detectors that `specs` name; `InputError` if a model is named and none of them asks one."""
    from veridical.detectors import load_detector

    made = [load_detector(spec, connection) for spec in specs]
    connection.check_model_used(specs)
    return made


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
    from veridical.detectors.claims.citations import CitationPolicy
    from veridical.detectors.claims.llm_checker import LLMChecker
    from veridical.detectors.claims.verify import Verify

    policy = CitationPolicy.parse(citations)
    method = checker or ("yes_no" if model else "overlap")
    if method in ("yes_no", "cot"):
        if model is None:
            raise InputError(f"--checker {method} asks a language model", hint="name one with --model")
        asked = LLMChecker(model, method=method, window=window, claims_per_call=claims_per_call)  # type: ignore[arg-type]
        return Verify(asked, model=model, splitter=splitter, citations=policy)  # type: ignore[arg-type]
    if window is not None or claims_per_call != 1:
        raise InputError(f"--checker {method} asks no language model", hint="leave --window and --claims-per-call out")
    return Verify(load_detector(method), model=model, splitter=splitter, citations=policy)  # type: ignore[arg-type]


def print_plan(connection: Connection) -> int:
    """Print what the dry-run models of `connection` were asked, and give back the exit code 0."""
    from veridical.llm.budget import most_tokens
    from veridical.llm.dry_run import DryRun

    for model in connection.models.values():
        requests = model.requests if isinstance(model, DryRun) else []
        stages: dict[str, int] = {}
        for request in requests:
            stages[request.stage] = stages.get(request.stage, 0) + 1
        bytes_in = sum(most_tokens(request)[0] for request in requests)
        out = sum(request.max_tokens for request in requests)
        each = ", ".join(f"{stage} {n}" for stage, n in stages.items()) or "none"
        cost = connection.cost_of(bytes_in // 4, out)
        money = "" if cost is None else f"; at most about {cost:.4f}"
        sys.stdout.write(
            f"{model.name}: {len(requests)} calls ({each}), about {bytes_in // 4} prompt tokens, "
            f"at most {out} completion tokens{money}\n"
        )
    if not connection.models:
        sys.stdout.write("No language model is asked.\n")
    sys.stdout.write("Dry run: nothing was sent. Claims that turn out to be supported need no critique or revision.\n")
    return 0
