"""Train the part of the default detector that judges languages other than English.

This part is a separate default detector. Its multilingual encoder has two tasks. As a reader, the encoder is trained
like the English one, on data in all languages. As a sentence encoder, it learns by contrastive learning (van den Oord
et al. 2018) that a question is more similar to the sentence with the answer than to other sentences, of the same
passage or of other passages. The training loss is the sum of the losses of both tasks.
"""

from __future__ import annotations

import json
import math
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from veridical.datasets import read
from veridical.datasets.split import split_by_document
from veridical.detectors.default.detector import OTHER_LANGUAGES, Default
from veridical.detectors.default.fitted import LOCATED
from veridical.detectors.default.localization import TEMPERATURE, AnswerCurve, location_of, windows_of
from veridical.detectors.default.rules import COPIED, score
from veridical.inference.artifact import DETECTOR
from veridical.inference.fast_tokenizer import TOKENIZER
from veridical.inference.local_model import LocalModel
from veridical.inference.pair_runner import PairRunner
from veridical.inference.sentence_encoder import PASSAGE, QUERY, SentenceEncoder
from veridical.io.files import write_whole
from veridical.models.load import load
from veridical.models.torch_engine import TorchEngine
from veridical.records.errors import InputError
from veridical.records.types import Example, Level
from veridical.text.languages import LANGUAGES
from veridical_lab.models.padding import rectangle
from veridical_lab.training.default import DefaultTraining, assemble, train_encoder
from veridical_lab.training.default_data import Examples, part_of, some_of_each
from veridical_lab.training.loop import bf16_products

if TYPE_CHECKING:
    import torch

_SHARE = 0.2  # the fraction of the data that is drawn for a pass, besides all texts written in other languages
_SHARE_AGAIN = 0.06  # the same fraction for an encoder that is trained further
_SHORT_SOURCES, _LONG_SOURCES = 600, 1500  # maximum number of characters in all sources of an example
_STATEMENTS = ("written_", "pawsx_")
"""The regressions and the threshold are fitted only on sets with these prefixes in languages other than English.

Correct paraphrases get higher scores there than in English, and other sets contain few of them.
"""
_EVERY = 4  # steps between two steps with questions
_QUESTIONS = 8  # questions in such a step, all in one language
_OTHER_PASSAGES = 0.3  # weight of the loss that compares with windows of other passages
_NEGATIVES = 4  # windows of the same passage without the answer
_PER_LANGUAGE = 60  # validation questions per language; ten times as many in English


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguagesTraining:
    """Options for training the detector for other languages.

    Attributes:
        reader: The options for training the reader.
        english: How many times as often English questions are drawn as questions in each other language.
        least: The minimum number of occurrences in passages and questions for a piece of the vocabulary to be kept.
        words: Words of further languages. The pieces of these words are kept in the vocabulary, too.
    """

    reader: DefaultTraining = field(
        default_factory=lambda: DefaultTraining(
            tokens=3_600_000, rate=1e-4, cooldown=0.35, evaluate_tokens=1_500_000, curve=24
        )
    )
    english: float = 5.0
    least: int = 20
    words: tuple[str, ...] = ()


