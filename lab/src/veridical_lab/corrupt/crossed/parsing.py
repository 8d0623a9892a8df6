"""Parse plain texts once, and store the parses in a folder that can be read without spaCy.

The folder has one file of JSON Lines for each data set and part of the split, with one line per document. If a run is
interrupted, start it again and it continues.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any

from veridical.datasets import load_reader, read
from veridical.datasets.split import split_by_document
from veridical.io.files import read_text, write_whole
from veridical.io.jsonl import Line
from veridical.records.errors import DataError, InputError, OutputError
from veridical.text.segment import sentences, words
from veridical_lab.corrupt.rules import text_examples
from veridical_lab.datasets.appending import append_lines, recover

PARTS = ("train", "valid")
_LONGEST = 60  # maximum number of words of a sentence that is parsed
_BATCH = 25  # documents between two saves
_PIPELINE = "pipeline.txt"
_NOTES = re.compile(r"(?:\[[0-9]+\](?::[0-9–-]+)?)+")
_SPLIT_OFF = re.compile(r"(?<=\w) (?=(?:'s|'m|'re|'ve|'ll|'d|n't)\b)")


@dataclass(frozen=True, slots=True)
class TextDocument:
    """A text to parse. `id` is SET/NAME, and `part` is the part of the split to which the document belongs."""

    id: str
    part: str
    text: str


@dataclass(frozen=True, slots=True)
class ParsedSentence:
    """A sentence and its parse, with one item for each token and the labels of spaCy's English pipelines.

    Attributes:
        starts: The first character of each token.
        ends: The character after each token.
        heads: The index of each token's head. The root is its own head.
        deps: The dependency labels ("nsubj").
        tags: The parts of speech ("VBD").
        lemmas: The base forms.
        kinds: The entity type of each token in a name or value ("PERSON"). "" for other tokens.
    """

    text: str
    starts: Sequence[int]
    ends: Sequence[int]
    heads: Sequence[int]
    deps: Sequence[str]
    tags: Sequence[str]
    lemmas: Sequence[str]
    kinds: Sequence[str]


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed document. Its paragraphs are lists of sentences. A sentence that was not parsed has no tokens."""

    id: str
    paragraphs: Sequence[Sequence[ParsedSentence]]


def documents_of(spec: str) -> Iterator[TextDocument]:
    """Read the training and validation documents of a data set, SET:PATH.

    Plain texts are split by document in the same way as for training. Their documents have names such as
    "wikipedia/17", and those of the set `plain` are named after their folder. In a labelled set, each distinct source
    is a document. Such a set must have the splits train and dev.

    Raises:
        InputError: The set has neither plain texts nor these splits.
    """
    name, _, path = spec.partition(":")
    reader: Any = load_reader(name)
    if hasattr(reader, "read_texts"):
        folder = Path(path).name if name == "plain" else name
        examples = list(text_examples(reader.read_texts(Path(path)), folder))
        parts = {e.case.id: part for part, members in split_by_document(examples).items() for e in members}
        for example in examples:
            if parts[example.case.id] in PARTS:
                yield TextDocument(example.case.id, parts[example.case.id], example.case.sources[0].text)
        return
    if not {"train", "dev"} <= set(reader.INFO.splits):
        raise InputError(f"{name!r} has neither plain texts nor the splits train and dev", hint="wikipedia, plain …")
    for part, split in zip(PARTS, ("train", "dev"), strict=True):
        texts: dict[str, dict[str, None]] = {}
        for example in read(spec, split):
            of_document = texts.setdefault(f"{name}/{example.document or example.case.id}", {})
            of_document.update(dict.fromkeys(source.text for source in example.case.sources))
        for id, sources in texts.items():
            yield TextDocument(id, part, "\n".join(sources))


