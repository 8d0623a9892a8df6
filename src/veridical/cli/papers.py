"""`veridical papers`: how often models hallucinate in cited summaries of papers, before and after revision."""

from __future__ import annotations

import sys
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from veridical.cli.llm_options import (
    BaseUrl,
    CachePath,
    Concurrency,
    DryRun,
    KeyEnv,
    MaxCalls,
    MaxCost,
    PriceList,
    Timeout,
    connect,
)
from veridical.cli.verify import AsJson

if TYPE_CHECKING:
    from veridical.core.types import Case
    from veridical.llm.connection import Connection
    from veridical.llm.protocol import ChatModel
    from veridical.tasks.papers import Judge, Study
    from veridical.tasks.prevalence import Audit, Estimate

_WHO = "Who does what"


def papers_command(
    data: Annotated[
        Path, typer.Argument(help="The questions with abstracts: paper_dataset.json or its folder.", show_default=False)
    ],
    model: Annotated[
        list[str],
        typer.Option(
            "--model",
            "-m",
            metavar="NAME",
            help="Writes and revises summaries: a name on the server, a local folder, scripted:FILE. Repeatable.",
            show_default=False,
            rich_help_panel=_WHO,
        ),
    ],
    critic: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Criticises them: a model, or verify:DETECTOR[,citations=HOW]. Repeatable. "
            "Default: none, so nothing is revised.",
            show_default=False,
            rich_help_panel=_WHO,
        ),
    ] = None,
    judge: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Counts hallucinations: a model, or verify:DETECTOR[,citations=HOW]. Repeatable. "
            "Default: verify:overlap.",
            show_default=False,
            rich_help_panel=_WHO,
        ),
    ] = None,
    audit: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RIGHT/FLAGGED",
            help="Of so many reports that people looked at, so many were right; JUDGE=RIGHT/FLAGGED for one judge. "
            "A second pair, such as 66/100,40/50, says how many of the true ones were found.",
            show_default=False,
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option(help="The first so many questions.", min=1, show_default=False)] = None,
    threshold: Annotated[float, typer.Option(help="A claim is hallucinated from this score on.")] = 0.5,
    self_correction: Annotated[
        bool, typer.Option("--self-correction", help="Also let each model revise its summaries by its own feedback.")
    ] = False,
    only_better: Annotated[
        bool, typer.Option("--only-better", help="Keep only revisions that the critic finds better. Default: keep all.")
    ] = False,
    rounds: Annotated[int, typer.Option(help="Attempts per revision, 1 to 10 (with --only-better).")] = 1,
    seed: Annotated[int, typer.Option(help="Of the bootstrap.")] = 0,
    base_url: BaseUrl = None,
    key_env: KeyEnv = None,
    prices: PriceList = None,
    max_cost: MaxCost = None,
    max_calls: MaxCalls = None,
    concurrency: Concurrency = 8,
    timeout: Timeout = 120.0,
    cache: CachePath = None,
    dry_run: DryRun = False,
    html: Annotated[Path | None, typer.Option(metavar="OUT", help="Write a page of the revisions.")] = None,
    json: AsJson = False,
) -> int:
    """Let models summarise papers with citations, revise the summaries, and count what is not backed.

    [bold]veridical papers fave/ -m gpt-4o-mini --critic gpt-4o --judge gpt-4o --audit 66/100 --cache replies.db[/bold]
    [bold]veridical papers fave/ -m gpt-4o-mini --critic gpt-4o --judge gpt-4o --dry-run --limit 10[/bold]

    One budget for all models. Exit codes: 0 done, 2 usage or input, 3 could not judge.
    """
    from veridical.cli.llm_options import print_plan
    from veridical.datasets.fave import read_questions
    from veridical.tasks.papers import StudyOptions, study

    connection = connect(
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
    judges = judge or ["verify:overlap"]
    names = dict.fromkeys(name for name in (*model, *(critic or ()), *judges) if not _is_detector(name))
    models: dict[str, ChatModel] = {name: connection.chat(name) for name in names}
    audits = _audits(audit or [], judges, connection)
    questions: list[Case] = list(islice(read_questions(data), limit))
    found = study(
        questions,
        [models[name] if name in models else _refuse(name) for name in dict.fromkeys(model)],
        critics=[_judge(name, connection) for name in dict.fromkeys(critic or ())],
        judges=[_judge(name, connection) for name in dict.fromkeys(judges)],
        options=StudyOptions(
            self_correction=self_correction,
            only_better=only_better,
            rounds=rounds,
            threshold=threshold,
            audits=audits,
            seed=seed,
        ),
    )
    if dry_run:
        return print_plan(connection)
    _print(found, json=json)
    if html is not None:
        _write_page(found, html)
    return 0 if any(row.prevalence.summaries for row in found.rows) else 3


def _is_detector(name: str) -> bool:
    return name == "verify" or name.startswith("verify:")


def _refuse(name: str) -> Any:
    from veridical.core.errors import InputError

    raise InputError(f"--model {name} writes nothing", hint="a detector can be a critic or a judge")


def _judge(name: str, connection: Connection) -> Judge:
    """A model, or `verify` as its spec says: sentences that cite, against what they cite, unless it says otherwise."""
    from veridical.detectors import load_detector

    if not _is_detector(name):
        return connection.chat(name)
    cited = "" if "citations=" in name else ",citations=skip" if ":" in name else ":citations=skip"
    return load_detector(name + cited, connection)


def _audits(given: list[str], judges: list[str], connection: Connection) -> dict[str, Audit]:
    """The audits by the name that a judge goes by in the results."""
    from veridical.core.errors import InputError

    shown = {name: _judge(name, connection).name for name in judges}
    audits: dict[str, Audit] = {}
    for text in given:
        name, equals, counts = text.rpartition("=")
        if equals and name not in shown:
            raise InputError(f"--audit {text!r}: no judge is called {name!r}", hint=f"judges: {', '.join(judges)}")
        for judge in [name] if equals else judges:
            audits[shown[judge]] = _audit(counts)
    return audits


def _audit(counts: str) -> Audit:
    from veridical.core.errors import InputError
    from veridical.tasks.prevalence import Audit

    try:
        numbers = [int(number) for pair in counts.split(",") for number in pair.split("/")]
    except ValueError:
        numbers = []
    if len(numbers) not in (2, 4):
        raise InputError(f"--audit {counts!r} is not RIGHT/FLAGGED", hint="such as 66/100, or 66/100,40/50")
    return Audit(*numbers)


def _print(found: Study, *, json: bool) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from veridical.core.serialization import encode
    from veridical.core.text import visible

    for note in found.notes:
        sys.stderr.write(f"{visible(note)}\n")
    if json:
        for row in (*found.rows, *found.means):
            sys.stdout.write(encode(row) + "\n")
        return
    table = Table(
        "Summary", "Critique", "Judge", "Summaries", "Hallucinations each", "adjusted", "With any", "adjusted"
    )
    for row in (*found.rows, *found.means):
        p = row.prevalence
        cells = [row.generator, row.critic or "–", row.judge, str(p.summaries)]
        cells += [_shown(p.per_summary), _shown(p.per_summary_adjusted)]
        cells += [_shown(p.share, 100), _shown(p.share_adjusted, 100)]
        table.add_row(*(Text(visible(cell)) for cell in cells))
    Console(highlight=False, markup=False, emoji=False).print(table)
    left = max((row.prevalence.unjudged for row in found.rows), default=0)
    if left:
        sys.stderr.write(f"up to {left} summaries could not be judged and do not count\n")


def _shown(estimate: Estimate | None, scale: int = 1) -> str:
    if estimate is None:
        return "–"
    unit = " %" if scale == 100 else ""
    digits = 1 if scale == 100 else 2
    text = f"{scale * estimate.value:.{digits}f}{unit}"
    if estimate.low is None or estimate.high is None:
        return text
    return f"{text} ({scale * estimate.low:.{digits}f}–{scale * estimate.high:.{digits}f})"


def _write_page(found: Study, path: Path) -> None:
    from veridical.core.files import write_whole
    from veridical.report.revision import render_revisions

    results = [result for several in found.revisions.values() for result in several]
    write_whole(path, render_revisions(results, title="Revised summaries of papers"))
    sys.stderr.write(f"wrote {path}\n")
