"""The recipe of the default detector: the first layers of a pretrained encoder, then a regression for each level.

The encoder is a token classifier (`training.tokens`) with prefix attention: the source does not see the claim. One pass
therefore trains all claims on a source, and judges all sentences of a response. The regressions
(`training.default_levels`) are fitted on validation documents, which training does not see. An interrupted training
resumes from its checkpoint.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from veridical.core.files import write_whole
from veridical.datasets.split import content_hash
from veridical.detectors.default.detector import ENCODER, KIND, Default
from veridical.detectors.tokens.artifact import BACKBONE, ONNX, load_tokens
from veridical.detectors.tokens.detector import Tokens
from veridical.models.artifact import DETECTOR, FORMAT
from veridical.models.load import load
from veridical.models.local_model import READERS
from veridical.models.onnx_runtime import split
from veridical.models.pairs import PairSettings
from veridical.models.saving import versions
from veridical_lab.detectors.export import export
from veridical_lab.models.sublayers import first_layers
from veridical_lab.training.default_data import Examples, part_of, some_of_each
from veridical_lab.training.default_levels import SWAPPED, fit_contradiction, fit_levels, level_rows
from veridical_lab.training.tokens import TokenTraining, train_tokens

__all__ = ["DefaultTraining", "assemble", "train_default"]

_STAGES = "stages"
_ROUNDED_FOR = 2  # examples of each set for which the weights are rounded


@dataclass(frozen=True, slots=True)
class DefaultTraining:
    """Options for training the default detector.

    Attributes:
        layers: The number of the pretrained encoder's first layers to keep; None: all.
        max_tokens: The most tokens of a window.
        group: The most claims on a source that share a pass.
        rate: The backbone's peak learning rate; the heads' is eight times that.
        epochs: Passes over the training part.
        batch_tokens: Tokens per step.
        validation: The most validation examples of each set; they evaluate the encoder and fit the regressions.
        bf16: Whether training computes matrix products in bf16 if the device has it.
        seed: The random seed.
    """

    layers: int | None = 8
    max_tokens: int = 288
    group: int = 8
    rate: float = 7e-5
    epochs: int = 1
    batch_tokens: int = 3072
    validation: int = 200
    bf16: bool = True
    seed: int = 0

    def tokens(self) -> TokenTraining:
        """Return the options for training the encoder."""
        return TokenTraining(
            pairs=PairSettings(max_tokens=self.max_tokens, by_sentence=True),
            hidden=0,
            attention="prefix",
            group=self.group,
            lexical=False,
            learning_rate=self.rate,
            head_learning_rate=8 * self.rate,
            batch_tokens=self.batch_tokens,
            epochs=self.epochs,
            label_smoothing=0.04,
            response_weight=1.4,
            contradiction_weight=0.4,
            validation_per_set=self.validation,
            bf16=self.bf16,
            seed=self.seed,
        )


def train_default(
    model: str | Path,
    data: str | Path,
    out: str | Path,
    options: DefaultTraining | None = None,
    *,
    stop: Callable[[], bool] = lambda: False,
    progress: Callable[[str], None] = lambda line: None,
) -> Path:
    """Train the default detector and write it to the folder `out`, which `default:OUT` reads.

    Args:
        model: The pretrained encoder, a Hugging Face folder; or `stages/encoder` of an earlier training, which then
            goes on with fresh rates.
        data: The folder with the public data sets.
        out: The folder to write; its `stages/` keeps checkpoints and the encoder.
        options: How to train.
        stop: Asked after every step; if true, training saves a checkpoint and raises `TrainingStopped`.
        progress: Called with lines of text that report progress.

    Raises:
        InputError: If a data set is missing, or the encoder has fewer layers than `options.layers`.
        MissingExtraError: If torch, onnx or scikit-learn is not installed.
    """
    options = options or DefaultTraining()
    data, out = Path(data), Path(out)
    classifier = out / _STAGES / "encoder"
    validation = some_of_each(part_of(data, "valid", seed=options.seed), options.validation, options.seed)
    if not (classifier / DETECTOR).is_file():
        head = None
        if (Path(model) / DETECTOR).is_file():
            head, model = load_tokens(Path(model))[2], Path(model) / BACKBONE
        elif options.layers is not None:
            model = first_layers(model, options.layers, out / _STAGES / "pretrained")
        backbone = load(model, dtype="fp32", kinds=READERS)
        train_tokens(
            backbone,
            part_of(data, seed=options.seed, progress=progress),
            options.tokens(),
            out=classifier,
            start_from=head,
            validation={name: examples for name, examples in validation.items() if not name.endswith(SWAPPED)},
            stop=stop,
            progress=progress,
        )
    return assemble(classifier, validation, out, options, progress=progress)


def assemble(
    classifier: Path,
    validation: Examples,
    out: Path,
    options: DefaultTraining | None = None,
    *,
    progress: Callable[[str], None] = lambda line: None,
) -> Path:
    """Export the encoder in `classifier`, fit the regressions on `validation`, and write the detector to `out`."""
    examples = [example for of_set in some_of_each(validation, _ROUNDED_FOR).values() for example in of_set]
    exported = export(Tokens(classifier), "int8", rounded_for=[example.case for example in examples])
    progress(f"int8: {exported.bytes / 1e6:.1f} MB")
    rows, kinds = level_rows(Tokens(classifier, onnx="int8").scorer, validation, progress=progress)
    models, figures = fit_levels(rows)
    contradiction, figures["contradiction"] = fit_contradiction(kinds)
    encoder_folder = out / ENCODER
    if encoder_folder.exists():
        shutil.rmtree(encoder_folder)
    # leave out the encoder's own weights: judging needs only the ONNX file
    shutil.copytree(
        classifier, encoder_folder, ignore=shutil.ignore_patterns("checkpoint", "model.safetensors", "model.onnx*")
    )
    split(encoder_folder / ONNX, "int8")
    document = {
        "veridical": f"detector/{FORMAT}",
        "kind": KIND,
        **{level.value: model.to_json() for level, model in models.items()},
        **({} if contradiction is None else {"contradiction": contradiction.parameters()}),
        "training": {
            "validation": content_hash(e for examples in validation.values() for e in examples),
            "sets": {name: len(examples) for name, examples in validation.items()},
            "options": asdict(options or DefaultTraining()),
            "versions": versions(),
        },
        "validation": figures,
    }
    write_whole(out / DETECTOR, json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    Default(out).thresholds  # noqa: B018 - check that the artifact can be read
    return out
