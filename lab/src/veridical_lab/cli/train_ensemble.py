"""`veridical train ensemble`: combines several detectors, and makes a cascade of them."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from typing import Annotated, ClassVar

from typer import Option

from veridical.cli.delivery import plain_console
from veridical.cli.option_groups import option_groups
from veridical.cli.options import OUTPUT, Criterion, LabelledSets, OutFolder, Split, write_line


@dataclass(frozen=True, kw_only=True)
class EnsembleFittingOptions:
    """Options of how the members are combined, and on which data."""

    PANEL: ClassVar[str] = "Fitting"

    criterion: Criterion = "f1"
    keep: Annotated[float, Option(help="The cascade keeps this share of the ensemble's ROC AUC of responses.")] = 0.99
    negative_weights: Annotated[
        bool,
        Option("--negative-weights", help="Allow weights below 0, where a higher score lowers that of the ensemble."),
    ] = False
    all_data: Annotated[
        bool, Option("--all-data", help="Fit on all data, not only the validation split; then measure on other data.")
    ] = False
    split: Split = None
    seed: Annotated[int, Option(help="Random seed of the split by document, the folds and the bootstrap.")] = 0


@option_groups
def ensemble_command(
    data: LabelledSets,
    members: Annotated[
        list[str],
        Option(metavar="DETECTOR", help="A detector, as `veridical check --detector` takes it. Two or more times."),
    ],
    out: OutFolder,
    options: EnsembleFittingOptions,
    as_json: Annotated[
        bool, Option("--json", help="Print the fitted ensemble as JSON instead of a table.", rich_help_panel=OUTPUT)
    ] = False,
) -> int:
    """Combine several detectors by logistic regression, and fit when a cascade of them can stop.

    Data are split by document into training, validation and test (70/10/20), and the ensemble is fitted on the
    validation split; `veridical bench --fit none` with the same seed measures on the test split. An interrupted run
    continues when the same command is run again.

    [bold]veridical train ensemble bump:data/bump --members overlap --members align:models/minilm --out both[/bold]
    [bold]veridical check answer.txt article.txt --detector ensemble:both[/bold]
    [bold]veridical check --cases answers.jsonl --detector ensemble:both,cascade=yes[/bold]
    """
    from veridical.cli.progress import progress_bar
    from veridical.core.serialization import encode
    from veridical.datasets import read
    from veridical.report.terminal_tables import print_tables
    from veridical_lab.report.ensemble_tables import ensemble_tables
    from veridical_lab.training.ensemble import EnsembleOptions, fit_ensemble, load_members

    loaded = load_members(members)
    examples = [example for spec in data for example in read(spec, options.split)]
    journal = out.with_name(out.name + ".work")
    with progress_bar() as progress:
        settings = EnsembleOptions(
            criterion=options.criterion,
            keep=options.keep,
            negative_weights=options.negative_weights,
            all_data=options.all_data,
            seed=options.seed,
            data=" ".join(data),
            journal=journal,
            progress=progress,
        )
        fitted = fit_ensemble(loaded, examples, settings, out=out)
    shutil.rmtree(journal, ignore_errors=True)
    if as_json:
        sys.stdout.write(encode(fitted) + "\n")
    else:
        print_tables(ensemble_tables(fitted), plain_console())
    how = f"ensemble:{out}" + (f", or ensemble:{out},cascade=yes" if fitted.cascade else "")
    write_line(f"wrote {out}; use it as {how}")
    return 0
