"""Train the sentence encoder of the default detector on questions and the sentences that answer them.

The encoder learns that a question is more similar to the sentence with its answer than to other sentences of the
passage, and to those of other passages (contrastive learning: van den Oord et al. 2018). Then its vocabulary is cut to
the pieces that the languages need, it is exported, and the curves of short answers are fitted.
"""

from __future__ import annotations

import json
import math
import random
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from veridical.datasets import read
from veridical.datasets.split import split_by_document
from veridical.detectors.default.detector import ENGLISH, LOCATED, OTHER, SENTENCE_ENCODER, Default
from veridical.detectors.default.localization import TEMPERATURE, AnswerCurve, location_of, windows_of
from veridical.detectors.default.rules import COPIED, score
from veridical.inference.artifact import BACKBONE, DETECTOR, ONNX
from veridical.inference.fast_tokenizer import TOKENIZER
from veridical.inference.local_model import LocalModel
from veridical.inference.onnx_runtime import OnnxExport, split
from veridical.inference.pair_runner import PairRunner
from veridical.inference.sentence_encoder import PASSAGE, QUERY, SentenceEncoder
from veridical.io.files import write_whole
from veridical.models.load import load
from veridical.models.torch_engine import TorchEngine
from veridical.records.errors import InputError
from veridical.records.types import Example, Level
from veridical_lab.models.onnx import export_onnx

if TYPE_CHECKING:
    import torch

__all__ = ["SentenceEncoderTraining", "add_sentence_encoder", "cut_vocabulary", "fit_curves", "train"]

_OTHER_PASSAGES = 0.3  # weight of the loss that compares with windows of other passages
_NEGATIVES = 4  # windows of the passage that do not have the answer
_STEP = 8  # questions of an optimiser step, in one language
_WARM_UP = 15  # steps
_ROUNDED_FOR = 200  # texts
_PER_LANGUAGE = 60  # validation questions; of English ten times as many


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceEncoderTraining:
    """Settings of the training.

    Attributes:
        questions: The number of questions to train on. 0 leaves the encoder as it is.
        rate: The peak learning rate.
        frozen: The number of layers that do not change, counted from the first. The embeddings never change.
        english: The share of English questions, relative to each other language.
        least: How often a piece of the vocabulary must occur in the passages and questions to be kept.
        seed: The random seed.
    """

    questions: int = 4000
    rate: float = 4e-5
    frozen: int = 6
    english: float = 5.0
    least: int = 20
    seed: int = 0


def add_sentence_encoder(
    data: Path,
    model: Path,
    detector: Path,
    out: Path,
    options: SentenceEncoderTraining | None = None,
    *,
    words: Sequence[str] = (),
    progress: Callable[[str], None] = lambda line: None,
) -> Path:
    """Train a sentence encoder and write a copy of a default detector with it.

    Args:
        data: The folder with the public sets, including `languages/` and `plain/qa_passages/`.
        model: The Hugging Face folder of the pretrained encoder, such as multilingual-e5-small.
        detector: The folder of the default detector.
        out: The folder to write to.
        options: The settings. Default: those of `SentenceEncoderTraining()`.
        words: Words of further languages. Their pieces are kept in the vocabulary.
        progress: Called with a line about each stage.
    """
    options = options or SentenceEncoderTraining()
    parts = split_by_document(_questions(data))
    if not all(parts.values()):
        raise InputError("too few questions in the data", hint="give a folder with languages/ or plain/qa_passages/")
    loaded = load(model, kinds=("encoder",), dtype="fp32", device="cpu")
    _unigram(loaded)  # before training
    train(loaded, parts["train"], options, progress=progress)
    if out.resolve() != detector.resolve():
        shutil.copytree(detector, out, dirs_exist_ok=True, ignore=shutil.ignore_patterns(SENTENCE_ENCODER))
    final = out / SENTENCE_ENCODER
    folder = final.with_suffix(".part")  # an earlier encoder stays until this one is complete
    shutil.rmtree(folder, ignore_errors=True)
    texts = [text for examples in parts.values() for text in _texts(examples)]
    cut_vocabulary(loaded, texts, folder / BACKBONE, least=options.least, words=words)
    progress(f"{loaded.model.config.vocab_size} pieces of the vocabulary")
    exported = _export(loaded, parts["valid"], folder, random.Random(options.seed))
    progress(f"int8: {exported.bytes / 1e6:.1f} MB, lowest cosine similarity {exported.cosine:.3f}")
    (folder / BACKBONE / "model.safetensors").unlink(missing_ok=True)
    split(folder / ONNX, "int8")
    curves, figures = fit_curves(Default(out), SentenceEncoder.of_folder(folder), parts["valid"])
    document = json.loads((out / DETECTOR).read_text("utf-8"))
    document[LOCATED] = {name: asdict(curve) for name, curve in curves.items()}
    document["validation"][LOCATED] = figures
    document["training"][SENTENCE_ENCODER] = asdict(options)
    shutil.rmtree(final, ignore_errors=True)
    folder.rename(final)
    write_whole(out / DETECTOR, json.dumps(document, indent=1, ensure_ascii=False) + "\n", follow_link=False)
    progress(f"ROC AUC {figures}")
    return out