def train_languages(
    model: Path,
    data: Path,
    detector: Path,
    out: Path,
    options: LanguagesTraining | None = None,
    *,
    parsed: Path | None = None,
    stop: Callable[[], bool] = lambda: False,
    progress: Callable[[str], None] = lambda line: None,
) -> Path:
    """Train the detector for other languages, and write a copy of a default detector with it.

    Args:
        model: The Hugging Face folder of a pretrained multilingual sentence encoder, such as multilingual-e5-small. To
            train further, pass the encoder of an earlier run (`languages/encoder` of a detector).
        data: The folder with the public data sets.
        detector: The folder of the default detector.
        out: The folder to write to. Checkpoints are kept in its `languages/stages/`.
        options: How to train.
        parsed: As in `training.default.train_default`.
        stop: Called after every step. If it returns true, a checkpoint is saved and `TrainingStopped` raised.
        progress: Called with lines of text that report progress.

    Raises:
        InputError: A data set is missing or has too few questions, or the tokenizer is not a Unigram model.
        MissingExtraError: torch, onnx or scikit-learn is not installed.
    """
    options = options or LanguagesTraining()
    parts = split_by_document(_questions(data))
    if not all(parts.values()):
        raise InputError("too few questions in the data", hint="give a folder with languages/ or plain/qa_passages/")
    folder = out / OTHER_LANGUAGES
    is_trained = (model / DETECTOR).is_file()
    if not is_trained:
        model = _prepared(model, folder / "stages" / "cut", parts, options, progress)
    seed = options.reader.seed
    validation = some_of_each(part_of(data, "valid", seed=seed, parsed=parsed), options.reader.validation, seed)
    classifier = train_encoder(
        model,
        lambda i: _to_read(
            part_of(
                data, seed=seed + i, share=_SHARE_AGAIN if is_trained else _SHARE, parsed=parsed, progress=progress
            ),
            _LONG_SOURCES if i or is_trained else _SHORT_SOURCES,
        ),
        validation,
        folder,
        options.reader,
        auxiliary_loss=lambda loaded: location_loss(loaded, parts["train"], options),
        stop=stop,
        progress=progress,
    )
    assemble(
        classifier,
        validation,
        folder,
        options.reader,
        fitted_on=lambda name: name.startswith(_STATEMENTS) and len(languages_of([name])) > 1,
        progress=progress,
    )
    if out.resolve() != detector.resolve():
        shutil.copytree(detector, out, dirs_exist_ok=True, ignore=shutil.ignore_patterns(OTHER_LANGUAGES))
    document = json.loads((folder / DETECTOR).read_text("utf-8"))
    _save(folder, {**document, "languages": languages_of(document["training"]["sets"])})
    others = Default(folder)
    for each in (others, Default(out)):
        _fit_location(each, others, parts["valid"], progress)
    return out


def add_other_languages(
    detector: Path, source: Path, data: Path, progress: Callable[[str], None] = lambda line: None
) -> None:
    """Copy the detector for other languages of one default detector into another one.

    With its sentence encoder, the English part of `detector` also compares questions with the occurrences of their
    short answers. The curve for these answers is fitted on English validation questions.

    Args:
        detector: The folder of the default detector that is changed.
        source: The folder of a default detector that has a detector for other languages, such as the packaged one.
        data: The folder with the public data sets.
        progress: Called with a line of text that reports the result.
    """
    folder = detector / OTHER_LANGUAGES
    shutil.copytree(source / OTHER_LANGUAGES, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("stages"))
    for licence in source.glob("LICENSE*"):
        shutil.copy(licence, detector)
    _fit_location(Default(detector), Default(folder), split_by_document(_questions(data))["valid"], progress)


def _fit_location(
    detector: Default, others: Default, examples: Sequence[Example], progress: Callable[[str], None]
) -> None:
    """Fit and save the curve for located short answers, on the questions in the detector's languages."""
    is_english = detector.fitted.languages == ("en",)
    chosen = [e for e in examples if (dict(e.group)["language"] == "en") == is_english]
    curve, figures = fit_located(detector, SentenceEncoder(lambda: others.scorer.runner), chosen)
    document = json.loads((detector.path / DETECTOR).read_text("utf-8"))
    document["validation"][LOCATED] = figures
    _save(detector.path, {**document, LOCATED: asdict(curve)})
    progress(f"short answers in {'English' if is_english else 'other languages'}: {figures}")


def _save(detector: Path, document: Mapping[str, Any]) -> None:
    text = json.dumps(document, indent=1, ensure_ascii=False) + "\n"
    write_whole(detector / DETECTOR, text, follow_link=False)


