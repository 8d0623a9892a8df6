"""`veridical annotate simulate`: the whole annotation loop with simulated annotators."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from typer import Argument, Option

from veridical.cli.comma_lists import parse_counts
from veridical.cli.delivery import plain_console, write_examples
from veridical.cli.option_groups import option_groups
from veridical.cli.options import OUTPUT, write_line
from veridical_lab.cli.data_corrupt import MaskedWordsOptions

__all__ = ["simulate_command"]


@dataclass(frozen=True, kw_only=True)
class SimulationOptions:
    """Options of the pool and the rounds of a simulated loop."""

    PANEL: ClassVar[str] = "Simulation"

    items: Annotated[int, Option(help="Items in the pool.", min=100)] = 6000
    sizes: Annotated[str, Option(metavar="LIST", help="Items of each round, separated by commas.")] = (
        "100,100,150,200,250"
    )
    method: Annotated[
        str, Option(help="How texts are corrupted: rules, masked (--fill-model), or another name of data corrupt.")
    ] = "rules"
    consistent: Annotated[float, Option(help="Share of changes that keep the meaning.")] = 0.13
    seed: Annotated[int, Option(help="Random seed.")] = 0
    out: Annotated[
        Path | None,
        Option(metavar="FILE", help="Write the agreed examples to FILE (JSON Lines).", rich_help_panel=OUTPUT),
    ] = None


@option_groups
def simulate_command(
    texts: Annotated[str, Argument(metavar="SET:PATH", help="Plain texts: wikipedia:FOLDER or plain:FOLDER.")],
    options: SimulationOptions,
    masked_words: MaskedWordsOptions,
) -> None:
    """Run select, annotate and agree from end to end with simulated annotators of known error rates.

    [bold]veridical annotate simulate wikipedia:data/wikipedia[/bold]
    [bold]veridical annotate simulate wikipedia:data/wikipedia --method masked --fill-model models/minilm-masked[/bold]
    """
    from veridical.core.errors import InputError
    from veridical.datasets import load_reader
    from veridical.report.terminal_tables import print_tables
    from veridical_lab.annotate.rounds import loop_rows
    from veridical_lab.annotate.select import SelectOptions
    from veridical_lab.annotate.simulate import make_pool, simulate, team
    from veridical_lab.report.annotation import loop_tables

    kind, _, path = texts.partition(":")
    reader = load_reader(kind)
    if not hasattr(reader, "read_texts") or not path:
        raise InputError(f"{texts!r} does not name plain texts", hint="wikipedia:FOLDER or plain:FOLDER")
    is_masked = options.method == "masked"
    masked = masked_words.way() if is_masked else None
    pool = make_pool(
        reader.read_texts(Path(path)),
        options.items,
        method=options.method if masked is None else lambda _: masked,
        sentences=masked_words.from_sentence if is_masked else 1,
        consistent=options.consistent,
        seed=options.seed,
    )
    people, sizes = team(seed=options.seed), parse_counts(options.sizes, "--sizes")
    loop = simulate(pool, people, sizes, options=SelectOptions(seed=options.seed), progress=write_line)
    if options.out is not None:
        write_examples(options.out, loop.examples)
    print_tables(loop_tables(loop_rows(loop, len(pool), options.method, options.consistent)), plain_console())
