"""`veridical check`: one response against its sources, or a file of cases."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from veridical.cli.comma_lists import parse_thresholds
from veridical.cli.delivery import deliver, print_dry_run
from veridical.cli.option_groups import option_groups
from veridical.cli.options import DETECTION, OUTPUT, ChatOptions, DecisionOptions, InputOptions, OutputOptions

if TYPE_CHECKING:
    from veridical.core.salience_map import SalienceMap
    from veridical.core.types import Checked

DetectorNames = Annotated[
    list[str] | None,
    typer.Option(
        "--detector",
        "-d",
        metavar="SPEC",
        help="A detector, with options as NAME:OPTION,…; see: veridical detectors. Repeatable. Default: default, which "
        "comes with the package. judge, verify and selfcheck ask a language model (--model).",
        rich_help_panel=DETECTION,
    ),
]


@option_groups
def check_command(
    *,
    inputs: InputOptions,
    detector: DetectorNames = None,
    decision: DecisionOptions,
    chat: ChatOptions,
    heat: Annotated[
        bool,
        typer.Option("--heat", help="Shade each word by its score, here and in --html.", rich_help_panel=OUTPUT),
    ] = False,
    output: OutputOptions,
) -> int:
    """Check a response against its sources, or every case in a file.

    [bold]veridical check answer.txt article.txt[/bold]
    [bold]veridical check answer.txt article.pdf --must-cover key-points.txt --html report.html[/bold]
    [bold]veridical check answer.txt --perspective pro=for.txt --perspective con=against.txt[/bold]
    [bold]veridical check cases.jsonl --json --fail-over 0.5 > results.jsonl[/bold]
    [bold]veridical check answer.txt -d logprob:models/reader --heat[/bold]
    [bold]veridical check answer.txt article.txt -d judge:cot -d verify --model gpt-4o-mini --cache replies.db[/bold]

    A line of cases.jsonl: {"response": "…", "sources": ["…", {"text": "…", "must_cover": true}]}.
    Exit codes: 0 nothing flagged, 1 something flagged, 2 usage or input error, 3 could not be judged.
    """
    from veridical.checking import DEFAULT_DETECTOR

    return check_with(detector or [DEFAULT_DETECTOR], inputs, decision, chat, output, heat=heat)


def check_with(
    specs: Sequence[str],
    inputs: InputOptions,
    decision: DecisionOptions,
    chat: ChatOptions,
    output: OutputOptions,
    *,
    heat: bool = False,
) -> int:
    """Check the cases of `inputs` with the detectors that `specs` name, deliver the results, return the exit code."""
    from veridical.checking import check_cases_with_maps
    from veridical.detectors import load_detector
    from veridical.report.html import render_html
    from veridical.report.terminal import print_report

    cases = inputs.read()
    connection = chat.connection()
    detectors = [load_detector(spec, connection) for spec in specs]
    connection.check_model_used(specs)
    threshold = parse_thresholds(decision.threshold)
    pairs = check_cases_with_maps(
        cases, detectors, threshold=threshold, fail_over=decision.fail_over, explain=decision.explain
    )
    if chat.dry_run:
        deque(pairs, maxlen=0)
        return print_dry_run(connection)
    maps: list[tuple[SalienceMap | None, ...]] = []

    def results() -> Iterator[Checked]:
        for checked, of_case in pairs:
            if output.html is not None:
                maps.append(of_case)
            yield checked

    return deliver(
        results(),
        output,
        show=partial(print_report, heat=heat),
        page=lambda checked: render_html(checked, maps=maps, heat=heat),
    )
