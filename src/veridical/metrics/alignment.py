"""Build the gold labels and predicted scores of a response from an example and a judgement.

The labels come from the gold judgement of the example ("gold"), and the scores from a detector's judgement ("the
prediction"). A gold score of 0.5 or more is positive. `coverage` does the same for sources.

**Only characters that both gold and prediction judged are compared.** If there are no such characters, or if gold or
prediction is not about hallucination, the functions return None. The metrics then skip the case and report it as not
judged. A prediction is not about hallucination if it has neither a response score nor verdicts. A gold judgement with
neither means that the response is not hallucinated, unless it has omission scores.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from veridical.metrics.arrays import Bools, Floats
from veridical.metrics.tokens import Units, any_in, highest_in, mask, runs, scores_of_characters, word_units
from veridical.records.decide import decide, hallucinated, merge, unjudged
from veridical.records.spans import Span, intersection
from veridical.records.types import GOLD_THRESHOLD, Example, Judgement, Thresholds, check_judgement, judged_spans


@dataclass(frozen=True, slots=True)
class Characters:
    """The gold and predicted scores of one response, as arrays with one entry per character.

    Attributes:
        text: The response.
        gold: The gold score of each character, *shape* (characters,).
        score: The predicted score of each character, *shape* (characters,).
        judged: True for characters that both gold and prediction judged, *shape* (characters,).
    """

    text: str
    gold: Floats
    score: Floats
    judged: Bools

    def gold_mask(self) -> Bools:
        """Return True for each judged character whose gold score is at least 0.5, *shape* (characters,)."""
        return (self.gold >= GOLD_THRESHOLD) & self.judged

    def predicted_mask(self, threshold: float) -> Bools:
        """Return True for each judged character whose predicted score is at least `threshold`.

        The result has *shape* (characters,).
        """
        return (self.score >= threshold) & self.judged

    def spans(self, threshold: float) -> tuple[list[Span], list[Span]]:
        """Return the spans that are hallucinated in gold, and those predicted with a score of at least `threshold`.

        Neighbouring spans are joined with `records.decide.merge`, so that you can compare a detector that scores single
        words with one that marks whole phrases.
        """
        masks = self.gold_mask(), self.predicted_mask(threshold)
        gold, predicted = (merge(self.text, runs(marked)) for marked in masks)
        return gold, predicted

    def judged_units(self, units: Units) -> Units:
        """Return the units (words or tokens, see `metrics.tokens`) that contain at least one judged character."""
        return units[any_in(self.judged, units)]

    def unit_scores(self, units: Units) -> tuple[Bools, Floats]:
        """Return the gold label and the highest predicted score of each unit (word or token, see `metrics.tokens`).

        Only judged characters are used. A unit is labelled True if gold marks any of its characters. Both results have
        *shape* (units,).
        """
        return any_in(self.gold_mask(), units), highest_in(np.where(self.judged, self.score, 0.0), units)


def characters(example: Example, judgement: Judgement) -> Characters | None:
    """Compare a detector's judgement with the gold judgement of an example, character by character.

    Return None if gold and prediction judged no character in common, or if gold says that the response is hallucinated
    but marks no span, so that the hallucinated characters are unknown.

    Raises:
        InputError: The judgement does not fit the case.
        SpanError: A span of the judgement runs past the end of its text.

    >>> from veridical.records.types import Case, Verdict
    >>> case = Case("1", "In Rome")
    >>> gold = Judgement("1", "human:a", verdicts=(Verdict(Span(3, 7), 1.0),))
    >>> aligned = characters(Example(case, gold), Judgement("1", "me", hallucination=0.0, judged=(Span(0, 4),)))
    >>> aligned.gold_mask().nonzero()[0].tolist(), aligned.judged.sum().item()
    ([3], 4)
    """
    case, gold = example.case, example.gold
    shared = _shared(example, judgement)
    marked = any(verdict.score >= GOLD_THRESHOLD for verdict in gold.verdicts)
    if not shared or ((gold.hallucination or 0.0) >= GOLD_THRESHOLD and not marked):
        return None
    size = len(case.response)
    gold_score, score = (scores_of_characters(size, ((v.span, v.score) for v in j.verdicts)) for j in (gold, judgement))
    return Characters(case.response, gold_score, score, mask(size, shared))


def response_pair(example: Example, judgement: Judgement) -> tuple[bool, float] | None:
    """Return the gold label of the response (True = hallucinated) and the score that a detector's judgement predicts.

    The label comes from the gold judgement of `example`, and the score from `judgement`, the prediction. If one of them
    has no score of the whole response, its highest verdict is used instead. A verdict of the prediction is used only if
    it overlaps characters that both judged.

    Gold may judge only a part of the response, such as one phrase in HaDes. If the prediction then has verdicts, its
    score is the highest verdict that overlaps this part, or 0 if none does.

    Return None if gold or prediction is not about hallucination, or if they judged no character in common.

    >>> from veridical.records.types import Case
    >>> case = Case("1", "In Rome")
    >>> response_pair(Example(case, Judgement("1", "human:a", hallucination=1.0)), Judgement("1", "me", 0.7))
    (True, 0.7)
    """
    case, gold = example.case, example.gold
    shared = _shared(example, judgement)
    if not shared:
        return None
    label = gold.hallucination
    if label is None:
        label = max((v.score for v in gold.verdicts), default=0.0)
    score = judgement.hallucination
    if score is None or (judgement.verdicts and unjudged(case, gold)):
        judged = mask(len(case.response), shared)
        scores = (v.score for v in judgement.verdicts if judged[v.span.start : v.span.end].any())
        score = max(scores, default=0.0)
    return label >= GOLD_THRESHOLD, score


def word_scores(
    example: Example, judgement: Judgement, *, is_stop_word: Callable[[str], bool] | None = None
) -> tuple[Bools, Floats] | None:
    """Return the gold label and the predicted score of each word of the response (Chang et al. 2024, §5.3).

    The label comes from the gold judgement of `example`, and the score from `judgement`. Only words with a character
    that both judged are used, and no stop words if you pass `is_stop_word`.

    Return None if there is no such word, if one of the judgements says nothing about hallucination, or if the gold
    judgement says that the response is hallucinated but marks no span.

    >>> from veridical.records.types import Case, Verdict
    >>> gold = Judgement("1", "human:a", verdicts=(Verdict(Span(3, 7), 1.0),))
    >>> word_scores(Example(Case("1", "In Rome"), gold), gold)
    (array([False,  True]), array([0., 1.]))
    """
    aligned = characters(example, judgement)
    units = None if aligned is None else aligned.judged_units(word_units(aligned.text, is_stop_word=is_stop_word))
    return None if aligned is None or units is None or not len(units) else aligned.unit_scores(units)


def as_decided(example: Example, judgement: Judgement, thresholds: Thresholds) -> Judgement:
    """Replace the scores of a judgement by a single one: 1 if `thresholds` flag the response, and 0 otherwise.

    Metrics of decisions, such as accuracy, use it to measure the decision of `records.decide`, which depends on the
    score of the response and on its verdicts. If gold judged only a part of the response, only the verdicts on that
    part are used. If the gold judgement or `judgement` says nothing about hallucination, or if they judged no character
    in common, `judgement` is returned unchanged.

    >>> from veridical.records.types import Case, Verdict
    >>> example = Example(Case("1", "In Rome"), Judgement("1", "human:a", hallucination=1.0))
    >>> judged = Judgement("1", "me", 0.3, verdicts=(Verdict(Span(3, 7), 0.6),))
    >>> as_decided(example, judged, Thresholds()).hallucination
    1.0
    """
    shared = _shared(example, judgement)
    if not shared:
        return judgement
    if judgement.verdicts and unjudged(example.case, example.gold):
        on_part = tuple(v for v in judgement.verdicts if any(v.span.overlaps(span) for span in shared))
        judgement = replace(judgement, hallucination=None, verdicts=on_part)
    decision = decide(example.case, judgement, thresholds)
    return replace(judgement, hallucination=float(hallucinated(decision)), verdicts=())


def _shared(example: Example, judgement: Judgement) -> list[Span]:
    """Return the spans that gold and prediction both judged for hallucination.

    If one of them says nothing about hallucination, return []. A prediction with neither a score nor a verdict says
    nothing (as in `records.decide.outcome`). A gold judgement with neither means "clean", unless it is about coverage
    alone.
    """
    case, gold = example.case, example.gold
    check_judgement(case, judgement)
    if judgement.hallucination is None and not judgement.verdicts:
        return []
    if gold.hallucination is None and not gold.verdicts and (gold.omission is not None or gold.omissions):
        return []
    return intersection(judged_spans(case, gold), judged_spans(case, judgement))
