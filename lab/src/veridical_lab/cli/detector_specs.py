"""Load the detector of commands that work with one kind of detector, by the same specs as `--detector` elsewhere."""

from __future__ import annotations

from veridical.records.detector import Detector


def load_of_kind(text: str, kind: str) -> Detector:
    """Load the detector of the spec `text`.

    Raises:
        InputError: The detector is not one of `kind`.
    """
    from veridical.detectors import load_detector
    from veridical.records.errors import InputError
    from veridical.records.spec import parse_spec

    spec = parse_spec(text)
    if spec.name != kind:
        raise InputError(f"the detector {text!r} is not {kind}", hint=f"write {kind}:FOLDER, with options after commas")
    return load_detector(spec)
