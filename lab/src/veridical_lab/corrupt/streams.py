"""Make training cases from plain text: realistic sources, and responses with known errors or without errors.

A response consists of one or several sentences of its source, unchanged or paraphrased. Some responses then get errors.
The gold marks exactly the inserted characters, so you can train detectors of tokens, spans and responses on the cases.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice

from veridical.records.errors import InputError
from veridical.records.spans import Span
from veridical.records.types import Case, Example, Judgement, Source
from veridical.text.segment import sentences, words
from veridical_lab.corrupt.error_types import Material, plain_sentences
from veridical_lab.corrupt.gold import grouped
from veridical_lab.corrupt.rewrites import rewritten
from veridical_lab.corrupt.rules import Rules

_PASSAGE = (5, 8)  # the fewest and the most sentences of a passage
_PRONOUNS = frozenset("he she it they his her its their this these that those him them such there".split())  # noqa: SIM905


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How training cases are made from plain text.

    Attributes:
        faithful: The fraction of responses that get no error, from 0 to 1.
        rewrite: The fraction of responses that are rewritten first, from 0 to 1.
        errors: The weights of one, two, three and more errors in a response with errors.
        types: The types of error, names in `ERROR_TYPES`. Default: all types.
        response_sentences: The weights of one, two, three and more sentences in a response.
        source_words: The minimum and maximum number of words of a source. Lengths are log-uniform.
        responses: The number of responses for each source.
        clutter: The fraction of sources that get sentences of other documents, which double the length of the source.
    """

    faithful: float = 0.4
    rewrite: float = 0.5
    errors: Sequence[float] = (0.65, 0.25, 0.1)
    types: Sequence[str] | None = None
    response_sentences: Sequence[float] = (0.5, 0.2, 0.15, 0.1, 0.05)
    source_words: tuple[int, int] = (40, 1500)
    responses: int = 3
    clutter: float = 0.25

    def __post_init__(self) -> None:
        shares = (self.faithful, self.rewrite, self.clutter)
        if not all(0.0 <= share <= 1.0 for share in shares):
            raise InputError(f"the shares are {shares}", hint="faithful, rewrite and clutter are shares from 0 to 1")
        if not 1 <= self.source_words[0] <= self.source_words[1] or self.responses < 1:
            problem = f"sources of {self.source_words} words, {self.responses} responses for each"
            raise InputError(problem, hint="numbers from 1, in order")


def training_examples(
    texts: Iterable[str], recipe: Recipe | None = None, *, name: str = "text", seed: int = 0, block: int = 100
) -> Iterator[Example]:
    """Make labelled cases from plain texts, as a stream. The same texts and seed give the same cases.

    The gold marks each error. `Verdict.label` is its type, and `correction` the original text. Without an error, the
    gold has the score 0. The groups are `corrupted`, `rewritten`, `response` (`copied`) and `kind`.

    Args:
        texts: The documents, which are read `block` at a time. New names, clauses and sentences are taken from the same
            block.
        recipe: How to make the cases. Default: the default recipe.
        name: The prefix of document ids ("wikipedia" for "wikipedia/17"). Split the cases by `document`.
        block: The number of documents in memory at once, at least 2.
    """
    recipe = recipe or Recipe()
    remaining = iter(texts)
    first = 0
    while some := list(islice(remaining, block)):
        material = Material.of(some)
        rules = Rules((), types=recipe.types, errors=recipe.errors, material=material)
        made = (excerpts(text, f"{name}/{i}", recipe, seed=seed) for i, text in enumerate(some, first))
        faithful = chain.from_iterable(made)
        first += block
        surrounded = cluttered(faithful, material.sentences, share=recipe.clutter, seed=seed)
        for example in rewritten(surrounded, share=recipe.rewrite, seed=seed):
            draw = random.Random(f"{seed}\0training\0{example.case.id}")
            changed = rules.change(example, draw) if draw.random() >= recipe.faithful else "faithful"
            if isinstance(changed, str):
                changed = grouped(example, corrupted="no")
            yield changed


