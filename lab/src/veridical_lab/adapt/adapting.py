"""Train the default detector further on your documents.

The new detector is kept only if it is better on documents of the same kind that it was not trained on.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from veridical.datasets.split import content_hash, split_by_document
from veridical.detectors.default.detector import ENCODER, PACKAGED, Default
from veridical.detectors.tokens.artifact import load_tokens
from veridical.inference.local_model import READERS
from veridical.io.files import write_whole
from veridical.llm.protocol import ChatModel
from veridical.metrics import UndefinedMetricError
from veridical.metrics.arrays import Floats
from veridical.metrics.confusion import Confusion
from veridical.metrics.ranking import roc_auc
from veridical.metrics.significance import bootstrap
from veridical.models.load import load
from veridical.records.detector import digest_of
from veridical.records.errors import InputError
from veridical.records.judging import judge, thresholds_in_force
from veridical.records.types import Case, Example
from veridical_lab.adapt.general import general_examples
from veridical_lab.adapt.passages import Passage, read_passages
from veridical_lab.adapt.statements import Statements, write_statements
from veridical_lab.corrupt.streams import Recipe, training_examples
from veridical_lab.detectors.baselines import ResponseWords
from veridical_lab.training.contrasts import contrasts
from veridical_lab.training.default import DefaultTraining, assemble, backbone_of
from veridical_lab.training.tokens import train_tokens

FRACTIONS = {"train": 0.6, "valid": 0.2, "test": 0.2}
_FEWEST_DOCUMENTS = 10  # with fewer documents, the data are split by passage instead
_FORGOTTEN = -0.02  # the lowest allowed lower bound of the gain in ROC AUC on general examples


@dataclass(frozen=True, slots=True)
class Adapting:
    """Options for adapting the default detector.

    Attributes:
        tokens: The number of tokens to train on.
        rate: The peak learning rate of the encoder.
        general: The maximum number of general examples to add for each example made from your documents.
        bf16: Whether training computes matrix products in bf16 if the device supports it.
        seed: The random seed.
    """

    tokens: int = 300_000
    rate: float = 2e-5
    general: float = 0.5
    bf16: bool = True
    seed: int = 0


@dataclass(slots=True)
class Adapted:
    """The result of an adaptation.

    Attributes:
        kept: Whether the new detector was kept. It is kept if it is better on the held-out documents and, with 95%
            confidence, not much worse on general examples.
        figures: The measurements on each kind of data ("documents", "general"): n, ROC AUC and balanced accuracy before
            and after, the gain in ROC AUC with its 95% interval, and the ROC AUC for each label.
        documents: The number of examples, documents and wrong examples in each part.
        statements: A report on the chat model's statements, kept and dropped. Empty if no chat model was used.
        notes: What you should know about the result.
    """

    kept: bool
    figures: dict[str, Any]
    documents: dict[str, Any]
    statements: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def material(
    documents: Iterable[Path],
    model: ChatModel | None = None,
    labeller: ChatModel | None = None,
    *,
    seed: int = 0,
    progress: Callable[[str, int, int], None] = lambda step, done, total: None,
) -> tuple[dict[str, list[Example]], Statements, list[str]]:
    """Make examples from documents for each part ("train", "valid", "test").

    The second result is the statements of a chat model, and the third is notes. Fixed rules turn sentences of the
    documents into statements, by rewriting them and putting errors into some of them. A chat model can write further
    statements. If one does, the parts "valid" and "test" contain only its statements.

    Args:
        documents: Files, and folders with files.
        model: The chat model that writes statements. With None, only rules make statements.
        labeller: The chat model that labels the statements again without seeing their first labels. Default: `model`.
        seed: The random seed.
        progress: A function that is called with the name of a step, how much of it is done, and the total.

    Raises:
        InputError: A path does not exist, or the documents have too little text.
    """
    passages, notes = read_passages(documents)
    if len({passage.document for passage in passages}) < _FEWEST_DOCUMENTS:
        notes.append(
            f"fewer than {_FEWEST_DOCUMENTS} documents: passages are split in place of documents, so the gain on other "
            "documents may be smaller than the one that is measured"
        )
        passages = [replace(passage, document=passage.id) for passage in passages]
    found = Statements() if model is None else write_statements(passages, model, labeller=labeller, progress=progress)
    parts = split_by_document([*found.examples, *_by_rules(passages, seed)], FRACTIONS, seed=seed)
    if model is not None:  # examples made by rules are only for training
        parts |= {part: [e for e in parts[part] if e.gold.by == "model:written"] for part in ("valid", "test")}
    parts["train"] += [e for examples in contrasts("documents", parts["train"], seed).values() for e in examples]
    for part, examples in parts.items():
        if len({bool(example.gold.hallucination) for example in examples}) < 2:
            raise InputError(
                f"the {part} part of {len(passages)} passages has no examples of both classes",
                hint="give more documents",
            )
    return parts, found, notes


def _by_rules(passages: Sequence[Passage], seed: int) -> list[Example]:
    """Make examples from sentences of the passages, by rewriting them and putting errors into some of them."""
    recipe = Recipe(faithful=0.4, rewrite=0.6, source_words=(40, 400), clutter=0.0)
    made = training_examples([passage.text for passage in passages], recipe, name="rules", seed=seed)
    names = [passage.document for passage in passages]
    return [replace(example, document=names[int(str(example.document).rpartition("/")[2])]) for example in made]


def adapt(
    documents: Iterable[Path],
    out: Path,
    options: Adapting | None = None,
    *,
    model: ChatModel | None = None,
    labeller: ChatModel | None = None,
    detector: Path = PACKAGED,
    stop: Callable[[], bool] = lambda: False,
    progress: Callable[[str], None] = lambda line: None,
) -> Adapted:
    """Adapt the default detector to documents, and write the new detector to the folder `out` if it is good enough.

    The new detector must pass two tests. Each looks at the gain in ROC AUC over the old detector, and at the lower end
    of the 95% interval of this gain. On the test documents, the lower end must be above 0. On general examples, it must
    be above -0.02.

    The folder `OUT.work` keeps the checkpoint, the new detector and the report `adapted.json`. If a call is
    interrupted, the next one continues from there.

    Args:
        documents: Files, and folders with files.
        out: The folder to write.
        options: How to train.
        model: The chat model that writes statements. With None, only rules make statements.
        labeller: The chat model that labels the statements again without seeing their first labels. Default: `model`.
        detector: The folder of the detector to train further.
        stop: A function that is called after every step. If it returns true, training saves a checkpoint and raises
            `TrainingStopped`.
        progress: A function that is called with lines of text that report progress.

    Raises:
        InputError: The documents have too little text, `out` exists, or `OUT.work` belongs to another run.
    """
    options = options or Adapting()
    if out.exists():
        raise InputError(f"{out} exists", hint="name a new folder")
    work = out.with_name(out.name + ".work")
    parts, found, notes = material(
        documents,
        model,
        labeller,
        seed=options.seed,
        progress=lambda step, done, total: progress(f"{step}: {done} of {total}"),
    )
    _check_work(work, digest_of([content_hash(chain(*parts.values())), asdict(options)]))
    report = Adapted(False, {}, _counts(parts), _statements(found, parts), notes)
    general = split_by_document(general_examples("valid"), {"fit": 0.5, "test": 0.5}, seed=options.seed)
    candidate = work / "detector"
    training = DefaultTraining(rate=options.rate, tokens=options.tokens, bf16=options.bf16, seed=options.seed)
    further_trained(parts, general["fit"], work, candidate, training, options, detector, stop=stop, progress=progress)
    for name, examples in (("documents", parts["test"]), ("general", general["test"])):
        report.figures[name] = compared(examples, Default(detector), Default(candidate))
    gains = {name: figures["gain"]["low"] for name, figures in report.figures.items()}
    report.kept = gains["documents"] > 0 and gains["general"] > _FORGOTTEN
    write_whole(
        work / "adapted.json", json.dumps(asdict(report), indent=1, ensure_ascii=False) + "\n", follow_link=False
    )
    if report.kept:
        shutil.copytree(candidate, out)
        shutil.copyfile(work / "adapted.json", out / "adapted.json")
    return report


def _check_work(work: Path, run: str) -> None:
    """Record in the work folder the run that it belongs to. If it belongs to another run, raise `InputError`."""
    file = work / "run.txt"
    if file.is_file() and file.read_text("utf-8") != run:
        raise InputError(
            f"{work} is of a run with other documents or options", hint="name another --out, or delete that folder"
        )
    work.mkdir(parents=True, exist_ok=True)
    write_whole(file, run, follow_link=False)


def further_trained(
    parts: Mapping[str, list[Example]],
    general: Sequence[Example],
    work: Path,
    out: Path,
    training: DefaultTraining,
    options: Adapting,
    detector: Path,
    *,
    stop: Callable[[], bool] = lambda: False,
    progress: Callable[[str], None] = lambda line: None,
) -> Path:
    """Train the detector in the folder `detector` further, write it to `out`, and return `out`.

    Args:
        parts: The examples about the documents. "train" trains the encoder, and "valid" fits the regressions.
        general: General examples on which the regressions are fitted, too.
        work: The folder for the checkpoint and the encoder.
        out: The folder to write.
        training: How to train.
        options: How many general examples to train on.
        detector: The folder of the detector to begin with.
        stop: A function that is called after every step. If it returns true, training saves a checkpoint and raises
            `TrainingStopped`.
        progress: A function that is called with lines of text that report progress.
    """
    classifier = work / "encoder"
    validation = {"documents": parts["valid"], "general": list(general)}
    if not (classifier / "detector.json").is_file():
        beside = general_examples("train")[: round(options.general * len(parts["train"]))]
        head = load_tokens(detector / ENCODER)[2]
        train_tokens(
            load(backbone_of(detector / ENCODER, work / "restored"), dtype="fp32", kinds=READERS),
            {"documents": parts["train"], **({"general": beside} if beside else {})},
            replace(training.encoder(head.settings), evaluate_tokens=training.tokens),
            out=classifier,
            start_from=head,
            validation={"documents": parts["valid"]},
            stop=stop,
            progress=progress,
        )
    return assemble(classifier, validation, out, training, base=detector, progress=progress)


def _counts(parts: Mapping[str, list[Example]]) -> dict[str, Any]:
    return {
        part: {
            "examples": len(examples),
            "documents": len({example.document for example in examples}),
            "wrong": sum(bool(example.gold.hallucination) for example in examples),
        }
        for part, examples in parts.items()
    }


def _statements(found: Statements, parts: Mapping[str, list[Example]]) -> dict[str, Any]:
    """Report a model's statements, and how far a statement alone reveals its label (ROC AUC, 0.5 is best)."""
    if not found.written:
        return {}
    alone = ResponseWords().fit(parts["train"])
    scores = np.array([float(each.hallucination or 0.0) for each in alone.judge([e.case for e in parts["test"]])])
    labels = np.array([bool(e.gold.hallucination) for e in parts["test"]])
    return {
        "written": found.written,
        "kept": len(found.examples),
        "dropped": dict(found.dropped),
        "labels": dict(Counter(dict(example.group)["label"] for example in found.examples)),
        "statement alone": round(float(roc_auc(labels, scores)), 3),
        "usage": None if found.usage is None else asdict(found.usage),
    }


