"""`veridical reproduce`: make the tables and figures of the four papers again, beside the papers' own figures."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from typer import Argument, Option

from veridical.cli.option_groups import option_groups
from veridical.cli.options import OUTPUT, write_line


@dataclass(frozen=True, kw_only=True)
class ChoiceOptions:
    """Chooses which tables and figures are made."""

    PANEL: ClassVar[str] = "What"

    table: Annotated[list[str] | None, Option(metavar="N", help="Only this table. Repeatable.")] = None
    figure: Annotated[list[str] | None, Option(metavar="N", help="Only this figure. Repeatable.")] = None
    section: Annotated[list[str] | None, Option(metavar="N", help="Only this section. Repeatable.")] = None


@dataclass(frozen=True, kw_only=True)
class PlaceOptions:
    """Sets where data, models and results are."""

    PANEL: ClassVar[str] = "Data and models"

    data: Annotated[
        str, Option(help="published: use the paper's own data and models. local: use data and models that you have.")
    ] = "published"
    folder: Annotated[Path, Option(metavar="FOLDER", help="The folder with the data sets.")] = Path("data")
    models: Annotated[
        Path,
        Option(
            metavar="FOLDER",
            help="The folder with the models. Models that are not there are looked up on the hub by name.",
        ),
    ] = Path("models")
    rows: Annotated[
        list[Path] | None,
        Option(metavar="FOLDER", help="Earlier result rows. Their figures are not measured again. Repeatable."),
    ] = None


@option_groups
def reproduce_command(
    paper: Annotated[str, Argument(metavar="PAPER", help="chang2024, liu2022, george2023 or chwang2024.")],
    choice: ChoiceOptions,
    places: PlaceOptions,
    out: Annotated[
        Path,
        Option(
            metavar="FOLDER",
            help="The folder of results. A run that was stopped continues there.",
            rich_help_panel=OUTPUT,
        ),
    ] = Path("reproduced"),
    list_only: Annotated[
        bool, Option("--list", help="Print the commands and what is missing, and run nothing.", rich_help_panel=OUTPUT)
    ] = False,
    read_only: Annotated[
        bool, Option("--read", help="Only read figures that were measured before.", rich_help_panel=OUTPUT)
    ] = False,
    output_format: Annotated[
        str, Option("--format", "-f", help="terminal, json or markdown.", rich_help_panel=OUTPUT)
    ] = "terminal",
) -> int:
    """Rerun the tables and figures of a paper, and show the paper's figures beside ours.

    [bold]veridical reproduce liu2022 --table 2 --folder data[/bold]
    [bold]veridical reproduce chang2024 --table 1 --data local --folder data --models models[/bold]
    [bold]veridical reproduce chwang2024 --data local --rows benchmarks/rows --read --format markdown[/bold]

    Each table and figure is made by commands of this program. You can list them with --list. If data or models are
    missing, the table says so, and the others are still made.

    Exit codes: 0 every table and figure has at least one figure of ours, 2 usage or input error, 3 some have none, or a
    command failed.
    """
    from veridical.records.errors import UnknownNameError
    from veridical.report.terminal_tables import print_tables
    from veridical_lab.report.reproduction import reproduction_tables
    from veridical_lab.report.table_formats import markdown
    from veridical_lab.reproduce import Setting, load_plan, reproduce
    from veridical_lab.reproduce.plan import VERSIONS
    from veridical_lab.reproduce.running import commands_of, missing_needs

    formats = ("terminal", "json", "markdown")
    if output_format not in formats:
        raise UnknownNameError("format", output_format, formats)
    if places.data not in VERSIONS:
        raise UnknownNameError("data", places.data, VERSIONS)
    plan = load_plan(paper)
    named = {"table": choice.table, "figure": choice.figure, "section": choice.section}
    exhibits = plan.chosen([f"{kind} {number}" for kind, numbers in named.items() for number in numbers or ()])
    setting = Setting(
        data=places.folder, models=places.models, out=out, rows=tuple(places.rows or ()), progress=write_line
    )
    if list_only:
        for exhibit in exhibits:
            version = exhibit.versions[places.data]
            sys.stdout.write(f"# {exhibit.name}: {exhibit.title}\n")
            sys.stdout.writelines(f"# needs {need}\n" for need in missing_needs(version, setting))
            sys.stdout.writelines(f"{line}\n" for line in commands_of(version, setting))
        return 0
    made = []
    for exhibit in exhibits:
        made.append(reproduce(paper, exhibit, places.data, setting, measure=not read_only))
        if output_format == "terminal":
            print_tables(reproduction_tables(made[-1]))
    if output_format == "json":
        documents = [asdict(each) | {"veridical": "reproduction/1"} for each in made]
        for document, each in zip(documents, made, strict=True):
            for cell, figure in zip(document["cells"], each.cells, strict=True):
                cell["difference"] = figure.difference
        sys.stdout.writelines(json.dumps(document, ensure_ascii=False) + "\n" for document in documents)
    elif output_format == "markdown":
        tables = [table for each in made for table in reproduction_tables(each)]
        sys.stdout.write(markdown(tables) + "\n")
    return 0 if all(each.status == "measured" for each in made) else 3
