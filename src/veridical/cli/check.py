"""`veridical check`: one response against its sources, or a file of cases."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from veridical.cli.comma_lists import parse_thresholds
from veridical.cli.delivery import deliver, exit_code, print_dry_run, write_page
from veridical.cli.option_groups import option_groups
from veridical.cli.options import (
    DETECTION,
    OUTPUT,
    ChatOptions,
    CheckOutputOptions,
    DecisionOptions,
    ExitOptions,
    InputOptions,
    write_line,
)

if TYPE_CHECKING:
    from veridical.records.types import Checked, Outcome
    from veridical.report.junit import JUnitReport
    from veridical.report.sarif import SarifReport

DetectorNames = Annotated[
    list[str] | None,
    typer.Option(
        "--detector",
        "-d",
        metavar="SPEC",
        help="The detector to use. To list the detectors, run `veridical detectors`. You can add options after a "
        "colon: NAME:VALUE,OPTION=VALUE. judge, verify and selfcheck ask a language model (--model). "
        "Repeatable. Default: the detector called default, which comes with the package.",
        rich_help_panel=DETECTION,
    ),
]


@option_groups
def check_command(
    *,
    inputs: InputOptions,
    detector: DetectorNames = None,
    decision: DecisionOptions,
    shares: ExitOptions,
    chat: ChatOptions,
    heat: Annotated[
        bool,
        typer.Option(
            "--heat",
            help="Shade each word of the response by its score, in the terminal and in the --html report.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    output: CheckOutputOptions,
) -> int:
    """Check a response against its sources, or every case in a file.

    [bold]veridical check answer.txt article.txt[/bold]
    [bold]veridical check answer.txt article.pdf --must-cover key-points.txt --html report.html[/bold]
    [bold]veridical check answer.txt --perspective pro=for.txt --perspective con=against.txt[/bold]
    [bold]veridical check cases.jsonl --json > results.jsonl[/bold]
    [bold]veridical check answers.csv --response answer --source passage[/bold]
    [bold]veridical check cases.jsonl --fail-over 0.05 --junit junit.xml --sarif veridical.sarif[/bold]
    [bold]veridical check answer.txt -d logprob:models/reader --heat[/bold]
    [bold]veridical check answer.txt article.txt -d verify:overlap,citations=skip+missing[/bold]
    [bold]veridical check answer.txt article.txt -d judge:cot -d verify --model gpt-4o-mini --cache replies.db[/bold]

    Each line of cases.jsonl is one case: {"response": "…", "sources": ["…", {"text": "…", "must_cover": true}]}.

    Exit codes: 0 nothing flagged, 1 something flagged, 2 usage or input error, 3 could not be judged. Use --fail-over
    and --allow-unjudged to allow a proportion of flagged and of unjudged cases. An answer that makes no claim, such as
    "I don't know.", does not change the exit code.

    To read the result, see docs/findings.md. It explains outcomes, thresholds, labels and kinds of errors.
    """
    from veridical.detectors import load_detector
    from veridical.report.terminal import print_report
    from veridical.workflows.checking import DEFAULT_DETECTOR, Maps, check_cases

    specs = detector or [DEFAULT_DETECTOR]
    reports = report_files(output, inputs)
    cases = inputs.read()
    connection = chat.chosen()
    detectors = [load_detector(spec, connection) for spec in specs]
    if connection is not None:
        connection.check_model_used(specs)
    maps: list[Maps] | None = None if output.html is None else []
    results = check_cases(
        cases,
        detectors,
        threshold=parse_thresholds(decision.threshold),
        flag_over=decision.flag_over,
        explain=decision.explain,
        causes=decision.causes,
        maps=maps,
    )
    if connection is not None and connection.dry_run:
        deque(results, maxlen=0)
        return print_dry_run(connection)
    locations = inputs.locations() if output.sarif is not None else iter(())

    def add_to_reports(checked: Checked) -> None:
        location = next(locations, None)
        for report in reports.values():
            report.add(checked, location)

    def page(checked: Sequence[Checked]) -> Mapping[Path, str]:
        from veridical.report.html import render_pages

        return render_pages(checked, output.html or Path(), maps=maps or (), heat=heat)

    outcomes = deliver(
        results, output, show=partial(print_report, heat=heat), page=page, also=add_to_reports, total=inputs.total
    )
    for path, report in reports.items():
        write_page(path, report.text())
    if reports or shares != ExitOptions() or outcomes.total() > 1:
        write_line(counts(outcomes, shares))
    return exit_code(outcomes, shares)


def report_files(output: CheckOutputOptions, inputs: InputOptions) -> dict[Path, JUnitReport | SarifReport]:
    """Create an empty report for each of the options --junit and --sarif that is given, as a dict from file to report.

    The files are validated before anything is judged.

    Raises:
        InputError: Two reports name the same file, or a report would overwrite an input.
        OutputError: The folder of a report is missing, or a report is a folder.
    """
    from veridical.records.errors import InputError, OutputError

    inputs.check_outputs(output.html, output.junit, output.sarif)
    files = [path for path in (output.html, output.junit, output.sarif) if path is not None]
    if len(set(files)) < len(files):
        raise InputError("two reports are to be written to the same file", hint="name one file for each")
    for path in files:  # before anything is judged, not after
        if path.is_dir():
            raise OutputError(f"cannot write {path}: it is a folder", hint="name a file in it")
        if not path.parent.is_dir():
            raise OutputError(f"cannot write {path}: there is no folder {path.parent}", hint="make it first")
    reports: dict[Path, JUnitReport | SarifReport] = {}
    if output.junit is not None:
        from veridical.report.junit import JUnitReport

        reports[output.junit] = JUnitReport(inputs.response.stem)
    if output.sarif is not None:
        from veridical.report.sarif import SarifReport

        reports[output.sarif] = SarifReport()
    return reports


def counts(outcomes: Counter[Outcome], shares: ExitOptions) -> str:
    """Return a line for the user that says how many cases were flagged or unjudged, and which proportion is allowed.

    Args:
        outcomes: The number of cases with each outcome.
        shares: The options with the allowed proportions.
    """
    from veridical.records.types import Outcome

    total, flagged, unjudged = outcomes.total(), outcomes[Outcome.FLAGGED], outcomes[Outcome.UNJUDGED]
    no_claim, judged = outcomes[Outcome.NO_CLAIM], flagged + outcomes[Outcome.CLEAR]
    return (
        f"veridical: {flagged} of {judged} judged cases flagged (allowed: {shares.fail_over:.4g} of them), "
        f"{unjudged} of {total} not judged (allowed: {shares.allow_unjudged:.4g} of them)"
        + (f", {no_claim} without a claim" if no_claim else "")
    )
