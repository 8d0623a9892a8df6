"""`veridical data`: what labelled data there is, what is in it, and the same as JSON Lines."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from veridical.core.errors import DataError
    from veridical.core.types import Example

data_app = typer.Typer(no_args_is_help=True, help="Labelled data: list, show, stats, convert.")

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

    from veridical.core.decide import THRESHOLD, outcome
    from veridical.core.errors import InputError
    from veridical.core.types import Checked
    from veridical.report.terminal import print_report

    with _reading(data, split, skip_bad) as examples:
        picked = list(islice((e for e in examples if id is None or e.case.id == id), n))
    if not picked:
        raise InputError(f"no case {id!r} in {data}", hint="ids are as `veridical data show` prints them")
    shown = [Checked(e.case, (e.gold,), (THRESHOLD,), outcome(e.case, e.gold)) for e in picked]
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
    from veridical.core.wire import encode
    from veridical.datasets.split import FRACTIONS, split_by_document

    if part is not None and part not in FRACTIONS:
        raise UnknownNameError("part", part, FRACTIONS)
    with _reading(data, split, skip_bad) as reading:
        examples = list(reading)
    chosen = examples if part is None else split_by_document(examples, seed=seed)[part]
    write_whole(out, "".join(encode(example) + "\n" for example in chosen))
    sys.stderr.write(f"wrote {len(chosen)} of {len(examples)} examples to {out}\n")
