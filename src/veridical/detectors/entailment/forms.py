"""Compute scores from entailment probabilities as published methods do.

A method compares each hypothesis (a sentence of the response, or all of it) with each premise (a part of the sources).
From these probabilities, it computes a score for each hypothesis and a score for the whole response.

The forms are SummaC (Laban et al. 2022, §4), MiniCheck (Tang et al. 2024, §3), AlignScore (Zha et al. 2023, §3.3),
FactCC (Kryściński et al. 2020) and FactCG (Lei et al. 2025). These methods score support. Here a score is 1 minus
theirs, so that 1 means hallucinated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from veridical.inference.heads import LogisticLayer
from veridical.records.errors import InputError, UnknownNameError
from veridical.records.spans import Span, trimmed
from veridical.records.types import Claim, Source, SourceSpan
from veridical.text.citations import statements
from veridical.text.segment import has_words, words

Floats = NDArray[np.float64]
CHOICES = {
    "premise": ("sentence", "chunk", "document"),
    "hypothesis": ("sentence", "response"),
    "response": ("mean", "worst"),
    "unit": ("word", "token"),
}


@dataclass(frozen=True, slots=True)
class Form:
    """A published method of scoring with entailment: which texts it compares, and how it computes scores.

    A hypothesis is a text to check, and a premise is a part of the sources. The model computes P(entailment) and
    P(contradiction) for each pair.

    Attributes:
        premise: The part of the sources that a hypothesis is compared with: "sentence", "chunk" (several complete
            sentences), or "document" (a complete source).
        hypothesis: The text to check: "sentence" for each sentence of the response, or "response" for all of it at
            once.
        words: The maximum number of words in a chunk, or of tokens if `unit` is "token".
        contradiction: If true, the highest P(contradiction) is subtracted from the highest P(entailment).
        response: The computation of the response's score from the scores of its sentences: "mean" or "worst".
        joined: The way to join the two texts into one input: "pair", "single", or a prompt template with {premise} and
            {hypothesis} (`models.cross_encoder.CrossEncoder`).
        unit: The unit in which chunks are measured, "word" or "token".
        answers: The tokens that an encoder-decoder generates for "unsupported" and "supported". Empty for a classifier.
        bins: For SummaC Conv, the number of bins in the histogram of probabilities that is the input of the trained
            layer. If 0, the highest probability is used instead.
    """

    premise: Literal["sentence", "chunk", "document"] = "chunk"
    hypothesis: Literal["sentence", "response"] = "sentence"
    words: int = 350
    contradiction: bool = False
    response: Literal["mean", "worst"] = "mean"
    joined: str = "pair"
    unit: Literal["word", "token"] = "word"
    answers: tuple[str, ...] = ()
    bins: int = 0

    def __post_init__(self) -> None:
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise UnknownNameError(f"{name} of entailment", str(getattr(self, name)), choices)
        if self.joined not in ("pair", "single") and not 0 <= self.joined.find("{premise}") < self.joined.find("{hyp"):
            raise InputError(f"the texts are joined by {self.joined!r}", hint="pair, single, or a template")
        if self.words < 1 or self.bins < 0:
            raise InputError(f"chunks of {self.words} words, {self.bins} bins", hint="at least one word")


# the prompts that published checkpoints were trained with, with the special tokens in them
_MINICHECK_T5 = "predict: {premise}</s>{hypothesis}"
_FACTCG = (
    "{premise}\n\nChoose your answer: based on the paragraph above can we conclude that "
    '"{hypothesis}"?\n\nOPTIONS:\n- Yes\n- No\nI think the answer is '
)
_HHEM_2 = (
    "<pad> Determine if the hypothesis is true given the premise?\n\nPremise: {premise}\n\nHypothesis: {hypothesis}"
)

FORMS = {
    "nli": Form("chunk", "sentence", 350, response="worst"),
    "summac": Form("sentence", "sentence", contradiction=True),
    "summac-conv": Form("sentence", "sentence", bins=50),
    "minicheck": Form("chunk", "sentence", 400, response="worst", joined="single", unit="token"),
    "minicheck-t5": Form("chunk", "sentence", 500, response="worst", joined=_MINICHECK_T5, answers=("▁", "▁1")),
    "factcg": Form("chunk", "sentence", 550, response="worst", joined=_FACTCG),
    "hhem": Form("document", "response"),
    "hhem-2": Form("document", "response", joined=_HHEM_2),
    "alignscore": Form("chunk", "sentence", 350),
    "factcc": Form("document", "sentence", response="worst"),
}


def chunks(text: str, most: int, count: Callable[[str], int] | None = None) -> list[Span]:
    """Group the sentences of a text into chunks of at most `most` words, and return the span of each chunk.

    A sentence is split only if it is longer than a chunk. To measure chunks in tokens or another unit than words, pass
    a function `count`, which counts them in a text. Even then, a sentence that is too long is split into pieces of
    `most` words.

    >>> text = "One two. Three four five. Six."
    >>> [span.of(text) for span in chunks(text, 4)]
    ['One two.', 'Three four five. Six.']
    """
    spans: list[Span] = []
    size = 0
    for sentence in statements(text):
        inside = words(sentence.of(text))
        length = len(inside) if count is None else count(sentence.of(text))
        if spans and size + length <= most:
            spans[-1] = Span(spans[-1].start, sentence.end)
            size += length
            continue
        starts = [sentence.start, *(sentence.start + inside[i].start for i in range(most, len(inside), most))]
        spans += [Span(a, b) for a, b in zip(starts, [*starts[1:], sentence.end], strict=True)]
        size = length - most * (len(starts) - 1)
    return [inner for span in spans if (inner := trimmed(span, text))]


def premises_of(
    sources: Sequence[Source], form: Form, most_words: int, count: Callable[[str], int]
) -> list[SourceSpan]:
    """Split the sources of a case into premises, the texts that may entail a sentence of the response.

    Texts without any word are skipped.

    Args:
        sources: The sources of the case.
        form: The method, whose `premise` says how to split: into sentences, chunks or complete sources.
        most_words: The number of words that the model can process beside a hypothesis, which limits the size of chunks.
        count: A function that counts the tokens of a text.
    """
    premises = []
    limit = most_words if form.unit == "word" else most_words * 8 // 7  # some 0.7 words a token, leaving 0.2 of them
    for source in sources:
        if form.premise == "document":
            whole = trimmed(Span(0, len(source.text)), source.text)
            spans = [whole] if whole and has_words(source.text) else []
        elif form.premise == "chunk":
            spans = chunks(source.text, min(form.words, limit), count if form.unit == "token" else None)
        else:
            spans = statements(source.text)
        premises += [SourceSpan(source.id, span) for span in spans]
    return premises


def hypotheses_of(response: str, form: Form) -> tuple[Claim, ...]:
    """Return the texts of a response to check: its sentences, or the complete response, as `form.hypothesis` says.

    Sentences without any word are skipped.
    """
    spans = statements(response)
    if form.hypothesis == "response":
        spans = [Span(spans[0].start, spans[-1].end)]
    return tuple(Claim(span.of(response), (span,)) for span in spans)


def histograms(entailment: Floats, bins: int) -> Floats:
    """Compute a histogram of the entailment probabilities of each hypothesis, the input of SummaC Conv.

    Args:
        entailment: The probabilities of entailment. *Shape:* (hypotheses, premises)
        bins: The number of bins, which divide [0, 1] evenly. The value 1 belongs to the last bin.

    Returns:
        The counts. *Shape:* (hypotheses, bins)
    """
    index = np.minimum((entailment * bins).astype(np.int64), bins - 1)
    counts: Floats = (index[:, :, None] == np.arange(bins)).sum(1).astype(np.float64)
    return counts


def sentence_scores(
    entailment: Floats, contradiction: Floats | None, form: Form, layer: LogisticLayer | None
) -> tuple[Floats, float]:
    """Compute the score of each hypothesis (text to check) and the score of the response, in [0, 1], 1 = hallucinated.

    Without a layer, the score of a hypothesis is 1 - e, where e is its highest P(entailment) over the premises (parts
    of the sources). If `form.contradiction` is set, the score is (1 - (e - c)) / 2, where c is its highest
    P(contradiction).

    With a layer, the histogram of each hypothesis is scored. For the response, the mean of the histograms is scored,
    which gives the same result as the mean of the logits. If `form.response` is "worst", the response gets the highest
    score of its hypotheses in both cases.

    Args:
        entailment: The probabilities of entailment. Both dimensions are at least 1. *Shape:* (hypotheses, premises)
        contradiction: The probabilities of contradiction, in the same shape.
        form: The method, which determines the arithmetic.
        layer: The layer of SummaC Conv, which computes P(hallucinated) from a histogram.
    """
    if layer is not None:
        counts = histograms(entailment, form.bins)
        pooled = counts.mean(0, keepdims=True)
        scores = layer.scores(counts)
        return scores, float(layer.scores(pooled)[0] if form.response == "mean" else scores.max())
    scores = 1.0 - entailment.max(1)
    if form.contradiction and contradiction is not None:
        scores = (scores + contradiction.max(1)) / 2.0
    scores = np.clip(scores, 0.0, 1.0)
    return scores, float(scores.mean() if form.response == "mean" else scores.max())
