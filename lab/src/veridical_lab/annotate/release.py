"""Release a data set: split agreed examples by document, describe them, and write them with the hashes of the files."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from secrets import token_hex

from veridical.datasets.split import content_hash, document_of, split_by_document
from veridical.io.serialization import encode
from veridical.records.errors import InputError, OutputError
from veridical.records.types import GOLD_THRESHOLD, Example
from veridical.text.segment import words
from veridical_lab.annotate.consensus import Agreement, agreement
from veridical_lab.annotate.items import is_item, says_hallucinated
from veridical_lab.detectors.features.tagger import Tagger, load_tagger


@dataclass(frozen=True, slots=True)
class PartStatistics:
    """How many examples, documents and hallucinated examples one part of the split has."""

    examples: int
    documents: int
    hallucinated: int
    hash: str


@dataclass(frozen=True, slots=True)
class TagCount:
    """How many places have a tag, and how many of these places are hallucinated (Liu et al. 2022, Fig. 4)."""

    tag: str
    places: int
    hallucinated: int


@dataclass(frozen=True, slots=True)
class TypeCount:
    """How many places have a type of change or error, how many of them are hallucinated, and an example.

    See Liu et al. 2022, Fig. 3.
    """

    type: str
    places: int
    hallucinated: int
    replaced: str
    original: str


@dataclass(frozen=True, slots=True)
class Release:
    """A data set with its description.

    Attributes:
        name: The name of the data set.
        licence: The licence of the data set.
        parts: The examples of each part of the split.
        statistics: The statistics of each part.
        parts_of_speech: How many places have each part of speech.
        entities: How many places contain each type of named entity.
        types: How many places have each type of change or error, where the type is known.
        agreement: How closely annotators agree. None if the data do not have their labels.
        seed: The random seed of the split.
        text_licence: The licence of the texts, if it differs from `licence`.
    """

    name: str
    licence: str
    parts: Mapping[str, tuple[Example, ...]]
    statistics: Mapping[str, PartStatistics]
    parts_of_speech: tuple[TagCount, ...]
    entities: tuple[TagCount, ...]
    types: tuple[TypeCount, ...]
    agreement: Agreement | None
    seed: int
    text_licence: str | None = None


def describe_release(
    examples: Sequence[Example],
    name: str,
    licence: str,
    *,
    seed: int = 0,
    text_licence: str | None = None,
) -> Release:
    """Split agreed examples by document, and describe them.

    Args:
        examples: Examples whose gold is final (`consensus.agree`, `consensus.reconcile_spans`).
        name: The name of the data set.
        licence: The licence of the data set, such as CC-BY-SA-4.0.
        seed: The random seed of the split.
        text_licence: The licence of the texts, if it differs from `licence`.

    Raises:
        InputError: There are no examples, no name or no licence, two examples share an id, or an example has no final
            label.
    """
    if not name.strip() or not licence.strip():
        raise InputError("a release needs a name and a licence", hint="such as --licence CC-BY-SA-4.0")
    if not examples:
        raise InputError("there is nothing to release", hint="give examples on which annotators agree")
    ids = Counter(example.case.id for example in examples)
    if twice := [id for id, n in ids.items() if n > 1]:
        raise InputError(
            f"{len(twice)} ids occur more than once, such as {twice[0]!r}", hint="decide them first: agree"
        )
    if unknown := [e.case.id for e in examples if says_hallucinated(e.gold) is None]:
        raise InputError(
            f"{len(unknown)} examples have no label, such as {unknown[0]!r}", hint="decide them first: agree"
        )
    parts = {part: tuple(of) for part, of in split_by_document(examples, seed=seed).items()}
    tags = _tags(examples, load_tagger("rules"))
    return Release(
        name,
        licence,
        parts,
        {part: _statistics(of) for part, of in parts.items()},
        _counts((pos, wrong) for pos, _, wrong in tags),
        _counts((entity, wrong) for _, entity, wrong in tags),
        _types(examples),
        agreement(examples) if any(len(example.annotations) > 1 for example in examples) else None,
        seed,
        text_licence,
    )


def _statistics(examples: Sequence[Example]) -> PartStatistics:
    return PartStatistics(
        len(examples),
        len({document_of(example) for example in examples}),
        sum(bool(says_hallucinated(example.gold)) for example in examples),
        content_hash(examples),
    )


def _tags(examples: Sequence[Example], tagger: Tagger) -> list[tuple[str, str, bool]]:
    """Return part of speech, entity type and label of each place.

    The tags come from the first word with an entity type. If no word has one, they come from the first word.
    """
    places = [(example, verdict) for example in examples for verdict in example.gold.verdicts]
    texts = [example.case.response for example, _ in places]
    spans = [[w.shift(v.span.start) for w in words(v.span.of(e.case.response))] for e, v in places]
    tags = []
    for of_place, (_, verdict) in zip(tagger.tag(texts, spans), places, strict=True):
        named = next((tag for tag in of_place if tag[1] != "none"), None)
        pos, entity = named or next(iter(of_place), ("X", "none"))
        tags.append((pos, entity, verdict.score >= GOLD_THRESHOLD))
    return tags


def _counts(tags: Iterable[tuple[str, bool]]) -> tuple[TagCount, ...]:
    total: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    for tag, hallucinated in tags:
        total[tag] += 1
        wrong[tag] += hallucinated
    return tuple(TagCount(tag, n, wrong[tag]) for tag, n in total.most_common())


def _types(examples: Sequence[Example]) -> tuple[TypeCount, ...]:
    """Count places by the label of their verdict, and show the first hallucinated place of each label, if any."""
    total: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    shown: dict[str, tuple[bool, str, str]] = {}
    for example in examples:
        for verdict in example.gold.verdicts:
            if verdict.label is None:
                continue
            hallucinated = verdict.score >= GOLD_THRESHOLD
            total[verdict.label] += 1
            wrong[verdict.label] += hallucinated
            if verdict.label not in shown or (hallucinated and not shown[verdict.label][0]):
                text = verdict.span.of(example.case.response)
                shown[verdict.label] = (hallucinated, text, verdict.correction or "")
    return tuple(TypeCount(name, n, wrong[name], *shown[name][1:]) for name, n in total.most_common())


def write_release(release: Release, folder: Path, card: str, *, annotators: bool = False) -> dict[str, str]:
    """Write the parts, `README.md` and `release.json` to a new folder, and return the hashes of the files.

    If something fails, nothing is written.

    Args:
        release: The data set to write.
        folder: The folder to write, which must not exist or must be empty.
        card: The text of `README.md` (`veridical_lab.report.annotation.release_card`).
        annotators: Whether to also write the labels of each annotator, not only the decision.

    Raises:
        OutputError: The folder is not empty, or cannot be written.
    """
    part = folder.with_name(f".{folder.name}.{token_hex(6)}.part")
    try:
        if folder.exists() and any(folder.iterdir()):
            raise OutputError(f"{folder} is not empty", hint="name a new folder: a release is never overwritten")
        part.mkdir(parents=True)
        hashes = {}
        for name, examples in release.parts.items():
            written = [e if annotators else replace(e, annotations=()) for e in examples]
            data = "".join(encode(example) + "\n" for example in written).encode()
            (part / f"{name}.jsonl").write_bytes(data)
            hashes[f"{name}.jsonl"] = hashlib.sha256(data).hexdigest()
        about = {
            "name": release.name,
            "licence": release.licence,
            "text_licence": release.text_licence,
            "seed": release.seed,
            "unit": "place" if all(map(is_item, next((e for e in release.parts.values() if e), ()))) else "response",
            "parts": {name: asdict(statistics) for name, statistics in release.statistics.items()},
            "agreement": None if release.agreement is None else asdict(release.agreement),
            "sha256": hashes,
        }
        (part / "release.json").write_text(json.dumps(about, indent=1, ensure_ascii=False) + "\n", "utf-8")
        files = "".join(f"| `{name}` | `{digest}` |\n" for name, digest in hashes.items())
        (part / "README.md").write_text(f"{card}\n## Files\n\n| file | SHA-256 |\n|---|---|\n{files}", "utf-8")
        if folder.exists():
            folder.rmdir()
        part.replace(folder)
    except OSError as error:
        raise OutputError(f"cannot write {folder}: {error.strerror or error}", hint="choose another folder") from None
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return hashes
