"""The detectors: one file a method, every one under the same contract (`veridical.core.types.Detector`).

An entry is a class with `from_spec(argument)`, which makes a detector from what stands behind the colon in
`name:argument` (None where there is none), `levels`, what it scores ("response", "span", "coverage"), and `grounded`,
whether it needs sources. One that can learn from labelled data before it is measured has `fit(examples)`; one whose
scores depend on more than its spec, such as files, has `fingerprint()`, which says on what. One that asks a chat model
(`asks`) takes a `Connection` beside its argument. The first line of its docstring is what `veridical detectors` prints.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from veridical.core.registry import Registry
from veridical.core.types import Detector

if TYPE_CHECKING:
    from veridical.llm.connection import Connection

__all__ = ["DETECTORS", "load_detector"]

DETECTORS = Registry(
    "detector",
    {
        "calibrated": "veridical.calibration.calibrated:Calibrated",
        "coin": "veridical.detectors.baselines:Coin",
        "judge": "veridical.detectors.claims.judge:Judge",
        "length": "veridical.detectors.baselines:Length",
        "logprob": "veridical.detectors.local.logprob:Logprob",
        "majority": "veridical.detectors.baselines:Majority",
        "overlap": "veridical.detectors.overlap.detector:Overlap",
        "probe": "veridical.detectors.local.probe:Probe",
        "salience": "veridical.detectors.local.salience:Salience",
        "selfcheck": "veridical.detectors.claims.selfcheck:SelfCheck",
        "verify": "veridical.detectors.claims.verify:Verify",
    },
    group="veridical.detectors",
)


def load_detector(spec: str, connection: Connection | None = None) -> Detector:
    """The detector that `spec` ("name" or "name:argument") names; `UnknownNameError` with near names otherwise.

    `connection` says how one that asks a chat model reaches it, where the spec does not.
    """
    cls, argument = DETECTORS.resolve(spec)
    asks = connection is not None and getattr(cls, "asks", False)
    detector: Detector = cls.from_spec(argument, connection) if asks else cls.from_spec(argument)
    return detector
