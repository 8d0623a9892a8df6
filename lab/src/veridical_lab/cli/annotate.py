"""`veridical annotate`: choose what to annotate, label it in Label Studio or a terminal, agree, and release data."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar

import typer
from typer import Argument, Option

from veridical.cli.comma_lists import parse_names
from veridical.cli.delivery import plain_console
from veridical.cli.option_groups import option_groups
from veridical.cli.options import OUTPUT, DataOptions, write_line
from veridical_lab.cli.annotate_label_studio import (
    config_command,
    export_tasks_command,
    import_command,
    pull_command,
    push_command,
)
from veridical_lab.cli.json_lines import check_out, write_json_lines
from veridical_lab.cli.shared_options import LabelledData, LabelledSets, OutJsonl, read_all, settings_of, write_counts

annotate_app = typer.Typer(
    no_args_is_help=True,
    help="Choose what to annotate, label it in Label Studio or a terminal, decide by consensus, release a data set.",
)


@dataclass(frozen=True, kw_only=True)
class SelectionOptions:
    """Options of a selection from a pool."""

    PANEL: ClassVar[str] = "Selection"

    count: Annotated[int, Option("--count", "-n", help="How many items to choose.", min=1)] = 200
    labelled: Annotated[
        list[str] | None,
        Option(metavar="SET:PATH", help="Items of the rounds so far with their consensus labels. Repeatable."),
    ] = None
    strategy: Annotated[
        str,
        Option(help="balance (as many of either label), or random. Without --labelled a round is random."),
    ] = "balance"
    detector: Annotated[
        str | None,
        Option(
            metavar="SPEC",
            help="The detector that scores the pool. Do not train it on the items of the last round. Default: a "
            "classifier of word features, trained on --labelled.",
        ),
    ] = None
    sure: Annotated[
        float,
        Option(
            help="Leave out items that the detector is sure of. These have this score or a higher one, or 1 minus this "
            "score or a lower one. 1 leaves out none."
        ),
    ] = 0.95
    similar: Annotated[float, Option(help="Leave out paraphrases of the original above this similarity.")] = 0.9
    encoder: Annotated[
        str | None,
        Option(
            metavar="FOLDER",
            help="Measure similarity by the cosine of this encoder: a local folder, or a hub name. Default: word "
            "overlap.",
        ),
    ] = None
    obvious: Annotated[
        float, Option(help="The proportion to keep of dates and names that were replaced by others (0 to 1).")
    ] = 0.0
    target: Annotated[
        float | None,
        Option(help="The proportion of hallucinated items to aim at. Default: what evens out all rounds (0.3 to 0.7)."),
    ] = None
    round: Annotated[str | None, Option(metavar="NAME", help="The name of the round. Default: its number.")] = None
    seed: Annotated[int, Option(help="Random seed.")] = 0


@annotate_app.command("select")
@option_groups
def select_command(data: LabelledData, options: SelectionOptions, reading: DataOptions, out: OutJsonl) -> None:
    """Choose the items of the next round from changed texts, without trivial ones and about as many right as wrong.

    [bold]veridical annotate select jsonl:pool.jsonl --count 200 --out round-1.jsonl[/bold]
    [bold]veridical annotate select jsonl:pool.jsonl --labelled jsonl:agreed.jsonl -n 300 --out round-2.jsonl[/bold]

    Each place that `veridical data corrupt` changed is an item. The detector's scores decide which items are left out,
    and how many of the predicted hallucinations are taken (Liu et al. 2022, §3.3).
    """
    from veridical.datasets import read
    from veridical_lab.annotate.items import grouped, items_of
    from veridical_lab.annotate.phrase_vectors import phrase_vectors
    from veridical_lab.annotate.rounds import round_scores
    from veridical_lab.annotate.select import SelectOptions, select

    check_out(out, [data, *(options.labelled or ())])
    done = list(items_of(e for spec in options.labelled or () for e in read(spec)))
    done_ids = {item.case.id for item in done}
    pool = [item for item in items_of(read_all(reading, data)) if item.case.id not in done_ids]
    name = options.round or str(1 + len({dict(item.group).get("round", "1") for item in done}))
    scores = round_scores(done, pool, options.detector, seed=options.seed) if done else None
    selection = select(
        pool,
        settings_of(SelectOptions, options),
        scores=None if scores is None else scores.pool.tolist(),
        annotated=None if scores is None else scores.annotated,
        embed=None if options.encoder is None else phrase_vectors(options.encoder),
    )
    write_json_lines(out, [grouped(item, round=name) for item in selection.items])
    write_line(f"wrote {len(selection.items)} of {len(pool)} items to {out} (round {name})")
    write_counts("left out", selection.left_out)
    ratio = selection.subsampling
    if ratio is not None:
        exact = "not defined" if ratio.exact is None else f"{ratio.exact:.3f}"
        note = f"; {ratio.note}" if ratio.note else ""
        write_line(
            f"equation (9): {exact}; takes {ratio.hallucinated:.3f} of the predicted hallucinations and "
            f"{ratio.consistent:.3f} of the others{note}"
        )


annotate_app.command("config")(config_command)
annotate_app.command("export")(export_tasks_command)
annotate_app.command("import")(import_command)
annotate_app.command("push")(push_command)
annotate_app.command("pull")(pull_command)


@annotate_app.command("mark")
@option_groups
def mark_command(
    data: LabelledData,
    by: Annotated[str, Option(metavar="NAME", help="The name of the annotator.")],
    reading: DataOptions,
    out: OutJsonl,
) -> None:
    """Annotate in the terminal, line by line: type < and > around words that the sources do not support.

    [bold]veridical annotate mark jsonl:answers.jsonl --by ann --out ann.jsonl[/bold]

    Each case is saved at once, and you are never asked about the same case twice. Items are shown as yes/no questions.
    """
    from veridical_lab.annotate.marking import mark_examples
    from veridical_lab.annotate.rounds import annotated_by, append_annotation

    check_out(out, [data])
    cases = {example.case.id: example for example in read_all(reading, data, unlabelled=True)}
    done = annotated_by(out, f"human:{by}")
    left = [example for id, example in cases.items() if id not in done]
    console = plain_console()
    marked = 0
    for judgement in mark_examples(left, by, console.print, _ask):
        append_annotation(out, cases[judgement.case_id], judgement)
        marked += 1
    write_line(f"wrote {marked} annotations to {out}; {len(left) - marked} of {len(cases)} cases are left")


@dataclass(frozen=True, kw_only=True)
class ConsensusOptions:
    """Options of the rule of consensus."""

    PANEL: ClassVar[str] = "Consensus"

    spans: Annotated[
        bool, Option("--spans", help="Merge marked spans by token (two of three) instead of deciding one label.")
    ] = False
    first: Annotated[int | None, Option(help="Annotators of each case. Default: 4, or 3 with --spans.", min=1)] = None
    block: Annotated[
        str | None, Option(metavar="NAMES", help="Leave out the labels of these annotators. Separate names by commas.")
    ] = None


@annotate_app.command("agree")
@option_groups
def agree_command(
    data: LabelledSets,
    options: ConsensusOptions,
    reading: DataOptions,
    out: Annotated[
        Path | None,
        Option(metavar="FILE", help="Write the agreed cases to FILE (JSON Lines).", rich_help_panel=OUTPUT),
    ] = None,
    more: Annotated[
        Path | None,
        Option(
            metavar="FILE", help="Write cases that need more annotators to FILE (JSON Lines).", rich_help_panel=OUTPUT
        ),
    ] = None,
) -> None:
    """Decide by consensus, list cases that need more annotators, and report agreement and each annotator's quality.

    [bold]veridical annotate agree jsonl:labels-1.jsonl --out agreed.jsonl --more again.jsonl[/bold]
    [bold]veridical annotate agree jsonl:ann.jsonl jsonl:bo.jsonl jsonl:cy.jsonl --spans --out agreed.jsonl[/bold]
    """
    from veridical.report.terminal_tables import print_tables
    from veridical_lab.annotate.consensus import (
        ConsensusRule,
        agree,
        agreement,
        join_annotations,
        reconcile_spans,
        without_annotators,
    )
    from veridical_lab.annotate.quality import annotator_quality
    from veridical_lab.report.annotation import agreement_line, quality_table

    for file in (out, more):
        if file is not None:
            check_out(file, data)
    blocked = [f"human:{name.removeprefix('human:')}" for name in parse_names(options.block)]
    examples = without_annotators(read_all(reading, *data), blocked)
    if options.spans:
        agreed = reconcile_spans(examples, of=options.first or 3)
    else:
        rule = ConsensusRule()
        if options.first is not None:
            rule = replace(rule, first=options.first, most=max(options.first, rule.most))
        agreed = agree(examples, rule)
    if out is not None:
        write_json_lines(out, agreed.examples)
    if more is not None:
        write_json_lines(more, [e for e in join_annotations(examples)[0] if e.case.id in agreed.waiting])
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
    needed: Annotated[int | None, Option(help="Right answers that a candidate needs. Default: 8 in 10.", min=1)] = None,
) -> int:
    """Score candidates' answers to questions whose gold labels are known.

    [bold]veridical annotate quiz jsonl:quiz-answers.jsonl --needed 8[/bold]

    The exit code is 1 if any candidate fails.
    """
    from veridical.report.terminal_tables import print_tables
    from veridical_lab.annotate.quality import score_quiz
    from veridical_lab.report.annotation import quiz_table

    scores = score_quiz(read_all(reading, *data), needed=needed)
    print_tables([quiz_table(scores)])
    return 0 if all(score.passed for score in scores) else 1


@dataclass(frozen=True, kw_only=True)
class ReleaseOptions:
    """Options of a released data set: its description and its split."""

    PANEL: ClassVar[str] = "Release"

    name: Annotated[str, Option(metavar="TEXT", help="The name of the data set.")]
    licence: Annotated[str, Option(metavar="LICENCE", help="Its licence, such as CC-BY-SA-4.0.")]
    text_licence: Annotated[
        str | None, Option(metavar="LICENCE", help="The licence of the texts, if it is another.")
    ] = None
    annotators: Annotated[
        bool, Option("--annotators", help="Also write each annotator's labels, not only the decision.")
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
    """Write agreed examples as a data set, split by document, with a card that has statistics, licence and hashes.

    [bold]veridical annotate release jsonl:agreed.jsonl my-set --name "My set" --licence CC-BY-SA-4.0[/bold]
    """
    from veridical_lab.annotate.release import describe_release, write_release
    from veridical_lab.report.annotation import release_card

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


def _ask(prompt: str) -> str:
    sys.stdout.write(prompt)
    sys.stdout.flush()
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.rstrip("\r\n")
