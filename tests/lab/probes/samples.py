"""Labelled cases in which certain words are hallucinated, so that a probe on any model can learn to find them."""

import numpy as np

from veridical.records.types import Case, Example, Judgement, Source, Verdict
from veridical.text.segment import words

TEXT = "the cat sat on mat and dogs slept in house near lake river summer Paris France race"
WORDS = TEXT.split()
WRONG = frozenset({"dogs", "Paris", "lake"})


def example(i: int, document: int | None = None, *, text: str | None = None) -> Example:
    random = np.random.default_rng(i)
    response = text if text is not None else " ".join(random.choice(WORDS, int(random.integers(2, 7)))) + "."
    marked = tuple(Verdict(span, 1.0) for span in words(response) if span.of(response) in WRONG)
    source = Source("a", "The cat sat on the mat in the house.")
    gold = Judgement(f"c{i}", "human:gold", hallucination=float(bool(marked)), verdicts=marked)
    return Example(Case(f"c{i}", response, (source,)), gold, document=f"d{i if document is None else document}")


def examples(count: int = 60) -> list[Example]:
    return [example(i) for i in range(count)]
