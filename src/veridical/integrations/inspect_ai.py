"""An Inspect scorer that checks a model's answer against the sources of its sample."""

from __future__ import annotations

from collections.abc import Mapping

from veridical.detectors import load_detector
from veridical.records.detector import Detector, info_of, takes_detector
from veridical.records.errors import InputError, MissingExtraError
from veridical.records.types import Outcome
from veridical.workflows.checking import DEFAULT_DETECTOR, acheck

try:
    from inspect_ai.scorer import CORRECT, INCORRECT, Score, Scorer, Target, accuracy, scorer, stderr
    from inspect_ai.solver import TaskState
except ImportError:
    raise MissingExtraError("the Inspect adapter", "inspect") from None


@scorer(metrics=[accuracy(), stderr()])
@takes_detector
def grounded(
    detector: str | Detector = DEFAULT_DETECTOR,
    *,
    threshold: float | Mapping[str, float] | None = None,
    sources: str = "sources",
    must_cover: str = "must_cover",
) -> Scorer:
    """Make a scorer that scores an answer as correct if nothing is flagged, and as incorrect otherwise.

    An answer that could not be judged (because it is empty or has no sources) is unscored. Inspect keeps such an answer
    but leaves it out of all metrics. A sample without `sources` in its metadata raises `InputError`, unless the
    detector needs no sources.

    Args:
        detector: A detector spec such as "overlap", or a detector object (with `name` and `judge`).
        threshold: The lowest score in [0, 1] that is flagged, as one number, or as a dict with numbers for the whole
            response and its spans: {"response": 0.6, "span": 0.4}. Default: the detector's own thresholds, or 0.5.
        sources: The key in the sample's metadata that holds the sources: a text, a list of texts, or another form that
            `veridical.check` takes. The metadata of the score repeat the ids and the metadata of the sources.
        must_cover: The key in the sample's metadata that holds texts which the answer has to cover. A sample may lack
            this key.
    """
    from veridical.report.findings import reasons

    loaded = load_detector(detector)

    async def score(state: TaskState, target: Target) -> Score:
        if sources not in state.metadata and info_of(loaded).needs_sources:
            raise InputError(f"sample {state.sample_id} has no {sources!r} in its metadata", hint="a list of texts")
        answer = state.output.completion
        checked = await acheck(
            answer,
            state.metadata.get(sources),
            must_cover=state.metadata.get(must_cover),
            detector=loaded,
            threshold=threshold,
        )
        if checked.outcome is Outcome.UNJUDGED:
            return Score.unscored(reason="; ".join(reasons(checked)), answer=answer)
        judgement = checked.judgements[0]
        return Score(
            value=CORRECT if checked.outcome.passes else INCORRECT,
            answer=answer,
            explanation="\n".join(reasons(checked)),
            metadata={
                "hallucination": judgement.hallucination,
                "omission": judgement.omission,
                "flagged": [[span.start, span.end] for span in checked.flagged],
                "sources": [
                    {"id": s.id, **({"metadata": s.metadata} if s.metadata else {})} for s in checked.case.sources
                ],
            },
        )

    return score