def _to_read(sets: Examples, longest: int) -> Examples:
    """Choose the examples for training the reader. Their sources have at most `longest` characters in total.

    Short answers are left out, because the place of a short answer says more about its support than its words do.
    """
    return {
        name: [e for e in examples if sum(len(source.text) for source in e.case.sources) <= longest]
        for name, examples in sets.items()
        if not name.startswith("answers_")
    }


def languages_of(sets: Iterable[str]) -> list[str]:
    """Find the languages of sets by the names of the sets, such as "answers_de".

    >>> languages_of(["answers_de", "pawsx_fr", "exchanged_de", "answers_translated", "wice"])
    ['de', 'en', 'fr']
    """
    prefixes = ("answers_", "exchanged_", "pawsx_", "written_")
    return sorted({"en", *(name.rpartition("_")[2] for name in sets if name.startswith(prefixes))} & set(LANGUAGES))


def _prepared(
    model: Path,
    folder: Path,
    parts: Mapping[str, Sequence[Example]],
    options: LanguagesTraining,
    progress: Callable[[str], None],
) -> Path:
    """Write the pretrained model with a smaller vocabulary, unless an earlier run has done so."""
    if not (folder / TOKENIZER).is_file():
        loaded = load(model, kinds=("encoder",), dtype="fp32", device="cpu")
        texts = [text for examples in parts.values() for text in _texts(examples)]
        cut_vocabulary(loaded, texts, folder, least=options.least, words=options.words)
        progress(f"{loaded.model.config.vocab_size} pieces of the vocabulary")
    return folder


def _questions(data: Path) -> list[Example]:
    files = (data / "languages", data / "plain" / "qa_passages" / "tydiqa.goldp.en.train.json.gz")
    return [example for file in files if file.exists() for example in read(f"short_answers:{file}")]


def _texts(examples: Sequence[Example]) -> list[str]:
    return [text for right in examples[::2] for text in (right.case.question or "", right.case.sources[0].text)]


def location_loss(
    model: LocalModel, examples: Sequence[Example], options: LanguagesTraining
) -> Callable[[int], torch.Tensor | None]:
    """Make a function that computes the loss of a step on questions. It returns None for steps without questions.

    In `examples`, each right answer is followed by its rival (a wrong answer), as in the set `short_answers`.
    """
    by_language: dict[str, list[tuple[Example, Example]]] = {}
    for right, wrong in zip(examples[::2], examples[1::2], strict=True):
        by_language.setdefault(dict(right.group)["language"], []).append((right, wrong))
    languages = sorted(by_language)
    shares = [options.english if language == "en" else 1.0 for language in languages]

    def loss(step: int) -> torch.Tensor | None:
        if step % _EVERY:
            return None
        draw = random.Random(f"{options.reader.seed}\0{step}")
        (language,) = draw.choices(languages, shares)
        drawn = draw.sample(by_language[language], min(_QUESTIONS, len(by_language[language])))
        rows = [row for pair in drawn if (row := _row(*pair, draw))]
        with bf16_products(model, wanted=options.reader.bf16):
            return _loss(model, rows) if rows else None

    return loss


@dataclass(frozen=True, slots=True)
class _Row:
    question: str
    passage: str
    right: list[str]
    wrong: list[str]


def _row(right: Example, wrong: Example, draw: random.Random) -> _Row | None:
    """Choose windows of the passage with and without the answer. Return None if either kind is missing."""
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
    """Embed the texts as `SentenceEncoder` does, with gradients."""
    import torch

    windows = SentenceEncoder(lambda: PairRunner(TorchEngine(model))).windows(texts)
    order = sorted(range(len(texts)), key=lambda i: len(windows[i].ids))
    results: dict[int, torch.Tensor] = {}
    for start in range(0, len(order), 24):
        chosen = order[start : start + 24]
        ids, mask = rectangle(model, [windows[i].ids for i in chosen])
        states = model.model(input_ids=ids, attention_mask=mask).last_hidden_state
        sums = (states * mask[..., None]).sum(1)
        results |= dict(zip(chosen, torch.nn.functional.normalize(sums, dim=-1), strict=True))
    return torch.stack([results[i] for i in range(len(texts))])


