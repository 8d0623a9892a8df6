"""The recipe of the default detector: an encoder trained in two parts, a third with a teacher, a regression per level.

The parts are those of `training.default_data`. The encoder is a token classifier (`training.tokens`) that reads each
sentence apart; its weights are a mean of those after the second part and of those after the first, which has forgotten
nothing (Wortsman et al. 2022, WiSE-FT). A larger encoder, the teacher, reads a share of the same examples; what it says
of a share of them is what the small one learns last (`training.soft_labels`), in two runs, and the weights are again a
mean, of both and of those before. The regressions (`training.default_levels`) are fitted on validation documents, which
training did not see, each set with the same weight. Whatever was interrupted goes on where it was.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from veridical.core.files import write_whole
from veridical.datasets.split import content_hash
from veridical.detectors.default.detector import ENCODER, KIND, Default
from veridical.detectors.tokens.artifact import load_tokens, save_tokens
from veridical.detectors.tokens.detector import Tokens
from veridical.models.artifact import DETECTOR, FORMAT, versions
from veridical.models.load import READERS, computes_bf16, load, unload
from veridical.models.pair_network import PairHead
from veridical.models.pairs import PairSettings
from veridical.models.sublayers import first_layers
from veridical.training.default_data import (
    RESEARCH_TEXT,
    Examples,
    general_part,
    labelled_part,
    some_of_each,
    unlabelled_part,
)
from veridical.training.default_levels import SWAPPED, fit_contradiction, fit_levels, level_rows
from veridical.training.soft_labels import mixed, soft_labels
from veridical.training.tokens import TokenTraining, train_tokens

if TYPE_CHECKING:
    import torch

__all__ = [
    "FIRST_PART_SHARE",
    "UNTAUGHT_SHARE",
    "DefaultTraining",
    "assemble",
    "average",
    "teacher_parts",
    "train_default",
    "validation_part",
]

FIRST_PART_SHARE = 0.25
"""Of the weights after the first part in the mean of those of two parts."""
UNTAUGHT_SHARE = 0.2
"""Of that mean in the weights of an encoder that a teacher has taught."""
_STAGES = "stages"


@dataclass(frozen=True, slots=True)
class DefaultTraining:
    """How the default detector is trained.

    Attributes:
        layers: How many of the pretrained encoder's first layers there are to be; None: all of them.
        teacher: A larger pretrained encoder, to learn from in a third part; None: there is no third part.
        without: Sets of the second part that are left out of it, and of the regressions.
        research_text: Whether the sets whose articles are for research (`RESEARCH_TEXT`) are in it.
        max_tokens: The most tokens of a window.
        rates: The backbone's highest learning rate in the first, the second and, with a teacher, the third part.
        teacher_rate: The teacher's.
        teacher_shares: Of the examples of each set, what the teacher reads of the first and of the second part; of a
            set at least 20.
        soft_labels: The most examples of each set of the first and of the second part that the teacher labels, next
            to text without labels.
        soft_words: The most words of responses of each set of the first part among them.
        teacher_weight: The weight of the teacher's scores in the labels of the third part, next to the data's own.
        batch_tokens: Tokens of a step.
        replay: The most examples of each set of the first part that the second one repeats.
        contradiction_weight: As in `TokenTraining`; the teacher does not learn it.
        label_smoothing: As in `TokenTraining`.
        response_weight: As in `TokenTraining`.
        validation: The most validation examples of each set: the encoder is judged by them, regressions are fitted.
        bf16: Whether matrix products are computed in bf16 in training; None: where the device computes in it.
        seed: Of everything that is random.
    """

    layers: int | None = None
    teacher: str | Path | None = None
    without: tuple[str, ...] = ()
    research_text: bool = False
    max_tokens: int = 256
    rates: tuple[float, float, float] = (1e-4, 7e-5, 7e-5)
    teacher_rate: float = 4e-5
    teacher_shares: tuple[float, float] = (1 / 6, 1 / 3)
    soft_labels: tuple[int, int] = (900, 1800)
    soft_words: int = 16000
    teacher_weight: float = 0.7
    batch_tokens: int = 2048
    replay: int = 120
    contradiction_weight: float = 0.3
    label_smoothing: float = 0.05
    response_weight: float = 0.6
    validation: int = 200
    bf16: bool | None = None
    seed: int = 0

    @property
    def left_out(self) -> tuple[str, ...]:
        """The sets that are left out of the second part, for either reason."""
        return tuple(sorted({*self.without, *(() if self.research_text else RESEARCH_TEXT)}))

    def tokens(self, rate: float, device: torch.device) -> TokenTraining:
        """How the encoder is trained in one part."""
        return TokenTraining(
            pairs=PairSettings(max_tokens=self.max_tokens, by_sentence=True),
            hidden=0,
            learning_rate=rate,
            batch_tokens=self.batch_tokens,
            epochs=1,
            label_smoothing=self.label_smoothing,
            response_weight=self.response_weight,
            contradiction_weight=self.contradiction_weight,
            validation_per_set=self.validation,
            bf16=computes_bf16(device) if self.bf16 is None else self.bf16,
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
        model: The pretrained encoder, a Hugging Face folder.
        data: The folder with the public data sets.
        out: The folder to write; its `stages/` keeps what was reached, and every encoder.
        options: How to train.
        stop: Asked after every step whether to save and end (`training.tokens.TrainingStopped`).
        progress: Called with a line of text now and then.

    Raises:
        InputError: If a data set is missing, `options.without` names one that the second part does not have, or the
            encoder has fewer layers than `options.layers`.
        MissingExtraError: Without torch, onnx or scikit-learn.
    """
    options = options or DefaultTraining()
    data, out = Path(data), Path(out)
    if options.layers is not None:
        model = first_layers(model, options.layers, out / _STAGES / "pretrained")
    labelled = labelled_part(data, without=options.left_out, seed=options.seed)
    labelled_valid = labelled_part(data, without=options.left_out, seed=options.seed, part="valid")
    general = general_part(data, seed=options.seed, progress=progress)
    stages = out / _STAGES

    chosen_by = {name: found for name, found in labelled_valid.items() if not name.endswith(SWAPPED)}

    def train(name: str, start: Path | str, examples: Examples, rate: float, **changes: Any) -> Path:
        """The classifier in the folder of the stage `name`, trained on from `start` unless it is there."""
        folder = stages / name
        if not (folder / DETECTOR).is_file():
            trained = (Path(start) / DETECTOR).is_file()
            head = load_tokens(start)[2] if trained else None
            backbone = Tokens(start, dtype="fp32").backbone() if trained else load(start, dtype="fp32", kinds=READERS)
            progress(f"{name}: {sum(map(len, examples.values()))} examples of {len(examples)} sets")
            train_tokens(
                backbone,
                examples,
                replace(options.tokens(rate, backbone.device), **changes),
                out=folder,
                start_from=head,
                validation=chosen_by,
                stop=stop,
                progress=progress,
            )
        return folder

    first = train("general", model, general, options.rates[0])
    replayed = some_of_each(general, options.replay, options.seed)
    second = train("labelled", first, {**labelled, **replayed}, options.rates[1])
    encoder = stages / "mean"
    if not (encoder / DETECTOR).is_file():
        average(second, first, encoder)
    learned: dict[str, Any] = {}
    if options.teacher is not None:
        read, taught = teacher_parts(general, labelled, unlabelled_part(data, options.seed), options)
        larger = Tokens(train("teacher", options.teacher, read, options.teacher_rate, contradiction_weight=0.0))
        said, digest = soft_labels(larger, taught, stages / "soft-labels", stop=stop, progress=progress)
        soft = {
            name: [mixed(e, j, options.teacher_weight) for e, j in zip(examples, said[name], strict=True)]
            for name, examples in taught.items()
        }
        how: dict[str, Any] = {"soft_labels": True, "label_smoothing": 0.0}
        one, other = (
            train(f"distilled-{n}", encoder, soft, options.rates[2], seed=options.seed + n, **how) for n in (1, 2)
        )
        earlier, encoder = encoder, stages / "taught"
        if not (encoder / DETECTOR).is_file():
            average(average(one, other, stages / "distilled", 0.5), earlier, encoder, UNTAUGHT_SHARE)
        learned = {"teacher": larger.fingerprint()["tokens"], "soft_labels": digest}
    return assemble(encoder, validation_part(data, options), out, options, learned=learned, progress=progress)


