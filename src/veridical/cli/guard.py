"""`veridical guard`: a local language model writes, with a detector in the loop."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from veridical.core.types import Case
    from veridical.guard import Guarded

_INPUT = "What to write about"
_HOW = "What is done"
_DRAW = "How it is drawn"
_BUDGET = "What it may cost"
_OUTPUT = "What comes out"


def guard_command(
    cases: Annotated[
        Path | None,
        typer.Argument(
            metavar="[CASES]",
            help='Cases as .json or .jsonl, such as {"response": "", "sources": ["…"]}; responses are not read.',
            show_default=False,
        ),
    ] = None,
    source: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="A source: text, .pdf, .html or .md. Repeatable.",
            show_default=False,
            rich_help_panel=_INPUT,
        ),
    ] = None,
    question: Annotated[
        str | None,
        typer.Option("--question", "-q", help="The question to answer.", show_default=False, rich_help_panel=_INPUT),
    ] = None,
    prompt: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="The very text that the model continues; {source} in it stands for the sources.",
            show_default=False,
            rich_help_panel=_INPUT,
        ),
    ] = None,
    template: Annotated[
        str | None,
        typer.Option(
            help="How a case becomes the prompt: general, tldr, chat, raw … Default: the detector's own.",
            show_default=False,
            rich_help_panel=_INPUT,
        ),
    ] = None,
    max_mb: Annotated[
        int, typer.Option(help="Refuse a file (or a line of cases) larger than this.", min=1, rich_help_panel=_INPUT)
    ] = 256,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "-m",
            metavar="FOLDER",
            help="The language model that writes, on this machine. Default: the detector's own.",
            show_default=False,
        ),
    ] = None,
    detector: Annotated[
        str,
        typer.Option(
            "--detector",
            "-d",
            metavar="SPEC",
            help="Any of `veridical detectors`; or logprob, entropy, rank: of what the model draws.",
        ),
    ] = "overlap",
    strategy: Annotated[
        str,
        typer.Option(
            help="stop before what is flagged; backtrack to before it and draw again; suppress the flagged token; "
            "rerank whole texts.",
            rich_help_panel=_HOW,
        ),
    ] = "backtrack",
    unit: Annotated[
        str,
        typer.Option(help="Where stop and backtrack go: its token, word or sentence.", rich_help_panel=_HOW),
    ] = "word",
    threshold: Annotated[
        float | None,
        typer.Option(
            help="Score from which something is flagged. Default: the detector's own, else 0.5.",
            show_default=False,
            rich_help_panel=_HOW,
        ),
    ] = None,
    samples: Annotated[int, typer.Option(help="Texts that rerank chooses from.", rich_help_panel=_HOW)] = 4,
    beams: Annotated[
        bool, typer.Option("--beams", help="rerank chooses from a beam search.", rich_help_panel=_HOW)
    ] = False,
    max_new_tokens: Annotated[int, typer.Option(help="Length of the text at most.", rich_help_panel=_DRAW)] = 128,
    temperature: Annotated[float, typer.Option(help="0 takes the likeliest token.", rich_help_panel=_DRAW)] = 0.0,
    top_k: Annotated[int, typer.Option(help="Draw from so many likeliest; 0: all.", rich_help_panel=_DRAW)] = 0,
    top_p: Annotated[float, typer.Option(help="Draw from the likeliest of this mass.", rich_help_panel=_DRAW)] = 1.0,
    seed: Annotated[int, typer.Option(help="The same seed gives the same text.", rich_help_panel=_DRAW)] = 0,
    reheat: Annotated[
        float, typer.Option(help="Added to the temperature with each retry at a place.", rich_help_panel=_DRAW)
    ] = 0.0,
    max_interventions: Annotated[
        int, typer.Option(help="After these the rest is written unguarded.", rich_help_panel=_BUDGET)
    ] = 20,
    max_retries: Annotated[
        int, typer.Option(help="Redrawings at one place; then the best of them stands.", rich_help_panel=_BUDGET)
    ] = 3,
    max_tokens: Annotated[
        int | None,
        typer.Option(
            help="Tokens drawn in all, drafts included. Default: 8 times the length.",
            show_default=False,
            rich_help_panel=_BUDGET,
        ),
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(help="Of the clock, a text.", show_default=False, rich_help_panel=_BUDGET)
    ] = None,
    compare: Annotated[
        bool,
        typer.Option("--compare", help="Tell also what the model writes unguarded.", rich_help_panel=_OUTPUT),
    ] = False,
    text: Annotated[
        bool, typer.Option("--text", help="Print the text that stands and nothing else.", rich_help_panel=_OUTPUT)
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print one line of JSON a case instead of text.", rich_help_panel=_OUTPUT)
    ] = False,
) -> int:
    """Let a local model write while a detector reads along; what is flagged is cut, redrawn or not chosen.

    [bold]veridical guard --source article.txt --model models/reader --template tldr --detector overlap[/bold]
    [bold]veridical guard cases.jsonl --detector probe:my-probe --strategy suppress --compare --json[/bold]
    [bold]veridical guard --source a.txt --prompt "{source} In short: " -m models/reader -d rank --threshold 0.9[/bold]

    The text that stands is judged again as a whole. Exit codes (of that text): 0 nothing flagged, 1 flagged,
    2 usage or input, 3 could not judge.
    """
    from veridical.core.errors import InputError
    from veridical.documents import read_cases
    from veridical.guard import Budget, Sampling, guard

    if cases is not None and (source or question is not None or prompt is not None):
        raise InputError(
            f"{cases} holds cases, and a source, question or prompt is given too", hint="put them into the cases"
        )
    if cases is None and not source and prompt is None and question is None:
        raise InputError("nothing to write about is given", hint="name cases, a --source, a --question or a --prompt")
    sampling = Sampling(max_new_tokens, temperature, top_k, top_p, seed, reheat)
    budget = Budget(max_interventions, max_retries, max_tokens, seconds)
    limit = max_mb * 1024 * 1024
    given = (
        iter([_case(source or [], question, prompt, limit)]) if cases is None else read_cases(cases, max_bytes=limit)
    )
    options: dict[str, Any] = {
        "strategy": strategy, "unit": unit, "threshold": threshold, "samples": samples, "beams": beams,
        "template": template, "sampling": sampling, "budget": budget, "compare": compare, "say": _say,
    }  # fmt: skip
    return _deliver((guard(case, detector, model, **options) for case in given), text=text, json=json)


def _case(paths: list[Path], question: str | None, prompt: str | None, limit: int) -> Case:
    """The case of the options; sources are called by their file names."""
    from veridical.core.types import Case, Source
    from veridical.documents import read_document

    texts = [read_document(path, max_bytes=limit) for path in paths]
    names = [path.name if [p.name for p in paths].count(path.name) == 1 else str(path) for path in paths]
    sources = tuple(Source(name, text) for name, text in zip(names, texts, strict=True))
    if prompt is not None:
        prompt = prompt.replace("{source}", "\n\n".join(texts))
    return Case("1", "", sources, question, prompt=prompt)


def _deliver(results: Iterator[Guarded], *, text: bool, json: bool) -> int:
    """Print each result as it comes, and give back the exit code."""
    from rich.console import Console

    from veridical.core.serialization import encode
    from veridical.core.types import Outcome
    from veridical.report.guarded import print_guarded

    console = Console(highlight=False, markup=False, emoji=False, soft_wrap=False)
    outcomes: set[Outcome] = set()
    for result in results:
        outcomes.add(result.outcome)
        if json:
            sys.stdout.write(encode(result) + "\n")
        elif text:
            sys.stdout.write(result.text)
        else:
            print_guarded([result], console)
        sys.stdout.flush()
    return 1 if Outcome.FLAGGED in outcomes else 3 if Outcome.UNJUDGED in outcomes else 0


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
