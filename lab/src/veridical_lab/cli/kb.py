"""`veridical kb`: build, search and show a knowledge base of topics with arguments by perspective."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from veridical.cli.options import OUTPUT, Split, write_line
from veridical_lab.cli.shared_options import this_command

if TYPE_CHECKING:
    from collections.abc import Iterator

    from veridical.records.errors import DataError
    from veridical_lab.datasets.topics import Topic

kb_app = typer.Typer(
    no_args_is_help=True, help="Knowledge base: topics with arguments by perspective, for `veridical answer`."
)

KnowledgeBaseFile = Annotated[Path, Argument(metavar="FILE", help="The knowledge base.")]
JsonTopics = Annotated[
    bool, Option("--json", help="Print one JSON object per line instead of text.", rich_help_panel=OUTPUT)
]


@kb_app.command("build")
def build_command(
    file: Annotated[Path, Argument(metavar="FILE", help="The file to write; it is replaced.")],
    data: Annotated[
        list[str],
        Argument(
            metavar="DATA…",
            help="Topics: .json, .jsonl or .csv files, or perspectrum, argkp or procon with a path (argkp:FOLDER).",
        ),
    ],
    split: Split = None,
    skip_bad: Annotated[bool, Option("--skip-bad", help="Skip and count rows that cannot be used.")] = False,
) -> None:
    """Build a knowledge base of topics, perspectives and arguments, with full-text search.

    [bold]veridical kb build topics.kb topics.csv[/bold]
    [bold]veridical kb build topics.kb perspectrum:data/perspectrum --split test[/bold]

    A CSV file needs the columns topic, perspective and argument. A JSON file is a list of objects such as {"topic":
    "Ban cars?", "perspectives": {"pro": ["Cars pollute."], "con": ["Cars are fast."]}}.
    """
    from veridical_lab.datasets.topics import read_topics
    from veridical_lab.tasks.perspectives.knowledge_base import KnowledgeBase

    skipped: list[DataError] = []

    def topics() -> Iterator[Topic]:
        for spec in data:
            yield from read_topics(spec, split, on_bad=skipped.append if skip_bad else None)

    with KnowledgeBase.build(file, topics()) as built:
        size = built.size()
    if skipped:
        write_line(f"veridical: rows skipped: {len(skipped)}; the first: {skipped[0]}")
    write_line(f"wrote {file}: {size.topics:,} topics, {size.arguments:,} arguments, {size.perspectives} perspectives")
    if size.one_sided:
        write_line(f"topics that cannot be answered, with arguments for one perspective only: {size.one_sided:,}")


@kb_app.command("search")
def search_command(
    file: KnowledgeBaseFile,
    query: Annotated[str, Argument(metavar="QUERY", help="Words to look for in the arguments.")],
    limit: Annotated[int, Option("-n", help="How many arguments.", min=1)] = 10,
    as_json: JsonTopics = False,
) -> int:
    """Search the arguments of a knowledge base, the best match first.

    [bold]veridical kb search topics.kb "noise at night"[/bold]

    The exit code is 3 if nothing was found.
    """
    import json

    from veridical.records.strings import visible
    from veridical_lab.tasks.perspectives.knowledge_base import KnowledgeBase

    with KnowledgeBase(file) as base:
        matches = base.search(query, limit)
    for each in matches:
        argument = each.argument
        if as_json:
            fields = {"topic": each.topic, "topic_id": each.topic_id, "id": argument.id}
            fields |= {"perspective": argument.perspective, "text": argument.text}
            sys.stdout.write(json.dumps(fields, ensure_ascii=False) + "\n")
        else:
            sys.stdout.write(visible(f"{each.topic}\n  {argument.id}: {argument.text}\n"))
    if not matches:
        write_line("no argument has any of these words")
    return 0 if matches else 3


@kb_app.command("show")
def show_command(
    file: KnowledgeBaseFile,
    topic: Annotated[
        str | None, Argument(metavar="TOPIC", help="A topic's id, its text, or a question. Default: list all topics.")
    ] = None,
    as_json: JsonTopics = False,
) -> None:
    """Show the topic that a question is about with its arguments, or list all topics.

    [bold]veridical kb show topics.kb[/bold]
    [bold]veridical kb show topics.kb "Should cars be banned?"[/bold]
    """
    import json
    from dataclasses import asdict

    from veridical.records.strings import visible
    from veridical_lab.tasks.perspectives.knowledge_base import KnowledgeBase

    with KnowledgeBase(file) as base:
        shown = base.topics() if topic is None else iter([base.topic(topic)])
        for each in shown:
            groups = each.perspectives
            if as_json:
                sys.stdout.write(json.dumps(asdict(each), ensure_ascii=False) + "\n")
            elif topic is None:
                counts = ", ".join(f"{name} {len(group)}" for name, group in groups.items())
                sys.stdout.write(visible(f"{each.id}: {each.text} ({counts})\n"))
            else:
                sys.stdout.write(visible(f"{each.text}\n"))
                for name, group in groups.items():
                    sys.stdout.write(visible(f"{name}\n" + "".join(f"  {a.id}: {a.text}\n" for a in group)))


@kb_app.command("refusals")
def refusals_command(
    file: KnowledgeBaseFile,
    questions: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="CSV with the columns kind (on, off, lacking), topic and question. Default: the lab's own, for "
            "perspectrum.",
        ),
    ] = None,
    as_json: Annotated[
        bool, Option("--json", help="Print one JSON object instead of text.", rich_help_panel=OUTPUT)
    ] = False,
) -> None:
    """Measure how often a knowledge base matches questions about topics that it does not have.

    [bold]veridical kb refusals topics.kb[/bold]

    The threshold accepts 90% of the questions about its own topics. It is chosen on every second question, and measured
    on the others.
    """
    import json
    from dataclasses import asdict
    from datetime import UTC, datetime

    from veridical_lab.tasks.perspectives.knowledge_base import KnowledgeBase
    from veridical_lab.tasks.perspectives.refusal import measure_refusals, read_questions

    with KnowledgeBase(file) as base:
        measured = measure_refusals(base, read_questions(questions))
    if as_json:
        made = {"command": this_command(), "date": datetime.now(UTC).date().isoformat()}
        sys.stdout.write(json.dumps(asdict(measured) | made) + "\n")
        return
    others = measured.counts["off"] + measured.counts["lacking"]
    for label, (value, low, high), n in (
        ("questions on topics that match one", measured.matched, measured.counts["on"]),
        ("of these, the right one", measured.right, measured.counts["on"]),
        ("other questions that match one", measured.false_matches, others),
    ):
        sys.stdout.write(f"{label}: {value:.1%} [{low:.1%}, {high:.1%}] of {n}\n")
    sys.stdout.write(f"threshold: {measured.threshold:.3f}\n")
