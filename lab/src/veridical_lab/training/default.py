"""Train the default detector: first an encoder, then a regression for each level.

The encoder is a token classifier (`training.tokens`) with prefix attention, in which source tokens do not attend to the
claim. The source is therefore read only once for all claims about it in training, and for all sentences of a response
in judging.

Every pass over the data draws new examples and makes new errors. The regressions (`training.default_levels`) are fitted
on validation documents, which the encoder is not trained on. An interrupted training resumes from its checkpoint.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from veridical.datasets.split import content_hash
from veridical.detectors.default.detector import ENCODER, KIND, OTHER_LANGUAGES, Default
from veridical.detectors.default.fitted import LOCATED
from veridical.detectors.default.second_reader import log_odds_of
from veridical.detectors.tokens.artifact import BACKBONE, ONNX, load_tokens
from veridical.detectors.tokens.detector import Tokens
from veridical.inference.artifact import DETECTOR, FORMAT
from veridical.inference.heads import HeadSettings
from veridical.inference.local_model import READERS, LocalModel
from veridical.inference.onnx_runtime import split
from veridical.inference.pairs import PairSettings
from veridical.inference.saving import versions
from veridical.io.files import write_whole
from veridical.models.load import load
from veridical.records.errors import InputError
from veridical.records.types import Level
from veridical_lab.detectors.export import export
from veridical_lab.models.onnx_weights import restore_backbone
from veridical_lab.models.sublayers import first_layers
from veridical_lab.training.default_data import Examples, part_of, some_of_each
from veridical_lab.training.default_levels import SWAPPED, fit_contradiction, fit_levels, fit_short_answers, level_rows
from veridical_lab.training.tokens import TokenTraining, train_tokens

if TYPE_CHECKING:
    import torch

_STAGES = "stages"
_SHARE = 0.1  # the fraction of the data that is drawn for a pass
_ROUNDED_FOR = 2  # the minimum number of examples of each set that calibrate the int8 weights
_ROUNDED_IN_ALL = 60


@dataclass(frozen=True, slots=True)
class DefaultTraining:
    """Options for training the default detector.

    Attributes:
        layers: The number of layers to keep, counted from the first, of the pretrained encoder. Default: all layers.
        max_tokens: The maximum number of tokens in a window.
        group: The maximum number of claims that are read together with a source.
        rate: The peak learning rate of the encoder. The rate of the heads is eight times as high.
        cooldown: The learning rate falls to 0 over this last fraction of the training.
        tokens: The number of tokens to train on. If you resume with a smaller number, training ends sooner.
        batch_tokens: The maximum number of tokens in a step.
        evaluate_tokens: The number of tokens between two evaluations.
        initial_weight: The weight in [0, 1) of the initial weights in the final average. Only for an encoder that is
            trained further.
        curve: The maximum number of validation examples of each set for evaluations during training.
        validation: The maximum number of validation examples of each set for fitting the regressions.
        languages: The languages of questions and paraphrases. Default: all languages in the data.
        bf16: Whether to compute matrix products in bf16 during training if the device supports bf16.
        seed: The random seed.
    """

    layers: int | None = None
    max_tokens: int = 288
    group: int = 8
    rate: float = 1e-4
    cooldown: float = 0.15
    tokens: int = 30_000_000
    batch_tokens: int = 3072
    evaluate_tokens: int = 2_000_000
    initial_weight: float = 0.0
    curve: int = 40
    validation: int = 200
    languages: tuple[str, ...] | None = None
    bf16: bool = True
    seed: int = 0

    def encoder(self, head: HeadSettings | None = None) -> TokenTraining:
        """Make the options for training the encoder. If `head` is given, the heads have the same form."""
        form: dict[str, Any] = {"hidden": None, "whole": "both", "whole_hidden": None}
        if head is not None:
            form = {name: getattr(head, name) for name in form}
        return TokenTraining(
            pairs=PairSettings(max_tokens=self.max_tokens, by_sentence=True),
            **form,
            attention="prefix",
            group=self.group,
            lexical=False,
            frozen_embeddings=True,
            learning_rate=self.rate,
            head_learning_rate=8 * self.rate,
            cooldown=self.cooldown,
            batch_tokens=self.batch_tokens,
            tokens=self.tokens,
            evaluate_tokens=self.evaluate_tokens,
            initial_weight=self.initial_weight,
            patience=1_000,
            label_smoothing=0.04,
            response_weight=1.4,
            contradiction_weight=0.4,
            validation_per_set=self.curve,
            bf16=self.bf16,
            seed=self.seed,
        )


def train_default(
    model: str | Path,
    data: str | Path,
    out: str | Path,
    options: DefaultTraining | None = None,
    *,
    parsed: str | Path | None = None,
    stop: Callable[[], bool] = lambda: False,
    progress: Callable[[str], None] = lambda line: None,
) -> Path:
    """Train the default detector and write it to a folder. You can then use it as `default:OUT`.

    Args:
        model: The pretrained encoder, as a Hugging Face folder. To train further, pass the classifier of an earlier run
            (its `stages/encoder`, or a detector's `encoder`). The learning rate schedule then starts again.
        data: The folder with the public data sets.
        out: The folder to write. Checkpoints and the encoder are kept in its `stages/`.
        options: How to train.
        parsed: A folder of parsed texts (`corrupt.crossed`), from which to make pairs that differ only in how things
            relate. Default: no such pairs.
        stop: Called after every step. If it returns true, a checkpoint is saved and `TrainingStopped` raised.
        progress: Called with lines of text that report progress.

    Raises:
        InputError: A data set is missing, or the encoder has fewer layers than `options.layers`.
        MissingExtraError: torch, onnx or scikit-learn is not installed.
    """
    options = options or DefaultTraining()
    data, out = Path(data), Path(out)
    parsed = None if parsed is None else Path(parsed)
    draw = partial(part_of, data, parsed=parsed, languages=options.languages)
    validation = some_of_each(draw("valid", seed=options.seed), options.validation, options.seed)
    classifier = train_encoder(
        model,
        lambda pass_i: draw(seed=options.seed + pass_i, share=_SHARE, progress=progress),
        validation,
        out,
        options,
        stop=stop,
        progress=progress,
    )
    return assemble(classifier, validation, out, options, progress=progress)


def train_encoder(
    model: str | Path,
    draw: Callable[[int], Examples],
    validation: Examples,
    out: Path,
    options: DefaultTraining,
    *,
    auxiliary_loss: Callable[[LocalModel], Callable[[int], torch.Tensor | None]] = lambda model: lambda step: None,
    stop: Callable[[], bool] = lambda: False,
    progress: Callable[[str], None] = lambda line: None,
) -> Path:
    """Train the encoder unless it is already trained, and return its folder, `stages/encoder` in `out`.

    Args:
        model: As in `train_default`.
        draw: Draws the training examples of a pass, counted from 0.
        validation: The validation examples by set.
        out: The folder of the detector.
        options: How to train.
        auxiliary_loss: A function that takes the encoder and returns a function for an auxiliary loss (see
            `training.tokens`).
        stop: As in `train_default`.
        progress: As in `train_default`.
    """
    classifier = out / _STAGES / "encoder"
    if (classifier / DETECTOR).is_file():
        return classifier
    head = None
    if (Path(model) / DETECTOR).is_file():
        head = load_tokens(Path(model))[2]
        model = backbone_of(Path(model), out / _STAGES / "restored")
    elif options.initial_weight:
        raise InputError(
            "the encoder has not been trained for this before, so its initial weights cannot count in the result",
            hint="leave out --initial-weight",
        )
    elif options.layers is not None:
        model = first_layers(model, options.layers, out / _STAGES / "pretrained")
    backbone = load(model, dtype="fp32", kinds=READERS)
    return train_tokens(
        backbone,
        draw,
        options.encoder(None if head is None else head.settings),
        out=classifier,
        start_from=head,
        validation={name: examples for name, examples in validation.items() if not name.endswith(SWAPPED)},
        auxiliary_loss=auxiliary_loss(backbone),
        stop=stop,
        progress=progress,
    )


def backbone_of(classifier: Path, restored: Path) -> Path:
    """Return the folder of a classifier's backbone. If the weights are only in an ONNX file, restore them first."""
    backbone = classifier / BACKBONE
    if any(backbone.glob("*.safetensors")):
        return backbone
    return restore_backbone(backbone, classifier / ONNX, restored)


def assemble(
    classifier: Path,
    validation: Examples,
    out: Path,
    options: DefaultTraining | None = None,
    *,
    base: Path | None = None,
    fitted_on: Callable[[str], bool] = lambda name: True,
    progress: Callable[[str], None] = lambda line: None,
) -> Path:
    """Export an encoder, fit the regressions on validation examples, and write the detector to a folder.

    If `validation` has no labels for a level, or no short answers, the corresponding regression or curve is copied from
    the detector in the folder `base`. So is its detector for other languages, if there is one. `fitted_on` is
    passed to `default_levels.fit_levels`.
    """
    of_each = max(_ROUNDED_FOR, _ROUNDED_IN_ALL // len(validation))
    examples = [example for of_set in some_of_each(validation, of_each).values() for example in of_set]
    exported = export(Tokens(classifier), "int8", rounded_for=[example.case for example in examples])
    progress(f"int8: {exported.bytes / 1e6:.1f} MB")
    rows, kinds = level_rows(Tokens(classifier, onnx="int8").scorer, validation, progress=progress)
    old = {} if base is None else json.loads((base / DETECTOR).read_text("utf-8"))
    models, figures = fit_levels(
        {level: of for level, of in rows.items() if of.rows or level.value not in old}, fitted_on=fitted_on
    )
    contradiction, figures["contradiction"] = fit_contradiction(kinds)
    response = models.get(Level.RESPONSE)
    threshold = old[Level.RESPONSE.value]["threshold"] if response is None else response.threshold
    short_answer, figures["short answer"] = fit_short_answers(rows[Level.RESPONSE], threshold)
    curves = {"contradiction": contradiction, "short answer": short_answer}
    encoder_folder = out / ENCODER
    if encoder_folder.exists():
        shutil.rmtree(encoder_folder)
    # leave out what a killed export left behind, and the encoder's own weights: judging needs only the ONNX file
    left_out = shutil.ignore_patterns("checkpoint", "model.safetensors", "model.onnx*", "*.part")
    shutil.copytree(classifier, encoder_folder, ignore=left_out)
    split(encoder_folder / ONNX, "int8")
    if base is not None and (base / OTHER_LANGUAGES).is_dir():
        shutil.copytree(base / OTHER_LANGUAGES, out / OTHER_LANGUAGES, dirs_exist_ok=True)
    located = old.get(LOCATED)
    if located is not None:
        change = log_odds_of(threshold, old[Level.RESPONSE.value]["threshold"])
        located = {**located, "intercept": located["intercept"] + change}
    document = {
        "veridical": f"detector/{FORMAT}",
        "kind": KIND,
        **{level.value: old[level.value] for level in rows if level.value in old},
        **{level.value: model.to_json() for level, model in models.items()},
        **{name: old[name] for name in curves if name in old},
        **{name: curve.parameters() for name, curve in curves.items() if curve is not None},
        **({} if located is None else {LOCATED: located}),
        "training": {
            "validation": content_hash(e for examples in validation.values() for e in examples),
            "sets": {name: len(examples) for name, examples in validation.items()},
            "options": asdict(options or DefaultTraining()),
            "versions": versions(),
        },
        "validation": figures,
    }
    write_whole(out / DETECTOR, json.dumps(document, indent=1, ensure_ascii=False) + "\n", follow_link=False)
    Default(out).thresholds  # noqa: B018 - check that the artifact can be read
    return out
