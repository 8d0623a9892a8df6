"""Make four labelled examples from two sources and two statements whose words alone do not reveal the labels."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from random import Random

from veridical.records.spans import Span
from veridical.records.types import Case, Example, Judgement, Source, Verdict
from veridical.text.stopwords import STOP_WORDS
from veridical_lab.corrupt.crossed.trees import opened
from veridical_lab.datasets.reading import group

Version = Mapping[int, str]
"""Replacement texts for some sentences, by sentence number in the document."""

_PASSAGE = (3, 8)  # the fewest and the most sentences of a source
_ALONE = 0.3  # the share of sources that consist only of the sentences that decide the labels
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_MARKS = re.compile("[‹›]")
_BROKEN = re.compile(r" [,.;]|,[,.]|\(|\)|  |\.\.$")


@dataclass(frozen=True, slots=True)
class Crossing:
    """Two versions of some sentences of a text, and two statements, each of which is right for one version.

    Attributes:
        kind: The kind of relation.
        form: How the crossing was made, such as the verb.
        versions: The new sentences of the first source and of the second source.
        statements: First the statement that is right for the first source, then the one that is right for the second
            source. The words that are wrong for the other source stand between ‹ and ›.
        touched: The numbers of the sentences that decide whether the statements are right.
        apart: Words that must not occur together in any other sentence of a source.
    """

    kind: str
    form: str
    versions: tuple[Version, Version]
    statements: tuple[str, str]
    touched: tuple[int, ...]
    apart: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Text:
    """The sentences of a document. `breaks` has the numbers of the sentences that begin a paragraph."""

    sentences: Sequence[str]
    breaks: frozenset[int]

    def passage(self, numbers: Iterable[int], version: Version) -> str:
        """Join some sentences to a text, in this version."""
        parts = [(i, version.get(i, self.sentences[i])) for i in numbers]
        return "".join(("\n" if i in self.breaks else " ") + part for i, part in parts if part).strip()


def filled(template: str, parts: Mapping[str, str]) -> str:
    """Replace the capital letters in a template by texts. Sentences begin with a capital letter.

    >>> filled("F, so G. F again.", {"F": "it rained", "G": "Anna left"})
    'It rained, so Anna left. It rained again.'
    """

    def text(match: re.Match[str]) -> str:
        new = parts.get(match[0], match[0])
        return opened(new) if template.endswith(". ", 0, match.start()) else new

    return opened(re.sub(r"\b[A-Z]\b", text, template))


def read_marks(text: str) -> tuple[str, list[Span]]:
    """Remove the marks ‹ and › from a statement, and return the spans that stood between them.

    >>> read_marks("‹Anna› beat ‹Eva›.")
    ('Anna beat Eva.', [Span(start=0, end=4), Span(start=10, end=13)])
    """
    pieces = _MARKS.split(text)
    spans, at = [], 0
    for i, piece in enumerate(pieces):
        if i % 2 and piece:
            spans.append(Span(at, at + len(piece)))
        at += len(piece)
    return "".join(pieces), spans


@lru_cache(maxsize=1024)
def _words(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the distinct words of a text in lower case, and the content words among them."""
    everything = frozenset(_WORD.findall(text.lower()))
    return everything, everything - STOP_WORDS


def is_balanced(sources: Sequence[str], statements: Sequence[str]) -> bool:
    """Check that words do not reveal which statements are right.

    Right and wrong statements must have equally many words that their source lacks, and equally many content words
    among these.

    >>> is_balanced(["A beat B.", "B beat A."], ["A lost to B.", "B lost to A."])
    True
    >>> is_balanced(["All left.", "Some left."], ["All left.", "Some left."])
    False
    """
    for kind in (0, 1):
        said = [_words(text)[kind] for text in statements]
        known = [_words(text)[kind] for text in sources]
        right = len(said[0] - known[0]) + len(said[1] - known[1])
        if right != len(said[1] - known[0]) + len(said[0] - known[1]):
            return False
    return True


def crossings(
    kind: str,
    form: str,
    text: Text,
    versions: Sequence[tuple[Version, Version]],
    statements: Sequence[tuple[str, str]],
    touched: tuple[int, ...],
    draw: Random,
) -> Iterator[Crossing]:
    """Combine a pair of versions with a pair of statements, and yield at most one crossing.

    The combination is drawn from the balanced ones (`is_balanced`). If there are none, nothing is yielded.
    """
    choices = [(pair, said) for pair in versions for said in statements]
    for pair, said in draw.sample(choices, len(choices)):
        sources = [text.passage(touched, version) for version in pair]
        if is_balanced(sources, [_MARKS.sub("", statement) for statement in said]):
            yield Crossing(kind, form, pair, said, touched)
            return


def examples_of(crossing: Crossing, text: Text, id: str, document: str, draw: Random) -> Iterator[Example]:
    """Make the four examples of a crossing: each statement with the source that supports it and with the other source.

    The sources are passages of three to eight sentences, or only the decisive sentences. Statements get a capital
    letter. If words alone would tell right from wrong, or if a statement has stray punctuation, nothing is yielded. The
    ids of the examples begin with `id`.
    """
    plain = [read_marks(opened(marked)) for marked in crossing.statements]
    if any(_BROKEN.search(statement) or statement.count('"') % 2 for statement, _ in plain):
        return
    low, high = min(crossing.touched), max(crossing.touched)
    size = max(draw.randint(*_PASSAGE), high - low + 1)
    first = max(0, draw.randint(high - size + 1, low))
    passage: Sequence[int] = range(first, min(len(text.sentences), first + size))
    others = (i for i in passage if i not in crossing.touched)
    met = crossing.apart and any(crossing.apart <= _words(text.sentences[i])[0] for i in others)
    if met or draw.random() < _ALONE:
        passage = crossing.touched
    sources = [text.passage(passage, version) for version in crossing.versions]
    if not is_balanced(sources, [statement for statement, _ in plain]):
        return
    for number, source in enumerate(sources):
        for said, (statement, spans) in enumerate(plain):
            right, (other, other_spans) = number == said, plain[1 - said]
            paired = len(spans) == len(other_spans)
            corrections = [span.of(other) for span in other_spans] if paired else [None] * len(spans)
            marked = zip(spans, corrections, strict=True)
            verdicts = tuple(Verdict(span, 1.0, crossing.kind, correction=new) for span, new in marked)
            case = Case(f"{id}/{number}{said}", statement, (Source("text", source),))
            gold = Judgement(case.id, "crossed", float(not right), verdicts=() if right else verdicts)
            corrupted = "no" if right else crossing.kind
            groups = group(corrupted=corrupted, form=crossing.form, pair=id, relation=crossing.kind)
            yield Example(case, gold, document, groups)
