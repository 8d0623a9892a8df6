"""`veridical causes`: tell why the cases of a run failed, grouped by the part of the system to fix."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from veridical.cli.delivery import plain_console, print_dry_run
from veridical.cli.option_groups import option_groups
from veridical.cli.options import OUTPUT, ChatOptions, write_line
from veridical.records.types import Source


@option_groups
def causes_command(
    run: Annotated[
        list[Path],
        Argument(
            metavar="RUN…", help="Folders that `veridical batch` wrote, or files of results (`veridical check --json`)."
        ),
    ],
    chat: ChatOptions,
    collection: Annotated[
        list[Path] | None,
        Option(
            metavar="FILE",
            help="Passages that could have been retrieved. This can be a .jsonl file with one passage per line (a "
            "text, or an object with id and text), or a document in which each paragraph is a passage. "
            "Repeatable.",
        ),
    ] = None,
    results: Annotated[
        Path | None,
        Option(metavar="FILE", help="Also write each result with its cause, as JSON Lines.", rich_help_panel=OUTPUT),
    ] = None,
    json: Annotated[
        bool, Option("--json", help="Print one JSON document instead of tables.", rich_help_panel=OUTPUT)
    ] = False,
) -> int:
    """Say why the cases of a run failed, so that you can fix the retriever, the documents, the prompt or the model.

    [bold]veridical causes results/[/bold]
    [bold]veridical causes results/ --collection passages.jsonl --results causes.jsonl[/bold]
    [bold]veridical causes results/ --model gpt-4o-mini --cache replies.db[/bold]

    By default, the detector in the package decides whether the passages answer the question, and whether they
    contradict a flagged sentence. This works offline. If you give --model, a chat model decides this instead.

    Exit codes: 0 done, 2 usage or input error, 3 no case could be judged.
    """
    from contextlib import ExitStack
    from itertools import chain

    from veridical.io.files import replacing
    from veridical.io.serialization import encode
    from veridical.records.errors import DataError
    from veridical.records.types import CauseKind
    from veridical.report.causes import cause_tables
    from veridical.report.terminal_tables import print_tables
    from veridical.workflows.batch.results import failed_rows, read_results
    from veridical.workflows.causes import summarise_causes, with_causes
    from veridical.workflows.causes.finding import READ_OFFLINE

    # the model of the settings file is not asked unless the command line says so
    connection = chat.connection() if chat != ChatOptions() else None
    model = None if connection is None else connection.chat()
    is_dry = connection is not None and connection.dry_run
    passages = [passage for path in collection or () for passage in read_passages(path)]
    causes = []
    with ExitStack() as stack:
        part = None if results is None or is_dry else stack.enter_context(replacing(results))
        file = None if part is None else stack.enter_context(part.open("w", encoding="utf-8", newline="\n"))
        for checked in with_causes(chain.from_iterable(map(read_results, run)), collection=passages, model=model):
            causes.append(checked.cause)
            if file is not None:
                file.write(encode(checked) + "\n")
        if not causes:
            raise DataError(
                "no results in it", path=run[0], hint="a folder of `veridical batch`, or `veridical check --json`"
            )
    if connection is not None and is_dry:
        return print_dry_run(connection)
    if unread := sum(cause is not None and READ_OFFLINE in cause.reason for cause in causes):
        write_line(f"note: no answer from the model on {unread} of {len(causes)} cases; the default detector decided")
    report = summarise_causes(causes, failed=sum(map(failed_rows, run)))
    if json:
        sys.stdout.write(encode(report) + "\n")
    else:
        print_tables(cause_tables(report), plain_console())
    judged = any(cause is not None and cause.kind is not CauseKind.NOT_JUDGED for cause in causes)
    return 0 if judged else 3


def read_passages(path: Path) -> list[Source]:
    """Load passages as sources from a file: one per line of a JSON Lines file, or one per paragraph of a document.

    A passage without an id is named after the file and the number of its line or paragraph.
    """
    import re

    from veridical.io.documents import read_document
    from veridical.io.jsonl import read_json
    from veridical.io.sources import as_sources
    from veridical.records.errors import InputError

    if path.suffix not in (".jsonl", ".ndjson"):
        paragraphs = [text.strip() for text in re.split(r"\n\s*\n", read_document(path)) if text.strip()]
        return [Source(f"{path.name}, paragraph {i}", text) for i, text in enumerate(paragraphs, 1)]
    passages = []
    for line, value in read_json(path):
        try:
            (passage,) = as_sources([value])
        except InputError as error:
            raise line.error(error.message, hint=error.hint) from None
        has_id = isinstance(value, dict) and value.get("id") is not None
        passages.append(passage if has_id else Source(f"{path.name}, line {line.number}", passage.text))
    return passages
