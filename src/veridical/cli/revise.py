"""`veridical revise`: mend what is not backed, and keep only what is better."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from veridical.cli.llm_options import (
    PANEL,
    BaseUrl,
    CachePath,
    Concurrency,
    DryRun,
    KeyEnv,
    MaxCalls,
    MaxCost,
    ModelName,
    PriceList,
    Timeout,
    connect,
)
from veridical.cli.verify import (
    AreCases,
    AsJson,
    CheckerName,
    Citations,
    Encoding,
    HtmlOut,
    MaxMegabytes,
    MustCover,
    Question,
    ResponseFile,
    SourceFiles,
    Splitter,
    Threshold,
    Window,
    cases_to_judge,
)

if TYPE_CHECKING:
    from veridical.core.detector import Detector
    from veridical.core.types import Case
    from veridical.llm.protocol import ChatModel
    from veridical.revise import Revised, Reviser

BATCH = 64


def revise_command(
    response: ResponseFile,
    sources: SourceFiles = None,
    question: Question = None,
    must_cover: MustCover = None,
    cases: AreCases = False,
    encoding: Encoding = "utf-8",
    max_mb: MaxMegabytes = 256,
    reviser: Annotated[
        str | None,
        typer.Option(
            help="factored (critiques of single claims), self (one critique of the whole), delete or flag. "
            "Default: factored with --model, else delete.",
            show_default=False,
            rich_help_panel="How to revise",
        ),
    ] = None,
    rounds: Annotated[int, typer.Option(help="Attempts at most (1 to 10).", rich_help_panel="How to revise")] = 1,
    critic: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Another model on the same server that writes the critiques.",
            show_default=False,
            rich_help_panel=PANEL,
        ),
    ] = None,
    model: ModelName = None,
    base_url: BaseUrl = None,
    key_env: KeyEnv = None,
    prices: PriceList = None,
    max_cost: MaxCost = None,
    max_calls: MaxCalls = None,
    concurrency: Concurrency = 8,
    timeout: Timeout = 120.0,
    cache: CachePath = None,
    dry_run: DryRun = False,
    splitter: Splitter = "sentences",
    checker: CheckerName = None,
    citations: Citations = "off",
    window: Window = None,
    threshold: Threshold = None,
    text: Annotated[
        bool,
        typer.Option("--text", help="Print the text that stands and nothing else.", rich_help_panel="What comes out"),
    ] = False,
    html: HtmlOut = None,
    json: AsJson = False,
) -> int:
    """Mend the claims of a response that its sources do not back; each edit comes with its critique.

    [bold]veridical revise answer.txt article.txt --reviser delete[/bold]
    [bold]veridical revise answer.txt article.txt --model gpt-4o-mini --checker cot --html changes.html[/bold]

    The revised text is judged again and kept only if it is better and loses nothing that was supported.
    Exit codes (of the text that stands): 0 nothing flagged, 1 flagged, 2 usage or input, 3 could not judge.
    """
    from veridical.cli.llm_options import claim_checker, print_plan

    connection = connect(
        model,
        base_url=base_url,
        key_env=key_env,
        prices=prices,
        max_cost=max_cost,
        max_calls=max_calls,
        concurrency=concurrency,
        timeout=timeout,
        cache=cache,
        dry_run=dry_run,
    )
    names = {name: connection.chat(name) for name in (model, critic) if name}
    asked = names.get(model or "")
    detector = claim_checker(asked, checker=checker, splitter=splitter, citations=citations, window=window)
    made = _reviser(reviser, asked, names.get(critic or ""))
    given = cases_to_judge(response, sources, question, must_cover, cases, encoding, max_mb)
    results = _results(given, detector, made, threshold, rounds)
    if dry_run:
        for _ in results:
            pass
        return print_plan(connection)
    return _deliver(results, text=text, json=json, html=html)


def _reviser(name: str | None, model: ChatModel | None, critic: ChatModel | None) -> Reviser:
    from veridical.core.errors import InputError, UnknownNameError
    from veridical.revise import Delete, Flag
    from veridical.revise.llm_revisers import Factored, SelfCorrection

    wanted = name or ("factored" if model else "delete")
    if wanted not in ("factored", "self", "delete", "flag"):
        raise UnknownNameError("reviser", wanted, ["factored", "self", "delete", "flag"])
    if critic is not None and wanted != "factored":
        raise InputError(f"--reviser {wanted} takes no critic", hint="a critic goes with --reviser factored")
    if wanted == "delete":
        return Delete()
    if wanted == "flag":
        return Flag()
    if model is None:
        raise InputError(f"--reviser {wanted} asks a language model", hint="name one with --model, or use delete")
    return Factored(model, critic=critic) if wanted == "factored" else SelfCorrection(model)


def _results(
    cases: Iterator[Case], detector: Detector, reviser: Reviser, threshold: float | None, rounds: int
) -> Iterator[Revised]:
    from veridical.revise import revise

    while batch := list(islice(cases, BATCH)):
        yield from revise(batch, detector, reviser, threshold=threshold, rounds=rounds)


def _deliver(results: Iterator[Revised], *, text: bool, json: bool, html: Path | None) -> int:
    """Print each result as it comes, write the page if one is wanted, and give back the exit code."""
    from rich.console import Console

    from veridical.core.serialization import encode
    from veridical.core.types import Outcome
    from veridical.report.revision import print_revisions

    console = Console(highlight=False, markup=False, emoji=False, soft_wrap=False)
    kept: list[Revised] = []
    outcomes: set[Outcome] = set()
    for result in results:
        outcomes.add(_outcome(result))
        if html is not None:
            kept.append(result)
        if json:
            sys.stdout.write(encode(result) + "\n")
        elif text:
            sys.stdout.write(result.revision.text)
        else:
            print_revisions([result], console)
    if html is not None:
        _write_page(kept, html)
    return 1 if Outcome.FLAGGED in outcomes else 3 if Outcome.UNJUDGED in outcomes else 0


def _outcome(result: Revised) -> Any:
    """What the text that stands comes to; a marked text is still what it was."""
    from dataclasses import replace

    from veridical.core.decide import outcome

    if result.after is None:
        return outcome(result.case, result.before, result.thresholds)
    return outcome(replace(result.case, response=result.revision.text), result.after, result.thresholds)


def _write_page(results: list[Revised], path: Path) -> None:
    from veridical.core.files import write_whole
    from veridical.report.revision import render_revisions

    write_whole(path, render_revisions(results))
    sys.stderr.write(f"wrote {path}\n")
