"""`veridical revise`: revise unsupported claims, and keep a revision only if it is better."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, fields
from itertools import islice
from typing import Annotated, ClassVar

from typer import Option

from veridical.cli.comma_lists import parse_thresholds
from veridical.cli.delivery import deliver, exit_code, print_dry_run
from veridical.cli.option_groups import option_groups
from veridical.cli.options import DETECTION, ChatOptions, InputOptions, TextOutputOptions, Threshold
from veridical.records.spec import Spec

BATCH = 64

ReviserName = Annotated[
    str | None,
    Option(
        metavar="NAME",
        help="How to revise. factored: the model criticises each claim and then revises. self: the model criticises "
        "the whole response and then revises. delete: correct values that are different in the sources, and "
        "remove other unsupported sentences. flag: mark them in the text. Default: factored with --model, "
        "otherwise delete.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class ReviserOptions:
    """Options of `veridical revise` for the reviser, which proposes edits of unsupported claims."""

    PANEL: ClassVar[str] = "Revision"

    reviser: ReviserName = None
    rounds: Annotated[int, Option(help="Maximum number of attempts per response (1 to 10).")] = 1
    critic: Annotated[
        str | None,
        Option(
            metavar="NAME",
            help="Another model on the same server that writes the critiques (only with factored). Default: the model "
            "of --model.",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class ClaimOptions:
    """Options of `veridical revise` for its detector: how to split a response into claims, and how to check them."""

    PANEL: ClassVar[str] = DETECTION

    splitter: Annotated[
        str,
        Option(
            help="How to split the response into claims. sentences: each sentence is a claim. model: the language "
            "model lists the claims."
        ),
    ] = "sentences"
    checker: Annotated[
        str | None,
        Option(
            metavar="NAME",
            help="How to check a claim. yes_no: by the model's probability of answering Yes. cot: the model reasons "
            "and quotes. You can also name a detector, such as overlap. Default: yes_no with --model, "
            "otherwise the detector default for the whole response.",
        ),
    ] = None
    citations: Annotated[
        str,
        Option(
            metavar="HOW",
            help="How to use citations in the response. off: check every claim against all sources. skip: check each "
            "claim against the sources it cites, and skip claims without citations. all: like skip, but check claims "
            "without citations against all sources. Append +missing to flag claims without citations, and +each to "
            "check a claim also against each of its sources alone (all+missing+each).",
        ),
    ] = "off"
    window: Annotated[
        int | None,
        Option(
            help="Split the sources into windows of this many characters, one per prompt. A claim is supported if any "
            "window supports it.",
            min=1,
        ),
    ] = None
    claims_per_call: Annotated[
        int,
        Option(
            help="The number of claims per request. With more claims per request, you pay less, but they are judged "
            "less accurately.",
            min=1,
        ),
    ] = 1

    def spec(self, model: str | None) -> Spec:
        """Return the detector spec for these options: "verify" with options, or "default" without options and model.

        Args:
            model: The name of the chat model. None without one.
        """
        if model is None and self == ClaimOptions():
            return Spec("default")
        given = {
            each.name: getattr(self, each.name) for each in fields(self) if getattr(self, each.name) != each.default
        }
        checker = (given.pop("checker"),) if "checker" in given else ()
        return Spec("verify", checker, {name: str(value) for name, value in given.items()})


@option_groups
def revise_command(
    inputs: InputOptions,
    claims: ClaimOptions,
    revision: ReviserOptions,
    chat: ChatOptions,
    output: TextOutputOptions,
    threshold: Threshold = None,
) -> int:
    """Revise the claims of a response that its sources do not support, and explain each edit.

    [bold]veridical revise answer.txt article.txt --reviser delete[/bold]
    [bold]veridical revise answer.txt article.txt --model gpt-4o-mini --checker cot --html changes.html[/bold]
    [bold]veridical revise cases.jsonl --json > revisions.jsonl[/bold]

    The revised text is checked again. It is kept only if it is better and still says everything that was supported.

    Exit codes, for the final text: 0 nothing flagged, 1 something flagged, 2 usage or input error, 3 could not be
    judged.
    """
    from veridical.detectors import load_detector
    from veridical.report.revision import print_revisions, render_revisions
    from veridical.workflows.revise import revise
    from veridical.workflows.revise.named import make_reviser

    inputs.check_outputs(output.html)
    connection = chat.chosen()
    detector = load_detector(claims.spec(chat.model), connection)
    reviser = make_reviser(revision.reviser, connection, critic=revision.critic)
    thresholds, cases = parse_thresholds(threshold), inputs.read()
    results = (
        result
        for batch in iter(lambda: list(islice(cases, BATCH)), [])
        for result in revise(batch, detector, reviser, threshold=thresholds, rounds=revision.rounds)
    )
    if connection is not None and connection.dry_run:
        deque(results, maxlen=0)
        return print_dry_run(connection)
    outcomes = deliver(
        results,
        output,
        show=print_revisions,
        page=render_revisions,
        text_of=lambda result: (result.case.id, result.revision.text),
        total=inputs.total,
    )
    return exit_code(outcomes)