def parse(
    documents: Iterable[TextDocument],
    pipeline: Any,
    folder: Path,
    *,
    most: int | None = None,
    progress: Callable[[int], None] = lambda count: None,
) -> int:
    """Parse documents into a folder, and return how many parsed sentences the folder has.

    Documents that are already in the folder are not parsed again.

    Args:
        documents: The documents, which are read as a stream.
        pipeline: A loaded spaCy pipeline for English with tagger, parser, lemmatizer and entity recogniser.
        folder: Where to keep the parses. The folder is created if it does not exist.
        most: Stop at this many parsed sentences.
        progress: A function that receives the number of parsed sentences after each batch.

    Raises:
        InputError: The folder has parses by another pipeline.
        OutputError: The folder cannot be written.
    """
    name = "spacy:{lang}_{name}-{version}".format_map(pipeline.meta)
    mark = folder / _PIPELINE
    if mark.exists() and read_text(mark).strip() != name:
        raise InputError(f"{folder} has parses by {read_text(mark).strip()}, not {name}", hint="name another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make {folder}: {error.strerror or error}", hint="name another folder") from None
    write_whole(mark, f"{name}\n", follow_link=False)
    done, count = set(), 0
    for file in _files(folder, PARTS):
        for id, size in recover(file, _id_and_size, follow_link=False):
            done.add(id)
            count += size
    remaining = (document for document in documents if document.id not in done)
    while (most is None or count < most) and (batch := list(islice(remaining, _BATCH))):
        paragraphs = [_sentences(document.text) for document in batch]
        short = [s for document in paragraphs for p in document for s in p if len(words(s)) <= _LONGEST]
        parses = iter(pipeline.pipe(short, batch_size=128))
        lines: dict[Path, list[str]] = {}
        for document, its_paragraphs in zip(batch, paragraphs, strict=True):
            rows = [[_row(s, parses if len(words(s)) <= _LONGEST else None) for s in p] for p in its_paragraphs]
            size = sum(len(row) > 1 for paragraph in rows for row in paragraph)
            file = folder / f"{document.id.partition('/')[0]}.{document.part}.jsonl"
            record = {"id": document.id, "sentences": size, "paragraphs": rows}
            lines.setdefault(file, []).append(json.dumps(record, ensure_ascii=False, separators=(",", ":")))
            count += size
        for file, of_file in lines.items():
            append_lines(file, of_file, follow_link=False)
        progress(count)
    return count


def _files(folder: Path, parts: Sequence[str]) -> list[Path]:
    return sorted(file for part in parts for file in folder.glob(f"*.{part}.jsonl"))


def _id_and_size(line: Line) -> tuple[str, int]:
    try:
        record = json.loads(line.text)
        return str(record["id"]), int(record["sentences"])
    except (ValueError, KeyError, TypeError):
        raise line.error("not a parsed document", hint="delete the file to parse its texts again") from None


def _sentences(text: str) -> list[list[str]]:
    """Split a text into paragraphs (lines) and these into sentences, without footnote marks and extra white space."""
    paragraphs = (_SPLIT_OFF.sub("", " ".join(_NOTES.sub("", line).split())) for line in text.splitlines())
    return [[span.of(paragraph) for span in sentences(paragraph)] for paragraph in paragraphs if paragraph]


def _row(sentence: str, parses: Iterator[Any] | None) -> list[Any]:
    """Make the row to store for a sentence: the text and, if the sentence was parsed, the columns of the parse."""
    if parses is None:
        return [sentence]
    tokens = list(next(parses))
    lemmas = [token.lemma_ or token.lower_ for token in tokens]
    columns = ([t.dep_ or "dep" for t in tokens], [t.tag_ or "X" for t in tokens], [t.ent_type_ or "-" for t in tokens])
    return [
        sentence,
        [token.idx for token in tokens],
        [len(token) for token in tokens],
        [token.head.i for token in tokens],
        *(" ".join(column) for column in columns),
        lemmas,
    ]


def _sentence(row: Sequence[Any]) -> ParsedSentence:
    if len(row) == 1:
        return ParsedSentence(row[0], (), (), (), (), (), (), ())
    text, starts, sizes, heads, deps, tags, kinds, lemmas = row
    ends = [start + size for start, size in zip(starts, sizes, strict=True)]
    entities = ["" if kind == "-" else kind for kind in kinds.split(" ")]
    return ParsedSentence(text, starts, ends, heads, deps.split(" "), tags.split(" "), lemmas, entities)


def read_parsed(folder: Path, part: str = "train", *, seed: int = 0) -> Iterator[Document]:
    """Read the parsed documents of one part ("train", "valid") in a folder made by `parse`.

    The seed determines their order. The first documents are a random sample.

    Raises:
        InputError: There is no such part, or the folder has no parsed documents of it.
        DataError: A file is damaged.
    """
    if part not in PARTS:
        raise InputError(f"there is no part {part!r}", hint="train or valid")
    with ExitStack() as stack:
        files: list[IO[bytes]] = [stack.enter_context(file.open("rb")) for file in _files(folder, (part,))]
        places: list[tuple[IO[bytes], int]] = []
        for file in files:
            at = 0
            for line in file:
                if line.endswith(b"\n"):  # the last line may still be being written
                    places.append((file, at))
                at += len(line)
        if not places:
            raise InputError(f"{folder} has no parsed documents of the part {part!r}", hint="veridical data parse")
        random.Random(f"{seed}\0parsed").shuffle(places)
        for file, at in places:
            file.seek(at)
            try:
                record = json.loads(file.readline())
                paragraphs = [[_sentence(row) for row in paragraph] for paragraph in record["paragraphs"]]
                yield Document(str(record["id"]), paragraphs)
            except (ValueError, KeyError, TypeError) as error:
                raise DataError(f"not a parsed document: {error!r}", path=Path(file.name)) from None
