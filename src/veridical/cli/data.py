"""`veridical data`: what labelled data there is, what is in it, and the same as JSON Lines."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from veridical.core.errors import DataError
    from veridical.core.types import Example

data_app = typer.Typer(no_args_is_help=True, help="Labelled data: list, show, stats, convert, corrupt, generate.")

Spec = Annotated[str, typer.Argument(help="Labelled data as SET:PATH; see: veridical data list.", metavar="SET:PATH")]
Split = Annotated[str | None, typer.Option(help="Only this split.", show_default=False)]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Count and skip rows that cannot be read.")]


@data_app.command("list")
def list_command() -> None:
    """List the data sets that can be read, with what they label and their licences."""
    from rich.console import Console
    from rich.table import Table

    from veridical.datasets import DATASETS, load_reader

    table = Table("name", "what it is", "labels", "licence")
    for name in DATASETS:
        info = load_reader(name).INFO
        table.add_row(name, info.title, ", ".join(info.levels), info.licence)
    Console(highlight=False, markup=False, emoji=False).print(table)


@contextmanager
def _reading(spec: str, split: str | None, skip_bad: bool) -> Iterator[Iterator[Example]]:
    """The examples of a spec; afterwards what was skipped is said on standard error, the first of it by line."""
    from veridical.datasets import read

    bad: list[DataError] = []
    yield read(spec, split, on_bad=bad.append if skip_bad else None)
    if bad:
        sys.stderr.write(f"veridical: {len(bad)} rows were skipped; the first: {bad[0]}\n")


@data_app.command("show")
def show_command(
    data: Spec,
    n: Annotated[int, typer.Option("-n", help="How many.", min=1)] = 3,
    id: Annotated[str | None, typer.Option(help="Only the case with this id.", show_default=False)] = None,
    split: Split = None,
    skip_bad: SkipBad = False,
) -> None:
    """Show labelled cases as a report shows them, the gold labels as the marks.

    [bold]veridical data show bump:data/bump -n 2[/bold]
    """
    from rich.console import Console

    from veridical.core.decide import decide
    from veridical.core.errors import InputError
    from veridical.core.types import Checked
    from veridical.report.terminal import print_report

    with _reading(data, split, skip_bad) as examples:
        picked = list(islice((e for e in examples if id is None or e.case.id == id), n))
    if not picked:
        raise InputError(f"no case {id!r} in {data}", hint="ids are as `veridical data show` prints them")
    decided = [decide(e.case, e.gold) for e in picked]
    shown = [Checked(e.case, (e.gold,), (d,), d.outcome) for e, d in zip(picked, decided, strict=True)]
    print_report(shown, Console(highlight=False, markup=False, emoji=False))


@data_app.command("stats")
def stats_command(data: Spec, split: Split = None, skip_bad: SkipBad = False) -> None:
    """Count cases, documents, labels and marked text, and print the hash that result rows carry.

    [bold]veridical data stats xsum_token:data/xsum_token[/bold]
    """
    from veridical.core.spans import length
    from veridical.datasets.split import content_hash, document_of

    with _reading(data, split, skip_bad) as reading:
        examples = list(reading)
    golds = [e.gold for e in examples]
    labelled = [g.hallucination >= 0.5 for g in golds if g.hallucination is not None]
    marked = sum(length(v.span for v in g.verdicts if v.score >= 0.5) for g in golds)
    characters = sum(len(e.case.response) for e in examples)
    groups = {key: len({v for e in examples for k, v in e.group if k == key}) for e in examples for key, _ in e.group}
    lines = {
        "cases": len(examples),
        "documents": len({document_of(e) for e in examples}),
        "labelled responses": len(labelled),
        "of them hallucinated": f"{sum(labelled)} ({sum(labelled) / len(labelled):.1%})" if labelled else 0,
        "not judged": sum(g.judged == () for g in golds),
        "marked spans": sum(v.score >= 0.5 for g in golds for v in g.verdicts),
        "marked characters": f"{marked} of {characters} ({marked / max(characters, 1):.1%})",
        "omitted passages": sum(o.score >= 0.5 for g in golds for o in g.omissions),
        "annotators' judgements": sum(len(e.annotations) for e in examples),
        "groups": ", ".join(f"{key} ({n} values)" for key, n in groups.items()) or "none",
        "hash": content_hash(examples),
    }
    for name, value in lines.items():
        typer.echo(f"{name:<24}{value}")


@data_app.command("convert")
def convert_command(
    data: Spec,
    out: Annotated[Path, typer.Argument(help="The file to write: one example/1 document a line (JSON Lines).")],
    part: Annotated[
        str | None,
        typer.Option(
            help="Only this part of a 70/10/20 division by document: train, valid or test.", show_default=False
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the division.")] = 0,
    split: Split = None,
    skip_bad: SkipBad = False,
) -> None:
    """Write labelled data as Veridical's own JSON Lines, which `jsonl:PATH` reads back.

    [bold]veridical data convert bump:data/bump bump-train.jsonl --part train[/bold]
    """
    from veridical.core.errors import UnknownNameError
    from veridical.core.files import write_whole
    from veridical.core.serialization import encode
    from veridical.datasets.split import FRACTIONS, split_by_document

    if part is not None and part not in FRACTIONS:
        raise UnknownNameError("part", part, FRACTIONS)
    with _reading(data, split, skip_bad) as reading:
        examples = list(reading)
    chosen = examples if part is None else split_by_document(examples, seed=seed)[part]
    write_whole(out, "".join(encode(example) + "\n" for example in chosen))
    sys.stderr.write(f"wrote {len(chosen)} of {len(examples)} examples to {out}\n")


@data_app.command("corrupt")
def corrupt_command(
    data: Spec,
    how: Annotated[
        str, typer.Option(help="attributes (of e2e and its kin), knowledge (the source) or entities (the response).")
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The file to write, which jsonl:FILE reads back.")],
    share: Annotated[float, typer.Option(help="Share of the grounded examples that is corrupted.")] = 0.5,
    pairs: Annotated[
        bool, typer.Option("--pairs", help="Write each corrupted example beside its original, and no others.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Of what is drawn; the same seed gives the same file.")] = 0,
    split: Split = None,
    skip_bad: SkipBad = False,
) -> None:
    """Make labelled synthetic errors out of grounded examples.

    attributes: some are taken out of the source or changed. knowledge: a name, number or time of the source is changed.
    entities: one of the response is. Each place of the response that lost its ground is marked; what cannot be placed
    is not used, and counted. Documents stay what they were: both versions of a text fall into one part of a division.

    [bold]veridical data corrupt e2e:data/e2e --how attributes --share 1 --pairs --out e2e-pairs.jsonl[/bold]
    [bold]veridical train probe jsonl:e2e-pairs.jsonl --model models/reader --template data-to-text-bare --out p[/bold]
    """
    from veridical.core.files import write_whole
    from veridical.core.serialization import encode
    from veridical.corrupt import corrupt

    with _reading(data, split, skip_bad) as reading:
        made = corrupt(reading, how, share=share, pairs=pairs, seed=seed)
    write_whole(out, "".join(encode(example) + "\n" for example in made.examples))
    sys.stderr.write(f"wrote {len(made.examples)} examples, {made.changed} of them corrupted, to {out}\n")
    _say_counts("not used", made.skipped)


@data_app.command("generate")
def generate_command(
    data: Spec,
    model: Annotated[str, typer.Option(help="The language model that writes: a local folder, or a hub name.")],
    task: Annotated[str, typer.Option(help="summarise, dialogue or data-to-text.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="JSON Lines; what is there already is not written again.")],
    template: Annotated[
        str | None, typer.Option(help="The prompt; default: the task's (tldr, dialogue, data-to-text).")
    ] = None,
    top_k: Annotated[int, typer.Option(help="Draw from the likeliest k tokens; 1: no drawing; 0: all.", min=0)] = 2,
    temperature: Annotated[float, typer.Option(help="Above 0; lower is bolder.")] = 1.0,
    sample: Annotated[
        int | None, typer.Option(help="Only so many inputs, drawn by the seed.", show_default=False)
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the sample and of what is drawn.")] = 0,
    max_tokens: Annotated[
        int | None, typer.Option(help="Tokens of a response; default: the task's.", show_default=False)
    ] = None,
    max_prompt: Annotated[
        int | None, typer.Option(help="Tokens of a prompt; default: what fits.", min=1, show_default=False)
    ] = None,
    shorten: Annotated[
        bool, typer.Option("--shorten", help="Cut sources that do not fit at their end, instead of passing over.")
    ] = False,
    label: Annotated[
        str | None, typer.Option(metavar="DETECTOR", help="Label with a detector, such as overlap.", show_default=False)
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(help="What it labels from; default: the detector's, else 0.5.", show_default=False)
    ] = None,
    batch_size: Annotated[int, typer.Option(help="Responses written at once.", min=1)] = 16,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N or mps.")] = "auto",
    dtype: Annotated[str, typer.Option(help="The model's: auto, fp32, bf16 or fp16.")] = "auto",
    split: Split = None,
    skip_bad: SkipBad = False,
) -> None:
    """Let a local model write responses to the inputs of a data set: organic errors, to be labelled.

    Each case keeps the prompt that made it. Nothing is labelled, unless a detector is named: then the labels are marked
    as the detector's. The same seed gives the same responses; a run that was stopped goes on when started again.

    [bold]veridical data generate bump:data/bump --model models/reader --task summarise --sample 50 --out s.jsonl[/bold]
    [bold]veridical data generate e2e:data/e2e --model m --task data-to-text --label overlap --out d.jsonl[/bold]
    """
    from veridical.cli.progress import progress_bar
    from veridical.core.judging import thresholds_in_force
    from veridical.detectors import load_detector
    from veridical.models.load import load
    from veridical.tasks.grounded import Writing, find_task, inputs_of, labelled, write
    from veridical.tasks.responses import append_responses, kept_responses

    found = find_task(task)
    writing = Writing(found, template, top_k, temperature, max_tokens, max_prompt, seed, shorten)
    detector = None if label is None else load_detector(label)
    cut = thresholds_in_force(detector, threshold)
    with _reading(data, split, skip_bad) as reading:
        inputs = inputs_of(reading, writing.prompt, sample=sample, seed=seed)
    name = Path(model).name
    wanted = {writing.id_of(given, name): given for given in inputs}
    done = kept_responses(out, wanted, writing.groups(name), labelled=detector is not None)
    left = [given for id, given in wanted.items() if id not in done]
    loaded = load(model, device=device, dtype=dtype)
    missed: Counter[str] = Counter()
    with progress_bar() as show:
        for start in range(0, len(left), batch_size):
            show("responses", len(done) + start, len(wanted))
            results = write(loaded, left[start : start + batch_size], writing, name=name)
            missed.update(result for result in results if isinstance(result, str))
            made = [result for result in results if not isinstance(result, str)]
            append_responses(out, made if detector is None else labelled(made, detector, cut))
    written = len(left) - missed.total()
    before = f" ({len(done)} were there)" if done else ""
    sys.stderr.write(f"wrote {written} of {len(wanted)} responses to {out}{before}\n")
    _say_counts("no response", missed)


def _say_counts(what: str, counts: Mapping[str, int]) -> None:
    for reason, count in counts.items():
        sys.stderr.write(f"{what}: {count:>6}  {reason}\n")