def _questions(data: Path) -> list[Example]:
    files = (data / "languages", data / "plain" / "qa_passages" / "tydiqa.goldp.en.train.json.gz")
    return [example for file in files if file.exists() for example in read(f"short_answers:{file}")]


def _texts(examples: Sequence[Example]) -> list[str]:
    return [text for right in examples[::2] for text in (right.case.question or "", right.case.sources[0].text)]


def train(
    model: LocalModel,
    examples: Sequence[Example],
    options: SentenceEncoderTraining,
    *,
    progress: Callable[[str], None] = lambda line: None,
) -> None:
    """Train the model in place. `examples` has a right answer and its rival by turns, as `short_answers` has them."""
    import torch

    draw = random.Random(options.seed)
    by_language: dict[str, list[tuple[Example, Example]]] = {}
    for right, wrong in zip(examples[::2], examples[1::2], strict=True):
        by_language.setdefault(dict(right.group)["language"], []).append((right, wrong))
    languages = sorted(by_language)
    shares = [options.english if language == "en" else 1.0 for language in languages]
    network = model.model
    for parameter in network.parameters():
        parameter.requires_grad_(False)
    learned = [each for layer in network.encoder.layer[options.frozen :] for each in layer.parameters()]
    for parameter in learned:
        parameter.requires_grad_(True)
    optimiser = torch.optim.AdamW(learned, lr=options.rate, betas=(0.9, 0.98), weight_decay=0.01)
    steps = math.ceil(options.questions / _STEP)
    for step in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = options.rate * min(1.0, (step + 1) / _WARM_UP) * max(0.05, 1.0 - step / steps)
        (language,) = draw.choices(languages, shares)
        drawn = draw.sample(by_language[language], min(_STEP, len(by_language[language])))
        rows = [row for pair in drawn if (row := _row(*pair, draw))]
        if not rows:
            continue
        loss = _loss(model, rows)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(learned, 1.0)
        optimiser.step()
        optimiser.zero_grad()
        if step % 20 == 19:
            progress(f"step {step + 1} of {steps}: loss {loss.item():.3f}")
    for parameter in learned:
        parameter.requires_grad_(False)


@dataclass(frozen=True, slots=True)
class _Row:
    question: str
    passage: str
    right: list[str]
    wrong: list[str]


def _row(right: Example, wrong: Example, draw: random.Random) -> _Row | None:
    """Return the windows with the answer, and some of the passage without it; None if there is none of one kind."""
    answer = right.case.response
    around, windows = windows_of(right.case)
    of_rival, _ = windows_of(wrong.case)
    others = [window for window in dict.fromkeys([*of_rival[:1], *windows]) if answer not in window]
    rest = others[1:]
    others = others[:1] + draw.sample(rest, min(_NEGATIVES - 1, len(rest)))
    if not around or not others:
        return None
    return _Row(right.case.question or "", right.case.sources[0].text, around[:2], others)