def excerpts(text: str, document: str, recipe: Recipe, *, seed: int = 0) -> Iterator[Example]:
    """Make faithful cases from one document. Passages are the sources, and sentences of a passage are the response.

    A sentence that begins with a pronoun is only used together with the sentence before.
    """
    draw = random.Random(f"{seed}\0excerpts\0{document}\0{text[:1000]}")
    low, high = recipe.source_words
    spans = sentences(text)
    while spans:
        wanted = low * (high / low) ** draw.random()
        count = size = 0
        while count < len(spans) and size < wanted:
            size += len(words(spans[count].of(text)))
            count += 1
        if size < low:
            return
        passage = Span(spans[0].start, spans[count - 1].end)
        inside = [span.shift(-passage.start) for span in spans[:count]]
        spans = spans[count:]
        source = passage.of(text)
        for nth in range(recipe.responses):
            (size_of_response,) = draw.choices(range(1, len(recipe.response_sentences) + 1), recipe.response_sentences)
            response = excerpt(source, inside, size_of_response, draw)
            if response:
                yield _copied(f"{document}/{passage.start}/{nth}", response, source, document)


def whole_passages(text: str, document: str, count: int) -> Iterator[Example]:
    """Make faithful cases from one document, in which source and response are the same passage.

    The passages are the first ones of five to eight sentences, at most `count`, each within a paragraph (one line). The
    group `response` is `copied`. The ids of cases are `DOCUMENT/START/whole`.
    """
    begin = 0
    for line in text.splitlines(keepends=True):
        spans = [span.shift(begin) for span in sentences(line)]
        begin += len(line)
        while len(spans) >= _PASSAGE[0] and count > 0:
            # leave enough sentences for another passage
            size = min(_PASSAGE[1], len(spans) if len(spans) <= _PASSAGE[1] else len(spans) - _PASSAGE[0])
            passage = Span(spans[0].start, spans[size - 1].end)
            spans, count = spans[size:], count - 1
            yield _copied(f"{document}/{passage.start}/whole", passage.of(text), passage.of(text), document)


def _copied(id: str, response: str, source: str, document: str) -> Example:
    case = Case(id, response, (Source("text", source),))
    return Example(case, Judgement(id, "copied", 0.0), document, (("response", "copied"),))


def excerpt(text: str, spans: Sequence[Span], count: int, draw: random.Random) -> str:
    """Draw about `count` of the sentences at `spans` in `text`, and join them in order.

    Return "" if none of the sentences makes sense by itself.
    """
    usable = [i for i, span in enumerate(spans) if plain_sentences(span.of(text))]
    refers = [span.of(text).split(None, 1)[0].lower() in _PRONOUNS for span in spans]
    chosen: set[int] = set()
    for i in draw.sample(usable, len(usable)):
        first = i
        while refers[first] and first - 1 in usable:
            first -= 1
        with_it = chosen.union(range(first, i + 1))
        if not refers[first] and len(with_it) <= max(count, 2 if first < i and not chosen else 0):
            chosen = with_it
        if len(chosen) >= count:
            break
    return " ".join(spans[i].of(text) for i in sorted(chosen))


def cluttered(
    examples: Iterable[Example], pool: Sequence[str], *, share: float = 1.0, words_around: int = 0, seed: int = 0
) -> Iterator[Example]:
    """Add sentences of other documents to the sources of some examples, and yield all examples.

    Sentences are added before and after a source until it has twice as many words, and at least `words_around` more.
    A source stays as it is if the response must cover it or if an annotation refers to it. If `pool` is empty, no
    source is changed.

    Args:
        pool: The sentences to draw from. Sentences that the source or response already has are skipped.
        share: The fraction of examples to change, from 0 to 1.
        words_around: Add at least this many words to each source.
        seed: The random seed. A source that several cases of a document share gets the same sentences in all of them.
    """
    if not 0.0 <= share <= 1.0:
        raise InputError(f"the share is {share:g}", hint="from 0 to 1")
    for example in examples:
        gold, case = example.gold, example.case
        pointed = {o.source_id for o in gold.omissions} | {e.source_id for v in gold.verdicts for e in v.evidence}
        sources = []
        for source in case.sources:
            draw = random.Random(f"{seed}\0clutter\0{example.document}\0{source.text[:500]}")
            if draw.random() >= share or source.must_cover or source.id in pointed or not pool:
                sources.append(source)
                continue
            wanted = max(words_around, len(words(source.text)))
            added: list[str] = []
            while wanted > 0:
                sentence = draw.choice(pool)
                wanted -= max(1, len(words(sentence)))
                if sentence not in source.text and sentence not in case.response:
                    added.append(sentence)
            before = draw.randint(0, len(added))
            parts = (" ".join(added[:before]), source.text, " ".join(added[before:]))
            sources.append(replace(source, text="\n".join(filter(None, parts))))
        yield replace(example, case=replace(case, sources=tuple(sources)))
