"""`veridical verify`: a response claim by claim; the same as `veridical check --detector verify:…`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from typer import Option

from veridical.cli.check import check_with
from veridical.cli.option_groups import option_groups
from veridical.cli.options import DETECTION, ChatOptions, CheckOutputOptions, DecisionOptions, InputOptions
from veridical.core.spec import Spec


@dataclass(frozen=True, kw_only=True)
class ClaimOptions:
    """How a response is split into claims, and how each is checked."""

    PANEL: ClassVar[str] = DETECTION

    splitter: Annotated[
        str, Option(help="What the claims are: sentences, or what the language model lists (model).")
    ] = "sentences"
    checker: Annotated[
        str | None,
        Option(
            metavar="NAME",
            help="What checks a claim: yes_no (the model's probability of Yes), cot (chain of thought with quotes), or "
            "a detector such as overlap. Default: yes_no with --model, else the detector default.",
        ),
    ] = None
    citations: Annotated[
        str,
        Option(
            metavar="HOW",
            help="off: check claims against all sources. skip: check each claim against the sources it cites, and skip "
            "claims that cite none. all: check those against all sources. Append +missing to flag claims that cite "
            "nothing, +each to check each of several cited sources alone, too (all+missing+each).",
        ),
    ] = "off"
    window: Annotated[
        int | None,
        Option(help="Characters of the sources per prompt; a claim is supported if any window supports it.", min=1),
    ] = None
    claims_per_call: Annotated[int, Option(help="Claims per request: more are cheaper and less accurate.", min=1)] = 1

    def spec(self) -> Spec:
        """The spec of the detector that these options describe."""
        options = {
            "splitter": self.splitter if self.splitter != "sentences" else None,
            "citations": self.citations if self.citations != "off" else None,
            "window": self.window,
            "claims_per_call": self.claims_per_call if self.claims_per_call != 1 else None,
        }
        checker = () if self.checker is None else (self.checker,)
        return Spec("verify", checker, {name: str(value) for name, value in options.items() if value is not None})


@option_groups
def verify_command(
    inputs: InputOptions, claims: ClaimOptions, decision: DecisionOptions, chat: ChatOptions, output: CheckOutputOptions
) -> int:
    """Check each claim of a response against its sources, one by one.

    [bold]veridical verify answer.txt article.txt[/bold]
    [bold]veridical verify answer.txt article.pdf --model gpt-4o-mini --checker cot --html report.html[/bold]
    [bold]veridical verify cases.jsonl --model llama --base-url http://127.0.0.1:8000/v1 --dry-run[/bold]
    [bold]veridical verify summary.json --citations skip+missing[/bold]

    The same as `veridical check --detector verify:CHECKER,OPTION=VALUE,…`.
    Exit codes: 0 nothing flagged, 1 something flagged, 2 usage or input error, 3 could not be judged.
    """
    return check_with([str(claims.spec())], inputs, decision, chat, output)