def _loss(model: LocalModel, rows: Sequence[_Row]) -> torch.Tensor:
    import torch

    windows = [(row, window) for row in rows for window in (*row.right, *row.wrong)]
    texts = [QUERY + row.question for row in rows] + [PASSAGE + window for _, window in windows]
    embeddings = _embedded(model, texts)
    logits = embeddings[: len(rows)] @ embeddings[len(rows) :].T / TEMPERATURE
    losses = []
    for row, of_row in zip(rows, logits, strict=True):
        own = torch.tensor([other is row for other, _ in windows])
        foreign = torch.tensor([other.passage != row.passage for other, _ in windows])
        right = of_row[own][: len(row.right)]
        both = torch.cat([right, of_row[foreign]])
        losses.append(of_row[own].logsumexp(0) - right.logsumexp(0))
        losses.append(_OTHER_PASSAGES * (both.logsumexp(0) - right.logsumexp(0)))
    return torch.stack(losses).sum() / len(rows)


def _embedded(model: LocalModel, texts: Sequence[str]) -> torch.Tensor:
    """Return the embeddings of the texts, as `SentenceEncoder` computes them, with gradients."""
    import torch

    windows = SentenceEncoder(lambda: PairRunner(TorchEngine(model))).windows(texts)
    order = sorted(range(len(texts)), key=lambda i: len(windows[i].ids))
    results: dict[int, torch.Tensor] = {}
    for start in range(0, len(order), 24):
        chosen = order[start : start + 24]
        width = len(windows[chosen[-1]].ids)
        ids = torch.full((len(chosen), width), model.padding_token)
        mask = torch.zeros((len(chosen), width), dtype=torch.long)
        for row, i in enumerate(chosen):
            tokens = torch.from_numpy(windows[i].ids)
            ids[row, : len(tokens)], mask[row, : len(tokens)] = tokens, 1
        states = model.model(input_ids=ids, attention_mask=mask).last_hidden_state
        sums = (states * mask[..., None]).sum(1)
        results |= dict(zip(chosen, torch.nn.functional.normalize(sums, dim=-1), strict=True))
    return torch.stack([results[i] for i in range(len(texts))])


def cut_vocabulary(
    model: LocalModel, texts: Sequence[str], folder: Path, *, least: int, words: Sequence[str] = ()
) -> None:
    """Cut the vocabulary of a model, in place, and write its tokenizer and configuration to a folder.

    Kept are special tokens, single characters, pieces that occur at least `least` times in `texts`, and pieces of
    `words`.

    Raises:
        InputError: The tokenizer is not a Unigram model.
    """
    import torch
    from tokenizers import Tokenizer

    source = _unigram(model)
    tokenizer = Tokenizer.from_str(json.dumps(source))
    counts: Counter[int] = Counter()
    for encoding in tokenizer.encode_batch(list(texts), add_special_tokens=False):
        counts.update(encoding.ids)
    kept = {i for i, count in counts.items() if count >= least}
    for encoding in tokenizer.encode_batch(list(words), add_special_tokens=False):
        kept.update(encoding.ids)
    pieces = source["model"]["vocab"]
    kept |= {i for i, (piece, _) in enumerate(pieces) if len(piece.removeprefix("▁")) <= 1}
    special = {token["id"]: token for token in source["added_tokens"]}
    order = sorted({*kept, *special})
    number = {old: new for new, old in enumerate(order)}
    source["model"]["vocab"] = [pieces[i] for i in order if i < len(pieces)]
    source["model"]["unk_id"] = number[source["model"]["unk_id"]]
    for i, token in special.items():
        token["id"] = number[i]
    post = source.get("post_processor") or {}
    for token in post.get("special_tokens", {}).values():
        token["ids"] = [number[i] for i in token["ids"]]
    folder.mkdir(parents=True, exist_ok=True)
    network = model.model
    table = network.embeddings.word_embeddings
    weights = table.weight[order].detach().clone()
    network.embeddings.word_embeddings = torch.nn.Embedding(len(weights), weights.shape[1], _weight=weights)
    network.config.vocab_size = len(order)
    network.config.pad_token_id = number.get(network.config.pad_token_id)
    network.config.save_pretrained(folder)
    write_whole(folder / TOKENIZER, json.dumps(source, ensure_ascii=False) + "\n", follow_link=False)
    shutil.copy(Path(model.name) / "tokenizer_config.json", folder)


