"""`veridical salience`: draw which source words each response word depends on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

from typer import Option

from veridical.cli.option_groups import option_groups
from veridical.cli.options import DETECTION, OUTPUT, CaseFiles, write_line
from veridical_lab.cli.shared_options import load_of_kind

if TYPE_CHECKING:
    from veridical_lab.detectors.local.salience import Salience

_ENDINGS = (".html", ".svg")


@option_groups
def salience_command(
    files: CaseFiles,
    detector: Annotated[
        str,
        Option(
            "--detector",
            "-d",
            metavar="SPEC",
            help="The detector salience with its language model and options, such as "
            "salience:models/reader,sum,template=tldr.",
            rich_help_panel=DETECTION,
        ),
    ],
    out: Annotated[Path, Option(metavar="FILE", help="The picture to write: .svg or .html.", rich_help_panel=OUTPUT)],
    bars: Annotated[
        bool, Option("--bars", help="Draw bars of words instead of the map (.svg only).", rich_help_panel=OUTPUT)
    ] = False,
    threshold: Annotated[
        float | None,
        Option(
            help="Mark response words that score at least this (0 to 1). Default: mark none.",
            min=0.0,
            max=1.0,
            rich_help_panel=DETECTION,
        ),
    ] = None,
) -> int:
    """Draw how strongly each source word influences each response word, according to a local language model.

    [bold]veridical salience answer.txt article.txt -d salience:models/reader --out map.svg[/bold]
    [bold]veridical salience answer.txt article.txt -d salience:models/reader,template=tldr --out map.html[/bold]

    The numbers are fractions of a gradient (0 to 100 %), not probabilities. Use the colours to compare words within one
    picture only.
    """
    from veridical.io.files import write_whole
    from veridical.records.errors import InputError
    from veridical.report.salience import salience_page
    from veridical_lab.report.salience_plots import salience_map_svg, word_bars_svg

    ending = out.suffix.lower()
    if ending not in _ENDINGS or (bars and ending != ".svg"):
        allowed = ".svg" if bars else ", ".join(_ENDINGS)
        raise InputError(f"--out {out} ends in {ending or 'nothing'}", hint=f"it may end in {allowed}")
    case = files.case()
    salience_map = cast("Salience", load_of_kind(detector, "salience")).map(case)
    pairs = zip(salience_map.response_words, salience_map.attribution, strict=True)
    flagged = [word.span for word, support in pairs if threshold is not None and 1.0 - support >= threshold]
    if ending == ".html":
        picture = salience_page(salience_map, case, flagged=flagged, title=f"Salience: {case.id}")
    else:
        picture = (word_bars_svg if bars else salience_map_svg)(salience_map, flagged=flagged) + "\n"
    write_whole(out, picture)
    write_line(f"wrote {out}")
    return 0
