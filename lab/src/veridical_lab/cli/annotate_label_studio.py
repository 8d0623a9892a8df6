"""`veridical annotate config`, `export`, `import`, `push` and `pull`: labels from Label Studio."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from typer import Argument, Option

from veridical.cli.comma_lists import parse_names
from veridical.cli.option_groups import option_groups
from veridical.cli.options import OUTPUT, DataOptions, write_line
from veridical_lab.cli.json_lines import check_out, write_json_lines
from veridical_lab.cli.shared_options import LabelledData, OutJsonl, read_all, write_counts

if TYPE_CHECKING:
    from veridical.records.types import Example
    from veridical_lab.annotate.label_studio import Imported

QuestionKind = Annotated[
    str,
    Option(
        metavar="KIND",
        help="The question: consistency (of one changed place), spans (that are unsupported), coverage (of arguments) "
        "or claims.",
    ),
]
Predictions = Annotated[
    str | None,
    Option("--detector", metavar="SPEC", help="Show this detector's findings as pre-annotations to correct."),
]

SpanLabels = Annotated[
    str,
    Option("--labels", metavar="NAMES", help="For spans: the types of error to distinguish, separated by commas."),
]


def config_command(
    kind: Annotated[str, Argument(metavar="KIND", help="consistency, spans, coverage or claims.")],
    labels: SpanLabels = "hallucinated",
) -> None:
    """Print the labelling config for a kind of question, to paste into a project's settings in Label Studio.

    [bold]veridical annotate config spans --labels intrinsic,extrinsic[/bold]
    """
    from veridical_lab.annotate.label_studio import config_of

    sys.stdout.write(config_of(kind, labels=parse_names(labels)) + "\n")


@option_groups
def export_tasks_command(
    data: LabelledData,
    kind: QuestionKind,
    reading: DataOptions,
    out: Annotated[Path, Option(metavar="FILE", help="The file of tasks to write (JSON).", rich_help_panel=OUTPUT)],
    detector: Predictions = None,
    labels: SpanLabels = "hallucinated",
) -> None:
    """Write tasks that Label Studio can import, with a detector's findings as pre-annotations if you name one.

    [bold]veridical annotate export jsonl:round-1.jsonl --kind consistency --out tasks.json[/bold]
    [bold]veridical annotate export jsonl:answers.jsonl --kind spans --detector default --out tasks.json[/bold]
    """
    import json

    from veridical.io.files import write_whole

    check_out(out, [data])
    cases = read_all(reading, data, unlabelled=True)
    tasks = _tasks(cases, kind, detector, parse_names(labels))
    write_whole(out, json.dumps(tasks, ensure_ascii=False, indent=1) + "\n")
    write_line(f"wrote {len(tasks)} tasks of {len(cases)} cases to {out}; config: {_config(kind, labels)}")


@option_groups
def import_command(
    export: Annotated[Path, Argument(metavar="EXPORT", help="The file that Label Studio exported (format JSON).")],
    data: Annotated[str, Option(metavar="SET:PATH", help="The data that the tasks were made from.")],
    reading: DataOptions,
    out: OutJsonl,
) -> None:
    """Read annotations back from a JSON export of Label Studio, with exact character spans.

    [bold]veridical annotate import export.json --data jsonl:round-1.jsonl --out labels-1.jsonl[/bold]
    """
    from veridical_lab.annotate.label_studio import read_export

    check_out(out, [data])
    with reading.read(data, unlabelled=True) as examples:
        imported = read_export(export, list(examples))
    _deliver(imported, out)


@dataclass(frozen=True, kw_only=True)
class LabelStudioOptions:
    """Options of a running Label Studio.

    Its access token is read from the environment variable LABEL_STUDIO_API_KEY.
    """

    PANEL: ClassVar[str] = "Label Studio"

    url: Annotated[str, Option(metavar="URL", help="Where Label Studio runs.")] = "http://127.0.0.1:8080"
    timeout: Annotated[float, Option(help="Time limit of one request, in seconds.", min=0.1)] = 60.0


@dataclass(frozen=True, kw_only=True)
class PushOptions:
    """Options of the project that tasks go to."""

    PANEL: ClassVar[str] = "Project"

    project: Annotated[str | None, Option(metavar="NAME", help="Add to this project (its number or title).")] = None
    title: Annotated[str | None, Option(metavar="TEXT", help="Make a new project with this title.")] = None
    annotators: Annotated[int, Option(help="How many people annotate each task of a new project.", min=1)] = 4
    detector: Predictions = None
    labels: SpanLabels = "hallucinated"


@option_groups
def push_command(
    data: LabelledData,
    kind: QuestionKind,
    server: LabelStudioOptions,
    reading: DataOptions,
    options: PushOptions,
) -> None:
    """Push tasks to a running Label Studio. Tasks that are already in the project are skipped.

    [bold]veridical annotate push jsonl:round-1.jsonl --kind consistency --title "Round 1" --annotators 4[/bold]
    """
    from veridical.records.errors import InputError
    from veridical_lab.annotate.label_studio import config_of
    from veridical_lab.annotate.label_studio_server import LabelStudio

    if (options.project is None) == (options.title is None):
        raise InputError("name either a --project or the --title of a new one")
    cases = read_all(reading, data, unlabelled=True)
    labels = parse_names(options.labels)
    tasks = _tasks(cases, kind, options.detector, labels)
    with LabelStudio(server.url, timeout=server.timeout) as studio:
        if options.title is not None:
            target = studio.create(options.title, kind, annotators=options.annotators, labels=labels)
        else:
            target = studio.project(options.project or "")
            if target.config != config_of(kind, labels=labels):
                write_line(f"veridical: project {target.id} has another config than: {_config(kind, options.labels)}")
        pushed = studio.push(target, tasks)
    write_line(f"pushed {pushed} of {len(tasks)} tasks to project {target.id} ({server.url}/projects/{target.id})")


@option_groups
def pull_command(
    project: Annotated[str, Argument(metavar="PROJECT", help="The project's number or title.")],
    data: Annotated[str, Option(metavar="SET:PATH", help="The data that the tasks were made from.")],
    server: LabelStudioOptions,
    reading: DataOptions,
    out: OutJsonl,
) -> None:
    """Pull annotations from a running Label Studio.

    [bold]veridical annotate pull "Round 1" --data jsonl:round-1.jsonl --out labels-1.jsonl[/bold]
    """
    from veridical_lab.annotate.label_studio import read_tasks
    from veridical_lab.annotate.label_studio_server import LabelStudio

    check_out(out, [data])
    cases = read_all(reading, data, unlabelled=True)
    with LabelStudio(server.url, timeout=server.timeout) as studio:
        tasks = studio.pull(studio.project(project))
    _deliver(read_tasks(tasks, cases), out)


def _config(kind: str, labels: str) -> str:
    """Return the command that prints the config of a kind of question."""
    return f"veridical annotate config {kind}" + (
        "" if labels == "hallucinated" else f" --labels {shlex.quote(labels)}"
    )


def _tasks(cases: Sequence[Example], kind: str, detector: str | None, labels: Sequence[str]) -> list[dict[str, Any]]:
    """Return the tasks, with pre-annotations where `veridical check` with the same detector flags something."""
    from veridical.detectors import load_detector
    from veridical.records.judging import judge, thresholds_in_force
    from veridical_lab.annotate.label_studio import tasks_of

    loaded = None if detector is None else load_detector(detector)
    judgements = [] if loaded is None else judge(loaded, [example.case for example in cases])
    predictions = {judgement.case_id: judgement for judgement in judgements}
    return tasks_of(cases, kind, predictions=predictions, thresholds=thresholds_in_force(loaded), labels=labels)


def _deliver(imported: Imported, out: Path) -> None:
    write_json_lines(out, [example for example in imported.examples if example.annotations])
    write_line(f"wrote {imported.annotations} annotations to {out}")
    write_counts("skipped", imported.skipped)
