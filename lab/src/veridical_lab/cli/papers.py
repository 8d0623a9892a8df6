"""`veridical papers`: measure how often models hallucinate in cited summaries of papers, before and after revision."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from typer import Argument, Option

from veridical.cli.delivery import print_dry_run, write_page
from veridical.cli.option_groups import option_groups
from veridical.cli.options import OUTPUT, OutputOptions, ServerOptions, write_line
from veridical_lab.cli.json_lines import json_lines, write_json_lines
from veridical_lab.cli.shared_options import settings_of, this_command

if TYPE_CHECKING:
    from veridical.llm.connection import Connection
    from veridical_lab.tasks.papers import SummaryJudge
    from veridical_lab.tasks.prevalence import Audit


@dataclass(frozen=True, kw_only=True)
class RoleOptions:
    """Chooses which models write, criticise and judge."""

    PANEL: ClassVar[str] = "Roles"

    model: Annotated[
        list[str],
        Option(
            "--model",
            "-m",
            metavar="NAME",
            help="Writes and revises summaries: a model on the server, a local folder, or scripted:FILE. Repeatable.",
        ),
    ]
    critic: Annotated[
        list[str],
        Option(
            metavar="NAME",
            help="Criticises the summaries: a model, or verify:DETECTOR[,citations=HOW]. Repeatable. Default: none, so "
            "nothing is revised.",
        ),
    ] = field(default_factory=list)
    judge: Annotated[
        list[str],
        Option(
            metavar="NAME",
            help="Counts hallucinations: a model, or verify:DETECTOR[,citations=HOW]. Repeatable. Default: "
            "verify:overlap.",
        ),
    ] = field(default_factory=list)

    def __post_init__(self) -> None:
        from veridical.records.errors import InputError

        for name in ("model", "critic", "judge"):
            object.__setattr__(self, name, list(dict.fromkeys(getattr(self, name))))
        if not self.judge:
            self.judge.append("verify:overlap")
        for name in filter(_is_detector, self.model):
            raise InputError(f"--model {name} writes nothing", hint="name a detector as --critic or --judge")


@dataclass(frozen=True, kw_only=True)
class CountingOptions:
    """Sets what is counted."""

    PANEL: ClassVar[str] = "Study"

    audit: Annotated[
        list[str],
        Option(
            metavar="RIGHT/FLAGGED",
            help="How far the judges can be trusted: people looked at FLAGGED reports, and RIGHT of them were right. "
            "JUDGE=RIGHT/FLAGGED for one judge. A second pair, as in 66/100,40/50, says how many of the true "
            "hallucinations the judge found.",
        ),
    ] = field(default_factory=list)
    limit: Annotated[int | None, Option(help="Use only the first questions, this many.", min=1)] = None
    threshold: Annotated[float, Option(help="A claim counts as hallucinated if it scores at least this.")] = 0.5
    self_correction: Annotated[
        bool, Option("--self-correction", help="Also let each model revise all its summaries by its own feedback.")
    ] = False
    only_better: Annotated[
        bool, Option("--only-better", help="Keep only revisions that the critic finds better. Default: keep all.")
    ] = False
    rounds: Annotated[int, Option(help="Maximum number of revisions per summary, 1 to 10 (with --only-better).")] = 1
    seed: Annotated[int, Option(help="Random seed of the bootstrap.")] = 0

    def audits(self, names: Mapping[str, str]) -> dict[str, Audit]:
        """Return the audit of each judge by its name in the results. `names` maps the user's names to those names."""
        from veridical.records.errors import InputError

        audits: dict[str, Audit] = {}
        for text in self.audit:
            judge, equals, counts = text.rpartition("=")
            if equals and judge not in names:
                raise InputError(f"--audit {text!r}: no judge is called {judge!r}", hint=f"judges: {', '.join(names)}")
            for name in [judge] if equals else names:
                audits[names[name]] = _audit(counts)
        return audits


