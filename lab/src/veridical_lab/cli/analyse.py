"""`veridical analyse`: how word features relate to labels, and what probes detect, by sublayer, error type and more."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer
from typer import Argument, Option

from veridical.cli.comma_lists import parse_names
from veridical.cli.delivery import plain_console
from veridical.cli.option_groups import option_groups
from veridical.cli.options import OUTPUT, InputOptions, write_line
from veridical_lab.cli.number_lists import parse_counts
from veridical_lab.cli.shared_options import (
    JsonRows,
    LabelledData,
    ModelFolder,
    load_of_kind,
    settings_of,
    this_command,
    write_folder,
)
from veridical_lab.cli.training_options import FeatureInputOptions, ProbeTrainingOptions

if TYPE_CHECKING:
    from veridical.inference.local_model import LocalModel
    from veridical.records.spans import Span
    from veridical_lab.detectors.local.probe import Probe
    from veridical_lab.probes.analysis import Analysis, AnalysisConfig

analyse_app = typer.Typer(
    no_args_is_help=True,
    help="Analyse how word features relate to labels, where in a model probes detect hallucinations, which error types "
    "they detect, and how well they transfer to other data.",
)


@dataclass(frozen=True, kw_only=True)
class AnalysisOptions(ProbeTrainingOptions):
    """Options of the training and measurement of probes."""

    sample: Annotated[int | None, Option(help="Use only this many documents of each data set.", min=1)] = None
    resamples: Annotated[int, Option(help="Bootstrap samples, drawn by document.", min=10)] = 1000
    out: Annotated[
        Path | None,
        Option(
            metavar="FOLDER",
            help="Write the results (NAME.jsonl) and one plot per metric (SVG) to FOLDER.",
            rich_help_panel=OUTPUT,
        ),
    ] = None
    json: JsonRows = False

    def prepare(self, model: str) -> tuple[LocalModel, AnalysisConfig]:
        """Load the model, and return it with the settings that all analyses share."""
        from veridical.inference.local_model import READERS
        from veridical_lab.probes.analysis import AnalysisConfig

        config = settings_of(
            AnalysisConfig,
            self,
            options=self.training(),
            memory=self.memory_bytes,
            command=this_command(),
            progress=write_line,
        )
        loaded = self.load(model, READERS)
        return loaded, replace(config, device=str(loaded.device))

    def deliver(self, analysis: Analysis) -> int:
        """Write results and plots to `--out`, print tables (or JSON), and return the exit code."""
        from veridical.report.terminal_tables import print_tables
        from veridical_lab.probes.analysis.results import encode_records
        from veridical_lab.report.analysis_tables import analysis_tables

        if self.out is not None:
            from veridical_lab.report.analysis_plots import analysis_plots

            write_folder(self.out, {f"{analysis.name}.jsonl": encode_records(analysis)})
            write_folder(self.out, {f"{name}.svg": svg + "\n" for name, svg in analysis_plots(analysis).items()})
        if self.json:
            sys.stdout.write(encode_records(analysis))
        else:
            print_tables(analysis_tables(analysis))
        return 0


@analyse_app.command("layers")
@option_groups
def layers_command(data: LabelledData, model: ModelFolder, options: AnalysisOptions) -> int:
    """Measure a probe on each sublayer by F1 of responses and spans, and find the first to reach 95% of the peak.

    [bold]veridical analyse layers xsum_token:data/xsum_token --model models/reader --store states --out layers[/bold]

    The command also measures attention and feed-forward sublayers separately, ensembles, and a baseline that flags
    everything.
    """
    from veridical_lab.probes.analysis import analyse_layers

    loaded, config = options.prepare(model)
    return options.deliver(analyse_layers(loaded, data, config))


@analyse_app.command("labels")
@option_groups
def labels_command(
    data: LabelledData,
    model: ModelFolder,
    options: AnalysisOptions,
    merge: Annotated[
        list[str] | None,
        Option(metavar="NAME=TEXT", help="Merge the labels that contain TEXT into one type, NAME. Repeatable."),
    ] = None,
    by: Annotated[
        str | None, Option(metavar="GROUP", help="Compare groups of the data instead of labels, such as system.")
    ] = None,
) -> int:
    """Measure which error types probes detect, by sublayer. Each type is compared with all clean responses.

    [bold]veridical analyse labels bump:data/bump --model models/reader --out types[/bold]
    [bold]veridical analyse labels bump:data/bump --model models/reader --merge intrinsic=intrinsic --merge
    extrinsic=extrinsic[/bold]

    F1 is low for a rare type even if the probe is good. To compare types, use recall and ROC AUC.
    """
    from veridical.records.errors import InputError
    from veridical_lab.probes.analysis import analyse_error_types

    types: dict[str, str] = {}
    for text in merge or ():
        name, _, part = (piece.strip() for piece in text.partition("="))
        if not name or not part:
            raise InputError(f"--merge is {text!r}", hint="NAME=TEXT, such as intrinsic=intrinsic")
        types[name] = part
    loaded, config = options.prepare(model)
    return options.deliver(analyse_error_types(loaded, data, config, merge=types, by=by))


@analyse_app.command("transfer")
@option_groups
def transfer_command(
    data: Annotated[
        list[str],
        Argument(
            metavar="[NAME=]SET:PATH…",
            help="Two or more labelled data sets. Write NAME= before one to give it another name.",
        ),
    ],
    model: ModelFolder,
    options: AnalysisOptions,
    mix: Annotated[
        list[str] | None,
        Option(metavar="NAME+NAME", help="Also train on a mixture, with equal amounts of each. Repeatable."),
    ] = None,
    equal: Annotated[
        bool, Option("--equal/--all-data", help="Train on as many responses of each set as the smallest set has.")
    ] = True,
) -> int:
    """Train probes on each data set and test them on all of them, for example to go from synthetic to organic errors.

    [bold]veridical analyse transfer xsum_token:data/xsum_token bump:data/bump --model models/reader --out matrix[/bold]

    Thresholds are fitted on the validation split of the training set.
    """
    from veridical_lab.probes.analysis import analyse_transfer

    specs = _named_specs(data)
    loaded, config = options.prepare(model)
    return options.deliver(analyse_transfer(loaded, specs, config, mixtures=mix or (), equal=equal))


@analyse_app.command("size")
@option_groups
def size_command(
    data: LabelledData,
    model: Annotated[
        list[str], Option(metavar="FOLDER", help="A language model: a local folder, or a hub name. Give two or more.")
    ],
    options: AnalysisOptions,
) -> int:
    """Compare language models of different sizes on the same data, with an exact test for every pair.

    [bold]veridical analyse size xsum_token:data/xsum_token --model models/small --model models/large --out size[/bold]
    """
    from veridical.models.load import unload
    from veridical.records.errors import InputError
    from veridical_lab.probes.analysis import analyse_model_size

    names = list(dict.fromkeys(model))
    if len(names) < 2:
        raise InputError(f"{len(names)} model is named", hint="name two or more: --model A --model B")
    config = options.prepare(names[0])[1]

    def models() -> Iterator[LocalModel]:
        for name in names:
            yield options.prepare(name)[0]
            unload()  # so that only one is in memory at a time

    return options.deliver(analyse_model_size(models(), data, config))


@analyse_app.command("context")
@option_groups
def context_command(
    data: LabelledData,
    model: ModelFolder,
    options: AnalysisOptions,
    tokens: Annotated[
        str,
        Option(metavar="LIST", help="How many tokens of the sources to keep: numbers (0: none) or all, with commas."),
    ] = "0,64,256,all",
) -> int:
    """Measure how much source context probes need: train and test them with only the first tokens of the sources.

    [bold]veridical analyse context xsum_token:data/xsum_token --model models/reader --tokens 0,128,all[/bold]

    If the probes are as good without the sources, they judge how the response is written, and not whether it is
    supported.
    """
    from veridical_lab.probes.analysis import analyse_context_length

    counts = [None if part == "all" else parse_counts(part, "--tokens")[0] for part in parse_names(tokens)]
    loaded, config = options.prepare(model)
    return options.deliver(analyse_context_length(loaded, data, config, counts))


@analyse_app.command("map")
@option_groups
def map_command(
    detector: Annotated[
        str, Argument(metavar="DETECTOR", help="A trained probe as a detector, such as probe:FOLDER,model=FOLDER.")
    ],
    cases: InputOptions,
    case: Annotated[str | None, Option(metavar="ID", help="Map only this case of a file of cases.")] = None,
    objective: Annotated[
        str | None, Option(help="Which of its probes to show: token or response. Default: token, if it has any.")
    ] = None,
    mark: Annotated[
        list[str] | None, Option(metavar="TEXT", help="Mark this text where it is in the response. Repeatable.")
    ] = None,
    out: Annotated[
        Path | None,
        Option(metavar="FILE", help="Also write the map to FILE (.svg).", rich_help_panel=OUTPUT),
    ] = None,
) -> int:
    """Show one response as a map: the score of each sublayer's probe at each token, and the detector's own score.

    [bold]veridical analyse map probe:my-probe answer.txt article.txt --mark Paris --out map.svg[/bold]
    [bold]veridical analyse map probe:my-probe cases.jsonl --case 12[/bold]
    """
    from veridical.io.files import write_whole
    from veridical.records.errors import InputError
    from veridical.text.quotes import find_quote
    from veridical_lab.probes.analysis.response_map import map_response
    from veridical_lab.report.response_map import print_response_map, response_map_svg

    if out is not None and out.suffix.lower() != ".svg":
        raise InputError(f"--out {out} ends in {out.suffix or 'nothing'}", hint="it may end in .svg")
    chosen = [candidate for candidate in cases.read() if case in (None, candidate.id)]
    if not chosen:
        raise InputError(f"no case {case!r} in {cases.response}")
    if out is not None and len(chosen) > 1:
        raise InputError(f"{cases.response} holds {len(chosen)} cases, and --out takes one", hint="name it: --case ID")
    probe = cast("Probe", load_of_kind(detector, "probe"))
    for shown in chosen:
        marked: list[Span] = []
        for text in mark or ():
            span = find_quote(shown.response, text, used=marked)
            if span is None:
                raise InputError(f"--mark {text!r} is not in the response of {shown.id!r}", hint="give it verbatim")
            marked.append(span)
        response_map = map_response(probe, shown, objective=objective, marked=marked)
        print_response_map(response_map)
        if out is not None:
            write_whole(out, response_map_svg(response_map) + "\n")
            write_line(f"wrote {out}")
    return 0


@analyse_app.command("features")
@option_groups
def analyse_features_command(
    data: LabelledData,
    options: FeatureInputOptions,
    unit: Annotated[
        str, Option(help="What a label is about: word, phrase (the judged part of each response), or auto.")
    ] = "auto",
    features: Annotated[
        str | None,
        Option(metavar="LIST", help="Features by name, separated by commas. Default: the paper's and unsupported."),
    ] = None,
    out: Annotated[
        Path | None,
        Option(
            metavar="FOLDER",
            help="Write the analysis (features.json), the correlations and the word types (SVG) to FOLDER.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    as_json: Annotated[
        bool, Option("--json", help="Print one JSON document instead of tables.", rich_help_panel=OUTPUT)
    ] = False,
) -> int:
    """Compute means of word features by label, part of speech and entity type, and the correlations of the features.

    [bold]veridical analyse features hades:data/hades --split train --no-sources --model models/bert --out hades[/bold]
    [bold]veridical analyse features xsum_token:data/xsum_token --features unsupported,idf,length[/bold]

    This makes Tables 1 and 4 and Figure 4 of Liu et al. 2022.
    """
    from veridical.datasets import read
    from veridical.io.serialization import encode
    from veridical.report.terminal_tables import print_tables
    from veridical_lab.report.feature_report import feature_plots, feature_tables
    from veridical_lab.training.feature_analysis import analyse_features
    from veridical_lab.training.features import FeatureOptions, make_extractor

    chosen = settings_of(FeatureOptions, options, unit=unit)
    examples = list(read(data, options.split))
    analysis = analyse_features(
        make_extractor(examples, chosen, options.inputs()),
        examples,
        data=data.partition(":")[0],
        unit=unit,
        features=parse_names(features) or None,
        command=this_command(),
    )
    if out is not None:
        plots = {f"{name}.svg": svg + "\n" for name, svg in feature_plots(analysis).items()}
        write_folder(out, {"features.json": encode(analysis, indent=1) + "\n", **plots})
    if as_json:
        sys.stdout.write(encode(analysis) + "\n")
    else:
        console = plain_console()
        print_tables(feature_tables(analysis, console.width), console)
    return 0


def _named_specs(data: Sequence[str]) -> dict[str, str]:
    """Map names to SET:PATH; a set that is given no name has that of its format."""
    from veridical.records.errors import InputError

    specs: dict[str, str] = {}
    for text in data:
        before, equals, after = text.partition("=")
        is_named = bool(equals) and ":" not in before
        name, spec = (before, after) if is_named else (text.partition(":")[0], text)
        if not name or "+" in name or name in specs:
            raise InputError(f"the name {name!r} is given twice, or is not a name", hint="name each: NAME=SET:PATH")
        specs[name] = spec
    return specs
