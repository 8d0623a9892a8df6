"""Build gold labels and predicted scores of omission from an example and a judgement, per case, source or word.

Labels come from the gold judgement of the example ("gold"), scores from a detector's judgement ("the prediction"). Only
sources with `must_cover` are used, and only **characters that both gold and prediction judged**
(`Judgement.judged_sources`). If there are no such characters, or if gold or prediction is not about coverage, the
functions return None. The metrics then skip the case and report it as not judged. A gold score of 0.5 or more is
positive.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from veridical.metrics.arrays import Bools, Floats
from veridical.metrics.tokens import any_in, highest_in, mask, scores_of_characters, word_units
from veridical.records.spans import Span, intersection
from veridical.records.types import GOLD_THRESHOLD, Example, Judgement, Source, check_judgement, judged_source_spans


def _omission_score(judgement: Judgement) -> float | None:
    if judgement.omission is not None:
        return judgement.omission
    return max((o.score for o in judgement.omissions), default=None)


def coverage_pair(example: Example, judgement: Judgement) -> tuple[bool, float] | None:
    """Return the gold label (True = something is omitted) and the predicted omission score.

    The label comes from the gold judgement of `example`, and the score from `judgement`, the prediction of a detector.
    Each uses its `Judgement.omission`, or its highest single omission if `omission` is None. Return None if gold or
    prediction has neither.

    >>> from veridical.records.types import Case
    >>> example = Example(Case("1", "a"), Judgement("1", "human:a", omission=0.0))
    >>> coverage_pair(example, Judgement("1", "me", omission=0.3))
    (False, 0.3)
    """
    check_judgement(example.case, judgement)
    gold, score = _omission_score(example.gold), _omission_score(judgement)
    return None if gold is None or score is None else (gold >= GOLD_THRESHOLD, score)


def _locates_omissions(judgement: Judgement) -> bool:
    """Return whether a judgement says which sources were omitted.

    It does so if it lists omissions, if its omission score says that nothing is omitted, or if it names the spans that
    it judged.
    """
    says_none = judgement.omission is not None and judgement.omission < GOLD_THRESHOLD
    return bool(judgement.omissions or judgement.judged_sources) or says_none


def _shared_sources(example: Example, judgement: Judgement) -> list[tuple[Source, list[Span]]]:
    """Return the sources that must be covered, each with the spans that gold and prediction judged.

    The result is [] if gold or prediction does not say which sources were omitted.
    """
    check_judgement(example.case, judgement)
    if not (_locates_omissions(example.gold) and _locates_omissions(judgement)):
        return []
    gold, predicted = (judged_source_spans(example.case, j) for j in (example.gold, judgement))
    shared = ((s, intersection(gold[s.id], predicted[s.id])) for s in example.case.sources if s.must_cover)
    return [(source, spans) for source, spans in shared if spans]


def source_scores(example: Example, judgement: Judgement) -> tuple[Bools, Floats] | None:
    """Return the gold label and the predicted omission score of each source with `must_cover`.

    The label is True if the gold judgement of `example` marks any part of the source as omitted. The predicted score is
    the highest score of an omission in the source according to `judgement`, or 0 if there is none. A source is skipped
    if gold and prediction judged no character of it in common.

    Return None if all sources are skipped, or if gold or prediction does not show which sources are omitted, because it
    has no omissions, no `judged_sources`, and no omission score below 0.5.

    >>> from veridical.records.types import Case, Omission, Source, Span
    >>> case = Case("1", "a", (Source("pro", "yes", must_cover=True), Source("con", "no", must_cover=True)))
    >>> gold = Judgement("1", "human:a", omissions=(Omission("con", Span(0, 2), 1.0),))
    >>> source_scores(Example(case, gold), Judgement("1", "me", omission=0.2))
    (array([False,  True]), array([0., 0.]))
    """
    sources = _shared_sources(example, judgement)
    if not sources:
        return None
    columns = []
    for side in (example.gold, judgement):
        highest = np.zeros(len(sources))
        for i, (source, spans) in enumerate(sources):
            for omission in side.omissions:
                span = omission.span  # an empty one overlaps nothing, but may lie inside a judged span
                inside = any(span.overlaps(other) or (not len(span) and other.contains(span)) for other in spans)
                if omission.source_id == source.id and inside:
                    highest[i] = max(highest[i], omission.score)
        columns.append(highest)
    gold, predicted = columns
    return gold >= GOLD_THRESHOLD, predicted


def source_words(
    example: Example, judgement: Judgement, *, is_stop_word: Callable[[str], bool] | None = None
) -> tuple[Bools, Floats] | None:
    """Return the gold label and the predicted omission score of each word in the sources with `must_cover`.

    This follows Chang et al. 2024, §5.3. The labels come from the gold judgement of `example`, and the scores from
    `judgement`, the prediction. Only words with a character that both judged are used, and no stop words if you pass
    `is_stop_word`. Return None if they judged no character in common, or if one of them does not show which sources are
    omitted (see `source_scores`).

    >>> from veridical.records.types import Case, Omission, Source, Span
    >>> case = Case("1", "a", (Source("pro", "very good", must_cover=True),))
    >>> gold = Judgement("1", "human:a", omissions=(Omission("pro", Span(5, 9), 1.0),))
    >>> source_words(Example(case, gold), gold)
    (array([False,  True]), array([0., 1.]))
    """
    sources = _shared_sources(example, judgement)
    if not sources:
        return None
    labels, scores = [], []
    for source, spans in sources:
        judged = mask(len(source.text), spans)
        units = word_units(source.text, is_stop_word=is_stop_word)
        units = units[any_in(judged, units)]
        gold, score = (
            scores_of_characters(len(source.text), ((o.span, o.score) for o in j.omissions if o.source_id == source.id))
            for j in (example.gold, judgement)
        )
        labels.append(any_in((gold >= GOLD_THRESHOLD) & judged, units))
        scores.append(highest_in(np.where(judged, score, 0.0), units))
    return np.concatenate(labels), np.concatenate(scores)