def cut_vocabulary(
    model: LocalModel, texts: Sequence[str], folder: Path, *, least: int, words: Sequence[str] = ()
) -> None:
    """Remove rare pieces from the vocabulary of a model in place, and write the model with its tokenizer to a folder.

    Special tokens, single characters, pieces that occur at least `least` times in `texts`, and pieces of `words` are
    kept.

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
    network.save_pretrained(folder)
    write_whole(folder / TOKENIZER, json.dumps(source, ensure_ascii=False) + "\n", follow_link=False)
    shutil.copy(Path(model.name) / "tokenizer_config.json", folder)


def _unigram(model: LocalModel) -> dict[str, Any]:
    """Read the tokenizer of a model as JSON. Raises `InputError` if it is not a Unigram model."""
    source: dict[str, Any] = json.loads((Path(model.name) / TOKENIZER).read_text("utf-8"))
    if source["model"]["type"] != "Unigram":
        raise InputError(f"the tokenizer is a {source['model']['type']} model", hint="give an encoder with Unigram")
    return source


def fit_located(
    detector: Default, encoder: SentenceEncoder, examples: Sequence[Example]
) -> tuple[AnswerCurve, dict[str, Any]]:
    """Fit the calibration curve for a detector's short answers. Return the curve and figures such as its ROC AUC.

    The curve is shifted so that the logit with the best balanced accuracy maps to the detector's response threshold.
    In `examples`, each right answer is followed by its rival (a wrong answer).
    """
    from veridical.metrics.ranking import roc_auc
    from veridical.metrics.thresholding import threshold_for_balanced_accuracy

    counts: Counter[str] = Counter()
    chosen = []
    for right, wrong in zip(examples[::2], examples[1::2], strict=True):
        language = dict(right.group)["language"]
        counts[language] += 1
        if counts[language] <= _PER_LANGUAGE * (10 if language == "en" else 1):
            chosen += [right, wrong]
    located = [(each, location_of(encoder, each.case)) for each in chosen]
    found = [(each, location.log_probability) for each, location in located if location is not None]
    scored = score(detector.scorer, [each.case for each, _ in found])
    logits = [float(each.parts.max()) if each.in_place and not each.problem else COPIED for each in scored]
    kept = [(logit, *pair) for logit, pair in zip(logits, found, strict=True) if logit > COPIED]
    rows = np.array([(logit, location) for logit, _, location in kept])
    labels = np.array([dict(each.group)["version"] == "wrong" for _, each, _ in kept])
    curve = _fitted(rows, labels)
    scores = np.array([curve.probability(*row) for row in rows])
    best, threshold = threshold_for_balanced_accuracy(labels, scores), detector.thresholds[Level.RESPONSE]
    shift = math.log(threshold / (1 - threshold)) - math.log(best / (1 - best))
    figures = {
        name: {"n": len(labels), "roc_auc": round(float(roc_auc(labels, values)), 4)}
        for name, values in (("both", scores), ("reader", rows[:, 0]), ("location", -rows[:, 1]))
    }
    return replace(curve, intercept=curve.intercept + shift), figures


def _fitted(rows: np.ndarray[Any, Any], labels: np.ndarray[Any, Any]) -> AnswerCurve:
    from scipy.optimize import minimize  # type: ignore[import-untyped]

    def loss(parameters: np.ndarray[Any, Any]) -> float:
        logits = rows @ parameters[:2] + parameters[2]
        return float(np.mean(np.logaddexp(0.0, logits) - labels * logits) + 1e-3 * (parameters[:2] ** 2).sum())

    found: Mapping[str, Any] = minimize(
        loss, np.zeros(3), method="L-BFGS-B", bounds=[(0, None), (None, 0), (None, None)]
    )
    return AnswerCurve(*(float(each) for each in found["x"]))
