"""`veridical check`: one response against its sources, or a file of cases."""

from __future__ import annotations

import sys
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
    from veridical.cli.salience_maps import Maps
    from veridical.core.types import Case, Checked, Source

_INPUT = "What to check"
_JUDGE = "How to judge"
_OUTPUT = "What comes out"


def check_command(
    response: Annotated[
        Path,
        typer.Argument(
            help="The response: a text file, - for standard input, or cases as .json / .jsonl.",
            show_default=False,
        ),
    ],
    sources: Annotated[
        list[Path] | None,
        typer.Argument(help="What it rests on: text, .pdf, .html or .md files.", show_default=False),
    ] = None,
    question: Annotated[
        str | None,
        typer.Option("--question", "-q", help="The question that the response answers.", rich_help_panel=_INPUT),
    ] = None,
    must_cover: Annotated[
        list[Path] | None,
        typer.Option(
            help="A source that the response has to cover. Repeatable.",
            metavar="FILE",
            rich_help_panel=_INPUT,
        ),
    ] = None,
    perspective: Annotated[
        list[str] | None,
        typer.Option(
            help="A source to cover that stands for one side, such as pro=for.txt. Repeatable; the worst side counts.",
            metavar="NAME=FILE",
            rich_help_panel=_INPUT,
        ),
    ] = None,
    cases: Annotated[
        bool,
        typer.Option("--cases", help="Read RESPONSE as cases whatever its ending (for -).", rich_help_panel=_INPUT),
    ] = False,
    encoding: Annotated[str, typer.Option(help="Encoding of text files.", rich_help_panel=_INPUT)] = "utf-8",
    max_mb: Annotated[
        int,
        typer.Option(help="Refuse a file (or a line of cases) larger than this.", min=1, rich_help_panel=_INPUT),
    ] = 256,
    detector: Annotated[
        list[str] | None,
        typer.Option(
            "--detector",
            "-d",
            metavar="NAME",
            help="Repeatable; see: veridical detectors. Default: overlap. judge, verify and selfcheck ask --model.",
            rich_help_panel=_JUDGE,
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            help="Flag spans that score at least this (0 to 1). Default: the detector's, else 0.5.",
            show_default=False,
            rich_help_panel=_JUDGE,
        ),
    ] = None,
    fail_over: Annotated[
        float | None,
        typer.Option(
            help="Exit with 1 only where a response-level score is above this.",
            show_default=False,
            rich_help_panel=_JUDGE,
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
    html: Annotated[
        Path | None, typer.Option(metavar="OUT", help="Write a page to look at.", rich_help_panel=_OUTPUT)
    ] = None,
    json: Annotated[
        bool,
        typer.Option("--json", help="Print one JSON document a case instead of text.", rich_help_panel=_OUTPUT),
    ] = False,
) -> int:
    """Check a response against its sources, or a whole file of cases.

    [bold]veridical check answer.txt article.txt[/bold]
    [bold]veridical check answer.txt article.pdf --must-cover key-points.txt --html report.html[/bold]
    [bold]veridical check answer.txt --perspective pro=for.txt --perspective con=against.txt[/bold]
    [bold]veridical check cases.jsonl --json --fail-over 0.5 > results.jsonl[/bold]
    [bold]veridical check answer.txt article.txt -d judge:cot -d verify --model gpt-4o-mini --cache replies.db[/bold]

    A line of cases.jsonl: {"response": "…", "sources": ["…", {"text": "…", "must_cover": true}]}.
    Exit codes: 0 nothing flagged, 1 flagged, 2 usage or input, 3 could not judge.
    """
    from veridical.checking import DEFAULT_DETECTOR, check_cases
    from veridical.cli.llm_options import load_detectors, print_plan
    from veridical.cli.salience_maps import with_maps
    from veridical.documents import CASE_ENDINGS

    limit = max_mb * 1024 * 1024
    if cases or response.suffix.lower() in CASE_ENDINGS:
        given = given_cases(response, limit, sources, must_cover, perspective, question)
    else:
        given = iter(
            [given_case(response, sources or [], must_cover or [], perspective or [], question, encoding, limit)]
        )
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
    detectors = load_detectors(detector or [DEFAULT_DETECTOR], connection)
    detectors, maps = with_maps(detectors) if html else (detectors, [])
    checked = check_cases(given, detectors, threshold=threshold, fail_over=fail_over)
    if dry_run:
        for _ in checked:
            pass
        return print_plan(connection)
    return deliver(checked, html=html, json=json, maps=maps)


def given_cases(path: Path, limit: int, *single: object) -> Iterator[Case]:
    """The cases of a file; `InputError` if anything that belongs to one case is given beside it."""
    from veridical.core.errors import InputError
    from veridical.documents import read_cases

    if any(single):
        raise InputError(f"{path} holds cases, and sources or a question are given too", hint="put them into the cases")
    return read_cases(path, max_bytes=limit)


def given_case(
    response: Path,
    sources: list[Path],
    must_cover: list[Path],
    perspective: list[str],
    question: str | None,
    encoding: str,
    limit: int,
) -> Case:
    """The case of one response file and its sources; ids are file names, or the names of perspectives."""
    from veridical.core.errors import DataError, InputError
    from veridical.core.files import STDIN, read_text
    from veridical.core.types import Case, Source
    from veridical.documents import read_document

    sides = [_side(text) for text in perspective]
    files = (
        [(p, None, False) for p in sources] + [(p, None, True) for p in must_cover] + [(p, n, True) for n, p in sides]
    )
    if [response, *(path for path, _, _ in files)].count(STDIN) > 1:
        raise InputError("standard input (-) is named more than once", hint="only one of the texts can come from it")
    text = read_text(response, encoding=encoding, max_bytes=limit)
    if not text.strip():
        raise DataError("the response is empty", path=response, hint="there is nothing to check")
    made: dict[str, Source] = {}
    for path, side, must in files:
        id = _fresh(side or path.name, made)
        made[id] = Source(id, read_document(path, encoding=encoding, max_bytes=limit), side, must)
    return Case(response.name, text, tuple(made.values()), question)


def _side(text: str) -> tuple[str, Path]:
    from veridical.core.errors import InputError

    name, equals, path = text.partition("=")
    if not (name and equals and path):
        raise InputError(f"--perspective {text!r} is not NAME=FILE", hint="such as --perspective pro=for.txt")
    return name, Path(path)


def _fresh(name: str, taken: dict[str, Source]) -> str:
    return next(n for n in (name, *(f"{name} ({i})" for i in range(2, len(taken) + 3))) if n not in taken)


def deliver(checked: Iterator[Checked], *, html: Path | None, json: bool, maps: Maps | None = None) -> int:
    """Print each checked case as it comes, write the page if one is wanted, and give back the exit code.

    `maps` are the salience maps by detector (`cli.drawn`), which grow as the cases come.
    """
    from veridical.cli.progress import counted
    from veridical.core.types import Outcome

    kept: list[Checked] = []
    outcomes: set[Outcome] = set()

    def passing() -> Iterator[Checked]:
        for item in counted(checked, "cases checked"):
            outcomes.add(item.outcome)
            if html is not None:
                kept.append(item)
            yield item

    if json:
        _print_json(passing())
    else:
        _print_text(passing())
    if html is not None:
        _write_page(kept, html, maps or [])
    return 1 if Outcome.FLAGGED in outcomes else 3 if Outcome.UNJUDGED in outcomes else 0


def _print_json(checked: Iterator[Checked]) -> None:
    from veridical.core.serialization import encode

    for item in checked:
        sys.stdout.write(encode(item) + "\n")


def _print_text(checked: Iterator[Checked]) -> None:
    from rich.console import Console

    from veridical.report.terminal import print_report

    print_report(checked, Console(highlight=False, markup=False, emoji=False, soft_wrap=False))


def _write_page(checked: list[Checked], path: Path, maps: Maps) -> None:
    from veridical.cli.salience_maps import rows_of
    from veridical.core.files import write_whole
    from veridical.report.html import render_html

    write_whole(path, render_html(checked, maps=rows_of(maps, len(checked))))
    sys.stderr.write(f"wrote {path}\n")
