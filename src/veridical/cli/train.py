"""`veridical train`: detectors that learn from labelled data, written as a folder that `veridical check` can use."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

_NEARLY_ALL = 0.9

train_app = typer.Typer(no_args_is_help=True, help="Train detectors on labelled data.")


@train_app.callback()
def _train() -> None:
    """Train detectors on labelled data."""


@train_app.command("probe")
def probe_command(
    data: Annotated[
        list[str], typer.Argument(help="Labelled data as SET:PATH; see: veridical data list.", metavar="SET:PATH…")
    ],
    model: Annotated[str, typer.Option(help="The language model to probe: a local folder, or a hub name.")],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the detector is written.")],
    kind: Annotated[str, typer.Option(help="linear, pooling or mlp.")] = "pooling",
    objective: Annotated[str, typer.Option(help="token, response, or both: token,response.")] = "token,response",
    select: Annotated[
        str, typer.Option(help="ensemble: all sublayers together; best: the single best one on validation.")
    ] = "ensemble",
    template: Annotated[str, typer.Option(help="How a case becomes the model's prompt: general, tldr, chat, raw …")] = (
        "general"
    ),
    sublayers: Annotated[
        str | None,
        typer.Option(
            help="Only these, with commas: 2l is layer l's attention, 2l+1 its other half.", show_default=False
        ),
    ] = None,
    learning_rate: Annotated[str, typer.Option(help="Learning rates to try, with commas.")] = "0.1,0.01,0.001",
    batch_size: Annotated[str, typer.Option(help="Batch sizes to try, in responses, with commas.")] = "50",
    patience: Annotated[int, typer.Option(help="Epochs without a better validation loss before stopping.", min=1)] = 10,
    epochs: Annotated[int, typer.Option(help="Epochs at most.", min=1)] = 200,
    hidden: Annotated[int, typer.Option(help="Hidden units of an mlp probe.", min=1)] = 16,
    balanced: Annotated[bool, typer.Option("--balanced", help="Give both classes the same weight.")] = False,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Fit the scores to probabilities on validation (needs the stats extra).")
    ] = False,
    store: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Keep the activations there; run again, it goes on with them.", show_default=False
        ),
    ] = None,
    store_dtype: Annotated[str, typer.Option(help="auto (as the model computes), fp32, bf16 or fp16.")] = "auto",
    stream: Annotated[bool, typer.Option("--stream", help="Store nothing: run the model in every epoch.")] = False,
    memory: Annotated[float, typer.Option(help="Gigabytes of activations to hold at once.", min=0.001)] = 2.0,
    max_tokens: Annotated[int | None, typer.Option(help="Tokens the model reads at once.", show_default=False)] = None,
    max_windows: Annotated[int, typer.Option(help="Windows over long sources that are read.", min=1)] = 1,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N or mps.")] = "auto",
    dtype: Annotated[str, typer.Option(help="The model's: auto, fp32, bf16 or fp16.")] = "auto",
    split: Annotated[str | None, typer.Option(help="Only this split of the data.", show_default=False)] = None,
    seed: Annotated[int, typer.Option(help="Of the division by document, of batches and of first weights.")] = 0,
) -> int:
    """Train probes on a language model's hidden states: what it shows inside when it hallucinates.

    Documents are divided 70/10/20; `veridical bench --fit f1` with the same seed measures on the same fifth.

    [bold]veridical train probe xsum_token:data/xsum_token --model models/reader-6m --out probe --template tldr[/bold]
    [bold]veridical check answer.json --detector probe:probe[/bold]
    """
    from veridical.datasets import read
    from veridical.models.load import READERS, load
    from veridical.probes.options import ProbeOptions, TrainingConfig
    from veridical.probes.training import train_probe

    options = ProbeOptions(
        kind=kind,
        learning_rates=tuple(_numbers(learning_rate, "learning rate")),
        batch_sizes=tuple(int(n) for n in _numbers(batch_size, "batch size")),
        patience=patience,
        max_epochs=epochs,
        hidden=hidden,
        balanced=balanced,
        seed=seed,
    )
    chosen = tuple(int(n) for n in _numbers(sublayers, "sublayer")) if sublayers else None
    loaded = load(model, device=device, dtype=dtype, kinds=READERS)
    config = TrainingConfig(
        options=options,
        objectives=tuple(name.strip() for name in objective.split(",") if name.strip()),
        select=select,
        template=template,
        sublayers=chosen,
        max_tokens=max_tokens,
        max_windows=max_windows,
        store=store,
        store_dtype=store_dtype,
        stream=stream,
        memory=int(memory * 1e9),
        calibrate=calibrate,
        device=str(loaded.device),
        progress=_say,
    )
    examples = [example for spec in data for example in read(spec, split)]
    train_probe(loaded, examples, config, out=out)
    typer.echo(f"wrote {out}; use it as probe:{out}")
    return 0


@train_app.command("threshold")
def threshold_command(
    detector: Annotated[
        str, typer.Argument(help="Any detector, as `veridical check --detector` takes it.", metavar="DETECTOR")
    ],
    data: Annotated[
        list[str], typer.Argument(help="Labelled data as SET:PATH; see: veridical data list.", metavar="SET:PATH…")
    ],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where what is fitted is written.")],
    rule: Annotated[
        str, typer.Option(help="What the threshold is best for: f1, balanced_accuracy, means or precision@P.")
    ] = "f1",
    calibration: Annotated[
        str,
        typer.Option(help="isotonic, platt, none (scores stay as they are), or auto: isotonic from 1000 items on."),
    ] = "auto",
    levels: Annotated[
        str | None,
        typer.Option(help="response, span, coverage; with commas. Default: all that are labelled.", show_default=False),
    ] = None,
    whole: Annotated[
        bool, typer.Option("--whole", help="Fit on all of the data: measure on other data, then.")
    ] = False,
    split: Annotated[str | None, typer.Option(help="Only this split of the data.", show_default=False)] = None,
    seed: Annotated[int, typer.Option(help="Of the division by document and of the bootstrap.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print what was written instead of a table.")] = False,
) -> int:
    """Fit thresholds and probabilities for any detector on labelled data.

    Documents are divided 70/10/20 and the tenth is used; `veridical bench --fit none` with the same seed measures on
    the fifth. Responses, words and coverage are fitted apart.

    [bold]veridical train threshold logprob:models/reader,template=tldr xsum_token:data/xsum_token --out fitted[/bold]
    [bold]veridical train threshold verify:overlap wice:data/wice --out fitted --rule precision@0.8[/bold]
    [bold]veridical check answer.json --detector calibrated:fitted[/bold]
    """
    import json as json_

    from veridical.calibration.fitting import Plan, fit_thresholds
    from veridical.cli.progress import progress_bar
    from veridical.datasets import read
    from veridical.detectors import load_detector

    chosen = tuple(name.strip() for name in levels.split(",") if name.strip()) if levels else None
    plan = Plan(rule=rule, calibration=calibration, levels=chosen, whole=whole, seed=seed)
    examples = [example for spec in data for example in read(spec, split)]
    with progress_bar() as progress:
        loaded = load_detector(detector)
        fitted = fit_thresholds(loaded, examples, plan, spec=detector, out=out, data=" ".join(data), progress=progress)
    if json:
        typer.echo(json_.dumps(fitted.document(), ensure_ascii=False))
    else:
        _show_fitted(fitted.validation)
    _say(f"wrote {out}; use it as calibrated:{out}")
    return 0


def _show_fitted(validation: dict[str, Any]) -> None:
    """What was fitted, a table a scale: its figures on validation as scores were, and cross-fitted."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, markup=False, emoji=False)
    for name, about in validation.items():
        table = Table("on validation", "before", "cross-fitted", title=name, title_justify="left")
        for metric in ("roc_auc", "ece", "brier", "f1", "precision", "recall"):
            cells = [(about[when] or {}).get(metric) for when in ("before", "cross_fitted")]
            table.add_row(metric, *map(_figure, cells))
        table.caption, table.caption_justify = _caption(about), "left"
        console.print(table)
        if about["share_flagged"] > _NEARLY_ALL:
            share = f"{about['share_flagged']:.0%}"
            _say(f"{name}: the threshold flags {share} of all; --rule balanced_accuracy flags fewer")


def _caption(about: dict[str, Any]) -> str:
    return (
        f"{about['items']} items, {about['share_of_positives']:.0%} positive, of {about['responses']} responses and "
        f"{about['documents']} documents; calibration: {about['calibration']}; the threshold {about['threshold']:.4g} "
        f"flags {about['share_flagged']:.0%}; before, {about['before']['threshold']:g} did"
    )


def _figure(found: list[float | None] | None) -> str:
    if found is None:
        return "undefined"
    value, low, high = found
    return f"{value:.3f}" if low is None or high is None else f"{value:.3f} [{low:.3f}, {high:.3f}]"


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")


def _numbers(text: str, what: str) -> list[float]:
    from veridical.core.errors import InputError

    try:
        return [float(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise InputError(f"{what} is {text!r}", hint="numbers with commas between them") from None
