"""`veridical models`: list, download, remove and verify published checkpoints. Only `get` uses the network."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from veridical.cli.options import write_line
from veridical.cli.progress import progress_bar, progress_lines

if TYPE_CHECKING:
    from veridical.inference.fetched import Fetched

models_app = typer.Typer(
    no_args_is_help=True,
    help="List, download, remove and verify published checkpoints for `hf:NAME`. They are kept in "
    "$VERIDICAL_HOME/models.",
)

_MEGABYTE = 1_000_000


@models_app.command("list")
def list_command() -> None:
    """List the recommended checkpoints and the ones you have, with size, licence, languages and published figures.

    [bold]veridical models list[/bold]
    """
    from veridical.inference.catalogue import catalogue
    from veridical.inference.fetched import fetched, models_folder

    here = {model.name: model for model in fetched()}
    width = max(map(len, (*catalogue(), *here)))
    for name in dict.fromkeys((*catalogue(), *here)):
        entry, model = catalogue().get(name), here.get(name)
        about = []
        if model is not None:
            about.append(f"here, at {model.revision[:8]}: {model.bytes / _MEGABYTE:,.0f} MB")
        elif entry is not None:
            about.append(f"about {entry.megabytes:,} MB")
        if entry is not None:
            needs = "torch, or --onnx" if entry.onnx else "torch"
            about += [
                entry.licence,
                ", ".join(entry.languages),
                f"{entry.parameters} weights",
                f"needs {needs}",
                entry.pinning,
            ]
        elif model is not None:
            about.append(model.licence or "licence not stated")
        sys.stdout.write(f"{name:<{width}}  {'; '.join(about)}\n")
        if entry is not None:
            figures = f"{entry.figures} ({entry.source})" if entry.figures else f"figures: see {entry.source}"
            sys.stdout.write(f"{'':<{width}}  {entry.part.repository}: {figures}\n")
    write_line(f"folder: {models_folder()}; for torch: pip install 'veridical[models]'")


@models_app.command("get")
def get_command(
    name: Annotated[
        str,
        Argument(
            metavar="NAME", help="A name in `veridical models list`, or the name of a model on the hub, owner/model."
        ),
    ],
    revision: Annotated[
        str | None,
        Option(metavar="COMMIT", help="A commit, branch or tag. Default: the recommended commit, or else the newest."),
    ] = None,
    onnx: Annotated[
        bool, Option("--onnx", help="Download the publisher's ONNX file, which runs without torch and transformers.")
    ] = False,
    accept_licence: Annotated[
        bool,
        Option("--accept-licence", help="Accept a licence that forbids commercial use, so that you are not asked."),
    ] = False,
) -> None:
    """Download a checkpoint, so that you can use it without a network afterwards.

    [bold]veridical models get nli-deberta-base[/bold]
    [bold]veridical models get cross-encoder/nli-deberta-v3-small --onnx[/bold]

    The command checks every file against the hash that the publisher lists. If a download is interrupted, run the same
    command again and it continues where it stopped. You can set HF_ENDPOINT to use a mirror, HTTPS_PROXY to use a
    proxy, and HF_TOKEN to your key for gated models.
    """
    from veridical.inference.catalogue import forbids_commerce
    from veridical.inference.fetched import fetch, find_fetched, plan
    from veridical.inference.hub import Hub
    from veridical.records.errors import InputError

    present = find_fetched(name)
    if present is not None:
        if revision not in (None, present.revision, present.asked) or onnx != present.is_onnx:
            form = "as ONNX" if present.is_onnx else "in safetensors"
            raise InputError(
                f"{present.name} is here {form}, at the revision {present.revision}",
                hint=f"first: veridical models remove {present.name}",
            )
        write_line(f"{present.name} is in {present.folder}")
        return
    hub = Hub()
    planned = plan(name, revision, hub=hub, onnx=onnx)
    licence = planned.listing.licence
    write_line(
        f"{planned.repository} at {planned.listing.commit}: {planned.bytes / _MEGABYTE:,.0f} MB, "
        f"licence: {licence or 'not stated'}"
    )
    if forbids_commerce(licence) and not accept_licence:
        question = f"The licence {licence} forbids commercial use. Accept it?"
        if not (sys.stdin.isatty() and typer.confirm(question, err=True)):
            raise InputError(f"the licence {licence} forbids commercial use", hint="to accept it: --accept-licence")
    label = f"{planned.repository}, MB"
    with progress_bar() if sys.stderr.isatty() else nullcontext(progress_lines(write_line)) as show:
        model = fetch(planned, hub=hub, progress=lambda done, total: show(label, done // _MEGABYTE, total // _MEGABYTE))
    write_line(f"wrote {model.folder}; use it with: -d hf:{model.name}")


@models_app.command("remove")
def remove_command(
    names: Annotated[list[str], Argument(metavar="NAME…", help="Names of models that are here.")],
) -> None:
    """Remove downloaded models, and the remains of interrupted downloads of them.

    [bold]veridical models remove nli-deberta-base[/bold]
    """
    from veridical.inference.fetched import remove

    for name in names:
        for folder in remove(name):
            write_line(f"removed {folder}")


@models_app.command("verify")
def verify_command(
    names: Annotated[
        list[str] | None, Argument(metavar="[NAME…]", help="Names of models that are here. Default: all.")
    ] = None,
) -> int:
    """Check that the files of your models still have the hashes that they had when they were downloaded.

    [bold]veridical models verify[/bold]

    The exit code is 2 if a file differs.
    """
    from veridical.inference.fetched import verify

    differs = False
    for model in _chosen(names or []):
        problems = verify(model)
        differs = differs or bool(problems)
        for problem in problems:
            write_line(f"veridical: {problem}; get it again: veridical models remove {model.name}, then get")
        if not problems:
            sys.stdout.write(f"{model.name}: {len(model.files)} files as they were downloaded, {model.revision}\n")
    return 2 if differs else 0


def _chosen(names: list[str]) -> list[Fetched]:
    """Return the models of these names, or all; raise `UnknownNameError` for one that is not here."""
    from veridical.inference.fetched import fetched, find_fetched
    from veridical.records.errors import UnknownNameError

    everything = list(fetched())
    models = [find_fetched(name) for name in names]
    for name, model in zip(names, models, strict=True):
        if model is None:
            raise UnknownNameError("fetched model", name, [model.name for model in everything])
    return [model for model in models if model is not None] if names else everything
