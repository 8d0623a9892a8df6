"""`veridical data`: list, show, count and convert labelled data, and make synthetic data."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer
from typer import Argument, Option

from veridical.cli.comma_lists import parse_thresholds
from veridical.cli.delivery import plain_console
from veridical.cli.option_groups import option_groups
from veridical.cli.options import DETECTION, OUTPUT, DataOptions, Threshold, write_line
from veridical_lab.cli.data_corrupt import corrupt_command
from veridical_lab.cli.data_relations import parse_command, relations_command
from veridical_lab.cli.json_lines import check_out, write_json_lines
from veridical_lab.cli.shared_options import (
    LabelledData,
    LocalModelOptions,
    ModelFolder,
    read_all,
    settings_of,
    texts_of,
    write_counts,
)

if TYPE_CHECKING:
    from veridical.records.types import Example

data_app = typer.Typer(
    no_args_is_help=True, help="Labelled data: list, show, count and convert data sets, and make synthetic ones."
)


@data_app.command("list")
def list_command() -> None:
    """List the data sets that can be read, with what they label and their licences.

    [bold]veridical data list[/bold]
    """
    from rich.table import Table

    from veridical.datasets import DATASETS, load_reader

    table = Table("name", "what it is", "labels", "licence")
    for name in DATASETS:
        info = load_reader(name).INFO
        table.add_row(name, info.title, ", ".join(info.levels), info.licence)
    plain_console().print(table)


@data_app.command("statistics")
@option_groups
def statistics_command(
    files: Annotated[
        list[str],
        Argument(
            metavar="FILE…", help="Text files with one document each, or a data set as SET:PATH (wikipedia:FOLDER)."
        ),
    ],
    out: Annotated[Path, Option(metavar="FILE", help="The file to write (.npz).", rich_help_panel=OUTPUT)],
) -> int:
    """Count words, and pairs of nearby words, in any texts. Word features use the counts for TF-IDF and PPMI.

    [bold]veridical data statistics wikipedia:data/wikipedia --out words.npz[/bold]
    [bold]veridical train features xsum_token:data/xsum_token --statistics words.npz --out words[/bold]

    The file contains words and counts, but no running text.
    """
    from veridical_lab.detectors.features.statistics import count_words

    counted = count_words(texts_of(files))
    counted.save(out)
    write_line(
        f"wrote {out}: {len(counted.words):,} words and {len(counted.pair_keys):,} pairs of {counted.documents:,} texts"
    )
    return 0


@data_app.command("show")
@option_groups
def show_examples_command(
    data: LabelledData,
    options: DataOptions,
    count: Annotated[int, Option("-n", help="How many cases.", min=1)] = 3,
    case_id: Annotated[str | None, Option("--id", metavar="ID", help="Only the case with this id.")] = None,
) -> None:
    """Show labelled cases with the human labels marked.

    [bold]veridical data show bump:data/bump -n 2[/bold]
    [bold]veridical data show bump:data/bump --id 17[/bold]
    """
    from veridical.records.decide import decide
    from veridical.records.errors import InputError
    from veridical.records.types import Checked
    from veridical.report.terminal import print_report

    with options.read(data) as examples:
        chosen = list(islice((e for e in examples if case_id is None or e.case.id == case_id), count))
    if not chosen:
        raise InputError(f"no case {case_id!r} in {data}", hint="`veridical data show` prints the ids")
    decisions = [decide(example.case, example.gold) for example in chosen]
    checked = [Checked(e.case, (e.gold,), (d,), d.outcome) for e, d in zip(chosen, decisions, strict=True)]
    print_report(checked, plain_console())


@data_app.command("stats")
@option_groups
def stats_command(
    data: LabelledData,
    options: DataOptions,
    as_json: Annotated[
        bool, Option("--json", help="Print one JSON document instead of text.", rich_help_panel=OUTPUT)
    ] = False,
) -> None:
    """Count cases, documents, labels and marked text, and print the hash that results refer to.

    [bold]veridical data stats xsum_token:data/xsum_token[/bold]
    """
    from veridical.io.serialization import encode
    from veridical_lab.datasets.stats import count_examples
    from veridical_lab.report.data_statistics import statistics_text

    with options.read(data) as examples:
        statistics = count_examples(examples)
    sys.stdout.write(encode(statistics) + "\n" if as_json else statistics_text(statistics))


@data_app.command("convert")
@option_groups
def convert_command(
    data: LabelledData,
    out: Annotated[
        Path, Argument(metavar="FILE", help="The file to write (JSON Lines). You can read it as jsonl:FILE.")
    ],
    options: DataOptions,
    part: Annotated[
        str | None, Option(metavar="PART", help="Write one part of a 70/10/20 split by document: train, valid or test.")
    ] = None,
    seed: Annotated[int, Option(help="Random seed of the split by document.")] = 0,
    first: Annotated[int | None, Option(help="Write only this many.", min=1)] = None,
    cases: Annotated[
        bool, Option("--cases", help="Write cases without labels, as `veridical check` and `analyse map` read them.")
    ] = False,
) -> None:
    """Write labelled data as JSON Lines, with one example per line. You can read the file with jsonl:FILE.

    [bold]veridical data convert bump:data/bump bump.jsonl[/bold]
    [bold]veridical data convert bump:data/bump bump-train.jsonl --part train[/bold]
    [bold]veridical data convert bump:data/bump cases.jsonl --cases --first 20[/bold]
    """
    from veridical.datasets.split import FRACTIONS, split_by_document
    from veridical.records.errors import UnknownNameError

    if part is not None and part not in FRACTIONS:
        raise UnknownNameError("part", part, FRACTIONS)
    check_out(out, [data])
    examples = read_all(options, data, unlabelled=cases)
    chosen = examples if part is None else split_by_document(examples, seed=seed)[part]
    chosen = chosen[:first]
    write_json_lines(out, [example.case for example in chosen] if cases else chosen)
    write_line(f"wrote {len(chosen)} of {len(examples)} {'cases' if cases else 'examples'} to {out}")


@data_app.command("label")
@option_groups
def label_command(
    data: LabelledData,
    detector: Annotated[
        str,
        Option(
            metavar="DETECTOR",
            help="The detector whose scores become the labels. To list the detectors, run `veridical detectors`.",
        ),
    ],
    out: Annotated[Path, Option(metavar="FILE", help="The file to write (JSON Lines). You can read it as jsonl:FILE.")],
    options: DataOptions,
    weight: Annotated[
        float,
        Option(
            min=0.0,
            max=1.0,
            help="The weight of the detector's scores. The labels of the data have the remaining weight.",
        ),
    ] = 1.0,
) -> None:
    """Write data with the scores of a detector as labels, to train another one on them (distillation).

    [bold]veridical data label wice:data/wice --detector tokens:teacher --weight 0.7 --out soft.jsonl[/bold]
    [bold]veridical train tokens jsonl:soft.jsonl --model models/minilm --soft-labels --out student[/bold]

    `train tokens --soft-labels` uses the scores as targets. If you set --weight below 1, they are mixed with the labels
    of the data. A word or response without a label always has the detector's score. Cases that the detector could not
    judge are left out.
    """
    import hashlib

    from veridical.cli.progress import progress_bar
    from veridical.detectors import load_detector
    from veridical.records.judging import judge
    from veridical_lab.training.soft_labels import mixed

    check_out(out, [data])
    examples = read_all(options, data, unlabelled=True)
    loaded = load_detector(detector)
    labelled: list[Example] = []
    with progress_bar() as progress:
        for start in range(0, len(examples), 64):
            progress(loaded.name, start, len(examples))
            batch = examples[start : start + 64]
            judgements = judge(loaded, [example.case for example in batch])
            labelled += [
                mixed(example, judgement, weight)
                for example, judgement in zip(batch, judgements, strict=True)
                if judgement.judged != ()
            ]
        progress(loaded.name, len(examples), len(examples))
    write_json_lines(out, labelled)
    digest = hashlib.sha256(out.read_bytes()).hexdigest()
    write_line(f"wrote {len(labelled)} of {len(examples)} examples to {out} (SHA-256 {digest})")


data_app.command("corrupt")(corrupt_command)
data_app.command("parse")(parse_command)
data_app.command("relations")(relations_command)


@dataclass(frozen=True, kw_only=True)
class GenerationOptions:
    """Options of the generation of responses."""

    PANEL: ClassVar[str] = "Generation"

    task: Annotated[str, Option(help="The task: summarise, dialogue or data-to-text.")]
    template: Annotated[
        str | None, Option(help="The prompt template. Default: the task's (tldr, dialogue, data-to-text).")
    ] = None
    top_k: Annotated[
        int,
        Option(
            help="Sample from the k most likely tokens. 1 always takes the most likely one, and 0 samples from all.",
            min=0,
        ),
    ] = 2
    temperature: Annotated[
        float,
        Option(help="The sampling temperature. Lower is more conservative, and 0 always takes the most likely token."),
    ] = 1.0
    max_tokens: Annotated[int | None, Option(help="Maximum tokens per response. Default: the task's.")] = None
    max_prompt: Annotated[
        int | None,
        Option(help="Maximum tokens per prompt. Default: as many as the model's context has room for.", min=1),
    ] = None
    truncate: Annotated[
        bool, Option("--truncate", help="Truncate sources that are too long, instead of skipping their cases.")
    ] = False
    sample: Annotated[int | None, Option(help="Use only this many inputs, drawn by the seed.")] = None
    seed: Annotated[int, Option(help="Random seed of the sample and of generation.")] = 0
    batch_size: Annotated[int, Option(help="Responses generated at once.", min=1)] = 16
    label: Annotated[
        str | None,
        Option(
            metavar="SPEC", help="Label the responses with this detector, such as overlap.", rich_help_panel=DETECTION
        ),
    ] = None
    threshold: Threshold = None


@data_app.command("generate")
@option_groups
def generate_command(
    data: LabelledData,
    model: ModelFolder,
    out: Annotated[
        Path,
        Option(
            metavar="FILE",
            help="The file to write (JSON Lines). If it already has responses, they are not generated again.",
            rich_help_panel=OUTPUT,
        ),
    ],
    generation: GenerationOptions,
    options: DataOptions,
    local: LocalModelOptions,
) -> None:
    """Generate responses to the inputs of a data set with a local model, so that you can label their natural errors.

    [bold]veridical data generate bump:data/bump --model models/reader --task summarise --sample 50 --out s.jsonl[/bold]
    [bold]veridical data generate e2e:data/e2e --model m --task data-to-text --label overlap --out d.jsonl[/bold]

    Each case contains the prompt that was used. The responses have no labels unless you name a detector with --label.
    The same seed gives the same responses. If the command is interrupted, run it again and it continues.
    """
    from veridical.cli.progress import progress_bar
    from veridical.detectors import load_detector
    from veridical.records.judging import thresholds_in_force
    from veridical_lab.tasks.grounded import Writing, find_task, inputs_of, label_responses, write
    from veridical_lab.tasks.responses import append_responses, kept_responses

    check_out(out, [data])
    writing = settings_of(Writing, generation, task=find_task(generation.task), shorten=generation.truncate)
    detector = None if generation.label is None else load_detector(generation.label)
    thresholds = thresholds_in_force(detector, parse_thresholds(generation.threshold))
    with options.read(data, unlabelled=True) as reading:
        inputs = inputs_of(reading, writing.prompt, sample=generation.sample, seed=generation.seed)
    name = Path(model).name
    by_id = {writing.id_of(example, name): example for example in inputs}
    done = kept_responses(out, by_id, writing.groups(name), labelled=detector is not None)
    left = [example for id, example in by_id.items() if id not in done]
    loaded = local.load(model)
    missed: Counter[str] = Counter()
    with progress_bar() as show:
        for start in range(0, len(left), generation.batch_size):
            show("responses", len(done) + start, len(by_id))
            results = write(loaded, left[start : start + generation.batch_size], writing, name=name)
            missed.update(result for result in results if isinstance(result, str))
            responses = [result for result in results if not isinstance(result, str)]
            append_responses(out, responses if detector is None else label_responses(responses, detector, thresholds))
    before = f" ({len(done)} were there)" if done else ""
    write_line(f"wrote {len(left) - missed.total()} of {len(by_id)} responses to {out}{before}")
    write_counts("no response", missed)
