"""Recalibrate a detector (threshold and probabilities) on the decisions about a run.

The new fit is kept only if it is clearly better.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import numpy as np

from veridical.detectors.calibrated import FittedCalibration, Scale
from veridical.history.records import DecidedSentence, Decisions, Learning
from veridical.history.sentences import overlap
from veridical.inference.saving import versions
from veridical.metrics import UndefinedMetricError
from veridical.records.detector import Detector, digest_of, fingerprint_of, info_of
from veridical.records.judging import thresholds_in_force
from veridical.records.spans import Span
from veridical.records.types import Judgement, Level
from veridical.workflows.recalibration import LabelledScores, recalibrate

NEEDED = 50
"""A detector is recalibrated only if at least this many sentences are decided."""
NEEDED_AT_RANDOM = 20
"""At least this many of the sentences must be drawn at random, because flagged ones do not show the missed errors."""
NEEDED_OF_EACH = 5
"""At least this many of the sentences must be wrong, and as many must be right."""


def too_few(decisions: Decisions) -> str | None:
    """Explain in a sentence why people have decided about too few sentences to recalibrate a detector.

    Return None if there may be enough. `learn` also needs enough wrong and enough right sentences, which this function
    does not count.
    """
    total = decisions.flagged + decisions.random
    if total < NEEDED:
        return f"{NEEDED} decided sentences are needed, not {total}"
    at_random = min(NEEDED_AT_RANDOM, decisions.all_unflagged)
    if decisions.random < at_random:
        return f"{at_random} decided sentences of a random sample are needed, not {decisions.random}"
    return None


def stored_judgements(
    sentences: Sequence[DecidedSentence], about: Mapping[str, Any], spec: str, detector: Detector
) -> list[Judgement] | None:
    """Take a detector's judgements from a run, for the sentences that people decided about, so as not to judge again.

    Return None if the run was judged by another detector or by another version of it, because its scores might differ.

    Args:
        sentences: The decided sentences.
        about: The description of the run (`RunRow.about`), with the fingerprints of its detectors.
        spec: The name of the detector in this description.
        detector: The detector, whose fingerprint is compared.

    Returns:
        The judgement of each sentence's case, in the order of `sentences`.
    """
    fingerprints = {one["name"]: (i, one["fingerprint"]) for i, one in enumerate(about["detectors"])}
    i, fingerprint = fingerprints.get(spec, (0, None))
    if fingerprint != digest_of(fingerprint_of(detector)):
        return None
    return [one.judgements[i] for one in sentences]


def learn(
    detector: Detector,
    sentences: Sequence[DecidedSentence],
    judgements: Sequence[Judgement],
    decisions: Decisions,
    *,
    spec: str,
    run: str,
) -> tuple[Learning, FittedCalibration | None]:
    """Fit the threshold and probabilities of a detector on sentences that people decided about.

    People see flagged and unflagged sentences with different probabilities. Each sentence is therefore weighted by the
    inverse of its probability of being decided.

    Args:
        detector: The detector whose scores are fitted.
        sentences: The decided sentences, each of them wrong or right.
        judgements: The detector's judgement of each sentence's case, in the same order.
        decisions: The numbers of decided sentences and of all sentences in the run.
        spec: The name of the detector.
        run: The id of the run.

    Returns:
        The gain and the fit. The fit is None if it gains nothing, or if there are too few decisions.
    """

    def too_little(reason: str) -> tuple[Learning, None]:
        return Learning(verdict="too few decisions", reason=reason, detector=spec, decisions=decisions), None

    reason = too_few(decisions)
    if reason is not None:
        return too_little(reason)
    by_words = not any(one.sentences for one in judgements) and any(one.verdicts for one in judgements)
    level = Level.SPAN if by_words else Level.RESPONSE
    scores = [_score(judgement, one.span) for one, judgement in zip(sentences, judgements, strict=True)]
    scored = [(one, score) for one, score in zip(sentences, scores, strict=True) if score is not None]
    numbers = Counter(one.drawn for one, _ in scored)
    classes = Counter(one.wrong for one, _ in scored)
    if min(classes[True], classes[False]) < NEEDED_OF_EACH or len(scored) < NEEDED:
        found = f"{classes[True]} wrong and {classes[False]} right sentences with a score are decided"
        return too_little(f"{found}; {NEEDED_OF_EACH} of each, and {NEEDED} together, are needed")
    standing_for = {"flagged": decisions.all_flagged, "random": decisions.all_unflagged}
    sample = LabelledScores(
        np.array([one.wrong for one, _ in scored]),
        np.array([score for _, score in scored]),
        np.array([standing_for[one.drawn] / numbers[one.drawn] for one, _ in scored]),
        np.array([one.document for one, _ in scored]),
    )
    thresholds = asdict(thresholds_in_force(detector))
    try:
        fitted = recalibrate(sample, thresholds[level.value], probabilities=not by_words)
    except UndefinedMetricError as error:
        return too_little(str(error))
    learning = Learning(
        verdict="no gain" if fitted.scale is None else "gain",
        reason="neither a fitted threshold nor calibrated scores are clearly better on other documents"
        if fitted.scale is None
        else "better on other documents than those it was fitted on",
        detector=spec,
        decisions=decisions,
        threshold=fitted.threshold,
        probabilities=fitted.probabilities,
        level=level.value,
    )
    if fitted.scale is None:
        return learning, None
    scales = {each: Scale(thresholds[each.value]) for each in info_of(detector).levels} | {level: fitted.scale}
    training = {
        "data": f"decisions about the run {run}",
        "examples": len(scored),
        "documents": len(set(sample.documents.tolist())),
        "date": datetime.now(UTC).date().isoformat(),
        "versions": versions(),
    }
    return learning, FittedCalibration(spec, fingerprint_of(detector), scales, training)


def _score(judgement: Judgement, sentence: Span) -> float | None:
    """Return the detector's score of a sentence.

    This is the highest score of the detector's sentences in this place. A detector without sentences has the highest
    score of its verdicts there, or 0 if there is none. Without any verdicts, the score of the response is used.
    """
    if judgement.judged == ():
        return None
    if judgement.sentences:
        return max((each.score for each in judgement.sentences if overlap(each.span, sentence)), default=None)
    if judgement.verdicts:
        return max((each.score for each in judgement.verdicts if overlap(each.span, sentence)), default=0.0)
    return judgement.hallucination
