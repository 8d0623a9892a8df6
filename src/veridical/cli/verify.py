"""`veridical verify`: a response claim by claim, by a language model or offline."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from veridical.cli.llm_options import (
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

if TYPE_CHECKING:
    from veridical.core.types import Case

_INPUT = "What to check"
_JUDGE = "How to judge"
_OUTPUT = "What comes out"

ResponseFile = Annotated[
    Path,
    typer.Argument(
        help="The response: a text file, - for standard input, or cases as .json / .jsonl.", show_default=False
    ),
]
SourceFiles = Annotated[
    list[Path] | None,
    typer.Argument(help="What it rests on: text, .pdf, .html or .md files.", show_default=False),
]
Question = Annotated[
    str | None, typer.Option("--question", "-q", help="The question that the response answers.", rich_help_panel=_INPUT)
]
MustCover = Annotated[
    list[Path] | None,
    typer.Option(help="A source that the response has to cover. Repeatable.", metavar="FILE", rich_help_panel=_INPUT),
]
AreCases = Annotated[
    bool, typer.Option("--cases", help="Read RESPONSE as cases whatever its ending (for -).", rich_help_panel=_INPUT)
]
Encoding = Annotated[str, typer.Option(help="Encoding of text files.", rich_help_panel=_INPUT)]
MaxMegabytes = Annotated[
    int, typer.Option(help="Refuse a file (or a line of cases) larger than this.", min=1, rich_help_panel=_INPUT)
]
Splitter = Annotated[
    str,
    typer.Option(help="What the claims are: sentences, or what the model lists (model).", rich_help_panel=_JUDGE),
]
CheckerName = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="yes_no (probability of Yes), cot (reasoning with quotes), or a detector. "
        "Default: yes_no with --model, else overlap.",
        show_default=False,
        rich_help_panel=_JUDGE,
    ),
]
Citations = Annotated[
    str,
    typer.Option(
        help="off; skip: check a claim against the sources it cites, leave uncited ones out; all: check these, too. "
        "+missing: an uncited claim is a finding; +each: of several sources each is checked alone, too (all+missing).",
        metavar="HOW",
        rich_help_panel=_JUDGE,
    ),
]
Window = Annotated[
    int | None,
    typer.Option(
        help="Characters of the sources in one prompt; any window supports.", show_default=False, rich_help_panel=_JUDGE
    ),
]
ClaimsPerCall = Annotated[
    int, typer.Option(help="Claims asked for at once: cheaper, less exact.", min=1, rich_help_panel=_JUDGE)
]
Threshold = Annotated[
    float | None,
    typer.Option(
        help="Flag claims that score at least this (0 to 1). Default: 0.5.", show_default=False, rich_help_panel=_JUDGE
    ),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON document a case instead of text.", rich_help_panel=_OUTPUT)
]
HtmlOut = Annotated[Path | None, typer.Option(metavar="OUT", help="Write a page to look at.", rich_help_panel=_OUTPUT)]


def verify_command(
    response: ResponseFile,
    sources: SourceFiles = None,
    question: Question = None,
    must_cover: MustCover = None,
    cases: AreCases = False,
    encoding: Encoding = "utf-8",
    max_mb: MaxMegabytes = 256,
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
    claims_per_call: ClaimsPerCall = 1,
    threshold: Threshold = None,
    fail_over: Annotated[
        float | None,
        typer.Option(
            help="Exit with 1 only where a response-level score is above this.",
            show_default=False,
            rich_help_panel=_JUDGE,
        ),
    ] = None,
    html: HtmlOut = None,
    json: AsJson = False,
) -> int:
    """Check every claim of a response against its sources, one by one.

    [bold]veridical verify answer.txt article.txt[/bold]
    [bold]veridical verify answer.txt article.pdf --model gpt-4o-mini --checker cot --html report.html[/bold]
    [bold]veridical verify cases.jsonl --model llama --base-url http://127.0.0.1:8000/v1 --dry-run[/bold]
    [bold]veridical verify summary.json --citations skip+missing[/bold]

    Exit codes: 0 nothing flagged, 1 flagged, 2 usage or input, 3 could not judge.
    """
    from veridical.checking import check_cases
    from veridical.cli.check import deliver
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
    asked = connection.chat() if model else None
    detector = claim_checker(
        asked, checker=checker, splitter=splitter, citations=citations, window=window, claims_per_call=claims_per_call
    )
    given = cases_to_judge(response, sources, question, must_cover, cases, encoding, max_mb)
    checked = check_cases(given, detector, threshold=threshold, fail_over=fail_over)
    if dry_run:
        for _ in checked:
            pass
        return print_plan(connection)
    return deliver(checked, html=html, json=json)


def cases_to_judge(
    response: Path,
    sources: list[Path] | None,
    question: str | None,
    must_cover: list[Path] | None,
    cases: bool,
    encoding: str,
    max_mb: int,
) -> Iterator[Case]:
    """The cases that the arguments name, lazily."""
    from veridical.cli.check import given_case, given_cases
    from veridical.documents import CASE_ENDINGS

    limit = max_mb * 1024 * 1024
    if cases or response.suffix.lower() in CASE_ENDINGS:
        return given_cases(response, limit, sources, must_cover, question)
    return iter([given_case(response, sources or [], must_cover or [], [], question, encoding, limit)])
