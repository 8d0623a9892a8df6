"""Baselines that every detector must beat: length or words of the response alone, a coin, and a constant answer.

No baseline reads the sources, and only the baseline of words has learned anything. In the scores of the others, only
the order (length) or the share above the threshold (coin, majority) means anything.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from veridical.records.detector import DetectorContext, DetectorInfo
from veridical.records.errors import InputError, MissingExtraError, UnknownNameError
from veridical.records.judging import not_judged
from veridical.records.spec import Spec
from veridical.records.types import GOLD_THRESHOLD, Case, Example, Judgement, Level, Span, Verdict
from veridical.text.segment import words

_NO_WORDS = "the response has no words"


@dataclass(frozen=True, slots=True)
class Length:
    """Baseline: the longer a response, the likelier a hallucination (score n / (n + 1) for n words)."""

    name: str = "length"
    info: ClassVar[DetectorInfo] = DetectorInfo((Level.RESPONSE,), needs_sources=False)

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        """Judge each case, with one score for the response."""
        counts = [len(words(case.response)) for case in cases]
        return [
            Judgement(case.id, self.name, n / (n + 1)) if n else not_judged(case, self.name, _NO_WORDS)
            for case, n in zip(cases, counts, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class Coin:
    """Baseline: flags at random with probability p. Plain `coin` flags everything (p = 1).

    If a share q of the items is hallucinated, a coin has precision q and recall p, so F1 = 2qp / (q + p) grows with p.
    Of the coins that CH-Wang et al. 2024 (§5.2) try on validation data, p = 1 therefore has the highest F1 on responses
    and on tokens. A lower p can be better for F1-Sp, because the precision of F1-Sp is a mean over predicted spans.

    Scores are drawn uniformly, from 0.5 for flagged items and below 0.5 for the rest. Fit a threshold for a metric
    (`bench --fit f1`) to get the best coin for this metric. The case seeds the draw, and the ROC AUC is at chance.
    """

    name: str = "coin"
    p: float = 1.0
    seed: int = 0
    info: ClassVar[DetectorInfo] = DetectorInfo((Level.RESPONSE, Level.SPAN), needs_sources=False)

    @classmethod
    def from_spec(cls, spec: Spec, context: DetectorContext) -> Coin:
        """Build the detector from `coin`, or from `coin:P` with P in [0, 1]."""
        try:
            p = float(spec.accept(values=1).value or 1.0)
        except ValueError:
            p = -1.0
        if not 0.0 <= p <= 1.0:
            raise InputError(f"{spec} is not a probability", hint="coin:P with P from 0 to 1, such as coin:0.5")
        return cls(str(spec), p)

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        """Judge each case, with one score for the response and one for each word."""
        return [self._one(case) for case in cases]

    def _one(self, case: Case) -> Judgement:
        spans = words(case.response)
        if not spans:
            return not_judged(case, self.name, _NO_WORDS)
        text = f"{self.seed}\0{case.id}\0{case.response}".encode("utf-8", "surrogatepass")
        random = np.random.default_rng(int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big"))
        heads = random.random(len(spans) + 1) < self.p
        # in [0.5, 1) for heads and [0, 0.5) for tails
        scores = random.random(len(spans) + 1) / 2 + np.where(heads, 0.5, 0.0)
        verdicts = tuple(Verdict(span, float(score)) for span, score in zip(spans, scores[1:], strict=True))
        return Judgement(case.id, self.name, float(scores[0]), verdicts=verdicts)


@dataclass(frozen=True, slots=True)
class Majority:
    """Baseline: always says the more frequent answer (supported, until fitted on labelled data)."""

    name: str = "majority"
    score: float = 0.0
    info: ClassVar[DetectorInfo] = DetectorInfo((Level.RESPONSE, Level.SPAN), needs_sources=False)

    @classmethod
    def from_spec(cls, spec: Spec, context: DetectorContext) -> Majority:
        """Return the detector for `majority`, `majority:supported` or `majority:hallucinated`."""
        answers = {"supported": 0.0, "hallucinated": 1.0}
        answer = spec.accept(values=1).value or "supported"
        if answer not in answers:
            raise UnknownNameError("answer of majority", answer, answers)
        return cls(str(spec), answers[answer])

    def fit(self, examples: Iterable[Example]) -> Majority:
        """Build the baseline that gives the more frequent answer among labelled (validation) responses."""
        golds = [example.gold.hallucination for example in examples]
        labels = [score >= GOLD_THRESHOLD for score in golds if score is not None]
        if not labels:
            raise InputError("no example has a response-level label", hint="majority is fitted on labelled responses")
        return Majority(self.name, float(2 * sum(labels) > len(labels)))

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        """Give every response and every word the same score."""
        judgements = []
        for case in cases:
            spans = words(case.response)
            if not spans:
                judgements.append(not_judged(case, self.name, _NO_WORDS))
                continue
            verdicts = (Verdict(Span(spans[0].start, spans[-1].end), self.score),) if self.score else ()
            judgements.append(Judgement(case.id, self.name, self.score, verdicts=verdicts))
        return judgements


@dataclass(frozen=True, slots=True)
class ResponseWords:
    """Baseline: learns words and word pairs of hallucinated responses from labelled ones (`bench`), without sources.

    This is a logistic regression (scikit-learn). A detector that does no better on the same data has learned nothing
    about support.
    """

    name: str = "response_words"
    model: Any = None
    info: ClassVar[DetectorInfo] = DetectorInfo((Level.RESPONSE,), needs_training=True, needs_sources=False)

    def fit(self, examples: Iterable[Example]) -> ResponseWords:
        """Learn from the examples whose response is labelled. If all labels are the same, nothing can be judged."""
        try:
            from sklearn.feature_extraction.text import CountVectorizer
            from sklearn.linear_model import LogisticRegression
            from sklearn.pipeline import make_pipeline
        except ImportError:
            raise MissingExtraError("the baseline response_words", "stats") from None
        labelled = [(e.case.response, score) for e in examples if (score := e.gold.hallucination) is not None]
        labels = [score >= GOLD_THRESHOLD for _, score in labelled]
        if len(set(labels)) < 2:
            return replace(self, model=None)
        bag = CountVectorizer(ngram_range=(1, 2), token_pattern=r"\w+|[^\w\s]", binary=True)
        model = make_pipeline(bag, LogisticRegression(C=0.3, solver="liblinear", random_state=0))
        return replace(self, model=model.fit([text for text, _ in labelled], labels))

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        """Judge each case, with one score for the response. Before `fit`, nothing is judged."""
        note = "response_words judges only what `veridical bench` fits it for: no labelled responses of both classes"
        if self.model is None:
            return [not_judged(case, self.name, note) for case in cases]
        scores = self.model.predict_proba([case.response for case in cases])[:, 1] if cases else ()
        return [
            Judgement(case.id, self.name, float(score))
            if words(case.response)
            else not_judged(case, self.name, _NO_WORDS)
            for case, score in zip(cases, scores, strict=True)
        ]