def _unigram(model: LocalModel) -> dict[str, Any]:
    """Return the tokenizer of a model as JSON, or raise an error if it is not a Unigram model."""
    source: dict[str, Any] = json.loads((Path(model.name) / TOKENIZER).read_text("utf-8"))
    if source["model"]["type"] != "Unigram":
        raise InputError(f"the tokenizer is a {source['model']['type']} model", hint="give an encoder with Unigram")
    return source


def _export(model: LocalModel, examples: Sequence[Example], folder: Path, draw: random.Random) -> OnnxExport:
    """Write the encoder with its new vocabulary in int8, rounded for texts like those that it will read."""
    network = model.model
    network.save_pretrained(folder / BACKBONE)
    cut = load(folder / BACKBONE, kinds=("encoder",), dtype="fp32", device="cpu")
    runner = PairRunner(TorchEngine(cut))
    drawn = draw.sample(list(examples), min(_ROUNDED_FOR // 2, len(examples)))
    texts = [f"{QUERY}{example.case.question}" for example in drawn]
    texts += [PASSAGE + draw.choice(parts) for example in drawn if (parts := windows_of(example.case)[1])]
    windows = SentenceEncoder(lambda: runner).windows(texts)
    return export_onnx(runner, windows[:: max(1, len(windows) // 16)], folder / ONNX, "int8", rounded_for=windows)


def fit_curves(
    detector: Default, encoder: SentenceEncoder, examples: Sequence[Example]
) -> tuple[dict[str, AnswerCurve], dict[str, Any]]:
    """Fit the curves of short answers in English and in other languages, and return them with their ROC AUC.

    The best cut by balanced accuracy gets the detector's threshold for responses. In other languages, only the place
    counts, because the detector's encoder does not read them.
    """
    from veridical.metrics.ranking import roc_auc
    from veridical.metrics.thresholding import threshold_for_balanced_accuracy

    counts: Counter[str] = Counter()
    chosen = []
    for right, wrong in zip(examples[::2], examples[1::2], strict=True):
        language = dict(right.group)["language"]
        if counts[language] < _PER_LANGUAGE * (10 if language == "en" else 1):
            counts[language] += 1
            chosen += [right, wrong]
    threshold = detector.thresholds[Level.RESPONSE]
    curves, figures = {}, {}
    for name in (ENGLISH, OTHER):
        of_language = [each for each in chosen if (dict(each.group)["language"] == "en") == (name == ENGLISH)]
        located = [(each, location_of(encoder, each.case)) for each in of_language]
        kept = [(each, location.log_probability) for each, location in located if location is not None]
        logits = np.zeros(len(kept))
        if name == ENGLISH:
            scored = score(detector.scorer, [each.case for each, _ in kept])
            logits = np.array([each.parts.max() if each.in_place and not each.problem else COPIED for each in scored])
            kept = [pair for pair, logit in zip(kept, logits, strict=True) if logit > COPIED]
        rows = [(float(logit), location) for logit, (_, location) in zip(logits[logits > COPIED], kept, strict=True)]
        labels = [dict(each.group)["version"] == "wrong" for each, _ in kept]
        curves[name] = curve = _fitted(np.array(rows), np.array(labels))
        scores = np.array([curve.probability(*row) for row in rows])
        best = threshold_for_balanced_accuracy(np.array(labels), scores)
        shift = math.log(threshold / (1 - threshold)) - math.log(best / (1 - best))
        curves[name] = replace(curve, intercept=curve.intercept + shift)
        figures[name] = {"n": len(labels), "roc_auc": round(float(roc_auc(labels, scores)), 4)}
    return curves, figures


def _fitted(rows: np.ndarray[Any, Any], labels: np.ndarray[Any, Any]) -> AnswerCurve:
    from scipy.optimize import minimize  # type: ignore[import-untyped]

    def loss(parameters: np.ndarray[Any, Any]) -> float:
        logits = rows @ parameters[:2] + parameters[2]
        return float(np.mean(np.logaddexp(0.0, logits) - labels * logits) + 1e-3 * (parameters[:2] ** 2).sum())

    found: Mapping[str, Any] = minimize(
        loss, np.zeros(3), method="L-BFGS-B", bounds=[(0, None), (None, 0), (None, None)]
    )
    return AnswerCurve(*(float(each) for each in found["x"]))
