"""`veridical annotate`: what to annotate next, in Label Studio or a terminal, what people agree on, and its release."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer
from typer import Argument, Option

from veridical.cli.comma_lists import parse_counts, parse_names
from veridical.cli.delivery import plain_console, write_counts, write_examples
from veridical.cli.option_groups import option_groups
from veridical.cli.options import OUTPUT, DataOptions, LabelledData, LabelledSets, write_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from veridical.annotate.consensus import ConsensusRule
    from veridical.annotate.select import Embed
    from veridical.core.types import Example, Judgement

annotate_app = typer.Typer(
    no_args_is_help=True,
    help="Choose what to annotate, label it in Label Studio or a terminal, decide by consensus, release a data set.",
)

Kind = Annotated[
    str,
    Option(
        metavar="KIND",
        help="The question: consistency (of one changed place), spans (unsupported ones), coverage (of arguments) or "
        "claims.",
    ),
]
OutJsonl = Annotated[
    Path, Option(metavar="FILE", help="The file to write (JSON Lines); read it as jsonl:FILE.", rich_help_panel=OUTPUT)
]
Predictions = Annotated[
    str | None,
    Option("--detector", metavar="SPEC", help="Show what this detector finds as pre-annotations, to be corrected."),
]


@dataclass(frozen=True, kw_only=True)
class SelectionOptions:
    """What is chosen from a pool, and how."""

    PANEL: ClassVar[str] = "Selection"

    count: Annotated[int, Option("--count", "-n", help="How many items to choose.", min=1)] = 200
    labelled: Annotated[
        list[str] | None,
        Option(metavar="SET:PATH", help="Items of the rounds so far with their consensus labels. Repeatable."),
    ] = None
    strategy: Annotated[
        str,
        Option(
            help="balance (as many of either label), uncertainty (nearest to the threshold), diversity (far from each "
            "other) or random. Without --labelled a round is random."
        ),
    ] = "balance"
    detector: Annotated[
        str | None,
        Option(
            metavar="SPEC",
            help="The detector that scores the pool; train it on other items than the last round's. Default: a "
            "classifier of word features, trained on --labelled.",
        ),
    ] = None
    sure: Annotated[float, Option(help="Leave out what the detector is this sure of (above 0.5; 1: nothing).")] = 0.95
    similar: Annotated[float, Option(help="Leave out paraphrases of the original above this similarity.")] = 0.9
    encoder: Annotated[
        str | None,
        Option(
            metavar="FOLDER",
            help="An encoder whose cosine is the similarity: a local folder, or a hub name. Default: word overlap.",
        ),
    ] = None
    obvious: Annotated[float, Option(help="Take this share of dates and names replaced by others (0 to 1).")] = 0.0
    target: Annotated[float, Option(help="The share of hallucinated items to aim at.")] = 0.5
    round: Annotated[str | None, Option(metavar="NAME", help="What the round is called. Default: its number.")] = None
    seed: Annotated[int, Option(help="Random seed.")] = 0

    def embed(self) -> Embed | None:
        """What turns phrases into vectors; None for word overlap."""
        from veridical.annotate.phrase_vectors import phrase_vectors

        return None if self.encoder is None else phrase_vectors(self.encoder)


@annotate_app.command("select")
@option_groups
def select_command(data: LabelledData, options: SelectionOptions, reading: DataOptions, out: OutJsonl) -> None:
    """Choose the items of the next round from changed texts: less trivial ones, and as many of either label.

    Each place that `veridical data corrupt` changed is an item. The detector's scores decide what is left out and which
    share of the predicted hallucinations is taken (Liu et al. 2022, §3.3).

    [bold]veridical annotate select jsonl:pool.jsonl --count 200 --out round-1.jsonl[/bold]
    [bold]veridical annotate select jsonl:pool.jsonl --labelled jsonl:agreed.jsonl -n 300 --out round-2.jsonl[/bold]
    """
    from dataclasses import replace

    from veridical.annotate.items import grouped, items_of
    from veridical.annotate.rounds import round_scores
    from veridical.annotate.select import SelectOptions, select
    from veridical.datasets import read

    done = list(items_of(e for spec in options.labelled or () for e in read(spec)))
    with reading.read(data) as examples:
        pool = [item for item in items_of(examples) if item.case.id not in {e.case.id for e in done}]
    chosen = SelectOptions(
        count=options.count,
        strategy=options.strategy,
        sure=options.sure,
        similar=options.similar,
        obvious=options.obvious,
        target=options.target,
        seed=options.seed,
    )
    name = options.round or str(1 + len({dict(item.group).get("round", "1") for item in done}))
    scores = round_scores(done, pool, options.detector, seed=options.seed) if done else None
    if scores is None:
        selection = select(pool, chosen, embed=options.embed())
    else:
        chosen = replace(chosen, threshold=scores.threshold)
        selection = select(pool, chosen, scores=scores.pool.tolist(), counts=scores.counts, embed=options.embed())
    write_examples(out, [grouped(item, round=name) for item in selection.items])
    write_line(f"wrote {len(selection.items)} of {len(pool)} items to {out} (round {name})")
    write_counts("left out", selection.left_out)
    ratio = selection.subsampling
    if ratio is not None:
        exact = "not defined" if ratio.exact is None else f"{ratio.exact:.3f}"
        note = f"; {ratio.note}" if ratio.note else ""
        write_line(
            f"equation (9): {exact}; taken are {ratio.hallucinated:.3f} of the predicted hallucinations and "
            f"{ratio.consistent:.3f} of the others{note}"
        )


@annotate_app.command("config")
def config_command(
    kind: Annotated[str, Argument(metavar="KIND", help="consistency, spans, coverage or claims.")],
    labels: Annotated[
        str, Option(metavar="NAMES", help="For spans: the types to distinguish, separated by commas.")
    ] = "hallucinated",
) -> None:
    """Print the labelling config of a kind of question, to paste into a project's settings in Label Studio.

    [bold]veridical annotate config spans --labels intrinsic,extrinsic[/bold]
    """
    from veridical.annotate.label_studio import config_of

    sys.stdout.write(config_of(kind, labels=parse_names(labels)) + "\n")


@annotate_app.command("export")
@option_groups
def export_command(
    data: LabelledData,
    kind: Kind,
    reading: DataOptions,
    out: Annotated[Path, Option(metavar="FILE", help="The file of tasks to write (JSON).", rich_help_panel=OUTPUT)],
    detector: Predictions = None,
) -> None:
    """Write tasks for Label Studio's import, with a detector's findings as pre-annotations if wanted.

    [bold]veridical annotate export jsonl:round-1.jsonl --kind consistency --out tasks.json[/bold]
    [bold]veridical annotate export jsonl:answers.jsonl --kind spans --detector default --out tasks.json[/bold]
    """
    import json

    from veridical.annotate.label_studio import tasks_of
    from veridical.core.files import write_whole

    with reading.read(data) as examples:
        cases = list(examples)
    tasks = tasks_of(cases, kind, predictions=_predictions(cases, detector))
    write_whole(out, json.dumps(tasks, ensure_ascii=False, indent=1) + "\n")
    write_line(f"wrote {len(tasks)} tasks of {len(cases)} cases to {out}; config: veridical annotate config {kind}")


@annotate_app.command("import")
@option_groups
def import_command(
    export: Annotated[Path, Argument(metavar="EXPORT", help="What Label Studio exported, in its format JSON.")],
    data: Annotated[str, Option(metavar="SET:PATH", help="The data that the tasks were made from.")],
    reading: DataOptions,
    out: OutJsonl,
) -> None:
    """Read annotations back from a JSON export of Label Studio, with exact character spans.

    [bold]veridical annotate import export.json --data jsonl:round-1.jsonl --out labels-1.jsonl[/bold]
    """
    from veridical.annotate.label_studio import read_export

    with reading.read(data) as examples:
        imported = read_export(export, list(examples))
    _deliver_imported(imported.examples, imported.annotations, imported.skipped, out)


@dataclass(frozen=True, kw_only=True)
class LabelStudioOptions:
    """The running Label Studio; its access token is in the environment variable LABEL_STUDIO_API_KEY."""

    PANEL: ClassVar[str] = "Label Studio"

    url: Annotated[str, Option(metavar="URL", help="Where Label Studio runs.")] = "http://127.0.0.1:8080"
    timeout: Annotated[float, Option(help="Time limit of one request, in seconds.", min=0.1)] = 60.0


@dataclass(frozen=True, kw_only=True)
class PushOptions:
    """Which project tasks go to."""

    PANEL: ClassVar[str] = "Project"

    project: Annotated[str | None, Option(metavar="NAME", help="Add to this project (its number or title).")] = None
    title: Annotated[str | None, Option(metavar="TEXT", help="Make a new project of this title.")] = None
    annotators: Annotated[int, Option(help="How many people annotate each task of a new project.", min=1)] = 4
    detector: Predictions = None


@annotate_app.command("push")
@option_groups
def push_command(
    data: LabelledData,
    kind: Kind,
    server: LabelStudioOptions,
    reading: DataOptions,
    options: PushOptions,
) -> None:
    """Push tasks to a running Label Studio; those that the project has already are not pushed again.

    [bold]veridical annotate push jsonl:round-1.jsonl --kind consistency --title "Round 1" --annotators 4[/bold]
    """
    from veridical.annotate.label_studio import config_of, tasks_of
    from veridical.annotate.label_studio_server import LabelStudio
    from veridical.core.errors import InputError

    if (options.project is None) == (options.title is None):
        raise InputError("name either a --project or the --title of a new one")
    with reading.read(data) as examples:
        cases = list(examples)
    tasks = tasks_of(cases, kind, predictions=_predictions(cases, options.detector))
    with LabelStudio(server.url, timeout=server.timeout) as studio:
        if options.title is not None:
            place = studio.create(options.title, kind, annotators=options.annotators)
        else:
            place = studio.project(options.project or "")
            if place.config != config_of(kind):
                write_line(f"veridical: project {place.id} has another config than: veridical annotate config {kind}")
        pushed = studio.push(place, tasks)
    write_line(f"pushed {pushed} of {len(tasks)} tasks to project {place.id} ({server.url}/projects/{place.id})")


@annotate_app.command("pull")
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
    from veridical.annotate.label_studio import read_tasks
    from veridical.annotate.label_studio_server import LabelStudio

    with reading.read(data) as examples:
        cases = list(examples)
    with LabelStudio(server.url, timeout=server.timeout) as studio:
        tasks = studio.pull(studio.project(project))
    imported = read_tasks(tasks, cases)
    _deliver_imported(imported.examples, imported.annotations, imported.skipped, out)


@annotate_app.command("mark")
@option_groups
def mark_command(
    data: LabelledData,
    by: Annotated[str, Option(metavar="NAME", help="Who annotates.")],
    reading: DataOptions,
    out: OutJsonl,
) -> None:
    """Annotate in the terminal, line by line: type < and > around what the sources do not support.

    Every case is saved at once, and one that the same person has annotated is not asked again. Items are yes/no
    questions.

    [bold]veridical annotate mark jsonl:answers.jsonl --by ann --out ann.jsonl[/bold]
    """
    from veridical.annotate.marking import Prompt, mark_examples
    from veridical.annotate.rounds import annotated_by, append_annotation

    with reading.read(data) as examples:
        cases = {example.case.id: example for example in examples}
    done = annotated_by(out, f"human:{by}")
    left = [example for id, example in cases.items() if id not in done]
    console = plain_console()
    prompt = Prompt(lambda line: console.print(line, markup=False, highlight=False), _ask)
    marked = 0
    for judgement in mark_examples(left, by, prompt):
        append_annotation(out, cases[judgement.case_id], judgement)
        marked += 1
    write_line(f"wrote {marked} annotations to {out}; {len(left) - marked} of {len(cases)} cases are left")


@dataclass(frozen=True, kw_only=True)
class ConsensusOptions:
    """When annotators agree."""

    PANEL: ClassVar[str] = "Consensus"

    spans: Annotated[
        bool, Option("--spans", help="Merge marked spans by token (two of three) instead of deciding one label.")
    ] = False
    first: Annotated[int | None, Option(help="Annotators of each case. Default: 4, or 3 with --spans.", min=1)] = None
    most: Annotated[int, Option(help="Annotators of a case at most; without a majority then it is dropped.")] = 6
    least: Annotated[int, Option(help="With --spans: how many must mark a token.", min=1)] = 2
    block: Annotated[
        str | None, Option(metavar="NAMES", help="Leave out these annotators' labels; names separated by commas.")
    ] = None

    def rule(self) -> ConsensusRule:
        """The rule of consensus on one label."""
        from veridical.annotate.consensus import ConsensusRule

        first = 4 if self.first is None else self.first
        return ConsensusRule(first=first, most=max(first, self.most))


@annotate_app.command("agree")
@option_groups
def agree_command(
    data: LabelledSets,
    options: ConsensusOptions,
    reading: DataOptions,
    out: Annotated[
        Path | None,
        Option(metavar="FILE", help="Write what is agreed on to FILE (JSON Lines).", rich_help_panel=OUTPUT),
    ] = None,
    more: Annotated[
        Path | None,
        Option(metavar="FILE", help="Write what needs more annotators to FILE (JSON Lines).", rich_help_panel=OUTPUT),
    ] = None,
) -> None:
    """Decide by consensus, list what needs more annotators, and report agreement and each annotator's quality.

    [bold]veridical annotate agree jsonl:labels-1.jsonl --out agreed.jsonl --more again.jsonl[/bold]
    [bold]veridical annotate agree jsonl:ann.jsonl jsonl:bo.jsonl jsonl:cy.jsonl --spans --out agreed.jsonl[/bold]
    """
    from veridical.annotate.consensus import agree, agreement, join_annotations, reconcile_spans, without_annotators
    from veridical.annotate.quality import annotator_quality
    from veridical.report.annotation import agreement_line, quality_table
    from veridical.report.terminal_tables import print_tables

    examples: list[Example] = []
    for spec in data:
        with reading.read(spec) as of_spec:
            examples += of_spec
    blocked = [f"human:{name.removeprefix('human:')}" for name in parse_names(options.block)]
    examples = without_annotators(examples, blocked)
    if options.spans:
        of = 3 if options.first is None else options.first
        agreed = reconcile_spans(examples, least=options.least, of=of)
    else:
        agreed = agree(examples, options.rule())
    if out is not None:
        write_examples(out, agreed.examples)
    if more is not None:
        write_examples(more, [e for e in join_annotations(examples)[0] if e.case.id in agreed.waiting])
    console = plain_console()
    console.print(
        f"{len(agreed.examples)} cases are agreed on, {len(agreed.waiting)} need {sum(agreed.waiting.values())} more "
        f"labels, {len(agreed.split)} stay without consensus",
        highlight=False,
    )
    console.print(agreement_line(agreement(examples)), highlight=False)
    print_tables([quality_table(annotator_quality(examples))], console)
    write_counts("not used", agreed.unused)


@annotate_app.command("quiz")
@option_groups
def quiz_command(
    data: LabelledSets,
    reading: DataOptions,
    needed: Annotated[
        int | None, Option(help="Right answers that are needed. Default: 8 of 10, or as many in proportion.", min=1)
    ] = None,
) -> int:
    """Score candidates' answers to questions whose gold labels are known. Exit code 1 if any candidate fails.

    [bold]veridical annotate quiz jsonl:quiz-answers.jsonl --needed 8[/bold]
    """
    from veridical.annotate.quality import score_quiz
    from veridical.report.annotation import quiz_table
    from veridical.report.terminal_tables import print_tables

    examples: list[Example] = []
    for spec in data:
        with reading.read(spec) as of_spec:
            examples += of_spec
    scores = score_quiz(examples, needed=needed)
    print_tables([quiz_table(scores)], plain_console())
    return 0 if all(score.passed for score in scores) else 1


@dataclass(frozen=True, kw_only=True)
class ReleaseOptions:
    """What is said of a released data set, and how it is split."""

    PANEL: ClassVar[str] = "Release"

    name: Annotated[str, Option(metavar="TEXT", help="What the data set is called.")]
    licence: Annotated[str, Option(metavar="LICENCE", help="Its licence, such as CC-BY-SA-4.0.")]
    text_licence: Annotated[
        str | None, Option(metavar="LICENCE", help="The licence of the texts, if it is another.")
    ] = None
    annotators: Annotated[
        bool, Option("--annotators", help="Also write what each annotator said, not only the decision.")
    ] = False
    seed: Annotated[int, Option(help="Random seed of the split by document (70/10/20).")] = 0


@annotate_app.command("release")
@option_groups
def release_command(
    data: LabelledData,
    folder: Annotated[Path, Argument(metavar="FOLDER", help="The new folder to write.")],
    options: ReleaseOptions,
    reading: DataOptions,
) -> None:
    """Write agreed examples as a data set: parts by document, a card with statistics, licence, hashes.

    [bold]veridical annotate release jsonl:agreed.jsonl my-set --name "My set" --licence CC-BY-SA-4.0[/bold]
    """
    from veridical.annotate.release import describe_release, write_release
    from veridical.report.annotation import release_card

    with reading.read(data) as examples:
        release = describe_release(
            list(examples),
            options.name,
            options.licence,
            seed=options.seed,
            text_licence=options.text_licence,
        )
    hashes = write_release(release, folder, release_card(release), annotators=options.annotators)
    for file, digest in hashes.items():
        write_line(f"{folder / file}: {release.statistics[Path(file).stem].examples} examples, SHA-256 {digest}")


@dataclass(frozen=True, kw_only=True)
class SimulationOptions:
    """The pool and the rounds of a simulated loop."""

    PANEL: ClassVar[str] = "Simulation"

    items: Annotated[int, Option(help="Items in the pool.", min=100)] = 3000
    sizes: Annotated[str, Option(metavar="LIST", help="Items of each round, separated by commas.")] = "100,60,80,100"
    method: Annotated[str, Option(help="How texts are corrupted: rules, or another name of data corrupt.")] = "rules"
    consistent: Annotated[float, Option(help="Share of changes that keep the meaning.")] = 0.13
    seed: Annotated[int, Option(help="Random seed.")] = 0
    out: Annotated[
        Path | None,
        Option(metavar="FILE", help="Write the agreed examples to FILE (JSON Lines).", rich_help_panel=OUTPUT),
    ] = None


@annotate_app.command("simulate")
@option_groups
def simulate_command(
    texts: Annotated[str, Argument(metavar="SET:PATH", help="Plain texts: wikipedia:FOLDER or plain:FOLDER.")],
    options: SimulationOptions,
) -> None:
    """Run select, annotate and agree from end to end with simulated annotators of known error rates.

    [bold]veridical annotate simulate wikipedia:data/wikipedia --items 3000[/bold]
    """
    from veridical.annotate.rounds import loop_rows
    from veridical.annotate.simulate import make_pool, simulate, team
    from veridical.core.errors import InputError
    from veridical.datasets import load_reader
    from veridical.report.annotation import loop_tables
    from veridical.report.terminal_tables import print_tables

    kind, _, path = texts.partition(":")
    reader = load_reader(kind)
    if not hasattr(reader, "read_texts") or not path:
        raise InputError(f"{texts!r} are no plain texts", hint="wikipedia:FOLDER or plain:FOLDER")
    way, share = options.method, options.consistent
    pool = make_pool(reader.read_texts(Path(path)), options.items, method=way, consistent=share, seed=options.seed)
    loop = simulate(pool, team(seed=options.seed), parse_counts(options.sizes, "--sizes"), progress=write_line)
    if options.out is not None:
        write_examples(options.out, loop.examples)
    print_tables(loop_tables(loop_rows(loop, len(pool), way, share)), plain_console())


def _ask(prompt: str) -> str:
    sys.stdout.write(prompt)
    sys.stdout.flush()
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.rstrip("\r\n")


def _predictions(cases: Sequence[Example], detector: str | None) -> dict[str, Judgement]:
    from veridical.core.judging import judge
    from veridical.detectors import load_detector

    if detector is None:
        return {}
    return {j.case_id: j for j in judge(load_detector(detector), [example.case for example in cases])}


def _deliver_imported(examples: Sequence[Example], used: int, skipped: Mapping[str, int], out: Path) -> None:
    write_examples(out, [example for example in examples if example.annotations])
    write_line(f"wrote {used} annotations to {out}")
    write_counts("skipped", skipped)