def teacher_parts(
    general: Examples, labelled: Examples, unlabelled: Examples, options: DefaultTraining
) -> tuple[Examples, Examples]:
    """The examples that the teacher is trained on, and those that it labels."""
    read: Examples = {}
    for share, sets in zip(options.teacher_shares, (general, labelled), strict=True):
        for name, examples in sets.items():
            read |= some_of_each({name: examples}, max(20, round(len(examples) * share)), options.seed)
    taught = {
        **some_of_each(general, options.soft_labels[0], options.seed, most_words=options.soft_words),
        **some_of_each(labelled, options.soft_labels[1], options.seed),
        **unlabelled,
    }
    return read, taught


def average(classifier: Path, earlier: Path, out: Path, share: float = FIRST_PART_SHARE) -> Path:
    """Write the classifier whose weights are the mean of two of one form to `out`, `share` of them of `earlier`."""
    artifact, settings, head = load_tokens(classifier)
    other = load_tokens(earlier)[2].tensors
    tensors = {name: (1 - share) * own + share * other[name] for name, own in head.tensors.items()}
    model, first = (Tokens(folder, dtype="fp32").backbone() for folder in (classifier, earlier))
    import torch

    with torch.no_grad():
        for own, theirs in zip(model.model.parameters(), first.model.parameters(), strict=True):
            own.lerp_(theirs, share)
    try:
        return save_tokens(
            model, settings, PairHead(head.settings, tensors), out, artifact.training, artifact.validation
        )
    finally:
        unload(model)  # what is kept of it would be taken for the classifier's own


