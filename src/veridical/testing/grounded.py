"""Assert in a test that a response is grounded in its sources; the message shows the unsupported words.

This needs no test framework. In pytest it is also a fixture of the same name.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from veridical.checking import DEFAULT_DETECTOR, check
from veridical.core.detector import takes_detector
from veridical.core.types import Outcome
from veridical.sources import Sources

if TYPE_CHECKING:
    from veridical.core.detector import Detector
    from veridical.core.types import Checked

__all__ = ["assert_grounded"]


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
    """Raise `AssertionError` unless all of `response` was judged and nothing was flagged.

    Args:
        response: The text to check, as it was generated.
        sources: What the response may rest on, as in `veridical.check`.
        detector: A spec, or an object with `name` and `judge`. A spec is loaded once per process.
        threshold: The lowest score that is flagged, in [0, 1], for all levels or per level.
        must_cover: Further sources that the response has to cover.
        question: The question that the response answers.

    Returns:
        The result of the check, for further assertions.

    Raises:
        AssertionError: A part is flagged, or cannot be judged (an empty response, no sources). The message shows the
            flagged words and the reasons.
        InputError: An argument is wrong, such as an unknown detector.

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
        nothing in the sources is close to this: “blue” 1.00
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
    if checked.outcome is Outcome.CLEAR:
        return checked
    from veridical.report.findings import as_text

    flagged = checked.outcome is Outcome.FLAGGED
    what = "the response is not grounded in its sources" if flagged else "it could not be judged whether it is grounded"
    raise AssertionError(f"{what}\n\n{as_text(checked, legend=False)}")


@lru_cache(maxsize=8)
def _loaded(spec: str) -> Detector:
    from veridical.detectors import load_detector

    return load_detector(spec)
