"""Find words that the response joins in a way that no source does, by comparing dependency arcs.

An arc joins a word to its head in the parse of a sentence. This follows Goyal and Durrett 2020 (DAE), a baseline of
CH-Wang et al. 2024, §5.2. DAE trains a model to decide whether an arc is entailed. Here, nothing is trained: an arc
between two content words is supported if these words are close to each other in the parse of a source sentence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol

from veridical.records.detector import DetectorContext, DetectorInfo
from veridical.records.judging import not_judged
from veridical.records.spans import Span
from veridical.records.spec import Spec
from veridical.records.types import Case, Evidence, Judgement, Level, Source, Verdict
from veridical.text.quantities import fold, implies, keys
from veridical.text.segment import sentences
from veridical_lab.detectors.spacy_pipeline import identity_of, load_pipeline

_KEPT = 20_000  # parsed sentences kept in memory
_LONGEST = 10_000  # characters of a sentence parsed together

# words that other detectors treat as stop words, but that make an arc
_NOT_STOPPED = {"n't": "not", "n’t": "not", "no": "not", "never": "not", "nor": "not"}
_KEYS = {word: (f"={word}",) for word in ("not", "won")}


class Parser(Protocol):
    """Finds the words of sentences and the head of each word."""

    def parse(self, texts: Sequence[str]) -> list[list[tuple[Span, int]]]:
        """Parse each text into its words, each with the index of its head. The root is its own head."""
        ...

    def identity(self) -> str:
        """Identify the parser: parsers that give the same parses have the same identity."""
        ...


class SpacyParser:
    """The dependency parser of a spaCy pipeline. `pipeline` is a folder, or the name of an installed pipeline."""

    def __init__(self, pipeline: str) -> None:
        self.pipeline = pipeline

    @cached_property
    def _nlp(self) -> Any:
        return load_pipeline(self.pipeline, exclude=("ner", "lemmatizer"), needs=("parser",), what="parser")

    def identity(self) -> str:
        """Return language, name and version of the pipeline."""
        return identity_of(self._nlp)

    def parse(self, texts: Sequence[str]) -> list[list[tuple[Span, int]]]:
        """Parse each text into its words, each with the index of its head. The root is its own head."""
        docs = self._nlp.pipe(texts, batch_size=64)
        return [[(Span(token.idx, token.idx + len(token)), token.head.i) for token in doc] for doc in docs]


@dataclass(frozen=True, slots=True)
class _Sentence:
    """The content words of a sentence: their spans, lookup keys, implied keys, and the content word above each."""

    words: tuple[Span, ...]
    keys: tuple[tuple[str, ...], ...]
    implied: tuple[frozenset[str], ...]
    heads: tuple[int | None, ...]

    @classmethod
    def of(cls, text: str, parsed: Sequence[tuple[Span, int]]) -> _Sentence:
        """Keep the content words of a sentence.

        A word below a function word is joined to the next content word above ("opened [in] 1889").

        If there is none, it is joined to the first content word below the same function word ("big" to "Rome" in "Rome
        is big").
        """
        folded = [_NOT_STOPPED.get(form, form) for form in (fold(span.of(text)) for span, _ in parsed)]
        word_keys = [_KEYS.get(form) or keys(form) if any(map(str.isalnum, form)) else () for form in folded]
        content = [i for i, of_word in enumerate(word_keys) if of_word]
        number = {i: n for n, i in enumerate(content)}
        heads: list[int | None] = []
        first: dict[int, int] = {}  # the first content word below each function word without a content word above
        for i in content:
            seen = {i}
            above = parsed[i][1]
            while above not in number and above not in seen:
                seen.add(above)
                above = parsed[above][1]
            if above == i or above in number:
                heads.append(number.get(above) if above != i else None)
            else:
                heads.append(first.get(above))
                first.setdefault(above, number[i])
        return cls(
            tuple(parsed[i][0] for i in content),
            tuple(word_keys[i] for i in content),
            tuple(frozenset(_KEYS.get(folded[i]) or implies(folded[i])) for i in content),
            tuple(heads),
        )

    def path(self, word: int) -> list[int]:
        """Return a word and all words above it, up to the root."""
        path = [word]
        while (head := self.heads[path[-1]]) is not None and head not in path:
            path.append(head)
        return path

    def distance(self, one: int, other: int) -> int | None:
        """Count the arcs between two words. None if no path joins them."""
        above, below = self.path(one), self.path(other)
        met = next((word for word in above if word in below), None)
        return None if met is None else above.index(met) + below.index(met)


_Places = dict[str, list[tuple[str, int, _Sentence, int]]]  # by key: source, start, sentence, word


class DependencyArcs:
    """Finds arcs between content words that no source sentence has (`dependency_arcs[:PIPELINE]`, a spaCy pipeline).

    An arc of the response scores 1 - 1/d. Here, d is the smallest number of arcs between the same two words in a source
    sentence, so the score is 0 if an arc joins them there, too. If no source sentence has both words, the arc scores 1.
    The score of a word is the mean over its arcs, and the score of the response is the mean over all arcs.

    Args:
        parser: The parser, or the folder or name of a spaCy pipeline.
    """

    info = DetectorInfo((Level.RESPONSE, Level.SPAN))

    def __init__(self, parser: Parser | str = "en_core_web_sm") -> None:
        self.name = "dependency_arcs" if not isinstance(parser, str) else f"dependency_arcs:{parser}"
        self.parser: Parser = SpacyParser(parser) if isinstance(parser, str) else parser
        self._parsed: dict[str, _Sentence] = {}

    @classmethod
    def from_spec(cls, spec: Spec, context: DetectorContext) -> DependencyArcs:
        """Build the detector from `dependency_arcs[:PIPELINE]`."""
        return cls(spec.accept(values=1).value or "en_core_web_sm")

    def fingerprint(self) -> dict[str, str]:
        """Return everything the scores depend on: the parser."""
        return {"parser": self.parser.identity()}

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        """Judge each case. Repeated sentences are parsed only once."""
        texts = dict.fromkeys(text for case in cases for text in (case.response, *(s.text for s in case.sources)))
        cut = {text: list(_pieces(text)) for text in texts}
        if len(self._parsed) > _KEPT:
            self._parsed.clear()
        new = [t for t in dict.fromkeys(p.of(text) for text, ps in cut.items() for p in ps) if t not in self._parsed]
        for text, parsed in zip(new, self.parser.parse(new) if new else [], strict=True):
            self._parsed[text] = _Sentence.of(text, parsed)
        return [self._judge(case, cut) for case in cases]

    def _judge(self, case: Case, cut: dict[str, list[Span]]) -> Judgement:
        response = [(piece.start, self._parsed[piece.of(case.response)]) for piece in cut[case.response]]
        if not any(sentence.words for _, sentence in response):
            return not_judged(case, self.name, "the response has no content words")
        places = self._places(case.sources, cut)
        if not places:
            return not_judged(case, self.name, "the sources have no content words")
        verdicts, arcs = [], []
        for start, sentence in response:
            of_word: list[list[tuple[float, int, Evidence | None]]] = [[] for _ in sentence.words]
            for child, head in enumerate(sentence.heads):
                if head is not None:
                    score, evidence = _arc(sentence.keys[child], sentence.keys[head], places)
                    arcs.append(score)
                    of_word[child].append((score, head, evidence))
                    of_word[head].append((score, child, evidence))
            for word, word_arcs in enumerate(of_word):
                in_sources = any(key in places for key in sentence.keys[word])
                verdicts.append(_verdict(sentence, word, word_arcs, case.response, start, in_sources=in_sources))
        of_response = arcs or [verdict.score for verdict in verdicts]
        return Judgement(case.id, self.name, sum(of_response) / len(of_response), verdicts=tuple(verdicts))

    def _places(self, sources: Sequence[Source], cut: dict[str, list[Span]]) -> _Places:
        """Find the places of each key in the sources. A repeated sentence adds no places."""
        first: dict[int, tuple[str, int, _Sentence]] = {}
        for source in sources:
            for piece in cut[source.text]:
                sentence = self._parsed[piece.of(source.text)]
                first.setdefault(id(sentence), (source.id, piece.start, sentence))
        places: _Places = {}
        for source_id, start, sentence in first.values():
            for word, implied in enumerate(sentence.implied):
                for key in implied:
                    places.setdefault(key, []).append((source_id, start, sentence, word))
        return places


def _verdict(
    sentence: _Sentence,
    word: int,
    arcs: Sequence[tuple[float, int, Evidence | None]],
    response: str,
    start: int,
    *,
    in_sources: bool,
) -> Verdict:
    """Judge a word by its arcs, each given as its score, its other word, and its evidence."""
    span = sentence.words[word].shift(start)
    if not arcs:  # the only content word of its sentence
        return Verdict(span, 0.0 if in_sources else 1.0)
    worst, other, _ = max(arcs, key=lambda arc: arc[0])
    reason = None
    if not in_sources:
        reason = "in no source"
    elif worst > 0:
        reason = f"not joined to “{sentence.words[other].shift(start).of(response)}” in any source sentence"
    backed = tuple(dict.fromkeys(evidence for _, _, evidence in arcs if evidence is not None))
    return Verdict(span, sum(score for score, _, _ in arcs) / len(arcs), evidence=backed, reason=reason)


def _pieces(text: str) -> Iterator[Span]:
    """Yield the sentences of a text, and cut very long ones into parts."""
    for span in sentences(text):
        for start, end in pairwise([*range(span.start, span.end, _LONGEST), span.end]):
            yield Span(start, end)


def _arc(child: Sequence[str], head: Sequence[str], places: _Places) -> tuple[float, Evidence | None]:
    """Score an arc. The evidence is the stretch of a source sentence from one of its two words to the other."""
    best, evidence = 1.0, None
    others: dict[int, list[int]] = {}
    for key in head:
        for _, _, sentence, word in places.get(key, ()):
            others.setdefault(id(sentence), []).append(word)
    for key in child:
        for id_of_source, start, sentence, word in places.get(key, ()):
            for other in others.get(id(sentence), ()):
                distance = sentence.distance(word, other)
                if distance and 1.0 - 1.0 / distance < best:
                    best = 1.0 - 1.0 / distance
                    one, two = sentence.words[word], sentence.words[other]
                    hull = Span(min(one.start, two.start), max(one.end, two.end)).shift(start)
                    evidence = Evidence(id_of_source, hull, 1.0 - best)
                    if best == 0.0:
                        return best, evidence
    return best, evidence
