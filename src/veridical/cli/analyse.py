"""`veridical analyse`: what probes can see: by sublayer, kind of error, data set, model, context; rows and pictures."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from veridical.models.load import LocalModel
    from veridical.probes.analysis import Analysis, AnalysisConfig

analyse_app = typer.Typer(
    no_args_is_help=True,
    help="Where in a model probes find hallucinations, which kinds, and whether that carries over: rows and pictures.",
)

Data = Annotated[str, typer.Argument(help="Labelled data as SET:PATH; see: veridical data list.", metavar="SET:PATH")]
Model = Annotated[str, typer.Option(help="The language model to probe: a local folder, or a hub name.")]
Out = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER", help="Write NAME.jsonl (rows) and a picture a metric there, SVG and PNG.", show_default=False
    ),
]
StoreFolder = Annotated[
    Path | None,
    typer.Option(
        "--store",
        metavar="FOLDER",
        help="Keep activations there, one folder a model and data set: made once, found by every analysis; run again "
        "after a crash, it goes on.",
        show_default=False,
    ),
]
Kind = Annotated[str, typer.Option(help="Of probe: linear, pooling or mlp.")]
Objective = Annotated[
    str | None,
    typer.Option(help="response (F1-R), token (F1-Sp), or both. Default: what is labelled.", show_default=False),
]
TemplateName = Annotated[str, typer.Option("--template", help="How a case becomes the model's prompt.")]
Rates = Annotated[str, typer.Option("--learning-rate", help="Learning rates to try, with commas.")]
Sizes = Annotated[str, typer.Option("--batch-size", help="Batch sizes to try, in responses, with commas.")]
Patience = Annotated[int, typer.Option(help="Epochs without a better validation loss before stopping.", min=1)]
Epochs = Annotated[int, typer.Option(help="Epochs at most.", min=1)]
MaxTokens = Annotated[int | None, typer.Option(help="Tokens the model reads at once.", show_default=False)]
Memory = Annotated[float, typer.Option(help="Gigabytes of activations to hold at once.", min=0.001)]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N or mps.")]
Dtype = Annotated[str, typer.Option(help="The model's: auto, fp32, bf16 or fp16.")]
Split = Annotated[str | None, typer.Option(help="Only this split of the data.", show_default=False)]
Sample = Annotated[
    int | None, typer.Option(help="Only this many documents of each data set.", min=1, show_default=False)
]
Resamples = Annotated[int, typer.Option(help="Bootstrap samples, drawn by document.", min=10)]
Seed = Annotated[int, typer.Option(help="Of the division by document, of batches, first weights and the bootstrap.")]

_RATES, _SIZES = "0.1,0.01,0.001", "50"


@analyse_app.command("layers")
def layers_command(
    data: Data,
    model: Model,
    out: Out = None,
    store: StoreFolder = None,
    kind: Kind = "pooling",
    objective: Objective = None,
    template: TemplateName = "general",
    learning_rate: Rates = _RATES,
    batch_size: Sizes = _SIZES,
    patience: Patience = 10,
    epochs: Epochs = 200,
    max_tokens: MaxTokens = None,
    memory: Memory = 2.0,
    device: Device = "auto",
    dtype: Dtype = "auto",
    split: Split = None,
    sample: Sample = None,
    resamples: Resamples = 1000,
    seed: Seed = 0,
) -> int:
    """F1-R and F1-Sp of a probe on each sublayer, and the first that reaches 95% of the peak.

    Attention and feed-forward halves apart, ensembles of each and of all, and flagging everything beside them.

    [bold]veridical analyse layers xsum_token:data/xsum_token --model models/reader --store states --out layers[/bold]
    """
    from veridical.probes.analysis import analyse_layers

    loaded, plan = _loaded(model, _plan(locals()), dtype)
    return _finish(analyse_layers(loaded, data, plan), out)


@analyse_app.command("labels")
def labels_command(
    data: Data,
    model: Model,
    merge: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=TEXT", help="Labels that hold TEXT are one kind, NAME. Repeatable.", show_default=False
        ),
    ] = None,
    by: Annotated[
        str | None, typer.Option(help="Groups of the data instead of labels, such as system.", show_default=False)
    ] = None,
    out: Out = None,
    store: StoreFolder = None,
    kind: Kind = "pooling",
    objective: Objective = None,
    template: TemplateName = "general",
    learning_rate: Rates = _RATES,
    batch_size: Sizes = _SIZES,
    patience: Patience = 10,
    epochs: Epochs = 200,
    max_tokens: MaxTokens = None,
    memory: Memory = 2.0,
    device: Device = "auto",
    dtype: Dtype = "auto",
    split: Split = None,
    sample: Sample = None,
    resamples: Resamples = 1000,
    seed: Seed = 0,
) -> int:
    """Which kinds of error probes see, by sublayer: one kind against all clean responses.

    F1 falls where a kind is rare, whatever the probe sees: compare kinds by recall and ROC AUC.

    [bold]veridical analyse labels bump:data/bump --model models/reader --merge intrinsic=intrinsic --merge
    extrinsic=extrinsic --out kinds[/bold]
    """
    from veridical.probes.analysis import analyse_error_types

    pairs = dict(_pair(text, "merge") for text in merge or ())
    loaded, plan = _loaded(model, _plan(locals()), dtype)
    return _finish(analyse_error_types(loaded, data, plan, merge=pairs, by=by), out)


@analyse_app.command("transfer")
def transfer_command(
    data: Annotated[
        list[str],
        typer.Argument(help="Two or more labelled sets; NAME=SET:PATH gives one a name.", metavar="[NAME=]SET:PATH…"),
    ],
    model: Model,
    mix: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME+NAME", help="Also train on a mixture, as much of each. Repeatable.", show_default=False
        ),
    ] = None,
    equal: Annotated[
        bool, typer.Option("--equal/--all-data", help="Train on as many responses of each set as the smallest has.")
    ] = True,
    out: Out = None,
    store: StoreFolder = None,
    kind: Kind = "pooling",
    objective: Objective = None,
    template: TemplateName = "general",
    learning_rate: Rates = _RATES,
    batch_size: Sizes = _SIZES,
    patience: Patience = 10,
    epochs: Epochs = 200,
    max_tokens: MaxTokens = None,
    memory: Memory = 2.0,
    device: Device = "auto",
    dtype: Dtype = "auto",
    split: Split = None,
    sample: Sample = None,
    resamples: Resamples = 1000,
    seed: Seed = 0,
) -> int:
    """Train on each data set, test on all: organic to synthetic and back, one task to another.

    Thresholds come from the training set's own validation part.

    [bold]veridical analyse transfer xsum_token:data/xsum_token bump:data/bump --model models/reader --out matrix[/bold]
    """
    from veridical.probes.analysis import analyse_transfer

    specs = _named(data)
    loaded, plan = _loaded(model, _plan(locals()), dtype)
    return _finish(analyse_transfer(loaded, specs, plan, mixtures=mix or (), equal=equal), out)


@analyse_app.command("size")
def size_command(
    data: Data,
    model: Annotated[list[str], typer.Option(help="A language model to probe. Repeatable: two or more.")],
    out: Out = None,
    store: StoreFolder = None,
    kind: Kind = "pooling",
    objective: Objective = None,
    template: TemplateName = "general",
    learning_rate: Rates = _RATES,
    batch_size: Sizes = _SIZES,
    patience: Patience = 10,
    epochs: Epochs = 200,
    max_tokens: MaxTokens = None,
    memory: Memory = 2.0,
    device: Device = "auto",
    dtype: Dtype = "auto",
    split: Split = None,
    sample: Sample = None,
    resamples: Resamples = 1000,
    seed: Seed = 0,
) -> int:
    """Several base models on the same data: the peak by number of weights, and exact tests of every two.

    [bold]veridical analyse size xsum_token:data/xsum_token --model models/small --model models/large --out size[/bold]
    """
    from veridical.core.errors import InputError
    from veridical.models.load import unload
    from veridical.probes.analysis import analyse_model_size

    if len(set(model)) < 2:
        raise InputError(f"{len(set(model))} model is named", hint="size takes two or more: --model A --model B")
    names = list(dict.fromkeys(model))
    plan = _loaded(names[0], _plan(locals()), dtype)[1]

    def models() -> Iterator[LocalModel]:
        for name in names:
            yield _loaded(name, plan, dtype)[0]
            unload()  # so that only one is in memory at a time

    return _finish(analyse_model_size(models(), data, plan), out)


@analyse_app.command("context")
def context_command(
    data: Data,
    model: Model,
    tokens: Annotated[str, typer.Option(help="Tokens of the sources to read, with commas; 0 takes them away.")] = (
        "0,64,256,all"
    ),
    out: Out = None,
    store: StoreFolder = None,
    kind: Kind = "pooling",
    objective: Objective = None,
    template: TemplateName = "general",
    learning_rate: Rates = _RATES,
    batch_size: Sizes = _SIZES,
    patience: Patience = 10,
    epochs: Epochs = 200,
    max_tokens: MaxTokens = None,
    memory: Memory = 2.0,
    device: Device = "auto",
    dtype: Dtype = "auto",
    split: Split = None,
    sample: Sample = None,
    resamples: Resamples = 1000,
    seed: Seed = 0,
) -> int:
    """How much of its sources the model must read: probes trained and tested with the first tokens of them alone.

    Where nothing is lost without a source, the probes judge the response's own habits.

    [bold]veridical analyse context xsum_token:data/xsum_token --model models/reader --tokens 0,128,all[/bold]
    """
    from veridical.probes.analysis import analyse_context_length

    counts = [None if part.strip() == "all" else _whole(part, "tokens") for part in tokens.split(",") if part.strip()]
    loaded, plan = _loaded(model, _plan(locals()), dtype)
    return _finish(analyse_context_length(loaded, data, plan, counts), out)


def _plan(given: dict[str, Any]) -> AnalysisConfig:
    """The plan that the options common to all commands come to."""
    from veridical.probes.analysis import AnalysisConfig
    from veridical.probes.options import ProbeOptions

    options = ProbeOptions(
        kind=given["kind"],
        learning_rates=tuple(_number(part, "learning rate") for part in given["learning_rate"].split(",")),
        batch_sizes=tuple(_whole(part, "batch size") for part in given["batch_size"].split(",")),
        patience=given["patience"],
        max_epochs=given["epochs"],
        seed=given["seed"],
    )
    named = given["objective"]
    return AnalysisConfig(
        options=options,
        objectives=None if named is None else tuple(part.strip() for part in named.split(",") if part.strip()),
        template=given["template"],
        max_tokens=given["max_tokens"],
        store=given["store"],
        memory=int(given["memory"] * 1e9),
        device=given["device"],
        split=given["split"],
        sample=given["sample"],
        resamples=given["resamples"],
        command=shlex.join(["veridical", *sys.argv[1:]]),
        progress=_say,
    )


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")


def _loaded(name: str, plan: AnalysisConfig, dtype: str) -> tuple[LocalModel, AnalysisConfig]:
    """The model, and the plan with the device that it lies on."""
    from veridical.models.load import READERS, load

    model = load(name, device=plan.device, dtype=dtype, kinds=READERS)
    return model, replace(plan, device=str(model.device))


def _finish(found: Analysis, out: Path | None) -> int:
    """Rows and pictures in `out`, tables on standard output."""
    from veridical.core.errors import OutputError
    from veridical.core.files import write_whole
    from veridical.probes.analysis.results import encode_records
    from veridical.report.analysis_tables import analysis_tables
    from veridical.report.terminal_tables import print_tables

    if out is not None:
        from veridical.report.analysis_plots import analysis_plots

        try:
            out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"cannot write {out}: {error.strerror or error}", hint="choose another --out") from None
        write_whole(out / f"{found.name}.jsonl", encode_records(found))
        for plot in analysis_plots(found):
            write_whole(out / f"{plot.name}.svg", plot.svg + "\n")
            write_whole(out / f"{plot.name}.png", plot.png)
    print_tables(analysis_tables(found))
    return 0


def _named(data: list[str]) -> dict[str, str]:
    """Name -> SET:PATH; a set without a name is called as the set is."""
    from veridical.core.errors import InputError

    made: dict[str, str] = {}
    for text in data:
        before, sign, after = text.partition("=")
        named = bool(sign) and ":" not in before
        name, spec = (before, after) if named else (text.partition(":")[0], text)
        if not name or "+" in name or name in made:
            raise InputError(f"the name {name!r} stands twice, or is none", hint="give each set one: NAME=SET:PATH")
        made[name] = spec
    return made


def _pair(text: str, what: str) -> tuple[str, str]:
    from veridical.core.errors import InputError

    name, sign, part = text.partition("=")
    if not sign or not name.strip() or not part.strip():
        raise InputError(f"{what} is {text!r}", hint="NAME=TEXT, such as intrinsic=intrinsic")
    return name.strip(), part.strip()


def _number(text: str, what: str) -> float:
    from veridical.core.errors import InputError

    try:
        return float(text)
    except ValueError:
        raise InputError(f"{what} is {text!r}", hint="numbers with commas between them") from None


def _whole(text: str, what: str) -> int:
    from veridical.core.errors import InputError

    if not text.strip().isdecimal():
        raise InputError(f"{what} is {text!r}", hint="whole numbers with commas between them")
    return int(text)
