"""Deliver the results of a command: print each as soon as it is ready, write an HTML page, and find the exit code."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from veridical.cli.options import ExitOptions, OutputOptions, TextOutputOptions, write_line

if TYPE_CHECKING:
    from rich.console import Console

    from veridical.llm.connection import Connection
    from veridical.records.types import Outcome


class Result(Protocol):
    """The interface that `deliver` needs of a result. `Checked` and `Revised` implement it."""

    @property
    def outcome(self) -> Outcome:
        """The decision: clear, flagged, no claim or unjudged."""


R = TypeVar("R", bound=Result)


def deliver(
    results: Iterable[R],
    output: OutputOptions,
    *,
    show: Callable[[Iterable[R], Console], None],
    page: Callable[[Sequence[R]], str | Mapping[Path, str]] | None = None,
    text_of: Callable[[R], tuple[str, str]] | None = None,
    also: Callable[[R], None] = lambda result: None,
    total: Callable[[], int | None] = lambda: None,
) -> Counter[Outcome]:
    """Write each result as soon as it is ready, and at the end the HTML page if --html is given.

    Return the number of results with each outcome.

    Args:
        results: The results. They may be lazy and are read once.
        output: The output options of the command.
        show: A function that prints results for people to read.
        page: A function that renders all results as an HTML page, or as several pages by their files.
        text_of: A function that returns the case id and the text of a result, for `--text`.
        also: A function that is called with each result, for further reports.
        total: A function that returns the number of results, or None if it is not known.
    """
    from veridical.cli.progress import count_of

    outcomes: Counter[Outcome] = Counter()
    for_page: list[R] = []

    def counted_results() -> Iterator[R]:
        with count_of("cases", total) as show_count:
            for result in results:
                outcomes[result.outcome] += 1
                if output.html is not None:
                    for_page.append(result)
                also(result)
                yield result
                show_count(outcomes.total())

    if output.json:
        from veridical.io.serialization import encode

        for result in counted_results():
            sys.stdout.write(encode(result) + "\n")
            sys.stdout.flush()
    elif isinstance(output, TextOutputOptions) and output.text and text_of is not None:
        write_texts(text_of(result) for result in counted_results())
    else:
        show(counted_results(), plain_console())
    if output.html is not None and page is not None:
        pages = page(for_page)
        for path, text in ({output.html: pages} if isinstance(pages, str) else pages).items():
            write_page(path, text)
    return outcomes


def exit_code(outcomes: Counter[Outcome], shares: ExitOptions | None = None) -> int:
    """Return the exit code: 1 if too many results are flagged, 3 if too many are unjudged, and 0 otherwise.

    Args:
        outcomes: The number of results with each outcome.
        shares: The allowed proportion of flagged results among the flagged and clear results, and the allowed
            proportion of unjudged results among all results.
    """
    from veridical.records.types import Outcome

    shares = shares or ExitOptions()
    flagged, unjudged = outcomes[Outcome.FLAGGED], outcomes[Outcome.UNJUDGED]
    if flagged > 0 and flagged / (flagged + outcomes[Outcome.CLEAR]) > shares.fail_over:
        return 1
    return 3 if unjudged > 0 and unjudged / outcomes.total() > shares.allow_unjudged else 0


def write_texts(texts: Iterable[tuple[str, str]]) -> None:
    """Write pairs (id of the case, text) to standard output, for --text.

    A single text is written unchanged. If there are several texts, each is written under a line `==> ID <==`.
    """
    from veridical.records.strings import visible_line

    first: tuple[str, str] | None = None
    several = False
    for pair in texts:
        if first is None:
            first = pair
            continue
        for id, text in (pair,) if several else (first, pair):
            sys.stdout.write(f"==> {visible_line(id)} <==\n{text}\n\n")
        several = True
        sys.stdout.flush()
    if first is not None and not several:
        sys.stdout.write(first[1])


def plain_console() -> Console:
    """Return a console of `rich` on standard output that does not interpret texts as markup."""
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False, soft_wrap=False)


def write_page(path: Path, page: str) -> None:
    """Write a page or another report to `path`, and name the file on standard error."""
    from veridical.io.files import write_whole

    write_whole(path, page)
    write_line(f"wrote {path}")


def print_dry_run(connection: Connection) -> int:
    """Print the number of calls and tokens that each model would take, and return the exit code 0."""
    from veridical.llm.budget import most_tokens
    from veridical.llm.dry_run import DryRun

    for model in connection.models.values():
        inner = getattr(model, "model", model)
        requests = inner.requests if isinstance(inner, DryRun) else []
        stages: dict[str, int] = {}
        for request in requests:
            stages[request.stage] = stages.get(request.stage, 0) + 1
        prompt_tokens = sum(most_tokens(request)[0] for request in requests) // 4
        completion_tokens = sum(request.max_tokens for request in requests)
        by_stage = ", ".join(f"{stage} {n}" for stage, n in stages.items()) or "none"
        cost = connection.cost_of(prompt_tokens, completion_tokens)
        at_most = "" if cost is None else f"; at most about {cost:.4f}"
        sys.stdout.write(
            f"{model.name}: {len(requests)} calls ({by_stage}), about {prompt_tokens} prompt tokens, "
            f"at most {completion_tokens} completion tokens{at_most}\n"
        )
    if not connection.models:
        sys.stdout.write("No language model is asked.\n")
    sys.stdout.write("Dry run: nothing was sent. Claims that turn out to be supported need no critique or revision.\n")
    return 0
