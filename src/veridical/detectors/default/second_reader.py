"""Combine the sentence scores of the default detector with those of a second detector, the reader.

Each score is converted to log-odds relative to the threshold of its detector, and the combined score is the weighted
mean of both. A sentence that is exactly on both thresholds therefore stays on the threshold, and its score rises if
either of the two scores rises.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from veridical.records.detector import Detector
from veridical.records.judging import judge, thresholds_in_force
from veridical.records.spans import Span
from veridical.records.types import Case, Example, Judgement, Level, Verdict
from veridical.text.segment import has_words

_LEAST = 1e-4  # a probability nearer to 0 or 1 counts as this, so that neither detector overrules the other


def log_odds_of(score: float, threshold: float) -> float:
    """Return how far a score lies above its threshold: its log-odds minus the log-odds of the threshold.

    The result is negative below the threshold. Scores and thresholds near 0 or 1 are clipped first, so that it stays
    finite.

    >>> log_odds_of(0.3, 0.3), log_odds_of(0.9, 0.5) > 0
    (0.0, True)
    """
    above, below = (np.clip(each, _LEAST, 1.0 - _LEAST) for each in (score, threshold))
    return float(np.log(above / (1.0 - above)) - np.log(below / (1.0 - below)))


def combined(score: float, reading: float, threshold: float, weight: float) -> float:
    """Combine the default detector's score for a sentence with that of the reader (the second detector), in [0, 1].

    Args:
        score: The default detector's score, in [0, 1].
        reading: The log-odds of the reader's score, minus the log-odds of the reader's threshold.
        threshold: The default detector's threshold.
        weight: The weight of the reader, in [0, 1].

    >>> round(combined(0.4, 0.0, 0.4, 0.5), 6), combined(0.4, 2.0, 0.4, 0.5) > combined(0.4, 1.0, 0.4, 0.5) > 0.4
    (0.4, True)
    """
    mean = (1.0 - weight) * log_odds_of(score, threshold) + weight * reading
    return float(1.0 / (1.0 + np.exp(-(log_odds_of(threshold, 0.5) + mean))))


def with_reader(
    cases: Sequence[Case],
    judgements: Sequence[Judgement],
    undecided: Sequence[Sequence[Span]],
    reader: Detector,
    *,
    threshold: float,
    weight: float,
) -> list[Judgement]:
    """Combine the default detector's scores of sentences with the scores of the reader, a second detector.

    Only sentences that no rule has decided are combined. If the reader could not judge some of them, they keep their
    scores, and a note says how many there are. The response's score becomes the highest score of its sentences.

    Args:
        cases: The cases that were judged.
        judgements: The default detector's judgements of the cases.
        undecided: For each case, the sentences that no rule has decided. Only their scores are combined.
        reader: The second detector.
        threshold: The default detector's threshold for responses.
        weight: The weight of the reader, in [0, 1].
    """
    spans = [
        [sentence.span for sentence in judgement.sentences if sentence.span in set(chosen)]
        for judgement, chosen in zip(judgements, undecided, strict=True)
    ]
    results = list(judgements)
    to_read = [i for i, of_case in enumerate(spans) if of_case]
    readings = _readings(reader, [cases[i] for i in to_read], [spans[i] for i in to_read])
    for i, of_case in zip(to_read, readings, strict=True):
        by_span = dict(zip(spans[i], of_case, strict=True))
        sentences = [
            sentence
            if (reading := by_span.get(sentence.span)) is None
            else replace(sentence, score=combined(sentence.score, reading, threshold, weight))
            for sentence in judgements[i].sentences
        ]
        unread = of_case.count(None)
        note = f"{unread} of {len(of_case)} sentences were not judged by {reader.name}: default's own scores count"
        results[i] = replace(
            judgements[i],
            hallucination=max(sentence.score for sentence in sentences),
            sentences=tuple(sentences),
            notes=(*judgements[i].notes, *([note] if unread else [])),
        )
    return results


def best_weight(examples: Sequence[Example], scored: Sequence[tuple[Judgement, Judgement]]) -> float | None:
    """Find the weight of the reader (the second detector) that ranks responses best, by ROC AUC.

    If several weights are equally good, the one nearest to 0.5 is returned.

    Args:
        examples: The labelled examples.
        scored: Two judgements of each example, with the weights 0 and 1. For any weight between, the log-odds are
            interpolated linearly.

    Returns:
        A multiple of 0.1 in [0, 1]. None if all responses have the same label.
    """
    from veridical.metrics.ranking import roc_auc
    from veridical.metrics.thresholding import pairs

    labels, sentences = [], []
    for example, (own, read) in zip(examples, scored, strict=True):
        rows = pairs(Level.RESPONSE, example, own)
        if rows is not None and len(rows) and own.sentences:
            labels.append(rows[0, 0])
            both = ([log_odds_of(sentence.score, 0.5) for sentence in each.sentences] for each in (own, read))
            sentences.append(np.array(list(both)))
    if len(set(labels)) < 2:
        return None
    weights = sorted((i / 10 for i in range(11)), key=lambda weight: abs(weight - 0.5))
    return max(weights, key=lambda w: roc_auc(labels, [((1 - w) * own + w * read).max() for own, read in sentences]))


def _readings(reader: Detector, cases: Sequence[Case], sentences: Sequence[Sequence[Span]]) -> list[list[float | None]]:
    """Return the reader's log-odds for each sentence, minus the log-odds of the reader's threshold.

    The reader judges each response as a whole. Sentences that get no score of their own are judged again, one by one. A
    sentence that the reader still did not judge gets None.
    """
    thresholds = thresholds_in_force(reader)
    readings: list[list[float | None]] = []
    alone: list[tuple[int, int]] = []
    for case_i, (judgement, spans) in enumerate(zip(judge(reader, cases), sentences, strict=True)):
        text = cases[case_i].response
        verdicts, threshold = judgement.sentences, thresholds.response
        if judgement.verdicts and not verdicts:
            verdicts, threshold = judgement.verdicts, thresholds.span
        elif judgement.hallucination is not None and not verdicts:
            verdicts = (Verdict(Span(0, len(text)), judgement.hallucination),)
        scores = _by_sentence(text, verdicts, spans)
        readings.append([None if score is None else log_odds_of(score, threshold) for score in scores])
        alone += [(case_i, i) for i, score in enumerate(scores) if score is None]
    single = [
        replace(cases[case_i], id=f"{cases[case_i].id}/{i}", response=sentences[case_i][i].of(cases[case_i].response))
        for case_i, i in alone
    ]
    for (case_i, i), judgement in zip(alone, judge(reader, single), strict=True):
        if judgement.hallucination is not None:
            readings[case_i][i] = log_odds_of(judgement.hallucination, thresholds.response)
    return readings


def _by_sentence(text: str, verdicts: Sequence[Verdict], sentences: Sequence[Span]) -> list[float | None]:
    """Return, for each sentence, the highest score of the verdicts in it.

    A sentence gets None if it has no verdict, or if one of its verdicts also covers words outside of the sentence.
    """
    starts, ends = [span.start for span in sentences], [span.end for span in sentences]
    scores: list[float | None] = [None] * len(sentences)
    shared: set[int] = set()
    for verdict in verdicts:
        start, end = verdict.span.start, verdict.span.end
        inside = range(bisect_right(ends, start), bisect_left(starts, end))
        for i in inside:
            scores[i] = max(verdict.score, scores[i] or 0.0)
            if len(inside) > 1 or has_words(text[start : starts[i]]) or has_words(text[ends[i] : end]):
                shared.add(i)
    return [None if i in shared else score for i, score in enumerate(scores)]
