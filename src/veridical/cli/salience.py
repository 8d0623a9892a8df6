"""`veridical salience`: a picture of which source words each response word rests on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from veridical.core.salience_map import SalienceMap
    from veridical.core.types import Case, Span

_ENDINGS = (".html", ".png", ".svg")


def salience_command(
    response: Annotated[
        Path, typer.Argument(help="The response: a text file, - for standard input.", show_default=False)
    ],
    sources: Annotated[
        list[Path], typer.Argument(help="What it rests on: text, .pdf, .html or .md files.", show_default=False)
    ],
    model: Annotated[
        str,
        typer.Option(
            metavar="PATH[,OPTION...]",
            help="A model folder or hub name, and options as in salience:PATH,sum,template=tldr.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="OUT", help="Where to write: .svg, .png or .html.", show_default=False)],
    question: Annotated[
        str | None, typer.Option("--question", "-q", help="The question that the response answers.")
    ] = None,
    bars: Annotated[bool, typer.Option("--bars", help="Bars of words instead of the map (SVG).")] = False,
    threshold: Annotated[
        float | None,
        typer.Option(
            help="Mark response words that score at least this (0 to 1). Default: mark none.",
            min=0.0,
            max=1.0,
            show_default=False,
        ),
    ] = None,
    encoding: Annotated[str, typer.Option(help="Encoding of text files.")] = "utf-8",
) -> int:
    """Draw how much each source word bears on each word of a response, to a local language model.

    [bold]veridical salience answer.txt article.txt --model models/reader --out map.svg[/bold]
    [bold]veridical salience answer.txt article.txt --model models/reader,template=tldr --out map.html[/bold]

    Shares of a gradient (0 to 100 %), not probabilities; colours compare words within one picture.
    """
    from veridical.core.detector import DetectorContext
    from veridical.core.errors import InputError
    from veridical.core.spec import parse_spec
    from veridical.detectors import load_detector
    from veridical.detectors.local.salience import Salience

    ending = out.suffix.lower()
    if ending not in _ENDINGS or (bars and ending != ".svg"):
        allowed = ".svg" if bars else ", ".join(_ENDINGS)
        raise InputError(f"--out {out} ends in {ending or 'nothing'}", hint=f"it may end in {allowed}")
    case = _case(response, sources, question, encoding)
    found = Salience.from_spec(
        parse_spec(f"salience:{model}"), DetectorContext(lambda spec, context: load_detector(spec))
    ).map(case)
    pairs = zip(found.response_words, found.attribution, strict=True)
    flagged = [word.span for word, support in pairs if threshold is not None and 1.0 - support >= threshold]
    _write(out, found, case, flagged, bars)
    typer.echo(f"wrote {out}", err=True)
    return 0


def _case(response: Path, sources: list[Path], question: str | None, encoding: str) -> Case:
    from veridical.core.errors import DataError, InputError
    from veridical.core.files import STDIN, read_text
    from veridical.core.types import Case, Source
    from veridical.documents import read_document

    if [response, *sources].count(STDIN) > 1:
        raise InputError("standard input (-) is named more than once", hint="only one of the texts can come from it")
    text = read_text(response, encoding=encoding)
    if not text.strip():
        raise DataError("the response is empty", path=response, hint="there is nothing to show")
    made: dict[str, Source] = {}
    for path in sources:
        id = next(n for n in (path.name, *(f"{path.name} ({i})" for i in range(2, len(made) + 3))) if n not in made)
        made[id] = Source(id, read_document(path, encoding=encoding))
    return Case(response.name, text, tuple(made.values()), question)


def _write(out: Path, found: SalienceMap, case: Case, flagged: list[Span], bars: bool) -> None:
    from veridical.core.files import write_whole
    from veridical.report.salience import salience_page
    from veridical.report.salience_plots import salience_map_png, salience_map_svg, word_bars_svg

    if out.suffix.lower() == ".html":
        write_whole(out, salience_page(found, case, flagged=flagged, title=f"Salience: {case.id}"))
    elif out.suffix.lower() == ".svg":
        write_whole(out, (word_bars_svg if bars else salience_map_svg)(found, flagged=flagged) + "\n")
    else:
        write_whole(out, salience_map_png(found, flagged=flagged))
