"""The table of all detectors. Each family of detectors has a package here.

All detectors follow the same contract, which is described in `veridical.records.detector`. Each entry is a class (or an
object) with `name` and `judge`. A class that takes options also has `from_spec(spec, context)`, which builds a detector
from a `veridical.records.spec.Spec`.

The first line of the class's docstring is shown by `veridical detectors`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from veridical.records.detector import Detector, DetectorContext, Detectors, info_of
from veridical.records.errors import InputError
from veridical.records.registry import Registry
from veridical.records.spec import Spec, parse_spec

if TYPE_CHECKING:
    from veridical.llm.connection import Connection

__all__ = ["DETECTORS", "load_detector", "load_each"]

DETECTORS = Registry(
    "detector",
    {
        "calibrated": "veridical.detectors.calibrated:Calibrated",
        "default": "veridical.detectors.default.detector:Default",
        "entailment": "veridical.detectors.entailment.detector:Entailment",
        "hf": "veridical.detectors.published:Published",
        "judge": "veridical.detectors.claims.judge:Judge",
        "overlap": "veridical.detectors.overlap.detector:Overlap",
        "selfcheck": "veridical.detectors.claims.selfcheck:SelfCheck",
        "tokens": "veridical.detectors.tokens.detector:Tokens",
        "verify": "veridical.detectors.claims.verify:Verify",
    },
    group="veridical.detectors",
)


def load_each(detector: Detectors) -> list[Detector]:
    """Load one detector or several, and return them as a list.

    Args:
        detector: A spec, which is the name of a detector with its options ("verify:overlap"), a loaded detector, or a
            list of these. `check` takes the same values.

    Raises:
        InputError: The list is empty, or one of its items is neither a valid spec nor a detector.
    """
    several = isinstance(detector, Sequence) and not isinstance(detector, str)
    detectors = [load_detector(each) for each in (detector if several else [detector])]  # type: ignore[arg-type,union-attr]
    if not detectors:
        raise InputError("no detector is named", hint="leave it out for the one that comes with the package")
    return detectors


def load_detector(spec: str | Spec | Detector, connection: Connection | None = None) -> Detector:
    """Load the detector that a spec names. If you pass a detector, it is returned unchanged.

    Args:
        spec: The name of a detector, or "NAME:OPTIONS", as `veridical.records.spec` describes.
        connection: How to reach the chat model of the detector. Options in the spec override this.

    Raises:
        UnknownNameError: There is no such detector or option. The message suggests the closest names.
        InputError: The detector does not accept a value in the spec, or `spec` is not a detector.
    """
    if isinstance(spec, str | Spec):
        return _load(spec, DetectorContext(_load, connection))
    if not hasattr(spec, "judge") or not hasattr(spec, "name"):
        hint = "give a spec such as 'overlap', or an object with `name` and `judge`"
        raise InputError(f"a detector is of the type {type(spec).__name__}", hint=hint)
    return spec


def _load(spec: str | Spec, context: DetectorContext) -> Detector:
    parsed = parse_spec(spec) if isinstance(spec, str) else spec
    entry: Any = DETECTORS.load(parsed.name)
    if context.artifact is not None and info_of(entry).needs_chat_model:
        from veridical.llm.connection import REMOTE_OPTIONS

        for option in ("few_shot", "shots", *REMOTE_OPTIONS):
            if option in parsed.options:
                raise InputError(
                    f"{context.artifact} says {option}={parsed.options[option]}, and an artifact may not say how a "
                    "chat model is reached, nor name files",
                    hint="say it yourself: with --model and its options, or detector=SPEC",
                )
    if hasattr(entry, "from_spec"):
        detector: Detector = entry.from_spec(parsed, context)
        return detector
    parsed.accept()
    return entry() if isinstance(entry, type) else entry