@option_groups
def papers_command(
    data: Annotated[
        Path, Argument(metavar="PATH", help="The questions with abstracts: paper_dataset.json, or its folder.")
    ],
    roles: RoleOptions,
    counting: CountingOptions,
    server: ServerOptions,
    output: OutputOptions,
    out: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="Also write the figures to FILE (JSON Lines). If the run is interrupted, it continues from there.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
) -> int:
    """Let models summarise papers with citations, revise the summaries, and count unsupported claims.

    [bold]veridical papers fave/ -m gpt-4o-mini --critic gpt-4o --judge gpt-4o --audit 66/100 --out rows.jsonl[/bold]
    [bold]veridical papers fave/ -m gpt-4o-mini --critic gpt-4o --judge gpt-4o --dry-run --limit 10[/bold]

    All models share one budget. If it is spent, run the same command again to continue. With --out, replies are stored
    until the run is complete, or longer if you also set --cache.

    Exit codes: 0 done, 2 usage or input error, 3 could not be judged.
    """
    from veridical.cli.progress import progress_bar
    from veridical.records.errors import CannotJudgeError
    from veridical.records.strings import visible
    from veridical.report.revision import render_revisions
    from veridical.report.terminal_tables import print_tables
    from veridical_lab.datasets.fave import read_questions
    from veridical_lab.report.prevalence_table import prevalence_tables
    from veridical_lab.tasks.papers import StudyOptions, study

    connection = server.connection(cache=out.with_name(out.name + ".work") / "replies.db" if out else None)
    generators = [connection.chat(name) for name in roles.model]
    judges = {name: _judge(name, connection) for name in (*roles.critic, *roles.judge)}
    with progress_bar() as progress:
        results = study(
            list(islice(read_questions(data), counting.limit)),
            generators,
            critics=[judges[name] for name in roles.critic],
            judges=[judges[name] for name in roles.judge],
            options=settings_of(
                StudyOptions,
                counting,
                audits=counting.audits({name: judges[name].name for name in roles.judge}),
                command=this_command(),
                progress=lambda step, done, total: progress("steps", done, total),
            ),
        )
    if server.dry_run:
        return print_dry_run(connection)
    for note in results.notes:
        write_line(visible(note))
    if connection.refused_requests:
        raise CannotJudgeError(
            "the budget is spent before all summaries are written, revised and counted",
            hint="run the same again with a larger budget: with --out (or --cache) nothing is paid twice",
        )
    rows = [*results.rows, *results.means]
    if out:
        write_json_lines(out, rows)
        shutil.rmtree(out.with_name(out.name + ".work"), ignore_errors=True)
    if output.json:
        sys.stdout.write(json_lines(rows))
    else:
        print_tables(prevalence_tables(rows))
    if output.html is not None:
        revisions = [result for several in results.revisions.values() for result in several]
        write_page(output.html, render_revisions(revisions, title="Revised summaries of papers"))
    return 0 if any(row.prevalence.summaries for row in results.rows) else 3


def _is_detector(name: str) -> bool:
    return name == "verify" or name.startswith("verify:")


def _judge(name: str, connection: Connection) -> SummaryJudge:
    """Return a chat model, or the detector `verify` of a spec, which by default skips sentences that cite nothing."""
    from veridical.detectors import load_detector
    from veridical.records.spec import parse_spec

    if not _is_detector(name):
        return connection.chat(name)
    spec = parse_spec(name)
    return load_detector(replace(spec, options={"citations": "skip", **spec.options}), connection)


def _audit(counts: str) -> Audit:
    from veridical.records.errors import InputError
    from veridical_lab.tasks.prevalence import Audit

    try:
        numbers = [int(number) for pair in counts.split(",") for number in pair.split("/")]
    except ValueError:
        numbers = []
    if len(numbers) not in (2, 4):
        raise InputError(f"--audit {counts!r} is not RIGHT/FLAGGED", hint="such as 66/100, or 66/100,40/50")
    return Audit(*numbers)