def validation_part(data: Path, options: DefaultTraining) -> Examples:
    """What the regressions are fitted on: validation documents of all sets."""
    general = general_part(data, seed=options.seed, part="valid")
    labelled = labelled_part(data, without=options.left_out, seed=options.seed, part="valid")
    return some_of_each({**general, **labelled}, options.validation, options.seed)


def assemble(
    classifier: Path,
    validation: Examples,
    out: Path,
    options: DefaultTraining,
    *,
    learned: Mapping[str, Any] | None = None,
    progress: Callable[[str], None] = lambda line: None,
) -> Path:
    """Export the encoder in `classifier`, fit the regressions on `validation`, and write the detector to `out`.

    `learned` is what its description says of a teacher.
    """
    encoder = Tokens(classifier, dtype="fp32")
    exports = {precision: encoder.export(precision) for precision in ("fp32", "int8")}  # type: ignore[arg-type]
    progress(", ".join(f"{name}: {export.bytes / 1e6:.1f} MB" for name, export in exports.items()))
    rows, kinds = level_rows(Tokens(classifier, onnx="int8"), validation, progress=progress)
    models, figures = fit_levels(rows)
    contradiction, figures["contradiction"] = fit_contradiction(kinds)
    place = out / ENCODER
    if place.exists():
        shutil.rmtree(place)
    # without the encoder's own weights: an ONNX file is all that judging needs
    shutil.copytree(classifier, place, ignore=shutil.ignore_patterns("checkpoint", "model.safetensors", "model.onnx*"))
    document = {
        "veridical": f"detector/{FORMAT}",
        "kind": KIND,
        **{level.value: model.to_json() for level, model in models.items()},
        **({} if contradiction is None else {"contradiction": contradiction.parameters()}),
        "training": {
            "validation": content_hash(e for examples in validation.values() for e in examples),
            "sets": {name: len(examples) for name, examples in validation.items()},
            "without": list(options.left_out),
            **(learned or {}),
            "versions": versions(),
        },
        "validation": figures,
    }
    write_whole(out / DETECTOR, json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    Default(out).thresholds  # noqa: B018 - what was written can be read
    return out
