"""Labelled examples whose errors the features can see, and detectors trained on them in a moment."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from veridical.records.types import Case, Example, Judgement, Source, Span, Verdict
from veridical.text.segment import words
from veridical_lab.detectors.features.extraction import FeatureSettings
from veridical_lab.training.features import FeatureOptions, Inputs, train_features

_FACTS = [
    ("Marta Kowalska", "won the race in Oslo", "1998", "lost the race in Madrid"),
    ("The committee", "met near the river on Monday", "2011", "slept near the desert on Friday"),
    ("Anna Berg", "led a study of 1,250 tonnes of mud", "2003", "painted a portrait of 90 horses"),
    ("Paris", "opened a new bridge", "1889", "closed an old tunnel"),
]


def examples(count: int = 48, *, sources: bool = True) -> list[Example]:
    """Cases in which every second response is wrong: its words after the subject are in no source."""
    made = []
    for i in range(count):
        who, what, year, other = _FACTS[i % len(_FACTS)]
        wrong = (i // len(_FACTS)) % 2 == 1
        response = f"{who} {other if wrong else what} in {year}."
        case = Case(str(i), response, (Source("a", f"In {year}, {who} {what}. It was reported."),) if sources else ())
        start = response.index(other) if wrong else 0
        spans = [Span(start + s.start, start + s.end) for s in words(other)] if wrong else []
        gold = Judgement(case.id, "human:a", float(wrong), verdicts=tuple(Verdict(span, 1.0) for span in spans))
        made.append(Example(case, gold, document=f"d{i}"))
    return made


def contradicted(count: int = 48) -> list[Example]:
    """`examples`, of which the group "label" says whether what is wrong is contradicted: of two of the four facts."""
    made = examples(count)
    labels = ["contradiction" if i % len(_FACTS) < 2 else "neutral" for i in range(count)]
    return [
        replace(e, group=(("label", label if e.gold.verdicts else "entailment"),))
        for e, label in zip(made, labels, strict=True)
    ]


def phrases(count: int = 120) -> list[Example]:
    """Cases as HaDes has them: no source, one judged phrase, hallucinated where it is a number."""
    made = []
    for i in range(count):
        wrong = i % 3 == 0
        phrase = f"{1900 + i}" if wrong else "the old bridge"
        response = f"the town near the river was known for {phrase} , as the story of the king said ."
        start = response.index(phrase)
        span = Span(start, start + len(phrase))
        verdicts = (Verdict(span, 1.0),) if wrong else ()
        gold = Judgement(str(i), "human:a", float(wrong), verdicts=verdicts, judged=(span,))
        made.append(Example(Case(str(i), response), gold, document=f"d{i}"))
    return made


def trained(
    folder: Path, data: Sequence[Example] | None = None, inputs: Inputs | None = None, **settings: object
) -> Path:
    """A detector trained on `data` (default: `examples()`), in `folder`."""
    features = FeatureSettings(**settings)  # type: ignore[arg-type]
    train_features(data or examples(), FeatureOptions(features=features), inputs, out=folder)
    return folder


def by_name(names: Sequence[str], row: np.ndarray) -> dict[str, float]:
    """The features of one row by name."""
    return dict(zip(names, row.tolist(), strict=True))