def compared(examples: Sequence[Example], before: Default, after: Default) -> dict[str, Any]:
    """Measure two detectors on the same examples, and the gain in ROC AUC with its 95% interval."""
    cases = [example.case for example in examples]
    labels = np.array([bool(example.gold.hallucination) for example in examples])
    scores = [_scores(detector, cases) for detector in (before, after)]
    documents = [str(example.document) for example in examples]

    def gain(weights: Floats) -> float:
        return float(roc_auc(labels, scores[1], weights) - roc_auc(labels, scores[0], weights))

    low, high = bootstrap(gain, documents)
    kinds = sorted({dict(example.group).get("label", "") for example in examples} - {"", "entailment"})
    figures: dict[str, Any] = {
        "n": len(examples),
        "documents": len(set(documents)),
        "gain": {"value": round(gain(np.ones(len(labels))), 4), "low": round(low, 4), "high": round(high, 4)},
    }
    for name, detector, values in zip(("before", "after"), (before, after), scores, strict=True):
        threshold = thresholds_in_force(detector).response
        figures[name] = {
            "roc_auc": round(float(roc_auc(labels, values)), 4),
            "balanced_accuracy": round(Confusion.of(labels, values >= threshold).balanced_accuracy(), 4),
            **{kind: _of_kind(examples, values, kind) for kind in kinds},
        }
    return figures


def _of_kind(examples: Sequence[Example], scores: Floats, kind: str) -> float | None:
    """Compute the ROC AUC of separating the examples with one label from the supported examples."""
    groups = [dict(example.group).get("label", "") for example in examples]
    chosen = np.array(
        [group == kind or not example.gold.hallucination for group, example in zip(groups, examples, strict=True)]
    )
    try:
        return round(float(roc_auc(np.array([group == kind for group in groups])[chosen], scores[chosen])), 4)
    except UndefinedMetricError:
        return None


def _scores(detector: Default, cases: Sequence[Case]) -> Floats:
    """Return the score of each response, or 0.5 if the response could not be judged."""
    found = [judgement.hallucination for judgement in judge(detector, cases)]
    return np.array([0.5 if score is None else score for score in found])
