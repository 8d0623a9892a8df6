"""`veridical train classifier`: train classifiers of whole responses and of coverage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from typer import Option

from veridical.cli.comma_lists import parse_names
from veridical.cli.option_groups import option_groups
from veridical.cli.options import Criterion, OutFolder, Split, write_line
from veridical_lab.cli.shared_options import LabelledSets, ModelFolder, ValidationSets, settings_of
from veridical_lab.cli.signals import stop_asked_for
from veridical_lab.cli.training_options import TuningOptions, VirtualTokens

if TYPE_CHECKING:
    from veridical.records.types import Example


@dataclass(frozen=True, kw_only=True)
class ClassifierFormOptions:
    """Sets what a classifier judges, and what is tuned."""

    PANEL: ClassVar[str] = "Classifier"

    task: Annotated[str, Option(help="What to judge: hallucination or coverage.")]
    method: Annotated[
        str,
        Option(
            help="What to tune: prompt (a soft prompt), lora, head (a linear head only), or full (a linear head and "
            "all weights). prompt and lora are for decoders, and need the extra tuning."
        ),
    ] = "prompt"
    unit: Annotated[
        str,
        Option(
            help="What to read at once: whole (the case), part (a sentence of the response with all sources, or a "
            "source with the whole response; the worst part counts), or pair (a sentence and a source; each sentence "
            "or source has the score of its best pair, and the worst of these counts)."
        ),
    ] = "whole"
    labels: Annotated[
        str, Option(metavar="FINE,ERROR", help="A decoder's answers: where there is no error, and where there is one.")
    ] = "YES,NO"
    virtual_tokens: VirtualTokens = 5
    rank: Annotated[int, Option(help="Rank of LoRA.", min=1)] = 8
    max_tokens: Annotated[int | None, Option(help="Maximum tokens to read at once. Default: the model's.", min=16)] = (
        None
    )


@dataclass(frozen=True, kw_only=True)
class ClassifierTrainingOptions(TuningOptions):
    """Sets how a classifier is trained."""

    training: Annotated[
        str | None,
        Option(
            metavar="NAME",
            help="For data with topics (perspectrum:FOLDER): make responses with synthetic errors from them. synth: "
            "from a quarter of the training topics, in the arguments' own words; para: also with paraphrases; dev: "
            "also from all other training topics; free: from all training topics, in the arguments' own words.",
        ),
    ] = None
    organic: Annotated[
        str | None,
        Option(
            metavar="SET:PATH",
            help="With --training, learn these labelled responses too, such as procon:FILE or the jsonl:FILE that "
            "`veridical annotate` made.",
        ),
    ] = None
    learning_rate: Annotated[
        float | None,
        Option(help="Highest learning rate. Default: prompt 0.1, lora and head 1e-3, full 5e-5.", min=0),
    ] = None
    batch: Annotated[int, Option(help="Cases, or parts of cases, per step.", min=2)] = 16
    validation_examples: Annotated[int, Option(help="Maximum number of validation examples.", min=2)] = 200
    criterion: Criterion = "balanced_accuracy"
    bf16: Annotated[
        bool,
        Option("--bf16", help="Compute matrix products in bf16 if weights are in fp32 and the device has bf16."),
    ] = False
    seed: Annotated[int, Option(help="Random seed of the split by document, the batches and the tuned weights.")] = 0
    split: Split = None


@option_groups
def classifier_command(
    data: LabelledSets,
    model: ModelFolder,
    out: OutFolder,
    form: ClassifierFormOptions,
    options: ClassifierTrainingOptions,
    validation: ValidationSets = None,
) -> int:
    """Train a classifier of whole responses (hallucination) or of coverage.

    [bold]veridical train classifier perspectrum:data/perspectrum --training dev --task coverage --model models/smollm
    --out coverage[/bold]
    [bold]veridical train classifier jsonl:errors.jsonl --task hallucination --method full --model models/minilm --out
    hallucination[/bold]
    [bold]veridical check answer.txt --perspective pro=for.txt --perspective con=against.txt --detector
    classifier:hallucination,coverage[/bold]

    The classifier is a soft prompt or LoRA on a decoder that answers YES or NO, or a linear head on any model. The
    folder OUT contains only the tuned weights.

    Unless you set --validation, the data are split by document into a training, a validation and a test part
    (70/10/20). If the command is interrupted, run it again and it continues.
    """
    from veridical.inference.local_model import READERS
    from veridical.models.load import load
    from veridical.records.errors import InputError
    from veridical_lab.detectors.classifier.artifact import KIND, ClassifierSettings
    from veridical_lab.training.classifier import ClassifierTraining, train_classifier

    labels = tuple(parse_names(form.labels))
    if len(labels) != 2:
        raise InputError(f"--labels {form.labels!r} names {len(labels)} labels", hint="two, such as YES,NO")
    settings = settings_of(ClassifierTraining, options, classifier=settings_of(ClassifierSettings, form, labels=labels))
    parts = _parts(data, options, validation)
    dtype = "fp32" if form.method == "full" and options.dtype == "auto" else options.dtype
    loaded = load(model, device=options.device, dtype=dtype, kinds=READERS)
    with stop_asked_for() as stop:
        train_classifier(
            loaded,
            parts["train"],
            parts["valid"],
            settings,
            out=out,
            checkpoint_minutes=options.checkpoint_minutes,
            stop=stop,
            progress=write_line,
        )
    write_line(f"wrote {out}; use it as {KIND}:{out}")
    return 0


def _parts(
    data: list[str], options: ClassifierTrainingOptions, validation: list[str] | None
) -> dict[str, list[Example]]:
    """Return the examples to train on ("train") and to validate on ("valid")."""
    from veridical.datasets import read
    from veridical.datasets.split import split_by_document
    from veridical.records.errors import InputError
    from veridical_lab.bench.perspectives import training_sets
    from veridical_lab.datasets.topics import read_topics

    held_out = [example for spec in validation or () for example in read(spec)]
    if options.training is not None:
        topics = [topic for spec in data for topic in read_topics(spec, options.split)]
        parts = training_sets(topics, options.training, per_topic=options.per_topic, seed=options.seed)
        organic = [] if options.organic is None else list(read(options.organic))
        return {"train": [*parts["train"], *organic], "valid": held_out or parts["valid"]}
    if options.organic is not None:
        raise InputError("--organic is for --training", hint="name the set beside the others, as SET:PATH")
    examples = [example for spec in data for example in read(spec, options.split, remark=write_line)]
    if held_out:
        return {"train": examples, "valid": held_out}
    return split_by_document(examples, seed=options.seed)
