"""`veridical revise`: correct what the sources do not back, and keep only what is better."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, ClassVar

from typer import Option

from veridical.cli.comma_lists import parse_thresholds
from veridical.cli.delivery import deliver, exit_code, print_dry_run
from veridical.cli.option_groups import option_groups
from veridical.cli.options import ChatOptions, InputOptions, TextOutputOptions, Threshold
from veridical.cli.verify import ClaimOptions

BATCH = 64

ReviserName = Annotated[
    str | None,
    Option(
        metavar="NAME",
        help="factored: the model criticises each claim and revises. self: the model criticises the whole response "
        "and revises. delete: remove unsupported claims. flag: mark them in the text. Default: factored with "
        "--model, else delete.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class ReviserOptions:
    """How unsupported claims are revised."""

    PANEL: ClassVar[str] = "Revision"

    reviser: ReviserName = None
    rounds: Annotated[int, Option(help="Maximum number of attempts per response (1 to 10).")] = 1
    critic: Annotated[
        str | None, Option(metavar="NAME", help="Another model on the same server, which writes the critiques.")
    ] = None


@option_groups
def revise_command(
    inputs: InputOptions,
    claims: ClaimOptions,
    revision: ReviserOptions,
    chat: ChatOptions,
    output: TextOutputOptions,
    threshold: Threshold = None,
) -> int:
    """Revise the claims of a response that its sources do not back; each edit comes with its critique.

    [bold]veridical revise answer.txt article.txt --reviser delete[/bold]
    [bold]veridical revise answer.txt article.txt --model gpt-4o-mini --checker cot --html changes.html[/bold]
    [bold]veridical revise cases.jsonl --json > revisions.jsonl[/bold]

    The revised text is checked again and kept only if it is better and loses nothing that was supported.
    Exit codes (of the final text): 0 nothing flagged, 1 something flagged, 2 usage or input error, 3 could not be
    judged.
    """
    from veridical.detectors import load_detector
    from veridical.report.revision import print_revisions, render_revisions
    from veridical.revise import revise
    from veridical.revise.named import make_reviser

    connection = chat.connection()
    detector = load_detector(claims.spec(), connection)
    reviser = make_reviser(revision.reviser, connection, critic=revision.critic)
    thresholds, cases = parse_thresholds(threshold), inputs.read()
    results = (
        result
        for batch in iter(lambda: list(islice(cases, BATCH)), [])
        for result in revise(batch, detector, reviser, threshold=thresholds, rounds=revision.rounds)
    )
    if chat.dry_run:
        deque(results, maxlen=0)
        return print_dry_run(connection)
    outcomes = deliver(
        results,
        output,
        show=print_revisions,
        page=render_revisions,
        text_of=lambda result: (result.case.id, result.revision.text),
    )
    return exit_code(outcomes)
