"""Assert in a test that a response is grounded in its sources.

A failed assertion shows the unsupported words. You can use `assert_grounded` without a test framework, and in pytest it
is also a fixture.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from veridical.io.sources import Sources
from veridical.records.detector import takes_detector
from veridical.records.types import Outcome
from veridical.workflows.checking import DEFAULT_DETECTOR, check

if TYPE_CHECKING:
    from veridical.records.detector import Detector
    from veridical.records.types import Checked


@takes_detector
def assert_grounded(
    response: str | None,
    sources: Sources = (),
    *,
    detector: str | Detector = DEFAULT_DETECTOR,
    threshold: float | Mapping[str, float] | None = None,
    must_cover: Sources = (),
    question: str | None = None,
) -> Checked:
    """Assert that a response is grounded in its sources.

    The assertion passes if all of the response was judged and nothing was flagged, or if the response makes no claim.

    Args:
        response: The text to check, exactly as it was generated.
        sources: The texts that the response may rest on, as one source or a list. Each source can be a text, a
            `Source`, or any other form that `veridical.check` accepts.
        detector: A detector spec such as "overlap", or a detector object (with `name` and `judge`). The detector of a
            spec stays loaded for further calls.
        threshold: The lowest score in [0, 1] that is flagged, as one number for all levels or as a dict such as
            {"response": 0.6, "span": 0.4}. Default: the detector's own thresholds, or 0.5.
        must_cover: Further sources, whose content the response must not omit.
        question: The question that the response answers.

    Returns:
        The result of the check, for further assertions.

    Raises:
        AssertionError: A part of the response is flagged, or could not be judged, for example because the response is
            empty or there are no sources. The message shows the flagged words and the reasons.
        InputError: An argument is wrong, for example because it names an unknown detector.

    >>> assert_grounded("It is red.", ["It is red."], detector="overlap").outcome.value
    'clear'
    >>> assert_grounded("It is blue.", ["It is red."], detector="overlap")
    Traceback (most recent call last):
    ...
    AssertionError: the response is not grounded in its sources
    <BLANKLINE>
    1  FLAGGED
    <BLANKLINE>
      overlap  flagged  hallucination 1.00  threshold 0.50
        It is [-blue-].
    <BLANKLINE>
        Flagged in the response
        1. “blue”  1.00
           the closest passage does not have “blue”
           source 1: “It is red.”
    """
    __tracebackhide__ = True  # makes pytest show the failing line of the test, not this one
    checked = check(
        response,
        sources,
        question=question,
        must_cover=must_cover,
        detector=_loaded(detector) if isinstance(detector, str) else detector,
        threshold=threshold,
        explain=True,
    )
    if checked.outcome.passes:
        return checked
    from veridical.report.findings import as_text

    flagged = checked.outcome is Outcome.FLAGGED
    what = "the response is not grounded in its sources" if flagged else "it could not be judged whether it is grounded"
    raise AssertionError(f"{what}\n\n{as_text(checked, legend=False)}")


@lru_cache(maxsize=8)
def _loaded(spec: str) -> Detector:
    from veridical.detectors import load_detector

    return load_detector(spec)
