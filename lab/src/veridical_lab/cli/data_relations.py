"""`veridical data parse` and `veridical data relations`: parse texts, and make cases about relations from them."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from veridical.cli.comma_lists import parse_names
from veridical.cli.option_groups import option_groups
from veridical.cli.options import OUTPUT, write_line
from veridical.records.types import Example
from veridical_lab.cli.json_lines import check_out, write_json_lines
from veridical_lab.cli.shared_options import OutJsonl, write_counts


@option_groups
def parse_command(
    data: Annotated[
        list[str],
        Argument(
            metavar="SET:PATH…",
            help="Plain texts (wikipedia:FOLDER, plain:FOLDER), or labelled sets whose sources are parsed (written).",
        ),
    ],
    pipeline: Annotated[
        str,
        Option(metavar="NAME", help="A spaCy pipeline for English: its folder, or the name of an installed one."),
    ],
    out: Annotated[Path, Option(metavar="FOLDER", help="The folder that keeps the parses.", rich_help_panel=OUTPUT)],
    sentences: Annotated[
        int | None, Option(metavar="N", help="Stop when the folder has this many parsed sentences.", min=1)
    ] = None,
) -> int:
    """Parse English texts once, so that `veridical data relations` can use them.

    [bold]veridical data parse wikipedia:data/wikipedia plain:data/gum --pipeline en_core_web_sm --out parsed[/bold]

    Only training and validation documents are parsed, with the same split by document as in training. If the command is
    interrupted, run it again and it continues. You can add other sets later. To read the folder, you do not need spaCy.
    """
    from veridical.cli.progress import progress_bar
    from veridical_lab.corrupt.crossed.parsing import documents_of, parse
    from veridical_lab.detectors.spacy_pipeline import load_pipeline

    loaded = load_pipeline(pipeline, exclude=(), needs=("parser",), what="parser")
    with progress_bar() as show:
        count = parse(
            chain.from_iterable(map(documents_of, data)),
            loaded,
            out,
            most=sentences,
            progress=lambda done: show("sentences", done, sentences),
        )
    write_line(f"{out} has {count:,} parsed sentences")
    return 0


@option_groups
def relations_command(
    folder: Annotated[Path, Argument(metavar="FOLDER", help="Texts parsed by: veridical data parse.")],
    out: OutJsonl,
    kinds: Annotated[
        str | None,
        Option(
            metavar="NAMES",
            help="Kinds of relations, separated by commas: roles, voice, converse, cause, order, certainty, stitched, "
            "scope, negation, count, comparison (default: all).",
        ),
    ] = None,
    part: Annotated[str, Option(metavar="PART", help="The part of the split by document: train or valid.")] = "train",
    first: Annotated[
        int | None, Option(metavar="N", help="Write only about this many, from documents drawn by the seed.", min=1)
    ] = None,
    seed: Annotated[int, Option(help="The random seed. Another seed makes other cases from the same texts.")] = 0,
) -> int:
    """Make labelled cases about relations: who did what to whom, why, when, how surely, how many.

    [bold]veridical data relations parsed --out relations.jsonl[/bold]
    [bold]veridical data relations parsed --kinds roles,cause --part valid --seed 7 --out roles.jsonl[/bold]

    Each relation makes four cases, with two sources and two statements. Each statement fits only one of the sources. So
    you cannot tell from the words of a statement, or from the words that it shares with its source, whether it is
    supported.
    """
    from veridical_lab.corrupt.crossed import relation_examples

    check_out(out)
    names = None if kinds is None else parse_names(kinds)
    examples: list[Example] = []
    for example in relation_examples(folder, seed=seed, part=part, kinds=names):
        if first is not None and len(examples) >= first and example.group != examples[-1].group:
            groups = dict(example.group), dict(examples[-1].group)
            if groups[0]["pair"] != groups[1]["pair"]:
                break
        examples.append(example)
    write_json_lines(out, examples)
    write_line(f"wrote {len(examples)} examples to {out}")
    write_counts("kinds", Counter(dict(example.group)["relation"] for example in examples))
    return 0
