"""The detectors: one file a method, every one under the same contract (`veridical.core.types.Detector`).

An entry is a class with `from_spec(argument)`, which makes a detector from what stands behind the colon in
`name:argument` (None where there is none), `levels`, what it scores ("response", "span", "coverage"), and `grounded`,
whether it needs sources. One that can learn from labelled data before it is measured has `fit(examples)`. The first
line of its docstring is what `veridical detectors` prints.
"""

from __future__ import annotations

from veridical.core.registry import Registry
from veridical.core.types import Detector

__all__ = ["DETECTORS", "load_detector"]

DETECTORS = Registry(
    "detector",
    {
        "coin": "veridical.detectors.baselines:Coin",
        "judge": "veridical.detectors.judge:Judge",
        "length": "veridical.detectors.baselines:Length",
        "logprob": "veridical.detectors.logprob:Logprob",
        "majority": "veridical.detectors.baselines:Majority",
        "overlap": "veridical.detectors.overlap:Overlap",
        "probe": "veridical.detectors.probe:Probe",
        "salience": "veridical.detectors.salience:Salience",
        "selfcheck": "veridical.detectors.selfcheck:SelfCheck",
        "verify": "veridical.detectors.verify:Verify",
    },
    group="veridical.detectors",
)


def load_detector(spec: str) -> Detector:
    """The detector that `spec` ("name" or "name:argument") names; `UnknownNameError` with near names otherwise."""
    cls, argument = DETECTORS.resolve(spec)
    detector: Detector = cls.from_spec(argument)
    return detector
