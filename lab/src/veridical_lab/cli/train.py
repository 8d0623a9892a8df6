"""`veridical train`: train detectors on labelled data, and write a folder that `veridical check` can use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer
from typer import Option

from veridical.cli.option_groups import option_groups
from veridical.cli.options import Criterion, OutFolder, write_line
from veridical_lab.cli.number_lists import parse_counts
from veridical_lab.cli.shared_options import LabelledSets, ModelFolder, ValidationSets, settings_of
from veridical_lab.cli.train_classifier import classifier_command
from veridical_lab.cli.train_default import default_command
from veridical_lab.cli.train_generator import generator_command
from veridical_lab.cli.train_languages import languages_command
from veridical_lab.cli.train_summac import summac_command
from veridical_lab.cli.train_tokens import tokens_command
from veridical_lab.cli.training_options import FeatureInputOptions, ProbeTrainingOptions

train_app = typer.Typer(no_args_is_help=True, help="Train detectors, and fit thresholds, on labelled data.")


@dataclass(frozen=True, kw_only=True)
class TrainingOptions(ProbeTrainingOptions):
    """Sets how probes are trained, and which of them are kept."""

    objective: Annotated[str, Option(help="What probes predict: token, response, or both (token,response).")] = (
        "token,response"
    )
    select: Annotated[
        str, Option(help="ensemble: combine the probes of all sublayers. best: keep the one that validates best.")
    ] = "ensemble"
    threshold_metric: Annotated[
        str, Option(help="The validation metric that decides the threshold of tokens: token_f1 or f1_sp.")
    ] = "token_f1"
    sublayers: Annotated[
        str | None,
        Option(
            metavar="LIST",
            help="Use only these sublayers, separated by commas: 2i is the attention of layer i, 2i+1 its "
            "feed-forward network.",
        ),
    ] = None
    hidden: Annotated[int, Option(help="Hidden units of an mlp probe.", min=1)] = 16
    store_dtype: Annotated[
        str, Option(help="Precision of stored activations: auto (the model's), fp32, bf16 or fp16.")
    ] = "auto"
    stream: Annotated[bool, Option("--stream", help="Store no activations: run the model again in every epoch.")] = (
        False
    )


@train_app.command("probe")
@option_groups
def probe_command(data: LabelledSets, model: ModelFolder, out: OutFolder, options: TrainingOptions) -> int:
    """Train probes, which detect hallucinations in the hidden states of a language model.

    [bold]veridical train probe xsum_token:data/xsum_token --model models/reader-6m --out probe --template tldr[/bold]
    [bold]veridical check answer.json --detector probe:probe[/bold]

    The data are split by document into a training, a validation and a test part (70/10/20). To measure the probe on the
    test part, run `veridical bench --fit f1` with the same seed.
    """
    from veridical.datasets import read
    from veridical.inference.local_model import READERS
    from veridical_lab.probes.options import TrainingConfig
    from veridical_lab.probes.training import train_probe

    training = options.training(hidden=options.hidden)
    sublayers = None if options.sublayers is None else parse_counts(options.sublayers, "--sublayers")
    loaded = options.load(model, READERS)
    config = settings_of(
        TrainingConfig,
        options,
        options=training,
        sublayers=sublayers,
        memory=options.memory_bytes,
        device=str(loaded.device),
        progress=write_line,
    )
    examples = [example for spec in data for example in read(spec, options.split, remark=write_line)]
    train_probe(loaded, examples, config, out=out)
    write_line(f"wrote {out}; use it as probe:{out}")
    return 0


@dataclass(frozen=True, kw_only=True)
class FeatureTrainingOptions(FeatureInputOptions):
    """Sets how a classifier of word features is trained."""

    classifier: Annotated[str, Option(help="lr: logistic regression. svm: a linear support vector machine.")] = "lr"
    unit: Annotated[
        str, Option(help="What a label is about: word, phrase (the judged part of each response), or auto.")
    ] = "auto"
    criterion: Criterion = "f1"


@train_app.command("features")
@option_groups
def features_command(
    data: LabelledSets,
    out: OutFolder,
    options: FeatureTrainingOptions,
    validation: ValidationSets = None,
) -> int:
    """Train a linear classifier on features of words.

    [bold]veridical train features xsum_token:data/xsum_token --out words[/bold]
    [bold]veridical train features xsum_token:data/xsum_token --model models/reader --template tldr --out words[/bold]
    [bold]veridical train features hades:data/hades --split train --no-sources --model models/bert --classifier svm
    --out phrases[/bold]
    [bold]veridical check answer.txt article.txt --detector features:words[/bold]

    The features say how likely a language model finds a word, how rare the word is, its part of speech, and whether the
    sources have it. Training takes seconds. It uses all words, or one marked phrase per response, with sources or
    without.

    Unless you set --validation, you can measure the classifier on the test part with `veridical bench --fit none` and
    the same seed.
    """
    from veridical.datasets import read
    from veridical_lab.training.features import FeatureOptions, train_features

    examples = [example for spec in data for example in read(spec, options.split, remark=write_line)]
    held_out = [example for spec in validation or () for example in read(spec)]
    training = settings_of(FeatureOptions, options)
    train_features(examples, training, options.inputs(), validation=held_out or None, out=out)
    write_line(f"wrote {out}; use it as features:{out}")
    return 0


train_app.command("classifier")(classifier_command)
train_app.command("generator")(generator_command)
train_app.command("tokens")(tokens_command)
train_app.command("default")(default_command)
train_app.command("languages")(languages_command)
train_app.command("summac")(summac_command)
